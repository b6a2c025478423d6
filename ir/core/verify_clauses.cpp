// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The verifier's rules for `launch_elements`: what kernels require and assume of elements.
#include "ir/core/op_rows.h"

#include "llvm/ADT/STLExtras.h"

namespace dtile::ir {

using llvm::StringRef;

namespace {

/// Elements of an input beside those of another one.
std::string checkElementsBetween(const Op &op) {
  const bool isEachOnce = op.get(attr::kind) == "each_once";
  if ((op.get(attr::kind) != "all" && !isEachOnce) || op.numOperands() != (isEachOnce ? 3 : 2) ||
      !op.operand(1)->type().isView())
    return "two inputs are operands of each_once, with a number behind them, and of `all` with "
           "`at`";
  for (const Value *operand : op.operands().take_front(2)) {
    const Op *param = operand->definingOp();
    if (!param || !param->is(OpKind::Param) || param->get(attr::mode) != ParamMode::In)
      return "an operand is not an input of the kernel";
    const DType dtype = operand->type().dtype();
    if (!isInteger(dtype) || dtype == DType::U64)
      return "an operand does not hold integers of at most 63 bits";
  }
  const int64_t dims = op.operand(0)->type().rank();
  if (isEachOnce)
    return op.operand(1)->type().rank() + 1 == dims && op.operand(2)->type().isIndex()
               ? ""
               : "operand 1 has not a number for each list of operand 0, or operand 2 is no index";
  const auto isDim = [&](int64_t dim) { return dim >= -1 && dim < dims; };
  if (op.get(attr::at).size() != op.operand(1)->type().rank() ||
      !llvm::all_of(op.get(attr::at), isDim) || !isDim(op.getOr(attr::peer, -1)))
    return "attributes `at` and `peer` do not name dimensions of operand 0";
  return "";
}

} // namespace

std::string checkLaunchElements(const Op &op) {
  const StringRef kind = op.get(attr::kind);
  const bool isCompared = kind == "all" || kind == "sum" || kind == "element";
  const bool isKnown = isCompared || kind == "sorted" || kind == "distinct" ||
                       kind == "replicated" || kind == "each_once";
  if (!isKnown)
    return "attribute `kind` is not all, sorted, distinct, replicated, sum, element or each_once";
  constexpr StringRef kPredicates[] = {"eq", "ne", "lt", "le", "gt", "ge"};
  if (op.has(attr::pred) != isCompared ||
      (isCompared && !llvm::is_contained(kPredicates, op.get(attr::pred))))
    return "attribute `pred` is eq, ne, lt, le, gt or ge of what is compared, and else absent";
  const Op *param = op.operand(0)->definingOp();
  if (!param || !param->is(OpKind::Param) || param->get(attr::mode) != ParamMode::In)
    return "operand 0 is not an input of the kernel";
  if (op.has(attr::at) || kind == "each_once")
    return checkElementsBetween(op);
  if (op.has(attr::peer))
    return "attribute `peer` is without `at`";
  const unsigned positions = kind == "element" ? op.operand(0)->type().rank() : 0;
  if (op.numOperands() != 1 + positions + (isCompared ? 1 : 0))
    return "it has not an operand for each position and for what is compared with";
  for (unsigned i = 1; i < op.numOperands(); ++i)
    if (!op.operand(i)->type().isIndex())
      return "positions and what is compared with are indices";
  const DType dtype = op.operand(0)->type().dtype();
  if (kind != "replicated" && (!isInteger(dtype) || dtype == DType::U64))
    return "operand 0 does not hold integers of at most 63 bits";
  return "";
}

} // namespace dtile::ir
