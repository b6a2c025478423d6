// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The host target: an IR module as code of this process, or as a file.
//
// Modules must be verified and free of calls (pass `inline`).
#pragma once

#include "backend/runtime/kernel_abi.h"
#include "backend/target.h"

#include "llvm/Support/Error.h"

#include <memory>
#include <string>

namespace dtile::backend::host {

/// How host code is made.
struct HostOptions {
  /// `native`, or a name that LLVM knows; `x86-64-v3` runs on every x86 server since 2015.
  std::string cpu = "native";
  /// 0 to 3.
  unsigned optLevel = 2;
  /// Line tables.
  bool debugInfo = false;
};

/// Kernels in executable memory. Outlives no launch that uses them.
class JitModule {
public:
  ~JitModule();
  JitModule(const JitModule &) = delete;
  JitModule &operator=(const JitModule &) = delete;

  /// The kernel of that name, or null.
  [[nodiscard]] const dtile_kernel_desc *find(llvm::StringRef name) const;

private:
  struct Impl;
  explicit JitModule(std::unique_ptr<Impl> impl);
  friend llvm::Expected<std::unique_ptr<JitModule>> jit(ir::Module &, const HostOptions &);
  std::unique_ptr<Impl> impl_;
};

/// Compiles a module into this process. `module` may go away afterwards.
llvm::Expected<std::unique_ptr<JitModule>> jit(ir::Module &module, const HostOptions &options);

/// Writes a module as a file. The same input gives the same bytes, but for `native` on another
/// machine.
llvm::Error emit(ir::Module &module, const HostOptions &options, EmitKind kind,
                 llvm::raw_pwrite_stream &os);

/// The C header that goes with a module's object file.
std::string cHeader(ir::Module &module, llvm::StringRef guard);

} // namespace dtile::backend::host
