// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Statements. Variables that a loop or branch assigns become carried values and results.
#include "frontend/base/check.h"

#include "ir/from_ast/lowering.h"

#include "llvm/ADT/MapVector.h"

namespace dtile::ir {

using sema::TStmt;
using sema::TStmtKind;

// Variables.

void Lowering::collectAssigned(Statements statements, Variables &assigned) {
  llvm::SmallPtrSet<const sema::Variable *, 8> declared;
  for (const TStmt *stmt : statements) {
    if (stmt->kind == TStmtKind::Let)
      declared.insert(stmt->vars.begin(), stmt->vars.end());
    if (stmt->kind == TStmtKind::Assign)
      assigned.insert(stmt->vars.front());
    if (stmt->body.empty() && stmt->otherwise.empty())
      continue;
    for (const sema::Variable *variable : carriedBy(*stmt))
      assigned.insert(variable);
  }
  assigned.remove_if([&](const sema::Variable *variable) { return declared.contains(variable); });
}

llvm::ArrayRef<const sema::Variable *> Lowering::carriedBy(const TStmt &stmt) {
  if (auto it = assigned_.find(&stmt); it != assigned_.end())
    return it->second.getArrayRef();
  Variables assigned;
  collectAssigned(stmt.body, assigned);
  collectAssigned(stmt.otherwise, assigned);
  return (assigned_[&stmt] = std::move(assigned)).getArrayRef();
}

void Lowering::bind(const sema::Variable &variable, Lowered value) {
  Lowered &slot = environment_[&variable];
  undo_.emplace_back(&variable, std::move(slot));
  slot = std::move(value);
}

void Lowering::rollBack(size_t mark) {
  while (undo_.size() > mark) {
    auto &[variable, value] = undo_.back();
    environment_[variable] = std::move(value);
    undo_.pop_back();
  }
}

void Lowering::appendCurrent(llvm::ArrayRef<const sema::Variable *> variables, Values &parts) {
  for (const sema::Variable *variable : variables)
    appendParts(variable->type, environment_.find(variable)->second, parts);
}

void Lowering::rebind(llvm::ArrayRef<const sema::Variable *> variables,
                      llvm::ArrayRef<Value *> parts) {
  for (const sema::Variable *variable : variables) {
    Lowered value = fromParts(variable->type, parts);
    if (value.value && value.value->nameHint().empty())
      value.value->setNameHint(variable->name);
    bind(*variable, std::move(value));
  }
}

// Blocks.

void Lowering::block(Statements statements) {
  for (const TStmt *stmt : statements)
    statement(*stmt);
}

Lowering::Values Lowering::body(Statements statements) {
  if (statements.empty() || (statements.back()->kind != TStmtKind::Return &&
                             statements.back()->kind != TStmtKind::Yield)) {
    block(statements);
    return {};
  }
  const TStmt &end = *statements.back();
  block(statements.drop_back());
  const At at(builder_, end.range);
  hoistSharedTokens(end);
  Values values;
  for (const sema::TExpr *expr : end.values)
    appendParts(expr->type, lower(*expr), values);
  return values;
}

void Lowering::statement(const TStmt &stmt) {
  const At at(builder_, stmt.range);
  hoistSharedTokens(stmt);
  switch (stmt.kind) {
  case TStmtKind::Let:
    return let(stmt);
  case TStmtKind::Assign: {
    Lowered result = lower(*stmt.values.front());
    if (result.value && result.value->nameHint().empty())
      result.value->setNameHint(stmt.vars.front()->name);
    return bind(*stmt.vars.front(), std::move(result));
  }
  case TStmtKind::Store:
    return store(stmt);
  case TStmtKind::Scatter:
    return scatter(stmt);
  case TStmtKind::Eval:
    // A call for its effect that was a statement of its own leaves a constant without a type.
    if (stmt.values.front()->kind != sema::TExprKind::Const)
      lower(*stmt.values.front());
    return;
  case TStmtKind::Notify: {
    Values operands = {value(*stmt.target)};
    appendTokens(stmt.after, operands);
    builder_.op(OpKind::Notify, operands);
    return;
  }
  case TStmtKind::Await: {
    Values operands;
    appendTokens(stmt.after, operands);
    builder_.op(OpKind::Await, operands);
    return;
  }
  case TStmtKind::Sync:
    return sync(stmt.builtin);
  case TStmtKind::For:
    return forLoop(stmt);
  case TStmtKind::While:
    return whileLoop(stmt);
  case TStmtKind::If:
    return conditional(stmt);
  case TStmtKind::Assert: {
    Op *op = builder_.op(OpKind::Assert, {value(*stmt.condition)});
    op->set(attr::message, stmt.message);
    return;
  }
  case TStmtKind::Print: {
    Values shown;
    if (!stmt.values.empty())
      shown.push_back(value(*stmt.values.front()));
    builder_.op(OpKind::Print, shown)->set(attr::message, stmt.message);
    return;
  }
  case TStmtKind::Assume: {
    Op *op = builder_.op(OpKind::Assert, {value(*stmt.condition)});
    op->set(attr::message, "what is assumed does not hold: " + stmt.message);
    op->set(attr::because, stmt.because);
    return;
  }
  case TStmtKind::Return:
  case TStmtKind::Yield:
    break;
  }
  DTILE_UNREACHABLE("return and yield end a body");
}

void Lowering::let(const TStmt &stmt) {
  const sema::TExpr &expr = *stmt.values.front();
  if (stmt.vars.size() == 1) {
    const sema::Variable &variable = *stmt.vars.front();
    Lowered result = lower(expr);
    if (result.value && result.value->nameHint().empty())
      result.value->setNameHint(variable.name);
    return bind(variable, std::move(result));
  }
  DTILE_CHECK(expr.kind == sema::TExprKind::FnCall, "only a call gives several values");
  const Values parts = call(expr);
  rebind(llvm::SmallVector<const sema::Variable *, 4>(stmt.vars.begin(), stmt.vars.end()), parts);
}

void Lowering::store(const TStmt &stmt) {
  Value *stored = value(*stmt.values.front());
  Values operands = {stored, value(*stmt.target)};
  appendTokens(stmt.after, operands);
  builder_.op(OpKind::Store, operands);
}

void Lowering::scatter(const TStmt &stmt) {
  Value *stored = value(*stmt.values.front());
  Values operands = {stored, value(*stmt.target)};
  appendPlaces(stmt.indices, stored->type().shape(), operands);
  const size_t beforeTokens = operands.size();
  appendTokens(stmt.after, operands);
  Op *op = builder_.op(OpKind::Scatter, operands);
  op->set(attr::ntok, int64_t(operands.size() - beforeTokens));
}

void Lowering::sync(sema::BuiltinId builtin) {
  if (builtin == sema::BuiltinId::Quiet)
    builder_.op(OpKind::Quiet, {});
  else if (builtin == sema::BuiltinId::Fence)
    builder_.op(OpKind::Fence, {});
  else if (builtin == sema::BuiltinId::Barrier)
    builder_.op(OpKind::Barrier, {});
  else
    DTILE_UNREACHABLE("not a synchronization");
}

// Tokens that several operations of one statement are after.

namespace {

/// Counts the operations that each token's node orders.
void countOrdered(const sema::TExpr *expr,
                  llvm::MapVector<const sema::TExpr *, unsigned> &ordered) {
  if (!expr)
    return;
  const unsigned tokens = Lowering::firstToken(*expr);
  for (unsigned i = 0; i < expr->operands.size(); ++i)
    // A token's own operands are looked at once.
    if (i < tokens || ++ordered[expr->operands[i]] == 1)
      countOrdered(expr->operands[i], ordered);
  for (const sema::IndexItem &item : expr->indices)
    countOrdered(item.value, ordered);
  countOrdered(expr->signal, ordered);
  countOrdered(expr->count, ordered);
}

} // namespace

void Lowering::hoistSharedTokens(const TStmt &stmt) {
  llvm::SmallVector<const sema::TExpr *, 8> exprs(stmt.values.begin(), stmt.values.end());
  exprs.push_back(stmt.target);
  for (const sema::IndexItem &item : stmt.indices)
    exprs.push_back(item.value);
  exprs.append({stmt.lo, stmt.hi, stmt.step});
  // A loop's condition is another region.
  if (stmt.kind != TStmtKind::While)
    exprs.push_back(stmt.condition);
  hoistSharedTokens(exprs, stmt.after);
}

void Lowering::hoistSharedTokens(llvm::ArrayRef<const sema::TExpr *> exprs,
                                 llvm::ArrayRef<sema::TExpr *> after) {
  sharedTokens_.clear();
  evaluated_.clear();
  llvm::MapVector<const sema::TExpr *, unsigned> ordered;
  for (const sema::TExpr *expr : exprs)
    countOrdered(expr, ordered);
  for (const sema::TExpr *expr : after)
    if (++ordered[expr] == 1)
      countOrdered(expr, ordered);
  for (const auto &[expr, count] : ordered) {
    if (count < 2)
      continue;
    Value *token = value(*expr);
    // An acquire orders many; a completion token is used once, so here it is awaited.
    if (token->type().isToken()) {
      builder_.op(OpKind::Await, {token});
      token = nullptr;
    }
    sharedTokens_[expr] = token;
  }
}

unsigned Lowering::firstToken(const sema::TExpr &expr) {
  using sema::TExprKind;
  switch (expr.kind) {
  case TExprKind::Load:
  case TExprKind::Gather:
    return 1;
  case TExprKind::Put:
  case TExprKind::Get:
  case TExprKind::ReduceAdd:
    return 2;
  case TExprKind::Atomic:
    return expr.atomic == sema::AtomicKind::Cas ? 3 : 2;
  default:
    return expr.operands.size();
  }
}

void Lowering::appendTokens(const sema::TExpr &expr, Values &values) {
  appendTokens(llvm::ArrayRef(expr.operands).drop_front(firstToken(expr)), values);
}

void Lowering::appendTokens(llvm::ArrayRef<sema::TExpr *> exprs, Values &values) {
  for (const sema::TExpr *expr : exprs) {
    auto shared = sharedTokens_.find(expr);
    if (Value *token = shared == sharedTokens_.end() ? value(*expr) : shared->second)
      values.push_back(token);
  }
}

// Structured control.

void Lowering::conditional(const TStmt &stmt) {
  Value *condition = value(*stmt.condition);
  const llvm::ArrayRef<const sema::Variable *> carried = carriedBy(stmt);
  llvm::SmallVector<Type, 4> types;
  for (const sema::Variable *variable : carried)
    appendTypes(variable->type, types);
  Op *op = builder_.op(OpKind::If, {condition}, types);
  const size_t mark = undo_.size();
  for (bool first : {true, false}) {
    const InsertionGuard guard(builder_);
    builder_.setInsertionPointToEnd(op->body(first ? 0 : 1));
    block(first ? stmt.body : stmt.otherwise);
    Values values;
    appendCurrent(carried, values);
    builder_.op(OpKind::Yield, values);
    rollBack(mark);
  }
  rebind(carried, op->results());
}

} // namespace dtile::ir
