// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What is required of launches, and assumed.
#pragma once

#include "frontend/base/element_clauses.h"
#include "ir/core/ir.h"

#include "llvm/ADT/SmallPtrSet.h"

#include <string>
#include <vector>

namespace dtile::ir {

/// What a launch.require says when it does not hold: holes {0} … are for the trailing operands.
[[nodiscard]] std::string refusalOf(const Op &require);
/// The sums, differences and products of integers from which its condition is computed. Where one
/// of them leaves its type in a launch, the condition does not hold.
[[nodiscard]] std::vector<Op *> arithmeticOf(const Op &require);

/// A launch.elements as one array decides it; false for `replicated`, and where two inputs are
/// compared.
struct ElementClause {
  clauses::Kind kind{};
  clauses::Predicate predicate = clauses::Predicate::Eq;
};
[[nodiscard]] bool decode(const Op &elements, ElementClause &clause);

/// Whether the op says what callers owe or what is assumed.
[[nodiscard]] inline bool isClause(const Op &op) {
  return op.is(OpKind::LaunchRequire) || op.is(OpKind::LaunchElements);
}
/// Whether it is assumed, in a clause or in a body.
[[nodiscard]] inline bool isAssumption(const Op &op) {
  return (isClause(op) || op.is(OpKind::Assert)) && op.has(attr::because);
}
/// The clauses of a kernel, in order.
[[nodiscard]] std::vector<Op *> clausesOf(Op &kernel);
/// What a kernel's verdict rests on: "`root < W`", and for what is assumed
/// "`slot < CAP`, because …".
[[nodiscard]] std::vector<std::string> requirementsOf(const Op &kernel);
[[nodiscard]] std::vector<std::string> assumptionsOf(const Op &kernel);

/// Adds the sizes of arguments (launch.dim) that a size determines, as it is them times and plus
/// constants.
void addDeterminingDims(const Value &size, llvm::SmallPtrSetImpl<const Op *> &dims);

} // namespace dtile::ir
