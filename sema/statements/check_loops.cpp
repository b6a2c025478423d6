// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Loops, and what leaves them. `break` and `continue` become variables and `if`s, so that later
// phases see structured control only: what stands after `if c { break; }` goes into the other
// branch, and a loop that can be left asks `goes` before each iteration.
#include "sema/checker.h"
#include "sema/tree/walk.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

namespace dtile::sema {

namespace {

enum class Leaving : uint8_t { Break, Any };

// Whether a statement has a `break` (or any of both) of the loop around it.
bool leaves(const ast::Stmt *s, Leaving which) {
  if (!s)
    return false;
  if (const auto *one = llvm::dyn_cast<ast::BreakStmt>(s))
    return which == Leaving::Any || !one->isContinue;
  if (const auto *inner = llvm::dyn_cast<ast::BlockStmt>(s))
    return llvm::any_of(inner->statements,
                        [&](const ast::Stmt *one) { return leaves(one, which); });
  if (const auto *choice = llvm::dyn_cast<ast::IfStmt>(s))
    return leaves(choice->then, which) || leaves(choice->otherwise, which);
  return false;
}

bool alwaysLeaves(const ast::Stmt *s) {
  if (!s)
    return false;
  if (const auto *inner = llvm::dyn_cast<ast::BlockStmt>(s))
    return llvm::any_of(inner->statements, [](const ast::Stmt *one) { return alwaysLeaves(one); });
  if (const auto *choice = llvm::dyn_cast<ast::IfStmt>(s))
    return alwaysLeaves(choice->then) && alwaysLeaves(choice->otherwise);
  return s->kind == ast::NodeKind::BreakStmt;
}

} // namespace

namespace {

/// Numbers and names of constants: whatever the compile-time parameters are, it is this.
bool isWritten(const ast::Expr *e, llvm::function_ref<bool(llvm::StringRef)> isConstant) {
  if (const auto *name = llvm::dyn_cast<ast::NameExpr>(e))
    return isConstant(name->name);
  if (const auto *unary = llvm::dyn_cast<ast::UnaryExpr>(e))
    return isWritten(unary->operand, isConstant);
  if (const auto *binary = llvm::dyn_cast<ast::BinaryExpr>(e))
    return isWritten(binary->lhs, isConstant) && isWritten(binary->rhs, isConstant);
  return llvm::isa<ast::IntLit>(e);
}

} // namespace

// `7..0` has no positions, and nobody writes that for nothing.
void Checker::warnOfDescent(const ast::RangeExpr &bounds, const TExpr *lo, const TExpr *hi) {
  const auto isConstant = [&](llvm::StringRef name) {
    const Symbol *symbol = scope.lookup(name);
    const auto found = module.names.find(name);
    return !symbol && found != module.names.end() && found->second.kind == Symbol::Kind::Const;
  };
  if (!bounds.lo || lo->kind != TExprKind::Const || hi->kind != TExprKind::Const ||
      !isWritten(bounds.lo, isConstant) || !isWritten(bounds.hi, isConstant))
    return;
  const auto from = int64_t(lo->bits), to = int64_t(hi->bits);
  if (from <= to)
    return;
  const std::string count = std::to_string(uint64_t(from) - uint64_t(to));
  report(bounds.range, diag::empty_loop, from, to)
      .note(bounds.range, diag::note_dtile_form,
            "a range goes up and leaves its end out; from above, `for i in 0.." + count +
                "` has `" + std::to_string(from) + " - i`, down to " + std::to_string(to + 1));
}

Checker::Iteration Checker::iteration(const ast::IterDim &dim) {
  Iteration result;
  result.type = types.scalar(DType::I64);
  if (!dim.domain) {
    result.type = errorType();
    return result;
  }
  const auto *bounds = llvm::dyn_cast<ast::RangeExpr>(dim.domain);
  if (bounds && bounds->hi) {
    result.lo = bounds->lo ? position(bounds->lo) : intConst(0, bounds->range);
    result.hi = position(bounds->hi);
    warnOfDescent(*bounds, result.lo, result.hi);
  } else {
    TExpr *domain = toValue(expr(dim.domain));
    if (domain->type->kind == TypeKind::Range) {
      result.lo = rangeMember(domain, RangeMemberKind::Lo, dim.domain->range);
      result.hi = rangeMember(domain, RangeMemberKind::Hi, dim.domain->range);
    } else if (domain->type->kind == TypeKind::Scalar && isInteger(domain->type->dtype)) {
      result.lo = intConst(0, dim.domain->range);
      result.hi = cast(domain, DType::I64, domain->range);
    } else {
      if (domain->type->kind != TypeKind::Error)
        report(dim.domain->range, diag::type_mismatch, "an integer or a range",
               typeText(domain->type));
      result.lo = result.hi = error(dim.domain->range);
    }
  }
  if (dim.step) {
    std::optional<int64_t> step = constInt(dim.step, "the size of a block");
    if (step && *step <= 0) {
      report(dim.step->range, diag::step_not_positive, *step);
      step.reset();
    } else if (step && *step > kMaxTileElements) {
      report(dim.step->range, diag::tile_too_large, "[" + std::to_string(*step) + "]",
             kMaxTileElements);
      step.reset();
    }
    result.blockLength = step.value_or(0);
    result.type = step ? types.range(*step) : errorType();
  }
  if (result.lo->type->kind == TypeKind::Error || result.hi->type->kind == TypeKind::Error)
    result.lo = nullptr;
  return result;
}

TExpr *Checker::flagValue(Variable *flag, SourceRange range) {
  TExpr *use = ctx.makeExpr(TExprKind::VarRef, flag->type, range);
  use->var = flag;
  return use;
}

Variable *Checker::makeFlag(llvm::StringRef name, SourceRange range) {
  Variable *flag = ctx.makeVariable(name, types.scalar(DType::Bool), range, /*isMutable=*/true);
  if (TStmt *let = emit(TStmtKind::Let, range)) {
    let->vars.push_back(flag);
    let->values.push_back(boolConst(true, range));
  }
  return flag;
}

void Checker::clearFlag(Variable *flag, SourceRange range) {
  if (TStmt *assign = emit(TStmtKind::Assign, range)) {
    assign->vars.push_back(flag);
    assign->values.push_back(boolConst(false, range));
  }
}

// The body of a loop, whose `break` clears `goes`.
void Checker::loopBody(const ast::BlockStmt *body, Variable *goes, bool isUnordered) {
  Restore<Loop> inside(around, Loop{true, isUnordered, goes, {}});
  if (body)
    statements(body->statements);
}

namespace {

/// Variables that a value is computed from, through what the loop's body names.
class Reads {
public:
  explicit Reads(const TBlock &body) {
    walkBlock(
        body,
        [&](const TStmt &s) {
          if (s.kind == TStmtKind::Assign)
            return;
          for (const Variable *var : s.vars)
            makers_[var].append(s.values.begin(), s.values.end());
        },
        [](const TExpr &) {});
  }

  [[nodiscard]] bool isInner(const Variable *var) const { return makers_.contains(var); }
  [[nodiscard]] bool reads(const TExpr *value, const Variable *var) const {
    llvm::DenseSet<const Variable *> seen;
    return reads(value, var, seen);
  }

private:
  bool reads(const TExpr *value, const Variable *var,
             llvm::DenseSet<const Variable *> &seen) const {
    bool found = false;
    walkExpression(value, [&](const TExpr &e) {
      if (found || e.kind != TExprKind::VarRef)
        return;
      found = e.var == var;
      const auto made = makers_.find(e.var);
      if (found || made == makers_.end() || !seen.insert(e.var).second)
        return;
      for (const TExpr *maker : made->second)
        found = found || reads(maker, var, seen);
    });
    return found;
  }

  llvm::DenseMap<const Variable *, llvm::SmallVector<const TExpr *, 1>> makers_;
};

/// Whether a value is a number that is written down, in all elements.
bool isConstant(const TExpr *e) {
  while (e->kind != TExprKind::Const && e->operands.size() == 1)
    e = e->operands.front();
  return e->kind == TExprKind::Const;
}

/// `var` times a constant, or divided by one.
bool scales(const TExpr *value, const Variable *var) {
  bool found = false;
  walkExpression(value, [&](const TExpr &e) {
    const bool isProduct = e.kind == TExprKind::Elementwise &&
                           (e.op == ElementwiseOp::Mul || e.op == ElementwiseOp::Div);
    if (!isProduct || e.operands.size() != 2)
      return;
    const auto isVar = [&](const TExpr *operand) {
      return operand->kind == TExprKind::VarRef && operand->var == var;
    };
    found |= (isVar(e.operands[0]) && isConstant(e.operands[1])) ||
             (isVar(e.operands[1]) && isConstant(e.operands[0]));
  });
  return found;
}

} // namespace

/// What iterations in another order would certainly leave otherwise. Sums, products, the state of a
/// softmax, and what only some iterations do are the author's to know.
void Checker::checkUnordered(const TBlock &body) {
  const Reads reads(body);
  const auto refuse = [&](const TStmt &assign, llvm::StringRef why) {
    const Variable *var = assign.vars.front();
    report(assign.range, diag::unordered_carry, var->name, why)
        .note(var->range, diag::note_declared_here, var->name);
  };
  llvm::SmallVector<const TStmt *, 4> assigns;
  llvm::DenseSet<const Variable *> readers;
  walkBlock(
      body,
      [&](const TStmt &s) {
        if (s.kind != TStmtKind::Assign || reads.isInner(s.vars.front()))
          return;
        const Variable *var = s.vars.front();
        assigns.push_back(&s);
        if (llvm::any_of(s.values, [&](const TExpr *value) { return reads.reads(value, var); }))
          readers.insert(var);
      },
      [](const TExpr &) {});
  for (const TStmt *assign : assigns) {
    const bool isAlways = llvm::is_contained(body, assign);
    if (scales(assign->values.front(), assign->vars.front()))
      refuse(*assign, "each iteration scales what those before it have added");
    else if (isAlways && !readers.contains(assign->vars.front()))
      refuse(*assign, "the last one to run decides it");
  }
}

void Checker::forStmt(const ast::ForStmt *s) {
  if (const ast::CallExpr *cells = arrivalsOf(s))
    return arrivalsLoop(s, cells);
  const Iteration bounds = iteration(s->dim);
  Variable *goes = leaves(s->body, Leaving::Break) && !s->isUnordered
                       ? makeFlag("goes", s->dim.name.range)
                       : nullptr;
  TBlock body;
  Variable *variable = nullptr;
  {
    Restore<TBlock *> sink(block, &body);
    scope.push();
    Symbol *symbol = declareLocal(s->dim.name, bounds.type, /*isMutable=*/false);
    symbol->used = true;
    variable = symbol->var;
    variable->coordinate = bounds.coordinate();
    loopBody(s->body, goes, s->isUnordered);
    leaveScope();
    if (s->isUnordered)
      checkUnordered(body);
  }
  if (!bounds.lo || bounds.type->kind == TypeKind::Error)
    return;
  if (TStmt *loop = emit(TStmtKind::For, s->range)) {
    loop->vars.push_back(variable);
    loop->lo = bounds.lo;
    loop->hi = bounds.hi;
    loop->blockLength = bounds.blockLength;
    loop->step = intConst(bounds.blockLength ? bounds.blockLength : 1, s->dim.name.range);
    if (goes)
      loop->condition = flagValue(goes, s->dim.name.range);
    loop->body = std::move(body);
  }
}

void Checker::whileStmt(const ast::WhileStmt *s) {
  Variable *goes =
      leaves(s->body, Leaving::Break) ? makeFlag("goes", s->condition->range) : nullptr;
  TExpr *again = condition(s->condition);
  TBlock body;
  {
    Restore<TBlock *> sink(block, &body);
    scope.push();
    loopBody(s->body, goes, /*isUnordered=*/false);
    leaveScope();
  }
  if (again->type->kind == TypeKind::Error)
    return;
  if (goes) {
    TExpr *flag = flagValue(goes, s->condition->range);
    const bool isEndless = again->kind == TExprKind::Const && again->bits != 0;
    again = isEndless ? flag : elementwise(ElementwiseOp::And, {flag, again}, s->condition->range);
  }
  if (TStmt *loop = emit(TStmtKind::While, s->range)) {
    loop->condition = again;
    loop->body = std::move(body);
  }
}

// ---- Leaving a loop ----

// Outside of loops, statements that leave one are mistakes, which breakStmt says.
bool Checker::leavesLoop(const ast::Stmt *s) const {
  return around.isInside && leaves(s, Leaving::Any);
}

void Checker::breakStmt(const ast::BreakStmt *s) {
  if (!around.isInside) {
    report(s->range, diag::break_outside_loop, s->isContinue ? "continue" : "break");
    return;
  }
  if (around.isUnordered && !s->isContinue) {
    report(s->range, diag::break_in_unordered, "break");
    return;
  }
  if (!s->isContinue && around.goes)
    clearFlag(around.goes, s->range);
  for (Variable *flag : around.stays)
    clearFlag(flag, s->range);
}

// `s` leaves the loop on some path, and `rest` stands after it: on the other paths only.
void Checker::leavingStatement(const ast::Stmt *s, llvm::ArrayRef<ast::Stmt *> rest) {
  if (alwaysLeaves(s) && !rest.empty())
    report(rest.front()->range, diag::unreachable_code);
  const auto *choice = llvm::dyn_cast<ast::IfStmt>(s);
  if (choice && !rest.empty()) {
    const bool thenLeaves = leaves(choice->then, Leaving::Any);
    const bool otherwiseLeaves = leaves(choice->otherwise, Leaving::Any);
    if (alwaysLeaves(choice->then) && !otherwiseLeaves)
      return leavingIf(choice, {}, rest);
    if (alwaysLeaves(choice->otherwise) && !thenLeaves)
      return leavingIf(choice, rest, {});
  }
  if (rest.empty() || alwaysLeaves(s))
    return statement(s);
  // Each path says whether it stays.
  Variable *stays = makeFlag("stays", s->range);
  {
    llvm::SmallVector<Variable *, 2> flags(around.stays);
    flags.push_back(stays);
    Restore<llvm::SmallVector<Variable *, 2>> inner(around.stays, flags);
    statement(s);
  }
  TBlock behind;
  {
    Restore<TBlock *> sink(block, &behind);
    scope.push();
    statements(rest);
    leaveScope();
  }
  if (TStmt *choice = emit(TStmtKind::If, s->range)) {
    choice->condition = flagValue(stays, s->range);
    choice->body = std::move(behind);
  }
}

// One branch leaves; what stands after goes on in the other one.
void Checker::leavingIf(const ast::IfStmt *s, llvm::ArrayRef<ast::Stmt *> behindThen,
                        llvm::ArrayRef<ast::Stmt *> behindOtherwise) {
  TExpr *chooser = condition(s->condition);
  TBlock then;
  TBlock otherwise;
  const auto branch = [&](const ast::Stmt *body, llvm::ArrayRef<ast::Stmt *> rest, TBlock &into) {
    Restore<TBlock *> sink(block, &into);
    if (body)
      statement(body);
    scope.push();
    statements(rest);
    leaveScope();
  };
  branch(s->then, behindThen, then);
  branch(s->otherwise, behindOtherwise, otherwise);
  if (chooser->type->kind == TypeKind::Error)
    return;
  if (TStmt *choice = emit(TStmtKind::If, s->range)) {
    choice->condition = chooser;
    choice->body = std::move(then);
    choice->otherwise = std::move(otherwise);
  }
}

} // namespace dtile::sema
