// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What index tiles of gathers and scatters can pick: single positions, and windows, which stand
// beside tiles that data made. Of those any element of their dimension may be touched.
#include "ir/protocol/prove/model.h"

namespace dtile::protocol::prove {

namespace {

/// Elements that are `first` and the positions behind it, along one dimension of the tile.
struct Run {
  Polynomial first;
  int64_t length = 1;
  bool operator==(const Run &) const = default;
};

/// What a tile is but for its shape and its integer type.
Op *shapeless(Value *tile) {
  Op *op = tile->definingOp();
  while (op && (op->is(OpKind::Reshape) || op->is(OpKind::Broadcast) || op->is(OpKind::Cast) ||
                op->is(OpKind::Convert)))
    op = op->operand(0)->type().isTile() ? op->operand(0)->definingOp() : nullptr;
  return op;
}

std::optional<Run> runOf(Value *tile, Scene &scene, Instance &instance) {
  Op *op = shapeless(tile);
  if (!op)
    return std::nullopt;
  if (op->is(OpKind::Splat))
    return Run{scene.polys.of(op->operand(0), instance.environment)};
  if (op->is(OpKind::Iota) && op->result()->type().rank() == 1)
    return Run{Polynomial(0), op->result()->type().elements()};
  // Integers of other types wrap.
  if (!op->is(OpKind::Add) || op->result()->type().elementOrIndex() != DType::I64)
    return std::nullopt;
  const auto a = runOf(op->operand(0), scene, instance);
  const auto b = runOf(op->operand(1), scene, instance);
  if (!a || !b || (a->length > 1 && b->length > 1))
    return std::nullopt;
  return Run{a->first + b->first, std::max(a->length, b->length)};
}

} // namespace

void Scene::cutByIndexTiles(Region &region, llvm::ArrayRef<bool> isMoved, Instance &instance) {
  const Op &op = *instance.op;
  const unsigned first = op.is(OpKind::Gather) ? 1 : 2;
  const bool isOfRows = op.is(OpKind::Gather) && op.boolAttrOr("rows", false);
  region.isExact = false;
  for (size_t i = 0; i < (isOfRows ? 1 : region.live.size()); ++i) {
    const auto &[number, origin] = region.live[i];
    DimRegion &dim = region.dims[number];
    if (isMoved[number])
      continue;
    Value *tile = op.operand(first + unsigned(i));
    // `select(run < limit, run, -1)`: a window that ends at the limit.
    if (Op *select = shapeless(tile); select && select->is(OpKind::Select)) {
      const auto outside = runOf(select->operand(2), *this, instance);
      Op *compare = shapeless(select->operand(0));
      if (!outside || outside->first != Polynomial(-1) || outside->length != 1 || !compare ||
          !compare->is(OpKind::Cmp) || compare->strAttr("pred") != "lt")
        continue;
      const auto run = runOf(select->operand(1), *this, instance);
      const auto limit = runOf(compare->operand(1), *this, instance);
      if (!run || !limit || limit->length != 1 ||
          runOf(compare->operand(0), *this, instance) != run)
        continue;
      dim.below.push_back(origin + limit->first);
      tile = select->operand(1);
    }
    if (const auto run = runOf(tile, *this, instance)) {
      dim.atLeast.push_back(origin + run->first);
      dim.below.push_back(origin + run->first + Polynomial(run->length));
    }
  }
}

} // namespace dtile::protocol::prove
