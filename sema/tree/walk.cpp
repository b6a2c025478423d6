// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Walks over typed trees.
#include "sema/tree/walk.h"

namespace dtile::sema {

namespace {

struct Walk {
  llvm::function_ref<void(const TStmt &)> onStatement;
  llvm::function_ref<void(const TExpr &)> onExpression;

  void block(const TBlock &statements) {
    for (const TStmt *s : statements) {
      onStatement(*s);
      for (const TExpr *e : s->values)
        expression(e);
      for (const TExpr *e : s->after)
        expression(e);
      for (const TExpr *e : {s->target, s->lo, s->hi, s->condition})
        expression(e);
      for (const IndexItem &index : s->indices)
        expression(index.value);
      block(s->body);
      block(s->otherwise);
    }
  }

  void expression(const TExpr *e) { walkExpression(e, onExpression); }
};

} // namespace

void walkBlock(const TBlock &block, llvm::function_ref<void(const TStmt &)> statement,
               llvm::function_ref<void(const TExpr &)> expression) {
  Walk{statement, expression}.block(block);
}

bool touchesMemory(TExprKind kind) {
  switch (kind) {
  case TExprKind::Load:
  case TExprKind::Gather:
  case TExprKind::Put:
  case TExprKind::Get:
  case TExprKind::ReduceAdd:
  case TExprKind::Atomic:
    return true;
  default:
    return false;
  }
}

void walkExpression(const TExpr *expression, llvm::function_ref<void(const TExpr &)> visit) {
  if (!expression)
    return;
  visit(*expression);
  for (const TExpr *operand : expression->operands)
    walkExpression(operand, visit);
  for (const IndexItem &index : expression->indices)
    walkExpression(index.value, visit);
}

void walkBodies(const KernelInstance &kernel, llvm::function_ref<void(const TStmt &)> statement,
                llvm::function_ref<void(const TExpr &)> expression) {
  Walk walk{statement, expression};
  walk.block(kernel.prologue);
  for (const TSpace &space : kernel.spaces)
    walk.block(space.body);
}

} // namespace dtile::sema
