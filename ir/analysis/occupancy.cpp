// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ir/analysis/occupancy.h"

#include "ir/core/layout.h"
#include "ir/core/op_classes.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>

namespace dtile::ir {

namespace {

/// Registers of a thread that hold no tile: addresses, positions, the launch. With these two
/// numbers, of five pairs that were tried, the best configurations of norms, softmax and masked
/// log-softmax were fastest on an H200 (docs/measurements/rows.md).
constexpr int64_t kBesideTiles = 40;
/// Fewer are not counted on, as code without tiles needs so many, too.
constexpr int64_t kLeastRegisters = 48;
/// What is made where it is used is made so many words at a time.
constexpr int64_t kMostAtOnce = 8;
/// How registers of a thread are given out, and how many threads a processor holds.
constexpr int64_t kRegisterStep = 8, kMostThreads = 2048;

/// Words of a thread that its elements of a tile take.
int64_t wordsOf(const Type &type, int64_t elements) {
  return int64_t(llvm::divideCeil(uint64_t(elements) * dtypeBytes(type.dtype()), 4));
}

/// Whether all elements of a tile follow from a few numbers, within so many ops: positions, and
/// what repeats a scalar or a row.
bool isKnownByFew(const Value &value, unsigned most = 4) {
  const Op *op = value.definingOp();
  if (!value.type().isTile())
    return true;
  if (!op || most == 0)
    return false;
  const bool isFew = op->is(OpKind::Splat) || op->is(OpKind::Iota) || op->is(OpKind::Broadcast);
  const bool follows =
      op->is(OpKind::Reshape) || (isElementwise(op->kind()) && !op->is(OpKind::Asm));
  return isFew || (follows && llvm::all_of(op->operands(), [&](const Value *operand) {
                     return isKnownByFew(*operand, most - 1);
                   }));
}

/// Registers of a thread that a tile takes.
int64_t wordsOf(const Value &value) {
  const Type type = value.type();
  if (!type.isTile() || !type.layout())
    return 0;
  if (!isKnownByFew(value))
    return wordsOf(type, type.layout()->registers());
  const Op *op = value.definingOp();
  return op->is(OpKind::Broadcast) ? wordsOf(*op->operand(0)) : wordsOf(type, 1);
}

/// Where a value is used last in a block, or in what is nested in it.
const Op *ancestorIn(const Block &block, Op *user) {
  while (user && user->parentBlock() != &block)
    user = user->parentOp();
  return user;
}

/// Whether elements of a value are made where they are used, one after the other, so that not all
/// of them need be there at once: what elementwise ops, stores, reductions and the next iteration
/// take. A reshaped tile is the same registers.
bool isMadeWhereUsed(const Value &value) {
  const Op *op = value.definingOp();
  if (!op || op->numRegions() > 0)
    return false;
  const bool isSource = isElementwise(op->kind()) || op->is(OpKind::Broadcast) ||
                        op->is(OpKind::Reshape) || op->is(OpKind::Splat) || op->is(OpKind::Iota) ||
                        op->is(OpKind::Const);
  return isSource && llvm::all_of(value.uses(), [&](const Use &use) {
           const Op &user = *use.user;
           return user.parentBlock() == op->parentBlock() &&
                  (isElementwise(user.kind()) || user.is(OpKind::Broadcast) ||
                   user.is(OpKind::Reshape) || user.is(OpKind::Store) || user.is(OpKind::Put) ||
                   user.is(OpKind::Reduce) || user.is(OpKind::Yield));
         });
}

/// Where the values of a block are needed last. What is made where it is used has to have its
/// operands until then.
class LastNeeds {
public:
  explicit LastNeeds(Block &block) : block_(block) {
    int64_t count = 0;
    for (Op &op : block.ops())
      place_[&op] = count++;
    for (Op &op : llvm::reverse(block.ops()))
      for (const Value *result : op.results())
        if (isMadeWhereUsed(*result))
          made_[result] = find(*result);
  }
  [[nodiscard]] int64_t place(const Op &op) const { return place_.lookup(&op); }
  /// Of a value of the block; -1 where it has no uses.
  [[nodiscard]] int64_t find(const Value &value) const {
    int64_t last = -1;
    for (const Use &use : value.uses())
      if (const Op *user = ancestorIn(block_, use.user)) {
        last = std::max(last, place_.lookup(user));
        for (const Value *result : user->results())
          if (const auto found = made_.find(result); found != made_.end())
            last = std::max(last, found->second);
      }
    return last;
  }

private:
  const Block &block_;
  llvm::DenseMap<const Op *, int64_t> place_;
  llvm::DenseMap<const Value *, int64_t> made_;
};

/// The most words of tiles that a thread has at once in a block.
int64_t mostLive(Block &block) {
  const LastNeeds needs(block);
  const auto count = int64_t(std::distance(block.ops().begin(), block.ops().end()));
  // What is added at each op, and taken away after it.
  llvm::SmallVector<int64_t, 64> born(size_t(count) + 1, 0), dead(size_t(count) + 1, 0);
  const auto lives = [&](const Value &value, int64_t from) {
    const int64_t words = isMadeWhereUsed(value) ? 0 : wordsOf(value);
    born[size_t(from)] += words;
    dead[size_t(std::max(from, needs.find(value)))] += words;
  };
  if (count == 0)
    return 0;
  for (const Value *argument : block.arguments())
    lives(*argument, 0);
  // What a loop gives is what it carries, which counts inside of it.
  for (Op &op : block.ops())
    for (const Value *result : op.results())
      lives(*result, needs.place(op) + (op.numRegions() > 0 ? 1 : 0));
  int64_t live = 0, most = 0;
  for (Op &op : block.ops()) {
    const auto at = size_t(needs.place(op));
    live += born[at];
    int64_t here = 0;
    for (const Value *result : op.results())
      if (isMadeWhereUsed(*result))
        here += std::min(wordsOf(*result), kMostAtOnce);
    for (unsigned i = 0; i < op.numRegions(); ++i)
      here = std::max(here, mostLive(op.body(i)));
    most = std::max(most, live + here);
    live -= dead[at];
  }
  return most;
}

} // namespace

int64_t residentPrograms(Op &kernel, int64_t registers, int64_t threads) {
  int64_t most = 0;
  for (Op &space : kernel.body().ops()) {
    if (!space.is(OpKind::Space))
      continue;
    most = std::max(most, mostLive(space.body()));
  }
  if (multiplies(kernel) || most == 0)
    return 1;
  const int64_t each = int64_t(llvm::alignTo(
      uint64_t(std::max(kLeastRegisters, kBesideTiles + most * 5 / 4)), kRegisterStep));
  return std::clamp<int64_t>(registers / (each * threads), 1, kMostThreads / threads);
}

} // namespace dtile::ir
