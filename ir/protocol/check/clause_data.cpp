// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A choice is proposed, and taken where all clauses hold of it: how it was made does not matter.
#include "ir/protocol/check/clause_data.h"

#include "ir/analysis/clauses.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>

namespace dtile::protocol {

using clauses::Elements;
using clauses::Kind;
using clauses::Predicate;
using ir::Op;

namespace {

/// Larger inputs stay zeros.
constexpr int64_t kMostElements = 1 << 20;
/// The same of inputs that are drawn, once and not for each run.
constexpr int64_t kMostDrawn = 1 << 25;

/// A clause with its numbers.
struct Known {
  ir::ElementClause clause;
  int64_t bound = 0;
  std::vector<int64_t> position;
};

class Filler {
public:
  Filler(const Op &param, const interpret::TensorArg &tensor, OneRank rank)
      : param_(param), tensor_(tensor), rank_(rank) {
    elements_.data = tensor.data;
    elements_.bytes = int(dtypeBytes(tensor.dtype));
    elements_.isSigned = dtypeClass(tensor.dtype) == DTypeClass::Int;
    elements_.rank = int(tensor.sizes.size());
    elements_.sizes = tensor_.sizes.data();
    elements_.strides = tensor_.strides.data();
    count_ = elements_.count();
  }

  bool run(LaunchValue valueOf);
  bool draw(LaunchValue valueOf, uint64_t seed);

private:
  [[nodiscard]] bool holds() const {
    return std::all_of(known_.begin(), known_.end(), [&](const Known &k) {
      return clauses::violation(elements_, k.clause.kind, k.clause.predicate, k.bound,
                                k.position.data(), "")
          .empty();
    });
  }
  [[nodiscard]] bool hasKind(Kind kind) const {
    return std::any_of(known_.begin(), known_.end(),
                       [&](const Known &k) { return k.clause.kind == kind; });
  }
  /// Reads the clauses, and says whether all their numbers are known.
  bool readClauses(LaunchValue valueOf);
  void bound();
  bool addBetween(const Op &clause, LaunchValue valueOf);
  bool tryNumbers(const Op &clause, LaunchValue valueOf);
  /// Writes the elements, and says whether they do.
  bool tryElements(std::vector<int64_t> values);
  [[nodiscard]] int64_t numberOf(const std::vector<int64_t> &position) const;
  /// The first of a few simple choices for which the clauses hold; false where none does.
  bool fill();
  [[nodiscard]] std::vector<int64_t> drawn(std::mt19937_64 &random) const;
  /// Elements that clauses name, by number, and lines between them.
  [[nodiscard]] std::vector<int64_t> betweenNamed() const;
  [[nodiscard]] std::vector<int64_t> withSum(std::vector<int64_t> values) const;

  const Op &param_;
  const interpret::TensorArg &tensor_;
  OneRank rank_;
  Elements elements_;
  int64_t count_ = 0;
  std::vector<Known> known_;
  /// The clause about numbers that all ranks have together; null where there is none.
  const Op *numbers_ = nullptr;
  int64_t low_ = INT64_MIN, high_ = INT64_MAX;
};

/// A number that the comparison allows, nearest to the bound.
int64_t allowed(Predicate predicate, int64_t bound) {
  switch (predicate) {
  case Predicate::Lt:
    return bound - 1;
  case Predicate::Gt:
  case Predicate::Ne:
    return bound + 1;
  default:
    return bound;
  }
}

void Filler::bound() {
  for (const Known &k : known_) {
    if (k.clause.kind != Kind::All)
      continue;
    const int64_t nearest = allowed(k.clause.predicate, k.bound);
    const Predicate p = k.clause.predicate;
    if (p == Predicate::Lt || p == Predicate::Le || p == Predicate::Eq)
      high_ = std::min(high_, nearest);
    if (p == Predicate::Gt || p == Predicate::Ge || p == Predicate::Eq)
      low_ = std::max(low_, nearest);
  }
}

int64_t Filler::numberOf(const std::vector<int64_t> &position) const {
  int64_t number = 0;
  for (int d = 0; d < elements_.rank; ++d) {
    if (position[d] < 0 || position[d] >= elements_.sizes[d])
      return -1;
    number = number * elements_.sizes[d] + position[d];
  }
  return number;
}

bool Filler::tryElements(std::vector<int64_t> values) {
  for (int64_t i = 0; i < count_; ++i) {
    int64_t number = i, offset = 0;
    for (int d = elements_.rank; d-- > 0; number /= elements_.sizes[d])
      offset += number % elements_.sizes[d] * elements_.strides[d];
    char *at = static_cast<char *>(tensor_.data) + offset * elements_.bytes;
    // Little end first.
    std::memcpy(at, &values[size_t(i)], size_t(elements_.bytes));
    if (elements_.load(offset) != values[size_t(i)])
      return false;
  }
  return holds();
}

std::vector<int64_t> Filler::betweenNamed() const {
  const int64_t usual = std::clamp<int64_t>(0, low_, std::max(low_, high_));
  std::vector<std::pair<int64_t, int64_t>> named;
  for (const Known &k : known_)
    if (k.clause.kind == Kind::Element)
      if (const int64_t number = numberOf(k.position); number >= 0)
        named.emplace_back(number, allowed(k.clause.predicate, k.bound));
  std::sort(named.begin(), named.end());
  std::vector<int64_t> values(size_t(count_), usual);
  if (named.empty())
    return values;
  for (int64_t i = 0; i < named.front().first; ++i)
    values[size_t(i)] = named.front().second;
  for (size_t n = 0; n < named.size(); ++n) {
    const auto [first, from] = named[n];
    const auto [last, to] = n + 1 < named.size() ? named[n + 1] : std::pair(count_, from);
    for (int64_t i = first; i < last; ++i)
      values[size_t(i)] =
          from + int64_t(__int128(to - from) * (i - first) / std::max<int64_t>(1, last - first));
  }
  return values;
}

std::vector<int64_t> Filler::withSum(std::vector<int64_t> values) const {
  for (const Known &k : known_) {
    if (k.clause.kind != Kind::Sum || count_ == 0)
      continue;
    __int128 sum = 0;
    for (const int64_t value : values)
      sum += value;
    const __int128 missing = allowed(k.clause.predicate, k.bound) - sum;
    const int64_t each = int64_t(missing / count_);
    int64_t rest = int64_t(missing % count_);
    for (size_t i = values.size(); i-- > 0;) {
      values[i] += each + (rest > 0) - (rest < 0);
      rest -= (rest > 0) - (rest < 0);
    }
    break;
  }
  return values;
}

/// What elements of another input may be at the least, or at the most, bounds those of this one.
bool Filler::addBetween(const Op &clause, LaunchValue valueOf) {
  Known k;
  if (!clauses::parsePredicate(clause.get(ir::attr::pred).str().c_str(), k.clause.predicate))
    return false;
  k.clause.kind = Kind::All;
  const Predicate p = k.clause.predicate;
  const bool isBelow = p == Predicate::Lt || p == Predicate::Le;
  if (!isBelow && p != Predicate::Gt && p != Predicate::Ge)
    return false;
  std::optional<int64_t> bound;
  for (const ir::Use &use : clause.operand(1)->definingOp()->result()->uses()) {
    const Op &op = *use.user;
    ir::ElementClause its;
    if (!op.is(ir::OpKind::LaunchElements) || !ir::decode(op, its) || its.kind != Kind::All)
      continue;
    const Predicate q = its.predicate;
    const bool isLeast = q == Predicate::Ge || q == Predicate::Gt || q == Predicate::Eq;
    const bool isMost = q == Predicate::Le || q == Predicate::Lt || q == Predicate::Eq;
    const auto number = (isBelow ? isLeast : isMost) ? valueOf(op.operand(1)) : std::nullopt;
    if (!number)
      continue;
    const int64_t nearest = allowed(q, *number);
    bound = !bound ? nearest : isBelow ? std::max(*bound, nearest) : std::min(*bound, nearest);
  }
  if (!bound)
    return false;
  k.bound = *bound;
  known_.push_back(std::move(k));
  return true;
}

/// Numbers that all ranks have together are dealt in equal parts; each rank's fill its lists from
/// the first one on.
bool Filler::tryNumbers(const Op &clause, LaunchValue valueOf) {
  const Op &lists = *clause.operand(0)->definingOp();
  const auto length = valueOf(lists.operand(lists.numOperands() - 1));
  const auto all = valueOf(clause.operand(2));
  if (!length || !all || *all < 0 || *all % rank_.numRanks != 0)
    return false;
  const int64_t each = *all / rank_.numRanks;
  const bool isCounts = &lists != &param_;
  std::vector<int64_t> values(static_cast<size_t>(count_));
  int64_t left = each;
  for (int64_t i = 0; i < count_ && left > 0; ++i) {
    values[size_t(i)] = isCounts ? std::min(left, *length) : rank_.rank * each + i;
    left -= isCounts ? values[size_t(i)] : 1;
    if (values[size_t(i)] == 0 && isCounts)
      break;
  }
  return left <= 0 && tryElements(std::move(values));
}

bool Filler::readClauses(LaunchValue valueOf) {
  for (const ir::Use &use : param_.result()->uses()) {
    const Op &op = *use.user;
    Known k;
    if (op.is(ir::OpKind::LaunchElements) && op.has(ir::attr::at)) {
      if (use.index == 0 && !addBetween(op, valueOf))
        return false;
      continue;
    }
    if (op.is(ir::OpKind::LaunchElements) && op.get(ir::attr::kind) == "each_once") {
      numbers_ = &op;
      continue;
    }
    // All ranks get the same.
    if (!op.is(ir::OpKind::LaunchElements) || !ir::decode(op, k.clause))
      continue;
    const unsigned last = op.numOperands() - (op.has(ir::attr::pred) ? 1 : 0);
    for (unsigned i = 1; i < op.numOperands(); ++i) {
      const auto number = valueOf(op.operand(i));
      if (!number)
        return false;
      if (i < last)
        k.position.push_back(*number);
      else
        k.bound = *number;
    }
    known_.push_back(std::move(k));
  }
  return true;
}

/// Numbers from `low` to `high`, as the clauses of one array are likely to want them.
std::vector<int64_t> Filler::drawn(std::mt19937_64 &random) const {
  std::vector<int64_t> values(static_cast<size_t>(count_));
  const uint64_t choices = uint64_t(high_) - uint64_t(low_) + 1;
  if (hasKind(Kind::Distinct) && choices <= uint64_t(kMostDrawn) && choices >= uint64_t(count_)) {
    std::vector<int64_t> all(static_cast<size_t>(choices));
    std::iota(all.begin(), all.end(), low_);
    std::shuffle(all.begin(), all.end(), random);
    std::copy_n(all.begin(), values.size(), values.begin());
  } else {
    std::uniform_int_distribution<int64_t> any(low_, high_);
    for (int64_t &value : values)
      value = any(random);
  }
  if (hasKind(Kind::Sorted))
    std::sort(values.begin(), values.end());
  for (const Known &k : known_)
    if (k.clause.kind == Kind::Element)
      if (const int64_t number = numberOf(k.position); number >= 0)
        values[size_t(number)] = allowed(k.clause.predicate, k.bound);
  return hasKind(Kind::Sum) ? withSum(std::move(values)) : values;
}

bool Filler::draw(LaunchValue valueOf, uint64_t seed) {
  if (!readClauses(valueOf) || count_ > kMostDrawn)
    return false;
  if (numbers_)
    return tryNumbers(*numbers_, valueOf);
  bound();
  if (known_.empty())
    return false;
  std::mt19937_64 random(seed);
  if (low_ != INT64_MIN && high_ != INT64_MAX && low_ <= high_ && tryElements(drawn(random)))
    return true;
  return fill();
}

bool Filler::run(LaunchValue valueOf) {
  if (!readClauses(valueOf))
    return false;
  if (count_ <= kMostElements && numbers_)
    return tryNumbers(*numbers_, valueOf);
  if (!numbers_ && (known_.empty() || holds()))
    return true;
  if (count_ > kMostElements)
    return false;
  bound();
  return fill();
}

bool Filler::fill() {
  std::vector<int64_t> same = betweenNamed();
  std::vector<int64_t> counted(static_cast<size_t>(count_));
  const int64_t first = low_ == INT64_MIN ? std::min<int64_t>(0, high_) : low_;
  for (int64_t i = 0; i < count_; ++i)
    counted[size_t(i)] = first + i;
  const std::vector<int64_t> most(size_t(count_), high_ == INT64_MAX ? first : high_);
  if (hasKind(Kind::Sum) && tryElements(withSum(same)))
    return true;
  for (std::vector<int64_t> &values : std::vector{same, counted, most})
    if (tryElements(values))
      return true;
  tryElements(std::vector<int64_t>(size_t(count_), 0));
  return false;
}

} // namespace

bool fillByClauses(const Op &param, const interpret::TensorArg &tensor, LaunchValue valueOf,
                   OneRank rank) {
  return Filler(param, tensor, rank).run(valueOf);
}

bool drawByClauses(const Op &param, const interpret::TensorArg &tensor, LaunchValue valueOf,
                   OneRank rank, uint64_t seed) {
  return Filler(param, tensor, rank).draw(valueOf, seed);
}

} // namespace dtile::protocol
