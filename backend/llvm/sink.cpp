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

/// Puts arithmetic before the store that uses it first, after what it uses itself.
class Sinking {
public:
  Sinking(llvm::BasicBlock &block, llvm::Instruction *last);
  void run();

private:
  void sinkOperands(llvm::Instruction &user, llvm::Instruction &store);

  llvm::SmallVector<llvm::Instruction *, 64> stores_;
  /// What nothing but the stores use in this block, through each other; not yet moved.
  llvm::DenseSet<const llvm::Instruction *> movable_;
};

Sinking::Sinking(llvm::BasicBlock &block, llvm::Instruction *last) {
  const auto first = last ? std::next(last->getIterator()) : block.begin();
  for (llvm::Instruction &instruction : llvm::make_range(first, block.end()))
    if (llvm::isa<llvm::StoreInst>(instruction))
      stores_.push_back(&instruction);
  const llvm::DenseSet<const llvm::Instruction *> stores(stores_.begin(), stores_.end());
  // Users stand behind what they use.
  for (llvm::Instruction &instruction : llvm::reverse(block)) {
    if (!isArithmetic(instruction))
      continue;
    bool isUsedHere = false, isUsedElsewise = false;
    for (const llvm::User *user : instruction.users()) {
      const auto *other = llvm::cast<llvm::Instruction>(user);
      if (other->getParent() != &block)
        continue;
      isUsedHere = true;
      isUsedElsewise |= !movable_.contains(other) && !stores.contains(other);
    }
    if (isUsedHere && !isUsedElsewise)
      movable_.insert(&instruction);
  }
}

void Sinking::sinkOperands(llvm::Instruction &user, llvm::Instruction &store) {
  for (llvm::Value *operand : user.operands()) {
    auto *instruction = llvm::dyn_cast<llvm::Instruction>(operand);
    if (!instruction || !movable_.erase(instruction))
      continue;
    sinkOperands(*instruction, store);
    instruction->moveBefore(store.getIterator());
  }
}

void Sinking::run() {
  for (llvm::Instruction *store : stores_)
    sinkOperands(*store, *store);
}

} // namespace

void sinkToStores(llvm::BasicBlock &block, llvm::Instruction *last) { Sinking(block, last).run(); }

} // namespace dtile::backend
