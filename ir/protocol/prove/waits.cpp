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
  /// Of two waits with one number the one with the offset is behind.
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
  bool shrinks(const Measure &ofWait, const Measure &ofBefore) {
    return scene.implies(facts, valueOf(ofWait, wait, scene.polys) -
                                    valueOf(ofBefore, before, scene.polys) - Polynomial(1));
  }
};

/// Whether the wait may run before the notify in one body.
bool mayPrecede(Op *wait, Op *notify) {
  return isBefore(wait, notify) || ir::areInOneLoop(*wait, *notify);
}

/// Finds cycles of places, and numbers that get smaller along them.
class Cycles {
public:
  Cycles(std::vector<Need> needs, size_t axes, ir::RefutationBudget &budget)
      : needs_(std::move(needs)), axes_(axes), budget_(budget) {}
  /// The waits of a cycle for which no numbers were found; empty when there is none.
  std::vector<Op *> find();

private:
  bool reaches(Op *from, Op *to) const;
  bool shrinks(const std::vector<Op *> &waits);
  bool assign(const std::vector<Op *> &waits, size_t next,
              llvm::MapVector<Op *, Measure> &measures);

  std::vector<Need> needs_;
  /// Into how many axes the kernel divides its ranks.
  size_t axes_;
  ir::RefutationBudget &budget_;
};

bool Cycles::reaches(Op *from, Op *to) const {
  std::vector<Op *> work = {from}, seen;
  while (!work.empty()) {
    Op *at = work.back();
    work.pop_back();
    for (const Need &need : needs_)
      if (need.wait == at && !llvm::is_contained(seen, need.before)) {
        if (need.before == to)
          return true;
        seen.push_back(need.before);
        work.push_back(need.before);
      }
  }
  return false;
}

bool Cycles::assign(const std::vector<Op *> &waits, size_t next,
                    llvm::MapVector<Op *, Measure> &measures) {
  if (budget_.isSpent())
    return false;
  // Needs of which both ends have a number must shrink already.
  if (next > 0)
    for (const Need &need : needs_) {
      const bool isKnown = measures.count(need.wait) && measures.count(need.before);
      const bool isNew = need.wait == waits[next - 1] || need.before == waits[next - 1];
      if (isKnown && isNew &&
          !NeedScene(need, budget_).shrinks(measures[need.wait], measures[need.before]))
        return false;
    }
  if (next == waits.size())
    return true;
  for (const Measure &measure : measuresOf(waits[next], axes_)) {
    measures[waits[next]] = measure;
    if (assign(waits, next + 1, measures))
      return true;
    measures.erase(waits[next]);
  }
  return false;
}

std::vector<Op *> Cycles::find() {
  llvm::MapVector<Op *, bool> isDone;
  for (const Need &need : needs_)
    isDone[need.wait] = false;
  for (auto &[wait, done] : isDone) {
    if (done || !reaches(wait, wait))
      continue;
    std::vector<Op *> cycle;
    for (auto &[other, otherDone] : isDone)
      if (other == wait || (reaches(wait, other) && reaches(other, wait))) {
        cycle.push_back(other);
        otherDone = true;
      }
    llvm::MapVector<Op *, Measure> measures;
    if (cycle.size() > 4 || !assign(cycle, 0, measures))
      return cycle;
  }
  return {};
}

} // namespace

void Prover::proveWaits() {
  const BudgetShare share(budget_);
  // Which waits a notify may come behind: those of its body, of spaces that end before, and, where
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
    const bool isReached = hasPlainBarriers_ && llvm::none_of(waits_, [&](Op *wait) {
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
