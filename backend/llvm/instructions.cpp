// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Instructions of programs as inline assembly: registers by type, one call a lane.
#include "backend/llvm/instructions.h"

#include "frontend/base/assembly.h"
#include "frontend/base/check.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/Metadata.h"

namespace dtile::backend {

namespace {

// Module metadata: for each place that has instructions its number, and what to say of it.
constexpr llvm::StringLiteral kNotes = "dtile.instructions";

uint64_t cookieOf(const llvm::MDNode &note) {
  return llvm::mdconst::extract<llvm::ConstantInt>(note.getOperand(0))->getZExtValue();
}

llvm::StringRef textAt(const llvm::MDNode &note, unsigned i) {
  return llvm::cast<llvm::MDString>(note.getOperand(i))->getString();
}

/// LLVM's messages name the instructions by a number, here the op's place in the text.
llvm::MDNode *noted(llvm::Module &module, const ir::Op &op, llvm::StringRef place) {
  llvm::LLVMContext &context = module.getContext();
  llvm::NamedMDNode *notes = module.getOrInsertNamedMetadata(kNotes);
  auto *cookie = llvm::ConstantAsMetadata::get(
      llvm::ConstantInt::get(llvm::Type::getInt64Ty(context), op.loc().offset));
  const bool isNew = llvm::none_of(notes->operands(), [&](const llvm::MDNode *note) {
    return cookieOf(*note) == op.loc().offset;
  });
  if (isNew)
    notes->addOperand(
        llvm::MDNode::get(context, {cookie, llvm::MDString::get(context, op.get(ir::attr::name)),
                                    llvm::MDString::get(context, op.get(ir::attr::assembly)),
                                    llvm::MDString::get(context, place)}));
  return llvm::MDNode::get(context, {cookie});
}

/// A value as registers hold it: narrow floats are words.
bool isWord(DType type) { return isFloat(type) && dtypeBytes(type) == 2; }

} // namespace

llvm::Value *emitInstructions(llvm::IRBuilder<> &b, Arith &arith, const ir::Op &op,
                              llvm::ArrayRef<llvm::Value *> elements, llvm::StringRef place) {
  const std::optional<Assembly> assembly = assemblyFromName(op.get(ir::attr::assembly));
  DTILE_CHECK(assembly.has_value(), "the verifier knows the instructions");
  const DType result = op.result()->type().elementOrIndex();
  // A register of its own for the result: it may be written before all operands are read.
  std::string constraints = ("=&" + registerConstraint(*assembly, result)).str();
  llvm::SmallVector<llvm::Value *, 4> held;
  llvm::SmallVector<llvm::Type *, 4> types;
  unsigned lanes = 1;
  for (auto [operand, element] : llvm::zip_equal(op.operands(), elements)) {
    const DType type = operand->type().elementOrIndex();
    held.push_back(isWord(type) ? arith.toMemory(type, element) : element);
    types.push_back(held.back()->getType()->getScalarType());
    constraints += ("," + registerConstraint(*assembly, type)).str();
    if (auto *vector = llvm::dyn_cast<llvm::FixedVectorType>(element->getType()))
      lanes = vector->getNumElements();
  }
  if (!clobbers(*assembly).empty())
    constraints += ("," + clobbers(*assembly)).str();
  llvm::LLVMContext &context = b.getContext();
  llvm::Type *inRegisters =
      isWord(result) ? memoryType(context, result) : computeType(context, result);
  auto *type = llvm::FunctionType::get(inRegisters, types, /*isVarArg=*/false);
  auto *code = llvm::InlineAsm::get(type, op.get(ir::attr::text), constraints,
                                    /*hasSideEffects=*/false);
  llvm::MDNode *note = noted(*b.GetInsertBlock()->getModule(), op, place);
  const auto call = [&](llvm::ArrayRef<llvm::Value *> arguments) {
    llvm::CallInst *made = b.CreateCall(type, code, arguments);
    made->setDoesNotAccessMemory();
    made->setDoesNotThrow();
    made->addFnAttr(llvm::Attribute::WillReturn);
    made->setMetadata("srcloc", note);
    return made;
  };
  llvm::Value *value = nullptr;
  if (lanes == 1) {
    value = call(held);
  } else {
    value = llvm::PoisonValue::get(llvm::FixedVectorType::get(inRegisters, lanes));
    for (unsigned lane = 0; lane < lanes; ++lane) {
      llvm::SmallVector<llvm::Value *, 4> arguments;
      for (llvm::Value *each : held)
        arguments.push_back(b.CreateExtractElement(each, lane));
      value = b.CreateInsertElement(value, call(arguments), lane);
    }
  }
  return isWord(result) ? arith.fromMemory(result, value) : value;
}

InstructionsOf instructionsAt(const llvm::Module &module, uint64_t cookie) {
  if (const llvm::NamedMDNode *notes = module.getNamedMetadata(kNotes))
    for (const llvm::MDNode *note : notes->operands())
      if (cookieOf(*note) == cookie)
        return {textAt(*note, 1).str(), textAt(*note, 2).str(), textAt(*note, 3).str()};
  return {};
}

} // namespace dtile::backend
