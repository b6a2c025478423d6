// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which spaces only move data, wait, and may be run by programs of others.
#include "backend/gpu/space_facts.h"

#include "backend/gpu/divided_bodies.h"

#include "ir/analysis/engine_copies.h"
#include "ir/core/op_classes.h"
#include "ir/model/op_cost.h"

#include "llvm/ADT/STLExtras.h"

namespace dtile::backend::gpu {

using ir::Op;
using ir::OpKind;

namespace {

/// What a launch whose bodies wait for signals takes besides what these are estimated to: programs
/// start together, and a chain of bodies passes from one program to another. On an H100 short
/// gathers, and products whose sums are split, take 4 to 6 microseconds longer than their bodies.
constexpr double kWaitingStart = 5000;
/// What a launch takes more whose transfers are the copy engine's: the entry barrier, and a launch
/// of its own for it.
constexpr double kEngineStart = 7000;

bool hasOp(const Op &space, llvm::function_ref<bool(const Op &)> is) {
  bool found = false;
  ir::walk(const_cast<Op &>(space), [&](Op &op) { found |= is(op); });
  return found;
}

bool moves(const Op &space) {
  return hasOp(space, [](const Op &op) {
    return op.is(OpKind::Put) || op.is(OpKind::PutSignal) || op.is(OpKind::Get) ||
           op.is(OpKind::Notify) || op.is(OpKind::ReduceAdd) || op.is(OpKind::ReduceAddScatter);
  });
}

/// Whether all that a space sends or gets is large copies of memory, notifies and scalars.
bool copiesInBulk(const Op &space, const TargetFacts &machine) {
  return machine.copyBytes > 0 && !hasOp(space, [&](const Op &op) {
           if (op.is(OpKind::ReduceAdd) || op.is(OpKind::ReduceAddScatter))
             return true;
           if (!op.is(OpKind::Put) && !op.is(OpKind::PutSignal) && !op.is(OpKind::Get))
             return false;
           const ir::Type source = op.operand(0)->type();
           return source.isTile() ||
                  (source.isView() && source.rank() > 0 && !model::isBulkCopy(op, machine));
         });
}

bool waits(const Op &space) {
  return hasOp(space, [](const Op &op) {
    return op.hasEffect(ir::Wait) || (op.is(OpKind::Load) && op.get(ir::attr::ll));
  });
}

/// The spaces of the kernel before this one.
llvm::SmallVector<const Op *, 4> spacesBefore(const Op &space) {
  llvm::SmallVector<const Op *, 4> before;
  for (const Op &op : space.parentBlock()->ops()) {
    if (&op == &space)
      break;
    if (op.is(OpKind::Space))
      before.push_back(&op);
  }
  return before;
}

/// Whether its bodies do nothing but wait.
bool onlyWaits(const Op &space) {
  return waits(space) && !hasOp(space, [](const Op &op) {
           return op.hasEffect(ir::Read | ir::Write | ir::RemoteRead | ir::RemoteWrite |
                               ir::Signal);
         });
}

/// Whether bodies begin with a wait for all that a signal says: before everything is there that
/// they wait for, they have nothing to do.
bool waitsForAll(const Op &space) {
  for (const Op &op : space.body().ops()) {
    if (op.hasEffect(ir::Wait)) {
      const Op *signal = op.operand(0)->definingOp();
      return signal != nullptr && signal->is(OpKind::SignalParam);
    }
    if (op.numRegions() > 0 ||
        op.hasEffect(ir::Read | ir::Write | ir::RemoteRead | ir::RemoteWrite | ir::Signal))
      return false;
  }
  return false;
}

/// Whether the space needs no programs of its own: programs of earlier spaces run its bodies when
/// they are done with theirs (dtile_device_space.follows). Either it reduces what they multiply, or
/// it multiplies and waits for what others send.
///
/// Earlier spaces that multiply must not wait for anything, unless this space only waits. If this
/// space sends what it reduced, no earlier space may wait at all.
int32_t follows(const Op &space) {
  if (!sharesBodies(space) || (multiplies(space) && !waits(space)))
    return 0;
  const llvm::SmallVector<const Op *, 4> before = spacesBefore(space);
  const bool sends = moves(space);
  const auto onlySends = [](const Op *other) {
    return moves(*other) && !hasOp(*other, model::computes) && !other->has(ir::attr::after_all);
  };
  if (multiplies(space) && waitsForAll(space) && llvm::all_of(before, onlySends))
    return 1;
  if (llvm::none_of(before, [](const Op *other) { return multiplies(*other); }) ||
      llvm::any_of(before, [&](const Op *other) {
        return other->has(ir::attr::after_all) || (sends && waits(*other)) ||
               (multiplies(*other) && waits(*other) && !onlyWaits(space));
      }))
    return 0;
  return sends ? 2 : 1;
}

} // namespace

int32_t spaceNumber(const Op &space) { return int32_t(spacesBefore(space).size()); }

bool mayShareLoops(const Op &space) {
  return llvm::any_of(const_cast<Op &>(space).body().ops(), [](const Op &op) {
    return op.is(OpKind::For) && op.get(ir::attr::split_sums);
  });
}

bool mayMeet(const ir::Op &kernel) {
  return kernel.get(ir::attr::entry_barrier) ||
         llvm::any_of(kernel.body().ops(), [](const ir::Op &op) {
           return op.is(ir::OpKind::Param) &&
                  (op.get(ir::attr::zero) || op.get(ir::attr::by_epoch));
         });
}

bool sharesBodies(const Op &space) {
  const llvm::SmallVector<const Op *, 4> before = spacesBefore(space);
  bool isAwaited = false;
  for (const Op &other : space.parentBlock()->ops())
    isAwaited |= other.is(OpKind::Space) && other.has(ir::attr::after_all) &&
                 other.get(ir::attr::after_all) == space.get(ir::attr::name);
  // What is computed of what others have multiplied, and sent.
  const auto sendsOfProducts = [&] {
    return hasOp(space, model::computes) &&
           llvm::any_of(before, [](const Op *other) { return multiplies(*other); });
  };
  return !before.empty() && !isAwaited && !space.has(ir::attr::after_all) &&
         !space.has(ir::attr::programs) && !space.get(ir::attr::ordered) &&
         const_cast<Op &>(space).body().terminator()->numOperands() == 0 &&
         (multiplies(space) || !moves(space) || sendsOfProducts());
}

/// Nanoseconds for which the programs of a cluster exchange the sums of a body; 0 where they do not
/// share its loops.
double exchangeTime(const Op &space, const TargetFacts &machine) {
  double time = 0;
  for (const Op &op : space.body().ops())
    if (const double one = model::exchangeTime(op, machine); one > 0)
      time += one + machine.timing.sharedStart;
  return time;
}

dtile_device_space spaceFacts(Op &space, const TargetFacts &machine) {
  const bool onlyMoves = moves(space) && !hasOp(space, model::computes);
  const bool isBulk = copiesInBulk(space, machine);
  const double rate = isBulk ? machine.timing.bulkRate : machine.timing.threadsRate;
  const int32_t movers = isBulk ? machine.movers : TargetFacts::kPlainMovers;
  const Op *divided = dividedLoop(space);
  return {.pinned = int32_t(space.getOr(ir::attr::programs, 0)),
          .ordered = space.get(ir::attr::ordered),
          .most = onlyMoves ? movers : 0,
          .fill = onlyMoves ? machine.fillers(rate) : 0,
          .shares = sharesBodies(space),
          .follows = follows(space),
          .waits = waits(space) || space.has(ir::attr::after_all),
          .exchange = int32_t(exchangeTime(space, machine)),
          .divide = divided ? int32_t(partialTime(*divided, machine)) : 0,
          .covers = !ir::multiplies(*space.enclosing(OpKind::Kernel))};
}

int32_t launchTime(Op &kernel, const TargetFacts &machine) {
  const bool isWaiting = llvm::any_of(kernel.body().ops(), [](const Op &op) {
    return op.is(OpKind::Space) && hasOp(op, [](const Op &one) { return one.hasEffect(ir::Wait); });
  });
  return int32_t(machine.timing.launch + (hasStagedLoads(kernel) ? machine.timing.tmaStart : 0) +
                 (isWaiting ? kWaitingStart : 0) + (ir::usesCopyEngine(kernel) ? kEngineStart : 0));
}

bool hasStagedLoads(Op &kernel) {
  return llvm::any_of(kernel.body().ops(), [](const Op &op) {
    return op.is(OpKind::Space) && op.has(ir::attr::warpgroups);
  });
}

} // namespace dtile::backend::gpu
