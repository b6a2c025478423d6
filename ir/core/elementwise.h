// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What elementwise operations are, by the table elementwise.def.
#pragma once

#include "ir/core/ir.h"

#include <optional>

namespace dtile::ir {

/// Which element types an operation of elementwise.def takes.
enum class ElementTypes : uint8_t { Number, Float, Bits, Integer };

/// The types of an operation that has a row in elementwise.def.
[[nodiscard]] constexpr std::optional<ElementTypes> elementTypes(OpKind kind) {
  switch (kind) {
#define ELEMENTWISE(KIND, ARITY, TYPES)                                                            \
  case OpKind::KIND:                                                                               \
    return ElementTypes::TYPES;
#include "ir/core/elementwise.def"
  default:
    return std::nullopt;
  }
}

/// Whether each element of the result follows from the operands' elements at its position.
[[nodiscard]] constexpr bool isElementwise(OpKind kind) {
  return elementTypes(kind) || kind == OpKind::Cmp || kind == OpKind::Select ||
         kind == OpKind::Cast || kind == OpKind::Extern || kind == OpKind::Asm;
}

} // namespace dtile::ir
