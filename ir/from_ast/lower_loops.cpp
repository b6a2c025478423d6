// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Loops. A loop over positions that `break` leaves asks its flag before each iteration, in one of
// two forms. One that only computes becomes a `while`, which ends at once. One that communicates
// stays a `for` whose body is an `if`: so the checker keeps the bounds of its positions.
#include "ir/from_ast/lowering.h"

#include "sema/tree/walk.h"

namespace dtile::ir {

using sema::TStmt;
using sema::TStmtKind;

namespace {

bool communicates(const sema::TBlock &block);

bool communicates(const sema::TExpr *expr) {
  bool found = false;
  sema::walkExpression(expr, [&](const sema::TExpr &one) {
    switch (one.kind) {
    case sema::TExprKind::Put:
    case sema::TExprKind::Get:
    case sema::TExprKind::ReduceAdd:
    case sema::TExprKind::Wait:
    case sema::TExprKind::Atomic:
    case sema::TExprKind::Remote:
      found = true;
      return;
    default:
      return;
    }
  });
  return found;
}

bool communicates(const TStmt &stmt) {
  if (stmt.kind == TStmtKind::Notify || stmt.kind == TStmtKind::Await ||
      stmt.kind == TStmtKind::Sync)
    return true;
  const auto any = [](auto list) {
    return llvm::any_of(list, [](const sema::TExpr *expr) { return communicates(expr); });
  };
  return any(llvm::ArrayRef(stmt.values)) || any(llvm::ArrayRef(stmt.after)) ||
         communicates(stmt.target) || communicates(stmt.body) || communicates(stmt.otherwise);
}

bool communicates(const sema::TBlock &block) {
  return llvm::any_of(block, [](const TStmt *stmt) { return communicates(*stmt); });
}

} // namespace

void Lowering::forLoop(const TStmt &stmt) {
  if (stmt.condition != nullptr && !communicates(stmt.body))
    return leftLoop(stmt);
  Value *first = value(*stmt.lo);
  Value *limit = value(*stmt.hi);
  const int64_t length = stmt.blockLength;
  Value *step = stmt.step ? value(*stmt.step) : builder_.constIndex(length > 0 ? length : 1);
  const llvm::ArrayRef<const sema::Variable *> carried = carriedBy(stmt);
  Values operands = {first, limit, step};
  appendCurrent(carried, operands);
  llvm::SmallVector<Type, 4> types;
  for (Value *value : llvm::ArrayRef(operands).drop_front(3))
    types.push_back(value->type());
  Op *op = builder_.op(OpKind::For, operands, types);
  if (stmt.isArrivals)
    op->set(attr::arrivals, true);
  {
    const InsertionGuard guard(builder_);
    Block &body = op->body();
    builder_.setInsertionPointToEnd(body);
    Value *position = body.addArgument(builder_.types().index(), stmt.vars.front()->name);
    bindLoopVariable(stmt, position, first, limit);
    for (const sema::Variable *name : carried)
      bindToArguments(body, *name);
    if (stmt.condition != nullptr)
      guarded(stmt, carried);
    else
      block(stmt.body);
    Values next;
    appendCurrent(carried, next);
    builder_.op(OpKind::Yield, next);
  }
  rebind(carried, op->results());
}

void Lowering::bindLoopVariable(const TStmt &stmt, Value *position, Value *first, Value *limit) {
  Lowered bound;
  if (stmt.blockLength > 0) {
    bound.range.first = bound.range.unshiftedFirst = bound.range.indexPosition = position;
    bound.range.limit = bound.range.unshiftedLimit = limit;
    bound.range.length = bound.range.indexStep = stmt.blockLength;
    bound.range.indexOrigin = first;
  } else {
    bound.value = position;
  }
  bind(*stmt.vars.front(), std::move(bound));
}

// A loop over positions that `break` leaves: a `while` that carries the position.
void Lowering::leftLoop(const TStmt &stmt) {
  Value *first = value(*stmt.lo);
  Value *limit = value(*stmt.hi);
  Value *step = value(*stmt.step);
  const llvm::ArrayRef<const sema::Variable *> carried = carriedBy(stmt);
  const llvm::StringRef name = stmt.vars.front()->name;
  Values initial = {first};
  appendCurrent(carried, initial);
  llvm::SmallVector<Type, 4> types;
  for (Value *value : initial)
    types.push_back(value->type());
  Op *op = builder_.op(OpKind::While, initial, types);
  {
    const InsertionGuard guard(builder_);
    Block &test = op->body(0);
    builder_.setInsertionPointToEnd(test);
    Value *position = test.addArgument(builder_.types().index(), name);
    for (const sema::Variable *variable : carried)
      bindToArguments(test, *variable);
    Value *isInside = builder_.cmp("lt", position, limit);
    Values tested = {builder_.value(OpKind::And, {isInside, value(*stmt.condition)})};
    tested.push_back(position);
    appendCurrent(carried, tested);
    builder_.op(OpKind::Condition, tested);

    Block &body = op->body(1);
    builder_.setInsertionPointToEnd(body);
    position = body.addArgument(builder_.types().index(), name);
    bindLoopVariable(stmt, position, first, limit);
    for (const sema::Variable *variable : carried)
      bindToArguments(body, *variable);
    block(stmt.body);
    Values next = {builder_.value(OpKind::Add, {position, step})};
    appendCurrent(carried, next);
    builder_.op(OpKind::Yield, next);
  }
  rebind(carried, llvm::ArrayRef(op->results()).drop_front());
}

void Lowering::whileLoop(const TStmt &stmt) {
  const llvm::ArrayRef<const sema::Variable *> carried = carriedBy(stmt);
  Values initial;
  appendCurrent(carried, initial);
  llvm::SmallVector<Type, 4> types;
  for (Value *value : initial)
    types.push_back(value->type());
  Op *op = builder_.op(OpKind::While, initial, types);
  {
    const InsertionGuard guard(builder_);
    builder_.setInsertionPointToEnd(op->body(0));
    for (const sema::Variable *variable : carried)
      bindToArguments(op->body(0), *variable);
    hoistSharedTokens({stmt.condition}, {});
    Values tested = {value(*stmt.condition)};
    appendCurrent(carried, tested);
    builder_.op(OpKind::Condition, tested);

    builder_.setInsertionPointToEnd(op->body(1));
    for (const sema::Variable *variable : carried)
      bindToArguments(op->body(1), *variable);
    block(stmt.body);
    Values next;
    appendCurrent(carried, next);
    builder_.op(OpKind::Yield, next);
  }
  rebind(carried, op->results());
}

// The body of an iteration, where the loop still goes.
void Lowering::guarded(const TStmt &stmt, llvm::ArrayRef<const sema::Variable *> carried) {
  llvm::SmallVector<Type, 4> types;
  for (const sema::Variable *variable : carried)
    appendTypes(variable->type, types);
  Op *op = builder_.op(OpKind::If, {value(*stmt.condition)}, types);
  const size_t mark = undo_.size();
  for (bool goes : {true, false}) {
    const InsertionGuard guard(builder_);
    builder_.setInsertionPointToEnd(op->body(goes ? 0 : 1));
    if (goes)
      block(stmt.body);
    Values values;
    appendCurrent(carried, values);
    builder_.op(OpKind::Yield, values);
    rollBack(mark);
  }
  rebind(carried, op->results());
}

} // namespace dtile::ir
