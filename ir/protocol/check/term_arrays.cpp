// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The references that promises are made of, as in tests, on sums instead of numbers.
#include "ir/protocol/check/term_arrays.h"

#include "frontend/base/check.h"

#include "llvm/ADT/STLExtras.h"

#include <functional>
#include <numeric>

namespace dtile::protocol {

using interpret::TermId;
using Kind = PromisedArray::Kind;

std::string TermArray::sizesText() const {
  std::string text;
  for (const int64_t size : sizes)
    text += (text.empty() ? "" : ", ") + std::to_string(size);
  return "[" + text + "]";
}

std::string TermArray::positionText(int64_t element) const {
  std::string text;
  for (size_t d = sizes.size(); d-- > 0;) {
    text = std::to_string(element % std::max<int64_t>(1, sizes[d])) + (text.empty() ? "" : ", ") +
           text;
    element /= std::max<int64_t>(1, sizes[d]);
  }
  return "[" + text + "]";
}

std::optional<RankArrays> PromiseEvaluator::fail(std::string why) {
  if (why_.empty())
    why_ = std::move(why);
  return std::nullopt;
}

std::optional<RankArrays> PromiseEvaluator::elementwise(Kind kind, const RankArrays &a,
                                                        const RankArrays &b) {
  RankArrays all;
  for (int r = 0; r < ranks_; ++r) {
    const bool isScalarA = a[r].sizes.empty();
    const bool isScalarB = b[r].sizes.empty();
    if (!isScalarA && !isScalarB && a[r].sizes != b[r].sizes)
      return fail("its arrays have other shapes");
    TermArray out{isScalarA ? b[r].sizes : a[r].sizes, {}};
    const size_t count = std::max(a[r].elements.size(), b[r].elements.size());
    for (size_t i = 0; i < count; ++i) {
      const TermId x = a[r].elements[isScalarA ? 0 : i];
      const TermId y = b[r].elements[isScalarB ? 0 : i];
      out.elements.push_back(kind == Kind::Product      ? terms_.multiply(x, y)
                             : kind == Kind::Difference ? terms_.add(x, terms_.scale(y, -1))
                                                        : terms_.add(x, y));
    }
    all.push_back(std::move(out));
  }
  return all;
}

std::optional<RankArrays> PromiseEvaluator::matrixProduct(const RankArrays &a,
                                                          const RankArrays &b) {
  RankArrays all;
  for (int r = 0; r < ranks_; ++r) {
    const llvm::ArrayRef<int64_t> left = a[r].sizes, right = b[r].sizes;
    if (left.size() < 2 || left.size() != right.size() || left.drop_back(2) != right.drop_back(2) ||
        left.back() != right[right.size() - 2])
      return fail("its matrices do not fit");
    const int64_t m = left[left.size() - 2], length = left.back(), n = right.back();
    TermArray out{a[r].sizes, {}};
    out.sizes.back() = n;
    const auto batches =
        std::accumulate(left.begin(), left.end() - 2, int64_t(1), std::multiplies<>());
    out.elements.assign(batches * m * n, 0);
    for (int64_t row = 0; row < batches * m; ++row)
      for (int64_t k = 0; k < length; ++k)
        for (int64_t j = 0; j < n; ++j) {
          const TermId x = a[r].elements[row * length + k];
          const TermId y = b[r].elements[(row / m * length + k) * n + j];
          TermId &sum = out.elements[row * n + j];
          sum = terms_.add(sum, terms_.multiply(x, y));
        }
    all.push_back(std::move(out));
  }
  return all;
}

RankArrays PromiseEvaluator::allGather(const RankArrays &a) const {
  TermArray all = a.front();
  if (all.sizes.empty())
    all.sizes.push_back(1);
  for (int r = 1; r < ranks_; ++r) {
    all.sizes.front() += a[r].rows();
    llvm::append_range(all.elements, a[r].elements);
  }
  return RankArrays(ranks_, all);
}

std::optional<RankArrays> PromiseEvaluator::allReduce(const RankArrays &a) {
  TermArray sum = a.front();
  for (int r = 1; r < ranks_; ++r) {
    if (a[r].sizes != sum.sizes)
      return fail("ranks have arrays of other shapes");
    for (size_t i = 0; i < sum.elements.size(); ++i)
      sum.elements[i] = terms_.add(sum.elements[i], a[r].elements[i]);
  }
  return RankArrays(ranks_, sum);
}

/// Each rank's part of the sum, or of each rank's array in turn.
std::optional<RankArrays> PromiseEvaluator::parts(const RankArrays &a, bool isSum) {
  std::optional<RankArrays> whole = isSum ? allReduce(a) : std::optional(a);
  if (!whole)
    return std::nullopt;
  const int64_t rows = whole->front().rows();
  if (whole->front().sizes.empty() || rows % ranks_ != 0)
    return fail("its rows are not divisible by the number of ranks");
  RankArrays all;
  for (int r = 0; r < ranks_; ++r) {
    TermArray part{whole->front().sizes, {}};
    for (int from = 0; from < (isSum ? 1 : ranks_); ++from) {
      const TermArray &array = (*whole)[isSum ? r : from];
      const auto share = int64_t(array.elements.size()) / ranks_;
      part.elements.insert(part.elements.end(), array.elements.begin() + r * share,
                           array.elements.begin() + (r + 1) * share);
    }
    if (isSum)
      part.sizes.front() /= ranks_;
    all.push_back(std::move(part));
  }
  return all;
}

std::optional<RankArrays> PromiseEvaluator::reshape(RankArrays arrays,
                                                    llvm::ArrayRef<PromisedArray::Extent> extents) {
  for (int r = 0; r < ranks_; ++r) {
    llvm::SmallVector<int64_t, 4> sizes;
    int64_t elements = 1;
    for (const PromisedArray::Extent &extent : extents) {
      int64_t size = extent.number == 0 ? ranks_ : extent.number;
      if (!extent.param.empty()) {
        const auto it = arguments_.find(extent.param);
        if (it == arguments_.end())
          return fail("`" + extent.param + "` is no floating-point argument");
        size = it->second[r].sizes[size_t(extent.number)];
      }
      sizes.push_back(size);
      elements *= size;
    }
    if (elements != int64_t(arrays[r].elements.size()))
      return fail("what it reshapes has another number of elements");
    arrays[r].sizes.assign(sizes.begin(), sizes.end());
  }
  return arrays;
}

std::optional<RankArrays> PromiseEvaluator::evaluate(const PromisedArray &array) {
  std::vector<RankArrays> operands;
  for (const PromisedArray &operand : array.operands) {
    std::optional<RankArrays> value = evaluate(operand);
    if (!value)
      return std::nullopt;
    operands.push_back(std::move(*value));
  }
  switch (array.kind) {
  case Kind::Param: {
    const auto it = arguments_.find(array.name);
    if (it == arguments_.end())
      return fail("`" + array.name + "` is no floating-point argument");
    return it->second;
  }
  case Kind::Number:
    return RankArrays(ranks_, TermArray{{}, {terms_.constant(array.number)}});
  case Kind::Product:
    if (operands[0].front().sizes.size() == 2 && operands[1].front().sizes.size() == 2)
      return matrixProduct(operands[0], operands[1]);
    return elementwise(array.kind, operands[0], operands[1]);
  case Kind::MatrixProduct:
    return matrixProduct(operands[0], operands[1]);
  case Kind::Sum:
  case Kind::Difference:
    return elementwise(array.kind, operands[0], operands[1]);
  case Kind::Negative:
    for (TermArray &one : operands[0])
      for (TermId &element : one.elements)
        element = terms_.scale(element, -1);
    return std::move(operands[0]);
  case Kind::Transpose:
    for (TermArray &one : operands[0]) {
      if (one.sizes.size() != 2)
        return fail("what it transposes is no matrix");
      TermArray turned{{one.sizes[1], one.sizes[0]}, {}};
      for (int64_t j = 0; j < one.sizes[1]; ++j)
        for (int64_t i = 0; i < one.sizes[0]; ++i)
          turned.elements.push_back(one.elements[i * one.sizes[1] + j]);
      one = std::move(turned);
    }
    return std::move(operands[0]);
  case Kind::AllGather:
    return allGather(operands[0]);
  case Kind::AllReduce:
    return allReduce(operands[0]);
  case Kind::ReduceScatter:
    return parts(operands[0], /*isSum=*/true);
  case Kind::AllToAll:
    return parts(operands[0], /*isSum=*/false);
  case Kind::FromRank:
    if (array.number >= ranks_)
      return fail("it has the array of a rank that there is not");
    return RankArrays(ranks_, operands[0][size_t(array.number)]);
  case Kind::Reshape:
    return reshape(std::move(operands[0]), array.extents);
  case Kind::Unknown:
    return fail("it has " + array.name);
  }
  DTILE_UNREACHABLE("not a kind of array");
}

} // namespace dtile::protocol
