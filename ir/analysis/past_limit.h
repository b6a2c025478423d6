// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What elements of a tile are at positions past the limit of a block: loads give zeros there, and
// what is computed from these is a number like any other.
#pragma once

#include "ir/core/ir.h"

#include "llvm/ADT/DenseMap.h"

#include <functional>
#include <optional>

namespace dtile::ir {

/// The elements of a tile at positions of one dimension that are past a limit.
struct PastElement {
  enum class Kind : uint8_t {
    /// Not from memory past a limit, as far as is known.
    Plain,
    /// Other numbers at other positions.
    Position,
    /// What follows from zeros past a limit.
    FromZeros,
    /// A comparison of positions, or what is chosen by one: whoever wrote it has thought of them.
    Masked
  } kind = Kind::Plain;
  /// What all of them are, where that is known.
  std::optional<double> number;
  /// The load or gather that gave the zeros, and the dimension of what it gave.
  Op *load = nullptr;
  unsigned dim = 0;

  friend bool operator==(const PastElement &, const PastElement &) = default;
};

/// Follows tiles to the loads that they are made of. The kernel is inlined and does not change.
class PastLimit {
public:
  /// Whether a dimension of what an op loads may reach past a limit, or past its tensor.
  using MayPass = std::function<bool(Op &load, unsigned dim)>;
  explicit PastLimit(MayPass mayPass) : mayPass_(std::move(mayPass)) {}

  /// Without a dimension: of a value that is the same along it.
  PastElement of(Value *value, std::optional<unsigned> dim);

private:
  /// A value and a dimension of it; -1 where it is the same along it.
  using Key = std::pair<Value *, int>;
  using Known = llvm::DenseMap<Key, PastElement>;

  PastElement compute(Value *value, std::optional<unsigned> dim);
  PastElement ofArgument(Value *argument, std::optional<unsigned> dim);
  PastElement ofCarried(Value *argument, std::optional<unsigned> dim);
  PastElement ofLoad(Op &load, unsigned dim);
  PastElement ofGather(Op &gather, unsigned dim);
  PastElement ofElementwise(Op &op, std::optional<unsigned> dim);
  PastElement ofSelect(Op &select, std::optional<unsigned> dim);
  PastElement ofReshape(Op &reshape, unsigned dim);
  PastElement ofReduced(Op &reduce, std::optional<unsigned> dim);
  PastElement ofProduct(Op &dot, unsigned dim);

  MayPass mayPass_;
  Known known_;
  /// What is taken of values that loops carry, while their bodies are followed.
  Known assumed_;
  /// How many ops the value that is asked for is away.
  unsigned depth_ = 0;
};

} // namespace dtile::ir
