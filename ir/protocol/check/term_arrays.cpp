// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The references that promises are made of, as in tests, on sums instead of numbers.
#include "ir/protocol/check/term_arrays.h"

#include "frontend/base/check.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
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
    // A number goes with each element of an array, of which there may be none.
    const size_t count = (isScalarA ? b : a)[r].elements.size();
    for (size_t i = 0; i < count; ++i) {
      const TermId x = a[r].elements[isScalarA ? 0 : i];
      const TermId y = b[r].elements[isScalarB ? 0 : i];
      out.elements.push_back(kind == Kind::ElementProduct ? terms_.multiply(x, y)
                             : kind == Kind::Difference   ? terms_.add(x, terms_.scale(y, -1))
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

/// Nothing, and why, where a name is not known.
std::optional<int64_t> PromiseEvaluator::number(const PromisedNumber &n, int rank) {
  using Number = PromisedNumber::Kind;
  std::vector<int64_t> operands;
  for (const PromisedNumber &operand : n.operands) {
    const std::optional<int64_t> value = number(operand, rank);
    if (!value)
      return std::nullopt;
    operands.push_back(*value);
  }
  const auto quotient = [&] {
    const int64_t q = operands[0] / operands[1];
    return q * operands[1] != operands[0] && (operands[0] < 0) != (operands[1] < 0) ? q - 1 : q;
  };
  switch (n.kind) {
  case Number::Constant:
    return n.number;
  case Number::Rank:
    return rank;
  case Number::Ranks:
    return ranks_;
  case Number::Size: {
    const auto it = sizes_.find(n.name);
    if (it != sizes_.end())
      return it->second;
    fail("`" + n.name + "` is no size that it follows");
    return std::nullopt;
  }
  case Number::Dimension: {
    const auto it = arguments_.find(n.name);
    if (it != arguments_.end())
      return it->second[rank].sizes[size_t(n.number)];
    fail("`" + n.name + "` is no argument of numbers");
    return std::nullopt;
  }
  case Number::Sum:
    return operands[0] + operands[1];
  case Number::Difference:
    return operands[0] - operands[1];
  case Number::Product:
    return operands[0] * operands[1];
  // As in programs, the quotient by zero is zero, and so is what is left.
  case Number::Quotient:
    return operands[1] == 0 ? 0 : quotient();
  case Number::Remainder:
    return operands[1] == 0 ? 0 : operands[0] - quotient() * operands[1];
  }
  DTILE_UNREACHABLE("not a kind of number");
}

std::optional<RankArrays> PromiseEvaluator::reshape(RankArrays arrays,
                                                    llvm::ArrayRef<PromisedNumber> extents) {
  for (int r = 0; r < ranks_; ++r) {
    std::vector<int64_t> sizes;
    int64_t elements = 1;
    for (const PromisedNumber &extent : extents) {
      const std::optional<int64_t> size = number(extent, r);
      if (!size)
        return std::nullopt;
      sizes.push_back(*size);
      elements *= *size;
    }
    if (elements != int64_t(arrays[r].elements.size()))
      return fail("what it reshapes has another number of elements");
    arrays[r].sizes.assign(sizes.begin(), sizes.end());
  }
  return arrays;
}

std::optional<RankArrays> PromiseEvaluator::transpose(RankArrays arrays,
                                                      llvm::ArrayRef<PromisedNumber> axes) {
  std::vector<int64_t> order;
  for (const PromisedNumber &axis : axes)
    order.push_back(axis.number);
  // Without axes in the other order.
  if (order.empty())
    for (size_t d = arrays.front().sizes.size(); d-- > 0;)
      order.push_back(int64_t(d));
  std::vector<int64_t> sorted = order;
  std::sort(sorted.begin(), sorted.end());
  for (size_t d = 0; d < sorted.size(); ++d)
    if (sorted[d] != int64_t(d))
      return fail("it transposes by axes that are no order");
  for (TermArray &one : arrays) {
    if (one.sizes.size() != order.size())
      return fail("it transposes by other axes than there are");
    TermArray turned;
    std::vector<int64_t> strides(order.size(), 1);
    for (size_t d = order.size(); d-- > 1;)
      strides[d - 1] = strides[d] * one.sizes[d];
    for (const int64_t axis : order)
      turned.sizes.push_back(one.sizes[size_t(axis)]);
    turned.elements.reserve(one.elements.size());
    std::vector<int64_t> at(order.size(), 0);
    for (size_t i = 0; i < one.elements.size(); ++i) {
      int64_t place = 0;
      for (size_t d = 0; d < order.size(); ++d)
        place += at[d] * strides[size_t(order[d])];
      turned.elements.push_back(one.elements[size_t(place)]);
      for (size_t d = order.size(); d > 0; --d) {
        if (++at[d - 1] < turned.sizes[d - 1])
          break;
        at[d - 1] = 0;
      }
    }
    one = std::move(turned);
  }
  return arrays;
}

std::optional<RankArrays>
PromiseEvaluator::fromRank(const RankArrays &a, const PromisedNumber &from, const Groups &groups) {
  RankArrays all(static_cast<size_t>(ranks_));
  for (const std::vector<int> &group : groups)
    for (const int r : group) {
      const std::optional<int64_t> of = number(from, r);
      if (!of)
        return std::nullopt;
      if (*of < 0 || *of >= int64_t(group.size()))
        return fail("it has the array of a rank that there is not");
      all[size_t(r)] = a[size_t(group[size_t(*of)])];
    }
  return all;
}

std::optional<PromiseEvaluator::Groups> PromiseEvaluator::groupsOf(const PromisedArray &array) {
  Groups groups;
  int64_t places = ranks_, stride = 1;
  if (!array.along.empty()) {
    // Ranks have axes alike.
    const std::optional<int64_t> known[] = {number(array.along[0], 0), number(array.along[1], 0)};
    if (!known[0] || !known[1])
      return std::nullopt;
    places = *known[0];
    stride = *known[1];
  }
  if (places < 1 || stride < 1 || ranks_ / stride < places || ranks_ % (places * stride) != 0) {
    fail("the axes of its mesh do not have as many places as there are ranks");
    return std::nullopt;
  }
  for (int r = 0; r < ranks_; ++r) {
    if (r / stride % places != 0)
      continue;
    std::vector<int> &group = groups.emplace_back();
    for (int64_t place = 0; place < places; ++place)
      group.push_back(r + int(place * stride));
  }
  return groups;
}

std::optional<RankArrays> PromiseEvaluator::together(Kind kind, const RankArrays &a,
                                                     const Groups &groups) {
  RankArrays all(static_cast<size_t>(ranks_));
  for (const std::vector<int> &group : groups) {
    RankArrays own;
    for (const int r : group)
      own.push_back(a[size_t(r)]);
    PromiseEvaluator alone(terms_, arguments_, sizes_, int(group.size()));
    std::optional<RankArrays> made = kind == Kind::AllGather ? alone.allGather(own)
                                     : kind == Kind::AllReduce
                                         ? alone.allReduce(own)
                                         : alone.parts(own, kind == Kind::ReduceScatter);
    if (!made)
      return fail(alone.why_);
    for (auto [r, array] : llvm::zip(group, *made))
      all[size_t(r)] = std::move(array);
  }
  return all;
}

std::optional<RankArrays> PromiseEvaluator::rows(const RankArrays &a, const PromisedNumber &count,
                                                 const PromisedNumber &first) {
  RankArrays all;
  for (int r = 0; r < ranks_; ++r) {
    const std::optional<int64_t> rows = number(count, r);
    const std::optional<int64_t> begin = number(first, r);
    if (!rows || !begin)
      return std::nullopt;
    if (a[r].sizes.empty() || *rows < 0 || *begin < 0 || *begin + *rows > a[r].rows())
      return fail("it takes rows that there are not");
    TermArray part{a[r].sizes, {}};
    part.sizes.front() = *rows;
    const int64_t row = a[r].rows() == 0 ? 0 : int64_t(a[r].elements.size()) / a[r].rows();
    part.elements.assign(a[r].elements.begin() + *begin * row,
                         a[r].elements.begin() + (*begin + *rows) * row);
    all.push_back(std::move(part));
  }
  return all;
}

std::optional<RankArrays> PromiseEvaluator::slice(const RankArrays &a, const PromisedArray &slice) {
  RankArrays all;
  for (int r = 0; r < ranks_; ++r) {
    const TermArray &whole = a[r];
    if (whole.sizes.size() != slice.name.size())
      return fail("it has indices for other dimensions");
    struct Dim {
      int64_t first, count, stride;
    };
    std::vector<Dim> dims;
    TermArray part;
    const PromisedNumber *next = slice.numbers.data();
    for (size_t d = 0; d < whole.sizes.size(); ++d) {
      const char form = slice.name[d];
      int64_t bounds[2] = {0, whole.sizes[d]};
      for (const bool isEnd : {false, true}) {
        const bool isGiven = isEnd ? form == 'r' || form == 'b' : form != 'b' && form != 'w';
        if (!isGiven)
          continue;
        const std::optional<int64_t> value = number(*next++, r);
        if (!value)
          return std::nullopt;
        bounds[isEnd] = *value;
      }
      if (form == 'i')
        bounds[1] = bounds[0] + 1;
      if (bounds[0] < 0 || bounds[1] > whole.sizes[d]) {
        isOutside_ = true;
        return fail("it names elements that there are not");
      }
      for (Dim &outer : dims)
        outer.stride *= whole.sizes[d];
      dims.push_back({bounds[0], std::max<int64_t>(bounds[1] - bounds[0], 0), 1});
      if (form != 'i')
        part.sizes.push_back(dims.back().count);
    }
    const auto copy = [&](const auto &self, size_t d, int64_t at) -> void {
      if (d == dims.size())
        return part.elements.push_back(whole.elements[size_t(at)]);
      for (int64_t i = 0; i < dims[d].count; ++i)
        self(self, d + 1, at + (dims[d].first + i) * dims[d].stride);
    };
    copy(copy, 0, 0);
    all.push_back(std::move(part));
  }
  return all;
}

std::optional<RankArrays> PromiseEvaluator::sumAlong(const RankArrays &a, int64_t axis) {
  RankArrays all;
  for (const TermArray &array : a) {
    const auto rank = int64_t(array.sizes.size());
    if (axis < -rank || axis >= rank)
      return fail("it sums along a dimension that there is not");
    const auto along = size_t(axis < 0 ? axis + rank : axis);
    const int64_t length = array.sizes[along];
    int64_t outer = 1, inner = 1;
    TermArray out;
    for (size_t d = 0; d < array.sizes.size(); ++d) {
      if (d != along)
        out.sizes.push_back(array.sizes[d]);
      (d < along ? outer : inner) *= d == along ? 1 : array.sizes[d];
    }
    for (int64_t o = 0; o < outer; ++o)
      for (int64_t i = 0; i < inner; ++i) {
        TermId sum = 0;
        for (int64_t at = 0; at < length; ++at)
          sum = terms_.add(sum, array.elements[size_t((o * length + at) * inner + i)]);
        out.elements.push_back(sum);
      }
    all.push_back(std::move(out));
  }
  return all;
}

std::optional<RankArrays> PromiseEvaluator::concat(llvm::ArrayRef<RankArrays> parts) {
  RankArrays all = parts.front();
  for (const RankArrays &part : parts.drop_front())
    for (int r = 0; r < ranks_; ++r) {
      TermArray &whole = all[r];
      if (whole.sizes.empty() || part[r].sizes.size() != whole.sizes.size() ||
          !std::equal(whole.sizes.begin() + 1, whole.sizes.end(), part[r].sizes.begin() + 1))
        return fail("it puts rows of other lengths together");
      whole.sizes.front() += part[r].rows();
      llvm::append_range(whole.elements, part[r].elements);
    }
  return all;
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
      return fail("`" + array.name + "` is no argument of numbers");
    return it->second;
  }
  case Kind::Number:
    return RankArrays(ranks_, TermArray{{}, {terms_.constant(array.number)}});
  case Kind::Product:
    if (operands[0].front().sizes.size() == 2 && operands[1].front().sizes.size() == 2)
      return matrixProduct(operands[0], operands[1]);
    return elementwise(Kind::ElementProduct, operands[0], operands[1]);
  case Kind::MatrixProduct:
    return matrixProduct(operands[0], operands[1]);
  case Kind::Sum:
  case Kind::Difference:
  case Kind::ElementProduct:
    return elementwise(array.kind, operands[0], operands[1]);
  case Kind::Negative:
    for (TermArray &one : operands[0])
      for (TermId &element : one.elements)
        element = terms_.scale(element, -1);
    return std::move(operands[0]);
  case Kind::Transpose:
    return transpose(std::move(operands[0]), array.numbers);
  case Kind::AllGather:
  case Kind::AllReduce:
  case Kind::ReduceScatter:
  case Kind::AllToAll:
  case Kind::FromRank: {
    const std::optional<Groups> groups = groupsOf(array);
    if (!groups)
      return std::nullopt;
    return array.kind == Kind::FromRank ? fromRank(operands[0], array.numbers[0], *groups)
                                        : together(array.kind, operands[0], *groups);
  }
  case Kind::Rows:
    return rows(operands[0], array.numbers[0], array.numbers[1]);
  case Kind::Concat:
    return concat(operands);
  case Kind::SumAlong:
    return sumAlong(operands[0], array.numbers[0].number);
  case Kind::Reshape:
    return reshape(std::move(operands[0]), array.numbers);
  case Kind::Slice:
    return slice(operands[0], array);
  case Kind::Unknown:
    return fail("it has " + array.name);
  }
  DTILE_UNREACHABLE("not a kind of array");
}

} // namespace dtile::protocol
