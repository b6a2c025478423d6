// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Classes of operations: those on each element, by their table.
#pragma once

#include "frontend/base/elementwise.h"
#include "ir/core/ir.h"

#include <optional>

namespace dtile::ir {

/// The types of an operation that has a row in elementwise.def.
[[nodiscard]] constexpr std::optional<ElementTypes> elementTypes(OpKind kind) {
  switch (kind) {
#define ELEMENTWISE(KIND, TEXT, ARITY, TYPES, CALL, DOC)                                           \
  case OpKind::KIND:                                                                               \
    return ElementTypes::TYPES;
#include "frontend/base/elementwise.def"
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
