// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The proof of one kernel. Private to ir/protocol/prove.
#pragma once

#include "ir/analysis/kept_elements.h"
#include "ir/protocol/prove/body_order.h"
#include "ir/protocol/prove/model.h"
#include "ir/protocol/prove/prove_protocol.h"

#include <algorithm>

namespace dtile::protocol::prove {

/// What must be shown to exist: values of the unknowns under which everything holds.
struct Goal {
  std::vector<AtomId> unknowns;
  std::vector<std::pair<Polynomial, Polynomial>> equal;
  std::vector<Formula> formulas;
  /// Positions and the first position of what they lie in: where no equation gives an unknown, its
  /// block is tried that the position lies in.
  std::vector<std::pair<Polynomial, Polynomial>> members;
  /// What then also has to hold, where `given` may be used: that follows from the rest.
  std::vector<Formula> further;
  std::vector<Formula> given;
  /// Elements of inputs that it reads, and those that were read otherwise: where they are one
  /// element, they are one number.
  std::vector<Picked> reads, known;

  void addLess(const Polynomial &a, const Polynomial &b) {
    formulas.push_back(Formula::atLeastZero(b - a - Polynomial(1)));
  }
  void addLessEqual(const Polynomial &a, const Polynomial &b) {
    formulas.push_back(Formula::atLeastZero(b - a));
  }
  void addExists(const Instance &instance);
  void add(const Goal &other);

private:
  void addEquations(const Formula &guard);
};

/// Whether an unknown's value is read off an equation where there is one, though it be a residue of
/// another unknown, or off the block that a position lies in.
enum class Guesses : uint8_t { Late, Early };
/// Finds values for a goal's unknowns and puts them in place of these; what then must hold is left
/// in its formulas. Facts that it rests on, and that follow, are added.
void solve(Scene &scene, Facts &facts, Goal &goal, Guesses guesses);
/// Whether in each case of the facts one of the goals is reached.
[[nodiscard]] bool reachesOne(Scene &scene, Facts facts, std::vector<Goal> goals,
                              Guesses guesses = Guesses::Late);
/// The same where blocks that a goal speaks of have elements, and where they have none; false where
/// that is known.
[[nodiscard]] bool reachesOneByLength(Scene &scene, const Facts &facts,
                                      const std::vector<Goal> &goals);

/// A touch of memory that an op makes.
struct Access {
  enum class Kind : uint8_t { Read, Write, Atomic } kind = Kind::Read;
  Op *op = nullptr;
  Value *view = nullptr;
  Op *object = nullptr;
  bool isAsync = false;
  [[nodiscard]] Course course() const {
    const bool isSent = kind != Kind::Read && !op->is(OpKind::Get);
    return !isAsync ? Course::AtOnce : isSent ? Course::Sent : Course::Beside;
  }
};
[[nodiscard]] bool conflict(const Access &a, const Access &b);

/// A notify that comes after the start of a path, and what must hold for that.
struct Head {
  Instance notify;
  Goal goal;
};
/// A wait that comes before the end of a path.
struct Tail {
  Instance wait;
  Goal goal;
};

/// Which waits count: those of the same iteration, or those of earlier iterations as well; or also
/// what a notify of a later iteration tells of this one.
enum class Reach : uint8_t { Near, Far, Farther };

/// Signals on one path.
constexpr unsigned kMostSignals = 3;

/// A part of a budget for one thing to be shown, so that the others keep theirs.
class BudgetShare {
public:
  explicit BudgetShare(ir::RefutationBudget &budget)
      : budget_(budget), whole_(budget.left), share_(std::min(whole_, kShare)) {
    budget_.left = share_;
  }
  ~BudgetShare() { budget_.left = whole_ - (share_ - budget_.left); }
  BudgetShare(const BudgetShare &) = delete;
  BudgetShare &operator=(const BudgetShare &) = delete;

private:
  static constexpr uint64_t kShare = 150'000;
  ir::RefutationBudget &budget_;
  uint64_t whole_;
  uint64_t share_;
};

/// The part of an object at a rank's own number along a dimension, or at its place on an axis of
/// the kernel.
struct OwnPart {
  unsigned dim = 0;
  std::optional<size_t> axis;
};

/// Proves one kernel.
class Prover {
public:
  Prover(Op &kernel, const ProofOptions &options);
  Proof run();
  /// Whether the ranks' own waits keep launches apart, and which sizes that needs. `inTurn`: as in
  /// Proof. With `needsNone` all that is asked is whether it needs none.
  DriftBound boundDrift(llvm::ArrayRef<Op *> inTurn, bool needsNone = false);
  /// Whether each element of a scratch object that a launch reads was written by it before, as far
  /// as it lies in a rank's own part.
  bool isOwnPartWritten(const Op &object, const OwnPart &part);

private:
  void collect();
  void fail(const Op *op, std::string text, const Op *other = nullptr,
            Unproved::Kind kind = Unproved::Kind::Course);
  [[nodiscard]] bool isOutOfTime() const { return budget_.isSpent() || isAnswered_; }

  // prove_protocol.cpp
  void proveRanges();
  void proveTraps(Op &op);
  void provePositive(Op &op);

  // paths.cpp
  std::vector<Head> headsOf(Scene &scene, const Access &access, const Instance &at,
                            const Region &region, Reach reach = Reach::Near);
  std::vector<Head> headsOfBegin(Scene &scene, const Polynomial &rank);
  std::vector<Tail> tailsOf(Scene &scene, Instance &at, Reach reach);
  std::vector<Tail> tailsOfEnd(Scene &scene, const Polynomial &rank);
  std::vector<Goal> join(Scene &scene, const Facts &facts, std::vector<Head> &heads,
                         std::vector<Tail> &tails, Reach reach, unsigned hops);
  void extend(Scene &scene, const Facts &facts, Head &head, std::vector<Tail> &tails, Reach reach,
              unsigned hops, std::vector<Goal> &goals);
  bool meet(Scene &scene, const Facts &facts, Goal &goal, Instance &notify, Instance &wait);
  [[nodiscard]] bool isAfterSpace(const Op *earlier, const Op *later) const;
  /// Whether there is a path: short ones first.
  bool hasPath(Scene &scene, const Facts &facts, std::vector<Head> heads, std::vector<Tail> tails);

  // races.cpp
  void proveRaces();
  /// What a proof takes into account: positions; or also what inputs hold, as far as assertions
  /// say, and that nobody writes them; or positions in each case that conditions leave, by itself.
  /// That takes longer.
  enum class Uses : uint8_t { Positions, Inputs, Cases };
  bool provePair(const Access &a, const Access &b);
  bool provePair(const Access &a, const Access &b, Uses uses);
  struct Pair;
  bool provePair(Pair &pair, Facts facts, Uses uses);
  bool proveUnmet(Pair &pair, Facts facts, Uses uses);
  bool proveCase(Pair &pair, const Facts &known);
  bool proveOneBody(Pair &pair, Facts facts);
  std::vector<Tail> tailsOfWritten(Scene &scene, const Facts &facts, const Access &access,
                                   Instance &at, const Region &region,
                                   llvm::ArrayRef<Polynomial> point);
  static bool isOneValue(Pair &pair, const Facts &facts, Value *value);
  static void addEqualInputs(Pair &pair, Facts &facts);
  /// How many iterations or bodies apart; nothing is farther than any.
  using Distance = std::optional<unsigned>;
  bool isSplit(Pair &pair, Facts &facts, AtomId x, AtomId y, Distance isOver, Distance isOverBack);
  bool isSplitByRank(Pair &pair, Facts &facts);
  void proveCallers();
  bool isOfTheEpochsPart(const Access &access);
  void proveContents();
  static std::optional<Formula> isCopied(Scene &scene, Op &copy, Instance &at, const Facts &facts,
                                         llvm::ArrayRef<Polynomial> point);
  bool isWritten(const Access &read, std::optional<OwnPart> part = std::nullopt);
  bool isWritten(const Access &read, const ir::KeptBy *kept, std::optional<OwnPart> part);
  bool isWritten(const Access &read, const ir::KeptBy *kept, std::optional<OwnPart> part,
                 Uses uses);
  bool isWritten(Scene &scene, const Access &read, Instance &at, const Region &region,
                 llvm::ArrayRef<Polynomial> point, Facts facts);
  static void addMatters(Scene &scene, const Access &read, const ir::KeptBy *kept, Instance &at,
                         Facts &facts, llvm::ArrayRef<Polynomial> point);
  void addOrders(Scene &scene, const Facts &facts, const Access &write, Instance &writer,
                 const Region &region, Instance &read, const Goal &covers,
                 std::vector<Goal> &goals);

  /// What must hold where a write covers the point; nothing where that cannot be said.
  std::optional<Goal> covers(Scene &scene, const Facts &facts, const Access &write,
                             Instance &writer, const Region &to, const Region &region,
                             llvm::ArrayRef<Polynomial> point);
  // each_once.cpp
  void addNumbered(Scene &scene, Facts &facts, const Access &write, Instance &read,
                   const Region &region, llvm::ArrayRef<Polynomial> point,
                   std::vector<Goal> &goals);

  // counters.cpp
  void addCounted(Scene &scene, Facts &facts, const Access &write, Instance &read,
                  const Region &region, llvm::ArrayRef<Polynomial> point, std::vector<Goal> &goals);

  // single_ops.cpp
  void proveSingleOps();
  /// arrivals.cpp
  void proveArrivals();
  [[nodiscard]] bool areApartIn(Op &loop, const Access &first, const Access &second);
  bool copiesApart(const Access &read, const Access &write);

  // waits.cpp
  void proveWaits();

  // barriers.cpp
  /// A loop around two ops in which ranks meet.
  struct Rounds {
    Op *loop;
    /// All ranks meet between the first and the second of one round.
    bool isSameMet;
    /// By so many rounds the second is later, where they meet between both in any case.
    unsigned untilMet;
  };
  [[nodiscard]] bool areBarriersMet() const;
  /// Whether all ranks have met in the launch before the op runs, or meet after that.
  [[nodiscard]] bool meetsBefore(Op *op) const;
  [[nodiscard]] bool meetsAfter(Op *op) const;
  /// Whether all ranks meet between any executions of the two.
  [[nodiscard]] bool isMetBetween(Op *first, Op *second) const;
  [[nodiscard]] std::vector<Rounds> roundsOf(Op *first, Op *second) const;

  // drift.cpp
  bool hearsFromAll(llvm::ArrayRef<Value *> notZero);
  bool hearsFromUsers(const Op &object, bool countsAll, llvm::ArrayRef<Value *> notZero);
  bool areSettledBy(Scene &scene, const Op &object, bool countsAll,
                    llvm::ArrayRef<Polynomial> made);
  bool hears(Scene &scene, Facts facts, const Polynomial &self, const Polynomial &peer,
             llvm::ArrayRef<Value *> notZero);

  Op &kernel_;
  Proof proof_;
  std::vector<Access> accesses_;
  std::vector<Op *> notifies_, waits_, barriers_, spaces_;
  /// Whether all ranks come to all barriers in one order.
  bool hasMetBarriers_ = false;
  /// Whether something depends on single elements of inputs.
  bool hasScalarInputs_ = false;
  ir::RefutationBudget budget_;
  uint64_t work_ = 0;
  bool isOrderAsked_ = false;
  /// It is not shown that launches are in order, and more is not asked.
  bool isAnswered_ = false;
};

/// The cells of a notify, put_signal or wait, and the signal that they are of.
[[nodiscard]] Value *cellsOf(Op *op);
[[nodiscard]] Op *signalOf(Op *op);

} // namespace dtile::protocol::prove
