// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Private to ir/simulate: the simulation of a launch on some of its ranks. engine_start.cpp sets it
// up and computes what bodies do, run.cpp runs it.
#pragma once

#include "ir/simulate/links.h"
#include "ir/simulate/run.h"

#include "llvm/ADT/DenseMap.h"

#include <algorithm>
#include <queue>

namespace dtile::simulate {

class Run {
public:
  Run(const Plan &plan, const Symmetry &symmetry, Likeness likeness, const Options &options)
      : plan_(plan), symmetry_(symmetry), likeness_(likeness), count_(symmetry.count()),
        options_(options), links_(plan.cluster, size_t(symmetry.count()), options.isFree) {}
  std::variant<Outcome, Failure> run();

private:
  // ---- Setting up ----
  bool start();
  bool makeSignals();
  bool compareRanks();
  bool isLike(int64_t rank, const Symmetry::Axis &axis, int64_t places);
  bool isSame(int64_t rank, const PlannedSpace &space, const std::vector<Step> &steps, Word *here,
              Word *there, const Symmetry::Axis &axis, int64_t places);
  void compareWaits(int64_t rank, const Step &step, const Word *here, const Word *there,
                    const Symmetry::Axis &axis, int64_t places);
  bool countNotifies();
  bool countCells(Program &program, const Step &step, int64_t to, const Word *words);
  bool areToldAlike(Program &program, const Step &step, int64_t to, int64_t teller,
                    llvm::ArrayRef<int64_t> cells);
  bool countSteps(Program &program, const std::vector<Step> &steps);

  // ---- Bodies ----
  [[nodiscard]] int64_t rankOf(const Program &program) const {
    return symmetry_.rankOf(program.rank);
  }
  void place(Program &program, int64_t body);
  static void advanceLoop(const PlannedSpace &space, Program &program, const Frame &frame);
  const Word *wordsAt(Program &program, int64_t rank);
  const Word *wordsOfSource(Program &program, const Word *words, int64_t peer);
  template <typename F>
  bool eachCell(const Step &step, const Word *words, F &&visit, int64_t from = 0);

  // ---- Running ----
  void execute(int32_t index);
  void land(int32_t number);
  void leave(Program &program, const Step &step, int64_t peer, double now);
  bool waitForFlights(Program &program);
  void told(int64_t to, int32_t signal, int64_t number, double ready);
  bool nextBody(Program &program, int32_t index);
  enum class Next : uint8_t { Go, Stop };
  Next step(Program &program, int32_t index, const Step &step);
  Next wait(Program &program, int32_t index, const Step &step);
  Next barrier(Program &program, int32_t index);
  bool message(Program &program, const Step &step);
  void endBody(Program &program);
  void endPart(int32_t rank, int32_t space, double end);
  void push(int32_t index, double time, int32_t flight = -1) {
    queue_.push(
        {time, programs_[size_t(index)].number, order_++, flight < 0 ? index : -1 - flight});
  }
  void push(int32_t index) { push(index, programs_[size_t(index)].time); }
  void wakeCell(int64_t key, double ready);
  void fail(SourceLoc loc, std::string why) {
    if (!failure_)
      failure_ = Failure{loc, std::move(why)};
  }
  [[nodiscard]] Failure standstill() const;
  Outcome outcome();

  [[nodiscard]] RankSpace &spaceOf(const Program &p) {
    return rankSpaces_[size_t(p.rank)][size_t(p.space)];
  }
  [[nodiscard]] int64_t keyOf(int32_t rank, int32_t signal, int64_t cell) const {
    return (int64_t(rank) * int64_t(signalCells_.size() + 1) + signal) * mostCells_ + cell;
  }
  void record(Event::Kind kind, const Program &p, int64_t peer, double start, double end,
              double bytes, const Step &step, const Word *words);

  /// A program that goes on, or (below zero) a flight that begins.
  struct Due {
    double time;
    /// What comes at the same time goes by numbers of programs, so that it goes the same way where
    /// one rank stands for several.
    int32_t number;
    int64_t order;
    int32_t program;
    bool operator>(const Due &other) const {
      return std::tuple(time, number, order) > std::tuple(other.time, other.number, other.order);
    }
  };
  /// Of a cell that a compared wait reads: among which cells that of the corresponding wait of
  /// another rank is, so many places on. First and count in each dimension of the signal.
  struct ComparedCell {
    const Symmetry::Axis *axis;
    int64_t places;
    llvm::SmallVector<std::pair<int64_t, int64_t>, 3> among;
  };

  const Plan &plan_;
  const Symmetry &symmetry_;
  const Likeness likeness_;
  /// How many ranks are simulated.
  const int64_t count_;
  const Options &options_;
  Links links_;
  std::vector<std::vector<RankSpace>> rankSpaces_;
  std::vector<RankSignals> signals_;
  /// Sizes of each signal, and the number of its cells.
  std::vector<llvm::SmallVector<int64_t, 3>> signalSizes_;
  std::vector<int64_t> signalCells_;
  int64_t mostCells_ = 1;
  std::vector<Program> programs_;
  llvm::DenseMap<int64_t, std::vector<int32_t>> waiters_;
  llvm::DenseMap<int64_t, llvm::SmallVector<ComparedCell, 1>> compared_;
  std::vector<Flight> flights_;
  std::vector<int32_t> landedFlights_;
  std::vector<int32_t> atBarrier_;
  double barrierTime_ = 0;
  std::priority_queue<Due, std::vector<Due>, std::greater<>> queue_;
  int64_t order_ = 0;
  std::vector<SpaceTimes> times_;
  double end_ = 0;
  int64_t messages_ = 0;
  std::vector<Word> scratch_;
  std::optional<Failure> failure_;
};

/// Visits the cells of a step, row by row, without the first `from`, until `visit` says no.
template <typename F>
bool Run::eachCell(const Step &step, const Word *words, F &&visit, int64_t from) {
  const auto &sizes = signalSizes_[size_t(step.signal)];
  llvm::SmallVector<int64_t, 3> at(sizes.size(), 0);
  int64_t all = 1;
  for (const auto [d, range] : llvm::enumerate(step.cells)) {
    const int64_t first = words[range.first].integer, count = words[range.count].integer;
    if (count > 0 && (first < 0 || first + count > sizes[d])) {
      fail(step.loc, "cell " + std::to_string(first < 0 ? first : first + count - 1) +
                         " is outside of a dimension of " + std::to_string(sizes[d]));
      return false;
    }
    all *= std::max<int64_t>(count, 0);
  }
  for (size_t d = at.size(), rest = size_t(from); d-- > 0 && rest > 0;) {
    const auto count = size_t(std::max<int64_t>(words[step.cells[d].count].integer, 1));
    at[d] = int64_t(rest % count);
    rest /= count;
  }
  for (int64_t n = from; n < all; ++n) {
    int64_t cell = 0;
    for (const auto [d, range] : llvm::enumerate(step.cells))
      cell = cell * sizes[d] + words[range.first].integer + at[d];
    if (!visit(cell))
      return true;
    for (size_t d = at.size(); d-- > 0;) {
      if (++at[d] < words[step.cells[d].count].integer)
        break;
      at[d] = 0;
    }
  }
  return true;
}

} // namespace dtile::simulate
