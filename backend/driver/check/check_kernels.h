// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Kernels as `check` and the language server check them.
#pragma once

#include "ir/core/ir.h"
#include "ir/protocol/check/check_protocol.h"
#include "sema/sema.h"

#include <optional>
#include <set>

namespace dtile::driver {

/// A kernel to check; which of its values stand for what only a caller knows.
struct CheckedKernel {
  const sema::KernelInstance *instance = nullptr;
  std::set<llvm::StringRef> standIns;
};

/// A kernel that needs values from its caller, with stand-ins for those that are not given: the
/// first that it takes. No instance where it takes none.
CheckedKernel instantiateAlone(sema::Program &program, const ast::KernelDecl &kernel,
                               const sema::GenericArgs &given, const SourceManager &sources);

/// Checks the kernels of a module that was lowered from `instances`, before any pass; passes are
/// run on it. What `checks` asks of schedules, promises and fix-its follows from these. Nothing
/// after reporting what passes refuse.
std::optional<std::vector<protocol::Verdict>>
checkInstances(ir::Module &module, llvm::ArrayRef<const sema::KernelInstance *> instances,
               const SourceManager &sources, protocol::CheckOptions checks,
               Diagnostics &diagnostics);

} // namespace dtile::driver
