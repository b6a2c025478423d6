// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Switching over node kinds, and walking children, both generated from ast_nodes.def.
#pragma once

#include "frontend/ast/ast.h"
#include "frontend/base/check.h"

#include <utility>

namespace dtile::ast {

/// Calls `visitor(const K &node)` for the kind that the expression has. A missing overload is a
/// compile error.
template <typename Visitor> decltype(auto) visitExpr(const Expr &expr, Visitor &&visitor) {
  switch (expr.kind) {
#define EXPR(NAME)                                                                                 \
  case NodeKind::NAME:                                                                             \
    return visitor(llvm::cast<NAME>(expr));
#define STMT(NAME) case NodeKind::NAME:
#define DECL(NAME) case NodeKind::NAME:
#include "frontend/ast/ast_nodes.def"
    break;
  }
  DTILE_UNREACHABLE("not an expression");
}

/// The same for statements.
template <typename Visitor> decltype(auto) visitStmt(const Stmt &stmt, Visitor &&visitor) {
  switch (stmt.kind) {
#define STMT(NAME)                                                                                 \
  case NodeKind::NAME:                                                                             \
    return visitor(llvm::cast<NAME>(stmt));
#define EXPR(NAME) case NodeKind::NAME:
#define DECL(NAME) case NodeKind::NAME:
#include "frontend/ast/ast_nodes.def"
    break;
  }
  DTILE_UNREACHABLE("not a statement");
}

/// The same for declarations.
template <typename Visitor> decltype(auto) visitDecl(const Decl &decl, Visitor &&visitor) {
  switch (decl.kind) {
#define DECL(NAME)                                                                                 \
  case NodeKind::NAME:                                                                             \
    return visitor(llvm::cast<NAME>(decl));
#define STMT(NAME) case NodeKind::NAME:
#define EXPR(NAME) case NodeKind::NAME:
#include "frontend/ast/ast_nodes.def"
    break;
  }
  DTILE_UNREACHABLE("not a declaration");
}

/// Walks a tree depth first, in source order. Derive, and hide the `visit` of the kinds of
/// interest: return false there to leave the children out.
///
///   struct CountCalls : Walker<CountCalls> {
///     using Walker::visit;
///     bool visit(const CallExpr &) { ++calls; return true; }
///     unsigned calls = 0;
///   };
template <typename Derived> class Walker {
public:
#define EXPR(NAME)                                                                                 \
  bool visit(const NAME &) { return true; }
#define STMT(NAME) EXPR(NAME)
#define DECL(NAME) EXPR(NAME)
#include "frontend/ast/ast_nodes.def"

  void walk(const Module &module) {
    for (const Decl *decl : module.decls)
      walk(decl);
  }
  void walk(const Decl *decl) {
    if (decl != nullptr)
      visitDecl(*decl, [this](const auto &node) {
        if (self().visit(node))
          children(node);
      });
  }
  void walk(const Stmt *stmt) {
    if (stmt != nullptr)
      visitStmt(*stmt, [this](const auto &node) {
        if (self().visit(node))
          children(node);
      });
  }
  void walk(const Expr *expr) {
    if (expr != nullptr)
      visitExpr(*expr, [this](const auto &node) {
        if (self().visit(node))
          children(node);
      });
  }

  template <typename T> void walk(llvm::ArrayRef<T> items) {
    for (const T &item : items)
      walk(item);
  }
  // Pointers to concrete nodes go through their base.
  void walk(const BlockStmt *block) { walk(static_cast<const Stmt *>(block)); }
  void walk(const ExpectStmt *expect) { walk(static_cast<const Stmt *>(expect)); }

private:
  Derived &self() { return static_cast<Derived &>(*this); }

  template <typename... Nodes> void each(const Nodes &...nodes) { (walk(nodes), ...); }
  void walk(const Arg &arg) { walk(arg.value); }
  void walk(const OverlapJoin &join) { walk(join.plan); }
  void walk(const OverlapStep &step) { walk(step.value); }
  void walk(const IterDim &dim) { each(dim.domain, dim.step); }
  void walk(const TypeRef *type) {
    if (type != nullptr)
      walk(type->shape);
  }
  void walk(const GenericParam &param) { each(param.type, param.defaultValue); }
  void walk(const Param &param) { each(param.type, param.init); }
  void walk(const OverClause *over) {
    if (over != nullptr)
      each(over->dims, over->programs, over->copyEngineIf);
  }
  void walk(const Role *role) {
    if (role != nullptr)
      each(role->over, role->body, role->whenAll);
  }

  void children(const IntLit &) {}
  void children(const FloatLit &) {}
  void children(const BoolLit &) {}
  void children(const StringLit &) {}
  void children(const NameExpr &) {}
  void children(const ErrorExpr &) {}
  void children(const UnaryExpr &e) { walk(e.operand); }
  void children(const BinaryExpr &e) { each(e.lhs, e.rhs); }
  void children(const CallExpr &e) { each(e.callee, e.args); }
  void children(const GenericExpr &e) { each(e.base, e.args); }
  void children(const IndexExpr &e) { each(e.base, e.indices); }
  void children(const MemberExpr &e) { walk(e.base); }
  void children(const RemoteExpr &e) { each(e.base, e.rank); }
  void children(const AfterExpr &e) { each(e.value, e.token); }
  void children(const RangeExpr &e) { each(e.lo, e.hi); }
  void children(const StepExpr &e) { each(e.whole, e.step); }
  void children(const ConditionalExpr &e) { each(e.condition, e.whenTrue, e.whenFalse); }

  void children(const LetStmt &s) { each(s.type, s.value); }
  void children(const VarStmt &s) { each(s.type, s.value); }
  void children(const AssignStmt &s) { each(s.target, s.value); }
  void children(const ExprStmt &s) { walk(s.value); }
  void children(const BlockStmt &s) { walk(s.statements); }
  void children(const ForStmt &s) { each(s.dim, s.body); }
  void children(const BreakStmt &) {}
  void children(const WhileStmt &s) { each(s.condition, s.body); }
  void children(const IfStmt &s) { each(s.condition, s.then, s.otherwise); }
  void children(const ReturnStmt &s) { walk(s.values); }
  void children(const YieldStmt &s) { walk(s.values); }
  void children(const AwaitStmt &s) { walk(s.token); }
  void children(const ExpectStmt &s) { each(s.condition, s.rtol, s.atol); }
  void children(const RequiresStmt &s) { walk(s.conditions); }
  void children(const MeshStmt &s) {
    for (const MeshAxis &axis : s.axes)
      each(axis.extent);
  }
  void children(const AssumeStmt &s) { walk(s.condition); }

  void children(const ImportDecl &) {}
  void children(const ConstDecl &d) { each(d.type, d.value); }
  void children(const FnDecl &d) { each(d.generics, d.params, d.results, d.body); }
  void children(const KernelDecl &d) {
    each(d.generics, d.params, d.clauses, d.prologue, d.roles, d.ensures);
  }
  void children(const PlanDecl &d) {
    each(d.generics, d.params, d.clauses, d.prologue, d.roles, d.ensures, d.alternatives);
  }
  void children(const OverlapDecl &d) {
    each(d.kernel, d.joins, d.generics, d.params, d.clauses, d.steps, d.ensures);
  }
  void children(const TestDecl &d) { each(d.ranks, d.body); }
  void children(const BenchDecl &d) { each(d.ranks, d.body); }
};

} // namespace dtile::ast
