// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Watches a run and finds what its order does not forbid: races, transfers that outlive a kernel,
// reads of what nobody wrote.
#pragma once

#include "ir/analysis/kept_elements.h"
#include "ir/interpret/observer.h"
#include "ir/protocol/check/shadow_memory.h"
#include "ir/protocol/check/value_order.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SmallPtrSet.h"

#include <memory>
#include <string>
#include <tuple>
#include <vector>

namespace dtile::protocol {

/// A body as messages name it.
struct BodyName {
  int rank = 0;
  int64_t launch = 0;
  const ir::Op *space = nullptr;
  llvm::SmallVector<int64_t, 4> positions;
};

/// One side of a finding.
struct Side {
  const ir::Op *op = nullptr;
  BodyName body;
  interpret::AccessKind kind = interpret::AccessKind::Read;
};

/// A further place that explains a finding.
struct FindingNote {
  const ir::Op *op = nullptr;
  std::string text;
  /// What would be enough: `access` is `after` the wait `op`, the notify `op` is `after` it, or the
  /// transfer `op` has no part left out.
  enum class Remedy : uint8_t { None, AccessAfter, NotifyAfter, WriteAll } remedy = Remedy::None;
  const ir::Op *access = nullptr;
};

/// One thing that can go wrong.
struct Finding {
  enum class Kind : uint8_t {
    /// Two accesses, one of which writes, and no order between them.
    Race,
    /// A race in which the write comes after the read, but does not wait for it.
    Overwrite,
    /// A rank's memory is touched by a peer that nothing lets finish before the rank's kernel ends.
    OutlivesKernel,
    /// A peer reads a rank's memory before anything says that the rank has begun, so that its
    /// caller may still write it.
    NotReady,
    /// A peer writes memory whose last contents the rank's caller may still use.
    CallerUses,
    /// A read of the kernel's own memory that no write of this launch reaches.
    NeverWritten,
    /// A transfer to or from a position that the object does not have.
    Outside,
    /// One operation meets itself: what it reads or writes, it also writes, in no order.
    MeetsItself,
    /// Bodies wait for what cannot come.
    Deadlock,
  } kind = Kind::Race;
  Side first;
  Side second;
  /// The parameter whose memory it is; null for a deadlock.
  const ir::Op *object = nullptr;
  /// The region in question; of a deadlock the cell, or nothing at a barrier.
  std::string region;
  /// Rank whose memory it is.
  int rank = 0;
  /// Both sides are of one body.
  bool isOneBody = false;
  /// Of a deadlock: the counts of the cell.
  interpret::Observer::Shortage shortage;
  /// Of a deadlock at a barrier: who has not come.
  std::optional<interpret::Observer::Absence> absence;
  std::vector<FindingNote> notes;
};

/// A part of an output that no launch has written.
struct LeftOut {
  const ir::Op *param = nullptr;
  int rank = 0;
  std::string region;
};

/// A cell that says that something has come from a peer, and that no wait of the run covers.
struct Unheard {
  const ir::Op *notify = nullptr;
  int rank = 0;
  std::string cell;
  std::string by;
};

/// What a run may take.
struct Budget {
  size_t bytes = size_t(1) << 28;
  /// Events, cells that are touched, and an eighth of the entries of clocks that are merged.
  uint64_t work = UINT64_MAX;
};

/// Watches one machine for the launches of one call.
class RaceDetector : public interpret::Observer {
public:
  /// Whether to remember what findings are explained by.
  enum class Explain : uint8_t { No, Yes };
  /// `earlier` has watched the same run before, and knows what is still to come; null where none
  /// has.
  explicit RaceDetector(int ranks, Explain explain = Explain::Yes,
                        const RaceDetector *earlier = nullptr, Budget budget = {});
  ~RaceDetector() override;

  /// What becomes true when the budget has been used up, for Schedule::stop.
  [[nodiscard]] const bool &isOver() const { return isOver_; }
  /// It was memory that there was too little of.
  [[nodiscard]] bool isFull() const { return isFull_; }
  /// What it has taken, as in Budget::work.
  [[nodiscard]] uint64_t work() const {
    // Entries of clocks lie side by side: eight take as long as an event.
    constexpr uint64_t kEntriesOfOneEvent = 8;
    return events_ + cellsTouched_ + clocks_.work() / kEntriesOfOneEvent;
  }
  /// After the run: what is found at its end. `isComplete`: no launch has failed.
  void finish(bool isComplete);
  [[nodiscard]] const std::vector<Finding> &findings() const { return findings_; }
  /// A wait asked for less than all notifies, of which it was not known which come first: another
  /// detector that gets this one as `earlier` knows.
  [[nodiscard]] bool needsAnother() const { return needsAnother_; }
  /// The bodies that a deadlock has left, each as a finding.
  [[nodiscard]] const std::vector<Finding> &stuckBodies() const { return stuck_; }
  /// After a complete run: of each `out` object the first part that nobody wrote, if any.
  [[nodiscard]] std::vector<LeftOut> leftOut();
  /// After a complete run: of each notify the first cell that no wait covers, if any, in the order
  /// of the text.
  [[nodiscard]] const std::vector<Unheard> &unheard() const { return unheard_; }

  void bodyStarts(const interpret::BodyId &id) override;
  void yields(const interpret::BodyId &id, llvm::ArrayRef<uint64_t> operations) override;
  void bodyEnds(const interpret::BodyId &id) override;
  void binds(const interpret::BodyId &id, const ir::Op &param,
             const interpret::ViewVal &view) override;
  void access(const interpret::BodyId &id, const ir::Op &op, interpret::AccessKind kind,
              const interpret::ViewVal &view, llvm::ArrayRef<uint64_t> after,
              uint64_t number) override;
  void meetsItself(const interpret::BodyId &id, const ir::Op &op,
                   const interpret::ViewVal &view) override;
  void issues(const interpret::BodyId &id, const ir::Op &op, uint64_t number,
              llvm::ArrayRef<uint64_t> after) override;
  void notifies(const interpret::BodyId &id, const ir::Op &op, const interpret::SignalVal &cells,
                llvm::ArrayRef<uint64_t> after, uint64_t number) override;
  void waits(const interpret::BodyId &id, const ir::Op &op, const interpret::SignalVal &cells,
             uint64_t number, std::optional<uint64_t> count) override;
  void awaits(const interpret::BodyId &id, const ir::Op &op,
              llvm::ArrayRef<uint64_t> operations) override;
  void quiet(const interpret::BodyId &id, const ir::Op &op) override;
  void fence(const interpret::BodyId &id, const ir::Op &op) override;
  void memoryFence(const interpret::BodyId &id, const ir::Op &op) override;
  void arrives(const interpret::BodyId &id, const ir::Op &op, uint64_t barrier) override;
  void leaves(const interpret::BodyId &id, const ir::Op &op, uint64_t barrier) override;
  void stuck(const interpret::BodyId &id, const ir::Op &op, const interpret::SignalVal &cells,
             const Shortage &shortage) override;
  void stuckAtBarrier(const interpret::BodyId &id, const ir::Op &op,
                      const Absence &absence) override;

private:
  /// An asynchronous operation or a satisfied wait of a body, by its number.
  struct Token {
    const ir::Op *op = nullptr;
    /// What an operation starts with; what a wait has acquired.
    ClockRef clock;
    /// What is known when the operation is complete; made when first needed.
    ClockRef complete;
    ThreadId thread = 0;
    /// The event of the body at which it was issued.
    uint32_t issued = 0;
    /// Fences before it, and the rank whose memory it writes once that is known.
    uint32_t fence = 0;
    int32_t toRank = -1;
    bool isTransfer = false;
    /// It writes an element at least.
    bool isSomething = false;
    /// What a copy reads.
    std::unique_ptr<interpret::ViewVal> source;
    /// put_signal: what its notify passes on of the body.
    ClockRef release;
  };
  /// A load of what was not all written when it was done: which elements of it matter is seen where
  /// they are kept.
  struct OpenRead {
    Record record;
    interpret::ViewVal view;
    ShadowObject *object = nullptr;
    /// What has still to keep elements of it.
    llvm::SmallVector<const ir::KeptBy *, 2> keptBy;
  };
  struct Body {
    uint32_t name = 0;
    ThreadId thread = 0;
    int rank = 0;
    int32_t launch = 0;
    const ir::Op *space = nullptr;
    uint32_t time = 1;
    uint32_t fences = 0;
    /// What the last memory_fence has released, which atomics after it pass on, and what its
    /// atomics received from others, which the next one acquires; null before the first.
    ClockRef released;
    ClockRef met;
    /// Peers at which something was written that no notify to them has announced.
    llvm::SmallDenseSet<int32_t, 2> wroteAt;
    /// What everything that follows comes after.
    ClockRef order;
    /// What all that the body has done at once came after: a notify passes it on.
    ClockRef release;
    std::vector<Token> tokens;
    /// What the tokens stand for that the bodies before it have yielded; null where there are none.
    ClockRef yielded;
    /// What its own `yield` stands for; null before it.
    ClockRef given;
    /// What the last execution of a read, and all of them, came after, where that is more than
    /// `order`.
    struct Read {
      ClockRef last;
      ClockRef all;
    };
    llvm::DenseMap<const ir::Op *, Read> reads;
    std::vector<OpenRead> openReads;
    // The last answer of clockOf.
    const ir::Op *cachedOp = nullptr;
    ClockRef cachedOrder;
    llvm::SmallVector<uint64_t, 4> cachedAfter;
    ClockRef cachedClock;
  };
  /// A peer's access that must be over when a launch ends on the rank.
  struct Pending {
    Record record;
    ShadowObject *object;
    Box box;
  };
  /// What the bodies of a space knew when they had ended, and when what they sent was done.
  struct SpaceEnd {
    ClockRef ended;
    ClockRef sent;
  };
  struct RankState {
    int64_t firstLaunch = 0;
    /// The launch in progress, counted from the first one watched; -1 before it.
    int32_t launch = -1;
    ThreadId caller = 0;
    /// What bodies start with, and what those that have ended add up to.
    ClockRef start;
    ClockRef end;
    /// What was known when each launch had ended.
    std::vector<ClockRef> ends;
    std::vector<Pending> pending;
    /// What the ended bodies of a space add up to.
    llvm::DenseMap<const ir::Op *, SpaceEnd> spaces;
  };
  /// A read of a box that was not all written when it was done.
  struct UnwrittenRead {
    Record record;
    Box box;
    ShadowObject *object;
  };
  struct SentNotify {
    const ir::Op *op;
    ClockRef clock;
    const interpret::SignalState *signal;
    int32_t rank;
    int64_t cell;
    uint32_t body;
    int32_t launch;
  };
  struct BodyWait {
    const ir::Op *op = nullptr;
    uint32_t number = 0;
    ClockRef clock;
    /// A cell that nobody had notified, if any.
    const interpret::SignalState *nothing = nullptr;
    int64_t nothingCell = 0;
  };

  /// The notifies of one launch to a cell, as they came.
  struct Arrival {
    ClockRef clock;
    ThreadId thread;
    uint32_t time;
  };
  /// What the notifies of a cell have passed on, and the first that tells of something from a peer,
  /// if any.
  struct NotifiedCell {
    ClockRef known;
    const ir::Op *first = nullptr;
    uint32_t body = 0;
    bool isWaitedFor = false;
  };
  using ArrivalKey = std::tuple<std::string, int32_t, int32_t>;

  Body &body(const interpret::BodyId &id);
  /// Looks now and then whether the budget has been used up.
  void spend();
  void keepArrival(const Body &body, const interpret::SignalVal &cells, int64_t cell,
                   const Arrival &arrival);
  void joinCertain(const Body &body, ClockRef &clock, const interpret::SignalVal &cells,
                   int64_t cell, uint64_t count);
  void startLaunch(RankState &rank, int32_t launch);
  void endLaunch(RankState &rank, int r);
  void learnSpaces(const ir::Op &kernel);
  ClockRef tokenClock(Body &body, uint64_t number) const;
  /// What an operation of the body comes after, given its tokens.
  ClockRef clockOf(Body &body, const ir::Op &op, llvm::ArrayRef<uint64_t> after);
  void joinFenced(Body &body, ClockRef &clock, uint32_t fence, int32_t toRank);
  ShadowObject *objectAt(const interpret::ViewVal &view);
  bool isSameBody(const Record &record, const Record &access, const Token *token) const;
  /// What an atomic passes on to the next one at its element, and hears from those before.
  void meet(Body &body, ShadowObject &object, const interpret::ViewVal &element);
  void touch(ShadowObject &object, const Box &box, Cell &cell, Record &access, const Token *token);
  void enter(Cell &cell, const Record &access);
  void addUnwritten(const Record &access, const interpret::ViewVal &view, ShadowObject &object);
  void readUnwritten(Body &body, const Record &access, const interpret::ViewVal &view,
                     ShadowObject &object);
  void closeReads(Body &body, const ir::Op &op, const interpret::ViewVal &view);
  void checkCaller(ShadowObject &object, const Box &box, const Cell &cell, const Record &access);
  void checkEnd(ShadowObject &object, const Box &box, const Record &access);
  void checkUnwritten(ShadowObject *object);

  // findings.cpp
  void report(Finding::Kind kind, const Record &first, const Record &second,
              const ShadowObject &object, const Box &box);
  [[nodiscard]] Finding makeFinding(Finding::Kind kind, const Record &first, const Record &second,
                                    const ShadowObject &object, const Box &box) const;
  void reportOutside(const Record &access, const interpret::ViewVal &view);
  void replace(size_t index, Finding finding, const Record &first, const Record &second);
  void explainRaces();
  [[nodiscard]] bool announces(Body &body, const ir::Op &op, int32_t rank,
                               llvm::ArrayRef<uint64_t> after);
  void findUnheard();
  bool explainByWait(Finding &finding, const Record &early, const Record &late);
  bool explainByNotify(Finding &finding, const Record &early, const Record &late);
  bool explainByOtherNotify(Finding &finding, const Record &early, const Record &late);
  void explainWriters(Finding &finding);
  void explain(Finding &finding, const Record &first, const Record &second);
  [[nodiscard]] Side sideOf(const Record &record) const;

  int ranks_;
  bool explains_;
  const RaceDetector *earlier_;
  bool needsAnother_ = false;
  Budget budget_;
  uint64_t events_ = 0;
  uint64_t cellsTouched_ = 0;
  bool isOver_ = false;
  bool isFull_ = false;
  ClockSet clocks_;
  ValueOrder values_;
  std::vector<RankState> rankStates_;
  llvm::DenseMap<uint64_t, std::unique_ptr<Body>> bodies_;
  std::vector<BodyName> names_;
  /// By the address of their first byte.
  std::map<const char *, std::unique_ptr<ShadowObject>> objects_;
  std::vector<UnwrittenRead> unwritten_;
  /// Of loads of which something was not written.
  llvm::DenseMap<const ir::Op *, std::optional<std::vector<ir::KeptBy>>> kept_;
  /// By signal, rank and cell.
  using CellPlace = std::pair<const interpret::SignalState *, std::pair<int32_t, int64_t>>;
  std::map<CellPlace, NotifiedCell> cells_;
  std::vector<Unheard> unheard_;
  /// By cell, rank and launch; kept for kernels in which a wait has a count.
  std::map<ArrivalKey, std::vector<Arrival>> arrivals_;
  bool hasCounts_ = false;
  std::map<std::pair<const ir::Op *, uint64_t>, ClockRef> barriers_;
  llvm::SmallPtrSet<const ir::Op *, 2> learnt_;
  /// The space whose ended bodies a space's bodies come after.
  llvm::DenseMap<const ir::Op *, const ir::Op *> spaceBefore_;
  llvm::SmallPtrSet<const ir::Op *, 4> isWaitedFor_;
  // For messages: what was sent, and for what the bodies have waited.
  std::vector<SentNotify> sent_;
  std::map<uint32_t, std::vector<BodyWait>> waits_;
  std::vector<Finding> stuck_;
  std::vector<Finding> findings_;
  /// The two accesses of each finding.
  std::vector<std::pair<Record, Record>> records_;
};

/// "rank 1, role `comm` (hop = 0, r = 128)"; the launch too where it matters.
[[nodiscard]] std::string bodyText(const BodyName &body, bool withLaunch);
/// What a transfer outside of an object does, in words.
[[nodiscard]] std::string outsideText(const Finding &finding);
/// What else of an operation that meets itself is at that place.
[[nodiscard]] llvm::StringRef otherHalf(const Finding &finding);
/// What an access does: "reads", "writes", "puts to".
[[nodiscard]] llvm::StringRef verbOf(const Side &side);
/// The finding in full sentences, places and all, for reports of runs.
[[nodiscard]] std::string findingText(const Finding &finding, const SourceManager *sources);

} // namespace dtile::protocol
