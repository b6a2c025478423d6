// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One copy function a kind of node.
#include "sema/join/rewriter.h"

#include "frontend/ast/ast_visitor.h"
#include "frontend/ast/mesh.h"

namespace dtile::join {

struct ExprCopier {
  Rewriter &r;

  template <typename T> T *made(const T &e) {
    return r.arena_.make<T>(r.place_.isValid() ? r.place_ : e.range);
  }

  template <typename T> ast::Expr *leaf(const T &e) {
    T *copy = made(e);
    copy->value = e.value;
    return copy;
  }
  ast::Expr *operator()(const ast::IntLit &e) { return leaf(e); }
  ast::Expr *operator()(const ast::FloatLit &e) { return leaf(e); }
  ast::Expr *operator()(const ast::BoolLit &e) { return leaf(e); }
  ast::Expr *operator()(const ast::StringLit &e) { return leaf(e); }
  ast::Expr *operator()(const ast::ErrorExpr &e) { return made(e); }
  ast::Expr *operator()(const ast::NameExpr &e) {
    auto *copy = made(e);
    copy->name = e.name;
    return copy;
  }
  ast::Expr *operator()(const ast::UnaryExpr &e) {
    auto *copy = made(e);
    copy->op = e.op;
    copy->operand = r.expr(e.operand);
    return copy;
  }
  ast::Expr *operator()(const ast::BinaryExpr &e) {
    auto *copy = made(e);
    copy->op = e.op;
    copy->opRange = e.opRange;
    copy->lhs = r.expr(e.lhs);
    copy->rhs = r.expr(e.rhs);
    return copy;
  }
  ast::Expr *operator()(const ast::CallExpr &e) {
    auto *copy = made(e);
    if (const ast::NameExpr *axis = ast::axisNamedBy(&e)) {
      // Axes have names of their own, which nothing hides.
      copy->callee = (*this)(llvm::cast<ast::NameExpr>(*e.callee));
      const ast::Arg arg{{}, (*this)(*axis)};
      copy->args = r.arena_.copy(llvm::ArrayRef<ast::Arg>(arg));
      return copy;
    }
    copy->callee = r.expr(e.callee);
    copy->args = r.args(e.args);
    return copy;
  }
  ast::Expr *operator()(const ast::GenericExpr &e) {
    auto *copy = made(e);
    copy->base = r.expr(e.base);
    copy->args = r.args(e.args);
    return copy;
  }
  ast::Expr *operator()(const ast::IndexExpr &e) {
    auto *copy = made(e);
    copy->base = r.expr(e.base);
    copy->indices = r.exprs(e.indices);
    return copy;
  }
  ast::Expr *operator()(const ast::MemberExpr &e) {
    auto *copy = made(e);
    copy->base = r.expr(e.base);
    copy->member = e.member;
    return copy;
  }
  ast::Expr *operator()(const ast::RemoteExpr &e) {
    auto *copy = made(e);
    copy->base = r.expr(e.base);
    copy->rank = r.expr(e.rank);
    return copy;
  }
  ast::Expr *operator()(const ast::AfterExpr &e) {
    auto *copy = made(e);
    copy->value = r.expr(e.value);
    copy->token = r.expr(e.token);
    return copy;
  }
  ast::Expr *operator()(const ast::RangeExpr &e) {
    auto *copy = made(e);
    copy->lo = r.expr(e.lo);
    copy->hi = r.expr(e.hi);
    return copy;
  }
  ast::Expr *operator()(const ast::StepExpr &e) {
    auto *copy = made(e);
    copy->whole = llvm::cast<ast::RangeExpr>(r.expr(e.whole));
    copy->step = r.expr(e.step);
    return copy;
  }
  ast::Expr *operator()(const ast::ConditionalExpr &e) {
    auto *copy = made(e);
    copy->condition = r.expr(e.condition);
    copy->whenTrue = r.expr(e.whenTrue);
    copy->whenFalse = r.expr(e.whenFalse);
    return copy;
  }
};

struct StmtCopier {
  Rewriter &r;

  template <typename T> T *made(const T &s) { return r.arena_.make<T>(s.range); }

  ast::Stmt *operator()(const ast::LetStmt &s) {
    auto *copy = made(s);
    copy->value = r.expr(s.value);
    copy->type = r.type(s.type);
    copy->names = r.idents(s.names);
    return copy;
  }
  ast::Stmt *operator()(const ast::VarStmt &s) {
    auto *copy = made(s);
    copy->value = r.expr(s.value);
    copy->type = r.type(s.type);
    copy->name = r.ident(s.name);
    return copy;
  }
  ast::Stmt *operator()(const ast::AssignStmt &s) {
    auto *copy = made(s);
    copy->target = r.expr(s.target);
    copy->isCompound = s.isCompound;
    copy->op = s.op;
    copy->opRange = s.opRange;
    copy->value = r.expr(s.value);
    return copy;
  }
  ast::Stmt *operator()(const ast::ExprStmt &s) {
    auto *copy = made(s);
    copy->value = r.expr(s.value);
    return copy;
  }
  ast::Stmt *operator()(const ast::BlockStmt &s) { return r.block(&s); }
  ast::Stmt *operator()(const ast::ForStmt &s) {
    auto *copy = made(s);
    copy->dim = r.dim(s.dim);
    copy->isUnordered = s.isUnordered;
    copy->body = r.block(s.body);
    return copy;
  }
  ast::Stmt *operator()(const ast::BreakStmt &s) {
    auto *copy = made(s);
    copy->isContinue = s.isContinue;
    return copy;
  }
  ast::Stmt *operator()(const ast::WhileStmt &s) {
    auto *copy = made(s);
    copy->condition = r.expr(s.condition);
    copy->body = r.block(s.body);
    return copy;
  }
  ast::Stmt *operator()(const ast::IfStmt &s) {
    auto *copy = made(s);
    copy->condition = r.expr(s.condition);
    copy->then = r.block(s.then);
    copy->otherwise = r.stmt(s.otherwise);
    return copy;
  }
  template <typename T> ast::Stmt *values(const T &s) {
    auto *copy = made(s);
    copy->values = r.exprs(s.values);
    return copy;
  }
  ast::Stmt *operator()(const ast::ReturnStmt &s) { return values(s); }
  ast::Stmt *operator()(const ast::YieldStmt &s) { return values(s); }
  ast::Stmt *operator()(const ast::AwaitStmt &s) {
    auto *copy = made(s);
    copy->token = r.expr(s.token);
    return copy;
  }
  ast::Stmt *operator()(const ast::ExpectStmt &s) { return r.expectation(&s); }
  ast::Stmt *operator()(const ast::RequiresStmt &s) {
    auto *copy = made(s);
    copy->conditions = r.exprs(s.conditions);
    return copy;
  }
  ast::Stmt *operator()(const ast::MeshStmt &s) {
    auto *copy = made(s);
    llvm::SmallVector<ast::MeshAxis, 3> axes;
    for (const ast::MeshAxis &axis : s.axes)
      axes.push_back({axis.name, r.expr(axis.extent)});
    copy->axes = r.arena_.copy(llvm::ArrayRef<ast::MeshAxis>(axes));
    return copy;
  }
  ast::Stmt *operator()(const ast::AssumeStmt &s) {
    auto *copy = made(s);
    copy->condition = r.expr(s.condition);
    copy->because = s.because;
    return copy;
  }
};

ast::Expr *Rewriter::expr(const ast::Expr *e) {
  if (e == nullptr)
    return nullptr;
  if (ast::Expr *other = replaced(*e))
    return other;
  return copied(*e);
}

ast::Expr *Rewriter::copied(const ast::Expr &e) { return ast::visitExpr(e, ExprCopier{*this}); }

ast::Stmt *Rewriter::stmt(const ast::Stmt *s) {
  if (s == nullptr)
    return nullptr;
  if (ast::Stmt *other = replacedStmt(*s))
    return other;
  return copiedStmt(*s);
}

ast::Stmt *Rewriter::copiedStmt(const ast::Stmt &s) { return ast::visitStmt(s, StmtCopier{*this}); }

void Rewriter::list(llvm::ArrayRef<ast::Stmt *> from, llvm::SmallVectorImpl<ast::Stmt *> &to) {
  for (const ast::Stmt *one : from)
    to.push_back(stmt(one));
}

ast::BlockStmt *Rewriter::block(const ast::BlockStmt *b) {
  if (b == nullptr)
    return nullptr;
  auto *copy = arena_.make<ast::BlockStmt>(b->range);
  copy->statements = stmts(b->statements);
  return copy;
}

llvm::ArrayRef<ast::Stmt *> Rewriter::stmts(llvm::ArrayRef<ast::Stmt *> from) {
  llvm::SmallVector<ast::Stmt *, 16> to;
  list(from, to);
  return arena_.copy(llvm::ArrayRef<ast::Stmt *>(to));
}

llvm::ArrayRef<ast::Expr *> Rewriter::exprs(llvm::ArrayRef<ast::Expr *> from) {
  llvm::SmallVector<ast::Expr *, 4> to;
  for (const ast::Expr *one : from)
    to.push_back(expr(one));
  return arena_.copy(llvm::ArrayRef<ast::Expr *>(to));
}

llvm::ArrayRef<ast::Arg> Rewriter::args(llvm::ArrayRef<ast::Arg> from) {
  llvm::SmallVector<ast::Arg, 4> to;
  for (const ast::Arg &one : from)
    to.push_back({one.label, expr(one.value)});
  return arena_.copy(llvm::ArrayRef<ast::Arg>(to));
}

llvm::ArrayRef<ast::Ident> Rewriter::idents(llvm::ArrayRef<ast::Ident> from) {
  llvm::SmallVector<ast::Ident, 4> to;
  for (const ast::Ident &one : from)
    to.push_back(ident(one));
  return arena_.copy(llvm::ArrayRef<ast::Ident>(to));
}

ast::TypeRef *Rewriter::type(const ast::TypeRef *t) {
  if (t == nullptr)
    return nullptr;
  auto *copy = arena_.makePlain<ast::TypeRef>();
  *copy = *t;
  copy->name = ident(t->name);
  copy->shape = exprs(t->shape);
  return copy;
}

ast::Param Rewriter::param(const ast::Param &p) {
  ast::Param copy = p;
  copy.name = ident(p.name);
  copy.type = type(p.type);
  copy.init = expr(p.init);
  return copy;
}

ast::GenericParam Rewriter::generic(const ast::GenericParam &g) {
  ast::GenericParam copy = g;
  copy.name = ident(g.name);
  copy.type = type(g.type);
  copy.defaultValue = expr(g.defaultValue);
  return copy;
}

ast::IterDim Rewriter::dim(const ast::IterDim &d) {
  ast::IterDim copy;
  copy.domain = expr(d.domain);
  copy.step = expr(d.step);
  copy.name = ident(d.name);
  return copy;
}

ast::OverClause *Rewriter::over(const ast::OverClause *o) {
  if (o == nullptr)
    return nullptr;
  auto *copy = arena_.makePlain<ast::OverClause>();
  *copy = *o;
  llvm::SmallVector<ast::IterDim, 4> dims;
  for (const ast::IterDim &one : o->dims)
    dims.push_back(dim(one));
  copy->dims = arena_.copy(llvm::ArrayRef<ast::IterDim>(dims));
  copy->programs = expr(o->programs);
  copy->copyEngineIf = expr(o->copyEngineIf);
  return copy;
}

ast::Role *Rewriter::role(const ast::Role *r) {
  if (r == nullptr)
    return nullptr;
  auto *copy = arena_.makePlain<ast::Role>();
  *copy = *r;
  copy->name = ident(r->name);
  copy->over = over(r->over);
  copy->joined = idents(r->joined);
  copy->body = block(r->body);
  copy->whenAll = role(r->whenAll);
  return copy;
}

ast::ExpectStmt *Rewriter::expectation(const ast::ExpectStmt *s) {
  auto *copy = arena_.make<ast::ExpectStmt>(s->range);
  copy->condition = expr(s->condition);
  copy->rtol = expr(s->rtol);
  copy->atol = expr(s->atol);
  copy->isEnsures = s->isEnsures;
  return copy;
}

bool isOpenEnded(const ast::Stmt &s) { return llvm::isa<ast::WhileStmt>(s); }

} // namespace dtile::join
