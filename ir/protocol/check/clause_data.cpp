// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A choice is proposed, and taken where all clauses hold of it: how it was made does not matter.
#include "ir/protocol/check/clause_data.h"

#include "ir/analysis/clauses.h"

#include <algorithm>
#include <cstring>

namespace dtile::protocol {

using clauses::Elements;
using clauses::Kind;
using clauses::Predicate;
using ir::Op;

namespace {

/// Larger inputs stay zeros.
constexpr int64_t kMostElements = 1 << 20;

/// A clause with its numbers.
struct Known {
  ir::ElementClause clause;
  int64_t bound = 0;
  std::vector<int64_t> position;
};

class Filler {
public:
  Filler(const Op &param, const interpret::TensorArg &tensor) : param_(param), tensor_(tensor) {
    elements_.data = tensor.data;
    elements_.bytes = int(dtypeBytes(tensor.dtype));
    elements_.isSigned = dtypeClass(tensor.dtype) == DTypeClass::Int;
    elements_.rank = int(tensor.sizes.size());
    elements_.sizes = tensor_.sizes.data();
    elements_.strides = tensor_.strides.data();
    count_ = elements_.count();
  }

  bool run(LaunchValue valueOf);

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
  void bound();
  /// Writes the elements, and says whether they do.
  bool tryElements(std::vector<int64_t> values);
  [[nodiscard]] int64_t numberOf(const std::vector<int64_t> &position) const;
  /// Elements that clauses name, by number, and lines between them.
  [[nodiscard]] std::vector<int64_t> betweenNamed() const;
  [[nodiscard]] std::vector<int64_t> withSum(std::vector<int64_t> values) const;

  const Op &param_;
  const interpret::TensorArg &tensor_;
  Elements elements_;
  int64_t count_ = 0;
  std::vector<Known> known_;
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

bool Filler::run(LaunchValue valueOf) {
  for (const ir::Use &use : param_.result()->uses()) {
    const Op &op = *use.user;
    Known k;
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
  if (known_.empty() || holds())
    return true;
  if (count_ > kMostElements)
    return false;
  bound();
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

bool fillByClauses(const Op &param, const interpret::TensorArg &tensor, LaunchValue valueOf) {
  return Filler(param, tensor).run(valueOf);
}

} // namespace dtile::protocol
