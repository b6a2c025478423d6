// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranking functions. Each comparison that the condition needs gives a candidate: of `a < b` it is
// b - a, at least one while the loop goes on. One iteration is followed with polynomials over the
// carried values, once for each way through the `if`s of the body; bounds of carried values that
// hold at first and are kept by each iteration help (as in Houdini: Flanagan and Leino, FME 2001).
#include "ir/analysis/loop_ends.h"

#include "ir/analysis/algebra/inequalities.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallPtrSet.h"

namespace dtile::ir {

namespace {

/// Ways through a body's `if`s that are followed.
constexpr size_t kMostWays = 16;
/// Rows of inequalities for one loop.
constexpr uint64_t kWork = 200'000;

using Environment = Polynomials::Environment;

class EndProof {
public:
  explicit EndProof(Op &loop) : loop_(loop) { budget_.left = kWork; }
  bool find();

private:
  /// One way through the body: what the carried values are in the next iteration.
  struct Way {
    Facts facts;
    std::vector<std::optional<Polynomial>> next;
  };
  void begin();
  [[nodiscard]] bool isInside(const Value *value) const;
  void follow(llvm::ArrayRef<Op *> branches, size_t number);
  [[nodiscard]] Environment iteration(llvm::ArrayRef<std::optional<Polynomial>> carried) const;
  void assumeCondition(Value *condition, bool wanted, Environment &environment, Facts &facts);
  bool assumeComparison(const Op &cmp, bool wanted, Environment &environment, Facts &facts);
  void keepInvariants();
  [[nodiscard]] Facts factsOf(const Way &way) const;
  [[nodiscard]] bool shrinks(const Op &cmp);
  [[nodiscard]] bool shrinks(Value *large, Value *small, int64_t more);
  Polynomial difference(Value *large, Value *small, llvm::ArrayRef<std::optional<Polynomial>> at);
  void collectComparisons(Value *condition, std::vector<const Op *> &found) const;

  Op &loop_;
  /// Values from outside of the loop.
  Environment outside_;
  Polynomials polys_;
  RefutationBudget budget_;
  Refuter refuter_{polys_, &budget_};
  /// Of the launch and of the values with which the loop is entered.
  Facts known_;
  /// Carried values at the beginning of an iteration, and those that the loop is entered with.
  std::vector<std::optional<Polynomial>> carried_;
  std::vector<std::optional<Polynomial>> first_;
  std::vector<Way> ways_;
  /// At least zero at the beginning of each iteration: what, and of which carried value it speaks.
  struct Invariant {
    unsigned carried;
    bool isUpper;
    Polynomial bound;
    [[nodiscard]] Polynomial of(const Polynomial &value) const {
      return isUpper ? bound - value : value - bound;
    }
  };
  std::vector<Invariant> invariants_;
};

void EndProof::begin() {
  known_.push_back(Polynomial::atom(polys_.numRanks()) - Polynomial(1));
  known_.push_back(Polynomial::atom(polys_.rank()));
  addLess(known_, Polynomial::atom(polys_.rank()), Polynomial::atom(polys_.numRanks()));
  Environment outside;
  const auto share = [&](Value *value) {
    if (value->type().isIndex() && !isInside(value))
      outside_.values[value] = polys_.of(value, outside);
  };
  for (unsigned i = 0; i < 2; ++i)
    walk(loop_.body(i), [&](const Op &op) {
      for (Value *operand : op.operands())
        share(operand);
    });
  for (unsigned i = 0; i < loop_.numOperands(); ++i) {
    const bool isIndex = loop_.operand(i)->type().isIndex();
    carried_.push_back(isIndex ? std::optional(Polynomial::atom(polys_.fresh())) : std::nullopt);
    first_.push_back(isIndex ? std::optional(polys_.of(loop_.operand(i), outside)) : std::nullopt);
  }
}

bool EndProof::isInside(const Value *value) const {
  const Op *around =
      value->definingOp() ? value->definingOp()->parentOp() : value->argumentOf()->parentOp();
  for (; around; around = around->parentOp())
    if (around == &loop_)
      return true;
  return false;
}

/// An iteration with these carried values. What it reads is its own: memory may have changed.
Environment EndProof::iteration(llvm::ArrayRef<std::optional<Polynomial>> carried) const {
  Environment environment = outside_;
  environment.hasOwnValues = true;
  for (unsigned i = 0; i < carried.size(); ++i)
    if (carried[i])
      environment.values[loop_.body(0).argument(i)] = *carried[i];
  return environment;
}

void EndProof::collectComparisons(Value *condition, std::vector<const Op *> &found) const {
  const Op *op = condition->definingOp();
  if (!op)
    return;
  if (op->is(OpKind::Cmp))
    found.push_back(op);
  // `a && b` is an `if` where b is not free to compute: it holds only where a does.
  if (op->is(OpKind::And)) {
    collectComparisons(op->operand(0), found);
    collectComparisons(op->operand(1), found);
  } else if (op->is(OpKind::If)) {
    collectComparisons(op->operand(0), found);
    collectComparisons(op->body(0).terminator()->operand(condition->index()), found);
  }
}

bool EndProof::assumeComparison(const Op &cmp, bool wanted, Environment &environment,
                                Facts &facts) {
  if (!cmp.operand(0)->type().isIndex())
    return false;
  const Polynomial a = polys_.of(cmp.operand(0), environment);
  const Polynomial b = polys_.of(cmp.operand(1), environment);
  const llvm::StringRef pred = cmp.get(attr::pred);
  const bool isLess = pred == "lt" || pred == "ge";
  if (pred == "eq" || pred == "ne") {
    if ((pred == "eq") == wanted)
      addEqual(facts, a, b);
    return true;
  }
  // a < b, or a > b written as b < a; their negatives the other way round.
  const bool isOrder = isLess ? (pred == "lt") == wanted : (pred == "gt") != wanted;
  if (isLess)
    isOrder ? addLess(facts, a, b) : addLessEqual(facts, b, a);
  else
    isOrder ? addLessEqual(facts, a, b) : addLess(facts, b, a);
  return true;
}

void EndProof::assumeCondition(Value *condition, bool wanted, Environment &environment,
                               Facts &facts) {
  const Op *op = condition->definingOp();
  if (!op)
    return;
  if (op->is(OpKind::Cmp))
    assumeComparison(*op, wanted, environment, facts);
  const bool splits = op->is(OpKind::And) ? wanted : op->is(OpKind::Or) && !wanted;
  if (splits) {
    assumeCondition(op->operand(0), wanted, environment, facts);
    assumeCondition(op->operand(1), wanted, environment, facts);
  } else if (op->is(OpKind::If) && wanted) {
    // Only where both parts hold, if the other arm is `false`.
    const Value *other = op->body(1).terminator()->operand(condition->index());
    const Op *constant = other->definingOp();
    const Attr *value = constant && constant->is(OpKind::Const) ? constant->attr("value") : nullptr;
    const bool *holds = value ? std::get_if<bool>(value) : nullptr;
    if (holds && !*holds) {
      assumeCondition(op->operand(0), true, environment, facts);
      assumeCondition(op->body(0).terminator()->operand(condition->index()), true, environment,
                      facts);
    }
  } else if (op->is(OpKind::Not)) {
    assumeCondition(op->operand(0), !wanted, environment, facts);
  }
}

/// The way that takes the arm of each branch that a bit of `number` names.
void EndProof::follow(llvm::ArrayRef<Op *> branches, size_t number) {
  Way way;
  Environment environment = iteration(carried_);
  const Op *condition = loop_.body(0).terminator();
  assumeCondition(condition->operand(0), true, environment, way.facts);
  for (unsigned i = 0; i + 1 < condition->numOperands(); ++i)
    if (condition->operand(i + 1)->type().isIndex())
      environment.values[loop_.body(1).argument(i)] =
          polys_.of(condition->operand(i + 1), environment);
  for (size_t b = 0; b < branches.size(); ++b) {
    Op &branch = *branches[b];
    const unsigned arm = (number >> b) & 1;
    assumeCondition(branch.operand(0), arm == 0, environment, way.facts);
    for (unsigned r = 0; r < branch.numResults(); ++r)
      if (branch.results()[r]->type().isIndex())
        environment.values[branch.results()[r]] =
            polys_.of(branch.body(arm).terminator()->operand(r), environment);
  }
  const Op *end = loop_.body(1).terminator();
  for (unsigned i = 0; i < carried_.size(); ++i)
    way.next.push_back(carried_[i] ? std::optional(polys_.of(end->operand(i), environment))
                                   : std::nullopt);
  ways_.push_back(std::move(way));
}

Facts EndProof::factsOf(const Way &way) const {
  Facts facts = known_;
  llvm::append_range(facts, way.facts);
  for (const Invariant &invariant : invariants_)
    facts.push_back(invariant.of(*carried_[invariant.carried]));
  return facts;
}

/// Leaves of the candidates those that hold at first and after each iteration.
void EndProof::keepInvariants() {
  for (unsigned i = 0; i < carried_.size(); ++i) {
    if (!carried_[i])
      continue;
    for (const int64_t least : {0, 1})
      if (refuter_.implies(known_, *first_[i] - Polynomial(least)))
        invariants_.push_back({i, false, Polynomial(least)});
    invariants_.push_back({i, false, *first_[i]});
    invariants_.push_back({i, true, *first_[i]});
  }
  for (bool isChanged = true; isChanged;) {
    isChanged = false;
    for (size_t k = 0; k < invariants_.size(); ++k) {
      const Invariant candidate = invariants_[k];
      const bool isResident = llvm::all_of(ways_, [&](const Way &way) {
        return refuter_.implies(factsOf(way), candidate.of(*way.next[candidate.carried]));
      });
      if (isResident)
        continue;
      invariants_.erase(invariants_.begin() + k--);
      isChanged = true;
    }
  }
}

Polynomial EndProof::difference(Value *large, Value *small,
                                llvm::ArrayRef<std::optional<Polynomial>> at) {
  Environment environment = iteration(at);
  return polys_.of(large, environment) - polys_.of(small, environment);
}

/// Whether large - small + more is at least one while the loop goes on, and gets smaller.
bool EndProof::shrinks(Value *large, Value *small, int64_t more) {
  const Polynomial now = difference(large, small, carried_) + Polynomial(more);
  return llvm::all_of(ways_, [&](const Way &way) {
    const Facts facts = factsOf(way);
    const Polynomial next = difference(large, small, way.next) + Polynomial(more);
    return refuter_.implies(facts, now - Polynomial(1)) &&
           refuter_.implies(facts, now - next - Polynomial(1));
  });
}

bool EndProof::shrinks(const Op &cmp) {
  Value *a = cmp.operand(0);
  Value *b = cmp.operand(1);
  if (!a->type().isIndex())
    return false;
  const llvm::StringRef pred = cmp.get(attr::pred);
  const int64_t more = pred == "le" || pred == "ge" ? 1 : 0;
  if (pred == "lt" || pred == "le" || pred == "ne")
    if (shrinks(b, a, more))
      return true;
  return (pred == "gt" || pred == "ge" || pred == "ne") && shrinks(a, b, more);
}

bool EndProof::find() {
  std::vector<const Op *> comparisons;
  collectComparisons(loop_.body(0).terminator()->operand(0), comparisons);
  if (comparisons.empty())
    return false;
  begin();
  std::vector<Op *> branches;
  for (Op &op : loop_.body(1).ops())
    if (op.is(OpKind::If) &&
        llvm::any_of(op.results(), [](const Value *result) { return result->type().isIndex(); }))
      branches.push_back(&op);
  if (branches.size() > 4 || (size_t(1) << branches.size()) > kMostWays)
    return false;
  for (size_t number = 0; number < size_t(1) << branches.size(); ++number)
    follow(branches, number);
  keepInvariants();
  return llvm::any_of(comparisons, [&](const Op *cmp) { return shrinks(*cmp); });
}

} // namespace

bool isKnownToEnd(Op &loop) { return EndProof(loop).find(); }

LoopState stateOf(const Op &loop) {
  LoopState state;
  llvm::SmallVector<const Value *, 16> work{loop.body(0).terminator()->operand(0)};
  llvm::SmallPtrSet<const Value *, 32> seen;
  const auto addOp = [&](const Op &op) {
    state.isPure &= op.isPure() || op.is(OpKind::For) || op.is(OpKind::If) ||
                    op.is(OpKind::While) || op.is(OpKind::Yield) || op.is(OpKind::Condition);
    llvm::append_range(work, op.operands());
  };
  while (!work.empty()) {
    const Value *value = work.pop_back_val();
    if (!seen.insert(value).second)
      continue;
    if (Op *op = value->definingOp()) {
      // What is defined outside does not change.
      bool isInside = false;
      for (const Op *around = op->parentOp(); around && !isInside; around = around->parentOp())
        isInside = around == &loop;
      if (isInside)
        walk(*op, addOp);
      continue;
    }
    const Block *block = value->argumentOf();
    if (block == &loop.body(1)) {
      work.push_back(loop.body(0).terminator()->operand(value->index() + 1));
    } else if (block == &loop.body(0)) {
      state.carried.push_back(value->index());
      work.push_back(loop.body(1).terminator()->operand(value->index()));
    }
  }
  llvm::sort(state.carried);
  return state;
}

} // namespace dtile::ir
