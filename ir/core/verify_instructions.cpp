// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The verifier's rules for ops with instructions of a target: `extern` and `asm`.
#include "frontend/base/assembly.h"
#include "ir/core/op_rows.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

namespace dtile::ir {

namespace {

bool isHeld(Type type) {
  return (type.isIndex() || type.isScalar() || type.isTile()) &&
         hasRegisters(type.elementOrIndex());
}

bool hasShapeOf(Type type, Type like) {
  return type.isTile() == like.isTile() && (!type.isTile() || type.shape() == like.shape());
}

std::string checkOperands(Type result, llvm::ArrayRef<Value *> operands) {
  if (!isHeld(result))
    return "no register holds the result, " + result.str();
  for (const Value *operand : operands) {
    if (!isHeld(operand->type()))
      return "no register holds an operand, " + operand->type().str();
    if (!hasShapeOf(operand->type(), result))
      return "an operand of instructions is " + operand->type().str() + ", and the result " +
             result.str();
  }
  return "";
}

/// The text names the result, and operands that there are.
std::string checkText(llvm::StringRef assembly, llvm::StringRef text, size_t operands) {
  if (!assemblyFromName(assembly))
    return ("there are no instructions of `" + assembly + "`").str();
  bool givesResult = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '$')
      continue;
    if (i + 1 < text.size() && text[i + 1] == '$') {
      ++i;
      continue;
    }
    const llvm::StringRef number = text.drop_front(i + 1).take_while(llvm::isDigit);
    size_t at = 0;
    if (number.getAsInteger(10, at) || at > operands)
      return ("instructions name `$" + number + "`, which is no operand").str();
    givesResult |= at == 0;
  }
  return givesResult ? "" : "instructions do not name `$0`, the result";
}

} // namespace

std::string checkInstructions(const Op &op) {
  const bool isExtern = op.is(OpKind::Extern);
  const llvm::ArrayRef<Value *> operands = op.operands().drop_front(isExtern ? 1 : 0);
  if (std::string problem = checkOperands(op.result()->type(), operands); !problem.empty())
    return problem;
  if (!isExtern)
    return checkText(op.get(attr::assembly), op.get(attr::text), operands.size());
  const auto assemblies = op.get(attr::assemblies), texts = op.get(attr::texts);
  if (assemblies.size() != texts.size())
    return "attributes `assemblies` and `texts` differ in length";
  for (auto [assembly, text] : llvm::zip_equal(assemblies, texts))
    if (std::string problem = checkText(assembly, text, operands.size()); !problem.empty())
      return problem;
  return "";
}

} // namespace dtile::ir
