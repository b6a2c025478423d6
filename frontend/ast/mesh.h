// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Meshes in the tree: of kernels, `mesh (node: W / L, local: L);`, and in the ranks of tests,
// `ranks (8, (2, 4))`, where an entry is a call of its sizes.
#pragma once

#include "frontend/ast/ast_visitor.h"

#include "llvm/ADT/STLExtras.h"

#include <optional>

namespace dtile::ast {

/// What a mesh in the ranks of a test is a call of.
inline constexpr llvm::StringLiteral kMeshOfTest = "mesh";

/// The label of the axis that a plan, or a collective of `ensures`, goes along:
/// `plans.all_gather(x, along: local)`.
inline constexpr llvm::StringLiteral kAlongLabel = "along";

/// The call, where an entry is a mesh; null for a number.
[[nodiscard]] inline const CallExpr *meshOfTest(const Expr *entry) {
  const auto *call = llvm::dyn_cast<CallExpr>(entry);
  const auto *callee = call ? llvm::dyn_cast<NameExpr>(call->callee) : nullptr;
  // The parser's own, which is written where all of it is.
  return callee && callee->name == kMeshOfTest && callee->range == call->range ? call : nullptr;
}

/// The mesh among the clauses of a kernel, plan or overlap, or null.
[[nodiscard]] inline const MeshStmt *meshIn(llvm::ArrayRef<Stmt *> clauses) {
  for (const Stmt *clause : clauses)
    if (const auto *mesh = llvm::dyn_cast<MeshStmt>(clause))
      return mesh;
  return nullptr;
}

/// The mesh that a kernel says, or null.
[[nodiscard]] inline const MeshStmt *meshOf(const KernelDecl &kernel) {
  return meshIn(kernel.clauses);
}

/// The mesh of the first kernel with one that a test calls: its axes are known in the test by their
/// names. Null where there is none; `kernelOf` gives the kernel that a callee names, or null.
[[nodiscard]] inline const MeshStmt *
meshCalledIn(const BlockStmt &test, llvm::function_ref<const KernelDecl *(const Expr &)> kernelOf) {
  struct Finder : Walker<Finder> {
    explicit Finder(llvm::function_ref<const KernelDecl *(const Expr &)> kernelOf)
        : kernelOf(kernelOf) {}
    using Walker::visit;
    bool visit(const CallExpr &call) {
      const auto *generic = llvm::dyn_cast<GenericExpr>(call.callee);
      const Expr &callee = generic ? *generic->base : *call.callee;
      if (const KernelDecl *kernel = found ? nullptr : kernelOf(callee))
        found = meshOf(*kernel);
      return true;
    }
    llvm::function_ref<const KernelDecl *(const Expr &)> kernelOf;
    const MeshStmt *found = nullptr;
  };
  Finder finder(kernelOf);
  finder.walk(&test);
  return finder.found;
}

/// `local` of `rank(local)`, `num_ranks(local)` and `barrier(local)`: the name of an axis, which is
/// no value. Null for all else.
[[nodiscard]] inline const NameExpr *axisNamedBy(const Expr *e) {
  const auto *call = llvm::dyn_cast_or_null<CallExpr>(e);
  const auto *callee = call ? llvm::dyn_cast<NameExpr>(call->callee) : nullptr;
  if (!callee || call->args.size() != 1 || !call->args.front().label.name.empty() ||
      (callee->name != "rank" && callee->name != "num_ranks" && callee->name != "barrier"))
    return nullptr;
  return llvm::dyn_cast<NameExpr>(call->args.front().value);
}

/// Which axis' size a scalar parameter is: in the mesh above, L is that of the second one. Nothing
/// where it is none.
[[nodiscard]] inline std::optional<size_t> axisSizedBy(const KernelDecl &kernel,
                                                       const Param &param) {
  const MeshStmt *mesh = meshOf(kernel);
  if (!mesh || param.mode != ParamMode::Value)
    return std::nullopt;
  for (const auto [i, axis] : llvm::enumerate(mesh->axes))
    if (const auto *name = llvm::dyn_cast<NameExpr>(axis.extent);
        name && name->name == param.name.name)
      return i;
  return std::nullopt;
}

} // namespace dtile::ast
