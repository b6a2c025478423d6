// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A program runs its bodies one after another, so a body that waits for a later one of its own
// program waits for ever. That one program a space suffices shows that any number does: take a run
// on n programs that is stuck, and in each space the first body that has not ended. All bodies
// before it have ended, so whatever the run on one program a space had done when it came to these
// bodies has been done here too, and there they could go on.
#include "ir/protocol/check/check_progress.h"

#include "ir/interpret/interpreter.h"
#include "ir/protocol/check/race_detector.h"
#include "ir/protocol/check/report_finding.h"
#include "ir/protocol/check/run_arguments.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <set>

namespace dtile::protocol {

using interpret::BodyId;
using interpret::RunError;
using interpret::SignalVal;
using ir::Op;
using ir::OpKind;

namespace {

constexpr uint64_t kMaxSteps = 5'000'000;
/// Numbers of ranks beyond which nothing new is to be expected.
constexpr int kManyRanks = 8;
/// Bodies for each program that a space pins, and orders in which they begin.
constexpr int64_t kBodiesForAPin = 4;
constexpr uint64_t kOrders = 6;
constexpr int kRanksOfOrders = 2;

/// Which bodies have started, who notifies which cell, and who is left waiting.
class RoomWatcher : public interpret::Observer {
public:
  struct Notify {
    const Op *op;
    BodyName body;
  };
  struct Waiter {
    const Op *op;
    BodyName body;
    std::string cell;
  };
  using BodyKey = std::tuple<int, int64_t, const Op *, std::vector<int64_t>>;

  static BodyKey keyOf(const BodyName &name) {
    return {name.rank, name.launch, name.space, {name.positions.begin(), name.positions.end()}};
  }
  static BodyName nameOf(const BodyId &id) {
    return {id.rank, id.launch, id.space, {id.positions.begin(), id.positions.end()}};
  }
  void bodyStarts(const BodyId &id) override { started.insert(keyOf(nameOf(id))); }
  void notifies(const BodyId &id, const Op &op, const SignalVal &cells, llvm::ArrayRef<uint64_t>,
                uint64_t) override {
    cells.forEachCell([&](int64_t cell) {
      sent[{cells.rank, cellText(*cells.signal, cell)}].push_back({&op, nameOf(id)});
      return true;
    });
  }
  void stuck(const BodyId &id, const Op &op, const SignalVal &cells,
             const Shortage &shortage) override {
    waiters.push_back({&op, nameOf(id), cellText(*cells.signal, shortage.cell)});
  }
  void stuckAtBarrier(const BodyId &id, const Op &op, const Absence &) override {
    waiters.push_back({&op, nameOf(id), ""});
  }
  [[nodiscard]] int64_t bodiesOf(const Op *space, int rank) const {
    return llvm::count_if(started, [&](const BodyKey &body) {
      return std::get<0>(body) == rank && std::get<1>(body) == 0 && std::get<2>(body) == space;
    });
  }

  std::set<BodyKey> started;
  std::map<std::pair<int, std::string>, std::vector<Notify>> sent;
  std::vector<Waiter> waiters;
};

class ProgressChecker {
public:
  ProgressChecker(ir::Module &module, Op &kernel, const LaunchSizes &sizes,
                  const TargetFacts &machine, Diagnostics &diagnostics)
      : module_(module), kernel_(kernel), sizes_(sizes), machine_(machine),
        diagnostics_(diagnostics) {}

  Progress run(llvm::ArrayRef<int> ranks);

private:
  void findSpaces();
  /// Whether a run on so many programs a space (empty: room for all) ends in a deadlock.
  bool hangs(int ranks, const SizeValues &values, std::vector<int64_t> programs,
             RoomWatcher *watcher = nullptr, uint64_t seed = 0);
  [[nodiscard]] std::vector<int64_t> programsOfMachine() const;
  /// One size so large that it is cut into so many blocks (for each rank, where ranks share it),
  /// and 1 for all others.
  [[nodiscard]] SizeValues withBodies(int ranks, size_t symbol, int64_t bodies) const;
  [[nodiscard]] std::vector<SizeValues> largeSizes(int ranks) const;
  bool fits(int ranks, const SizeValues &values);
  /// Whether the programs that spaces pin suffice in whichever order their bodies begin.
  bool fitsInAnyOrder(int ranks);
  void report(int ranks, const SizeValues &values, const RoomWatcher &all, const RoomWatcher &some);

  ir::Module &module_;
  Op &kernel_;
  const LaunchSizes &sizes_;
  const TargetFacts &machine_;
  Diagnostics &diagnostics_;
  std::vector<Op *> spaces_;
  std::vector<Op *> waiting_;
};

void ProgressChecker::findSpaces() {
  for (Op &op : kernel_.body().ops()) {
    if (!op.is(OpKind::Space))
      continue;
    spaces_.push_back(&op);
    bool waits = false;
    walk(op, [&](Op &inner) { waits |= inner.is(OpKind::Wait) || inner.is(OpKind::Barrier); });
    if (waits)
      waiting_.push_back(&op);
  }
}

bool ProgressChecker::hangs(int ranks, const SizeValues &values, std::vector<int64_t> programs,
                            RoomWatcher *watcher, uint64_t seed) {
  interpret::Schedule schedule;
  schedule.seed = seed;
  schedule.controlOnly = true;
  schedule.maxSteps = kMaxSteps;
  schedule.programs = std::move(programs);
  interpret::Machine machine(module_, ranks, schedule);
  RunArguments arguments;
  if (!arguments.make(kernel_, sizes_, values, ranks, machine))
    return false;
  machine.observe(watcher);
  const auto error = machine.launch(kernel_.get(ir::attr::name).str(), arguments.ofRank);
  return error && error->kind == RunError::Kind::Deadlock;
}

/// What a space pins, as far as there is room; the others share what is left.
std::vector<int64_t> ProgressChecker::programsOfMachine() const {
  int64_t left = machine_.residentPrograms();
  int64_t others = int64_t(spaces_.size());
  std::vector<int64_t> programs(spaces_.size(), 0);
  for (const bool isPinned : {true, false})
    for (size_t s = 0; s < spaces_.size(); ++s) {
      const int64_t pin = spaces_[s]->getOr(ir::attr::programs, 0);
      if ((pin != 0) != isPinned)
        continue;
      const int64_t most = isPinned ? left - (others - 1) : left / others;
      programs[s] = std::max<int64_t>(1, isPinned ? std::min(pin, most) : most);
      left -= programs[s];
      --others;
    }
  return programs;
}

SizeValues ProgressChecker::withBodies(int ranks, size_t symbol, int64_t bodies) const {
  const SizeSymbol &its = sizes_.symbols()[symbol];
  SizeValues values(sizes_.symbols().size(), 1);
  const int64_t step = its.steps.empty() ? 1 : its.steps.back();
  values[symbol] = bodies * step * (its.isShared ? ranks : 1);
  return values;
}

/// Sizes that give each space with waits more bodies than it has programs.
std::vector<SizeValues> ProgressChecker::largeSizes(int ranks) const {
  std::vector<SizeValues> all = sizes_.choose(ranks, LaunchSizes::Choice::Few);
  if (all.size() > 2)
    all.resize(2);
  for (const Op *space : waiting_)
    for (size_t s = 0; s < sizes_.symbols().size(); ++s) {
      if (!sizes_.decidesBodies(*space, sizes_.symbols()[s]))
        continue;
      SizeValues values = withBodies(ranks, s, machine_.residentPrograms() + 1);
      if (!llvm::is_contained(all, values))
        all.push_back(std::move(values));
    }
  return all;
}

bool ProgressChecker::fits(int ranks, const SizeValues &values) {
  RoomWatcher some;
  if (!hangs(ranks, values, programsOfMachine(), &some))
    return true;
  RoomWatcher all;
  if (hangs(ranks, values, {}, &all))
    return true;
  report(ranks, values, all, some);
  return false;
}

bool ProgressChecker::fitsInAnyOrder(int ranks) {
  std::vector<SizeValues> all;
  for (const Op *space : waiting_) {
    const int64_t pin = space->getOr(ir::attr::programs, 0);
    if (pin == 0 || space->get(ir::attr::ordered))
      continue;
    for (size_t s = 0; s < sizes_.symbols().size(); ++s) {
      if (!sizes_.decidesBodies(*space, sizes_.symbols()[s]))
        continue;
      // The more bodies for a program, the fewer orders are without a deadlock.
      all.push_back(withBodies(ranks, s, kBodiesForAPin * pin));
    }
    if (all.empty())
      all = sizes_.choose(ranks, LaunchSizes::Choice::Few);
  }
  for (const SizeValues &values : all)
    for (uint64_t seed = 1; seed <= kOrders; ++seed) {
      RoomWatcher some;
      if (!hangs(ranks, values, {}, &some, seed))
        continue;
      RoomWatcher room;
      if (hangs(ranks, values, {}, &room))
        break;
      report(ranks, values, room, some);
      return false;
    }
  return true;
}

std::string spaceText(const Op &space) {
  const bool isNamed = space.has(ir::attr::name) && space.get(ir::attr::name) != "main";
  return isNamed ? "role `" + space.get(ir::attr::name).str() + "`" : "the kernel's tile space";
}

SourceRange rangeOf(const Op *op) { return {op->loc(), op->loc()}; }

void ProgressChecker::report(int ranks, const SizeValues &values, const RoomWatcher &all,
                             const RoomWatcher &some) {
  // Of all that wait, one for a body that has not begun.
  const RoomWatcher::Waiter *waiter = some.waiters.empty() ? nullptr : &some.waiters.front();
  const RoomWatcher::Notify *missing = nullptr;
  for (const RoomWatcher::Waiter &one : some.waiters) {
    const auto sent = all.sent.find({one.body.rank, one.cell});
    if (sent == all.sent.end())
      continue;
    for (const RoomWatcher::Notify &notify : sent->second)
      if (!missing && !some.started.count(RoomWatcher::keyOf(notify.body))) {
        waiter = &one;
        missing = &notify;
      }
  }
  const std::string name = kernel_.get(ir::attr::name).str();
  const std::string who = waiter ? bodyText(waiter->body, false) : "a body";
  const std::string what =
      waiter && !waiter->cell.empty() ? "`" + waiter->cell + "`" : "other ranks at a barrier";
  DiagBuilder builder =
      diagnostics_.report(waiter ? rangeOf(waiter->op) : rangeOf(&kernel_), diag::protocol_no_room,
                          name, machine_.name.str(), who, what,
                          missing ? bodyText(missing->body, false) + ", which notifies it,"
                                  : std::string("a body that others wait for"));
  const Op *space = missing ? missing->body.space : waiting_.front();
  if (missing)
    builder.note(rangeOf(missing->op), diag::note_protocol,
                 "it would be notified here, by a body that begins when an earlier one of its "
                 "program has ended");
  const std::vector<int64_t> programs = programsOfMachine();
  const auto at = llvm::find(spaces_, space) - spaces_.begin();
  const int64_t pin = space->getOr(ir::attr::programs, 0);
  const bool isPinned = machine_.residentPrograms() == 0;
  std::string text =
      isPinned
          ? spaceText(*space) + " runs " + std::to_string(pin) +
                " of its bodies at once, and they begin in any order"
          : "`" + machine_.name.str() + "`, " + machine_.description.str() + ", runs " +
                std::to_string(machine_.residentPrograms()) + " programs at once; " +
                spaceText(*space) + " gets " + std::to_string(programs[at]) +
                (pin > programs[at] ? " of the " + std::to_string(pin) + " that it asks for"
                                    : std::string()) +
                ", for " + std::to_string(all.bodiesOf(space, missing ? missing->body.rank : 0)) +
                " bodies";
  builder.note(rangeOf(space), diag::note_protocol, text);
  builder.note(waiter ? rangeOf(waiter->op) : rangeOf(&kernel_), diag::note_protocol,
               isPinned ? "`ordered` lets bodies begin in the written order; put those that notify "
                          "before those that wait, or in a role of their own"
                        : "let fewer bodies wait at once: larger blocks, or `programs(n)` of their "
                          "role with a small n, leave room for those that they wait for");
  builder.note(rangeOf(&kernel_), diag::note_protocol,
               "found for " + Case{kernel_, ranks, sizes_.symbols(), values}.text());
}

Progress ProgressChecker::run(llvm::ArrayRef<int> ranks) {
  Progress progress;
  findSpaces();
  progress.hasWaits = !waiting_.empty();
  if (waiting_.empty())
    return progress;
  std::vector<int> few;
  llvm::copy_if(ranks, std::back_inserter(few), [](int count) { return count <= kManyRanks; });
  if (few.empty())
    few.push_back(ranks.empty() ? 2 : ranks.front());
  for (const int count : few) {
    std::vector<SizeValues> chosen = sizes_.choose(count, LaunchSizes::Choice::Few);
    if (chosen.size() > 2)
      chosen.resize(2);
    for (const SizeValues &values : chosen)
      progress.needsRoom =
          progress.needsRoom || hangs(count, values, std::vector<int64_t>(spaces_.size(), 1));
  }
  if (machine_.residentPrograms() == 0) {
    for (const int count : few)
      if (!progress.isRefused && count <= kRanksOfOrders)
        progress.isRefused = !fitsInAnyOrder(count);
    return progress;
  }
  if (!progress.needsRoom)
    return progress;
  // Who waits for whom is as with few ranks; how many bodies there are is what matters.
  const int count = llvm::is_contained(few, 2) ? 2 : few.front();
  for (const SizeValues &values : largeSizes(count))
    if (!progress.isRefused)
      progress.isRefused = !fits(count, values);
  return progress;
}

} // namespace

Progress checkProgress(ir::Module &module, Op &kernel, const LaunchSizes &sizes,
                       llvm::ArrayRef<int> ranks, const TargetFacts &machine,
                       Diagnostics &diagnostics) {
  return ProgressChecker(module, kernel, sizes, machine, diagnostics).run(ranks);
}

} // namespace dtile::protocol
