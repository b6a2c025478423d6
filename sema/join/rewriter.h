// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copies syntax trees with changes. Places stay those of the original text.
#pragma once

#include "frontend/ast/ast.h"

#include "llvm/ADT/SmallVector.h"

namespace dtile::join {

/// A loop of which nothing says how often it runs.
[[nodiscard]] bool isOpenEnded(const ast::Stmt &s);

/// Derive, and override what should become something else.
class Rewriter {
public:
  explicit Rewriter(ast::Arena &arena) : arena_(arena) {}
  virtual ~Rewriter() = default;
  Rewriter(const Rewriter &) = delete;
  Rewriter &operator=(const Rewriter &) = delete;

  /// Null stays null, everywhere.
  ast::Expr *expr(const ast::Expr *e);
  ast::Stmt *stmt(const ast::Stmt *s);
  ast::BlockStmt *block(const ast::BlockStmt *b);
  ast::Role *role(const ast::Role *r);
  ast::TypeRef *type(const ast::TypeRef *t);
  ast::Param param(const ast::Param &p);
  ast::GenericParam generic(const ast::GenericParam &g);
  ast::ExpectStmt *expectation(const ast::ExpectStmt *s);
  llvm::ArrayRef<ast::Stmt *> stmts(llvm::ArrayRef<ast::Stmt *> list);
  llvm::ArrayRef<ast::Expr *> exprs(llvm::ArrayRef<ast::Expr *> list);

protected:
  /// What stands in place of an expression; null for a copy of it.
  virtual ast::Expr *replaced(const ast::Expr &) { return nullptr; }
  /// The same for a statement.
  virtual ast::Stmt *replacedStmt(const ast::Stmt &) { return nullptr; }
  /// The statements of a block.
  virtual void list(llvm::ArrayRef<ast::Stmt *> from, llvm::SmallVectorImpl<ast::Stmt *> &to);
  virtual ast::OverClause *over(const ast::OverClause *o);
  /// A declared name, or the name of a type.
  virtual ast::Ident ident(const ast::Ident &name) { return name; }

  /// The copy that `replaced` declined to change.
  ast::Expr *copied(const ast::Expr &e);
  ast::Stmt *copiedStmt(const ast::Stmt &s);
  ast::IterDim dim(const ast::IterDim &d);
  llvm::ArrayRef<ast::Arg> args(llvm::ArrayRef<ast::Arg> list);
  llvm::ArrayRef<ast::Ident> idents(llvm::ArrayRef<ast::Ident> list);

  ast::Arena &arena_;
  /// Where all copies stand; invalid where each keeps its own place.
  SourceRange place_;

private:
  friend struct ExprCopier;
  friend struct StmtCopier;
};

} // namespace dtile::join
