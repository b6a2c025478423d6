// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Collectives and attention by their definitions.
#include "backend/ndarray/reference_ops.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace dtile::ndarray {

namespace {

llvm::Error wrong(const std::string &message) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), message);
}

/// `parts` equal parts along an axis.
llvm::Expected<PerRank> split(const NDArray &array, unsigned axis, size_t parts) {
  if (axis >= array.rank() || array.shape()[axis] % static_cast<int64_t>(parts) != 0)
    return wrong("dimension " + std::to_string(axis) + " of an array " + shapeText(array.shape()) +
                 " cannot be cut into " + std::to_string(parts) + " equal parts");
  const int64_t length = array.shape()[axis] / static_cast<int64_t>(parts);
  std::vector<SliceRange> ranges;
  for (unsigned d = 0; d <= axis; ++d)
    ranges.push_back({0, array.shape()[d], 1});
  PerRank result;
  for (size_t p = 0; p < parts; ++p) {
    ranges[axis] = {static_cast<int64_t>(p) * length, static_cast<int64_t>(p + 1) * length, 1};
    llvm::Expected<NDArray> part = slice(array, ranges);
    if (!part)
      return part.takeError();
    result.push_back(std::move(*part));
  }
  return result;
}

} // namespace

llvm::Expected<NDArray> allGather(const PerRank &inputs, unsigned axis) {
  return concat(inputs, axis);
}

llvm::Expected<NDArray> allReduce(const PerRank &inputs) {
  if (inputs.empty())
    return wrong("a sum over no ranks");
  NDArray total =
      cast(inputs[0], inputs[0].isIntegral() ? integerResult(inputs[0].dtype(), inputs[0].dtype())
                                             : DType::F64);
  for (size_t r = 1; r < inputs.size(); ++r) {
    if (inputs[r].shape() != total.shape())
      return wrong("rank 0 has an array " + shapeText(total.shape()) + " but rank " +
                   std::to_string(r) + " has " + shapeText(inputs[r].shape()));
    llvm::Expected<NDArray> sum = binary(Binary::Add, total, inputs[r]);
    if (!sum)
      return sum.takeError();
    total = std::move(*sum);
  }
  return total;
}

llvm::Expected<PerRank> reduceScatter(const PerRank &inputs, unsigned axis) {
  llvm::Expected<NDArray> total = allReduce(inputs);
  if (!total)
    return total.takeError();
  return split(*total, axis, inputs.size());
}

llvm::Expected<PerRank> allToAll(const PerRank &inputs, unsigned axis) {
  std::vector<PerRank> parts;
  for (const NDArray &input : inputs) {
    llvm::Expected<PerRank> cut = split(input, axis, inputs.size());
    if (!cut)
      return cut.takeError();
    parts.push_back(std::move(*cut));
  }
  PerRank result;
  for (size_t r = 0; r < inputs.size(); ++r) {
    PerRank received;
    for (const PerRank &sender : parts)
      received.push_back(sender[r]);
    llvm::Expected<NDArray> joined = concat(received, axis);
    if (!joined)
      return joined.takeError();
    result.push_back(std::move(*joined));
  }
  return result;
}

namespace {

struct AttentionSizes {
  int64_t heads = 1;
  int64_t keyHeads = 1;
  int64_t queries = 0;
  int64_t keys = 0;
  int64_t depth = 0;
  int64_t width = 0;
};

llvm::Expected<AttentionSizes> attentionSizes(const NDArray &q, const NDArray &k,
                                              const NDArray &v) {
  const unsigned rank = q.rank();
  AttentionSizes sizes;
  bool fits = (rank == 2 || rank == 3) && k.rank() == rank && v.rank() == rank;
  if (fits && rank == 3) {
    sizes.heads = q.shape()[0];
    sizes.keyHeads = k.shape()[0];
    fits = v.shape()[0] == sizes.keyHeads &&
           (sizes.heads == sizes.keyHeads ||
            (sizes.keyHeads > 0 && sizes.heads % sizes.keyHeads == 0));
  }
  if (fits) {
    sizes.queries = q.shape()[rank - 2];
    sizes.depth = q.shape()[rank - 1];
    sizes.keys = k.shape()[rank - 2];
    sizes.width = v.shape()[rank - 1];
    fits = k.shape()[rank - 1] == sizes.depth && v.shape()[rank - 2] == sizes.keys;
  }
  if (!fits)
    return wrong("attention of q " + shapeText(q.shape()) + ", k " + shapeText(k.shape()) +
                 " and v " + shapeText(v.shape()) +
                 ": they must be [heads, queries, depth], [heads, keys, depth] and "
                 "[heads, keys, width], or the same without heads");
  return sizes;
}

/// One query against the first `visible` keys.
void attendOne(const double *q, const double *k, const double *v, const AttentionSizes &sizes,
               int64_t visible, double scale, double *out) {
  std::vector<double> weight(visible);
  double largest = -std::numeric_limits<double>::infinity();
  for (int64_t j = 0; j < visible; ++j) {
    double score = 0;
    for (int64_t d = 0; d < sizes.depth; ++d)
      score += q[d] * k[j * sizes.depth + d];
    weight[j] = score * scale;
    largest = std::fmax(largest, weight[j]);
  }
  double total = 0;
  for (double &w : weight)
    total += w = std::exp(w - largest);
  for (int64_t j = 0; j < visible; ++j)
    for (int64_t e = 0; e < sizes.width; ++e)
      out[e] += weight[j] / total * v[j * sizes.width + e];
}

} // namespace

llvm::Expected<NDArray> attention(const NDArray &q, const NDArray &k, const NDArray &v,
                                  double scale, const AttentionMask &mask) {
  llvm::Expected<AttentionSizes> found = attentionSizes(q, k, v);
  if (!found)
    return found.takeError();
  const AttentionSizes &sizes = *found;
  const auto given = static_cast<int64_t>(mask.lengths.size());
  if (given > 1 && given != sizes.heads)
    return wrong("attention over " + std::to_string(sizes.heads) + " heads got " +
                 std::to_string(given) + " lengths");
  const std::vector<double> qs = q.toDoubles();
  const std::vector<double> ks = k.toDoubles();
  const std::vector<double> vs = v.toDoubles();
  Shape shape = q.shape();
  shape.back() = sizes.width;
  if (llvm::Error error = checkRoom(DType::F64, shape))
    return error;
  NDArray out(DType::F64, std::move(shape));
  auto *result = static_cast<double *>(out.data());
  const int64_t group = sizes.keyHeads == 0 ? 1 : sizes.heads / sizes.keyHeads;
  for (int64_t h = 0; h < sizes.heads; ++h) {
    int64_t length = sizes.keys;
    if (given != 0)
      length = std::clamp<int64_t>(mask.lengths[given == 1 ? 0 : h], 0, sizes.keys);
    for (int64_t i = 0; i < sizes.queries; ++i) {
      const int64_t causal = std::max<int64_t>(0, i + 1 + length - sizes.queries);
      const int64_t visible = mask.isCausal ? std::min(length, causal) : length;
      const int64_t row = h * sizes.queries + i;
      const int64_t keyHead = h / group;
      attendOne(qs.data() + row * sizes.depth, ks.data() + keyHead * sizes.keys * sizes.depth,
                vs.data() + keyHead * sizes.keys * sizes.width, sizes, visible, scale,
                result + row * sizes.width);
    }
  }
  return out;
}

} // namespace dtile::ndarray
