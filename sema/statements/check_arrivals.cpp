// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `for i in arrivals(s[:]) { … }`: a loop over the numbers of cells, each iteration after a wait
// for its own. Iterations run in any order, so nothing may go from one to the next but sums of
// integers and joins of tokens; that they touch memory apart is the checker's to show.
#include "sema/checker.h"
#include "sema/tree/walk.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

namespace dtile::sema {

namespace {

/// `x = x + e` of integers, in any order the same, and `sent &= t` of tokens.
bool isCommutative(const TStmt &assign) {
  const TExpr &value = *assign.values.front();
  const bool isSum = value.kind == TExprKind::Elementwise &&
                     (value.op == ElementwiseOp::Add || value.op == ElementwiseOp::And ||
                      value.op == ElementwiseOp::Or || value.op == ElementwiseOp::Xor ||
                      value.op == ElementwiseOp::Min || value.op == ElementwiseOp::Max) &&
                     isInteger(value.type->dtype);
  if ((!isSum && value.kind != TExprKind::TokenJoin) || value.operands.size() != 2)
    return false;
  const TExpr &first = *value.operands.front();
  return first.kind == TExprKind::VarRef && first.var == assign.vars.front();
}

} // namespace

const ast::CallExpr *Checker::arrivalsOf(const ast::ForStmt *s) {
  const auto *call = llvm::dyn_cast_if_present<ast::CallExpr>(s->dim.domain);
  const auto *name = call ? llvm::dyn_cast<ast::NameExpr>(call->callee) : nullptr;
  return name && name->name == "arrivals" ? call : nullptr;
}

TExpr *Checker::callArrivals(const CallSite &site) {
  report(site.range, diag::arrivals_outside_loop);
  return error(site.range);
}

void Checker::checkCarried(const TBlock &body, SourceRange loop) {
  llvm::DenseSet<const Variable *> inner;
  llvm::DenseMap<const Variable *, unsigned> reads, sums;
  std::vector<const TStmt *> assigns;
  walkBlock(
      body,
      [&](const TStmt &s) {
        if (s.kind == TStmtKind::Assign) {
          assigns.push_back(&s);
          sums[s.vars.front()] += isCommutative(s) ? 1 : 0;
          return;
        }
        inner.insert(s.vars.begin(), s.vars.end());
      },
      [&](const TExpr &e) {
        if (e.kind == TExprKind::VarRef)
          ++reads[e.var];
      });
  for (const TStmt *assign : assigns) {
    const Variable *var = assign->vars.front();
    if (inner.contains(var) || (isCommutative(*assign) && reads[var] == sums[var]))
      continue;
    report(assign->range, diag::arrivals_carry, var->name)
        .note(var->range, diag::note_declared_here, var->name);
    return;
  }
}

void Checker::arrivalsLoop(const ast::ForStmt *s, const ast::CallExpr *call) {
  const SourceRange range = call->range;
  if (call->args.size() != 1 || !call->args[0].label.name.empty() || s->dim.step) {
    report(range, diag::arrivals_cells);
    return;
  }
  TExpr *cells = signalCells(call->args[0].value, "arrivals");
  if (cells->type->kind == TypeKind::Error)
    return;
  IndexItem *along = nullptr;
  for (IndexItem &item : cells->indices)
    if (item.kind != IndexItem::Kind::Index)
      along = &item;
  if (cells->kind != TExprKind::Slice || cells->type->rank() != 1 || cells->type->remote ||
      !along) {
    report(range, diag::arrivals_cells);
    return;
  }
  const auto dim = unsigned(along - cells->indices.begin());
  TExpr *lo = along->kind == IndexItem::Kind::All
                  ? intConst(0, range)
                  : rangeMember(along->value, RangeMemberKind::Lo, range);
  TExpr *hi = along->kind == IndexItem::Kind::All
                  ? dimSize(cells->operands[0], dim, range)
                  : rangeMember(along->value, RangeMemberKind::Hi, range);
  TBlock body;
  Variable *variable = nullptr;
  {
    Restore<TBlock *> sink(block, &body);
    scope.push();
    Symbol *symbol = declareLocal(s->dim.name, types.scalar(DType::I64), /*isMutable=*/false);
    symbol->used = true;
    variable = symbol->var;
    TExpr *number = ctx.makeExpr(TExprKind::VarRef, variable->type, range);
    number->var = variable;
    *along = {IndexItem::Kind::Index, number};
    cells->type = types.signal(0, false);
    TExpr *wait = ctx.makeExpr(TExprKind::Wait, types.acquire(), range);
    wait->operands.push_back(cells);
    if (TStmt *await = emit(TStmtKind::Await, range))
      await->after.push_back(wait);
    loopBody(s->body, nullptr, /*isUnordered=*/true);
    leaveScope();
  }
  checkCarried(body, s->range);
  if (TStmt *loop = emit(TStmtKind::For, s->range)) {
    loop->vars.push_back(variable);
    loop->lo = lo;
    loop->hi = hi;
    loop->step = intConst(1, s->dim.name.range);
    loop->isArrivals = true;
    loop->body = std::move(body);
  }
}

} // namespace dtile::sema
