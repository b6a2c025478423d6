// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// order-tiles: the order in which the bodies of each tile space start.
//
// Expects: spaces as lowered (row-major order) or already ordered; inlined kernels.
// Produces: the attributes of ir/core/tile_order.h. A dimension over all ranks, or over the ranks
//   along an axis of a mesh, goes outermost and is rotated about this rank, or about its place on
//   that axis: consumers (a wait indexed by it) start with their own shard and follow the order of
//   arrival; producers (a transfer to it) start with the most remote rank and end with their own.
//   Loops of a body that only send do the same along an axis. The innermost two dimensions around a
//   dot, where both are blocks, are grouped so that the operands of neighbouring tiles stay in
//   cache.
// Why: a tile that starts before its data has come only occupies a program.
// Leaves alone, each with a remark: `ordered` spaces; spaces whose dimensions show no such role;
//   and spaces whose bodies may delay notifies that other bodies of theirs wait for. In the written
//   order few programs may do for these, where another order would need one for each body, or hang.
#include "ir/analysis/algebra/polynomial.h"
#include "ir/analysis/communication.h"
#include "ir/analysis/ordering.h"
#include "ir/core/builder.h"
#include "ir/core/constants.h"
#include "ir/core/tile_order.h"
#include "ir/transform/pass.h"

namespace dtile::passes {
namespace {

using namespace dtile::ir;

/// Blocks of the outer of two grouped dimensions that are visited per column.
constexpr int64_t kGroupBlocks = 8;

/// How the ranks of a dimension take part.
struct RankRole {
  enum class Kind : uint8_t { None, Consumer, Producer } kind = Kind::None;
  /// Of a consumer.
  Op *wait = nullptr;
  /// By how much the rank differs from one position to the next: 1 where they are numbered one
  /// after the other.
  Polynomial stride = Polynomial(1);
};

bool coversAllRanks(const Op &space, unsigned dim) {
  Op *limit = space.operand(3 * dim + 1)->definingOp();
  return constantOf(space.operand(3 * dim)) == 0 && limit && limit->is(OpKind::NumRanks) &&
         constantOf(space.operand(3 * dim + 2)) == 1;
}

bool isBlockDim(const Op &space, unsigned dim) {
  return constantOf(space.operand(3 * dim + 2)).value_or(0) > 1;
}

bool countsFromZero(const Op &space, unsigned dim) {
  return constantOf(space.operand(3 * dim)) == 0 && constantOf(space.operand(3 * dim + 2)) == 1;
}

/// What picks the cell in each dimension of a signal; null where a range or all of it is taken.
llvm::SmallVector<Value *, 4> cellIndices(Value *cells, const Op &signal) {
  llvm::SmallVector<Op *, 3> slices;
  for (Op *op = cells->definingOp(); op && op != &signal; op = op->operand(0)->definingOp())
    if (op->is(OpKind::SigSlice))
      slices.push_back(op);
  llvm::SmallVector<Value *, 4> indices(signal.numOperands(), nullptr);
  llvm::SmallVector<unsigned, 4> left;
  for (unsigned d = 0; d < signal.numOperands(); ++d)
    left.push_back(d);
  for (const Op *slice : llvm::reverse(slices)) {
    llvm::SmallVector<unsigned, 4> kept;
    unsigned next = 1;
    for (auto [d, letter] : llvm::enumerate(slice->get(attr::dims))) {
      if (letter == 'i')
        indices[left[d]] = slice->operand(next++);
      else
        kept.push_back(left[d]);
      next += letter == 'r' ? 2 : 0;
    }
    left = kept;
  }
  return indices;
}

/// Whether a body may wait, for a signal that bodies of the same space notify, before one of these
/// notifies is sent: by itself, or by a later body of its program where there are few of these.
bool waitsForItself(Op &space) {
  bool isHeldUp = false;
  llvm::SmallVector<Op *, 4> waits, notifies;
  walk(space, [&](Op &op) {
    Value *cells = cellsOf(op);
    if (!cells)
      return;
    (op.is(OpKind::Wait) ? waits : notifies).push_back(&op);
    for (Op *wait : waits)
      for (Op *notify : notifies)
        if (objectOf(cellsOf(*wait)) == objectOf(cellsOf(*notify)))
          isHeldUp |= notify == &op || space.has(attr::programs) || areInOneLoop(*wait, *notify);
  });
  return isHeldUp;
}

/// Whether a loop only sends, what no iteration of it has received, so that its iterations may go
/// in any order: they carry nothing but tokens, which nothing in the loop comes after.
bool onlySends(Op &loop) {
  llvm::SmallPtrSet<const Op *, 4> read, written;
  bool isIt = true;
  walk(loop.body(), [&](Op &op) {
    const bool isSend = op.is(OpKind::Put) || op.is(OpKind::PutSignal);
    if (isSend)
      isIt &= rankSelectionOf(op.operand(1)) != nullptr;
    isIt &= isSend || op.isPure() || op.is(OpKind::Notify) || op.is(OpKind::Load) ||
            op.is(OpKind::SigAt) || op.is(OpKind::SigSlice) || op.is(OpKind::ViewAt) ||
            op.is(OpKind::Yield);
    if (const Value *view = writtenView(op))
      for (const Op *object : objectsOf(view))
        written.insert(object);
    for (const Value *view : readViews(op))
      for (const Op *object : objectsOf(view))
        read.insert(object);
  });
  for (Value *carried : loop.body().arguments().drop_front()) {
    isIt &= carried->type().isToken();
    for (const Use &use : carried->uses()) {
      isIt &= use.user->is(OpKind::Yield) || use.user->is(OpKind::TokenJoin);
      for (Value *joined : use.user->results())
        isIt &= llvm::all_of(joined->uses(),
                             [](const Use &next) { return next.user->is(OpKind::Yield); });
    }
  }
  return isIt &&
         llvm::none_of(read, [&](const Op *object) { return !object || written.contains(object); });
}

/// Orders the spaces of one kernel.
class TileOrderer {
public:
  TileOrderer(Op &kernel, PassContext &context)
      : kernel_(kernel), context_(context), builder_(kernel.body().module()) {}
  bool run();

private:
  RankRole roleOf(Op &space, unsigned dim);
  RankRole consumerRole(Op &space, unsigned dim);
  RankRole producerRole(Op &space, unsigned dim);
  [[nodiscard]] bool isOfLaunch(const Polynomial &product);
  std::optional<Polynomial> strideOf(Value *rank, Value *position);
  std::optional<Polynomial> strideOfNotifiers(const Op &signal, unsigned dim);
  int64_t arrivalDirection(Op &wait);
  void orderSpace(Op &space);
  void setCenters(Op &space, llvm::ArrayRef<Polynomial> strides);
  std::optional<Polynomial> strideOfSends(Op &loop);
  void rotateLoops(Op &space);

  Op &kernel_;
  PassContext &context_;
  Builder builder_;
  Polynomials polys_;
  Polynomials::Environment environment_;
};

/// Whether it is a product of sizes, scalars and constants, which the kernel has before its spaces.
bool TileOrderer::isOfLaunch(const Polynomial &product) {
  if (product.terms().size() != 1 || product.terms().front().second <= 0)
    return false;
  std::vector<AtomId> values;
  polys_.collectAtoms(product, values);
  return !polys_.mentions(product, polys_.rank()) && llvm::all_of(values, [&](AtomId id) {
    const Value *value = polys_.atom(id).value;
    const Op *op = value ? value->definingOp() : nullptr;
    return op && op->parentBlock() == &kernel_.body();
  });
}

/// By how much a selected rank moves on with a position, where that follows the ranks along an axis
/// of a mesh: `rank(node: n, local: l)` is n * L + l. A rank that is counted from this one is not
/// turned once more.
std::optional<Polynomial> TileOrderer::strideOf(Value *rank, Value *position) {
  const Polynomial selected = polys_.of(rank, environment_);
  const std::optional<AtomId> at = polys_.of(position, environment_).asAtom();
  if (!at || selected.hasFactor(polys_.rank()))
    return std::nullopt;
  const Polynomial rest = selected.replaced(*at, Polynomial());
  Polynomial stride = selected.replaced(*at, Polynomial(1)) - rest;
  const bool isLinear = rest + stride * Polynomial::atom(*at) == selected;
  if (!isLinear || polys_.mentions(rest, *at) || !isOfLaunch(stride))
    return std::nullopt;
  return stride;
}

/// The stride of the axis along which the cells of a signal's dimension are notified: those who
/// notify pick the cell of their own place, `rank(node)` = rank() / L.
std::optional<Polynomial> TileOrderer::strideOfNotifiers(const Op &signal, unsigned dim) {
  std::optional<Polynomial> stride;
  bool isOne = true;
  walk(kernel_, [&](Op &op) {
    Value *cells = op.is(OpKind::Wait) ? nullptr : cellsOf(op);
    if (!cells || objectOf(cells) != &signal)
      return;
    Value *index = cellIndices(cells, signal)[dim];
    Polynomial place = index ? polys_.of(index, environment_) : Polynomial();
    const auto inner = [&](Polynomials::AtomKind kind) -> const Polynomials::Atom * {
      const std::optional<AtomId> id = place.asAtom();
      return id && polys_.atom(*id).kind == kind ? &polys_.atom(*id) : nullptr;
    };
    // Of an axis in the middle: (rank() / stride) % places.
    if (const auto *rest = inner(Polynomials::AtomKind::Rem))
      place = Polynomial(rest->lhs);
    Polynomial found(1);
    if (const auto *quotient = inner(Polynomials::AtomKind::Div)) {
      found = quotient->rhs;
      place = Polynomial(quotient->lhs);
    }
    isOne &= place == Polynomial::atom(polys_.rank()) && isOfLaunch(found) &&
             (!stride || *stride == found);
    stride = found;
  });
  return isOne ? stride : std::nullopt;
}

RankRole TileOrderer::consumerRole(Op &space, unsigned dim) {
  RankRole role;
  walk(space, [&](Op &op) {
    Op *signal = op.is(OpKind::Wait) ? objectOf(op.operand(0)) : nullptr;
    if (!signal)
      return;
    const auto indices = cellIndices(op.operand(0), *signal);
    const auto *at = llvm::find(indices, space.body().argument(dim));
    if (at == indices.end())
      return;
    const auto stride = coversAllRanks(space, dim)
                            ? Polynomial(1)
                            : strideOfNotifiers(*signal, unsigned(at - indices.begin()));
    if (stride)
      role = {RankRole::Kind::Consumer, &op, *stride};
  });
  return role;
}

RankRole TileOrderer::producerRole(Op &space, unsigned dim) {
  RankRole role;
  Value *position = space.body().argument(dim);
  walk(space, [&](Op &op) {
    const bool selects = op.is(OpKind::ViewAt) || op.is(OpKind::SigAt);
    if (!selects || role.kind != RankRole::Kind::None)
      return;
    // Of ranks in a line only all of them are taken in turn.
    if (op.operand(1) == position ? coversAllRanks(space, dim) : !op.operand(1)->argumentOf())
      if (const auto stride = strideOf(op.operand(1), position))
        role = {RankRole::Kind::Producer, nullptr, *stride};
  });
  return role;
}

RankRole TileOrderer::roleOf(Op &space, unsigned dim) {
  if (!countsFromZero(space, dim))
    return {};
  const RankRole consumer = consumerRole(space, dim);
  return consumer.kind != RankRole::Kind::None ? consumer : producerRole(space, dim);
}

/// The sign with which sources come in: senders that walk their peers upwards (rank + hop) reach a
/// receiver from its rank downwards, and the reverse.
int64_t TileOrderer::arrivalDirection(Op &wait) {
  int64_t direction = -1;
  Op *signal = objectOf(wait.operand(0));
  walk(kernel_, [&](Op &op) {
    Value *cells = op.is(OpKind::Wait) ? nullptr : cellsOf(op);
    if (!cells || objectOf(cells) != signal)
      return;
    Op *selection = rankSelectionOf(cells);
    if (!selection)
      return;
    Polynomial peer = polys_.of(selection->operand(1), environment_);
    std::optional<AtomId> atom = peer.asAtom();
    if (!atom || polys_.atom(*atom).kind != Polynomials::AtomKind::Rem)
      return;
    // The coefficient of what is added to the rank: its sign is the sender's direction.
    for (const auto &[monomial, coefficient] : polys_.atom(*atom).lhs.terms()) {
      bool isVariable =
          monomial.size() == 1 && monomial[0] != polys_.rank() && monomial[0] != polys_.numRanks();
      if (isVariable)
        direction = coefficient > 0 ? -1 : 1;
    }
  });
  return direction;
}

void TileOrderer::orderSpace(Op &space) {
  unsigned dims = spaceDims(space);
  TileOrder order = TileOrder::fromSpace(space);
  std::string name = space.get(attr::name).str();
  llvm::SmallVector<Polynomial, 4> strides(dims, Polynomial(1));
  order.order.clear();
  for (unsigned d = 0; d < dims; ++d) {
    const RankRole role = roleOf(space, d);
    if (role.kind == RankRole::Kind::None)
      continue;
    const bool isConsumer = role.kind == RankRole::Kind::Consumer;
    order.order.push_back(d);
    order.rotate[d] = isConsumer ? arrivalDirection(*role.wait) : 1;
    order.start[d] = isConsumer ? 0 : 1;
    strides[d] = role.stride;
    context_.remark(space, "space `" + name + "` takes `" + space.get(attr::vars)[d] +
                               (isConsumer ? "` from its own rank on, in the order of arrival"
                                           : "` from the most remote rank to its own"));
  }
  const bool isRotated = !order.order.empty();
  setCenters(space, strides);
  for (unsigned d = 0; d < dims; ++d)
    if (!llvm::is_contained(order.order, d))
      order.order.push_back(d);

  bool hasDot = false;
  walk(space, [&](Op &op) { hasDot |= op.is(OpKind::Dot); });
  // The innermost two, within whatever is around them.
  bool twoBlocks = dims >= 2 && isBlockDim(space, order.order[dims - 2]) &&
                   isBlockDim(space, order.order[dims - 1]);
  order.group.assign(dims, 0);
  if (hasDot && twoBlocks)
    order.group[order.order[dims - 2]] = kGroupBlocks;
  order.toSpace(space);
  if (!isRotated && !hasDot)
    context_.remark(space, "space `" + name +
                               "` keeps its written order: no dimension stands for the ranks");
}

/// The stride of the axis whose ranks a loop sends to in turn.
std::optional<Polynomial> TileOrderer::strideOfSends(Op &loop) {
  Value *position = loop.body().argument(0);
  std::optional<Polynomial> stride;
  bool isOne = true;
  walk(loop.body(), [&](Op &op) {
    if (!op.is(OpKind::ViewAt) && !op.is(OpKind::SigAt))
      return;
    const bool isOnAxis = !op.operand(1)->argumentOf();
    const auto found = isOnAxis ? strideOf(op.operand(1), position) : std::nullopt;
    isOne &= found && (!stride || *stride == *found);
    stride = found;
  });
  return isOne ? stride : std::nullopt;
}

/// Lets loops that send to the ranks along an axis begin with the place after this rank's own.
void TileOrderer::rotateLoops(Op &space) {
  llvm::SmallVector<Op *, 4> loops;
  walk(space, [&](Op &op) {
    if (op.is(OpKind::For) && constantOf(op.operand(0)) == 0 && constantOf(op.operand(2)) == 1 &&
        onlySends(op))
      loops.push_back(&op);
  });
  for (Op *loop : loops) {
    const auto stride = strideOfSends(*loop);
    if (!stride)
      continue;
    builder_.setLoc(loop->loc());
    builder_.setInsertionPoint(loop);
    Value *place = builder_.value(OpKind::Rank, {});
    if (!(*stride == Polynomial(1)))
      place =
          builder_.div(place, polys_.emit(builder_, *stride, llvm::DenseMap<AtomId, Value *>()));
    Value *first = builder_.add(place, builder_.constIndex(1));
    Value *position = loop->body().argument(0);
    builder_.setInsertionPointToStart(loop->body());
    Value *sum = builder_.add(first, position);
    Value *turned = builder_.value(OpKind::Rem, {sum, loop->operand(1)}, position->type());
    position->replaceAllUsesWith(turned);
    sum->definingOp()->setOperand(1, position);
    environment_ = Polynomials::Environment();
    context_.remark(*loop, "this loop sends to the places of its axis from the one after this "
                           "rank's own on");
  }
}

/// Places on an axis are quotients of the rank. Those of neighbours in number need no operand.
void TileOrderer::setCenters(Op &space, llvm::ArrayRef<Polynomial> strides) {
  const Polynomial one(1);
  if (llvm::all_of(strides, [&](const Polynomial &stride) { return stride == one; }))
    return;
  builder_.setInsertionPoint(&space);
  builder_.setLoc(space.loc());
  Value *rank = builder_.value(OpKind::Rank, {});
  llvm::SmallVector<Value *, 4> centers;
  for (const Polynomial &stride : strides)
    centers.push_back(
        stride == one
            ? rank
            : builder_.div(rank, polys_.emit(builder_, stride, llvm::DenseMap<AtomId, Value *>())));
  setRotationCenters(space, centers);
}

bool TileOrderer::run() {
  bool changed = false;
  for (Op &op : kernel_.body().ops()) {
    if (!op.is(OpKind::Space) || spaceDims(op) == 0)
      continue;
    if (op.get(attr::ordered)) {
      context_.remark(op, "space `" + op.get(attr::name).str() + "` is `ordered` by its author");
      continue;
    }
    if (waitsForItself(op)) {
      context_.remark(op, "space `" + op.get(attr::name).str() +
                              "` keeps its written order: its bodies wait for each other");
      continue;
    }
    orderSpace(op);
    rotateLoops(op);
    changed = true;
  }
  return changed;
}

} // namespace

bool orderTiles(Module &module, PassContext &context) {
  bool changed = false;
  for (Op &op : module.body().ops())
    if (op.is(OpKind::Kernel))
      changed |= TileOrderer(op, context).run();
  return changed;
}

} // namespace dtile::passes
