// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// multicast-operands: lets two programs share the loads of an operand that both multiply.
//
// Expects: an order of bodies that is final (order-tiles), staged loads (stage-loads).
// Produces: attribute `multicast` on loads by TMA whose tile is the same in bodies that follow each
//   other. At a launch the runtime may then start clusters of two programs with such bodies. Each
//   loads half of the tile, for both.
// Why: rows of 64 elements that do not begin at multiples of 128 bytes take the L2 cache two
//   requests each, so loads bound a product, not the matrix units. A tile that two programs share
//   is asked for once.
// Leaves alone: spaces that wait, as a program that waits would keep its partner from what it needs
//   to notify; where a kernel has signals or several spaces, those that store or tell other than by
//   the epilogue warp, and all but the first space; loops whose number of iterations differs
//   between the bodies, or that are not alone (both programs fill and release the same slots); what
//   is checked or printed in a body; spaces that gather rows or keep an operand, and those whose
//   order is the author's or rotated.
#include "ir/analysis/shared_memory_plan.h"
#include "ir/core/tile_order.h"
#include "ir/transform/pass.h"

namespace dtile::passes {
namespace {

using namespace dtile::ir;

/// Whether a position may differ with a dimension of the space. What loops count does not, as their
/// bounds do not; what they carry may.
bool dependsOn(const Value *value, const Value *dimension, Op &space) {
  if (value == dimension)
    return true;
  Op *op = value->definingOp();
  if (!op) {
    const Op *owner = value->argumentOf()->parentOp();
    return owner != &space && !(owner->is(OpKind::For) && value == owner->body().argument(0));
  }
  if (!op->enclosing(OpKind::Space))
    return false;
  // What memory holds, too, may differ.
  return op->numRegions() > 0 || op->hasEffect(Read | RemoteRead | Wait) ||
         llvm::any_of(op->operands(),
                      [&](const Value *operand) { return dependsOn(operand, dimension, space); });
}

/// Whether both programs of a pair fill and release the same slots in the same order. Bodies that
/// fill up pairs tell nobody: the epilogue warp leaves that out.
bool runsInStep(Op &space, const Value *dimension, bool isAlone) {
  bool isInStep = true;
  walk(space, [&](Op &op) {
    const bool isStaged = op.is(OpKind::For) && op.has(attr::stages);
    if (op.is(OpKind::Assert) || op.hasEffect(Wait | RemoteRead))
      isInStep = false;
    // Bodies that fill up pairs show nothing.
    if (op.is(OpKind::Print))
      isInStep = false;
    if (op.hasEffect(Signal | RemoteWrite) || (!isAlone && op.hasEffect(Write)))
      isInStep &= op.get(attr::epilogue);
    if (isStaged && op.parentOp() != &space)
      isInStep = false;
    if (isStaged)
      for (unsigned i = 0; i < 3; ++i)
        isInStep &= !dependsOn(op.operand(i), dimension, space);
    if (op.is(OpKind::Dot) && op.has(attr::resident))
      isInStep = false;
    if (comesVia(op, LoadPath::Rows))
      isInStep = false;
  });
  return isInStep;
}

} // namespace

bool multicastOperands(Module &module, PassContext &context) {
  bool changed = false;
  if (!context.facts || context.facts->clusterPrograms <= 1)
    return changed;
  for (Op &kernel : module.body().ops()) {
    if (!kernel.is(OpKind::Kernel))
      continue;
    Op *space = nullptr;
    bool isAlone = true;
    for (Op &op : kernel.body().ops()) {
      isAlone &= !op.is(OpKind::SignalParam) && !(op.is(OpKind::Space) && space);
      if (op.is(OpKind::Space) && !space)
        space = &op;
    }
    if (!space || !space->has(attr::warpgroups) || space->get(attr::ordered) ||
        space->has(attr::programs) || space->has(attr::after_all))
      continue;
    const std::optional<unsigned> fastest = TileOrder::fromSpace(*space).pairedDimension();
    if (!fastest)
      continue;
    const Value *dimension = space->body().argument(*fastest);
    if (!runsInStep(*space, dimension, isAlone))
      continue;
    // A half of a tile is whole boxes' rows.
    walk(*space, [&](Op &op) {
      if (!comesVia(op, LoadPath::Tma) ||
          op.result()->type().shape()[0] % (2 * kSwizzleRows) != 0 ||
          dependsOn(op.operand(0), dimension, *space))
        return;
      op.set(attr::multicast, true);
      changed = true;
    });
  }
  return changed;
}

} // namespace dtile::passes
