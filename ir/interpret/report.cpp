// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What is said when a run goes wrong.
#include "ir/interpret/state.h"

#include <algorithm>

namespace dtile::interpret {

namespace {

/// More waiters than this say nothing new.
constexpr size_t kMaxReported = 200;

} // namespace

std::string SignalState::cellText(int32_t rank, int64_t cell) const {
  std::vector<int64_t> position(sizes.size());
  for (size_t d = sizes.size(); d-- > 0;) {
    const int64_t size = std::max<int64_t>(1, sizes[d]);
    position[d] = cell % size;
    cell /= size;
  }
  std::string text = name + "@" + std::to_string(rank);
  for (size_t d = 0; d < position.size(); ++d)
    text += (d ? ", " : "[") + std::to_string(position[d]);
  return position.empty() ? text : text + "]";
}

std::string MachineState::at(const ir::Op &op) const {
  const SourceManager *sources = module.sources();
  if (!sources || !op.loc().isValid())
    return "";
  const PresumedLoc place = sources->presumed(op.loc());
  return " at " + place.file.str() + ":" + std::to_string(place.line) + ":" +
         std::to_string(place.column);
}

Step MachineState::fail(RunError::Kind kind, std::string message) {
  if (!error)
    error = std::make_unique<RunError>(RunError{kind, std::move(message)});
  return Step::Failed;
}

Step MachineState::trap(const Body &body, const ir::Op &op, const std::string &message) {
  return fail(RunError::Kind::Trap, message + "\n  in kernel `" + kernel->code->name + "`, " +
                                        body.describe() + at(op));
}

namespace {

std::string waiterText(const MachineState &machine, const Body &body) {
  std::string text = "  " + body.describe();
  if (body.waiting == Body::Waiting::Barrier)
    return text + " waits at a barrier that not all ranks have reached" +
           machine.at(*body.waitInstr->op);
  const SignalState &signal = *body.waitSignal;
  const SignalState::PerRank &cells = signal.ranks[body.rank.rank];
  const uint64_t base = cells.base[body.waitCell];
  return text + " waits for `" + signal.cellText(body.rank.rank, body.waitCell) + "`: wanted " +
         std::to_string(body.waitTarget - base) + ", seen " +
         std::to_string(static_cast<int64_t>(cells.value[body.waitCell] - base)) +
         machine.at(*body.waitInstr->op);
}

/// Why the bodies of a space that have not started cannot; "" when all have.
std::string notStartedText(const RankRun &rank, const SpaceRun &space) {
  const int64_t left = space.total - space.started;
  if (!rank.isOpen || left == 0)
    return "";
  const SpaceCode &code = *space.code;
  std::string text = "  rank " + std::to_string(rank.rank);
  if (!code.name.empty())
    text += ", role `" + code.name + "`";
  text += ": " + std::to_string(left) + (left == 1 ? " body has" : " bodies have") +
          " not started, ";
  if (code.afterAll >= 0 && space.running() == 0)
    return text + "after all of `" + rank.spaces[code.afterAll].code->name + "`";
  if (code.isOrdered && code.programs <= 1)
    return text + "as the space is ordered";
  return text + "as only " + std::to_string(code.programs) + " may run at a time";
}

} // namespace

void MachineState::reportDeadlock() {
  std::vector<const Body *> waiting;
  for (const RankRun &rank : ranks)
    for (const auto &[id, body] : bodies)
      if (&body->rank == &rank)
        waiting.push_back(body.get());
  std::string text = "deadlock in kernel `" + kernel->code->name + "`: every body that is left waits";
  for (size_t i = 0; i < std::min(waiting.size(), kMaxReported); ++i)
    text += "\n" + waiterText(*this, *waiting[i]);
  if (waiting.size() > kMaxReported)
    text += "\n  and " + std::to_string(waiting.size() - kMaxReported) + " more";
  for (const RankRun &rank : ranks) {
    for (const SpaceRun &space : rank.spaces)
      if (std::string line = notStartedText(rank, space); !line.empty())
        text += "\n" + line;
    if (!rank.isDone && !rank.isOpen)
      text += "\n  rank " + std::to_string(rank.rank) + " waits to begin launch " +
              std::to_string(kernel->epoch[rank.rank]) + " with all other ranks";
  }
  fail(RunError::Kind::Deadlock, std::move(text));
}

} // namespace dtile::interpret
