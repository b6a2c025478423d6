// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What kernels promise of their outputs, apart from the syntax that says it.
#pragma once

#include "frontend/base/source_manager.h"

#include <optional>
#include <string>
#include <vector>

namespace dtile::protocol {

/// An integer that a promise computes from a launch, on each rank.
struct PromisedNumber {
  enum class Kind : uint8_t {
    Constant,
    /// rank() and W.
    Rank,
    Ranks,
    /// The size or scalar `name`.
    Size,
    /// Dimension `number` of the parameter `name`.
    Dimension,
    /// Of the two operands; quotients round down.
    Sum,
    Difference,
    Product,
    Quotient,
    Remainder,
  } kind = Kind::Constant;
  int64_t number = 0;
  std::string name;
  std::vector<PromisedNumber> operands;
};

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
    /// Elementwise, of matrices too, as functions multiply.
    ElementProduct,
    /// Of matrices: [..., M, K] times [..., K, N].
    MatrixProduct,
    Negative,
    /// The dimensions in the order of `numbers`, which are constants; without any the other way
    /// round.
    Transpose,
    /// Of all ranks' operand, along dimension 0.
    AllGather,
    AllReduce,
    ReduceScatter,
    AllToAll,
    /// The operand of the rank that `numbers` names.
    FromRank,
    /// So many rows of the operand, from such a one on: `numbers` are both.
    Rows,
    /// The operands' rows, one after the other.
    Concat,
    /// The operand summed along dimension `numbers`, a constant; -1 is the last one.
    SumAlong,
    /// The operand's elements in order, with the sizes `numbers`.
    Reshape,
    /// A part of the operand. `name` has a letter a dimension, and `numbers` what these need: 'i' a
    /// position, 'r' from one to before another, 'a' from one on, 'b' before one, 'w' all of it.
    Slice,
    /// What cannot be followed: `name` says what.
    Unknown,
  } kind = Kind::Unknown;
  std::string name;
  double number = 0;
  std::vector<PromisedArray> operands;
  std::vector<PromisedNumber> numbers;
  /// Of what ranks make together: only those that differ in one axis of the mesh. How many places
  /// it has, and how far apart the ranks at two places beside each other are; empty for all ranks.
  std::vector<PromisedNumber> along;
};

/// `ensures output ~= expected;`, or of a part of the output.
struct Promise {
  std::string kernel;
  SourceRange place;
  std::string output;
  /// A Slice of the output, as it is written, where only that is promised.
  std::optional<PromisedArray> part;
  std::string partText;
  PromisedArray expected;
};

} // namespace dtile::protocol
