// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Elements, rows and slices of tiles that are held, and tiles made of two. Tiles have no addresses:
// a part is chosen by comparing positions, which every executor does where the elements are.
#include "sema/checker.h"

#include <array>
#include <numeric>

namespace dtile::sema {

// The zero of a scalar type, or `false`.
TExpr *Checker::zeroOf(DType dtype, SourceRange range) {
  if (dtype == DType::Bool)
    return boolConst(false, range);
  return isFloat(dtype) ? floatConst(0, range, dtype) : intConst(0, range, dtype);
}

// 0, 1 … along dimension `dim` of a tile of this shape; the others have size 1.
TExpr *Checker::stepsAlong(llvm::ArrayRef<int64_t> shape, unsigned dim, SourceRange range) {
  TExpr *steps = builtin(BuiltinId::Iota, {}, types.tile(DType::I64, {shape[dim]}), range);
  llvm::SmallVector<int64_t, 4> placed(shape.size(), 1);
  placed[dim] = shape[dim];
  return reshaped(steps, placed, range);
}

TExpr *Checker::reshaped(TExpr *tile, llvm::ArrayRef<int64_t> shape, SourceRange range) {
  if (llvm::ArrayRef<int64_t>(tile->type->shape) == shape)
    return tile;
  return builtin(BuiltinId::Reshape, {tile}, types.tile(tile->type->dtype, shape), range);
}

// Whether positions of dimension `dim` of a tile of this shape are `index`, which broadcasts.
TExpr *Checker::isAt(llvm::ArrayRef<int64_t> shape, unsigned dim, TExpr *index) {
  TExpr *steps = stepsAlong(shape, dim, index->range);
  return elementwise(ElementwiseOp::Eq, {steps, shapedAs(index, steps->type->shape)}, index->range);
}

// Whether positions of dimension `dim` are among those of the part.
TExpr *Checker::isIn(llvm::ArrayRef<int64_t> shape, unsigned dim, const TilePart &part,
                     SourceRange range) {
  TExpr *steps = stepsAlong(shape, dim, range);
  const llvm::ArrayRef<int64_t> placed(steps->type->shape);
  TExpr *lo = shapedAs(intConst(part.lo, range), placed);
  TExpr *limit = shapedAs(intConst(part.lo + part.length, range), placed);
  return elementwise(ElementwiseOp::And,
                     {elementwise(ElementwiseOp::Ge, {steps, lo}, range),
                      elementwise(ElementwiseOp::Lt, {steps, limit}, range)},
                     range);
}

// What a range cuts from a dimension of this size. Nothing after reporting.
std::optional<TilePart> Checker::tileRange(const ast::Expr *index, int64_t size) {
  const SourceRange range = index->range;
  const auto *written = llvm::dyn_cast<ast::RangeExpr>(index);
  TExpr *lo = nullptr;
  TExpr *limit = nullptr;
  if (written) {
    lo = written->lo ? position(written->lo) : intConst(0, range);
    limit = written->hi ? position(written->hi) : intConst(size, range);
    if (lo->type->kind == TypeKind::Error || limit->type->kind == TypeKind::Error)
      return std::nullopt;
  }
  if (!written || lo->kind != TExprKind::Const || limit->kind != TExprKind::Const) {
    report(range, diag::tile_range_not_constant);
    return std::nullopt;
  }
  const int64_t first = int64_t(lo->bits);
  const int64_t end = int64_t(limit->bits);
  if (first < 0 || end > size || first >= end) {
    report(range, diag::tile_range_outside, first, end, size);
    return std::nullopt;
  }
  return TilePart{nullptr, first, end - first};
}

// What the indices of a tile choose, one part a dimension. Nothing after reporting.
std::optional<llvm::SmallVector<TilePart, 4>>
Checker::tileParts(const TExpr *tile, llvm::ArrayRef<ast::Expr *> indices, SourceRange range) {
  if (indices.size() != tile->type->rank()) {
    report(range, diag::wrong_index_count, tile->type->rank(), indices.size());
    return std::nullopt;
  }
  llvm::SmallVector<TilePart, 4> parts;
  for (auto [index, size] : llvm::zip(indices, tile->type->shape)) {
    if (llvm::isa<ast::RangeExpr>(index)) {
      const std::optional<TilePart> part = tileRange(index, size);
      if (!part)
        return std::nullopt;
      parts.push_back(*part);
      continue;
    }
    if (llvm::isa<ast::StepExpr>(index)) {
      report(index->range, diag::tile_indexed, typeText(tile->type))
          .note(index->range, diag::note_dtile_form,
                "every second element is a half of `let (even, odd) = split(x);`, where the last "
                "dimension of `x` is reshaped to [n / 2, 2]");
      return std::nullopt;
    }
    TExpr *at = toValue(expr(index));
    if (at->type->kind == TypeKind::Error)
      return std::nullopt;
    if (at->type->kind == TypeKind::Range) {
      report(index->range, diag::tile_range_not_constant);
      return std::nullopt;
    }
    if (at->type->kind != TypeKind::Scalar || !isInteger(at->type->dtype)) {
      report(index->range, diag::tile_indexed, typeText(tile->type));
      return std::nullopt;
    }
    const int64_t known = int64_t(at->bits);
    if (at->kind == TExprKind::Const && (known < 0 || known >= size))
      report(index->range, diag::index_out_of_bounds, known, size);
    parts.push_back({cast(at, DType::I64, at->range), 0, 1});
  }
  return parts;
}

// `length` elements of dimension `dim` from position `lo`, and zeros where the tile has none. Both
// tiles are cut into blocks that `lo` and both sizes are multiples of. Each block of the result is
// a sum over the blocks of the tile, of which all but one are zero.
TExpr *Checker::movedAlong(TExpr *tile, unsigned dim, int64_t lo, int64_t length,
                           SourceRange range) {
  llvm::SmallVector<int64_t, 4> shape(tile->type->shape);
  if (lo == 0 && length == shape[dim])
    return tile;
  const int64_t block = std::gcd(std::gcd(shape[dim], length), lo);
  const int64_t from = shape[dim] / block;
  const int64_t to = length / block;
  int64_t before = 1;
  int64_t inner = block;
  for (auto [i, size] : llvm::enumerate(shape))
    if (i != dim)
      (i < dim ? before : inner) *= size;
  shape[dim] = length;
  const DType dtype = tile->type->dtype;
  if (valueType(dtype, {before, to, from, inner}, range)->kind == TypeKind::Error)
    return error(range);
  const std::array<int64_t, 4> grid = {before, to, from, inner};
  const std::array<int64_t, 4> pairs = {1, to, from, 1};
  TExpr *first = shapedAs(intConst(lo / block, range), {1, to, 1, 1});
  TExpr *wanted = elementwise(ElementwiseOp::Add, {stepsAlong(grid, 1, range), first}, range);
  TExpr *chosen =
      elementwise(ElementwiseOp::Eq,
                  {shapedAs(wanted, pairs), shapedAs(stepsAlong(grid, 2, range), pairs)}, range);
  TExpr *blocks = shapedAs(reshaped(tile, {before, 1, from, inner}, range), grid);
  TExpr *others = shapedAs(zeroOf(dtype, range), grid);
  TExpr *picked =
      elementwise(ElementwiseOp::Select, {shapedAs(chosen, grid), blocks, others}, range);
  if (from > 1) {
    const BuiltinId id = dtype == DType::Bool ? BuiltinId::ReduceAny : BuiltinId::ReduceSum;
    picked = builtin(id, {picked}, types.tile(dtype, {before, to, inner}), range, {2});
  }
  return reshaped(picked, shape, range);
}

// `v[:, :, 0]` and `v[:, 0..64]`: the elements at a position are found by a sum of which all others
// are zero.
TExpr *Checker::partOf(TExpr *tile, llvm::ArrayRef<TilePart> parts, SourceRange range) {
  const DType dtype = tile->type->dtype;
  TExpr *result = tile;
  // From the last dimension, so that the numbers of those before it stay.
  for (size_t dim = parts.size(); dim-- > 0;) {
    const TilePart &part = parts[dim];
    if (!part.at) {
      result = movedAlong(result, dim, part.lo, part.length, range);
      if (result->type->kind == TypeKind::Error)
        return result;
      continue;
    }
    llvm::SmallVector<int64_t, 4> shape(result->type->shape);
    TExpr *chosen = shapedAs(isAt(shape, dim, part.at), shape);
    TExpr *others = shapedAs(zeroOf(dtype, range), shape);
    TExpr *picked = elementwise(ElementwiseOp::Select, {chosen, result, others}, range);
    shape.erase(shape.begin() + dim);
    const BuiltinId id = dtype == DType::Bool ? BuiltinId::ReduceAny : BuiltinId::ReduceSum;
    result = builtin(id, {picked}, valueType(dtype, shape, range), range, {int64_t(dim)});
  }
  return result;
}

TExpr *Checker::tileAt(TExpr *tile, llvm::ArrayRef<ast::Expr *> indices, SourceRange range) {
  const auto parts = tileParts(tile, indices, range);
  return parts ? partOf(tile, *parts, range) : error(range);
}

// `h[j, :] = t;` and `h[:, 0..64] = t;` of a variable that holds a tile.
void Checker::assignElements(const ast::AssignStmt *s, const ast::IndexExpr *target,
                             Symbol &symbol) {
  TExpr *old = symbolValue(symbol, target->base->range);
  const auto parts = tileParts(old, target->indices, target->range);
  TExpr *given = expr(s->value);
  if (!parts || given->type->kind == TypeKind::Error)
    return;
  const llvm::SmallVector<int64_t, 4> whole(old->type->shape);
  llvm::SmallVector<int64_t, 4> sizes;
  llvm::SmallVector<int64_t, 4> placed;
  TExpr *chosen = nullptr;
  bool cuts = false;
  for (auto [dim, part] : llvm::enumerate(*parts)) {
    placed.push_back(part.length);
    if (!part.at) {
      sizes.push_back(part.length);
      if (part.length == whole[dim])
        continue;
      cuts = true;
    }
    TExpr *among = part.at ? isAt(whole, dim, part.at) : isIn(whole, dim, part, target->range);
    TExpr *here = shapedAs(among, whole);
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
  given = convert(given, valueType(dtype, sizes, target->range), s->value->range);
  // Zeros around a part are no operands: the part meets the other side before it is placed.
  if (s->isCompound && cuts && given->type->kind != TypeKind::Error)
    given = arithmetic(s->op, partOf(old, *parts, target->range), given, s->range, s->opRange);
  if (given->type->kind == TypeKind::Error)
    return;
  if (given->type->kind == TypeKind::Tile) {
    given = reshaped(given, placed, s->value->range);
    for (auto [dim, part] : llvm::enumerate(*parts)) {
      if (!part.at)
        given = movedAlong(given, dim, -part.lo, whole[dim], s->value->range);
      if (given->type->kind == TypeKind::Error)
        return;
    }
  }
  given = shapedAs(given, whole);
  if (s->isCompound && !cuts)
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
