// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ir/schedule/pipeline/staged_boxes.h"

#include "ir/analysis/shared_memory_plan.h"
#include "ir/machine/target_facts.h"

namespace dtile::passes {

using namespace dtile::ir;

int64_t swizzleOf(Type tile) {
  const int64_t bytes = tile.shape()[1] * int64_t(dtypeBytes(tile.dtype()));
  return std::min(kBankLineBytes, bytes & -bytes);
}

bool canBeRead(Type tile) {
  return tile.isTile() && tile.rank() == 2 && swizzleOf(tile) >= kFewestSwizzleBytes &&
         tile.shape()[0] <= kMostBoxRows && tile.shape()[0] % kSwizzleRows == 0 &&
         tile.elements() % TargetFacts::kHelperThreads == 0;
}

bool canBeTransposed(const Op &load) {
  const Type tile = load.result()->type();
  return load.is(OpKind::Load) && dtypeBytes(tile.dtype()) == kRegisterBytes &&
         swizzleOf(tile) == kBankLineBytes && tile.shape()[0] * kRegisterBytes == kBankLineBytes;
}

} // namespace dtile::passes
