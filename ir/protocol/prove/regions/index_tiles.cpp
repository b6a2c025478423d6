// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What index tiles of gathers and scatters can pick: single positions, and windows, which stand
// beside tiles that data made. Of those any element of their dimension may be touched.
#include "ir/protocol/prove/model.h"

namespace dtile::protocol::prove {

bool isSigned(ir::Type type) {
  const DType dtype = type.elementOrIndex();
  return dtype == DType::I8 || dtype == DType::I16 || dtype == DType::I32 || dtype == DType::I64;
}

bool keepsNumbers(const Op &cast) {
  const ir::Type from = cast.operand(0)->type(), to = cast.result()->type();
  return isSigned(from) && isSigned(to) &&
         dtypeBytes(from.elementOrIndex()) <= dtypeBytes(to.elementOrIndex());
}

bool countsWithoutWrapping(ir::Type type) {
  return type.rank() == 1 &&
         (type.elementOrIndex() == DType::I32 || type.elementOrIndex() == DType::I64);
}

namespace {

/// What a tile is but for its shape, and for a wider type of the same numbers.
Op *shapeless(Value *tile) {
  Op *op = tile->definingOp();
  while (op && (op->is(OpKind::Reshape) || op->is(OpKind::Broadcast) || op->is(OpKind::Convert) ||
                (op->is(OpKind::Cast) && keepsNumbers(*op))))
    op = op->operand(0)->type().isTile() ? op->operand(0)->definingOp() : nullptr;
  return op;
}

/// Whether two tiles have the same number at each position.
bool areEqual(Value *a, Value *b, Scene &scene, Instance &instance) {
  if (a == b)
    return true;
  if (a->type() != b->type())
    return false;
  if (!a->type().isTile())
    return isSigned(a->type()) &&
           scene.polys.of(a, instance.environment) == scene.polys.of(b, instance.environment);
  const Op *x = a->definingOp(), *y = b->definingOp();
  const bool isKnown =
      x && (x->is(OpKind::Splat) || x->is(OpKind::Iota) || x->is(OpKind::Cast) ||
            x->is(OpKind::Add) || x->is(OpKind::Reshape) || x->is(OpKind::Broadcast));
  if (!isKnown || !y || x->kind() != y->kind())
    return false;
  for (unsigned i = 0; i < x->numOperands(); ++i)
    if (!areEqual(x->operand(i), y->operand(i), scene, instance))
      return false;
  return true;
}

} // namespace

std::optional<Run> runOf(Value *tile, Scene &scene, Instance &instance) {
  Op *op = shapeless(tile);
  if (!op)
    return std::nullopt;
  if (op->is(OpKind::Splat) && isSigned(op->operand(0)->type()))
    return Run{scene.polys.of(op->operand(0), instance.environment)};
  // Few bits count from their least number on.
  const ir::Type type = op->result()->type();
  if (op->is(OpKind::Iota) && countsWithoutWrapping(type))
    return Run{Polynomial(0), type.elements()};
  // Integers of other types wrap.
  if (!op->is(OpKind::Add) || op->result()->type().elementOrIndex() != DType::I64)
    return std::nullopt;
  const auto a = runOf(op->operand(0), scene, instance);
  const auto b = runOf(op->operand(1), scene, instance);
  if (!a || !b || (a->length > 1 && b->length > 1))
    return std::nullopt;
  return Run{a->first + b->first, std::max(a->length, b->length)};
}

namespace {

/// What a tile and its mask are before both are given one shape in one way; the tile may be of
/// fewer bits, too.
std::pair<Value *, Value *> beforeShapes(Value *tile, Value *mask) {
  while (true) {
    Op *a = tile->definingOp(), *b = mask->definingOp();
    if (a && a->is(OpKind::Cast) && keepsNumbers(*a)) {
      tile = a->operand(0);
      continue;
    }
    const bool isShape = a && b && a->kind() == b->kind() &&
                         (a->is(OpKind::Reshape) || a->is(OpKind::Broadcast)) &&
                         a->operand(0)->type().isTile() && b->operand(0)->type().isTile() &&
                         a->operand(0)->type().shape() == b->operand(0)->type().shape();
    if (!isShape)
      return {tile, mask};
    tile = a->operand(0);
    mask = b->operand(0);
  }
}

/// The limit of `run < limit`, or of several such conditions, for the positions of a window.
std::optional<Polynomial> limitOf(Value *mask, const Op &load, Scene &scene, Instance &instance) {
  Op *op = mask->definingOp();
  if (op && op->is(OpKind::And)) {
    const auto one = limitOf(op->operand(0), load, scene, instance);
    return one ? one : limitOf(op->operand(1), load, scene, instance);
  }
  Op *window = load.operand(0)->definingOp();
  if (!op || !op->is(OpKind::Cmp) || op->get(ir::attr::pred) != "lt" ||
      !isSigned(op->operand(0)->type()) || !window || !window->is(OpKind::ViewTile) ||
      window->operand(0)->type().rank() != 1)
    return std::nullopt;
  const auto run = runOf(op->operand(0), scene, instance);
  const auto limit = runOf(op->operand(1), scene, instance);
  // One position each, in order: none is repeated.
  const int64_t elements = op->operand(0)->type().isTile() ? op->operand(0)->type().elements() : 0;
  if (!run || !limit || limit->length != 1 || run->length != elements ||
      load.result()->type().elements() != elements ||
      run->first != scene.polys.of(window->operand(1), instance.environment))
    return std::nullopt;
  return limit->first;
}

} // namespace

void Scene::cutByIndexTiles(Region &region, llvm::ArrayRef<bool> isMoved, Instance &instance,
                            const Facts &facts) {
  const Op &op = *instance.op;
  const unsigned first = ir::firstIndexTile(op);
  const bool isOfRows = op.is(OpKind::Gather) && op.get(ir::attr::rows);
  region.isExact = false;
  for (size_t i = 0; i < (isOfRows ? 1 : region.live.size()); ++i) {
    const auto &[number, origin] = region.live[i];
    DimRegion &dim = region.dims[number];
    if (isMoved[number])
      continue;
    Value *tile = op.operand(first + unsigned(i));
    // An element of an input of which something is said; what is no place there is -1.
    {
      Op *loaded = shapeless(tile);
      std::optional<Polynomial> limit;
      if (loaded && loaded->is(OpKind::Select)) {
        const auto outside = runOf(loaded->operand(2), *this, instance);
        const auto [inner, mask] = beforeShapes(loaded->operand(1), loaded->operand(0));
        Op *chosen = inner->definingOp();
        const bool isMasked = outside && outside->first == Polynomial(-1) && outside->length == 1 &&
                              chosen && chosen->is(OpKind::Load);
        if (isMasked)
          limit = limitOf(mask, *chosen, *this, instance);
        loaded = isMasked && limit ? chosen : nullptr;
      }
      if (loaded && loaded->is(OpKind::Load)) {
        if (auto picked = elementOf(*loaded, instance, facts, limit, region.facts)) {
          dim.atLeast.push_back(origin + picked->value);
          dim.below.push_back(origin + picked->value + Polynomial(1));
          instance.picked.push_back(std::move(*picked));
          continue;
        }
      }
    }
    // `select(run < limit, run, -1)`: a window that ends at the limit.
    if (Op *select = shapeless(tile); select && select->is(OpKind::Select)) {
      const auto outside = runOf(select->operand(2), *this, instance);
      Op *compare = select->operand(0)->definingOp();
      if (!outside || outside->first != Polynomial(-1) || outside->length != 1 || !compare ||
          !compare->is(OpKind::Cmp) || compare->get(ir::attr::pred) != "lt" ||
          !isSigned(compare->operand(0)->type()) ||
          !areEqual(compare->operand(0), select->operand(1), *this, instance))
        continue;
      const auto limit = runOf(compare->operand(1), *this, instance);
      if (!limit || limit->length != 1)
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
