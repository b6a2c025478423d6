// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Statements of kernels and functions.
#include "sema/checker.h"

namespace dtile::sema {

TStmt *Checker::emit(TStmtKind kind, SourceRange range) {
  if (!block) {
    report(range, diag::statement_in_constant);
    return nullptr;
  }
  TStmt *s = ctx.makeStmt(kind, range);
  block->push_back(s);
  return s;
}

TExpr *Checker::noValue(const TStmt *s, SourceRange range) {
  return s ? ctx.makeExpr(TExprKind::Const, types.voidType(), range) : error(range);
}

Symbol *Checker::declareLocal(const ast::Ident &name, Type type, bool isMutable) {
  const Symbol *old = scope.lookup(name.name);
  if (old && scope.isInnermost(*old)) {
    report(name.range, diag::redefinition, name.name)
        .note(old->range, diag::note_declared_here, name.name);
  } else if (old) {
    report(name.range, diag::shadowed, name.name)
        .note(old->range, diag::note_declared_here, name.name);
  }
  Symbol symbol;
  symbol.name = name.name;
  symbol.range = name.range;
  symbol.var = ctx.makeVariable(name.name, type, name.range, isMutable);
  return &scope.declare(symbol);
}

void Checker::leaveScope() {
  scope.pop([&](const Symbol &symbol) {
    if (symbol.kind != Symbol::Kind::Local || symbol.used || symbol.name.starts_with("_"))
      return;
    // Tokens that are not used are errors of their own, and what is wrong already needs no warning.
    const TypeKind kind = symbol.var->type->kind;
    if (isGood() && kind != TypeKind::Token && kind != TypeKind::Acquire && kind != TypeKind::Error)
      report(symbol.range, diag::unused_variable, symbol.name);
  });
}

void Checker::statements(llvm::ArrayRef<ast::Stmt *> list) {
  for (auto [i, s] : llvm::enumerate(list)) {
    // What leaves a loop decides about everything after it.
    if (leavesLoop(s))
      return leavingStatement(s, list.drop_front(i + 1));
    statement(s);
  }
}

void Checker::statement(const ast::Stmt *s) {
  switch (s->kind) {
  case ast::NodeKind::LetStmt:
    return letStmt(llvm::cast<ast::LetStmt>(s));
  case ast::NodeKind::VarStmt:
    return varStmt(llvm::cast<ast::VarStmt>(s));
  case ast::NodeKind::AssignStmt:
    return assignStmt(llvm::cast<ast::AssignStmt>(s));
  case ast::NodeKind::ExprStmt:
    return exprStmt(llvm::cast<ast::ExprStmt>(s));
  case ast::NodeKind::ForStmt:
    return forStmt(llvm::cast<ast::ForStmt>(s));
  case ast::NodeKind::WhileStmt:
    return whileStmt(llvm::cast<ast::WhileStmt>(s));
  case ast::NodeKind::IfStmt:
    return ifStmt(llvm::cast<ast::IfStmt>(s));
  case ast::NodeKind::BreakStmt:
    return breakStmt(llvm::cast<ast::BreakStmt>(s));
  case ast::NodeKind::ReturnStmt:
    return returnStmt(llvm::cast<ast::ReturnStmt>(s));
  case ast::NodeKind::YieldStmt:
    return yieldStmt(llvm::cast<ast::YieldStmt>(s));
  case ast::NodeKind::AwaitStmt:
    return awaitStmt(llvm::cast<ast::AwaitStmt>(s));
  case ast::NodeKind::AssumeStmt:
    return assumeStmt(llvm::cast<ast::AssumeStmt>(s));
  case ast::NodeKind::ExpectStmt:
    report(s->range, diag::expect_outside_test);
    return;
  case ast::NodeKind::BlockStmt: {
    scope.push();
    statements(llvm::cast<ast::BlockStmt>(s)->statements);
    leaveScope();
    return;
  }
  default:
    return;
  }
}

void Checker::nested(const ast::BlockStmt *body, TBlock &into) {
  Restore<TBlock *> sink(block, &into);
  scope.push();
  if (body)
    statements(body->statements);
  leaveScope();
}

// ---- Variables ----

TExpr *Checker::initialValue(const ast::Expr *e, const ast::TypeRef *type, bool isVar) {
  TExpr *initial = expr(e);
  if (type) {
    const Type wanted = valueTypeRef(*type);
    return convert(initial, wanted, e->range);
  }
  switch (initial->type->kind) {
  case TypeKind::Region:
    // A slice of a size that is not static can be named, since it cannot be held.
    if (isVar || initial->type->isStatic() || initial->kind == TExprKind::Load)
      return toValue(initial);
    return initial;
  case TypeKind::Void:
    report(e->range, diag::type_mismatch, "a value", typeText(initial->type));
    return error(e->range);
  case TypeKind::Signal:
    report(e->range, diag::signal_is_no_value);
    return error(e->range);
  default:
    return initial;
  }
}

void Checker::letStmt(const ast::LetStmt *s) {
  if (s->names.size() != 1)
    return letSeveral(s);
  TExpr *initial = initialValue(s->value, s->type, /*isVar=*/false);
  Symbol *symbol = declareLocal(s->names[0], initial->type, /*isMutable=*/false);
  const SourceLoc begin = s->range.begin;
  symbol->introducer = {begin, {begin.offset + unsigned(llvm::StringRef("let").size())}};
  if (initial->type->kind == TypeKind::Error)
    return;
  if (initial->kind == TExprKind::Const)
    symbol->constant = initial;
  symbol->var->coordinate = initial->coordinate;
  if (TStmt *let = emit(TStmtKind::Let, s->range)) {
    let->vars.push_back(symbol->var);
    let->values.push_back(initial);
  }
}

void Checker::letSeveral(const ast::LetStmt *s) {
  if (isSplit(s->value))
    return letSplit(s);
  TExpr *initial = expr(s->value);
  const FnInstance *callee = initial->kind == TExprKind::FnCall ? initial->callee : nullptr;
  const bool isError = initial->type->kind == TypeKind::Error;
  const size_t count = callee ? callee->results.size() : 1;
  const bool fits = callee && count == s->names.size();
  if (!fits && !isError)
    report(s->value->range, diag::result_count, count, s->names.size());
  llvm::SmallVector<Variable *, 4> vars;
  for (auto [i, name] : llvm::enumerate(s->names))
    vars.push_back(
        declareLocal(name, fits ? callee->results[i] : errorType(), /*isMutable=*/false)->var);
  if (!fits)
    return;
  if (TStmt *let = emit(TStmtKind::Let, s->range)) {
    let->vars.append(vars.begin(), vars.end());
    let->values.push_back(initial);
  }
}

void Checker::varStmt(const ast::VarStmt *s) {
  TExpr *initial = initialValue(s->value, s->type, /*isVar=*/true);
  Symbol *symbol = declareLocal(s->name, initial->type, /*isMutable=*/true);
  if (initial->type->kind == TypeKind::Error)
    return;
  if (TStmt *let = emit(TStmtKind::Let, s->range)) {
    let->vars.push_back(symbol->var);
    let->values.push_back(initial);
  }
}

// ---- Assignment and stores ----

void Checker::assignStmt(const ast::AssignStmt *s) {
  const auto *name = llvm::dyn_cast<ast::NameExpr>(s->target);
  Symbol *symbol = name ? scope.lookup(name->name) : nullptr;
  if (!symbol || symbol->kind != Symbol::Kind::Local || symbol->var->type->kind == TypeKind::Region)
    return storeStmt(s);
  if (!symbol->var->isMutable)
    return refuseAssignment(s, *symbol);
  assignVariable(s, *symbol);
}

void Checker::refuseAssignment(const ast::AssignStmt *s, const Symbol &symbol) {
  auto message = report(s->target->range, diag::assign_to_let, symbol.name);
  message.note(symbol.range, diag::note_declared_here, symbol.name);
  if (symbol.introducer.isValid())
    message.fix(symbol.introducer, "var");
  (void)expr(s->value);
}

// A number with a point, given to integers.
static bool isFractionFor(Type wanted, const TExpr *e) {
  return wanted->isValue() && e->type->isValue() && e->adaptable && isInteger(wanted->dtype) &&
         isFloat(e->type->dtype);
}

// What a variable is given: its type is that of its first value, which says how to begin otherwise.
TExpr *Checker::asVariable(TExpr *e, const Symbol &symbol, SourceRange range) {
  e = toValue(e);
  const Type type = symbol.var->type;
  const bool isTile = type->kind == TypeKind::Scalar && e->type->kind == TypeKind::Tile;
  const bool isFraction = isFractionFor(type, e);
  if (!isTile && !isFraction)
    return convert(e, type, range);
  auto message = isFraction ? report(range, diag::literal_of_other_class, dtypeName(type->dtype))
                            : report(range, diag::type_mismatch, typeText(type), typeText(e->type));
  const Type held = isTile ? e->type : type;
  const std::string first =
      held->kind == TypeKind::Tile
          ? ("zeros<" + dtypeName(e->type->dtype) + ">").str() + shapeText(held->shape)
          : "0.0";
  message.note(symbol.range, diag::note_dtile_form,
               "a variable keeps the type of its first value: `var " + symbol.name.str() + " = " +
                   first + ";`");
  return error(range);
}

void Checker::assignVariable(const ast::AssignStmt *s, Symbol &symbol) {
  TExpr *result = expr(s->value);
  if (symbol.var->type->kind == TypeKind::Error)
    return;
  if (s->isCompound) {
    TExpr *old = symbolValue(symbol, s->target->range);
    const bool isPlainDot = s->op == ast::BinaryOp::Add && result->kind == TExprKind::Builtin &&
                            result->builtin == BuiltinId::Dot && result->operands.size() == 2 &&
                            result->type == symbol.var->type;
    // One operation: the product is added to the accumulator where it stands.
    if (isPlainDot)
      result->operands.push_back(old);
    else if (!isFractionFor(symbol.var->type, result))
      result = arithmetic(s->op, old, result, s->range, s->opRange);
  } else {
    // Only a value that is read makes a variable used.
    symbol.used = symbol.used || symbol.var->type->kind == TypeKind::Token;
  }
  result = asVariable(result, symbol, s->value->range);
  if (result->type->kind == TypeKind::Error)
    return;
  if (TStmt *assign = emit(TStmtKind::Assign, s->range)) {
    assign->vars.push_back(symbol.var);
    assign->values.push_back(result);
  }
}

void Checker::storeStmt(const ast::AssignStmt *s) {
  if (const auto *index = llvm::dyn_cast<ast::IndexExpr>(s->target)) {
    const auto *name = llvm::dyn_cast<ast::NameExpr>(index->base);
    Symbol *held = name ? scope.lookup(name->name) : nullptr;
    const bool isHeld = held && held->kind == Symbol::Kind::Local && held->var &&
                        held->var->type->kind == TypeKind::Tile;
    if (isHeld && held->var->isMutable)
      return assignElements(s, index, *held);
    if (isHeld)
      return refuseAssignment(s, *held);
    TExpr *base = expr(index->base);
    const bool isRegion = base->type->kind == TypeKind::Region &&
                          base->type->rank() == index->indices.size() &&
                          base->kind != TExprKind::Load;
    if (isRegion) {
      llvm::SmallVector<IndexItem, 4> items;
      bool isScatter = false;
      const bool good = indexItems(base, index->indices, index->range, items, isScatter);
      if (!good)
        (void)expr(s->value);
      else if (isScatter)
        scatterStmt(s, base, items);
      else
        storeTo(s, sliceOf(base, items, index->range));
      return;
    }
    return storeTo(s, slice(base, index->indices, index->range));
  }
  // `x = 1;` of a name that is not there yet.
  if (const auto *name = llvm::dyn_cast<ast::NameExpr>(s->target);
      name && !name->name.empty() && !lookup(name->name)) {
    const llvm::StringRef advice =
        "a name is made by `let x = …`, or by `var x = …` where it changes";
    const SourceLoc begin = s->range.begin;
    if (s->isCompound)
      reportUnknown(name->range, name->name, advice);
    else
      report(name->range, diag::unknown_name, name->name)
          .note(name->range, diag::note_dtile_form, advice)
          .fix({begin, begin}, "let ");
    // What is added to nothing says no more, and each further use of the name is the same mistake.
    const Type type = s->isCompound ? errorType() : expr(s->value)->type;
    declareLocal({name->name, name->range}, type->isValue() ? type : errorType(),
                 /*isMutable=*/true)
        ->used = true;
    return;
  }
  storeTo(s, expr(s->target));
}

// The right side of a store, and the tokens that the store itself waits for.
TExpr *Checker::storedValue(const ast::AssignStmt *s, llvm::SmallVectorImpl<TExpr *> &after) {
  const auto *order = llvm::dyn_cast<ast::AfterExpr>(s->value);
  Restore<const ast::AfterExpr *> allowed(allowPlainAfter, order);
  plainAfter.clear();
  TExpr *result = value(s->value);
  after.append(plainAfter.begin(), plainAfter.end());
  plainAfter.clear();
  return result;
}

void Checker::storeTo(const ast::AssignStmt *s, TExpr *target) {
  if (target->type->kind == TypeKind::Error) {
    (void)expr(s->value);
    return;
  }
  if (target->type->kind != TypeKind::Region || target->kind == TExprKind::Load) {
    auto message = report(s->target->range, diag::not_assignable, typeText(target->type));
    if (target->type->kind == TypeKind::Signal)
      message.note(s->target->range, diag::note_dtile_form,
                   habits::info(habits::Form::SignalValue).advice);
    (void)expr(s->value);
    return;
  }
  // Index expressions of a compound store are evaluated once.
  if (s->isCompound)
    hoistIndices(target);
  llvm::SmallVector<TExpr *, 2> after;
  TExpr *result = storedValue(s, after);
  if (!checkWritable(target, s->target->range) || result->type->kind == TypeKind::Error)
    return;
  const bool isStatic = target->type->isStatic();
  if (!isStatic) {
    for (auto [dim, size] : llvm::enumerate(target->type->shape))
      if (size == kDynamic) {
        auto message = report(s->target->range, diag::dynamic_region_as_value, dim,
                              shapeText(target->type->shape));
        noteHowToCut(message, s->target->range);
        return;
      }
  }
  if (s->isCompound) {
    TExpr *old = toValue(target);
    result = arithmetic(s->op, old, result, s->range, s->opRange);
  }
  const Type wanted = valueType(target->type->dtype, target->type->shape, s->target->range);
  result = convert(result, wanted, s->value->range);
  if (result->type->kind == TypeKind::Error)
    return;
  warnOfExchangedDimensions(target, result);
  if (TStmt *store = emit(TStmtKind::Store, s->range)) {
    store->target = target;
    store->values.push_back(result);
    store->after.append(after.begin(), after.end());
  }
}

void Checker::hoistIndices(TExpr *target) {
  for (; target->kind == TExprKind::Slice || target->kind == TExprKind::Remote;
       target = target->operands[0]) {
    const auto hoist = [&](TExpr *&e) {
      if (e->kind == TExprKind::Const || e->kind == TExprKind::VarRef ||
          e->kind == TExprKind::SymbolRef)
        return;
      Variable *temporary = ctx.makeVariable("at", e->type, e->range, /*isMutable=*/false);
      if (TStmt *let = emit(TStmtKind::Let, e->range)) {
        let->vars.push_back(temporary);
        let->values.push_back(e);
      }
      TExpr *use = ctx.makeExpr(TExprKind::VarRef, e->type, e->range);
      use->var = temporary;
      e = use;
    };
    if (target->kind == TExprKind::Remote)
      hoist(target->operands[1]);
    for (IndexItem &item : target->indices)
      if (item.value)
        hoist(item.value);
  }
}

void Checker::scatterStmt(const ast::AssignStmt *s, TExpr *base, llvm::ArrayRef<IndexItem> items) {
  llvm::SmallVector<TExpr *, 2> after;
  TExpr *result = storedValue(s, after);
  llvm::SmallVector<IndexItem, 4> indices(items.begin(), items.end());
  llvm::SmallVector<int64_t, 4> shape;
  if (!checkWritable(base, s->target->range) || result->type->kind == TypeKind::Error ||
      !gatherIndices(base, indices, s->target->range, shape))
    return;
  if (s->isCompound) {
    report(s->range, diag::compound_scatter);
    return;
  }
  const Type wanted = valueType(base->type->dtype, shape, s->target->range);
  result = convert(result, wanted, s->value->range);
  if (result->type->kind == TypeKind::Error)
    return;
  if (TStmt *scatter = emit(TStmtKind::Scatter, s->range)) {
    scatter->target = base;
    scatter->indices.append(indices.begin(), indices.end());
    scatter->values.push_back(result);
    scatter->after.append(after.begin(), after.end());
  }
}

// ---- Expressions as statements ----

void Checker::exprStmt(const ast::ExprStmt *s) {
  TExpr *result = expr(s->value);
  switch (result->type->kind) {
  case TypeKind::Error:
    return;
  case TypeKind::Void:
    // Calls without a value made their own statement, except functions.
    if (result->kind != TExprKind::FnCall)
      return;
    break;
  case TypeKind::Token:
  case TypeKind::Acquire:
    break;
  default:
    if (result->kind != TExprKind::Atomic && result->kind != TExprKind::FnCall) {
      report(s->value->range, diag::unused_value, typeText(result->type));
      return;
    }
    if (result->kind == TExprKind::FnCall)
      report(s->value->range, diag::unused_value, typeText(result->type));
    break;
  }
  if (TStmt *eval = emit(TStmtKind::Eval, s->range))
    eval->values.push_back(result);
}

void Checker::awaitStmt(const ast::AwaitStmt *s) {
  TExpr *order = token(s->token);
  if (order->type->kind == TypeKind::Error)
    return;
  if (TStmt *await = emit(TStmtKind::Await, s->range))
    await->after.push_back(order);
}

void Checker::yieldStmt(const ast::YieldStmt *s) {
  llvm::SmallVector<TExpr *, 2> values;
  for (const ast::Expr *e : s->values)
    values.push_back(token(e));
  if (!yieldsTo) {
    report(s->range, diag::yield_without_when_all);
    return;
  }
  if (s != allowedYield) {
    report(s->range, diag::misplaced_yield);
    sawYield = true;
    return;
  }
  sawYield = true;
  // That it names nothing was said.
  if (yieldsTo->joined.empty())
    return;
  if (values.size() != yieldsTo->joined.size()) {
    report(s->range, diag::yield_count, values.size(), yieldsTo->joined.size())
        .note(yieldsTo->range, diag::note_joined_here);
    return;
  }
  for (const TExpr *e : values) {
    if (e->type->kind == TypeKind::Acquire)
      report(e->range, diag::type_mismatch, "a completion token", "an acquire token");
    if (e->type->kind != TypeKind::Token)
      return;
  }
  if (TStmt *yield = emit(TStmtKind::Yield, s->range))
    yield->values.append(values.begin(), values.end());
}

// ---- Control ----

void Checker::ifStmt(const ast::IfStmt *s) {
  TExpr *chooser = condition(s->condition);
  TBlock then;
  TBlock otherwise;
  nested(s->then, then);
  if (const auto *chained = llvm::dyn_cast_or_null<ast::IfStmt>(s->otherwise)) {
    Restore<TBlock *> sink(block, &otherwise);
    ifStmt(chained);
  } else if (s->otherwise) {
    nested(llvm::cast<ast::BlockStmt>(s->otherwise), otherwise);
  }
  if (chooser->type->kind == TypeKind::Error)
    return;
  if (TStmt *choice = emit(TStmtKind::If, s->range)) {
    choice->condition = chooser;
    choice->body = std::move(then);
    choice->otherwise = std::move(otherwise);
  }
}

void Checker::returnStmt(const ast::ReturnStmt *s) {
  for (const ast::Expr *e : s->values)
    (void)expr(e);
  auto message = report(s->range, fn ? diag::return_in_loop : diag::return_in_kernel);
  if (!fn)
    message.note(s->range, diag::note_dtile_form,
                 "`if` chooses what a body does, and `break` leaves a loop");
}

} // namespace dtile::sema
