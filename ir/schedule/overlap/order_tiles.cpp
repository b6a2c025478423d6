// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// order-tiles: the order in which the bodies of each tile space start.
//
// Expects: spaces as lowered (row-major order) or already ordered; inlined kernels.
// Produces: the attributes of ir/core/tile_order.h. A dimension over all ranks goes outermost and
//   is rotated by this rank: consumers (a wait indexed by it) start with their own shard and follow
//   the order of arrival; producers (a transfer to it) start with the most remote rank and end with
//   their own. The innermost two dimensions around a dot, where both are blocks, are grouped so
//   that the operands of neighbouring tiles stay in cache.
// Why: a tile that starts before its data has come only occupies a program.
// Leaves alone, each with a remark: `ordered` spaces; spaces whose dimensions show no such role;
//   and spaces whose bodies may delay notifies that other bodies of theirs wait for. In the written
//   order few programs may do for these, where another order would need one for each body, or hang.
#include "ir/analysis/algebra/polynomial.h"
#include "ir/analysis/communication.h"
#include "ir/analysis/ordering.h"
#include "ir/core/constants.h"
#include "ir/core/tile_order.h"
#include "ir/transform/pass.h"

namespace dtile::passes {
namespace {

using namespace dtile::ir;

/// Blocks of the outer of two grouped dimensions that are visited per column.
constexpr int64_t kGroupBlocks = 8;

/// How the ranks of a dimension take part.
enum class RankRole : uint8_t { None, Consumer, Producer };

bool coversAllRanks(const Op &space, unsigned dim) {
  Op *limit = space.operand(3 * dim + 1)->definingOp();
  return constantOf(space.operand(3 * dim)) == 0 && limit && limit->is(OpKind::NumRanks) &&
         constantOf(space.operand(3 * dim + 2)) == 1;
}

bool isBlockDim(const Op &space, unsigned dim) {
  return constantOf(space.operand(3 * dim + 2)).value_or(0) > 1;
}

/// Whether a sig.slice in the chain of `cells` is indexed by exactly `index`.
bool isIndexedBy(Value *cells, const Value *index) {
  for (Op *op = cells->definingOp(); op && op->numOperands() != 0;
       op = op->operand(0)->definingOp()) {
    if (op->is(OpKind::SigSlice) && llvm::is_contained(op->operands().drop_front(), index))
      return true;
  }
  return false;
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

/// Orders the spaces of one kernel.
class TileOrderer {
public:
  TileOrderer(Op &kernel, PassContext &context) : kernel_(kernel), context_(context) {}
  bool run();

private:
  RankRole roleOf(Op &space, Value *position, Op *&wait);
  int64_t arrivalDirection(Op &wait);
  void orderSpace(Op &space);

  Op &kernel_;
  PassContext &context_;
};

RankRole TileOrderer::roleOf(Op &space, Value *position, Op *&wait) {
  RankRole role = RankRole::None;
  walk(space, [&](Op &op) {
    if (op.is(OpKind::Wait) && isIndexedBy(op.operand(0), position)) {
      role = RankRole::Consumer;
      wait = &op;
    }
    bool selects = op.is(OpKind::ViewAt) || op.is(OpKind::SigAt);
    if (role == RankRole::None && selects && op.operand(1) == position)
      role = RankRole::Producer;
  });
  return role;
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
    Polynomials polys;
    Polynomials::Environment environment;
    Polynomial peer = polys.of(selection->operand(1), environment);
    std::optional<AtomId> atom = peer.asAtom();
    if (!atom || polys.atom(*atom).kind != Polynomials::AtomKind::Rem)
      return;
    // The coefficient of what is added to the rank: its sign is the sender's direction.
    for (const auto &[monomial, coefficient] : polys.atom(*atom).lhs.terms()) {
      bool isVariable =
          monomial.size() == 1 && monomial[0] != polys.rank() && monomial[0] != polys.numRanks();
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
  std::optional<unsigned> rankDim;
  for (unsigned d = 0; d < dims && !rankDim; ++d) {
    if (!coversAllRanks(space, d))
      continue;
    Op *wait = nullptr;
    RankRole role = roleOf(space, space.body().argument(d), wait);
    if (role == RankRole::None)
      continue;
    rankDim = d;
    bool isConsumer = role == RankRole::Consumer;
    order.rotate[d] = isConsumer ? arrivalDirection(*wait) : 1;
    order.start[d] = isConsumer ? 0 : 1;
    context_.remark(space, "space `" + name + "` takes `" + space.get(attr::vars)[d] +
                               (isConsumer ? "` from its own rank on, in the order of arrival"
                                           : "` from the most remote rank to its own"));
  }
  order.order.clear();
  if (rankDim)
    order.order.push_back(*rankDim);
  for (unsigned d = 0; d < dims; ++d)
    if (d != rankDim)
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
  if (!rankDim && !hasDot)
    context_.remark(space, "space `" + name +
                               "` keeps its written order: no dimension stands for the ranks");
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
