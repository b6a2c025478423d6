// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs launches: prologues, then bodies of all ranks in turn until all have ended or none can move.
#include "ir/interpret/control_ops.h"

#include "frontend/base/check.h"
#include "ir/analysis/ordering.h"

#include <algorithm>

namespace dtile::interpret {

namespace {

/// Random schedules: how often another rank becomes the slow one, how hard it is for that to run,
/// and how often something lands that nobody waits for.
constexpr size_t kPicksOfOneSlowRank = 128;
constexpr unsigned kTriesForAnother = 5;
constexpr size_t kStepsOfOneLanding = 4;

} // namespace

MachineState::MachineState(ir::Module &module, int ranks, const Schedule &schedule)
    : module(module), numRanks(ranks), schedule(schedule),
      cache(module, schedule.controlOnly, schedule.terms != nullptr), random(schedule.seed) {
  DTILE_CHECK(ranks > 0, "a machine has at least one rank");
}

std::unique_ptr<RunError> MachineState::run(const std::string &name,
                                            const std::vector<std::vector<Arg>> &args,
                                            int64_t launches) {
  error.reset();
  const KernelCode *code = cache.kernel(name);
  if (!code) {
    fail(RunError::Kind::BadArgument, "the module has no kernel `" + name + "`");
    return std::move(error);
  }
  if (!checkArguments(*code, args))
    return std::move(error);
  prepareKernel(*code);
  ++runNumber;
  steps = 0;
  nextStart = 0;
  unlanded = 0;
  slowRank = -1;
  ranks.clear();
  ranks.resize(numRanks);
  atArrivals.clear();
  chooseHeldBack(*code);
  for (int r = 0; r < numRanks; ++r) {
    RankRun &rank = ranks[r];
    rank.rank = r;
    rank.launchesLeft = launches;
    rank.args = &args[r];
    rank.isDone = launches == 0;
    for (const SpaceCode &space : code->spaces)
      rank.spaces.emplace_back().code = &space;
  }
  for (RankRun &rank : ranks)
    if (!error && !rank.isDone)
      beginLaunch(rank);
  for (RankRun &rank : ranks)
    advance(rank);
  runBodies();
  if (!error)
    checkSignalTotals();
  cleanUp();
  return std::move(error);
}

void MachineState::prepareKernel(const KernelCode &code) {
  kernel = &kernels[code.name];
  if (kernel->code)
    return;
  kernel->code = &code;
  kernel->epoch.assign(numRanks, 0);
  for (const SignalCode &signal : code.signals) {
    auto state = std::make_unique<SignalState>();
    state->name = signal.name;
    state->hasCount = signal.hasCount;
    state->ranks.resize(numRanks);
    kernel->signals.push_back(std::move(state));
  }
}

// Launches of one rank.

void MachineState::beginLaunch(RankRun &rank) {
  const KernelCode &code = *kernel->code;
  rank.isOpen = false;
  rank.prologue = std::make_unique<Body>(*this, rank, nullptr, code.prologue);
  rank.prologue->id = nextBody++;
  if (observer)
    observer->bodyStarts(rank.prologue->observedId());
  if (!runToEnd(*rank.prologue) || !countSignals(rank))
    return;
  if (observer)
    observer->bodyEnds(rank.prologue->observedId());
  ++kernel->entered;
  rank.hasEntered = true;
}

bool MachineState::runToEnd(Body &body) {
  for (;;) {
    switch (body.run()) {
    case Step::Next:
    case Step::Jumped:
      continue;
    case Step::Blocked:
      DTILE_UNREACHABLE("a prologue or a count waits");
    case Step::Failed:
      return false;
    case Step::Ended:
      body.landAll();
      return true;
    }
  }
}

bool MachineState::countSignals(RankRun &rank) {
  for (size_t s = 0; s < kernel->signals.size(); ++s) {
    SignalState &signal = *kernel->signals[s];
    const SignalCode &code = kernel->code->signals[s];
    if (!code.hasCount)
      continue;
    Body body(*this, rank, nullptr, code.count);
    for (const auto &[outer, inner] : code.count.captures)
      copySlot(*rank.prologue->frame, outer, *body.frame, inner.index);
    int64_t cells = 1;
    for (int64_t size : signal.sizes)
      cells *= size;
    for (int64_t cell = 0; cell < cells; ++cell) {
      int64_t rest = cell;
      for (size_t d = signal.sizes.size(); d-- > 0; rest /= signal.sizes[d])
        body.frame->scalars[code.count.arguments[d].index] =
            static_cast<Scalar>(rest % signal.sizes[d]);
      body.frame->pc = 0;
      if (!runToEnd(body))
        return false;
      const int64_t count = static_cast<int64_t>(body.result);
      if (count < 0) {
        trap(body, *code.op,
             "the derived count of `" + signal.cellText(cell) + "` is " + std::to_string(count));
        return false;
      }
      signal.ranks[rank.rank].expected[cell] = static_cast<uint64_t>(count);
    }
  }
  return true;
}

bool MachineState::mayOpen(const RankRun &rank) const {
  if (!rank.hasEntered)
    return false;
  // Who watches takes launches one by one: what keeps them apart otherwise has been proved.
  const bool meets = kernel->code->hasEntryBarrier || observer;
  return !meets || kernel->entered >= (kernel->epoch[rank.rank] + 1) * numRanks;
}

void MachineState::advance(RankRun &first) {
  // Other ranks wait here only when the entry barrier holds them.
  std::vector<RankRun *> work{&first};
  while (!work.empty() && !error) {
    RankRun &rank = *work.back();
    work.pop_back();
    if (rank.isDone)
      continue;
    if (!rank.isOpen && mayOpen(rank)) {
      rank.isOpen = true;
      for (RankRun &other : ranks)
        if (&other != &rank && !other.isOpen && mayOpen(other))
          work.push_back(&other);
    }
    const bool isOver = rank.isOpen && llvm::all_of(rank.spaces, [](const SpaceRun &space) {
                          return space.ended == space.total;
                        });
    if (!isOver)
      continue;
    endLaunch(rank);
    if (rank.isDone)
      continue;
    beginLaunch(rank);
    work.push_back(&rank);
  }
}

void MachineState::endLaunch(RankRun &rank) {
  for (const auto &signal : kernel->signals) {
    SignalState::PerRank &cells = signal->ranks[rank.rank];
    for (size_t i = 0; i < cells.base.size(); ++i)
      cells.base[i] += signal->hasCount ? cells.expected[i] : cells.asked[i];
    std::fill(cells.asked.begin(), cells.asked.end(), 0);
    std::fill(cells.expected.begin(), cells.expected.end(), 0);
  }
  ++kernel->epoch[rank.rank];
  rank.isOpen = false;
  rank.hasEntered = false;
  rank.isDone = --rank.launchesLeft == 0;
}

// Bodies.

void MachineState::runBodies() {
  while (!error && !llvm::all_of(ranks, [](const RankRun &rank) { return rank.isDone; })) {
    if (Body *body = pickNext())
      runBody(*body);
    else if (!landSomething())
      reportDeadlock();
  }
}

bool MachineState::canStart(const RankRun &rank, const SpaceRun &space) const {
  if (!rank.isOpen || space.started == space.total)
    return false;
  const SpaceCode &code = *space.code;
  if (code.afterAll >= 0) {
    const SpaceRun &before = rank.spaces[code.afterAll];
    if (before.ended != before.total)
      return false;
  }
  if (space.programs != 0)
    return !space.startable.empty();
  const int64_t limit = code.isOrdered ? std::max<int64_t>(1, code.programs) : code.programs;
  return limit == 0 || space.running() < limit;
}

int64_t MachineState::nextLinear(SpaceRun &space) {
  const int64_t next = space.started++;
  if (space.programs != 0) {
    const size_t choice = isRandom() ? random() % space.startable.size() : 0;
    const int64_t body = space.startable[choice];
    space.startable.erase(space.startable.begin() + int64_t(choice));
    return body;
  }
  if (!isRandom() || space.code->isOrdered)
    return next;
  // A step of a shuffle: the numbers that have moved are in a map, as spaces may be large.
  const auto numberAt = [&](int64_t place) {
    const auto it = space.shuffled.find(place);
    return it == space.shuffled.end() ? place : it->second;
  };
  const int64_t place = next + static_cast<int64_t>(random() % (space.total - next));
  const int64_t linear = numberAt(place);
  space.shuffled[place] = numberAt(next);
  return linear;
}

Body *MachineState::startBody(RankRun &rank, SpaceRun &space) {
  const SpaceCode &code = *space.code;
  const int64_t linear = nextLinear(space);
  auto body = std::make_unique<Body>(*this, rank, &space, code.body);
  body->id = nextBody++;
  body->linear = linear;
  for (const auto &[outer, inner] : code.body.captures)
    copySlot(*rank.prologue->frame, outer, *body->frame, inner.index);
  if (code.dims != 0) {
    const auto blocks = code.order.decode(space.blocks, space.centers, linear);
    for (unsigned d = 0; d < code.dims; ++d) {
      body->positions.push_back(space.first[d] + blocks[d] * space.step[d]);
      body->frame->scalars[code.body.arguments[d].index] = static_cast<Scalar>(body->positions[d]);
    }
  }
  Body *started = body.get();
  bodies[body->id] = std::move(body);
  if (observer)
    observer->bodyStarts(started->observedId());
  return started;
}

Body *MachineState::startNext() {
  // Ranks and spaces in turn, so that none runs far ahead.
  const size_t perRank = kernel->code->spaces.size();
  const size_t total = perRank * ranks.size();
  for (size_t i = 0; i < total; ++i) {
    const size_t choice = (nextStart + i) % total;
    RankRun &rank = ranks[choice / perRank];
    SpaceRun &space = rank.spaces[choice % perRank];
    if (!canStart(rank, space))
      continue;
    nextStart = choice + 1;
    return startBody(rank, space);
  }
  return nullptr;
}

Body *MachineState::pickRandom() {
  std::vector<std::pair<RankRun *, SpaceRun *>> startable;
  for (RankRun &rank : ranks)
    for (SpaceRun &space : rank.spaces)
      if (canStart(rank, space))
        startable.emplace_back(&rank, &space);
  const size_t choices = ready.size() + startable.size();
  if (choices == 0)
    return nullptr;
  // Ranks drift apart: for a while, one gets little.
  if (random() % kPicksOfOneSlowRank == 0)
    slowRank = static_cast<int>(random() % (size_t(numRanks) + 1));
  const auto rankOf = [&](size_t choice) {
    return choice < ready.size() ? ready[choice]->rank.rank
                                 : startable[choice - ready.size()].first->rank;
  };
  // Not std::uniform_int_distribution: its results differ between libraries.
  // While a transfer is held back all others go on.
  const auto isHeld = [&](size_t choice) {
    return choice < ready.size() && ready[choice]->heldBack != 0;
  };
  const auto isSlow = [&](size_t choice) { return rankOf(choice) == slowRank || isHeld(choice); };
  size_t choice = random() % choices;
  for (unsigned i = 0; i < kTriesForAnother && isSlow(choice); ++i)
    choice = random() % choices;
  for (size_t i = 0; i < choices && isHeld(choice); ++i)
    choice = (choice + 1) % choices;
  if (choice >= ready.size()) {
    const auto [rank, space] = startable[choice - ready.size()];
    return startBody(*rank, *space);
  }
  std::swap(ready[choice], ready.back());
  Body *body = ready.back();
  ready.pop_back();
  return body;
}

Body *MachineState::pickNext() {
  if (isRandom()) {
    landNowAndThen();
    return pickRandom();
  }
  if (ready.empty())
    return startNext();
  Body *body = ready.front();
  ready.pop_front();
  return body;
}

void MachineState::runBody(Body &body) {
  switch (body.run()) {
  case Step::Next:
  case Step::Jumped:
    ready.push_back(&body);
    return;
  case Step::Blocked:
  case Step::Failed:
    return;
  case Step::Ended:
    endBody(body);
    return;
  }
}

void MachineState::endBody(Body &body) {
  body.landAll();
  if (observer)
    observer->bodyEnds(body.observedId());
  RankRun &rank = body.rank;
  SpaceRun &space = *body.space;
  ++space.ended;
  if (space.programs != 0 && body.linear + space.programs < space.total)
    space.startable.push_back(body.linear + space.programs);
  bodies.erase(body.id);
  advance(rank);
}

/// Every second random schedule holds one transfer of the text back as long as tokens allow, and
/// lets the others land at once: who sends two and tells of one is found soon so.
void MachineState::chooseHeldBack(const KernelCode &code) {
  heldBack = nullptr;
  if (schedule.landing != Schedule::Landing::Random || schedule.seed % 2 != 0)
    return;
  std::vector<const ir::Op *> transfers;
  ir::walk(const_cast<ir::Op &>(*code.op), [&](const ir::Op &op) {
    if (ir::isTransfer(op))
      transfers.push_back(&op);
  });
  if (!transfers.empty())
    heldBack = transfers[schedule.seed / 2 % transfers.size()];
}

bool MachineState::landsAtIssue(const ir::Op *transfer) {
  if (heldBack && transfer)
    return transfer != heldBack;
  switch (schedule.landing) {
  case Schedule::Landing::AtIssue:
    return true;
  case Schedule::Landing::AsLateAsAllowed:
    return false;
  case Schedule::Landing::Random:
    return random() % 2 == 0;
  }
  DTILE_UNREACHABLE("not a way to land");
}

bool MachineState::landSomething() {
  for (auto &[id, body] : bodies)
    if (body->landOne())
      return true;
  return false;
}

bool MachineState::holdsStores() {
  // A prologue stores nothing; nor does a run without data.
  return schedule.landing != Schedule::Landing::AtIssue && !landsAtIssue(nullptr);
}

void MachineState::landNowAndThen() {
  if (unlanded == 0 || random() % kStepsOfOneLanding != 0)
    return;
  // Any body, then the next that has something to land.
  auto it = bodies.lower_bound(random() % nextBody);
  for (size_t i = 0; i < bodies.size(); ++i, ++it) {
    if (it == bodies.end())
      it = bodies.begin();
    if (it->second->landOne(heldBack))
      return;
  }
}

void MachineState::wake(Body *body) {
  body->waiting = Body::Waiting::None;
  ready.push_back(body);
}

void MachineState::notify(const SignalVal &cells) {
  SignalState &signal = *cells.signal;
  cells.forEachCell([&](int64_t cell) {
    const uint64_t value = ++signal.ranks[cells.rank].value[cell];
    const auto it = signal.waiters.find({cells.rank, cell});
    if (it == signal.waiters.end())
      return true;
    llvm::erase_if(it->second, [&](Body *body) {
      if (value < body->waitTarget)
        return false;
      wake(body);
      return true;
    });
    return true;
  });
  for (Body *body : std::exchange(atArrivals, {}))
    wake(body);
}

bool MachineState::isBarrierOpen(const ir::Op &barrier, uint64_t number) const {
  return llvm::all_of(
      ranks, [&](const RankRun &rank) { return rank.barriers.lookup(&barrier) >= number; });
}

void MachineState::wakeBarrier() {
  llvm::erase_if(atBarrier, [&](Body *body) {
    if (!isBarrierOpen(*body->waitInstr->op, body->barrierNumber))
      return false;
    wake(body);
    return true;
  });
}

void MachineState::checkSignalTotals() {
  for (const auto &signal : kernel->signals) {
    if (!signal->hasCount)
      continue;
    for (int r = 0; r < numRanks; ++r) {
      const SignalState::PerRank &cells = signal->ranks[r];
      for (size_t i = 0; i < cells.value.size(); ++i)
        if (cells.value[i] != cells.base[i]) {
          fail(RunError::Kind::Trap,
               "rank " + std::to_string(r) + ", kernel `" + kernel->code->name + "`: `" +
                   signal->cellText(static_cast<int64_t>(i)) + "` has got " +
                   std::to_string(cells.value[i]) +
                   " notifies over all launches, but the derived counts add up to " +
                   std::to_string(cells.base[i]));
          return;
        }
    }
  }
}

void MachineState::cleanUp() {
  ready.clear();
  atBarrier.clear();
  bodies.clear();
  ranks.clear();
  for (const auto &signal : kernel->signals)
    signal->waiters.clear();
  if (!error)
    return;
  // A run that failed leaves no state that a later one could trip over.
  const int64_t epoch = *std::max_element(kernel->epoch.begin(), kernel->epoch.end());
  kernel->epoch.assign(numRanks, epoch);
  kernel->entered = epoch * numRanks;
  for (const auto &signal : kernel->signals)
    for (SignalState::PerRank &cells : signal->ranks)
      cells = {};
  for (auto &[position, scratch] : kernel->scratch)
    for (auto &object : scratch.copies)
      freeSymmetric(*object);
  kernel->scratch.clear();
}

// The interface.

struct Machine::Impl : MachineState {
  using MachineState::MachineState;
};

Machine::Machine(ir::Module &module, int ranks, const Schedule &schedule)
    : impl_(std::make_unique<Impl>(module, ranks, schedule)) {}
Machine::~Machine() = default;

void *Machine::symmAlloc(size_t bytes) {
  auto object = impl_->allocateSymmetric(bytes);
  if (!object)
    return nullptr;
  char *address = object->base[0];
  impl_->heap[address] = std::move(object);
  return address;
}

void Machine::symmFree(void *address) {
  const auto it = impl_->heap.find(static_cast<char *>(address));
  DTILE_CHECK(it != impl_->heap.end(), "symmFree of what symmAlloc did not give");
  impl_->freeSymmetric(*it->second);
  impl_->heap.erase(it);
}

void *Machine::symmAddress(void *address, int rank) {
  int home = 0;
  const SymmObject *object = impl_->findSymmetric(address, home);
  DTILE_CHECK(object, "symmAddress of memory that is not symmetric");
  return object->base[rank] + (static_cast<char *>(address) - object->base[home]);
}

uint64_t Machine::steps() const { return impl_->steps; }

void Machine::observe(Observer *observer) { impl_->observer = observer; }

std::unique_ptr<RunError> Machine::launch(const std::string &kernel,
                                          const std::vector<std::vector<Arg>> &args) {
  return impl_->run(kernel, args, 1);
}

std::unique_ptr<RunError> Machine::launchRepeat(const std::string &kernel,
                                                const std::vector<std::vector<Arg>> &args,
                                                int64_t count) {
  return impl_->run(kernel, args, count);
}

} // namespace dtile::interpret
