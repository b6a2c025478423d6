// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Where boxes begin along their innermost dimension: TMA wants a multiple of 16 bytes, and ends a
// kernel with an illegal instruction elsewhere (measured on an H200; the PTX ISA does not say so).
#pragma once

#include "ir/analysis/boxes/tensor_box.h"

namespace dtile::ir {

/// What boxes begin at multiples of along their innermost dimension, in bytes.
inline constexpr int64_t kBoxStartBytes = 16;

/// The numbers of a launch (sizes, scalars, and what follows from these, from the rank and from
/// the number of ranks) that have to be multiples of so many elements, so that the box begins at
/// such a multiple in every iteration and body. Nothing where it may begin elsewhere.
[[nodiscard]] std::optional<llvm::SmallVector<Value *, 2>> wholesOfStart(const TensorBox &box,
                                                                         int64_t elements);

/// Moves what such a number follows from out of the space, so that the launch can compute it.
void moveToLaunch(Value &number);

} // namespace dtile::ir
