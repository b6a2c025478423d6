// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Kernels in executable memory of this process.
#pragma once

#include "backend/runtime/kernel_abi.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <memory>
#include <string>

namespace dtile::backend::launch {

/// An object file, loaded. Outlives no launch that uses it.
class LoadedKernels {
public:
  ~LoadedKernels();
  LoadedKernels(const LoadedKernels &) = delete;
  LoadedKernels &operator=(const LoadedKernels &) = delete;

  /// Loads an object file for this machine and finds the descriptors of these kernels. The runtime
  /// is this process's.
  static llvm::Expected<std::unique_ptr<LoadedKernels>> load(llvm::SmallVector<char, 0> object,
                                                             llvm::ArrayRef<std::string> kernels);
  /// The kernel of that name, or null.
  [[nodiscard]] const dtile_kernel_desc *find(llvm::StringRef name) const;

private:
  struct Impl;
  explicit LoadedKernels(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

} // namespace dtile::backend::launch
