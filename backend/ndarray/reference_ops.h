// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What collectives and attention should give, on arrays of all ranks at once: the right-hand sides
// of tests.
#pragma once

#include "backend/ndarray/ndarray.h"

#include <vector>

namespace dtile::ndarray {

/// One array a rank, in rank order.
using PerRank = std::vector<NDArray>;

/// The ranks' arrays one after the other along `axis`; the same on every rank. They may differ in
/// that size.
llvm::Expected<NDArray> allGather(const PerRank &inputs, unsigned axis = 0);
/// The sum over ranks, in rank order; the same on every rank. f64 or i64.
llvm::Expected<NDArray> allReduce(const PerRank &inputs);
/// The sum over ranks, cut into equal parts along `axis`: part r belongs to rank r.
llvm::Expected<PerRank> reduceScatter(const PerRank &inputs, unsigned axis = 0);
/// Each array is cut into equal parts along `axis`; rank r gets part r of each rank, in rank order.
llvm::Expected<PerRank> allToAll(const PerRank &inputs, unsigned axis = 0);

/// What attention leaves out.
struct AttentionMask {
  /// Query i of Q sees keys up to i + (length - Q): the last query sees all.
  bool isCausal = false;
  /// How many of the keys exist: one number for all heads, or one for each; empty: all keys.
  std::vector<int64_t> lengths = {};
};

/// softmax(q kᵀ · scale) v in f64. q is [Q, D], k [K, D], v [K, E]; with a leading dimension of
/// batch entries or heads on all three, one by one: [B, Q, D] …; k and v may have fewer, dividing
/// q's (grouped query heads: q's head h uses k's head h / (Hq / Hk)). A query that sees no key
/// gives zeros.
llvm::Expected<NDArray> attention(const NDArray &q, const NDArray &k, const NDArray &v,
                                  double scale, const AttentionMask &mask = {});

} // namespace dtile::ndarray
