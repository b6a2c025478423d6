// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ir/analysis/clauses.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallPtrSet.h"

namespace dtile::ir {

namespace {

/// Before the condition of an `assume` in its message.
constexpr llvm::StringLiteral kAssumed = "what is assumed does not hold: ";

void addOnce(std::vector<std::string> &texts, std::string text) {
  if (!llvm::is_contained(texts, text))
    texts.push_back(std::move(text));
}

/// Whether a launch is refused unless a size that was divided to find another is a multiple of it:
/// that of an argument of W * S rows, of which S follows.
bool isCheckedMultiple(const Op &dim, const Value &quotient) {
  return llvm::any_of(dim.result()->uses(), [&](const Use &use) {
    if (!use.user->is(OpKind::LaunchCheck) || use.index != 1)
      return false;
    const Op *declared = use.user->operand(0)->definingOp();
    return declared && declared->is(OpKind::Mul) &&
           llvm::is_contained(declared->operands(), &quotient);
  });
}

} // namespace

std::vector<Op *> arithmeticOf(const Op &require) {
  std::vector<Op *> found;
  llvm::SmallVector<Value *, 8> work = {require.operand(0)};
  llvm::SmallPtrSet<Value *, 16> seen;
  while (!work.empty()) {
    Value *value = work.pop_back_val();
    Op *op = value->definingOp();
    if (!op || !seen.insert(value).second || !op->isPure())
      continue;
    llvm::append_range(work, op->operands());
    const bool isArithmetic = op->is(OpKind::Add) || op->is(OpKind::Sub) || op->is(OpKind::Mul);
    if (isArithmetic && !value->type().isTile() && isInteger(value->type().elementOrIndex()))
      found.push_back(op);
  }
  return found;
}

std::string refusalOf(const Op &require) {
  std::string text = "`" + require.get(attr::text).str() + "` is " +
                     (isAssumption(require) ? "assumed" : "required");
  if (!require.has(attr::names))
    return text + ", and false";
  unsigned hole = 0;
  for (const std::string &name : require.get(attr::names))
    text += (hole == 0 ? ", and " : ", ") + name + " = {" + std::to_string(hole) + "}", ++hole;
  return text;
}

bool decode(const Op &elements, ElementClause &clause) {
  if (elements.has(attr::at) ||
      !clauses::parseKind(elements.get(attr::kind).str().c_str(), clause.kind))
    return false;
  if (elements.has(attr::pred))
    clauses::parsePredicate(elements.get(attr::pred).str().c_str(), clause.predicate);
  return true;
}

std::vector<Op *> clausesOf(Op &kernel) {
  std::vector<Op *> found;
  for (Op &op : kernel.body().ops())
    if (isClause(op))
      found.push_back(&op);
  return found;
}

std::vector<std::string> requirementsOf(const Op &kernel) {
  std::vector<std::string> texts;
  for (const Op &op : kernel.body().ops())
    if (isClause(op) && !isAssumption(op))
      addOnce(texts, "`" + op.get(attr::text).str() + "`");
  return texts;
}

std::vector<std::string> assumptionsOf(const Op &kernel) {
  std::vector<std::string> texts;
  walk(const_cast<Op &>(kernel), [&](const Op &op) {
    if (!isAssumption(op))
      return;
    llvm::StringRef what = op.is(OpKind::Assert) ? op.get(attr::message) : op.get(attr::text);
    what.consume_front(kAssumed);
    addOnce(texts, ("`" + what + "`, because " + op.get(attr::because)).str());
  });
  return texts;
}

void addDeterminingDims(const Value &size, llvm::SmallPtrSetImpl<const Op *> &dims) {
  const Op *op = size.definingOp();
  if (!op)
    return;
  const auto isFixed = [](const Value *value) {
    const Op *by = value->definingOp();
    return by && (by->is(OpKind::Const) || by->is(OpKind::NumRanks));
  };
  if (op->is(OpKind::LaunchDim)) {
    dims.insert(op);
    return;
  }
  if (op->is(OpKind::Div)) {
    const Op *dim = op->operand(0)->definingOp();
    if (dim && dim->is(OpKind::LaunchDim) && isFixed(op->operand(1)) &&
        isCheckedMultiple(*dim, size))
      dims.insert(dim);
    return;
  }
  if (!op->is(OpKind::Mul) && !op->is(OpKind::Add) && !op->is(OpKind::Sub))
    return;
  for (unsigned i : {0u, 1u})
    if (isFixed(op->operand(1 - i)))
      addDeterminingDims(*op->operand(i), dims);
}

} // namespace dtile::ir
