// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which sizes a launch has, and what numbers follow from them.
#include "ir/model/launch_sizes.h"

#include "ir/core/constants.h"
#include "ir/core/tile_order.h"

#include "llvm/ADT/STLExtras.h"

namespace dtile::model {

using ir::Op;
using ir::OpKind;
using ir::Value;

namespace {

/// A use as the size that an argument was passed with decides nothing.
bool isComparison(const ir::Use &use) {
  return use.user->is(OpKind::LaunchCheck) && use.index == 1;
}

bool isUsed(const Value &value) {
  return llvm::any_of(value.uses(), [](const ir::Use &use) { return !isComparison(use); });
}

/// Null where there are several, or none.
Op *onlyUser(const Value &value) {
  Op *only = nullptr;
  for (const ir::Use &use : value.uses()) {
    if (isComparison(use) || use.user == only)
      continue;
    if (only)
      return nullptr;
    only = use.user;
  }
  return only;
}

} // namespace

llvm::SmallVector<Value *, 8> freeSizes(Op &kernel) {
  llvm::SmallVector<Op *, 8> dims;
  for (Op &op : kernel.body().ops())
    if (op.is(OpKind::LaunchDim))
      dims.push_back(&op);
  // As callers see them, whatever is solved first.
  llvm::stable_sort(dims, [](const Op *a, const Op *b) {
    return std::pair(a->get(ir::attr::param), a->get(ir::attr::dim)) <
           std::pair(b->get(ir::attr::param), b->get(ir::attr::dim));
  });
  llvm::SmallVector<Value *, 8> found;
  for (Op *dim : dims) {
    Value *size = dim->result();
    while (Op *user = onlyUser(*size)) {
      if (!size->nameHint().empty() || !user->isPure() || user->numResults() != 1 ||
          !user->result()->type().isIndex())
        break;
      size = user->result();
    }
    if (isUsed(*size) && !llvm::is_contained(found, size))
      found.push_back(size);
  }
  return found;
}

bool isCounted(Op &kernel, Value &size) {
  return llvm::any_of(kernel.body().ops(), [&](const Op &op) {
    if (!op.is(OpKind::Space) || ir::spaceDims(op) <= 1)
      return false;
    for (unsigned d = 0; d < ir::spaceDims(op); ++d)
      if (op.operand(3 * d + 1) == &size && ir::constantOf(op.operand(3 * d + 2)) == 1)
        return true;
    return false;
  });
}

std::optional<int64_t> LaunchSizes::number(Value &value) {
  const std::optional<Slot> slot = arithmetic_.number(value);
  if (!slot)
    return std::nullopt;
  std::vector<Word> words = arithmetic_.initial();
  words[size_t(arithmetic_.ranks())].integer = ranks_;
  words[size_t(arithmetic_.rank())].integer = 0;
  arithmetic_.run(kLaunchLevel, words.data());
  arithmetic_.run(kRankLevel, words.data());
  return words[size_t(*slot)].integer;
}

} // namespace dtile::model
