// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Arrays whose elements are sums of inputs, and what promises compute with them. Private to
// ir/protocol.
#pragma once

#include "ir/interpret/terms.h"
#include "ir/protocol/check/promise.h"

#include "llvm/ADT/ArrayRef.h"

#include <map>
#include <optional>

namespace dtile::protocol {

/// A dense row-major array of sums.
struct TermArray {
  std::vector<int64_t> sizes;
  std::vector<interpret::TermId> elements;

  [[nodiscard]] int64_t rows() const { return sizes.empty() ? 1 : sizes.front(); }
  /// "[64, 32]".
  [[nodiscard]] std::string sizesText() const;
  /// "[3, 0]", of an element by its number.
  [[nodiscard]] std::string positionText(int64_t element) const;
};

/// One array a rank.
using RankArrays = std::vector<TermArray>;

/// Evaluates promises on all ranks at once.
class PromiseEvaluator {
public:
  /// `sizes` are those of the launch and its scalars that are integers, by their names.
  PromiseEvaluator(interpret::TermTable &terms, const std::map<std::string, RankArrays> &arguments,
                   const std::map<std::string, int64_t> &sizes, int ranks)
      : terms_(terms), arguments_(arguments), sizes_(sizes), ranks_(ranks) {}

  /// Nothing where it cannot be computed; whyNot() then says why.
  std::optional<RankArrays> evaluate(const PromisedArray &array);
  [[nodiscard]] const std::string &whyNot() const { return why_; }
  /// A part was asked for that is not there with these sizes.
  [[nodiscard]] bool isOutside() const { return isOutside_; }

private:
  using Groups = std::vector<std::vector<int>>;

  std::optional<RankArrays> fail(std::string why);
  std::optional<RankArrays> elementwise(PromisedArray::Kind kind, const RankArrays &a,
                                        const RankArrays &b);
  std::optional<RankArrays> matrixProduct(const RankArrays &a, const RankArrays &b);
  std::optional<RankArrays> allReduce(const RankArrays &a);
  std::optional<RankArrays> reshape(RankArrays arrays, llvm::ArrayRef<PromisedNumber> extents);
  std::optional<RankArrays> transpose(RankArrays arrays, llvm::ArrayRef<PromisedNumber> axes);
  std::optional<RankArrays> fromRank(const RankArrays &a, const PromisedNumber &from,
                                     const Groups &groups);
  std::optional<RankArrays> rows(const RankArrays &a, const PromisedNumber &count,
                                 const PromisedNumber &first);
  std::optional<RankArrays> slice(const RankArrays &a, const PromisedArray &slice);
  std::optional<RankArrays> sumAlong(const RankArrays &a, int64_t axis);
  std::optional<RankArrays> concat(llvm::ArrayRef<RankArrays> parts);
  std::optional<int64_t> number(const PromisedNumber &number, int rank);
  std::optional<RankArrays> parts(const RankArrays &a, bool isSum);
  RankArrays allGather(const RankArrays &a) const;
  /// The ranks that make something together; nothing where they are not known.
  std::optional<Groups> groupsOf(const PromisedArray &array);
  /// What each of these groups makes by itself.
  std::optional<RankArrays> together(PromisedArray::Kind kind, const RankArrays &a,
                                     const Groups &groups);

  interpret::TermTable &terms_;
  const std::map<std::string, RankArrays> &arguments_;
  const std::map<std::string, int64_t> &sizes_;
  int ranks_;
  std::string why_;
  bool isOutside_ = false;
};

} // namespace dtile::protocol
