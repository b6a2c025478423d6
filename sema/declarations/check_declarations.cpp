// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Kernels: generics, roles and their tile spaces.
#include "sema/checker.h"
#include "sema/tree/walk.h"

namespace dtile::sema {

GenericValue::Kind genericKind(const ast::GenericParam &param) {
  // Of `typename T` the parser has told that it is an element type, and knows no word for it.
  if (param.type && (param.type->name.name == "dtype" || param.type->name.name.empty()))
    return GenericValue::Kind::DType;
  if (param.type && param.type->name.name == "bool")
    return GenericValue::Kind::Bool;
  if (param.type && param.type->name.name == "shape")
    return GenericValue::Kind::Shape;
  return GenericValue::Kind::Int;
}

std::string instanceName(llvm::StringRef name, llvm::ArrayRef<GenericValue> values) {
  std::string result = name.str();
  for (const GenericValue &value : values) {
    result += '_';
    switch (value.kind) {
    case GenericValue::Kind::DType:
      result += dtypeName(value.dtype);
      break;
    case GenericValue::Kind::Bool:
      result += value.intValue ? "true" : "false";
      break;
    case GenericValue::Kind::Shape:
      for (auto [i, size] : llvm::enumerate(value.sizes))
        result += (i == 0 ? "" : "x") + std::to_string(size);
      break;
    case GenericValue::Kind::Int:
      // A minus sign is no part of a name.
      result += value.intValue < 0 ? "m" + std::to_string(-uint64_t(value.intValue))
                                   : std::to_string(value.intValue);
      break;
    }
  }
  return result;
}

void Checker::bindGenerics(llvm::ArrayRef<ast::GenericParam> generics,
                           llvm::ArrayRef<GenericValue> values) {
  for (auto [generic, value] : llvm::zip(generics, values)) {
    const Symbol *old = scope.lookup(generic.name.name);
    if (old)
      report(generic.name.range, diag::redefinition, generic.name.name)
          .note(old->range, diag::note_declared_here, generic.name.name);
    const llvm::StringRef typeName = generic.type ? generic.type->name.name : "";
    const std::optional<DType> dtype = dtypeFromName(typeName);
    const bool isKnown = typeName.empty() || typeName == "dtype" || typeName == "bool" ||
                         (typeName == "shape" && fn) || (dtype && isInteger(*dtype));
    if (!isKnown || (generic.type && generic.type->hasShape)) {
      auto message = report(generic.type->range, diag::bad_generic_type,
                            ctx.sources.text(generic.type->range));
      if (!habits::elementType(typeName).empty())
        message
            .note(generic.type->range, diag::note_dtile_form,
                  ("an integer has no type here: `" + generic.name.name + " = 64`").str())
            .fix({generic.name.range.end, generic.type->range.end}, "");
    }
    Symbol symbol;
    symbol.kind = Symbol::Kind::Generic;
    symbol.name = generic.name.name;
    symbol.range = generic.name.range;
    symbol.value = value;
    scope.declare(symbol);
  }
}

void Checker::checkKernel(const ast::KernelDecl *decl) {
  scope.push();
  bindGenerics(decl->generics, kernel->generics);
  kernelSignature(decl);
  scope.push();
  kernelClauses(decl);
  kernelPrologue(decl);
  llvm::StringMap<SourceRange> names;
  if (ctx.orders.contains(decl))
    scope.lookup(decl->generics.back().name.name)->used = true;
  for (const ast::Role *role : ctx.bodyOf(decl, kernel->generics)->roles) {
    const llvm::StringRef name = role->name.name.empty() ? "main" : role->name.name;
    auto [old, isNew] = names.try_emplace(name, role->name.range);
    if (!isNew)
      report(role->name.range, diag::redefinition, name)
          .note(old->second, diag::note_declared_here, name);
    const bool joins = role->whenAll != nullptr;
    yieldsTo = role->whenAll;
    sawYield = false;
    kernelRole(role, name, /*afterAll=*/-1, {});
    if (joins && !sawYield && !role->whenAll->joined.empty())
      report(role->name.range.isValid() ? role->name.range : role->range, diag::missing_yield)
          .note(role->whenAll->range, diag::note_joined_here);
    yieldsTo = nullptr;
    if (joins)
      kernelRole(role->whenAll, (name + "_all").str(), int(kernel->spaces.size()) - 1,
                 role->whenAll->joined);
  }
  leaveScope();
  scope.pop([&](const Symbol &symbol) {
    const bool isParam = symbol.kind == Symbol::Kind::Param || symbol.kind == Symbol::Kind::Generic;
    // What becomes of a signal is said by the pairing check.
    const bool isSignal = symbol.kind == Symbol::Kind::Param &&
                          kernel->params[symbol.index].type->kind == TypeKind::Signal;
    if (isGood() && isParam && !isSignal && !symbol.used && !symbol.name.starts_with("_"))
      report(symbol.range, diag::unused_parameter, symbol.name);
  });
}

void Checker::kernelPrologue(const ast::KernelDecl *decl) {
  Restore<TBlock *> sink(block, &kernel->prologue);
  for (const ast::Stmt *s : decl->prologue) {
    // The parser refused others.
    if (llvm::isa<ast::LetStmt>(s))
      statement(s);
  }
  for (const TStmt *let : kernel->prologue)
    for (const TExpr *value : let->values)
      refuseMemory(value, diag::memory_before_roles);
}

void Checker::spaceDims(const ast::OverClause *over, TSpace &space,
                        llvm::SmallVectorImpl<Iteration> &bounds) {
  if (!over)
    return;
  space.ordered = over->ordered;
  if (over->programs) {
    std::optional<int64_t> programs = constInt(over->programs, "the number of programs");
    if (programs && *programs < 1)
      report(over->programs->range, diag::step_not_positive, *programs);
    if (programs && *programs > kMaxPrograms)
      report(over->programs->range, diag::literal_does_not_fit, *programs, "i32");
    space.programs = programs.value_or(0);
  }
  space.copyEngine = over->copyEngine;
  if (over->copyEngineIf) {
    const auto asked = constInt(over->copyEngineIf, "whether to use the copy engine");
    space.copyEngine = asked.value_or(0) != 0;
  }
  for (const ast::IterDim &dim : over->dims) {
    bounds.push_back(iteration(dim));
    for (const TExpr *bound : {bounds.back().lo, bounds.back().hi})
      refuseMemory(bound, diag::memory_in_bounds);
  }
}

void Checker::refuseMemory(const TExpr *value, diag::Id what) {
  bool isReported = false;
  walkExpression(value, [&](const TExpr &e) {
    if (isReported || (!touchesMemory(e.kind) && e.kind != TExprKind::Wait))
      return;
    isReported = true;
    report(e.range, what);
  });
}

void Checker::kernelRole(const ast::Role *role, llvm::StringRef name, int afterAll,
                         llvm::ArrayRef<ast::Ident> joined) {
  TSpace space;
  space.name = name.str();
  space.range = role->range;
  space.afterAll = afterAll;
  // Bounds stand outside the space: no dimension sees another.
  llvm::SmallVector<Iteration, 4> bounds;
  spaceDims(role->over, space, bounds);
  scope.push();
  for (auto [i, bound] : llvm::enumerate(bounds)) {
    Symbol *symbol = declareLocal(role->over->dims[i].name, bound.type, /*isMutable=*/false);
    symbol->used = true;
    symbol->var->coordinate = bound.coordinate();
    SpaceDim dim;
    dim.var = symbol->var;
    dim.lo = bound.lo;
    dim.hi = bound.hi;
    dim.step = bound.blockLength ? bound.blockLength : 1;
    space.dims.push_back(dim);
  }
  for (const ast::Ident &ident : joined)
    space.joined.push_back(declareLocal(ident, types.token(), /*isMutable=*/false)->var);
  {
    Restore<TBlock *> sink(block, &space.body);
    scope.push();
    if (role->body) {
      const auto list = role->body->statements;
      allowedYield = list.empty() ? nullptr : list.back();
      statements(list);
    }
    leaveScope();
  }
  leaveScope();
  kernel->spaces.push_back(std::move(space));
}

} // namespace dtile::sema
