// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Sizes that matter are those around the blocks that a kernel cuts its dimensions into: none, one,
// a whole block, one more than a block of each kind, and a few blocks.
#include "ir/protocol/check/launch_sizes.h"

#include "ir/analysis/clauses.h"
#include "ir/analysis/launch_values.h"
#include "ir/core/constants.h"
#include "ir/core/tile_order.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <numeric>

namespace dtile::protocol {

using ir::constantOf;
using ir::Op;
using ir::OpKind;
using ir::Value;

namespace {

/// Larger sizes would take long to run.
constexpr int64_t kLargestAsserted = 1 << 16;

int64_t floorDiv(int64_t a, int64_t b) {
  if (b == 0)
    return 0;
  const int64_t quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

bool compare(llvm::StringRef predicate, int64_t a, int64_t b) {
  return predicate == "eq"   ? a == b
         : predicate == "ne" ? a != b
         : predicate == "lt" ? a < b
         : predicate == "le" ? a <= b
         : predicate == "gt" ? a > b
                             : a >= b;
}

} // namespace

LaunchSizes::LaunchSizes(Op &kernel, const interpret::ControlSlice &slice) {
  for (Op &op : kernel.body().ops()) {
    if (!op.is(OpKind::LaunchDim))
      continue;
    // A dimension that is only compared with what it should be chooses nothing.
    const Op *divided = nullptr;
    bool isFree = false;
    bool isChecked = false;
    for (const ir::Use &use : op.result()->uses()) {
      const bool isCheck = use.user->is(OpKind::LaunchCheck) && use.index == 1;
      isChecked |= isCheck;
      isFree |= !isCheck;
      if (use.user->is(OpKind::Div) && use.index == 0 && use.user->parentBlock() == &kernel.body())
        divided = use.user;
    }
    if (!isFree)
      continue;
    SizeSymbol symbol;
    symbol.dim = &op;
    symbol.name = op.result()->nameHint().str();
    // T[W * S]: S is the dimension divided by W, and the check says that nothing is left over.
    if (isChecked && divided) {
      symbol.factor = divided->operand(1);
      symbol.name = divided->result()->nameHint().str();
    }
    if (symbol.name.empty())
      symbol.name = "size " + std::to_string(op.get(ir::attr::dim)) + " of parameter " +
                    std::to_string(op.get(ir::attr::param));
    symbols_.push_back(std::move(symbol));
  }
  for (Op &op : kernel.body().ops()) {
    if (!op.is(OpKind::ScalarParam) || !isInteger(op.result()->type().elementOrIndex()))
      continue;
    bool isOfClauses = false;
    walk(kernel, [&](const Op &clause) {
      if (ir::isClause(clause) || ir::isAssumption(clause))
        isOfClauses |= llvm::any_of(clause.operands(),
                                    [&](const Value *value) { return dependsOn(value, &op); });
    });
    if (!isOfClauses && !llvm::is_contained(slice.scalars, &op))
      continue;
    SizeSymbol symbol;
    symbol.dim = &op;
    symbol.name = op.get(ir::attr::name).str();
    symbols_.push_back(std::move(symbol));
  }
  findSteps(kernel, slice);
  reach_ = reachOfControl(kernel, slice);
  for (SizeSymbol &symbol : symbols_)
    if (const auto it = reach_.sizes.find(symbol.dim); it != reach_.sizes.end())
      symbol.reached.assign(it->second.begin(), it->second.end());
}

bool LaunchSizes::dependsOn(const Value *value, const Op *dim) const {
  llvm::SmallVector<const Value *, 8> work{value};
  llvm::SmallPtrSet<const Value *, 16> seen;
  while (!work.empty()) {
    const Value *next = work.pop_back_val();
    const Op *op = next->definingOp();
    if (!op || !seen.insert(next).second)
      continue;
    if (op == dim)
      return true;
    if (op->numRegions() == 0)
      llvm::append_range(work, op->operands());
  }
  return false;
}

bool LaunchSizes::decidesBodies(const Op &space, const SizeSymbol &symbol) const {
  return llvm::any_of(space.operands(),
                      [&](const Value *bound) { return dependsOn(bound, symbol.dim); });
}

void LaunchSizes::findAsserted(const Op &assertion) {
  const auto add = [&](const Value *side, const Value *other, bool isDivided) {
    const std::optional<int64_t> number = constantOf(other);
    for (SizeSymbol &symbol : symbols_)
      if (number && *number >= 0 && *number < kLargestAsserted && dependsOn(side, symbol.dim)) {
        symbol.asserted.push_back(*number);
        if (!isDivided)
          symbol.asserted.push_back(*number + 1);
      }
  };
  llvm::SmallVector<const Value *, 8> work{assertion.operand(0)};
  llvm::SmallPtrSet<const Value *, 16> seen;
  while (!work.empty()) {
    const Value *value = work.pop_back_val();
    const Op *op = value->definingOp();
    if (!op || !seen.insert(value).second)
      continue;
    if (op->is(OpKind::Cmp)) {
      add(op->operand(0), op->operand(1), false);
      add(op->operand(1), op->operand(0), false);
    } else if (op->is(OpKind::Rem)) {
      add(op->operand(0), op->operand(1), true);
    }
    if (op->isPure())
      llvm::append_range(work, op->operands());
  }
}

void LaunchSizes::findSteps(Op &kernel, const interpret::ControlSlice &slice) {
  const auto addStep = [&](const Value *whole, const Value *step, const Op &op) {
    if (op.is(OpKind::For) && !slice.doesRun(op))
      return;
    const std::optional<int64_t> size = constantOf(step);
    for (SizeSymbol &symbol : symbols_) {
      if (!dependsOn(whole, symbol.dim))
        continue;
      if (size && *size > 0)
        symbol.steps.push_back(*size);
      else if (op.is(OpKind::Div) && step != symbol.factor)
        symbol.isShared = true;
    }
  };
  walk(kernel, [&](Op &op) {
    if (!op.enclosing(OpKind::SignalParam))
      findAxes(op);
    if (op.is(OpKind::Space))
      for (unsigned d = 0; d < ir::spaceDims(op); ++d)
        addStep(op.operand(3 * d + 1), op.operand(3 * d + 2), op);
    else if (op.is(OpKind::For))
      addStep(op.operand(1), op.operand(2), op);
    else if (op.is(OpKind::Div) && !op.enclosing(OpKind::SignalParam))
      addStep(op.operand(0), op.operand(1), op);
    else if (ir::isPrecondition(op) || op.is(OpKind::LaunchRequire)) {
      findAsserted(op);
      assertions_.push_back(&op);
    }
  });
  for (SizeSymbol &symbol : symbols_) {
    llvm::sort(symbol.steps);
    symbol.steps.erase(llvm::unique(symbol.steps), symbol.steps.end());
  }
}

namespace {

/// A rank, W, or a quotient or remainder of one.
bool isPartOfRanks(const Value *value) {
  const Op *op = value->definingOp();
  while (op && (op->is(OpKind::Div) || op->is(OpKind::Rem)))
    op = op->operand(0)->definingOp();
  return op && (op->is(OpKind::Rank) || op->is(OpKind::NumRanks));
}

bool isNumRanks(const Value *value) {
  const Op *op = value->definingOp();
  return op && op->is(OpKind::NumRanks);
}

} // namespace

void LaunchSizes::findAxes(const Op &op) {
  const auto add = [&](const Value *size) {
    for (SizeSymbol &symbol : symbols_)
      symbol.isAxis |= !symbol.factor && dependsOn(size, symbol.dim);
  };
  if ((op.is(OpKind::Div) || op.is(OpKind::Rem)) && isPartOfRanks(op.operand(0)))
    add(op.operand(1));
  if (op.is(OpKind::Cmp) && op.get(ir::attr::pred) == "eq")
    for (const unsigned side : {0U, 1U})
      if (isNumRanks(op.operand(side)))
        add(op.operand(1 - side));
}

std::vector<SizeValues> LaunchSizes::withAxes(int ranks, SizeValues values) const {
  // Four axes of at most as many sizes as small numbers have divisors.
  constexpr size_t kMostTried = 512;
  std::vector<SizeValues> all{std::move(values)};
  bool hasAxes = false;
  for (size_t s = 0; s < symbols_.size(); ++s) {
    if (!symbols_[s].isAxis)
      continue;
    hasAxes = true;
    std::vector<SizeValues> more;
    for (const SizeValues &shorter : all)
      for (int64_t size = 1; size <= ranks && more.size() < kMostTried; ++size)
        if (ranks % size == 0) {
          more.push_back(shorter);
          more.back()[s] = size;
        }
    all = std::move(more);
  }
  if (!hasAxes)
    return {};
  llvm::erase_if(all, [&](const SizeValues &one) { return !isAllowed(ranks, one); });
  // Axes of one place show little, and so does the rest of the ranks where it is one.
  const auto longAxes = [&](const SizeValues &one) {
    int64_t product = 1, longer = 0;
    for (size_t s = 0; s < symbols_.size(); ++s)
      if (symbols_[s].isAxis) {
        product *= one[s];
        longer += one[s] > 1 ? 1 : 0;
      }
    return longer + (product < ranks ? 1 : 0);
  };
  llvm::stable_sort(
      all, [&](const SizeValues &a, const SizeValues &b) { return longAxes(a) > longAxes(b); });
  return all;
}

std::vector<int64_t> LaunchSizes::candidates(const SizeSymbol &symbol, int ranks,
                                             bool isQuick) const {
  // The first is the one for when another symbol is varied.
  std::vector<int64_t> values{3, 0};
  if (symbol.dim->is(OpKind::ScalarParam)) {
    // Mostly they name a rank, or one of something of which there are as many, or count these; what
    // comes after is neither, nor is what comes before.
    values = {0, std::min(1, ranks - 1), ranks - 1};
    if (!isQuick)
      values.insert(values.end(), {int64_t(ranks), int64_t(ranks) + 1, -1, -2});
  } else if (!symbol.steps.empty()) {
    const int64_t small = symbol.steps.front();
    const int64_t large = symbol.steps.back();
    values = {large + 1, 0, 1};
    if (!isQuick) {
      values.push_back(small);
      values.push_back(small + 1);
      values.push_back(2 * large + small);
      // Blocks of which neither divides the other meet each other in all ways up to here.
      constexpr int64_t kLargestMultiple = 4096;
      for (size_t i = 1; i < symbol.steps.size(); ++i)
        for (size_t j = 0; j < i; ++j)
          if (const int64_t all = std::lcm(symbol.steps[i], symbol.steps[j]);
              symbol.steps[i] % symbol.steps[j] != 0 && all <= kLargestMultiple)
            values.push_back(all + 1);
    }
    if (symbol.isShared && ranks > 1)
      values.push_back(ranks * large + 1);
    if (large == 1)
      values.push_back(3);
  } else if (!isQuick) {
    values.push_back(1);
  }
  llvm::append_range(values, symbol.asserted);
  std::vector<int64_t> unique;
  for (const int64_t value : values)
    if (!llvm::is_contained(unique, value))
      unique.push_back(value);
  return unique;
}

/// A scalar, where it is all that the value is.
static const Op *scalarOf(const Value *value) {
  const Op *op = value->definingOp();
  while (op && op->is(OpKind::Cast))
    op = op->operand(0)->definingOp();
  return op && op->is(OpKind::ScalarParam) ? op : nullptr;
}

std::vector<int64_t> LaunchSizes::edges(size_t symbol, int ranks, const SizeValues &usual) const {
  std::vector<int64_t> found;
  const auto add = [&](int64_t value) {
    SizeValues values = usual;
    values[symbol] = value;
    if (isAllowed(ranks, values) && !llvm::is_contained(found, value))
      found.push_back(value);
  };
  llvm::SmallVector<const Value *, 8> work;
  for (const Op *assertion : assertions_)
    work.push_back(assertion->operand(0));
  llvm::SmallPtrSet<const Value *, 16> seen;
  Known known;
  while (!work.empty()) {
    const Value *value = work.pop_back_val();
    const Op *op = value->definingOp();
    if (!op || !seen.insert(value).second || !op->isPure())
      continue;
    llvm::append_range(work, op->operands());
    if (!op->is(OpKind::Cmp))
      continue;
    for (const unsigned side : {0U, 1U})
      if (scalarOf(op->operand(side)) == symbols_[symbol].dim)
        if (const auto edge = evaluate(op->operand(1 - side), ranks, usual, known))
          for (const int64_t near : {-1, 0, 1})
            add(*edge + near);
  }
  return found;
}

SizeValues LaunchSizes::allowed(int ranks, const SizeValues &values,
                                llvm::ArrayRef<std::vector<int64_t>> candidates,
                                llvm::ArrayRef<size_t> kept) const {
  const bool hasAxes =
      llvm::any_of(symbols_, [](const SizeSymbol &symbol) { return symbol.isAxis; });
  const auto isFine = [&](const SizeValues &some) {
    return hasAxes ? !withAxes(ranks, some).empty() : isAllowed(ranks, some);
  };
  if (isFine(values))
    return values;
  // Where one size is 0, nothing that the others do may show.
  const auto inTurn = [&](size_t s) {
    std::vector<int64_t> order = candidates[s];
    llvm::stable_sort(order, [](int64_t a, int64_t b) { return (a != 0) && (b == 0); });
    return order;
  };
  const auto isFree = [&](size_t s) { return !llvm::is_contained(kept, s); };
  for (size_t s = 0; s < values.size(); ++s)
    for (const int64_t candidate : isFree(s) ? inTurn(s) : std::vector<int64_t>()) {
      SizeValues other = values;
      other[s] = candidate;
      if (candidate != 0 && isFine(other))
        return other;
    }
  // From sizes of one, each as far as the others allow.
  SizeValues other = values;
  for (size_t s = 0; s < values.size(); ++s)
    if (isFree(s) && !symbols_[s].dim->is(OpKind::ScalarParam) && !symbols_[s].isAxis)
      other[s] = 1;
  bool isFound = isFine(other);
  for (size_t s = 0; s < values.size(); ++s)
    for (const int64_t candidate : isFree(s) ? inTurn(s) : std::vector<int64_t>()) {
      SizeValues next = other;
      next[s] = candidate;
      if ((candidate == 0 && isFound) || !isFine(next))
        continue;
      other = std::move(next);
      isFound = true;
      break;
    }
  return isFound ? other : values;
}

SizeValues LaunchSizes::allowed(int ranks, const SizeValues &values,
                                llvm::ArrayRef<size_t> kept) const {
  std::vector<std::vector<int64_t>> smallFirst;
  for (const SizeSymbol &symbol : symbols_) {
    smallFirst.push_back(candidates(symbol, ranks, false));
    smallFirst.back().insert(smallFirst.back().end(), {1, 2});
    llvm::sort(smallFirst.back(),
               [](int64_t a, int64_t b) { return std::pair(a < 0, a) < std::pair(b < 0, b); });
  }
  return allowed(ranks, values, smallFirst, kept);
}

std::vector<SizeValues> LaunchSizes::combinations(int ranks, Choice choice) const {
  const bool isQuick = choice == Choice::Few;
  std::vector<std::vector<int64_t>> all;
  SizeValues usual;
  SizeValues largest;
  for (const SizeSymbol &symbol : symbols_) {
    all.push_back(candidates(symbol, ranks, isQuick));
    usual.push_back(all.back().front());
    largest.push_back(*llvm::max_element(all.back()));
  }
  usual = allowed(ranks, usual, all, {});
  std::vector<std::vector<int64_t>> fromLargest = all;
  for (std::vector<int64_t> &values : fromLargest)
    llvm::sort(values, std::greater<>());
  largest = allowed(ranks, largest, fromLargest, {});
  std::vector<SizeValues> chosen;
  const auto add = [&](const SizeValues &values) {
    if (!llvm::is_contained(chosen, values))
      chosen.push_back(values);
  };
  constexpr size_t kMostOfAxes = 6;
  std::vector<SizeValues> ofAxes = withAxes(ranks, usual);
  ofAxes.resize(std::min(ofAxes.size(), isQuick ? 1 : kMostOfAxes));
  if (!ofAxes.empty()) {
    usual = ofAxes.front();
    for (size_t s = 0; s < symbols_.size(); ++s)
      if (symbols_[s].isAxis)
        largest[s] = usual[s];
  }
  SizeValues ones(symbols_.size(), 1);
  for (size_t s = 0; s < symbols_.size(); ++s)
    if (symbols_[s].dim->is(OpKind::ScalarParam) || symbols_[s].isAxis)
      ones[s] = usual[s];
  add(ones);
  add(usual);
  for (const SizeValues &values : ofAxes)
    add(values);
  // Where another size does not allow a value, that one follows.
  const auto vary = [&](size_t s, int64_t value) {
    SizeValues values = usual;
    values[s] = value;
    add(allowed(ranks, values, all, s));
  };
  for (size_t s = 0; s < symbols_.size(); ++s)
    for (const int64_t value : llvm::drop_begin(all[s]))
      if (ofAxes.empty() || !symbols_[s].isAxis)
        vary(s, value);
  if (isQuick)
    return chosen;
  for (size_t s = 0; s < symbols_.size(); ++s)
    for (const int64_t value : edges(s, ranks, usual))
      vary(s, value);
  // Where no clause says that an axis divides the ranks, the last of its rows may be short.
  for (size_t s = 0; s < symbols_.size(); ++s)
    for (const int64_t value : {int64_t(2), int64_t(ranks) - 1})
      if (SizeValues values = usual; !ofAxes.empty() && symbols_[s].isAxis && value > 0) {
        values[s] = value;
        if (isAllowed(ranks, values))
          add(values);
      }
  // What two dimensions do together shows where both have several blocks.
  add(largest);
  if (choice != Choice::All)
    return chosen;
  SizeValues reached = largest;
  for (size_t s = 0; s < symbols_.size(); ++s)
    for (const int64_t value : symbols_[s].reached) {
      if (!ofAxes.empty() && symbols_[s].isAxis)
        continue;
      vary(s, value);
      reached[s] = std::max(reached[s], value);
      if (!isAllowed(ranks, reached))
        reached[s] = largest[s];
    }
  add(reached);
  return chosen;
}

std::vector<SizeValues> LaunchSizes::choose(int ranks, Choice choice) const {
  std::vector<SizeValues> chosen;
  // Those that are not allowed may still be launches in which the assertion is not reached.
  std::vector<SizeValues> others;
  for (SizeValues &values : combinations(ranks, choice))
    (isAllowed(ranks, values) ? chosen : others).push_back(std::move(values));
  if (chosen.empty())
    chosen = search(ranks);
  llvm::append_range(chosen, others);
  return chosen;
}

bool LaunchSizes::isAnyAllowed(int ranks) const {
  return llvm::any_of(choose(ranks, Choice::Few),
                      [&](const SizeValues &values) { return isAllowed(ranks, values); });
}

bool LaunchSizes::isAllowed(int ranks, const SizeValues &values) const {
  Known known;
  return llvm::none_of(assertions_, [&](const Op *assertion) {
    const std::optional<int64_t> holds = evaluate(assertion->operand(0), ranks, values, known);
    return holds && *holds == 0;
  });
}

/// Small values that assertions allow, where none of the usual ones are.
std::vector<SizeValues> LaunchSizes::search(int ranks) const {
  constexpr size_t kMostFound = 4;
  constexpr int64_t kMostTried = 20'000;
  std::vector<SizeValues> found;
  SizeValues values(symbols_.size(), 0);
  for (int64_t most = 1, tried = 0; tried < kMostTried && found.size() < kMostFound; most *= 2) {
    // All values up to `most` of which one was not tried before.
    values.assign(symbols_.size(), 0);
    for (bool isOver = symbols_.empty(); !isOver && found.size() < kMostFound;) {
      if (++tried > kMostTried)
        break;
      const bool isNew = most == 1 || llvm::any_of(values, [&](int64_t v) { return 2 * v > most; });
      if (isNew && isAllowed(ranks, values))
        found.push_back(values);
      isOver = true;
      for (int64_t &value : values) {
        isOver = ++value > most;
        if (!isOver)
          break;
        value = 0;
      }
    }
    if (symbols_.empty())
      break;
  }
  return found;
}

// Sizes of parameters.

std::optional<int64_t> LaunchSizes::evaluateOp(const Op &op, int ranks, const SizeValues &values,
                                               Known &known) const {
  if (op.is(OpKind::Const))
    return constantOf(op.result());
  if (op.is(OpKind::NumRanks))
    return ranks;
  if (op.is(OpKind::LaunchDim) || op.is(OpKind::ScalarParam)) {
    for (size_t s = 0; s < symbols_.size(); ++s)
      if (symbols_[s].dim == &op) {
        const auto factor = symbols_[s].factor ? evaluate(symbols_[s].factor, ranks, values, known)
                                               : std::optional<int64_t>(1);
        return factor ? std::optional(values[s] * *factor) : std::nullopt;
      }
    return std::nullopt;
  }
  llvm::SmallVector<int64_t, 2> operands;
  for (const Value *operand : op.operands()) {
    const std::optional<int64_t> value = evaluate(operand, ranks, values, known);
    if (!value)
      return std::nullopt;
    operands.push_back(*value);
  }
  switch (op.kind()) {
  case OpKind::Add:
    return operands[0] + operands[1];
  case OpKind::Sub:
    return operands[0] - operands[1];
  case OpKind::Mul:
    return operands[0] * operands[1];
  case OpKind::Div:
    return floorDiv(operands[0], operands[1]);
  case OpKind::Rem:
    return operands[0] - floorDiv(operands[0], operands[1]) * operands[1];
  case OpKind::Min:
    return std::min(operands[0], operands[1]);
  case OpKind::Max:
    return std::max(operands[0], operands[1]);
  case OpKind::Neg:
    return -operands[0];
  case OpKind::And:
    return operands[0] & operands[1];
  case OpKind::Or:
    return operands[0] | operands[1];
  case OpKind::Not:
    return op.operand(0)->type().dtype() == DType::Bool ? std::optional<int64_t>(operands[0] == 0)
                                                        : std::nullopt;
  case OpKind::Cmp:
    return compare(op.get(ir::attr::pred), operands[0], operands[1]);
  case OpKind::Cast:
    // Of a narrower integer, to a wider one.
    return op.result()->type().isIndex() ? std::optional(operands[0]) : std::nullopt;
  default:
    return std::nullopt;
  }
}

std::optional<int64_t> LaunchSizes::evaluate(const Value *value, int ranks,
                                             const SizeValues &values, Known &known) const {
  if (const auto it = known.find(value); it != known.end())
    return it->second;
  const Op *op = value->definingOp();
  const std::optional<int64_t> result =
      op && op->numRegions() == 0 ? evaluateOp(*op, ranks, values, known) : std::nullopt;
  known[value] = result;
  return result;
}

std::optional<std::vector<int64_t>> LaunchSizes::sizesOf(const Op &param, int ranks,
                                                         const SizeValues &values) const {
  Known known;
  std::vector<int64_t> sizes;
  for (const Value *operand : param.operands()) {
    const std::optional<int64_t> size = evaluate(operand, ranks, values, known);
    if (!size || *size < 0)
      return std::nullopt;
    sizes.push_back(*size);
  }
  return sizes;
}

} // namespace dtile::protocol
