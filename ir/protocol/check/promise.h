// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What kernels promise of their outputs, apart from the syntax that says it.
#pragma once

#include "frontend/base/source_manager.h"

#include <string>
#include <vector>

namespace dtile::protocol {

/// An array that a promise computes from a kernel's arguments, on each rank.
struct PromisedArray {
  enum class Kind : uint8_t {
    /// The parameter `name`, as it was before the launch.
    Param,
    /// `number`, everywhere.
    Number,
    /// Of the operands; Product is the matrix product of two matrices, else elementwise.
    Sum,
    Difference,
    Product,
    /// Of matrices: [..., M, K] times [..., K, N].
    MatrixProduct,
    Negative,
    Transpose,
    /// Of all ranks' operand, along dimension 0.
    AllGather,
    AllReduce,
    ReduceScatter,
    AllToAll,
    /// What cannot be followed: `name` says what.
    Unknown,
  } kind = Kind::Unknown;
  std::string name;
  double number = 0;
  std::vector<PromisedArray> operands;
};

/// `ensures output ~= expected;`
struct Promise {
  std::string kernel;
  SourceRange place;
  std::string output;
  PromisedArray expected;
};

} // namespace dtile::protocol
