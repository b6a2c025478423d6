// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Slices of regions and signals, gathers, ranges.
#include "frontend/ast/new_axis.h"
#include "sema/checker.h"
#include "sema/tree/shapes.h"

namespace dtile::sema {

TExpr *Checker::indexExpr(const ast::IndexExpr *e) {
  // `zeros<f32>[BM, BN]` and `reshape(x)[BM, BN]` give sizes, not positions.
  if (e->base->kind == ast::NodeKind::GenericExpr)
    return callExpr(e);
  if (const auto *name = llvm::dyn_cast<ast::NameExpr>(e->base))
    if (!lookup(name->name) && callHandler(name->name))
      return callExpr(e);
  if (const auto *call = llvm::dyn_cast<ast::CallExpr>(e->base))
    if (const auto *name = llvm::dyn_cast<ast::NameExpr>(call->callee))
      if (name->name == "reshape" && !lookup(name->name))
        return callExpr(e);
  return slice(expr(e->base), e->indices, e->range);
}

TExpr *Checker::dimSize(TExpr *base, unsigned dim, SourceRange range) {
  if (base->type->kind == TypeKind::Region && base->type->shape[dim] != kDynamic)
    return intConst(base->type->shape[dim], range);
  const TExpr *object = base->kind == TExprKind::Remote ? base->operands[0] : base;
  if (object->kind == TExprKind::ParamRef) {
    // While the signature is checked a size may be missing still.
    const auto &sizes = kernel->params[object->param].sizes;
    return dim < sizes.size() ? sizes[dim] : error(range);
  }
  TExpr *size = ctx.makeExpr(TExprKind::RegionSize, types.scalar(DType::I64), range);
  size->operands.push_back(base);
  size->ints.push_back(dim);
  return size;
}

// The static length of `lo..limit`, or kDynamic.
static int64_t lengthOf(const TExpr *lo, const TExpr *limit) {
  std::optional<int64_t> length = constantDifference(limit, lo);
  // `p..p + 16` of an i32. Where the sum wraps around, the range ends before it begins, and none of
  // its 16 positions exists.
  const auto isWidened = [](const TExpr *e) {
    return e->kind == TExprKind::Cast && isInteger(e->operands[0]->type->dtype);
  };
  if (!length && isWidened(lo) && isWidened(limit) &&
      lo->operands[0]->type == limit->operands[0]->type)
    length = constantDifference(limit->operands[0], lo->operands[0]);
  return length && *length > 0 ? *length : kDynamic;
}

TExpr *Checker::makeRange(TExpr *lo, TExpr *limit, SourceRange range) {
  if (lo->type->kind == TypeKind::Error || limit->type->kind == TypeKind::Error)
    return error(range);
  const int64_t length = lengthOf(lo, limit);
  TExpr *result = ctx.makeExpr(TExprKind::MakeRange, types.range(length), range);
  result->operands = {lo, limit};
  result->ints.push_back(length);
  return result;
}

TExpr *Checker::rangeExpr(const ast::RangeExpr *e, TExpr *base, unsigned dim) {
  if (!e->hi && !base) {
    report(e->range, diag::range_without_end);
    if (e->lo)
      (void)position(e->lo);
    return error(e->range);
  }
  TExpr *lo = e->lo ? position(e->lo) : intConst(0, e->range);
  TExpr *hi = e->hi ? position(e->hi) : dimSize(base, dim, e->range);
  return makeRange(lo, hi, e->range);
}

TExpr *Checker::steppedPositions(const ast::StepExpr *e, TExpr *base, unsigned dim) {
  TExpr *whole = rangeExpr(e->whole, base, dim);
  const std::optional<int64_t> step = constInt(e->step, "the step of a slice");
  if (!step || whole->type->kind == TypeKind::Error)
    return error(e->range);
  if (*step <= 0) {
    report(e->step->range, diag::step_not_positive, *step);
    return error(e->range);
  }
  const int64_t length = whole->type->shape[0];
  if (length == kDynamic) {
    // Of `x[::2]` the parser has said it.
    if (!ctx.sources.text(e->range).contains(".."))
      return error(e->range);
    report(e->whole->range, diag::dynamic_range_as_tile)
        .note(e->range, diag::note_dtile_form,
              "a slice with a step is a tile, and says where it ends: `x[0..64 by 2]`");
    return error(e->range);
  }
  const Type type = valueType(DType::I64, {(length - 1) / *step + 1}, e->range);
  if (type->kind == TypeKind::Error)
    return error(e->range);
  TExpr *steps = builtin(BuiltinId::Iota, {}, type, e->range);
  TExpr *width = shapedAs(intConst(*step, e->range), type->shape);
  TExpr *first = shapedAs(rangeMember(whole, RangeMemberKind::Lo, e->range), type->shape);
  return elementwise(ElementwiseOp::Add,
                     {first, elementwise(ElementwiseOp::Mul, {steps, width}, e->range)}, e->range);
}

bool Checker::indexItems(TExpr *base, llvm::ArrayRef<ast::Expr *> indices, SourceRange range,
                         llvm::SmallVectorImpl<IndexItem> &items, bool &isGather) {
  bool good = true;
  const bool isSignal = base->type->kind == TypeKind::Signal;
  for (auto [dim, index] : llvm::enumerate(indices)) {
    IndexItem item;
    if (const auto *part = llvm::dyn_cast<ast::RangeExpr>(index)) {
      if (part->lo || part->hi) {
        item.kind = IndexItem::Kind::Range;
        item.value = rangeExpr(part, base, dim);
      }
      good &= !item.value || item.value->type->kind != TypeKind::Error;
      items.push_back(item);
      continue;
    }
    const auto *stepped = llvm::dyn_cast<ast::StepExpr>(index);
    TExpr *checked = stepped ? steppedPositions(stepped, base, dim) : toValue(expr(index));
    const Type type = checked->type;
    const bool isIndex = type->isValue() && isInteger(type->dtype);
    if (type->kind == TypeKind::Range) {
      item.kind = IndexItem::Kind::Range;
    } else if (isIndex && type->kind == TypeKind::Scalar) {
      item.kind = IndexItem::Kind::Index;
      checked = cast(checked, DType::I64, checked->range);
      good &= checkConstantIndex(base, dim, checked);
    } else if (isIndex && !isSignal) {
      item.kind = IndexItem::Kind::Index;
      isGather = true;
    } else {
      if (type->kind != TypeKind::Error)
        report(index->range, diag::bad_index, typeText(type));
      good = false;
    }
    item.value = checked;
    items.push_back(item);
  }
  return good;
}

// A position that is known must lie inside a size that is known: cells that do not exist cannot be
// signalled; elements that do not exist read as zero, which hardly anybody means.
bool Checker::checkConstantIndex(TExpr *base, unsigned dim, TExpr *index) {
  if (index->kind != TExprKind::Const)
    return true;
  const TExpr *size = dimSize(base, dim, index->range);
  const int64_t at = int64_t(index->bits);
  if (size->kind != TExprKind::Const || size->type->kind == TypeKind::Error) {
    // Elsewhere `x[-1]` is the last element.
    if (at < 0 && base->type->kind == TypeKind::Region)
      report(index->range, diag::index_out_of_bounds, at, "0 or more")
          .note(index->range, diag::note_dtile_form,
                "positions count from 0 on; the last one of `M` is `M - 1`");
    return true;
  }
  if (at >= 0 && at < int64_t(size->bits))
    return true;
  const bool isSignal = base->type->kind == TypeKind::Signal;
  report(index->range, isSignal ? diag::signal_cell_out_of_bounds : diag::index_out_of_bounds, at,
         int64_t(size->bits));
  return !isSignal;
}

bool Checker::isNewAxis(const ast::Expr *index) { return ast::isNewAxis(index) && !lookup("None"); }

// `b[None, n]` and `t[:, None]`: what the other indices choose, with dimensions of size 1.
TExpr *Checker::sliceWithNewAxes(TExpr *base, llvm::ArrayRef<ast::Expr *> indices,
                                 SourceRange range) {
  llvm::SmallVector<ast::Expr *, 4> others;
  llvm::copy_if(indices, std::back_inserter(others), [&](auto *e) { return !isNewAxis(e); });
  TExpr *chosen = toValue(slice(base, others, range));
  if (chosen->type->kind == TypeKind::Error)
    return chosen;
  const llvm::ArrayRef<int64_t> sizes(chosen->type->shape);
  const size_t leading =
      llvm::find_if_not(indices, [&](auto *e) { return isNewAxis(e); }) - indices.begin();
  const size_t trailing = indices.size() - others.size() - leading;
  llvm::SmallVector<int64_t, 4> shape;
  if (sizes.size() == others.size()) {
    const int64_t *next = sizes.begin();
    for (const ast::Expr *index : indices)
      shape.push_back(isNewAxis(index) ? 1 : *next++);
  } else if (llvm::all_of(indices.take_back(trailing), [&](auto *e) { return isNewAxis(e); })) {
    shape.assign(leading, 1);
    shape.append(sizes.begin(), sizes.end());
    shape.append(trailing, 1);
  } else {
    report(range, diag::new_axis_among_positions);
    return error(range);
  }
  const Type type = valueType(chosen->type->dtype, shape, range);
  if (type->kind == TypeKind::Error)
    return error(range);
  if (chosen->type->kind == TypeKind::Scalar)
    return shapedAs(chosen, shape);
  return reshaped(chosen, shape, range);
}

TExpr *Checker::slice(TExpr *base, llvm::ArrayRef<ast::Expr *> indices, SourceRange range) {
  const auto checkAll = [&] {
    for (const ast::Expr *index : indices)
      if (index->kind != ast::NodeKind::RangeExpr && index->kind != ast::NodeKind::StepExpr &&
          !isNewAxis(index))
        (void)expr(index);
    return error(range);
  };
  const TypeKind kind = base->type->kind;
  if (kind == TypeKind::Error)
    return checkAll();
  if ((kind == TypeKind::Tile || kind == TypeKind::Region) &&
      llvm::any_of(indices, [&](auto *e) { return isNewAxis(e); }))
    return sliceWithNewAxes(base, indices, range);
  if (kind == TypeKind::Tile)
    return tileAt(base, indices, range);
  if (kind != TypeKind::Region && kind != TypeKind::Signal) {
    report(range, diag::cannot_index, typeText(base->type));
    return checkAll();
  }
  if (kind == TypeKind::Signal && base->kind == TExprKind::Slice) {
    report(range, diag::cannot_index, "signal cells");
    return checkAll();
  }
  if (indices.size() != base->type->rank()) {
    // `a[0:4]` of a matrix
    if (ctx.hasForeignForm(range))
      return checkAll();
    const bool isSignal = kind == TypeKind::Signal;
    auto message = report(range, isSignal ? diag::signal_index_count : diag::wrong_index_count,
                          base->type->rank(), indices.size());
    if (const ast::Param *param = rootParam(base))
      message.note(param->range, diag::note_declared_here, param->name.name);
    // `x[peer][i]`
    const bool isTooMany = base->type->rank() == 0 && base->kind == TExprKind::Slice;
    const ast::Param *object = rootParam(base);
    if (isTooMany && object && base->operands[0]->type->rank() == indices.size())
      message.note(range, diag::note_dtile_form,
                   ("one pair of brackets has all indices; of rank r's object they are `" +
                    object->name.name + "@r[…]`")
                       .str());
    // `x[i][j]`
    const SourceRange behind{range.end, {range.end.offset + 1}};
    if (indices.size() < base->type->rank() && ctx.sources.text(behind) == "[")
      message.note(range, diag::note_dtile_form, "one pair of brackets has all indices: `x[i, j]`")
          .fix({{range.end.offset - 1}, behind.end}, ", ");
    return checkAll();
  }
  // A slice of `x after t` is a slice of x, after t.
  if (base->kind == TExprKind::Load) {
    TExpr *inner = slice(base->operands[0], indices, range);
    if (inner->type->kind == TypeKind::Error)
      return inner;
    for (TExpr *t : llvm::drop_begin(base->operands))
      inner = withToken(inner, t, range);
    return inner;
  }
  llvm::SmallVector<IndexItem, 4> items;
  bool isGather = false;
  if (!indexItems(base, indices, range, items, isGather))
    return error(range);
  if (isGather)
    return gather(base, items, range);
  return sliceOf(base, items, range);
}

TExpr *Checker::sliceOf(TExpr *base, llvm::ArrayRef<IndexItem> items, SourceRange range) {
  TypeData data = *base->type;
  data.shape.clear();
  for (auto [dim, item] : llvm::enumerate(items)) {
    switch (item.kind) {
    case IndexItem::Kind::Index:
      break;
    case IndexItem::Kind::Range:
      data.shape.push_back(item.value->type->shape[0]);
      break;
    case IndexItem::Kind::All:
      data.shape.push_back(base->type->shape[dim]);
      break;
    }
  }
  const bool isSignal = base->type->kind == TypeKind::Signal;
  const Type type = isSignal ? types.signal(data.shape.size(), data.remote) : types.region(data);
  TExpr *result = ctx.makeExpr(TExprKind::Slice, type, range);
  result->operands.push_back(base);
  result->indices.append(items.begin(), items.end());
  return result;
}

TExpr *Checker::rangePositions(TExpr *rangeValue, bool guarded, SourceRange range) {
  const int64_t length = rangeValue->type->shape[0];
  if (length == kDynamic) {
    report(rangeValue->range, diag::dynamic_range_as_tile);
    return error(range);
  }
  const Type i32 = valueType(DType::I32, {length}, range);
  if (i32->kind == TypeKind::Error)
    return error(range);
  TExpr *steps = cast(builtin(BuiltinId::Iota, {}, i32, range), DType::I64, range);
  TExpr *lo = shapedAs(rangeMember(rangeValue, RangeMemberKind::Lo, range), {length});
  TExpr *positions = elementwise(ElementwiseOp::Add, {lo, steps}, range);
  if (!guarded)
    return positions;
  TExpr *limit = shapedAs(rangeMember(rangeValue, RangeMemberKind::Limit, range), {length});
  TExpr *inside = elementwise(ElementwiseOp::Lt, {positions, limit}, range);
  TExpr *outside = shapedAs(intConst(-1, range), {length});
  return elementwise(ElementwiseOp::Select, {inside, positions, outside}, range);
}

// Brings index tiles, ranges and scalars of a gather to one shape. The index tiles share the
// dimensions of their common shape, which stand where the first of them stands; each range adds a
// dimension at its place.
bool Checker::gatherIndices(TExpr *base, llvm::MutableArrayRef<IndexItem> items, SourceRange range,
                            llvm::SmallVectorImpl<int64_t> &shape) {
  llvm::SmallVector<int64_t, 4> group;
  for (auto [dim, item] : llvm::enumerate(items)) {
    if (item.kind == IndexItem::Kind::All) {
      item.kind = IndexItem::Kind::Range;
      item.value = makeRange(intConst(0, range), dimSize(base, dim, range), range);
    }
    if (item.kind == IndexItem::Kind::Range || item.value->type->kind == TypeKind::Scalar)
      continue;
    llvm::SmallVector<int64_t, 4> merged;
    if (!broadcastShape(group, item.value->type->shape, merged)) {
      report(range, diag::shape_mismatch, shapeText(group), shapeText(item.value->type->shape));
      return false;
    }
    group = merged;
  }
  // First where each item's dimensions begin, then their tiles, reshaped to stand there.
  llvm::SmallVector<unsigned, 4> starts;
  std::optional<unsigned> groupStart;
  for (const IndexItem &item : items) {
    starts.push_back(shape.size());
    if (item.kind == IndexItem::Kind::Range) {
      shape.push_back(item.value->type->shape[0]);
    } else if (item.value->type->kind == TypeKind::Tile && !groupStart) {
      groupStart = shape.size();
      shape.append(group.begin(), group.end());
    }
  }
  if (const auto *dynamic = llvm::find(shape, kDynamic); dynamic != shape.end()) {
    auto message = report(range, diag::dynamic_region_as_value, unsigned(dynamic - shape.begin()),
                          shapeText(shape));
    noteHowToCut(message, range);
    return false;
  }
  for (auto [i, item] : llvm::enumerate(items)) {
    const bool isRange = item.kind == IndexItem::Kind::Range;
    if (!isRange && item.value->type->kind == TypeKind::Scalar)
      continue;
    TExpr *tile =
        isRange ? rangePositions(item.value, /*guarded=*/true, range) : shapedAs(item.value, group);
    if (tile->type->kind == TypeKind::Error)
      return false;
    if (valueType(DType::I64, shape, range)->kind == TypeKind::Error)
      return false;
    llvm::SmallVector<int64_t, 4> placed(shape.size(), 1);
    llvm::copy(tile->type->shape, placed.begin() + (isRange ? starts[i] : *groupStart));
    if (placed != tile->type->shape)
      tile = builtin(BuiltinId::Reshape, {tile}, types.tile(tile->type->dtype, placed), range);
    item = {IndexItem::Kind::Index, shapedAs(tile, shape)};
  }
  return true;
}

TExpr *Checker::gather(TExpr *base, llvm::ArrayRef<IndexItem> items, SourceRange range) {
  llvm::SmallVector<IndexItem, 4> indices(items.begin(), items.end());
  llvm::SmallVector<int64_t, 4> shape;
  if (!checkReadable(base, range) || !gatherIndices(base, indices, range, shape))
    return error(range);
  const Type type = valueType(base->type->dtype, shape, range);
  if (type->kind == TypeKind::Error)
    return error(range);
  TExpr *result = ctx.makeExpr(TExprKind::Gather, type, range);
  result->operands.push_back(base);
  result->indices.append(indices.begin(), indices.end());
  return result;
}

} // namespace dtile::sema
