// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Loops over arriving cells: iterations come in any order. That is right where each two of them
// touch different elements, or read, or update by atomics; and where none waits for anything but
// its own cell, for which another iteration might have to run first. What is not shown is
// undecided.
#include "ir/analysis/communication.h"
#include "ir/protocol/prove/prover.h"

#include "llvm/ADT/STLExtras.h"

namespace dtile::protocol::prove {

namespace {

bool isInside(const Op &op, const Op &loop) {
  for (const Op *parent = op.parentOp(); parent; parent = parent->parentOp())
    if (parent == &loop)
      return true;
  return false;
}

/// The wait that each iteration begins with.
const Op *ownWait(Op &loop) {
  for (Op &op : loop.body().ops())
    if (op.is(OpKind::Wait))
      return &op;
  return nullptr;
}

/// Whether the iteration is after that wait, and not only what has its token.
bool isAwaited(Op &loop, const Op *wait) {
  return wait && llvm::any_of(loop.body().ops(), [&](const Op &op) {
           return op.is(OpKind::Await) && llvm::is_contained(op.operands(), wait->result());
         });
}

std::optional<AtomId> numberOf(const Instance &instance, const Op &loop) {
  for (const Instance::Coordinate &coordinate : instance.coordinates)
    if (coordinate.of == &loop)
      return coordinate.number;
  return std::nullopt;
}

} // namespace

/// Whether two accesses of one body, in different iterations of the loop, touch no common element.
bool Prover::areApartIn(Op &loop, const Access &first, const Access &second) {
  Scene scene(budget_);
  Instance a = scene.instance(first.op);
  Instance b = scene.instance(second.op, &a, Shares::Space);
  Facts facts;
  scene.assume(facts, a);
  scene.assume(facts, b);
  const Region regionA = scene.region(first.view, a, facts);
  const Region regionB = scene.region(second.view, b, facts);
  scene.assumeMeeting(facts, regionA, regionB);
  const auto one = numberOf(a, loop), other = numberOf(b, loop);
  if (!one || !other)
    return false;
  for (const bool isBefore : {true, false}) {
    Facts order = facts;
    ir::addLess(order, var(isBefore ? *one : *other), var(isBefore ? *other : *one));
    if (!scene.refuter.isImpossible(order))
      return false;
  }
  return true;
}

void Prover::proveArrivals() {
  ir::walk(kernel_, [&](Op &loop) {
    if (!loop.is(OpKind::For) || !loop.get(ir::attr::arrivals))
      return;
    const Op *own = ownWait(loop);
    ++proof_.obligations;
    if (!isAwaited(loop, own))
      fail(&loop, "that each iteration of this loop comes after the cell that it takes", nullptr,
           Unproved::Kind::AnyOrder);
    ir::walk(loop.body(), [&](Op &op) {
      if ((op.is(OpKind::Wait) && &op != own) || op.is(OpKind::Barrier)) {
        ++proof_.obligations;
        fail(&op, "that this waits for nothing that another iteration of its loop brings about",
             nullptr, Unproved::Kind::AnyOrder);
      }
    });
    std::vector<const Access *> inside;
    for (const Access &access : accesses_)
      if (isInside(*access.op, loop))
        inside.push_back(&access);
    for (size_t i = 0; i < inside.size(); ++i)
      for (size_t j = i; j < inside.size(); ++j) {
        const Access &a = *inside[i], &b = *inside[j];
        if (a.object != b.object || !conflict(a, b))
          continue;
        ++proof_.obligations;
        const BudgetShare share(budget_);
        if (isOutOfTime() || !areApartIn(loop, a, b))
          fail(a.op,
               "that iterations of the loop over arriving cells touch " + nameOf(*a.object) +
                   " apart",
               b.op, Unproved::Kind::AnyOrder);
      }
  });
}

} // namespace dtile::protocol::prove
