// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ir/analysis/rounding.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallPtrSet.h"

namespace dtile::ir {

namespace {

bool isRounded(const Value &tile, llvm::SmallPtrSetImpl<const Value *> &seen) {
  if (!seen.insert(&tile).second)
    return true;
  const auto uses = tile.uses();
  return !uses.empty() && llvm::all_of(uses, [&](const Use &use) {
    const Op &user = *use.user;
    switch (user.kind()) {
    case OpKind::Cast: {
      const DType to = user.result()->type().dtype();
      return isFloat(to) && dtypeBytes(to) <= 2;
    }
    case OpKind::Select:
      return use.index != 0 && isRounded(*user.result(), seen);
    case OpKind::Div:
      return use.index == 0 && isRounded(*user.result(), seen);
    case OpKind::Mul:
    case OpKind::Neg:
    case OpKind::Abs:
    case OpKind::Min:
    case OpKind::Max:
    case OpKind::Broadcast:
    case OpKind::Reshape:
    case OpKind::Trans:
    case OpKind::Convert:
      return isRounded(*user.result(), seen);
    default:
      return false;
    }
  });
}

} // namespace

bool isRoundedToNarrow(const Value &tile) {
  llvm::SmallPtrSet<const Value *, 8> seen;
  return isRounded(tile, seen);
}

} // namespace dtile::ir
