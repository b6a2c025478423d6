// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Classes of operations: those on each element, on tiles and on views, by their tables.
#pragma once

#include "frontend/base/elementwise.h"
#include "ir/core/ir.h"

#include <optional>

namespace dtile::ir {

/// Integers of fewer bytes are widened before they say where an element of a tile is: its position
/// might not be one of them.
inline constexpr unsigned kLeastPositionBytes = 4;

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

/// The operation on one element that an op computes; nothing where it has no Unary row.
[[nodiscard]] constexpr std::optional<UnaryOp> unaryOp(OpKind kind) {
  switch (kind) {
#define DTILE_Unary(KIND)                                                                          \
  case OpKind::KIND:                                                                               \
    return UnaryOp::KIND;
#define DTILE_Binary(KIND)
#define ELEMENTWISE(KIND, TEXT, ARITY, TYPES, CALL, DOC) DTILE_##ARITY(KIND)
#include "frontend/base/elementwise.def"
#undef DTILE_Unary
#undef DTILE_Binary
  default:
    return std::nullopt;
  }
}

/// Whether each element of the result follows from the operands' elements at its position.
[[nodiscard]] constexpr bool isElementwise(OpKind kind) {
  return elementTypes(kind) || kind == OpKind::Cmp || kind == OpKind::Select ||
         kind == OpKind::Cast || kind == OpKind::Bitcast || kind == OpKind::Extern ||
         kind == OpKind::Asm;
}

/// Whether it has a row in tile_ops.def: it computes from whole tiles, or makes one of a scalar.
[[nodiscard]] constexpr bool isTileOp(OpKind kind) {
  switch (kind) {
#define OP(KIND, TEXT, OPERANDS, RESULTS, REGIONS, EFFECTS, DOC) case OpKind::KIND:
#include "ir/core/tile_ops.def"
#undef OP
    return true;
  default:
    return false;
  }
}

/// Whether it has a row in view_ops.def.
[[nodiscard]] constexpr bool isViewOp(OpKind kind) {
  switch (kind) {
#define OP(KIND, TEXT, OPERANDS, RESULTS, REGIONS, EFFECTS, DOC) case OpKind::KIND:
#include "ir/core/view_ops.def"
#undef OP
    return true;
  default:
    return false;
  }
}

/// Whether an op is a product of tiles, or has one in its regions.
[[nodiscard]] inline bool multiplies(const Op &op) {
  bool any = false;
  // A walk may change what it visits; this one does not.
  walk(const_cast<Op &>(op), [&](const Op &inner) { any |= inner.is(OpKind::Dot); });
  return any;
}

/// How many warpgroups share the columns of a product; 1 where they share its rows, or none do.
[[nodiscard]] inline int64_t columnSharers(const Op &dot) {
  return dot.get(attr::by_columns) ? dot.get(attr::warpgroups) : 1;
}

/// Whether a tile is nothing but a factor of products in tf32, as it is or transposed.
[[nodiscard]] inline bool isOnlyTf32Factor(const Value &tile) {
  const auto isFactor = [](const Use &use) {
    const Op &user = *use.user;
    if (user.is(OpKind::Trans) || user.is(OpKind::Convert))
      return isOnlyTf32Factor(*user.result());
    return user.is(OpKind::Dot) && use.index < 2 && user.has(attr::precision);
  };
  return tile.hasUses() && llvm::all_of(tile.uses(), isFactor);
}

/// What gives a factor, before it is transposed or changes its layout; null for an argument.
[[nodiscard]] inline const Op *sourceOfFactor(const Value &factor) {
  const Op *op = factor.definingOp();
  while (op && (op->is(OpKind::Trans) || op->is(OpKind::Convert)))
    op = op->operand(0)->definingOp();
  return op;
}

} // namespace dtile::ir
