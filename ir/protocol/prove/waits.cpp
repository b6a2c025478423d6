// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Deadlock: a wait is for notifies; a notify comes when the waits before it in its body are over.
// Where the places of a kernel form no cycle so, no run can hang, whatever the sizes. Where they
// do, some number must get smaller along each step of the cycle: the iteration of a loop, the rank,
// or a number that a condition around a wait compares, as the distance from a root.
#include "ir/protocol/prove/prover.h"

#include "ir/analysis/loop_ends.h"
#include "ir/analysis/ordering.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SCCIterator.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SetVector.h"

#include <memory>
#include <numeric>

namespace dtile::protocol::prove {

namespace {

/// That a wait may need another one to be over first, by a notify.
struct Need {
  Op *wait = nullptr;
  Op *notify = nullptr;
  Op *before = nullptr;
  /// `before` is in the notify's body; else in another body of that rank.
  bool isOneBody = true;
};

/// A number of an execution that may get smaller from wait to wait.
struct Measure {
  enum class Kind : uint8_t {
    Nothing,
    Number,
    MinusNumber,
    Rank,
    MinusRank,
    Digit,
    MinusDigit,
    Compared,
    MinusCompared
  } kind = Kind::Nothing;
  /// Of a number: the loop or space, and the dimension. Of a digit of the rank: its axis.
  Op *of = nullptr;
  unsigned dim = 0;
  /// Of two waits with one number the one with the offset is after.
  bool isBehind = false;
  /// What is compared.
  Value *compared = nullptr;
};

/// Adds the numbers that a condition compares.
void addCompared(Value *condition, llvm::SmallSetVector<Value *, 4> &numbers) {
  Op *op = condition->definingOp();
  if (!op)
    return;
  if (op->is(OpKind::Not) || op->is(OpKind::And) || op->is(OpKind::Or))
    for (unsigned i = 0; i < op->numOperands(); ++i)
      addCompared(op->operand(i), numbers);
  if (!op->is(OpKind::Cmp) || !Polynomials::isNumber(op->operand(0)->type()))
    return;
  for (unsigned i = 0; i < 2; ++i)
    if (const Op *made = op->operand(i)->definingOp(); !made || !made->is(OpKind::Const))
      numbers.insert(op->operand(i));
}

std::vector<Measure> measuresOf(Op *wait, size_t axes) {
  std::vector<Measure> measures;
  llvm::SmallSetVector<Value *, 4> compared;
  for (Op *around = wait->parentOp(); around; around = around->parentOp()) {
    unsigned dims = around->is(OpKind::For) ? 1 : 0;
    if (around->is(OpKind::Space))
      dims = unsigned(around->get(ir::attr::vars).size());
    for (unsigned d = 0; d < dims; ++d)
      for (const auto kind : {Measure::Kind::Number, Measure::Kind::MinusNumber})
        for (const bool isBehind : {false, true})
          measures.push_back({kind, around, d, isBehind});
    if (around->is(OpKind::If))
      addCompared(around->operand(0), compared);
    if (around->is(OpKind::Space))
      break;
  }
  measures.push_back({Measure::Kind::Rank});
  measures.push_back({Measure::Kind::MinusRank});
  for (unsigned axis = 0; axes > 1 && axis < axes; ++axis)
    for (const auto kind : {Measure::Kind::Digit, Measure::Kind::MinusDigit})
      measures.push_back({kind, nullptr, axis});
  for (Value *number : compared)
    for (const auto kind : {Measure::Kind::Compared, Measure::Kind::MinusCompared})
      measures.push_back({kind, nullptr, 0, false, number});
  measures.push_back({Measure::Kind::Nothing});
  return measures;
}

Polynomial numberOf(const Measure &measure, Instance &instance, Polynomials &polys) {
  const auto number = [&] {
    for (const Instance::Coordinate &c : instance.coordinates)
      if (c.of == measure.of && c.dim == measure.dim)
        return var(c.number);
    return Polynomial(0);
  };
  switch (measure.kind) {
  case Measure::Kind::Nothing:
    return Polynomial(0);
  case Measure::Kind::Number:
    return number();
  case Measure::Kind::MinusNumber:
    return Polynomial(0) - number();
  case Measure::Kind::Rank:
    return instance.rank;
  case Measure::Kind::MinusRank:
    return Polynomial(0) - instance.rank;
  case Measure::Kind::Digit:
    return var(instance.digits[measure.dim]);
  case Measure::Kind::MinusDigit:
    return Polynomial(0) - var(instance.digits[measure.dim]);
  case Measure::Kind::Compared:
    return polys.of(measure.compared, instance.environment);
  case Measure::Kind::MinusCompared:
    return Polynomial(0) - polys.of(measure.compared, instance.environment);
  }
  return {};
}

Polynomial valueOf(const Measure &measure, Instance &instance, Polynomials &polys) {
  return Polynomial(2) * numberOf(measure, instance, polys) + Polynomial(measure.isBehind);
}

/// Executions that a need is about, and what is known of them.
struct NeedScene {
  Scene scene;
  Instance wait, notify, before;
  Facts facts;

  NeedScene(const Need &need, ir::RefutationBudget &budget) : scene(budget) {
    wait = scene.instance(need.wait);
    notify = scene.instance(need.notify);
    scene.assume(facts, wait);
    scene.assume(facts, notify);
    const Region awaited = scene.region(cellsOf(need.wait), wait, facts);
    const Region sent = scene.region(cellsOf(need.notify), notify, facts);
    scene.addEqualRanks(facts, awaited.rank, sent.rank);
    llvm::SmallVector<Polynomial, 4> cell;
    for (size_t d = 0; d < awaited.dims.size(); ++d)
      cell.push_back(var(scene.polys.fresh()));
    scene.assumeInside(facts, awaited, cell);
    scene.assumeInside(facts, sent, cell);
    if (!need.before)
      return;
    before = scene.instance(need.before, &notify, Shares::Rank);
    scene.assume(facts, before);
    if (!need.isOneBody) {
      if (before.space == notify.space && runsInOrder(*before.space))
        ir::addLessEqual(facts, var(before.coordinates.front().number),
                         var(notify.coordinates.front().number));
      return;
    }
    // The same body; of loops around both the outermost is in the same iteration or an earlier one.
    const auto isLoop = [&](const Instance::Coordinate &c) {
      return !c.of->is(OpKind::Space) &&
             llvm::any_of(notify.coordinates,
                          [&](const Instance::Coordinate &n) { return n.of == c.of; });
    };
    const bool isNested = llvm::count_if(before.coordinates, isLoop) > 1;
    bool isOutermost = true;
    for (const Instance::Coordinate &c : before.coordinates)
      for (const Instance::Coordinate &n : notify.coordinates) {
        if (c.of != n.of || c.dim != n.dim)
          continue;
        if (c.of->is(OpKind::Space)) {
          ir::addEqual(facts, var(c.number), var(n.number));
          continue;
        }
        if (!isOutermost)
          continue;
        isOutermost = false;
        isNested || isBefore(need.before, need.notify)
            ? ir::addLessEqual(facts, var(c.number), var(n.number))
            : ir::addLess(facts, var(c.number), var(n.number));
      }
  }
  bool isImpossible() { return scene.refuter.isImpossible(facts); }
  /// Whether the number of the wait is larger than that of the one before by at least `least`.
  bool shrinks(const Measure &ofWait, const Measure &ofBefore, int64_t least = 1) {
    return scene.implies(facts, valueOf(ofWait, wait, scene.polys) -
                                    valueOf(ofBefore, before, scene.polys) - Polynomial(least));
  }
};

/// Whether the wait may run before the notify in one body.
bool mayPrecede(Op *wait, Op *notify) {
  return isBefore(wait, notify) || ir::areInOneLoop(*wait, *notify);
}

/// Finds cycles of places, and numbers that get smaller along them: one number for each wait of a
/// cycle, or several, of which the first that changes gets smaller.
class Cycles {
public:
  Cycles(std::vector<Need> needs, size_t axes, ir::RefutationBudget &budget)
      : needs_(std::move(needs)), axes_(axes), budget_(budget), scenes_(needs_.size()) {}
  /// The waits of a cycle for which no numbers were found; empty when there is none.
  std::vector<Op *> find();

private:
  /// Numbers of needs.
  using Some = std::vector<size_t>;
  /// How much smaller numbers must get along a need: not at all, or by one.
  enum class Step : uint8_t { Weak, Strict };
  using Measures = llvm::MapVector<Op *, Measure>;

  [[nodiscard]] bool reaches(const Some &some, const Op *from, const Op *to) const;
  std::vector<Op *> findAmong(const Some &some, unsigned more);
  bool assign(const std::vector<Op *> &waits, const Some &inside, Step step, unsigned more,
              Measures &measures);
  bool shrinks(size_t need, const Measures &measures, Step step);

  std::vector<Need> needs_;
  /// Into how many axes the kernel divides its ranks.
  size_t axes_;
  ir::RefutationBudget &budget_;
  std::vector<std::unique_ptr<NeedScene>> scenes_;
};

bool Cycles::reaches(const Some &some, const Op *from, const Op *to) const {
  std::vector<const Op *> work = {from}, seen;
  while (!work.empty()) {
    const Op *at = work.back();
    work.pop_back();
    for (const size_t i : some)
      if (needs_[i].wait == at && !llvm::is_contained(seen, needs_[i].before)) {
        if (needs_[i].before == to)
          return true;
        seen.push_back(needs_[i].before);
        work.push_back(needs_[i].before);
      }
  }
  return false;
}

bool Cycles::shrinks(size_t need, const Measures &measures, Step step) {
  if (!scenes_[need])
    scenes_[need] = std::make_unique<NeedScene>(needs_[need], budget_);
  return scenes_[need]->shrinks(measures.lookup(needs_[need].wait),
                                measures.lookup(needs_[need].before), step == Step::Strict ? 1 : 0);
}

/// Finds a number for each wait. Where it need not get smaller along each need, those along which
/// it does are in no cycle, as it never gets larger; the others must be in none by `more` numbers.
bool Cycles::assign(const std::vector<Op *> &waits, const Some &inside, Step step, unsigned more,
                    Measures &measures) {
  if (budget_.isSpent())
    return false;
  const size_t next = measures.size();
  // Needs of which both ends have a number must shrink already.
  if (next > 0)
    for (const size_t i : inside) {
      const Need &need = needs_[i];
      const bool isKnown = measures.count(need.wait) && measures.count(need.before);
      const bool isNew = need.wait == waits[next - 1] || need.before == waits[next - 1];
      if (isKnown && isNew && !shrinks(i, measures, step))
        return false;
    }
  if (next == waits.size()) {
    if (step == Step::Strict)
      return true;
    Some left;
    llvm::copy_if(inside, std::back_inserter(left),
                  [&](size_t i) { return !shrinks(i, measures, Step::Strict); });
    return left.size() < inside.size() && findAmong(left, more - 1).empty();
  }
  for (const Measure &measure : measuresOf(waits[next], axes_)) {
    // That one wait comes after another tells nothing where numbers stay.
    if (step == Step::Weak && measure.isBehind)
      continue;
    measures[waits[next]] = measure;
    if (assign(waits, inside, step, more, measures))
      return true;
    measures.erase(waits[next]);
  }
  return false;
}

std::vector<Op *> Cycles::findAmong(const Some &some, unsigned more) {
  constexpr size_t kMostWaits = 4;
  llvm::MapVector<Op *, bool> isDone;
  for (const size_t i : some)
    isDone[needs_[i].wait] = false;
  for (auto &[wait, done] : isDone) {
    if (done || !reaches(some, wait, wait))
      continue;
    std::vector<Op *> cycle;
    for (auto &[other, otherDone] : isDone)
      if (other == wait || (reaches(some, wait, other) && reaches(some, other, wait))) {
        cycle.push_back(other);
        otherDone = true;
      }
    Some inside;
    llvm::copy_if(some, std::back_inserter(inside), [&](size_t i) {
      return llvm::is_contained(cycle, needs_[i].wait) &&
             llvm::is_contained(cycle, needs_[i].before);
    });
    const auto isAssigned = [&](Step step) {
      Measures measures;
      return assign(cycle, inside, step, more, measures);
    };
    if (cycle.size() > kMostWaits ||
        (!isAssigned(Step::Strict) && (more == 0 || !isAssigned(Step::Weak))))
      return cycle;
  }
  return {};
}

std::vector<Op *> Cycles::find() {
  Some all(needs_.size());
  std::iota(all.begin(), all.end(), size_t(0));
  return findAmong(all, 1);
}

} // namespace

void Prover::proveWaits() {
  const BudgetShare share(budget_);
  // Which waits a notify may come after: those of its body, of spaces that end before, and, where
  // few programs run a space, those of its other bodies.
  std::vector<Need> needs;
  for (Op *wait : waits_) {
    ++proof_.obligations;
    Op *signal = signalOf(wait);
    if (!signal) {
      fail(wait, "which signal is waited for");
      continue;
    }
    if (wait->numOperands() > 1) {
      // It must not ask for more than come.
      Scene scene(budget_);
      Instance at = scene.instance(wait);
      Facts facts;
      scene.assume(facts, at);
      const Region cells = scene.region(cellsOf(wait), at, facts);
      llvm::SmallVector<Polynomial, 4> cell;
      for (size_t d = 0; d < cells.dims.size(); ++d)
        cell.push_back(var(scene.polys.fresh()));
      scene.assumeInside(facts, cells, cell);
      const auto all = scene.derivedCount(*signal, cell, cells.rank, facts);
      const Polynomial asked = scene.polys.of(wait->operand(1), at.environment);
      if (!all || !scene.implies(facts, *all - asked))
        fail(wait, "that so many notifies come");
    }
    for (Op *notify : notifies_) {
      if (signalOf(notify) != signal)
        continue;
      if (isOutOfTime()) {
        fail(wait, "that all notifies come");
        return;
      }
      if (NeedScene({wait, notify}, budget_).isImpossible())
        continue;
      Op *space = spaceOf(notify);
      const bool isPinned = space->has(ir::attr::programs) || space->get(ir::attr::ordered);
      for (Op *before : waits_) {
        Op *other = spaceOf(before);
        Need need{wait, notify, before, other == space};
        if (other == space && !isPinned && !mayPrecede(before, notify))
          continue;
        need.isOneBody = other == space && !isPinned;
        if (other != space && !isAfterSpace(other, space))
          continue;
        if (!NeedScene(need, budget_).isImpossible())
          needs.push_back(need);
      }
      for (Op *barrier : barriers_)
        if (spaceOf(barrier) == space && mayPrecede(barrier, notify))
          fail(barrier, "that all ranks come to this barrier, and the notifies behind it");
    }
  }
  const size_t axes = Scene(budget_).axesOf(kernel_).axes.size();
  for (Op *wait : Cycles(std::move(needs), axes, budget_).find()) {
    fail(wait, "that this wait ends: its notifies may come behind waits like it");
    return;
  }
  for (Op *barrier : barriers_) {
    ++proof_.obligations;
    const bool isReached = hasMetBarriers_ && llvm::none_of(waits_, [&](Op *wait) {
                             return spaceOf(wait) == spaceOf(barrier);
                           });
    if (!isReached)
      fail(barrier, "that all ranks come to this barrier");
  }
  ir::walk(kernel_, [&](Op &op) {
    if (!op.is(OpKind::While))
      return;
    ++proof_.obligations;
    if (!ir::isKnownToEnd(op))
      fail(&op, "that this loop ends");
  });
}

} // namespace dtile::protocol::prove
