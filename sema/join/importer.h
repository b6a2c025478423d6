// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copies a kernel's or plan's parts with the names that they have in the joined kernel. Private to
// sema/join.
#pragma once

#include "sema/join/joint.h"
#include "sema/join/rewriter.h"

namespace dtile::join {

class Importer : public Rewriter {
public:
  /// `stage` is null for what keeps its names.
  Importer(const Joint &joint, const Names &names, const Home &home, const Stage *stage)
      : Rewriter(joint.arena), joint_(joint), names_(names), home_(home), stage_(stage) {}

  /// A parameter of the plan, for tensors of as many dimensions as the kernel's.
  ast::Param adapted(const ast::Param &param);

protected:
  ast::Ident ident(const ast::Ident &name) override;
  ast::Expr *replaced(const ast::Expr &e) override;

private:
  llvm::ArrayRef<ast::Expr *> adaptedDims(const ast::Param &param,
                                          llvm::ArrayRef<ast::Expr *> items,
                                          llvm::function_ref<ast::Expr *(ast::Expr *)> value);
  bool hasPart(const ast::Param &param) const;
  ast::Expr *adaptedIndex(const ast::IndexExpr &e);

  const Joint &joint_;
  const Names &names_;
  const Home &home_;
  const Stage *stage_;
};

/// Puts what tensors are in place of their names, in `ensures`.
class Composer : public Rewriter {
public:
  explicit Composer(ast::Arena &arena) : Rewriter(arena) {}
  llvm::StringMap<const ast::Expr *> known;
  llvm::StringSet<> unknown;
  /// What mentions an unknown tensor says nothing, and is left out.
  bool isComplete = true;

protected:
  ast::Expr *replaced(const ast::Expr &e) override;
};

/// `ensures x ~= f(y)`, if a plan or kernel says so what `x` is; null otherwise.
[[nodiscard]] const ast::BinaryExpr *promiseOf(llvm::ArrayRef<ast::ExpectStmt *> ensures,
                                               llvm::StringRef tensor);

/// The names of types that a plan uses without saying what they are: they follow from what it is
/// joined with.
[[nodiscard]] llvm::SmallVector<ast::Ident, 2> openTypes(const ast::PlanDecl &plan);

} // namespace dtile::join
