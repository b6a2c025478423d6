// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "backend/llvm/sink.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/IR/Instructions.h"

namespace dtile::backend {

namespace {

bool isArithmetic(const llvm::Instruction &instruction) {
  return !llvm::isa<llvm::PHINode>(instruction) && !instruction.isTerminator() &&
         !instruction.mayReadOrWriteMemory() && !instruction.mayHaveSideEffects();
}

/// Puts arithmetic after everything else, in the order in which it is used.
class Sinking {
public:
  /// What nothing but the users use in this block, through each other, may be moved.
  Sinking(llvm::BasicBlock &block, const llvm::DenseSet<const llvm::Instruction *> &users);
  /// Moves what an instruction uses to right before another one.
  void sinkOperands(llvm::Instruction &user, llvm::BasicBlock::iterator before);

private:
  llvm::DenseSet<const llvm::Instruction *> movable_;
};

Sinking::Sinking(llvm::BasicBlock &block, const llvm::DenseSet<const llvm::Instruction *> &users) {
  // Users stand after what they use.
  for (llvm::Instruction &instruction : llvm::reverse(block)) {
    if (!isArithmetic(instruction))
      continue;
    bool isUsedHere = false, isUsedElsewise = false;
    for (const llvm::User *user : instruction.users()) {
      const auto *other = llvm::cast<llvm::Instruction>(user);
      if (other->getParent() != &block)
        continue;
      isUsedHere = true;
      isUsedElsewise |= !movable_.contains(other) && !users.contains(other);
    }
    if (isUsedHere && !isUsedElsewise)
      movable_.insert(&instruction);
  }
}

void Sinking::sinkOperands(llvm::Instruction &user, llvm::BasicBlock::iterator before) {
  for (llvm::Value *operand : user.operands()) {
    auto *instruction = llvm::dyn_cast<llvm::Instruction>(operand);
    if (!instruction || !movable_.erase(instruction))
      continue;
    sinkOperands(*instruction, before);
    instruction->moveBefore(before);
  }
}

} // namespace

namespace {

/// To the users after `last`.
void sinkToUsers(llvm::BasicBlock &block, llvm::Instruction *last,
                 llvm::function_ref<bool(const llvm::Instruction &)> isUser) {
  llvm::SmallVector<llvm::Instruction *, 64> users;
  const auto first = last ? std::next(last->getIterator()) : block.begin();
  for (llvm::Instruction &instruction : llvm::make_range(first, block.end()))
    if (isUser(instruction))
      users.push_back(&instruction);
  Sinking sinking(block, {users.begin(), users.end()});
  for (llvm::Instruction *user : users)
    sinking.sinkOperands(*user, user->getIterator());
}

} // namespace

void sinkToStores(llvm::BasicBlock &block, llvm::Instruction *last) {
  sinkToUsers(block, last, [](const llvm::Instruction &instruction) {
    return llvm::isa<llvm::StoreInst>(instruction);
  });
}

void sinkToAssembly(llvm::BasicBlock &block, llvm::Instruction *last) {
  sinkToUsers(block, last, [](const llvm::Instruction &instruction) {
    const auto *call = llvm::dyn_cast<llvm::CallInst>(&instruction);
    return call && call->isInlineAsm();
  });
}

void orderByUse(llvm::BasicBlock &block) {
  llvm::SmallVector<llvm::Instruction *, 64> last;
  for (llvm::Instruction &instruction : block)
    if (isArithmetic(instruction) &&
        llvm::none_of(instruction.users(), [&](const llvm::User *user) {
          return llvm::cast<llvm::Instruction>(user)->getParent() == &block;
        }))
      last.push_back(&instruction);
  Sinking sinking(block, {last.begin(), last.end()});
  for (llvm::Instruction *instruction : last) {
    sinking.sinkOperands(*instruction, block.end());
    instruction->moveBefore(block, block.end());
  }
}

} // namespace dtile::backend
