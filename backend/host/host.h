// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The host target: an IR module as code of this process, or as a file.
//
// Modules must be verified and free of calls (pass `inline`).
#pragma once

#include "backend/launch/loaded_kernels.h"
#include "backend/target.h"

#include "llvm/Support/Error.h"

#include <memory>
#include <string>

namespace dtile::backend::host {

/// How host code is made.
struct HostOptions {
  /// As in launch::PackageOptions.
  std::string cpu = "native";
  /// 0 to 3.
  unsigned optLevel = 2;
  /// Line tables.
  bool debugInfo = false;
  /// Bodies can be traced. Without it, code has no call for that.
  bool isTraced = false;
};

/// Kernels in executable memory. Outlives no launch that uses them.
using JitModule = launch::LoadedKernels;

/// Compiles a module into this process. `module` may go away afterwards.
llvm::Expected<std::unique_ptr<JitModule>> jit(ir::Module &module, const HostOptions &options);

/// Writes a module as a file. The same input gives the same bytes, but for `native` on another
/// machine.
llvm::Error emit(ir::Module &module, const HostOptions &options, EmitKind kind,
                 llvm::raw_pwrite_stream &os);

/// The C header that goes with a module's object file.
std::string cHeader(ir::Module &module, llvm::StringRef guard);

} // namespace dtile::backend::host
