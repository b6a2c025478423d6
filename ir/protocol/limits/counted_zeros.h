// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Where zeros that loads give past a limit count: in a reduction for which they are not neutral,
// and as the place of an element that is updated.
#pragma once

#include "ir/core/ir.h"

#include <vector>

namespace dtile::protocol {

/// An op that takes elements from past a limit for elements of the tensor.
struct CountedZeros {
  enum class Kind : uint8_t {
    /// A reduction of them, or a product.
    Reduced,
    /// A sum of zeros, divided by how many there are.
    Averaged,
    /// They say which elements are written or updated.
    Indexed
  } kind = Kind::Reduced;
  ir::Op *op = nullptr;
  /// What read past the limit, and along which of its dimensions.
  ir::Op *load = nullptr;
  unsigned dim = 0;
  /// The tile that a mask would be for: what is reduced, or says positions; and along which of its
  /// dimensions.
  ir::Value *tile = nullptr;
  unsigned axis = 0;
};

/// Such ops of an inlined kernel, in order. Nothing of values that a comparison of positions masks,
/// and nothing where the zeros change no result.
[[nodiscard]] std::vector<CountedZeros> countedZeros(ir::Op &kernel);

} // namespace dtile::protocol
