// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Bodies of functions. What is written with early returns becomes if/else with variables for the
// results and one return at the end, so that later phases see structured control only.
#include "frontend/ast/ast_visitor.h"
#include "sema/checker.h"

namespace dtile::sema {

namespace {

bool containsReturn(const ast::Stmt *s) {
  struct Finder : ast::Walker<Finder> {
    using Walker::visit;
    bool visit(const ast::ReturnStmt &) {
      found = true;
      return false;
    }
    bool found = false;
  } finder;
  finder.walk(s);
  return finder.found;
}

bool alwaysReturns(const ast::Stmt *s);

bool alwaysReturns(llvm::ArrayRef<ast::Stmt *> list) {
  return llvm::any_of(list, [](const ast::Stmt *s) { return alwaysReturns(s); });
}

bool alwaysReturns(const ast::Stmt *s) {
  if (!s)
    return false;
  if (const auto *choice = llvm::dyn_cast<ast::IfStmt>(s))
    return alwaysReturns(choice->then) && alwaysReturns(choice->otherwise);
  if (const auto *inner = llvm::dyn_cast<ast::BlockStmt>(s))
    return alwaysReturns(inner->statements);
  return s->kind == ast::NodeKind::ReturnStmt;
}

} // namespace

void Checker::checkFn(const ast::FnDecl *decl) {
  scope.push();
  bindGenerics(decl->generics, fn->generics);
  block = &fn->body;
  scope.push();
  bool hasDefault = false;
  for (const ast::Param &param : decl->params) {
    if (param.mode != ast::ParamMode::Value && decl->isExtern)
      report(param.range, diag::extern_memory, param.name.name);
    else if (param.mode != ast::ParamMode::Value && param.type)
      report(param.range, diag::mode_in_function, param.name.name, ast::spelling(param.mode));
    if (hasDefault && !param.init)
      report(param.range, diag::default_not_last, param.name.name);
    hasDefault |= param.init != nullptr;
    const Type type = param.type ? valueTypeRef(*param.type) : errorType();
    fn->defaults.push_back(param.init ? defaultValue(param, type) : nullptr);
    if (!type->isValue() && type->kind != TypeKind::Error)
      report(param.range, diag::type_mismatch, "a value", typeText(type));
    fn->params.push_back(declareLocal(param.name, type, /*isMutable=*/false)->var);
  }
  for (const ast::TypeRef *result : decl->results)
    fn->results.push_back(valueTypeRef(*result));
  if (decl->body)
    fnBody(decl->body);
  if (decl->isExtern)
    checkExtern(decl);
  scope.pop([&](const Symbol &symbol) {
    if (isGood() && !symbol.used && !symbol.name.starts_with("_"))
      report(symbol.range, diag::unused_parameter, symbol.name);
  });
  scope.pop([](const Symbol &) {});
}

// What stands for an argument that a caller leaves out.
TExpr *Checker::defaultValue(const ast::Param &param, Type type) {
  TExpr *result = convert(value(param.init), type, param.init->range);
  const TExpr *scalar = result->kind == TExprKind::Splat ? result->operands[0] : result;
  if (result->type->kind != TypeKind::Error && scalar->kind != TExprKind::Const) {
    report(param.init->range, diag::default_not_constant);
    return error(param.init->range);
  }
  return result;
}

void Checker::fnBody(const ast::BlockStmt *body) {
  scope.push();
  returningBlocks({body->statements}, {});
  leaveScope();
}

// Checks the statements of several blocks as if the later ones followed in the first: `pieces` are
// what is left of the blocks around, innermost first.
void Checker::returningBlocks(llvm::ArrayRef<llvm::ArrayRef<ast::Stmt *>> pieces,
                              llvm::ArrayRef<Variable *> results) {
  for (auto [p, piece] : llvm::enumerate(pieces)) {
    for (auto [i, s] : llvm::enumerate(piece)) {
      const llvm::ArrayRef<ast::Stmt *> rest = piece.drop_front(i + 1);
      if (const auto *ends = llvm::dyn_cast<ast::ReturnStmt>(s)) {
        if (!rest.empty())
          report(rest.front()->range, diag::unreachable_code);
        return returnValues(ends, results);
      }
      const auto *choice = llvm::dyn_cast<ast::IfStmt>(s);
      if (!choice || !containsReturn(choice)) {
        statement(s);
        continue;
      }
      llvm::SmallVector<llvm::ArrayRef<ast::Stmt *>, 4> remaining{rest};
      remaining.append(pieces.begin() + p + 1, pieces.end());
      return returningIf(choice, remaining, results);
    }
  }
  if (!fn->results.empty())
    report(fn->decl->name.range, diag::missing_return, fn->decl->name.name);
  else if (results.empty() && block == &fn->body)
    emit(TStmtKind::Return, fn->decl->body->range);
}

void Checker::returnValues(const ast::ReturnStmt *s, llvm::ArrayRef<Variable *> results) {
  llvm::SmallVector<TExpr *, 2> values;
  bool good = true;
  if (s->values.size() != fn->results.size()) {
    auto message = report(s->range, diag::return_count, s->values.size(), fn->results.size());
    message.note(fn->decl->name.range, diag::note_declared_here, fn->decl->name.name);
    if (fn->decl->results.empty() && s->values.size() == 1)
      message.note(s->range, diag::note_dtile_form,
                   "the type of a result stands behind the parameters: "
                   "`fn f(x: f32) -> f32 { … }`");
    good = false;
  }
  for (auto [i, e] : llvm::enumerate(s->values)) {
    TExpr *checked = value(e);
    if (good)
      checked = convert(checked, fn->results[i], e->range);
    good &= checked->type->kind != TypeKind::Error;
    values.push_back(checked);
  }
  if (!good)
    return;
  if (results.empty()) {
    // At the top of the body, or in a branch of a function without results.
    if (block == &fn->body)
      emit(TStmtKind::Return, s->range)->values.append(values.begin(), values.end());
    return;
  }
  for (auto [variable, result] : llvm::zip(results, values)) {
    TStmt *assign = emit(TStmtKind::Assign, s->range);
    assign->vars.push_back(variable);
    assign->values.push_back(result);
  }
}

void Checker::returningIf(const ast::IfStmt *choice,
                          llvm::ArrayRef<llvm::ArrayRef<ast::Stmt *>> rest,
                          llvm::ArrayRef<Variable *> results) {
  const bool thenEnds = alwaysReturns(choice->then);
  const bool otherwiseEnds = alwaysReturns(choice->otherwise);
  if (!thenEnds && !otherwiseEnds) {
    report(choice->range, diag::return_on_some_paths);
    return;
  }
  const bool hasRest = llvm::any_of(rest, [](auto piece) { return !piece.empty(); });
  if (thenEnds && otherwiseEnds && !rest.empty() && !rest.front().empty())
    report(rest.front().front()->range, diag::unreachable_code);
  TExpr *chooser = condition(choice->condition);
  // The outermost choice makes the variables that its branches set.
  llvm::SmallVector<Variable *, 2> own(results.begin(), results.end());
  const bool isOutermost = results.empty();
  if (isOutermost)
    makeResultVariables(choice->range, own);
  TBlock then;
  TBlock otherwise;
  const auto branch = [&](const ast::Stmt *body, bool ends, TBlock &into) {
    Restore<TBlock *> sink(block, &into);
    scope.push();
    if (const auto *chained = llvm::dyn_cast_or_null<ast::IfStmt>(body)) {
      if (containsReturn(chained))
        returningIf(chained, ends ? llvm::ArrayRef<llvm::ArrayRef<ast::Stmt *>>() : rest, own);
      else {
        ifStmt(chained);
        returningBlocks(rest, own);
      }
    } else {
      llvm::SmallVector<llvm::ArrayRef<ast::Stmt *>, 4> pieces;
      if (body && !ends && !containsReturn(body))
        statement(body);
      else if (body)
        pieces.push_back(llvm::cast<ast::BlockStmt>(body)->statements);
      if (!ends)
        pieces.append(rest.begin(), rest.end());
      const bool fallsOff = !ends && !hasRest && fn->results.empty();
      if (!fallsOff || !pieces.empty())
        returningBlocks(pieces, own);
    }
    leaveScope();
  };
  branch(choice->then, thenEnds, then);
  branch(choice->otherwise, otherwiseEnds, otherwise);
  if (chooser->type->kind == TypeKind::Error)
    return;
  TStmt *result = emit(TStmtKind::If, choice->range);
  result->condition = chooser;
  result->body = std::move(then);
  result->otherwise = std::move(otherwise);
  if (!isOutermost || block != &fn->body)
    return;
  TStmt *last = emit(TStmtKind::Return, choice->range);
  for (Variable *variable : own) {
    TExpr *use = ctx.makeExpr(TExprKind::VarRef, variable->type, choice->range);
    use->var = variable;
    last->values.push_back(use);
  }
}

void Checker::makeResultVariables(SourceRange range, llvm::SmallVectorImpl<Variable *> &result) {
  for (const Type type : fn->results) {
    if (type->kind == TypeKind::Error)
      continue;
    Variable *variable = ctx.makeVariable("result", type, range, /*isMutable=*/true);
    TStmt *let = emit(TStmtKind::Let, range);
    let->vars.push_back(variable);
    TExpr *zero = nullptr;
    if (type->kind == TypeKind::Tile)
      zero = builtin(BuiltinId::Zeros, {}, type, range);
    else if (isFloat(type->dtype))
      zero = floatConst(0, range, type->dtype);
    else
      zero = intConst(0, range, type->dtype);
    let->values.push_back(zero);
    result.push_back(variable);
  }
}

} // namespace dtile::sema
