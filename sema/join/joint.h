// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the steps of one join share. Private to sema/join.
#pragma once

#include "frontend/base/diagnostics.h"
#include "sema/join/join.h"
#include "sema/join/names.h"

#include <vector>

namespace dtile::join {

/// A plan, and the parameter of the kernel that it is joined with.
struct Stage {
  /// Null where a plan is checked by itself, and in a graph.
  const ast::OverlapJoin *clause = nullptr;
  /// Where it is joined.
  SourceRange at;
  const PlanSource *source = nullptr;
  const ast::PlanDecl *plan = nullptr;
  llvm::ArrayRef<ast::Arg> given;
  llvm::ArrayRef<ast::Arg> generics;
  Names names;
  /// Names of the plan that are other ones in the joined kernel.
  llvm::StringMap<llvm::StringRef> renames;

  /// Of the plan: the parameter that is joined.
  size_t tensor = 0;
  /// Of the kernel's parameter: the dimension that is made of parts.
  unsigned axis = 0;
  /// The plan's tensor has a first dimension more: the ranks.
  bool hasParts = false;
  /// How many of its last dimensions the plan's tensor has after the dimension of the parts.
  unsigned planDims = 0;
  /// Dimensions to put before the dimension of the parts, and sizes in place of the last one.
  llvm::SmallVector<ast::Expr *, 4> leading;
  std::optional<llvm::SmallVector<ast::Expr *, 4>> rest;
  /// The plan's names of the size of a part, and of the last dimension.
  llvm::StringRef partName;
  llvm::StringRef restName;

  [[nodiscard]] bool isAdapted() const { return !leading.empty() || rest.has_value(); }
};

/// A parameter of the kernel that is joined with a plan whose tensor has parts.
struct PartedTensor {
  llvm::StringRef name;
  unsigned axis = 0;
  /// Each rank has a part of it, or each one along this axis of the mesh.
  llvm::StringRef along;
  /// The size of the dimension in the kernel, and of a part.
  const ast::Expr *size = nullptr;
  const ast::Expr *partSize = nullptr;
  SourceRange clause;
  bool isProducer = false;
};

struct Joint {
  Joint(ast::Arena &arena, Diagnostics &diags)
      : arena(arena), diags(diags), fresh(arena), top(arena) {}

  ast::Arena &arena;
  Diagnostics &diags;
  const JoinSource *source = nullptr;
  const ast::KernelDecl *kernel = nullptr;
  Names kernelNames;
  /// All names, and those that all bodies see.
  Fresh fresh;
  Fresh top;
  /// Sizes and compile-time parameters that follow from others.
  Values values;
  std::vector<Stage> stages;
  std::vector<PartedTensor> parted;
  /// Null where a plan is checked by itself.
  Waits *waits = nullptr;
};

/// `W`, or the call that says the same where a name of the kernel hides it; of an axis
/// `num_ranks(axis)`.
[[nodiscard]] ast::Expr *numRanks(const Joint &joint, SourceRange at, llvm::StringRef along = {});
/// `rank()`, or `rank(axis)`
[[nodiscard]] ast::CallExpr *ownRank(const Joint &joint, SourceRange at,
                                     llvm::StringRef along = {});
/// `(rank() + hop) % W`
[[nodiscard]] ast::Expr *turned(const Joint &joint, SourceRange at, llvm::StringRef hop,
                                llvm::StringRef along = {});
/// Which ranks a number counts: of `num_ranks(local)` those along that axis, of `W` all, for which
/// the name is empty; nothing for all else.
[[nodiscard]] std::optional<llvm::StringRef> ranksCountedBy(const ast::Expr *e);

/// Replaces names by what they stand for. Everything is put at one place.
[[nodiscard]] ast::Expr *resolved(const Joint &joint, const ast::Expr *e, SourceRange at);

/// Finds the parameters that clauses join, and solves for sizes and types; false after reporting.
[[nodiscard]] bool unify(Joint &joint);

/// The kernel's roles, with what runs over joined dimensions divided into parts. Nothing after
/// reporting.
[[nodiscard]] bool divideParts(Joint &joint, llvm::SmallVectorImpl<ast::Role *> &roles);
/// The same for one role, which may be imported already.
[[nodiscard]] ast::Role *divideRole(Joint &joint, llvm::ArrayRef<PartedTensor> parted,
                                    const ast::Role *role);

/// A tensor that bodies of the joined kernel write and others read.
struct Published {
  llvm::StringRef name;
  llvm::ArrayRef<ast::Expr *> shape;
  /// What the plan calls it, and where.
  llvm::StringRef written;
  SourceRange range;
  bool isJoined = false;
};

/// A role, and whether it comes from a plan.
struct Body {
  ast::Role *role = nullptr;
  const Stage *stage = nullptr;
};

/// Where a plan only passes on the tiles that a kernel makes, the kernel sends them itself: the
/// role of the plan and the tensor between them go. `made` are tensors that kernels make.
void fuseStores(Joint &joint, llvm::ArrayRef<llvm::StringRef> made,
                llvm::SmallVectorImpl<Published> &tensors,
                llvm::SmallVectorImpl<ast::Param> &params, llvm::SmallVectorImpl<Body> &bodies);

/// Puts notifies after writes of published tensors, and waits before reads, and gives the signals
/// that these need; false after reporting.
[[nodiscard]] bool deriveSignals(Joint &joint, llvm::ArrayRef<Published> tensors,
                                 llvm::ArrayRef<ast::Stmt *> prologue,
                                 llvm::MutableArrayRef<Body> bodies,
                                 llvm::SmallVectorImpl<ast::Param> &signals);

} // namespace dtile::join
