// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ir/analysis/rounding.h"

#include "llvm/ADT/STLExtras.h"

namespace dtile::ir {

namespace {

/// Ops between a value and its rounding, at most.
constexpr unsigned kMostSteps = 8;

bool isRounded(const Value &tile, unsigned steps) {
  const auto uses = tile.uses();
  return steps > 0 && !uses.empty() && llvm::all_of(uses, [&](const Use &use) {
           const Op &user = *use.user;
           switch (user.kind()) {
           case OpKind::Cast: {
             const DType to = user.result()->type().dtype();
             return isFloat(to) && dtypeBytes(to) <= 2;
           }
           case OpKind::Select:
             return use.index != 0 && isRounded(*user.result(), steps - 1);
           case OpKind::Add:
           case OpKind::Sub:
           case OpKind::Mul:
           case OpKind::Div:
           case OpKind::Neg:
           case OpKind::Abs:
           case OpKind::Min:
           case OpKind::Max:
           case OpKind::Broadcast:
           case OpKind::Reshape:
           case OpKind::Trans:
           case OpKind::Convert:
             return isRounded(*user.result(), steps - 1);
           default:
             return false;
           }
         });
}

} // namespace

bool isRoundedToNarrow(const Value &tile) { return isRounded(tile, kMostSteps); }

} // namespace dtile::ir
