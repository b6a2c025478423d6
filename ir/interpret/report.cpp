// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What is said when a run goes wrong.
#include "ir/interpret/state.h"

#include <algorithm>
#include <tuple>

namespace dtile::interpret {

namespace {

/// More places than this say nothing new.
constexpr size_t kMaxReported = 20;

} // namespace

std::string SignalState::cellText(int64_t cell) const {
  std::vector<int64_t> position(sizes.size());
  for (size_t d = sizes.size(); d-- > 0;) {
    const int64_t size = std::max<int64_t>(1, sizes[d]);
    position[d] = cell % size;
    cell /= size;
  }
  std::string text = name;
  for (size_t d = 0; d < position.size(); ++d)
    text += (d ? ", " : "[") + std::to_string(position[d]);
  return position.empty() ? text : text + "]";
}

std::string MachineState::place(const ir::Op &op) const {
  const SourceManager *sources = module.sources();
  if (!sources || !op.loc().isValid())
    return "";
  const PresumedLoc place = sources->presumed(op.loc());
  return place.file.str() + ":" + std::to_string(place.line) + ":" + std::to_string(place.column) +
         ": ";
}

std::string cellText(const SignalState &signal, int64_t cell) { return signal.cellText(cell); }

Step MachineState::fail(RunError::Kind kind, std::string message) {
  if (!error)
    error = std::make_unique<RunError>(RunError{kind, std::move(message)});
  return Step::Failed;
}

Step MachineState::trap(const Body &body, const ir::Op &op, const std::string &message) {
  const bool isFirst = error == nullptr;
  fail(RunError::Kind::Trap, place(op) + body.describe() + ": " + message);
  if (isFirst)
    error->op = &op;
  return Step::Failed;
}

Step MachineState::endless(const Body &body, const ir::Op &op, uint64_t iterations) {
  const bool isFirst = error == nullptr;
  fail(RunError::Kind::Endless, place(op) + body.describe() + ": this loop does not end: after " +
                                    std::to_string(iterations) +
                                    (iterations == 1 ? " iteration" : " iterations") +
                                    " it is where it was before");
  if (isFirst)
    error->op = &op;
  return Step::Failed;
}

namespace {

/// One line of a deadlock's report: bodies of one rank and space that wait at one place for one
/// thing.
struct Waiter {
  Body *body = nullptr;
  size_t bodies = 1;

  [[nodiscard]] auto what() const {
    return std::tuple(body->rank.rank, body->space, body->waitInstr, body->waitCell);
  }
};

std::string missingRanks(const MachineState &machine, const Body &body) {
  std::string text;
  size_t count = 0;
  for (const RankRun &rank : machine.ranks)
    if (rank.barriers.lookup(body.waitInstr->op) < body.barrierNumber)
      text += (count++ ? ", " : "") + std::to_string(rank.rank);
  return (count == 1 ? "rank " : "ranks ") + text;
}

std::string waiterText(const MachineState &machine, const Waiter &waiter) {
  const Body &body = *waiter.body;
  std::string text = machine.place(*body.waitInstr->op) + body.describe();
  if (waiter.bodies > 1)
    text += " and " + std::to_string(waiter.bodies - 1) + " more bodies";
  text += waiter.bodies > 1 ? " wait" : " waits";
  if (body.waiting == Body::Waiting::Barrier)
    return text + " at the barrier for " + missingRanks(machine, body);
  const SignalState &signal = *body.waitSignal;
  const SignalState::PerRank &cells = signal.ranks[body.rank.rank];
  const uint64_t base = cells.base[body.waitCell];
  return text + " for `" + signal.cellText(body.waitCell) + "`: wants " +
         std::to_string(body.waitTarget - base) + ", has seen " +
         std::to_string(static_cast<int64_t>(cells.value[body.waitCell] - base));
}

void showAbsence(Observer &observer, const MachineState &machine, Body &body) {
  Observer::Absence absence;
  absence.arrivals = body.barrierNumber;
  for (const RankRun &rank : machine.ranks) {
    absence.missing = rank.rank;
    absence.itsArrivals = rank.barriers.lookup(body.waitInstr->op);
    if (absence.itsArrivals < body.barrierNumber)
      break;
  }
  observer.stuckAtBarrier(body.observedId(), *body.waitInstr->op, absence);
}

void showWaiter(Observer &observer, Body &body) {
  if (body.waiting == Body::Waiting::Barrier)
    return showAbsence(observer, body.machine, body);
  const SignalState::PerRank &cells = body.waitSignal->ranks[body.rank.rank];
  const uint64_t base = cells.base[body.waitCell];
  Observer::Shortage shortage;
  shortage.cell = body.waitCell;
  shortage.wanted = body.waitTarget - base;
  shortage.seen = cells.value[body.waitCell] - base;
  if (body.waitSignal->hasCount)
    shortage.all = cells.expected[body.waitCell];
  observer.stuck(body.observedId(), *body.waitInstr->op, body.signal(body.waitInstr->operands[0]),
                 shortage);
}

/// Why the bodies of a space that have not started cannot; "" when all have.
std::string notStartedText(const MachineState &machine, const RankRun &rank,
                           const SpaceRun &space) {
  const int64_t left = space.total - space.started;
  if (!rank.isOpen || left == 0)
    return "";
  const SpaceCode &code = *space.code;
  std::string text =
      "rank " + std::to_string(rank.rank) + ", kernel `" + machine.kernel->code->name + "`";
  if (!code.name.empty())
    text += ", role `" + code.name + "`";
  if (code.afterAll >= 0 && space.running() == 0)
    return text + " has not begun: it comes after all of `" +
           rank.spaces[code.afterAll].code->name + "`";
  text += ": " + std::to_string(left) + (left == 1 ? " body has" : " bodies have") + " not begun: ";
  if (code.isOrdered && code.programs <= 1)
    return text + "they run one after the other";
  if (space.programs != 0)
    return text + "its " + std::to_string(space.programs) + " programs come to them later";
  return text + "only " + std::to_string(code.programs) + " may run at a time";
}

} // namespace

void MachineState::reportDeadlock() {
  std::vector<Waiter> waiters;
  std::map<decltype(Waiter{}.what()), size_t> known;
  for (const RankRun &rank : ranks)
    for (const auto &[id, body] : bodies) {
      if (&body->rank != &rank)
        continue;
      const Waiter waiter{body.get()};
      const auto [same, isNew] = known.try_emplace(waiter.what(), waiters.size());
      if (isNew)
        waiters.push_back(waiter);
      else
        ++waiters[same->second].bodies;
    }
  if (observer)
    for (const Waiter &waiter : waiters)
      showWaiter(*observer, *waiter.body);
  std::string text = "deadlock: ";
  if (bodies.size() == 1)
    text += "one body is left, and it waits";
  else
    text += std::to_string(bodies.size()) + " bodies are left, and all of them wait";
  for (size_t i = 0; i < std::min(waiters.size(), kMaxReported); ++i)
    text += "\n  " + waiterText(*this, waiters[i]);
  if (waiters.size() > kMaxReported)
    text += "\n  and " + std::to_string(waiters.size() - kMaxReported) + " more places";
  for (const RankRun &rank : ranks) {
    for (const SpaceRun &space : rank.spaces)
      if (std::string line = notStartedText(*this, rank, space); !line.empty())
        text += "\n  " + line;
    if (!rank.isDone && !rank.isOpen)
      text += "\n  rank " + std::to_string(rank.rank) + " waits to begin launch " +
              std::to_string(kernel->epoch[rank.rank]) + " with all other ranks";
  }
  fail(RunError::Kind::Deadlock, std::move(text));
}

} // namespace dtile::interpret
