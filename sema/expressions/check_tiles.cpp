// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Elements and rows of tiles that are held, and tiles made of two. Tiles have no addresses: a part
// is chosen by comparing positions, which every executor does where the elements are.
#include "sema/checker.h"

namespace dtile::sema {

// The zero of a scalar type, or `false`.
TExpr *Checker::zeroOf(DType dtype, SourceRange range) {
  if (dtype == DType::Bool)
    return boolConst(false, range);
  return isFloat(dtype) ? floatConst(0, range, dtype) : intConst(0, range, dtype);
}

// Whether positions of dimension `dim` of a tile of this shape are `index`, which broadcasts.
TExpr *Checker::isAt(llvm::ArrayRef<int64_t> shape, unsigned dim, TExpr *index) {
  const SourceRange range = index->range;
  TExpr *steps = builtin(BuiltinId::Iota, {}, types.tile(DType::I64, {shape[dim]}), range);
  llvm::SmallVector<int64_t, 4> placed(shape.size(), 1);
  placed[dim] = shape[dim];
  if (placed.size() > 1)
    steps = builtin(BuiltinId::Reshape, {steps}, types.tile(DType::I64, placed), range);
  return elementwise(ElementwiseOp::Eq, {steps, shapedAs(index, placed)}, range);
}

// The indices of a tile: positions, or null for `:`. Nothing after reporting.
std::optional<llvm::SmallVector<TExpr *, 4>>
Checker::tilePositions(const TExpr *tile, llvm::ArrayRef<ast::Expr *> indices, SourceRange range) {
  llvm::SmallVector<TExpr *, 4> positions;
  const bool good = indices.size() == tile->type->rank();
  for (auto [dim, index] : llvm::enumerate(indices)) {
    if (const auto *part = llvm::dyn_cast<ast::RangeExpr>(index); part && !part->lo && !part->hi) {
      positions.push_back(nullptr);
      continue;
    }
    const auto *name = llvm::dyn_cast<ast::NameExpr>(index);
    if (name && name->name == "None" && !lookup("None")) {
      report(index->range, diag::tile_indexed, typeText(tile->type))
          .note(index->range, diag::note_dtile_form,
                "a dimension of size 1 is put in by `expand(x, axis: 1)`");
      return std::nullopt;
    }
    TExpr *at = llvm::isa<ast::RangeExpr, ast::StepExpr>(index) ? nullptr : toValue(expr(index));
    if (at && at->type->kind == TypeKind::Error)
      return std::nullopt;
    if (!at || at->type->kind != TypeKind::Scalar || !isInteger(at->type->dtype)) {
      report(index->range, diag::tile_indexed, typeText(tile->type));
      return std::nullopt;
    }
    const bool isKnown = at->kind == TExprKind::Const && good;
    const int64_t known = isKnown ? int64_t(at->bits) : 0;
    if (isKnown && (known < 0 || known >= tile->type->shape[dim]))
      report(index->range, diag::index_out_of_bounds, known, tile->type->shape[dim]);
    positions.push_back(cast(at, DType::I64, at->range));
  }
  if (good)
    return positions;
  report(range, diag::wrong_index_count, tile->type->rank(), indices.size());
  return std::nullopt;
}

// `v[:, :, 0]`: the elements at a position, found by a sum of which all others are zero.
TExpr *Checker::tileAt(TExpr *tile, llvm::ArrayRef<ast::Expr *> indices, SourceRange range) {
  const auto positions = tilePositions(tile, indices, range);
  if (!positions)
    return error(range);
  const DType dtype = tile->type->dtype;
  TExpr *result = tile;
  // From the last dimension, so that the numbers of those before it stay.
  for (size_t dim = positions->size(); dim-- > 0;) {
    TExpr *at = (*positions)[dim];
    if (!at)
      continue;
    llvm::SmallVector<int64_t, 4> shape(result->type->shape);
    TExpr *chosen = shapedAs(isAt(shape, dim, at), shape);
    TExpr *others = shapedAs(zeroOf(dtype, range), shape);
    TExpr *picked = elementwise(ElementwiseOp::Select, {chosen, result, others}, range);
    shape.erase(shape.begin() + dim);
    const BuiltinId id = dtype == DType::Bool ? BuiltinId::ReduceAny : BuiltinId::ReduceSum;
    result = builtin(id, {picked}, valueType(dtype, shape, range), range, {int64_t(dim)});
  }
  return result;
}

// `h[j, :] = t;` of a variable that holds a tile.
void Checker::assignElements(const ast::AssignStmt *s, const ast::IndexExpr *target,
                             Symbol &symbol) {
  TExpr *old = symbolValue(symbol, target->base->range);
  const auto positions = tilePositions(old, target->indices, target->range);
  TExpr *given = expr(s->value);
  if (!positions || given->type->kind == TypeKind::Error)
    return;
  const llvm::SmallVector<int64_t, 4> whole(old->type->shape);
  llvm::SmallVector<int64_t, 4> part;
  llvm::SmallVector<int64_t, 4> placed(whole.size(), 1);
  TExpr *chosen = nullptr;
  for (auto [dim, at] : llvm::enumerate(*positions)) {
    if (!at) {
      part.push_back(whole[dim]);
      placed[dim] = whole[dim];
      continue;
    }
    TExpr *here = shapedAs(isAt(whole, dim, at), whole);
    chosen = chosen ? elementwise(ElementwiseOp::And, {chosen, here}, target->range) : here;
  }
  const DType dtype = old->type->dtype;
  if (s->isCompound) {
    // The other side meets elements, as it would meet a slice of a tensor.
    given = toValue(given);
    TExpr *mine = old;
    if (!unifyDTypes(mine, given, s->opRange))
      return;
  }
  given = convert(given, valueType(dtype, part, target->range), s->value->range);
  if (given->type->kind == TypeKind::Error)
    return;
  if (given->type->kind == TypeKind::Tile && placed != part)
    given = builtin(BuiltinId::Reshape, {given}, types.tile(dtype, placed), s->value->range);
  given = shapedAs(given, whole);
  if (s->isCompound)
    given = arithmetic(s->op, old, given, s->range, s->opRange);
  if (given->type->kind == TypeKind::Error)
    return;
  if (chosen)
    given = elementwise(ElementwiseOp::Select, {chosen, given, old}, s->range);
  if (TStmt *assign = emit(TStmtKind::Assign, s->range)) {
    assign->vars.push_back(symbol.var);
    assign->values.push_back(given);
  }
}

// ---- Tiles of two ----

// Both side by side in a new last dimension.
TExpr *Checker::joined(const CallSite &site) {
  if (!checkArgs(site, 2, 2) || !noGenerics(site) || !noShape(site))
    return error(site.range);
  TExpr *a = value(site.args[0].value);
  TExpr *b = value(site.args[1].value);
  if (a->type->kind == TypeKind::Error || b->type->kind == TypeKind::Error ||
      !unify(a, b, site.range))
    return error(site.range);
  llvm::SmallVector<int64_t, 5> shape(a->type->shape.begin(), a->type->shape.end());
  llvm::SmallVector<int64_t, 5> wide(shape);
  wide.push_back(1);
  shape.push_back(2);
  const DType dtype = a->type->dtype;
  if (valueType(dtype, shape, site.range)->kind == TypeKind::Error)
    return error(site.range);
  for (TExpr **side : {&a, &b}) {
    if ((*side)->type->kind == TypeKind::Tile)
      *side = builtin(BuiltinId::Reshape, {*side}, types.tile(dtype, wide), site.range);
    *side = shapedAs(*side, shape);
  }
  TExpr *first = isAt(shape, shape.size() - 1, intConst(0, site.range));
  return elementwise(ElementwiseOp::Select, {shapedAs(first, shape), a, b}, site.range);
}

TExpr *Checker::callJoin(const CallSite &site) { return joined(site); }

TExpr *Checker::callInterleave(const CallSite &site) {
  TExpr *both = joined(site);
  if (both->type->kind == TypeKind::Error)
    return both;
  llvm::SmallVector<int64_t, 4> shape(both->type->shape);
  if (shape.size() == 1)
    return both;
  shape.pop_back();
  shape.back() *= 2;
  return builtin(BuiltinId::Reshape, {both}, types.tile(both->type->dtype, shape), site.range);
}

// `let (a, b) = split(x);` of a last dimension of size 2.
TExpr *Checker::callSplit(const CallSite &site) {
  if (checkArgs(site, 1, 1))
    report(site.range, diag::split_without_names);
  return error(site.range);
}

bool Checker::isSplit(const ast::Expr *e) const {
  const auto *call = llvm::dyn_cast<ast::CallExpr>(e);
  const auto *name = call ? llvm::dyn_cast<ast::NameExpr>(call->callee) : nullptr;
  return name && name->name == "split" && call->args.size() == 1 &&
         module.names.find("split") == module.names.end();
}

void Checker::letSplit(const ast::LetStmt *s) {
  TExpr *whole = value(llvm::cast<ast::CallExpr>(s->value)->args[0].value);
  const Type type = whole->type;
  const bool fits = type->kind == TypeKind::Tile && type->shape.back() == 2;
  if (!fits && type->kind != TypeKind::Error)
    report(whole->range, diag::type_mismatch, "a tile whose last dimension has size 2",
           typeText(type));
  if (fits && s->names.size() != 2)
    report(s->value->range, diag::result_count, 2, s->names.size());
  if (!fits || s->names.size() != 2) {
    for (const ast::Ident &name : s->names)
      declareLocal(name, errorType(), /*isMutable=*/false);
    return;
  }
  Variable *held = ctx.makeVariable("whole", type, whole->range, /*isMutable=*/false);
  if (TStmt *let = emit(TStmtKind::Let, s->range)) {
    let->vars.push_back(held);
    let->values.push_back(whole);
  }
  const llvm::ArrayRef<int64_t> shape(type->shape);
  for (auto [i, name] : llvm::enumerate(s->names)) {
    const SourceRange range = name.range;
    TExpr *use = ctx.makeExpr(TExprKind::VarRef, type, range);
    use->var = held;
    TExpr *chosen = shapedAs(isAt(shape, shape.size() - 1, intConst(int64_t(i), range)), shape);
    TExpr *others = shapedAs(zeroOf(type->dtype, range), shape);
    TExpr *picked = elementwise(ElementwiseOp::Select, {chosen, use, others}, range);
    const BuiltinId id = type->dtype == DType::Bool ? BuiltinId::ReduceAny : BuiltinId::ReduceSum;
    TExpr *half = builtin(id, {picked}, valueType(type->dtype, shape.drop_back(), range), range,
                          {int64_t(shape.size() - 1)});
    Variable *variable = declareLocal(name, half->type, /*isMutable=*/false)->var;
    if (TStmt *let = emit(TStmtKind::Let, s->range)) {
      let->vars.push_back(variable);
      let->values.push_back(half);
    }
  }
}

} // namespace dtile::sema
