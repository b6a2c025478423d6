// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Joins a kernel with plans: gives a tree that all later phases take for a written kernel.
#pragma once

#include "frontend/ast/ast.h"
#include "frontend/base/diagnostics.h"

#include <functional>

namespace dtile::join {

/// What the file of a declaration means by a name that the declaration does not define.
struct Home {
  /// The name's meaning in the file, said in the file of the overlap (`helper` may be `lib.helper`
  /// there); null where it has none.
  std::function<ast::Expr *(llvm::StringRef name, SourceRange at)> qualified;
};

struct PlanSource {
  /// Null where the clause names no plan; that was reported.
  const ast::PlanDecl *plan = nullptr;
  Home home;
  /// It is a kernel in the form of a plan: it may have signals, and only what is joined is
  /// published.
  bool isKernel = false;
  /// The axis that it goes along, and where that is said; empty where it is for all ranks.
  llvm::StringRef along{};
  SourceRange alongRange{};
};

/// A kernel as what brings `x` in `a <- kernel(…)`: its output is the last parameter. Null unless
/// it has one output.
[[nodiscard]] const ast::PlanDecl *planOfKernel(const ast::KernelDecl &kernel, bool isProducer,
                                                ast::Arena &arena);

/// What a join does with waits between plans and the kernel.
struct Waits {
  /// Bodies wait for all of a tensor at once, so that movement and computation follow each other.
  bool areForAll = false;
  /// Set by the join: some wait is for less where bodies need less.
  bool differ = false;
};

struct JoinSource {
  const ast::OverlapDecl *overlap = nullptr;
  const ast::KernelDecl *kernel = nullptr;
  /// The kernel's, and the overlap's own.
  Home home;
  Home overlapHome;
  /// One a clause of the overlap.
  llvm::ArrayRef<PlanSource> plans;
  Waits *waits = nullptr;
};

/// An overlap that has a body.
struct GraphSource {
  const ast::OverlapDecl *overlap = nullptr;
  Home home;
  /// What a step calls; no plan after reporting.
  std::function<PlanSource(const ast::CallExpr &call)> find;
  Waits *waits = nullptr;
};

/// The joined kernel; null after reporting.
[[nodiscard]] ast::KernelDecl *joinKernel(const JoinSource &source, ast::Arena &arena,
                                          Diagnostics &diags);

[[nodiscard]] ast::KernelDecl *joinGraph(const GraphSource &source, ast::Arena &arena,
                                         Diagnostics &diags);

/// A plan as a kernel that nobody reads from, to check it by itself; null after reporting.
[[nodiscard]] ast::KernelDecl *planAlone(const PlanSource &source, ast::Arena &arena,
                                         Diagnostics &diags);

} // namespace dtile::join
