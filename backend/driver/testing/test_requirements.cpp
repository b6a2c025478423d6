// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "backend/driver/testing/test_requirements.h"

#include "frontend/base/check.h"
#include "frontend/base/element_clauses.h"

#include <cstring>

namespace dtile::driver {

namespace {

using sema::Clause;

/// The clause and its arguments on one rank.
class ClauseCheck {
public:
  ClauseCheck(const sema::KernelInstance &kernel, const Clause &clause,
              llvm::ArrayRef<std::optional<TestValue>> inputs, llvm::ArrayRef<SolvedSizes> sizes)
      : kernel_(kernel), clause_(clause), inputs_(inputs), sizes_(sizes) {}

  /// Why it does not hold; empty where it does.
  [[nodiscard]] std::string violation(int rank) const;

private:
  [[nodiscard]] std::optional<int64_t> number(const sema::TExpr &e, int rank) const;
  [[nodiscard]] const Array &arrayOf(int rank) const {
    return *inputs_[clause_.param]->arrays[rank];
  }
  [[nodiscard]] std::string violationOfNumbers(int rank) const;
  [[nodiscard]] std::string violationBetween(int rank, clauses::Predicate predicate) const;

  const sema::KernelInstance &kernel_;
  const Clause &clause_;
  llvm::ArrayRef<std::optional<TestValue>> inputs_;
  llvm::ArrayRef<SolvedSizes> sizes_;
};

std::optional<int64_t> ClauseCheck::number(const sema::TExpr &e, int rank) const {
  std::vector<std::optional<int64_t>> scalars(inputs_.size());
  for (size_t i = 0; i < inputs_.size(); ++i)
    if (inputs_[i] && kernel_.params[i].type->kind == sema::TypeKind::Scalar &&
        isInteger(kernel_.params[i].type->dtype))
      scalars[i] = inputs_[i]->arrays[rank]->getInt(0);
  return launchNumber(e, sizes_[rank], scalars, int64_t(sizes_.size()));
}

/// An array as clauses see it; strides must stay.
clauses::Elements elementsOf(const Array &array, const std::vector<int64_t> &strides) {
  clauses::Elements elements;
  elements.data = array.data();
  elements.bytes = int(dtypeBytes(array.dtype()));
  elements.isSigned = dtypeClass(array.dtype()) == DTypeClass::Int;
  elements.rank = int(array.rank());
  elements.sizes = array.shape().data();
  elements.strides = strides.data();
  return elements;
}

/// Of the numbers that all ranks have together: once is enough.
std::string ClauseCheck::violationOfNumbers(int rank) const {
  const auto bound = number(*clause_.bound, rank);
  if (!bound)
    return "it cannot be computed before the launch";
  if (rank != 0 || !inputs_[clause_.other])
    return "";
  std::vector<int64_t> strides[2];
  const auto of = [&](unsigned param, std::vector<int64_t> &its) {
    return [&, param](int64_t owner) {
      const Array &array = *inputs_[param]->arrays[size_t(owner)];
      its = array.strides();
      return elementsOf(array, its);
    };
  };
  return clauses::numbersMissed(
      int64_t(sizes_.size()), *bound, of(clause_.param, strides[0]), of(clause_.other, strides[1]),
      kernel_.params[clause_.param].name.c_str(), kernel_.params[clause_.other].name.c_str());
}

std::string ClauseCheck::violationBetween(int rank, clauses::Predicate predicate) const {
  if (!inputs_[clause_.other])
    return "";
  const std::vector<int64_t> strides = arrayOf(rank).strides();
  std::vector<int64_t> itsStrides;
  const auto otherOf = [&](int64_t owner) {
    const Array &array = *inputs_[clause_.other]->arrays[size_t(owner)];
    itsStrides = array.strides();
    return elementsOf(array, itsStrides);
  };
  return clauses::violation(elementsOf(arrayOf(rank), strides), predicate,
                            {clause_.at, clause_.peer}, rank, int64_t(sizes_.size()), otherOf,
                            kernel_.params[clause_.param].name.c_str(),
                            kernel_.params[clause_.other].name.c_str());
}

std::string ClauseCheck::violation(int rank) const {
  if (clause_.isReplicated) {
    const std::optional<int64_t> first = number(*clause_.condition, 0);
    const std::optional<int64_t> own = number(*clause_.condition, rank);
    return own == first ? ""
                        : "it is " + std::to_string(own.value_or(-1)) + ", and " +
                              std::to_string(first.value_or(-1)) + " on rank 0";
  }
  const Array &array = arrayOf(rank);
  const std::string &name = kernel_.params[clause_.param].name;
  if (clause_.kind == Clause::Kind::Replicated) {
    const Array &first = arrayOf(0);
    const bool isSame =
        &array == &first || (array.shape() == first.shape() &&
                             std::memcmp(array.data(), first.data(), array.bytes()) == 0);
    return isSame ? "" : "`" + name + "` is not what it is on rank 0";
  }
  if (clause_.kind == Clause::Kind::EachOnce)
    return violationOfNumbers(rank);
  clauses::Kind kind{};
  clauses::Predicate predicate = clauses::Predicate::Eq;
  DTILE_CHECK(clauses::parseKind(sema::clauseKindName(clause_.kind).data(), kind),
              "a clause about elements");
  if (!clause_.predicate.empty())
    clauses::parsePredicate(clause_.predicate.c_str(), predicate);
  if (clause_.kind == Clause::Kind::Between)
    return violationBetween(rank, predicate);
  std::vector<int64_t> position;
  for (const sema::TExpr *e : clause_.position)
    position.push_back(number(*e, rank).value_or(-1));
  std::optional<int64_t> bound = 0;
  if (clause_.bound)
    bound = number(*clause_.bound, rank);
  if (!bound)
    return "it cannot be computed before the launch";
  const std::vector<int64_t> strides = array.strides();
  return clauses::violation(elementsOf(array, strides), kind, predicate, *bound, position.data(),
                            name.c_str());
}

} // namespace

std::optional<BrokenClause> findBrokenClause(const sema::KernelInstance &kernel,
                                             llvm::ArrayRef<std::optional<TestValue>> inputs,
                                             llvm::ArrayRef<SolvedSizes> sizes) {
  for (const Clause &clause : kernel.clauses) {
    const bool isAboutLaunch = clause.kind == Clause::Kind::Launch;
    if (isAboutLaunch ? !clause.isReplicated : !inputs[clause.param])
      continue;
    const ClauseCheck check(kernel, clause, inputs, sizes);
    for (int rank = 0; rank < int(sizes.size()); ++rank)
      if (std::string why = check.violation(rank); !why.empty())
        return BrokenClause{&clause, rank, std::move(why)};
  }
  return std::nullopt;
}

} // namespace dtile::driver
