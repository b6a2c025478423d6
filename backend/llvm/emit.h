// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// From an LLVM module to what is asked for: the optimizer's pipeline and the output formats.
#pragma once

#include "backend/target.h"

#include "llvm/IR/Module.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Target/TargetMachine.h"

#include <memory>
#include <string>

namespace dtile::backend {

/// What code is generated for. The LLVM target must have been initialized.
struct MachineOptions {
  std::string triple;
  std::string cpu;
  std::string features;
  unsigned optLevel = 2;
  /// Code that runs where it was made: nothing needs to be laid out for a linker.
  bool jit = false;
};
llvm::Expected<std::unique_ptr<llvm::TargetMachine>> createMachine(const MachineOptions &options);

/// Names the first mistake that lowering made, if any: a bug of ours, reported rather than
/// miscompiled.
llvm::Error verifyModule(const llvm::Module &module);

/// Runs the passes that a text in LLVM's notation names, for a machine or for any (null).
void runPasses(llvm::Module &module, llvm::TargetMachine *machine, llvm::StringRef pipeline);

/// Runs LLVM's passes: a short pipeline, or LLVM's own at level 3. Loops over tiles are vectors
/// already, so the vectorizers stay off.
void optimize(llvm::Module &module, llvm::TargetMachine &machine, unsigned optLevel);

/// Writes an optimized module, without some passes of the machine's code generator, by LLVM's names
/// of them. Fails when the machine cannot write that kind.
llvm::Error emitModule(llvm::Module &module, llvm::TargetMachine &machine, EmitKind kind,
                       llvm::raw_pwrite_stream &os,
                       llvm::ArrayRef<llvm::StringLiteral> without = {});

} // namespace dtile::backend
