// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Happens-before paths: from an access (or a launch's begin) to a notify of its body, from the
// notify to a wait for its cell, from the wait to an access (or a launch's end), perhaps through a
// second notify and wait. A wait is for all notifies of the launch to a cell, so it is behind any
// of them.
#include "ir/protocol/prove/prover.h"

#include "ir/analysis/communication.h"

#include "llvm/ADT/STLExtras.h"

namespace dtile::protocol::prove {

Value *cellsOf(Op *op) { return ir::cellsOf(*op); }

Op *signalOf(Op *op) {
  Op *object = ir::objectOf(cellsOf(op));
  return object && object->is(OpKind::SignalParam) ? object : nullptr;
}

bool Prover::isAfterSpace(const Op *earlier, const Op *later) const {
  for (const Op *at = later; at->hasAttr("after_all");) {
    const auto it = llvm::find_if(spaces_, [&](const Op *space) {
      return space->strAttr("name") == at->strAttr("after_all");
    });
    if (it == spaces_.end() || *it == at)
      return false;
    at = *it;
    if (at == earlier)
      return true;
  }
  return false;
}

std::vector<Head> Prover::headsOf(Scene &scene, const Access &access, const Instance &at,
                                  const Region &region) {
  std::vector<Head> heads;
  for (Op *notify : notifies_) {
    Release release = releases(notify, access.op, access.isAsync);
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
    head.goal.equal.push_back({var(head.notify.rank), rank});
    heads.push_back(std::move(head));
  }
  return heads;
}

namespace {

Tail tailOf(Scene &scene, const WaitBefore &before, Instance *at, const Polynomial *rank) {
  Tail tail;
  // The op by which the wait is over, beside the end of the path; the wait beside that.
  Instance by;
  if (at && before.by == at->op) {
    by = *at;
  } else {
    by = at ? scene.instance(before.by, at, Shares::Body) : scene.instance(before.by);
    tail.goal.addExists(by);
    if (rank)
      tail.goal.equal.push_back({var(by.rank), *rank});
  }
  tail.wait = scene.instance(before.wait, &by, Shares::Body);
  tail.goal.addExists(tail.wait);
  return tail;
}

} // namespace

std::vector<Tail> Prover::tailsOf(Scene &scene, Instance &at) {
  std::vector<Tail> tails;
  for (const WaitBefore &before : waitsBefore(at.op))
    if (spaceOf(before.wait) == at.space)
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
    const auto all = scene.derivedCount(*signal, cell, awaited.rank);
    if (!all)
      return false;
    goal.addLessEqual(*all, scene.polys.of(wait.op->operand(1), wait.environment));
  }
  return true;
}

std::vector<Goal> Prover::join(Scene &scene, const Facts &facts, std::vector<Head> &heads,
                               std::vector<Tail> &tails, bool isLong) {
  std::vector<Goal> goals;
  const auto connect = [&](Head &head, Tail &tail) {
    Goal goal = head.goal;
    goal.add(tail.goal);
    if (meet(scene, facts, goal, head.notify, tail.wait))
      goals.push_back(std::move(goal));
  };
  if (!isLong) {
    for (Head &head : heads)
      for (Tail &tail : tails)
        connect(head, tail);
    return goals;
  }
  for (Op *notify : notifies_)
    for (const WaitBefore &before : waitsReleased(notify)) {
      if (spaceOf(before.wait) != spaceOf(notify))
        continue;
      for (Head &head : heads) {
        if (signalOf(head.notify.op) != signalOf(before.wait))
          continue;
        for (Tail &tail : tails) {
          if (signalOf(notify) != signalOf(tail.wait.op))
            continue;
          Head second;
          second.notify = scene.instance(notify);
          second.goal = head.goal;
          second.goal.addExists(second.notify);
          Tail first = tailOf(scene, before, &second.notify, nullptr);
          second.goal.add(first.goal);
          if (meet(scene, facts, second.goal, head.notify, first.wait))
            connect(second, tail);
        }
      }
    }
  return goals;
}

bool Prover::hasPath(Scene &scene, const Facts &facts,
                     llvm::function_ref<std::vector<Head>()> heads,
                     llvm::function_ref<std::vector<Tail>()> tails) {
  std::vector<Head> from = heads();
  std::vector<Tail> to = tails();
  if (from.empty() || to.empty())
    return false;
  if (reachesOne(scene, facts, join(scene, facts, from, to, /*isLong=*/false)))
    return true;
  return !isOutOfTime() && reachesOne(scene, facts, join(scene, facts, from, to, /*isLong=*/true));
}

} // namespace dtile::protocol::prove
