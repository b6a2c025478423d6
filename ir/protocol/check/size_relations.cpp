// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The difference of both sides is followed along one size at a time: small values one by one, as
// remainders go up and down, and larger ones by halves, as what is far from zero mostly grows. What
// is made of tiles, iterations and ranks is taken at their first and at their last.
#include "ir/protocol/check/size_relations.h"

#include "ir/core/tile_order.h"

#include "llvm/ADT/STLExtras.h"

#include <array>
#include <set>

namespace dtile::protocol {

using ir::Op;
using ir::OpKind;
using ir::Value;

namespace {

/// Values of a size that are tried one by one.
constexpr int64_t kMostTried = 40;
/// Sizes beyond take long to run.
constexpr int64_t kLargestSize = int64_t(1) << 12;
/// Choices for one number of ranks.
constexpr size_t kMostFound = 16;
/// How often differences are asked for, for one number of ranks.
constexpr int64_t kMostWork = 20'000;
/// More of a kernel's relations are not followed.
constexpr size_t kMostRelations = 32;

int sign(int64_t number) { return number < 0 ? -1 : number > 0 ? 1 : 0; }

/// The bounds of a number of a tile or an iteration; null where it is none.
const Op *countedBy(const Value *value, unsigned &firstOperand) {
  if (value->definingOp())
    return nullptr;
  const Op *op = value->argumentOf()->parentOp();
  firstOperand = 3 * value->index();
  const bool isTile = op->is(OpKind::Space) && value->index() < ir::spaceDims(*op);
  return isTile || (op->is(OpKind::For) && value->index() == 0) ? op : nullptr;
}

} // namespace

SizeRelations::SizeRelations(Op &kernel, const interpret::ControlSlice &slice,
                             const LaunchSizes &sizes)
    : sizes_(sizes) {
  walk(kernel, [&](Op &op) {
    if (!slice.doesRun(op) || op.enclosing(OpKind::SignalParam))
      return;
    if (op.is(OpKind::Cmp) && op.operand(0)->type().isIndex() && slice.isNeeded(op.result()))
      add(op.operand(0), op.operand(1));
    else if (op.is(OpKind::For))
      add(op.operand(1), op.operand(0));
  });
}

void SizeRelations::add(const Value *left, const Value *right) {
  Relation relation{.left = left, .right = right};
  if (relations_.size() < kMostRelations && addParts(left, relation) && addParts(right, relation) &&
      !relation.symbols.empty())
    relations_.push_back(std::move(relation));
}

/// False where the value is made of something that no launch says.
bool SizeRelations::addParts(const Value *value, Relation &relation) const {
  if (llvm::is_contained(relation.variables, value))
    return true;
  unsigned first = 0;
  if (const Op *counting = countedBy(value, first)) {
    for (const unsigned bound : {first, first + 1})
      if (!addParts(counting->operand(bound), relation))
        return false;
    relation.variables.push_back(value);
    return true;
  }
  const Op *op = value->definingOp();
  if (!op || op->numRegions() != 0)
    return false;
  if (op->is(OpKind::LaunchDim) || op->is(OpKind::ScalarParam)) {
    const auto found =
        llvm::find_if(sizes_.symbols(), [&](const SizeSymbol &symbol) { return symbol.dim == op; });
    if (found == sizes_.symbols().end())
      return false;
    const size_t symbol = found - sizes_.symbols().begin();
    if (!llvm::is_contained(relation.symbols, symbol))
      relation.symbols.push_back(symbol);
    return true;
  }
  if (op->is(OpKind::Rank)) {
    relation.variables.push_back(value);
    return true;
  }
  return (op->is(OpKind::NumRanks) || op->isPure()) &&
         llvm::all_of(op->operands(),
                      [&](const Value *operand) { return addParts(operand, relation); });
}

std::optional<int64_t> SizeRelations::difference(const Relation &relation, End end, int ranks,
                                                 const SizeValues &values) const {
  LaunchSizes::Known known;
  for (const Value *variable : relation.variables) {
    unsigned first = 0;
    const Op *counting = countedBy(variable, first);
    if (!counting) {
      known[variable] = end == End::First ? 0 : ranks - 1;
      continue;
    }
    const auto bound = [&](unsigned which) {
      return sizes_.valueOf(counting->operand(first + which), ranks, values, known);
    };
    const std::optional<int64_t> begin = bound(0), behind = bound(1);
    // Nothing is compared where there is no iteration.
    if (!begin || !behind || *begin >= *behind)
      return std::nullopt;
    known[variable] = end == End::First ? *begin : *behind - 1;
  }
  const std::optional<int64_t> left = sizes_.valueOf(relation.left, ranks, values, known);
  const std::optional<int64_t> right = sizes_.valueOf(relation.right, ranks, values, known);
  return left && right ? std::optional(*left - *right) : std::nullopt;
}

/// The first values of a size for which the difference has a sign that it does not have at the
/// base: zero first.
std::vector<int64_t> SizeRelations::turns(const Relation &relation, End end, int ranks,
                                          const SizeValues &base, size_t symbol,
                                          int64_t &work) const {
  const auto signAt = [&](int64_t value) -> std::optional<int> {
    --work;
    SizeValues values = base;
    values[symbol] = value;
    const std::optional<int64_t> found = difference(relation, end, ranks, values);
    return found ? std::optional(sign(*found)) : std::nullopt;
  };
  // By sign, from -1 on.
  std::array<std::optional<int64_t>, 3> firsts;
  const std::optional<int> atBase = signAt(base[symbol]);
  const auto see = [&](int64_t value, std::optional<int> at) {
    if (at && at != atBase && !firsts[*at + 1])
      firsts[*at + 1] = value;
  };
  std::optional<int> last;
  for (int64_t value = 0; value <= kMostTried; ++value)
    see(value, last = signAt(value));
  for (int64_t low = kMostTried, next = 2 * low; next <= kLargestSize; low = next, next *= 2) {
    const std::optional<int> there = signAt(next);
    if (there && last && there != last) {
      int64_t before = low, after = next;
      while (after - before > 1) {
        const int64_t middle = (before + after) / 2;
        (signAt(middle) == last ? before : after) = middle;
      }
      see(after, signAt(after));
      see(after + 1, signAt(after + 1));
    }
    last = there;
  }
  std::vector<int64_t> found;
  for (const int which : {1, 0, 2})
    if (firsts[which])
      found.push_back(*firsts[which]);
  return found;
}

/// Where one size alone does not solve the equation (`3 * M == 5 * N`), another one is small.
std::optional<SizeValues> SizeRelations::solveWithTwo(const Relation &relation, End end, int ranks,
                                                      const SizeValues &base, int64_t &work) const {
  for (const size_t other : relation.symbols)
    for (const size_t symbol : relation.symbols)
      for (int64_t small = 1; symbol != other && small <= kMostTried && work > 0; ++small) {
        SizeValues values = base;
        values[other] = small;
        for (const int64_t value : turns(relation, end, ranks, values, symbol, work)) {
          values[symbol] = value;
          if (value > 0 && difference(relation, end, ranks, values) == 0 &&
              sizes_.isAllowed(ranks, values))
            return values;
        }
      }
  return std::nullopt;
}

SizeRelations::Outcome SizeRelations::outcome(int ranks, const SizeValues &values) const {
  Outcome all;
  for (const Relation &relation : relations_)
    for (const End end : {End::First, End::Last}) {
      const std::optional<int64_t> found = difference(relation, end, ranks, values);
      all.push_back(found ? std::optional(sign(*found)) : std::nullopt);
    }
  return all;
}

std::vector<SizeValues> SizeRelations::solve(int ranks, llvm::ArrayRef<SizeValues> choices) const {
  if (relations_.empty())
    return {};
  std::set<Outcome> seen;
  std::vector<SizeValues> bases;
  const auto add = [&](const SizeValues &values) {
    const bool isNew =
        sizes_.isAllowed(ranks, values) && seen.insert(outcome(ranks, values)).second;
    if (isNew)
      bases.push_back(values);
    return isNew;
  };
  for (const SizeValues &values : choices)
    add(values);
  std::vector<SizeValues> found;
  int64_t work = kMostWork;
  const auto addFound = [&](const SizeValues &values) {
    if (found.size() < kMostFound && add(values))
      found.push_back(values);
  };
  const auto follow = [&](const Relation &relation, End end, const SizeValues &base) {
    bool isSolved = difference(relation, end, ranks, base) == 0;
    for (const size_t symbol : relation.symbols)
      for (const int64_t value : turns(relation, end, ranks, base, symbol, work)) {
        SizeValues values = base;
        values[symbol] = value;
        isSolved |= value > 0 && sizes_.isAllowed(ranks, values) &&
                    difference(relation, end, ranks, values) == 0;
        addFound(sizes_.allowed(ranks, values, symbol));
      }
    if (isSolved || relation.symbols.size() < 2)
      return;
    if (const auto values = solveWithTwo(relation, end, ranks, base, work))
      addFound(*values);
  };
  for (size_t b = 0; b < bases.size(); ++b)
    for (const Relation &relation : relations_)
      for (const End end : {End::First, End::Last})
        if ((end == End::First || !relation.variables.empty()) && found.size() < kMostFound &&
            work > 0)
          follow(relation, end, SizeValues(bases[b]));
  return found;
}

} // namespace dtile::protocol
