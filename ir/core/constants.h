// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Numbers that are known.
#pragma once

#include "ir/core/ir.h"

#include <optional>

namespace dtile::ir {

/// The integer that a value is by its own op, a const; none where it is made otherwise.
[[nodiscard]] inline std::optional<int64_t> constantOf(const Value *value) {
  const Op *op = value->definingOp();
  const Attr *attr = op && op->is(OpKind::Const) ? op->attr("value") : nullptr;
  const auto *number = attr ? std::get_if<int64_t>(attr) : nullptr;
  return number ? std::optional(*number) : std::nullopt;
}

} // namespace dtile::ir
