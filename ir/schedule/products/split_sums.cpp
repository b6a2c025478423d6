// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// split-sums: lets several programs share the loop of a body (split-K).
//
// Expects: staged loops whose depth is final (stage-loads, split-epilogue), and stores that the
//   epilogue warp makes (specialize-stores).
// Produces: attributes of the loop of a body.
//   `split_sums`: at a launch the runtime may give each body to a cluster of 2 to 8 programs. Each
//   runs its part of the iterations. They add up their sums in a fixed order, through each other's
//   shared memory; one of them runs what follows.
//   `split_rounds`: the runtime may divide bodies of the last round between two or four programs.
//   All but one leave their sums in memory; that one adds them, and runs what follows.
// Why: a product of few tiles and a long sum leaves most processors without work, and each tile
//   waits for as many rounds as the sum is long. Where there are somewhat more tiles than
//   processors, or than twice as many, most wait for a last round of few tiles.
// Leaves alone: loops that carry anything but sums of f32 that begin at zero; bodies that print
//   before the end of the loop, or reach memory there, other than by loads; ordered spaces.
//   `split_sums`: bodies that cannot go on when a wait or a check fails, as the other programs of
//   the cluster would wait for them; sums that the stages have no room to exchange, or of more than
//   64 elements a thread.
//   `split_rounds`: bodies that wait or check before the end of the loop, as others wait for what
//   they leave; loops whose iterations differ from body to body.
#include "ir/analysis/communication.h"
#include "ir/analysis/shared_memory_plan.h"
#include "ir/transform/pass.h"

#include <cmath>
#include <variant>

namespace dtile::passes {
namespace {

using namespace dtile::ir;

bool isZeroTile(const Value *tile) {
  const Op *splat = tile->definingOp();
  if (!splat || !splat->is(OpKind::Splat))
    return false;
  const Op *number = splat->operand(0)->definingOp();
  if (!number || !number->is(OpKind::Const))
    return false;
  const auto value = number->get(attr::value);
  const auto *real = std::get_if<double>(&value);
  return real && *real == 0 && !std::signbit(*real);
}

/// Whether a value of a loop's body follows from what the loop carries.
bool dependsOnCarried(const Value *value, const Op &loop, unsigned depth = 0) {
  constexpr unsigned kDeep = 64;
  if (depth > kDeep)
    return true;
  const Op *op = value->definingOp();
  if (!op)
    return value->argumentOf() == &loop.body() && value != loop.body().argument(0);
  // Loops with regions in them are left alone.
  if (op->parentBlock() != &loop.body())
    return false;
  return op->numRegions() > 0 || llvm::any_of(op->operands(), [&](const Value *operand) {
           return dependsOnCarried(operand, loop, depth + 1);
         });
}

/// Whether a value is a carried sum plus what does not follow from what is carried.
bool addsTo(const Value *value, const Value *sum, const Op &loop) {
  if (value == sum)
    return true;
  const Op *op = value->definingOp();
  if (!op || op->parentBlock() != &loop.body())
    return false;
  const auto isFree = [&](unsigned i) { return !dependsOnCarried(op->operand(i), loop); };
  if (op->is(OpKind::Dot))
    return isFree(0) && isFree(1) && addsTo(op->operand(2), sum, loop);
  if (op->is(OpKind::Add))
    return (isFree(1) && addsTo(op->operand(0), sum, loop)) ||
           (isFree(0) && addsTo(op->operand(1), sum, loop));
  return false;
}

bool carriesOnlySums(const Op &loop) {
  const Op *yield = loop.body().terminator();
  for (unsigned i = 0; i < yield->numOperands(); ++i) {
    const Type type = yield->operand(i)->type();
    const Value *sum = loop.body().argument(i + 1);
    if (!type.isTile() || type.dtype() != DType::F32 || !isZeroTile(loop.operand(i + 3)) ||
        !addsTo(yield->operand(i), sum, loop))
      return false;
  }
  return yield->numOperands() > 0;
}

/// Elements of sums that a thread has at most, so that the exchange needs no registers that the
/// products have not. Larger tiles are for products of many tiles.
constexpr int64_t kMostElements = 64;

/// The loop of a body that programs may share.
struct SharedLoop {
  /// Null where there is none.
  Op *loop = nullptr;
  /// A program may leave the body when a wait or a check fails.
  bool mayLeave = false;
  /// The body waits or checks before the loop has ended.
  bool waitsBefore = false;
};

SharedLoop sharedLoop(Op &space) {
  Op *loop = nullptr;
  for (Op &op : space.body().ops()) {
    if (op.is(OpKind::For) && op.has(attr::stages)) {
      if (loop)
        return {};
      loop = &op;
    } else if (!loop && (op.numRegions() > 0 || op.hasEffect(Write | RemoteWrite | Signal))) {
      return {};
    }
  }
  if (!loop)
    return {};
  bool isLeftAlone = false, stores = false, groupsStore = false, mayFail = false;
  bool waitsBefore = false, hasBegun = false, hasEnded = false;
  walk(space, [&](Op &op) {
    const bool isInLoop = &op != loop && op.enclosing(OpKind::For) == loop;
    if (op.hasEffect(Write | RemoteWrite | Signal)) {
      groupsStore |= !op.get(attr::epilogue);
      isLeftAlone |= isInLoop;
      stores = true;
    }
    const bool canFail = op.is(OpKind::Wait) || op.is(OpKind::Assert);
    mayFail |= canFail;
    if (op.parentBlock() == &space.body())
      hasEnded = hasBegun && &op != loop;
    hasBegun |= &op == loop;
    waitsBefore |= canFail && !hasEnded;
    // All programs would show it, each its part.
    isLeftAlone |= op.is(OpKind::Print) && !hasEnded;
    isLeftAlone |= isInLoop && (op.is(OpKind::Assert) || op.numRegions() > 0);
    // Only the loop itself reads the ring.
    isLeftAlone |= &op != loop && op.is(OpKind::For) && op.has(attr::stages);
  });
  if (isLeftAlone || !stores)
    return {};
  return {loop, groupsStore && mayFail && !canGoOnAfterFailures(space), waitsBefore};
}

/// Whether a loop has the same iterations in all bodies.
bool isUniform(Op &loop, Op &space) {
  return llvm::all_of(loop.operands().take_front(3), [&](Value *bound) {
    Op *op = bound->definingOp();
    return op ? op->is(OpKind::Const) || !op->enclosing(OpKind::Space)
              : bound->argumentOf()->parentOp() != &space;
  });
}

} // namespace

bool splitSums(Module &module, PassContext &context) {
  bool changed = false;
  if (!context.facts || context.facts->clusterPrograms <= 1)
    return changed;
  for (Op &kernel : module.body().ops()) {
    if (!kernel.is(OpKind::Kernel))
      continue;
    for (Op &space : kernel.body().ops()) {
      if (!space.is(OpKind::Space) || !space.has(attr::warpgroups) || space.get(attr::ordered))
        continue;
      const auto [loop, mayLeave, waitsBefore] = sharedLoop(space);
      if (!loop || !carriesOnlySums(*loop))
        continue;
      if (!waitsBefore && isUniform(*loop, space)) {
        loop->set(attr::split_rounds, true);
        changed = true;
      }
      const int64_t threads = space.get(attr::warpgroups) * context.facts->groupThreads;
      if (mayLeave || !stagesHoldExchange(*loop, *context.facts) ||
          carriedElements(*loop) > threads * kMostElements)
        continue;
      loop->set(attr::split_sums, true);
      changed = true;
    }
  }
  return changed;
}

} // namespace dtile::passes
