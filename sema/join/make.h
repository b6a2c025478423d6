// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Makes small syntax trees. All nodes of one call stand at one place of the text.
#pragma once

#include "frontend/ast/ast.h"

#include <initializer_list>

namespace dtile::join {

struct Make {
  ast::Arena &arena;
  SourceRange at;

  ast::Expr *name(llvm::StringRef text) const {
    auto *e = arena.make<ast::NameExpr>(at);
    e->name = arena.copy(text);
    return e;
  }
  ast::Expr *number(uint64_t value) const {
    auto *e = arena.make<ast::IntLit>(at);
    e->value = value;
    return e;
  }
  ast::Expr *binary(ast::BinaryOp op, ast::Expr *lhs, ast::Expr *rhs) const {
    auto *e = arena.make<ast::BinaryExpr>(at);
    e->op = op;
    e->opRange = at;
    e->lhs = lhs;
    e->rhs = rhs;
    return e;
  }
  ast::Expr *member(ast::Expr *base, llvm::StringRef text) const {
    auto *e = arena.make<ast::MemberExpr>(at);
    e->base = base;
    e->member = {text, at};
    return e;
  }
  ast::CallExpr *call(ast::Expr *callee, llvm::ArrayRef<ast::Arg> args) const {
    auto *e = arena.make<ast::CallExpr>(at);
    e->callee = callee;
    e->args = arena.copy(args);
    return e;
  }
  ast::CallExpr *call(llvm::StringRef callee,
                      std::initializer_list<ast::Expr *> values = {}) const {
    llvm::SmallVector<ast::Arg, 4> args;
    for (ast::Expr *value : values)
      args.push_back({{}, value});
    return call(name(callee), args);
  }
  ast::Expr *index(ast::Expr *base, llvm::ArrayRef<ast::Expr *> indices) const {
    auto *e = arena.make<ast::IndexExpr>(at);
    e->base = base;
    e->indices = arena.copy(indices);
    return e;
  }
  ast::Expr *remote(ast::Expr *base, ast::Expr *rank) const {
    auto *e = arena.make<ast::RemoteExpr>(at);
    e->base = base;
    e->rank = rank;
    return e;
  }
  ast::Expr *after(ast::Expr *value, llvm::StringRef token) const {
    auto *e = arena.make<ast::AfterExpr>(at);
    e->value = value;
    e->token = name(token);
    return e;
  }
  ast::Expr *range(ast::Expr *lo, ast::Expr *hi) const {
    auto *e = arena.make<ast::RangeExpr>(at);
    e->lo = lo;
    e->hi = hi;
    return e;
  }
  /// `:`
  ast::Expr *whole() const { return range(nullptr, nullptr); }
  ast::Stmt *let(llvm::StringRef text, ast::Expr *value) const {
    auto *s = arena.make<ast::LetStmt>(at);
    const ast::Ident ident{arena.copy(text), at};
    s->names = arena.copy(llvm::ArrayRef<ast::Ident>(ident));
    s->value = value;
    return s;
  }
  ast::Stmt *statement(ast::Expr *value) const {
    auto *s = arena.make<ast::ExprStmt>(at);
    s->value = value;
    return s;
  }
  ast::Stmt *await(ast::Expr *token) const {
    auto *s = arena.make<ast::AwaitStmt>(at);
    s->token = token;
    return s;
  }
  ast::Stmt *loop(llvm::StringRef variable, ast::Expr *domain,
                  llvm::ArrayRef<ast::Stmt *> body) const {
    auto *s = arena.make<ast::ForStmt>(at);
    s->dim.name = {arena.copy(variable), at};
    s->dim.domain = domain;
    s->body = arena.make<ast::BlockStmt>(at);
    s->body->statements = arena.copy(body);
    return s;
  }
};

/// The name that an expression is; empty for all else.
inline llvm::StringRef nameOf(const ast::Expr *e) {
  const auto *name = llvm::dyn_cast_or_null<ast::NameExpr>(e);
  return name == nullptr ? llvm::StringRef() : name->name;
}
inline bool isWhole(const ast::Expr *e) {
  const auto *range = llvm::dyn_cast_or_null<ast::RangeExpr>(e);
  return range != nullptr && range->lo == nullptr && range->hi == nullptr;
}

} // namespace dtile::join
