// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Kernels compiled for GPUs, in this process.
#pragma once

#include "backend/driver/options.h"
#include "backend/runtime/kernel_abi.h"
#include "ir/core/ir.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <memory>

namespace dtile::driver {

/// Compiled code of one kernel instance.
class DeviceCode {
public:
  virtual ~DeviceCode() = default;
  /// The kernel of that name, or null.
  [[nodiscard]] virtual const dtile_kernel_desc *find(llvm::StringRef name) const = 0;
};

/// The architecture that code is compiled for: what `--arch` names, or the best for the GPU of rank
/// 0. Empty for the host.
llvm::Expected<std::string> archOfDevices(const Options &options);

/// Compiles optimized IR for `--target` and `--arch`.
llvm::Expected<std::shared_ptr<DeviceCode>> compileForDevice(ir::Module &module,
                                                             const Options &options);

} // namespace dtile::driver
