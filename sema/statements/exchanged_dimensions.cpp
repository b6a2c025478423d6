// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `z[n, m] = x[m, n];` of blocks of one length: dimensions have no names, so the tile is stored as
// it is, and what was meant is mostly its transpose.
#include "sema/checker.h"

namespace dtile::sema {

namespace {

/// The range variables that cut the dimensions of a tile, in their order.
using Ranges = llvm::SmallVector<const Variable *, 4>;

// Of a slice; nothing where a dimension is cut by anything but a variable.
Ranges rangesOfSlice(const TExpr *slice) {
  Ranges ranges;
  if (slice->kind != TExprKind::Slice)
    return ranges;
  for (const IndexItem &item : slice->indices) {
    if (item.kind == IndexItem::Kind::Index)
      continue;
    if (item.kind != IndexItem::Kind::Range || item.value->kind != TExprKind::VarRef)
      return {};
    ranges.push_back(item.value->var);
  }
  return ranges;
}

// Of what is loaded so, and computed element by element from tiles that are all cut so.
Ranges rangesOf(const TExpr *value) {
  switch (value->kind) {
  case TExprKind::Load:
    return rangesOfSlice(value->operands[0]);
  case TExprKind::Cast:
    return rangesOf(value->operands[0]);
  case TExprKind::Elementwise: {
    Ranges common;
    for (const TExpr *operand : value->operands) {
      if (operand->kind == TExprKind::Splat || operand->type->kind == TypeKind::Scalar)
        continue;
      const Ranges ranges = rangesOf(operand);
      if (ranges.empty() || (!common.empty() && ranges != common))
        return {};
      common = ranges;
    }
    return common;
  }
  default:
    return {};
  }
}

std::string namesOf(const Ranges &ranges) {
  std::string names;
  for (const Variable *range : ranges)
    names += (names.empty() ? "`" : ", `") + range->name + "`";
  return names;
}

} // namespace

void Checker::warnOfExchangedDimensions(const TExpr *target, const TExpr *value) {
  const Ranges to = rangesOfSlice(target);
  if (to.size() < 2)
    return;
  const Ranges from = rangesOf(value);
  if (from == to || !std::is_permutation(from.begin(), from.end(), to.begin(), to.end()))
    return;
  const std::string advice =
      to.size() == 2 ? "`.T` exchanges the dimensions of a tile: `x[m, n].T`"
                     : "`permute(x, 1, 0, 2)` puts the dimensions of a tile in another order";
  report(value->range, diag::dimensions_exchanged, namesOf(from), namesOf(to))
      .note(value->range, diag::note_dtile_form, advice);
}

} // namespace dtile::sema
