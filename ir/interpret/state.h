// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A machine while it runs: ranks, bodies, frames, signals. Private to ir/interpret.
#pragma once

#include "ir/interpret/code.h"
#include "ir/interpret/interpreter.h"
#include "ir/interpret/observer.h"

#include "llvm/ADT/DenseMap.h"

#include <deque>
#include <map>
#include <memory>
#include <random>

namespace dtile::interpret {

struct MachineState;
struct RankRun;
struct SpaceRun;

/// What an atomic of kind add, min or max on sums leaves.
[[nodiscard]] uint64_t combineTerms(TermTable &terms, const ir::Op &atomic, uint64_t old,
                                    uint64_t value);

/// Adds a dense box of sums to the positions of a view that exist.
void addTerms(TermTable &terms, const ViewVal &view, llvm::ArrayRef<int64_t> sizes,
              const void *from);

/// The slots of one activation of a region.
struct Frame {
  const Code *code = nullptr;
  uint32_t pc = 0;
  std::vector<Scalar> scalars;
  std::vector<TileRef> tiles;
  std::vector<ViewVal> views;
  std::vector<SignalVal> signals;
  std::vector<TokenVal> tokens;

  explicit Frame(const Code &code);
};

/// Frames that have ended, for the next activations of their regions: there are many short ones.
class FramePool {
public:
  [[nodiscard]] std::unique_ptr<Frame> take(const Code &code);
  void giveBack(std::unique_ptr<Frame> frame);

private:
  llvm::DenseMap<const Code *, std::vector<std::unique_ptr<Frame>>> ended_;
};

/// The state of a `while` that runs, kept now and then.
struct LoopWatch {
  uint64_t iterations = 0;
  std::vector<Scalar> kept;
};

/// The iterations of a loop over arrivals in a random schedule: which are left, in an order by
/// chance, of which the first is taken whose cell is complete.
struct ArrivalOrder {
  std::deque<int64_t> left;
  /// Where an iteration starts, and the slot of its position.
  uint32_t start = 0;
  uint32_t position = 0;
  /// How many were looked at in vain since something was notified.
  size_t tries = 0;
};

/// An asynchronous operation, or a satisfied wait, of one body. Its number is its place in the list
/// of all that the body issued.
struct AsyncOp {
  enum class Kind : uint8_t { Put, Get, ReduceAdd, Acquire } kind = Kind::Acquire;
  const ir::Op *op = nullptr;
  bool hasLanded = false;
  /// Copies elements; see Schedule::controlOnly.
  bool movesData = true;
  /// Counts the fences before it.
  uint32_t fence = 0;
  /// Rank whose memory it is sent to, for fences; -1 for a get.
  int32_t toRank = -1;
  /// The source: a view, or the elements of a tile or scalar.
  std::unique_ptr<ViewVal> source;
  TileRef values;
  std::vector<int64_t> valueSizes;
  std::unique_ptr<ViewVal> destination;
  /// reduce_add.scatter: where elements of `values` go, and at which byte of them they are.
  struct Element {
    char *place = nullptr;
    int64_t byte = 0;
  };
  std::unique_ptr<std::vector<Element>> elements;
  /// put_signal.
  std::unique_ptr<SignalVal> notifies;
};

/// What one body has issued, by number from 1, without the oldest that have landed.
class AsyncOps {
public:
  /// The number of the next one.
  [[nodiscard]] uint64_t next() const { return first_ + ops_.size(); }
  AsyncOp &add(AsyncOp op) {
    ops_.push_back(std::move(op));
    return ops_.back();
  }
  /// Null for one that was forgotten.
  [[nodiscard]] AsyncOp *find(uint64_t number) {
    return number < oldest_ ? nullptr : &ops_[number - first_];
  }
  /// Those that were not forgotten, oldest first.
  [[nodiscard]] llvm::ArrayRef<AsyncOp> all() const {
    return llvm::ArrayRef(ops_).drop_front(oldest_ - first_);
  }
  /// The number of the first of them.
  [[nodiscard]] uint64_t oldest() const { return oldest_; }
  /// Forgets the oldest ones that have landed.
  void forgetLanded() {
    while (oldest_ < next() && ops_[oldest_ - first_].hasLanded)
      ++oldest_;
    // Their places are given up when they are half of all, so that all of it stays linear.
    const size_t forgotten = oldest_ - first_;
    if (2 * forgotten < ops_.size())
      return;
    ops_.erase(ops_.begin(), ops_.begin() + ptrdiff_t(forgotten));
    first_ = oldest_;
  }

private:
  std::vector<AsyncOp> ops_;
  /// The number of the first place.
  uint64_t first_ = 1;
  uint64_t oldest_ = 1;
};

/// A store that only its own body can see yet.
struct HeldStore {
  ViewVal view;
  TileRef tile;
  Scalar scalar = 0;
  llvm::SmallVector<int64_t, 4> sizes;
};

/// One body of a tile space, or one rank's prologue, while it runs.
class Body {
public:
  Body(MachineState &machine, RankRun &rank, SpaceRun *space, const Code &code);
  ~Body();
  Body(const Body &) = delete;
  Body &operator=(const Body &) = delete;

  MachineState &machine;
  RankRun &rank;
  /// Null for a prologue.
  SpaceRun *space;
  /// Unique in the machine, from 1.
  uint64_t id = 0;
  /// Number in the space's order.
  int64_t linear = 0;
  /// Positions of the space's dimensions.
  llvm::SmallVector<int64_t, 4> positions;

  /// The innermost activation, which runs.
  Frame *frame = nullptr;
  std::vector<std::unique_ptr<Frame>> frames;

  AsyncOps async;
  uint32_t fences = 0;
  /// Oldest first.
  std::vector<HeldStore> held;
  /// The scalar that the region yielded at its end.
  Scalar result = 0;
  /// Of loops whose end is their own affair (runWatchNext).
  llvm::DenseMap<const ir::Op *, LoopWatch> watches;
  /// Of loops over arrivals, in random schedules.
  llvm::DenseMap<const ir::Op *, ArrivalOrder> arrivals;
  /// Transfers that the schedule holds back, and that have not landed.
  size_t heldBack = 0;

  /// What a blocked body waits for.
  enum class Waiting : uint8_t { None, Signal, Barrier } waiting = Waiting::None;
  const Instr *waitInstr = nullptr;
  SignalState *waitSignal = nullptr;
  int64_t waitCell = 0;
  uint64_t waitTarget = 0;
  uint64_t barrierNumber = 0;
  /// Random schedules: the switch before the current instruction has been offered.
  bool hasSwitched = false;

  /// Runs until the body blocks, fails, ends, or a random schedule switches (Next).
  Step run();

  Scalar &scalar(Operand operand) { return frame->scalars[operand.slot]; }
  int64_t index(Operand operand) const {
    return static_cast<int64_t>(frame->scalars[operand.slot]);
  }
  TileRef &tile(Operand operand) { return frame->tiles[operand.slot]; }
  /// The tile, taken out of its slot where this is its last use.
  TileRef take(Operand operand) {
    TileRef &tile = frame->tiles[operand.slot];
    return operand.dies ? std::move(tile) : tile;
  }
  ViewVal &view(Operand operand) { return frame->views[operand.slot]; }
  SignalVal &signal(Operand operand) { return frame->signals[operand.slot]; }
  TokenVal &token(Operand operand) { return frame->tokens[operand.slot]; }

  /// The numbers that the operands from `instr.firstToken` on hold.
  [[nodiscard]] TokenVal tokensOf(const Instr &instr);
  /// Lands and completes what the trailing tokens name.
  void completeTokens(const Instr &instr);
  /// Lands all that was issued and has not landed.
  void landAll();
  /// Lands the oldest operation that has not, or with a random schedule any, but none of `but`;
  /// false when there is none.
  bool landOne(const ir::Op *but = nullptr);
  /// Writes what a store puts into a view, or holds it back as the schedule says.
  void store(HeldStore store);
  /// Lets others see all that the body has stored: a notify, and what else releases it.
  void publish();
  /// The same, where it has stored to what the view may touch.
  void publishFor(const ViewVal &view);
  /// Lands what fences put before operation `before`, or before a notify to `toRank`.
  void landFenced(int32_t toRank, uint32_t fence);
  /// Enters the list, landing at once where the schedule says so. Gives its number.
  uint64_t issue(AsyncOp op, llvm::ArrayRef<uint64_t> after);
  /// The number of a satisfied wait.
  uint64_t issueAcquire();

  /// For observers; positions live as long as the body.
  [[nodiscard]] BodyId observedId() const;
  /// "rank 1, kernel `k`, role `comm` (hop = 0, i = 3)".
  [[nodiscard]] std::string describe() const;

private:
  /// Whether a transfer of the body reads or writes there and has not landed.
  [[nodiscard]] bool isInFlight(const ViewVal &view) const;
  void land(uint64_t number);
};

/// A tile space of one launch on one rank.
struct SpaceRun {
  const SpaceCode *code = nullptr;
  llvm::SmallVector<int64_t, 4> first;
  llvm::SmallVector<int64_t, 4> end;
  llvm::SmallVector<int64_t, 4> step;
  llvm::SmallVector<int64_t, 4> blocks;
  /// What rotated dimensions are turned about.
  llvm::SmallVector<int64_t, 4> centers;
  int64_t total = 0;
  int64_t started = 0;
  int64_t ended = 0;
  /// Random schedules: what stands where a body number has been taken.
  llvm::DenseMap<int64_t, int64_t> shuffled;
  /// Schedule::programs for this space, and the bodies that their programs come to next.
  int64_t programs = 0;
  std::deque<int64_t> startable;
  [[nodiscard]] int64_t running() const { return started - ended; }
};

/// A signal parameter of a kernel: cells that live across launches.
struct SignalState {
  std::string name;
  /// Sizes in the current launch; cells are numbered row-major in them.
  std::vector<int64_t> sizes;
  struct PerRank {
    std::vector<uint64_t> value;
    /// What each cell had reached before this launch.
    std::vector<uint64_t> base;
    /// Derived notifies of this launch.
    std::vector<uint64_t> expected;
    /// The largest count that this launch's waits ask for.
    std::vector<uint64_t> asked;
  };
  std::vector<PerRank> ranks;
  bool hasCount = false;
  /// Bodies that wait, by rank and cell.
  std::map<std::pair<int32_t, int64_t>, std::vector<Body *>> waiters;

  /// "ready[0, 2]".
  [[nodiscard]] std::string cellText(int64_t cell) const;
};

/// The objects of a scratch parameter.
struct ScratchState {
  std::vector<std::unique_ptr<SymmObject>> copies;
  /// The last run that asked for it, and for how many bytes.
  uint64_t run = 0;
  size_t asked = 0;
};

/// What a kernel keeps between launches.
struct KernelState {
  const KernelCode *code = nullptr;
  /// Launches so far, on each rank.
  std::vector<int64_t> epoch;
  /// One a signal parameter of the code.
  std::vector<std::unique_ptr<SignalState>> signals;
  /// By parameter position.
  std::map<int64_t, ScratchState> scratch;
  /// Ranks that have reached the entry barrier, over all launches.
  int64_t entered = 0;
};

/// One rank in a run of launches.
struct RankRun {
  int rank = 0;
  int64_t launchesLeft = 0;
  const std::vector<Arg> *args = nullptr;
  std::unique_ptr<Body> prologue;
  std::vector<SpaceRun> spaces;
  /// Bodies may start: the prologue has run, and the ranks have met if they must.
  bool isOpen = false;
  /// The prologue of this launch has run.
  bool hasEntered = false;
  bool isDone = false;
  /// How often this rank has reached each barrier.
  llvm::DenseMap<const ir::Op *, uint64_t> barriers;
};

/// What implements the machine's interface.
struct MachineState {
  MachineState(ir::Module &module, int ranks, const Schedule &schedule);
  ~MachineState();

  ir::Module &module;
  int numRanks;
  Schedule schedule;
  CodeCache cache;
  TilePool tiles;
  FramePool frames;
  std::mt19937_64 random;
  Observer *observer = nullptr;

  // Symmetric memory, by address on each rank.
  std::map<const char *, SymmObject *> addresses;
  std::map<char *, std::unique_ptr<SymmObject>> heap;
  std::unique_ptr<SymmObject> allocateSymmetric(size_t bytes);
  void freeSymmetric(SymmObject &object);
  void releaseMemory(SymmObject &object) const;
  /// The object that holds an address, with the rank that it is on; null for other memory.
  const SymmObject *findSymmetric(const void *address, int &rank) const;

  std::map<std::string, KernelState> kernels;

  // The run in progress.
  KernelState *kernel = nullptr;
  std::vector<RankRun> ranks;
  std::map<uint64_t, std::unique_ptr<Body>> bodies;
  std::deque<Body *> ready;
  std::vector<Body *> atBarrier;
  /// Bodies that go on with whichever cell is complete first.
  std::vector<Body *> atArrivals;
  uint64_t nextBody = 1;
  uint64_t runNumber = 0;
  uint64_t steps = 0;
  size_t nextStart = 0;
  /// Operations of all bodies that have not landed.
  size_t unlanded = 0;
  /// Random schedules: a rank that runs little for now, or none.
  int slowRank = -1;
  /// Random schedules: the transfer of the text that lands as late as tokens allow, or null.
  const ir::Op *heldBack = nullptr;
  void chooseHeldBack(const KernelCode &code);
  std::unique_ptr<RunError> error;

  std::unique_ptr<RunError> run(const std::string &name, const std::vector<std::vector<Arg>> &args,
                                int64_t launches);

  // For handlers.
  /// Whether the next store is held back; see Schedule::landing.
  bool holdsStores();
  [[nodiscard]] bool isRandom() const { return schedule.seed != 0; }
  /// Whether the transfer that is being issued lands now; null for a store, which is seen now.
  [[nodiscard]] bool landsAtIssue(const ir::Op *transfer);
  /// Records the first error of a run.
  Step fail(RunError::Kind kind, std::string message);
  /// Records a failed run-time check of a body.
  Step trap(const Body &body, const ir::Op &op, const std::string &message);
  /// A loop that has come to where it was.
  Step endless(const Body &body, const ir::Op &op, uint64_t iterations);
  /// "file:3:5: ", or "" where the place is not known.
  [[nodiscard]] std::string place(const ir::Op &op) const;
  void notify(const SignalVal &cells);
  /// The address of this launch's copy of a scratch object; null after recording an error.
  SymmObject *scratchObject(Body &body, const ir::Op &param, size_t bytes);
  /// Makes a body runnable again.
  void wake(Body *body);
  /// Whether every rank has reached a barrier for the time of that number.
  [[nodiscard]] bool isBarrierOpen(const ir::Op &barrier, uint64_t number) const;
  /// Wakes the bodies whose barrier is open.
  void wakeBarrier();

private:
  bool checkArguments(const KernelCode &code, const std::vector<std::vector<Arg>> &args);
  /// What is wrong with a tensor argument, or nothing.
  std::string checkTensor(const ArgumentCode &argument, int rank, const TensorArg &tensor) const;
  void prepareKernel(const KernelCode &code);

  /// Runs the prologue of a rank's next launch, and derives its signals' counts.
  void beginLaunch(RankRun &rank);
  /// Runs a body that cannot wait; false after an error.
  bool runToEnd(Body &body);
  bool countSignals(RankRun &rank);
  bool mayOpen(const RankRun &rank) const;
  /// Opens a rank, and takes it to its next launch when all bodies of this one have ended.
  void advance(RankRun &first);
  void endLaunch(RankRun &rank);
  void checkSignalTotals();

  void runBodies();
  bool canStart(const RankRun &rank, const SpaceRun &space) const;
  /// Number of the space's next body: in schedule order, or random.
  int64_t nextLinear(SpaceRun &space);
  Body *startBody(RankRun &rank, SpaceRun &space);
  Body *startNext();
  Body *pickRandom();
  Body *pickNext();
  void runBody(Body &body);
  void endBody(Body &body);
  /// Lands one operation that its body has not asked for yet; false when there is none.
  bool landSomething();
  /// Random schedules: now and then one operation lands between two steps of bodies.
  void landNowAndThen();
  void reportDeadlock();
  void cleanUp();
};

/// Issues a transfer and gives its token. Its elements, views and values are there already.
Step issueSend(Body &body, const Instr &instr, AsyncOp op);

} // namespace dtile::interpret
