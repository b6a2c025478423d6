// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranges, slices of regions and signals, and how many positions a region has.
#include "frontend/base/check.h"
#include "ir/from_ast/lowering.h"
#include "ir/from_ast/prove_sizes.h"

namespace dtile::ir {

using sema::IndexItem;
using sema::RangeMemberKind;
using sema::TExpr;

// Ranges.

RangeParts Lowering::dynamicRange(Value *first, Value *limit) {
  RangeParts range;
  range.first = range.unshiftedFirst = first;
  range.limit = range.unshiftedLimit = limit;
  return range;
}

RangeParts Lowering::makeRange(const TExpr &expr) {
  Value *first = value(*expr.operands[0]);
  RangeParts range = dynamicRange(first, value(*expr.operands[1]));
  range.length = expr.ints.front();
  if (range.length > 0) {
    range.indexPosition = first;
    range.indexStep = range.length;
  }
  return range;
}

RangeParts Lowering::shiftRange(const TExpr &expr) {
  RangeParts shifted = range(*expr.operands[0]);
  Value *offset = value(*expr.operands[1]);
  shifted.first = builder_.add(offset, shifted.first);
  shifted.limit = builder_.add(offset, shifted.limit);
  return shifted;
}

RangeParts Lowering::blocksOfRange(const TExpr &expr) {
  const RangeParts of = range(*expr.operands[0]);
  Value *block = value(*expr.operands[1]);
  Value *first = builder_.div(of.first, block);
  return dynamicRange(first, builder_.ceilDiv(rangeEnd(of), block));
}

RangeParts Lowering::chunkOfRange(const TExpr &expr) {
  const RangeParts of = range(*expr.operands[0]);
  Value *chunk = value(*expr.operands[1]);
  Value *chunks = value(*expr.operands[2]);
  Value *end = rangeEnd(of);
  const bool fromZero = constantOf(of.first) == 0;
  Value *each = builder_.ceilDiv(fromZero ? end : builder_.sub(end, of.first), chunks);
  Value *first = builder_.mul(chunk, each);
  if (!fromZero)
    first = builder_.add(of.first, first);
  first = builder_.min(first, end);
  return dynamicRange(first, builder_.min(builder_.add(first, each), end));
}

Value *Lowering::rangeIndex(const RangeParts &range) {
  if (range.index)
    return range.index;
  if (!range.indexPosition)
    return builder_.constIndex(0);
  Value *distance = range.indexPosition;
  if (range.indexOrigin && constantOf(range.indexOrigin) != 0)
    distance = builder_.sub(distance, range.indexOrigin);
  return range.indexStep == 1 ? distance
                              : builder_.div(distance, builder_.constIndex(range.indexStep));
}

Value *Lowering::rangeEnd(const RangeParts &range) {
  if (range.length < 0)
    return range.limit;
  Value *end = builder_.add(range.first, builder_.constIndex(range.length));
  return builder_.min(end, range.limit);
}

Value *Lowering::rangeCount(const RangeParts &range) {
  return atLeastZero(builder_.sub(rangeEnd(range), range.first));
}

Value *Lowering::rangeMember(const TExpr &expr) {
  const RangeParts of = range(*expr.operands[0]);
  switch (expr.member) {
  case RangeMemberKind::Lo:
    return of.first;
  case RangeMemberKind::Hi:
    return rangeEnd(of);
  case RangeMemberKind::Len:
    return of.length < 0 ? rangeCount(of) : builder_.constIndex(of.length);
  case RangeMemberKind::Count:
    return rangeCount(of);
  case RangeMemberKind::Index:
    return rangeIndex(of);
  case RangeMemberKind::Limit:
    return of.limit;
  }
  DTILE_UNREACHABLE("unknown member of a range");
}

Value *Lowering::atLeastZero(Value *value) {
  return isNonNegative(value) ? value : builder_.max(value, builder_.constIndex(0));
}

// Slices.

Lowered Lowering::slice(const TExpr &expr) {
  const TExpr &of = *expr.operands[0];
  const Lowered base = lower(of);
  return of.type->kind == sema::TypeKind::Signal ? sliceSignal(expr, base) : sliceView(expr, base);
}

Lowered Lowering::sliceSignal(const TExpr &expr, const Lowered &base) {
  std::string dims;
  Values operands = {base.value};
  bool all = true;
  for (unsigned d = 0; d < base.value->type().rank(); ++d) {
    const IndexItem item = d < expr.indices.size() ? expr.indices[d] : IndexItem();
    all &= item.kind == IndexItem::Kind::All;
    switch (item.kind) {
    case IndexItem::Kind::All:
      dims += 'a';
      break;
    case IndexItem::Kind::Index:
      dims += 'i';
      operands.push_back(value(*item.value));
      break;
    case IndexItem::Kind::Range: {
      const RangeParts range = this->range(*item.value);
      dims += 'r';
      operands.append({range.first, rangeEnd(range)});
      break;
    }
    }
  }
  if (all)
    return base;
  Lowered result;
  result.value = builder_.value(OpKind::SigSlice, operands, typeOf(expr.type),
                                {{attr::dims, std::move(dims)}});
  return result;
}

Lowering::DimensionCut Lowering::cutDimension(const IndexItem &item, const Extent *parent) {
  DimensionCut cut;
  switch (item.kind) {
  case IndexItem::Kind::All:
    cut.extent = parent;
    return cut;
  case IndexItem::Kind::Index:
    cut.kind = DimensionCut::Kind::Position;
    cut.operands = {value(*item.value)};
    return cut;
  case IndexItem::Kind::Range:
    break;
  }
  const RangeParts range = this->range(*item.value);
  const bool isWindow = range.length >= 0;
  cut.kind = isWindow ? DimensionCut::Kind::Window : DimensionCut::Kind::Range;
  cut.operands = {range.first, range.limit};
  Extent &extent = extents_.emplace_back();
  extent.kind = isWindow ? Extent::Kind::Window : Extent::Kind::Cut;
  extent.first = range.first;
  extent.limit = range.limit;
  extent.unshiftedFirst = range.unshiftedFirst;
  extent.unshiftedLimit = range.unshiftedLimit;
  extent.length = range.length;
  extent.parent = parent;
  cut.extent = &extent;
  return cut;
}

Value *Lowering::emitSlice(OpKind kind, Value *view, llvm::ArrayRef<DimensionCut> cuts) {
  std::string dims;
  std::vector<int64_t> lengths;
  Values operands = {view};
  unsigned rank = 0;
  for (const DimensionCut &cut : cuts) {
    dims += cut.kind == DimensionCut::Kind::All        ? 'a'
            : cut.kind == DimensionCut::Kind::Position ? 'i'
                                                       : 'r';
    rank += cut.kind != DimensionCut::Kind::Position;
    operands.append(cut.operands.begin(), cut.operands.end());
    if (cut.kind == DimensionCut::Kind::Window)
      lengths.push_back(cut.extent->length);
  }
  const Type type = builder_.types().view(view->type().dtype(), rank, view->type().isRemote());
  Value *slice = builder_.value(kind, operands, type, {{attr::dims, std::move(dims)}});
  if (kind == OpKind::ViewTile)
    slice->definingOp()->set(attr::lens, std::move(lengths));
  return slice;
}

Lowered Lowering::sliceView(const TExpr &expr, const Lowered &base) {
  using Kind = DimensionCut::Kind;
  const sema::Type type = expr.operands[0]->type;
  Lowered result;
  llvm::SmallVector<DimensionCut, 4> cuts;
  bool hasPosition = false;
  bool hasRange = false;
  bool hasWindow = false;
  for (unsigned d = 0; d < type->rank(); ++d) {
    const IndexItem item = d < expr.indices.size() ? expr.indices[d] : IndexItem();
    cuts.push_back(cutDimension(item, extentOf(base, *type, d)));
    const DimensionCut &cut = cuts.back();
    hasPosition |= cut.kind == Kind::Position;
    hasRange |= cut.kind == Kind::Range;
    hasWindow |= cut.kind == Kind::Window;
    if (cut.kind != Kind::Position)
      result.extents.push_back(cut.extent);
  }
  if (!hasPosition && !hasRange && !hasWindow)
    return base;
  if (!hasWindow || !hasRange) {
    result.value = emitSlice(hasWindow ? OpKind::ViewTile : OpKind::ViewSlice, base.value, cuts);
    return result;
  }
  // Dynamic ranges are cut by a view.slice, which takes the positions along; windows by a view.tile
  // of what is left.
  llvm::SmallVector<DimensionCut, 4> ranges;
  llvm::SmallVector<DimensionCut, 4> windows;
  for (const DimensionCut &cut : cuts) {
    ranges.push_back(cut.kind == Kind::Window ? DimensionCut() : cut);
    if (cut.kind != Kind::Position)
      windows.push_back(cut.kind == Kind::Range ? DimensionCut() : cut);
  }
  Value *rest = emitSlice(OpKind::ViewSlice, base.value, ranges);
  result.value = emitSlice(OpKind::ViewTile, rest, windows);
  return result;
}

Lowered Lowering::remote(const TExpr &expr) {
  const TExpr &of = *expr.operands[0];
  Lowered result = lower(of);
  const OpKind kind = of.type->kind == sema::TypeKind::Signal ? OpKind::SigAt : OpKind::ViewAt;
  const Lowered rank = lower(*expr.operands[1]);
  Values operands{result.value, rank.value};
  if (rank.coordinates)
    llvm::append_range(operands, rank.coordinates->operands);
  result.value = builder_.value(kind, operands, typeOf(expr.type));
  if (rank.coordinates)
    result.value->definingOp()->set(attr::axes, rank.coordinates->axes);
  return result;
}

// Sizes.

const Extent *Lowering::wholeExtent(Value *size) {
  Extent &extent = extents_.emplace_back();
  extent.size = size;
  return &extent;
}

const Extent *Lowering::extentOf(const Lowered &region, const sema::TypeData &type, unsigned dim) {
  if (!region.extents.empty())
    return region.extents[dim];
  // A function's parameter, or a region that went through a branch.
  Extent &extent = extents_.emplace_back();
  extent.view = region.value;
  extent.dim = dim;
  extent.length = type.shape[dim];
  return &extent;
}

Value *Lowering::sizeOf(const Extent &whole) {
  if (whole.size)
    return whole.size;
  if (whole.length >= 0)
    return builder_.constIndex(whole.length);
  return builder_.value(OpKind::ViewDim, {whole.view}, {}, {{attr::dim, int64_t(whole.dim)}});
}

Value *Lowering::countInside(const Extent &extent) {
  if (extent.kind == Extent::Kind::Whole)
    return sizeOf(extent);
  Value *size = countInside(*extent.parent);
  Value *end = extent.limit;
  if (extent.kind == Extent::Kind::Window)
    end = builder_.min(builder_.add(extent.first, builder_.constIndex(extent.length)), end);
  if (!endsInside(extent.limit, size))
    end = builder_.min(end, size);
  return countUpTo(extent, end);
}

Value *Lowering::countUpTo(const Extent &extent, Value *end) {
  Value *first = atLeastZero(extent.first);
  return atLeastZero(constantOf(first) == 0 ? end : builder_.sub(end, first));
}

Value *Lowering::regionSize(const TExpr &expr) {
  const TExpr &of = *expr.operands[0];
  const unsigned dim = expr.ints.front();
  if (of.type->shape[dim] >= 0)
    return builder_.constIndex(of.type->shape[dim]);
  return countInside(*extentOf(lower(of), *of.type, dim));
}

} // namespace dtile::ir
