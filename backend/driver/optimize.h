// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Passes over a module, and what they have to say.
#pragma once

#include "backend/driver/session.h"
#include "ir/core/ir.h"
#include "ir/protocol/check/promise.h"
#include "ir/transform/pipelines.h"

#include <memory>
#include <vector>

namespace dtile::driver {

/// IR with what it needs to live.
struct LoweredModule {
  std::unique_ptr<ir::TypeContext> types;
  std::unique_ptr<ir::Module> module;
  /// What passes decided.
  std::vector<passes::Remark> remarks;
  /// What its kernels ensure, where they come from a program.
  std::vector<protocol::Promise> promises;
};

/// The pass manager's name for a level.
[[nodiscard]] passes::OptLevel passLevel(OptLevel level);

/// One line a remark: `file:line:col: remark: text [pass]`.
void printRemarks(const Session &session, llvm::ArrayRef<passes::Remark> remarks,
                  llvm::raw_ostream &os);

/// Runs the pipeline of a level; false after reporting.
bool runPipeline(ir::Module &module, OptLevel level, passes::PassContext &context);
/// The same, and keeps the remarks.
bool optimize(Session &session, LoweredModule &lowered, OptLevel level);

} // namespace dtile::driver
