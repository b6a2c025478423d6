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
    /// The operand of rank `number`, on all ranks.
    FromRank,
    /// The operand's elements in order, with the sizes `extents`.
    Reshape,
    /// What cannot be followed: `name` says what.
    Unknown,
  } kind = Kind::Unknown;
  std::string name;
  double number = 0;
  std::vector<PromisedArray> operands;
  /// A size: of a dimension of the parameter `param`, or, where that is empty, `number`; 0 stands
  /// for the number of ranks.
  struct Extent {
    std::string param;
    int64_t number = 0;
  };
  std::vector<Extent> extents;
};

/// `ensures output ~= expected;`
struct Promise {
  std::string kernel;
  SourceRange place;
  std::string output;
  PromisedArray expected;
};

} // namespace dtile::protocol
