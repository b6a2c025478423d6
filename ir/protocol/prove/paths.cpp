// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Happens-before paths: from an access (or a launch's begin) to a notify of its body, from the
// notify to a wait for its cell, from the wait to an access (or a launch's end), perhaps through a
// second notify and wait. A wait is for all notifies of the launch to a cell, so it is after any
// of them.
#include "ir/protocol/prove/prover.h"

#include "ir/analysis/communication.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

namespace dtile::protocol::prove {

namespace {

/// What a step of a path counts, in rows of inequalities.
constexpr uint64_t kPathWork = 20;

} // namespace

Value *cellsOf(Op *op) { return ir::cellsOf(*op); }

Op *signalOf(Op *op) {
  Op *object = ir::objectOf(cellsOf(op));
  return object && object->is(OpKind::SignalParam) ? object : nullptr;
}

bool Prover::isAfterSpace(const Op *earlier, const Op *later) const {
  for (const Op *at = later; at->has(ir::attr::after_all);) {
    const auto it = llvm::find_if(spaces_, [&](const Op *space) {
      return space->get(ir::attr::name) == at->get(ir::attr::after_all);
    });
    if (it == spaces_.end() || *it == at)
      return false;
    at = *it;
    if (at == earlier)
      return true;
  }
  return false;
}

namespace {

Polynomial numberIn(const Instance &instance, const Op *loop) {
  for (const Instance::Coordinate &c : instance.coordinates)
    if (c.of == loop)
      return var(c.number);
  return {};
}

} // namespace

std::vector<Head> Prover::headsOf(Scene &scene, const Access &access, const Instance &at,
                                  const Region &region, Reach reach) {
  std::vector<Head> heads;
  for (Op *notify : notifies_) {
    // Of a later iteration, where what the access does is over then.
    if (Op *loop = reach == Reach::Farther ? onlyLoopAround(access.op, notify) : nullptr;
        loop && isOverInIteration(access.op, access.isAsync, notify)) {
      Head head;
      head.notify = scene.instance(notify, &at, Shares::Space);
      head.goal.addLess(numberIn(at, loop), numberIn(head.notify, loop));
      head.goal.addExists(head.notify);
      heads.push_back(std::move(head));
    }
    Release release = releases(notify, access.op, access.course());
    const bool isOneSpace = spaceOf(notify) == at.space;
    if (release == Release::No && !isOneSpace && isAfterSpace(at.space, spaceOf(notify)) &&
        isOverInBody(access.op, access.isAsync))
      release = Release::Yes;
    if (release == Release::No)
      continue;
    Head head;
    head.notify = scene.instance(notify, &at, isOneSpace ? Shares::Body : Shares::Rank);
    head.goal.addExists(head.notify);
    if (release == Release::SameRank) {
      Region cells = scene.region(cellsOf(notify), head.notify, {});
      head.goal.equal.push_back({cells.rank, region.rank});
    }
    heads.push_back(std::move(head));
  }
  return heads;
}

std::vector<Head> Prover::headsOfBegin(Scene &scene, const Polynomial &rank) {
  std::vector<Head> heads;
  for (Op *notify : notifies_) {
    Head head;
    head.notify = scene.instance(notify);
    head.goal.addExists(head.notify);
    head.goal.equal.push_back({head.notify.rank, rank});
    heads.push_back(std::move(head));
  }
  return heads;
}

namespace {

Tail tailOf(Scene &scene, const WaitBefore &before, Instance *at, const Polynomial *rank) {
  Tail tail;
  // The op by which the wait is over, beside the end of the path; the wait beside that.
  Instance by;
  if (at && before.by == at->op && !before.earlierOf) {
    by = *at;
  } else {
    const Shares shares = !before.earlierOf                     ? Shares::Body
                          : before.earlierOf->is(OpKind::Space) ? Shares::Rank
                                                                : Shares::Space;
    by = at ? scene.instance(before.by, at, shares) : scene.instance(before.by);
    if (at && before.earlierOf) {
      const Polynomial earlier = numberIn(by, before.earlierOf);
      const Polynomial last =
          numberIn(*at, before.earlierOf) - Polynomial(before.isSameToo ? 0 : 1);
      tail.goal.addLessEqual(earlier, last);
    }
    tail.goal.addExists(by);
    if (rank)
      tail.goal.equal.push_back({by.rank, *rank});
  }
  tail.wait = scene.instance(before.wait, &by, Shares::Body);
  tail.goal.addExists(tail.wait);
  return tail;
}

} // namespace

std::vector<Tail> Prover::tailsOf(Scene &scene, Instance &at, Reach reach) {
  std::vector<Tail> tails;
  for (const WaitBefore &before : waitsBefore(at.op))
    if (spaceOf(before.wait) == at.space && (reach != Reach::Near || !before.earlierOf))
      tails.push_back(tailOf(scene, before, &at, nullptr));
  return tails;
}

std::vector<Tail> Prover::tailsOfEnd(Scene &scene, const Polynomial &rank) {
  std::vector<Tail> tails;
  for (Op *space : spaces_)
    for (const WaitBefore &before : waitsOfEnd(*space))
      if (spaceOf(before.wait) == space)
        tails.push_back(tailOf(scene, before, nullptr, &rank));
  return tails;
}

/// Adds that the notify goes to a cell that the wait is for; false where that cannot be.
bool Prover::meet(Scene &scene, const Facts &facts, Goal &goal, Instance &notify, Instance &wait) {
  Op *signal = signalOf(notify.op);
  if (!signal || signal != signalOf(wait.op))
    return false;
  // Making a path is work, too.
  budget_.left -= std::min(budget_.left, kPathWork);
  const Region sent = scene.region(cellsOf(notify.op), notify, facts);
  const Region awaited = scene.region(cellsOf(wait.op), wait, facts);
  if (!sent.isExact || !awaited.isExact)
    return false;
  goal.equal.push_back({sent.rank, awaited.rank});
  llvm::SmallVector<Polynomial, 4> cell;
  for (const auto &[from, to] : llvm::zip(sent.dims, awaited.dims)) {
    if (from.at && to.at) {
      goal.equal.push_back({*from.at, *to.at});
      cell.push_back(*to.at);
    } else {
      cell.push_back(from.at ? *from.at : to.at ? *to.at : from.atLeast.back());
    }
    for (const DimRegion *dim : {&from, &to}) {
      if (dim->at)
        continue;
      for (const Polynomial &low : dim->atLeast) {
        goal.addLessEqual(low, cell.back());
        goal.members.push_back({cell.back(), low});
      }
      for (const Polynomial &high : dim->below)
        goal.addLess(cell.back(), high);
    }
  }
  if (wait.op->numOperands() > 1) {
    // A part of the notifies: only where it is all of them.
    const auto all = scene.derivedCount(*signal, cell, awaited.rank, facts);
    if (!all)
      return false;
    goal.addLessEqual(*all, scene.polys.of(wait.op->operand(1), wait.environment));
  }
  return true;
}

void Prover::extend(Scene &scene, const Facts &facts, Head &head, std::vector<Tail> &tails,
                    Reach reach, unsigned hops, std::vector<Goal> &goals) {
  if (hops == 0) {
    for (Tail &tail : tails) {
      Goal goal = head.goal;
      goal.add(tail.goal);
      if (meet(scene, facts, goal, head.notify, tail.wait))
        goals.push_back(std::move(goal));
    }
    return;
  }
  for (Op *notify : notifies_)
    for (const WaitBefore &before : waitsReleased(notify)) {
      if (isOutOfTime() || spaceOf(before.wait) != spaceOf(notify) ||
          signalOf(head.notify.op) != signalOf(before.wait) ||
          (reach == Reach::Near && before.earlierOf))
        continue;
      Head next;
      next.notify = scene.instance(notify);
      next.goal = head.goal;
      next.goal.addExists(next.notify);
      Tail wait = tailOf(scene, before, &next.notify, nullptr);
      next.goal.add(wait.goal);
      if (meet(scene, facts, next.goal, head.notify, wait.wait))
        extend(scene, facts, next, tails, reach, hops - 1, goals);
    }
}

std::vector<Goal> Prover::join(Scene &scene, const Facts &facts, std::vector<Head> &heads,
                               std::vector<Tail> &tails, Reach reach, unsigned hops) {
  std::vector<Goal> goals;
  for (Head &head : heads)
    extend(scene, facts, head, tails, reach, hops, goals);
  return goals;
}

bool Prover::hasPath(Scene &scene, const Facts &facts, std::vector<Head> heads,
                     std::vector<Tail> tails) {
  if (heads.empty() || tails.empty())
    return false;
  std::vector<Goal> goals;
  for (unsigned hops = 0; hops < 2 && !isOutOfTime(); ++hops) {
    llvm::append_range(goals, join(scene, facts, heads, tails, Reach::Near, hops));
    if (reachesOne(scene, facts, goals))
      return true;
  }
  return false;
}

} // namespace dtile::protocol::prove
