// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Elements of inputs for runs and timings, as a kernel's clauses want them.
#pragma once

#include "ir/core/ir.h"
#include "ir/interpret/interpreter.h"

#include "llvm/ADT/STLFunctionalExtras.h"

#include <cstdint>
#include <optional>

namespace dtile::protocol {

/// What a value of the launch is; nothing where it is not known.
using LaunchValue = llvm::function_ref<std::optional<int64_t>(const ir::Value *)>;

/// Whose input it is.
struct OneRank {
  int64_t rank = 0;
  int64_t numRanks = 1;
};

/// Writes elements for which the clauses about an input hold into memory of zeros: zeros where
/// these do, else the first of a few simple choices. False where none was found.
[[nodiscard]] bool fillByClauses(const ir::Op &param, const interpret::TensorArg &tensor,
                                 LaunchValue valueOf, OneRank rank);

/// Writes random elements of those that the clauses about an input allow: evenly spread between
/// bounds, in order where they are sorted, once each where they are distinct. False where no clause
/// speaks of it, or none was found.
[[nodiscard]] bool drawByClauses(const ir::Op &param, const interpret::TensorArg &tensor,
                                 LaunchValue valueOf, OneRank rank, uint64_t seed);

} // namespace dtile::protocol
