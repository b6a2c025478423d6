// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// From what must be a multiple of a word to rules for words of the frame.
#include "backend/gpu/whole_words.h"

#include "backend/gpu/launch_function.h"
#include "backend/runtime/kernel_abi.h"

#include "llvm/IR/Constants.h"
#include "llvm/IR/GetElementPtrTypeIterator.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/Operator.h"

#include <set>

namespace dtile::backend::gpu {

namespace {

using llvm::Value;

/// Walks from a value to what it is computed from.
class RuleFinder {
public:
  RuleFinder(const llvm::DenseMap<int64_t, Value *> &loaded, const Value *peer,
             WholeWords::Rules rules)
      : peer_(peer), rules_(std::move(rules)) {
    for (const auto &[offset, value] : loaded)
      offsets_[value] = offset;
  }

  bool multiple(Value *value, unsigned zeros);
  bool one(Value *value);
  [[nodiscard]] WholeWords::Rules take() { return std::move(rules_); }

private:
  bool both(llvm::User *of, unsigned zeros) {
    return multiple(of->getOperand(0), zeros) && multiple(of->getOperand(1), zeros);
  }
  bool product(Value *x, Value *y, unsigned zeros);
  bool address(llvm::GEPOperator &gep, unsigned zeros);
  bool ofCall(llvm::CallBase &call, unsigned zeros);
  /// Low bits that are 0 by the rules so far.
  unsigned known(Value *value);

  llvm::DenseMap<const Value *, int64_t> offsets_;
  const Value *peer_;
  WholeWords::Rules rules_;
  /// What was asked before. A loop's value is a multiple if its first is and each step keeps it so:
  /// meanwhile it is taken to be one.
  std::set<std::pair<const Value *, unsigned>> asked_;
};

unsigned zerosOf(const llvm::ConstantInt &constant) {
  return constant.isZero() ? 64 : constant.getValue().countr_zero();
}

bool RuleFinder::one(Value *value) {
  if (auto *constant = llvm::dyn_cast<llvm::ConstantInt>(value))
    return constant->isOne();
  const auto found = offsets_.find(value);
  if (found == offsets_.end() || !value->getType()->isIntegerTy(64))
    return false;
  WholeWords::Rule &rule = rules_[found->second];
  rule.isOne = true;
  return rule.zeros == 0;
}

unsigned RuleFinder::known(Value *value) {
  if (auto *constant = llvm::dyn_cast<llvm::ConstantInt>(value))
    return zerosOf(*constant);
  if (const auto found = offsets_.find(value); found != offsets_.end()) {
    const auto rule = rules_.find(found->second);
    return rule == rules_.end() ? 0 : rule->second.zeros;
  }
  auto *op = llvm::dyn_cast<llvm::Operator>(value);
  if (!op)
    return 0;
  switch (op->getOpcode()) {
  case llvm::Instruction::ZExt:
  case llvm::Instruction::SExt:
    return known(op->getOperand(0));
  case llvm::Instruction::Mul:
    return known(op->getOperand(0)) + known(op->getOperand(1));
  case llvm::Instruction::Shl:
    if (auto *by = llvm::dyn_cast<llvm::ConstantInt>(op->getOperand(1)))
      return known(op->getOperand(0)) + unsigned(by->getZExtValue());
    return known(op->getOperand(0));
  case llvm::Instruction::And:
    return std::max(known(op->getOperand(0)), known(op->getOperand(1)));
  default:
    return 0;
  }
}

/// One factor suffices; the last one first, as strides of contiguous tensors are products of sizes
/// that end with a row's.
bool RuleFinder::product(Value *x, Value *y, unsigned zeros) {
  const unsigned have = known(x) + known(y);
  if (have >= zeros)
    return true;
  for (auto [factor, other] : {std::pair(y, x), std::pair(x, y)}) {
    RuleFinder attempt = *this;
    if (attempt.multiple(factor, zeros - std::min(zeros, known(other)))) {
      *this = std::move(attempt);
      return true;
    }
  }
  return false;
}

bool RuleFinder::address(llvm::GEPOperator &gep, unsigned zeros) {
  if (!multiple(gep.getPointerOperand(), zeros))
    return false;
  const llvm::DataLayout &layout = llvm::cast<llvm::Instruction>(gep).getModule()->getDataLayout();
  for (auto it = llvm::gep_type_begin(gep), end = llvm::gep_type_end(gep); it != end; ++it) {
    if (it.isStruct())
      return false;
    const uint64_t bytes = it.getSequentialElementStride(layout).getFixedValue();
    const unsigned have = bytes == 0 ? 64 : unsigned(llvm::countr_zero(bytes));
    if (have < zeros && !multiple(it.getOperand(), zeros - have))
      return false;
  }
  return true;
}

bool RuleFinder::ofCall(llvm::CallBase &call, unsigned zeros) {
  // Symmetric memory begins at a multiple of more than a word on every rank.
  if (peer_ && call.getCalledOperand() == peer_)
    return multiple(call.getArgOperand(1), zeros);
  switch (call.getIntrinsicID()) {
  case llvm::Intrinsic::smax:
  case llvm::Intrinsic::smin:
  case llvm::Intrinsic::umax:
  case llvm::Intrinsic::umin:
    return both(&call, zeros);
  default:
    return false;
  }
}

bool RuleFinder::multiple(Value *value, unsigned zeros) {
  if (zeros == 0 || llvm::isa<llvm::ConstantPointerNull>(value))
    return true;
  if (auto *constant = llvm::dyn_cast<llvm::ConstantInt>(value))
    return zerosOf(*constant) >= zeros;
  if (!asked_.insert({value, zeros}).second)
    return true;
  if (const auto found = offsets_.find(value); found != offsets_.end()) {
    if (!value->getType()->isIntegerTy(64) && !value->getType()->isPointerTy())
      return false;
    WholeWords::Rule &rule = rules_[found->second];
    rule.zeros = std::max(rule.zeros, zeros);
    return !rule.isOne;
  }
  auto *op = llvm::dyn_cast<llvm::Operator>(value);
  if (!op)
    return false;
  switch (op->getOpcode()) {
  case llvm::Instruction::Add:
  case llvm::Instruction::Sub:
  case llvm::Instruction::Or:
    return both(op, zeros);
  case llvm::Instruction::Mul:
    return product(op->getOperand(0), op->getOperand(1), zeros);
  case llvm::Instruction::Shl: {
    auto *by = llvm::dyn_cast<llvm::ConstantInt>(op->getOperand(1));
    const unsigned have = by ? unsigned(std::min<uint64_t>(by->getZExtValue(), zeros)) : 0;
    return multiple(op->getOperand(0), zeros - have);
  }
  case llvm::Instruction::And:
    return known(op) >= zeros || both(op, zeros);
  case llvm::Instruction::ZExt:
  case llvm::Instruction::SExt:
  case llvm::Instruction::Trunc:
  case llvm::Instruction::PtrToInt:
  case llvm::Instruction::AddrSpaceCast:
    return multiple(op->getOperand(0), zeros);
  case llvm::Instruction::Select:
    return multiple(op->getOperand(1), zeros) && multiple(op->getOperand(2), zeros);
  case llvm::Instruction::PHI:
    return llvm::all_of(llvm::cast<llvm::PHINode>(op)->incoming_values(),
                        [&](const llvm::Use &use) { return multiple(use.get(), zeros); });
  case llvm::Instruction::GetElementPtr:
    return address(*llvm::cast<llvm::GEPOperator>(op), zeros);
  case llvm::Instruction::Call:
    return ofCall(*llvm::cast<llvm::CallBase>(op), zeros);
  default:
    return false;
  }
}

} // namespace

bool WholeWords::require(const llvm::DenseMap<int64_t, Value *> &loaded, const Value *peer,
                         const Access &access) {
  RuleFinder finder(loaded, peer, rules_);
  if (!access.inWords || !access.stride || !finder.one(access.stride))
    return false;
  for (const Multiple &each : access.multiples)
    if (!each.value || !finder.multiple(each.value, each.zeros))
      return false;
  rules_ = finder.take();
  return true;
}

llvm::Function *lowerInWholeWords(launch::LaunchModule &module, const launch::Frame &frame,
                                  const WholeWords &words, llvm::StringRef name) {
  LaunchFunction function(module, &frame);
  llvm::IRBuilder<> &b = function.builder();
  return function.lower(name, [&] {
    Value *wrong = b.getInt64(0);
    for (const auto &[offset, rule] : words.rules()) {
      Value *word = function.word(offset);
      wrong = b.CreateOr(wrong, rule.isOne ? b.CreateXor(word, b.getInt64(1))
                                           : b.CreateAnd(word, b.getInt64((1U << rule.zeros) - 1)));
    }
    return b.CreateSelect(b.CreateIsNull(wrong), b.getInt64(DTILE_WHOLE_WORDS),
                          b.getInt64(DTILE_IN_PARTS));
  });
}

} // namespace dtile::backend::gpu
