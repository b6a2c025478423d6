// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Follows operands within one block.
#include "ir/analysis/loop_positions.h"

#include "ir/analysis/communication.h"
#include "ir/analysis/row_gathers.h"
#include "ir/analysis/shared_memory_plan.h"
#include "ir/core/constants.h"

namespace dtile::ir {

llvm::SmallVector<Op *, 8> loopsOfSpaces(Module &module) {
  llvm::SmallVector<Op *, 8> loops;
  walk(module.body(), [&](Op &op) {
    if (op.is(OpKind::For) && op.enclosing(OpKind::Space))
      loops.push_back(&op);
  });
  return loops;
}

bool haveSamePositions(const Op &a, const Op &b) {
  const auto isSame = [](const Value *x, const Value *y) {
    const std::optional<int64_t> known = constantOf(x);
    return x == y || (known && known == constantOf(y));
  };
  constexpr unsigned kBounds = 3;
  return a.is(OpKind::For) && b.is(OpKind::For) &&
         llvm::equal(a.operands().take_front(kBounds), b.operands().take_front(kBounds), isSame);
}

bool movesPast(const Op &loop, const Value &view) {
  const Op *tile = view.definingOp();
  const std::optional<int64_t> step =
      loop.is(OpKind::For) ? constantOf(loop.operand(2)) : std::nullopt;
  if (!tile || !tile->is(OpKind::ViewTile) || !step)
    return false;
  const Value *position = loop.body().argument(0);
  llvm::ArrayRef<int64_t> lengths = tile->get(attr::lens);
  unsigned operand = 1;
  for (const char letter : tile->get(attr::dims)) {
    if (letter != 'r' && letter != 'i')
      continue;
    int64_t length = 1;
    if (letter == 'r') {
      length = lengths.front();
      lengths = lengths.drop_front();
    }
    if (tile->operand(operand) == position && *step >= length)
      return true;
    operand += letter == 'r' ? 2 : 1;
  }
  return false;
}

bool isLookup(const Op &op) { return isLoadOfInput(op) && op.result()->type().isIntLike(); }

bool isTileLookup(const Op &op) {
  if (!isReadOfInput(op))
    return false;
  const Type type = op.result()->type();
  return type.isTile() && type.rank() == 1 && isInteger(type.dtype()) &&
         dtypeBytes(type.dtype()) >= kLeastAsyncBytes;
}

namespace {

bool isDoneAhead(const Op &read, Ahead ahead) {
  return ahead == Ahead::Numbers ? isLookup(read) : isReadOfInput(read);
}

/// Whether a value follows from the position of the loop with this body; appends what it needs.
bool follows(Value *value, const Block &body, PositionChain &chain, bool &isVarying, Ahead ahead) {
  constexpr uint16_t kAnyEffect = 0xffff;
  Op *source = value->definingOp();
  if (!source) {
    // Arguments of blocks around the loop do not change in it.
    if (value->argumentOf() != &body)
      return true;
    isVarying |= value == body.arguments().front();
    return value == body.arguments().front();
  }
  if (source->parentBlock() != &body || chain.contains(source))
    return true;
  // A rank that follows from the position may be none after the last iteration.
  return !source->is(OpKind::ViewAt) && source->numRegions() == 0 &&
         (!source->hasEffect(kAnyEffect) || isDoneAhead(*source, ahead)) &&
         followsFromPosition(*source, chain, isVarying, ahead);
}

} // namespace

bool followsFromPosition(Op &op, PositionChain &chain, bool &isVarying, Ahead ahead) {
  const Block &body = *op.parentBlock();
  const bool follow = llvm::all_of(op.operands(), [&](Value *operand) {
    return follows(operand, body, chain, isVarying, ahead);
  });
  if (follow)
    chain.insert(&op);
  return follow;
}

bool rowsFollowFromPosition(Op &gather, PositionChain &chain, bool &isVarying) {
  const Block &body = *gather.parentBlock();
  const bool areFound = isFoundByElement(gather.operand(1), [&](Value &value) {
    return value.type().isTile() ? isTileLookup(*value.definingOp())
                                 : follows(&value, body, chain, isVarying, Ahead::Numbers);
  });
  const bool follow = areFound && llvm::all_of(gather.operands(), [&](Value *operand) {
                        return operand == gather.operand(1) ||
                               follows(operand, body, chain, isVarying, Ahead::Numbers);
                      });
  if (follow)
    chain.insert(&gather);
  return follow;
}

std::optional<llvm::SmallSetVector<Op *, 2>> tileLookups(Op &gather) {
  llvm::SmallSetVector<Op *, 2> lookups;
  const bool areFound = isFoundByElement(gather.operand(1), [&](Value &value) {
    if (value.type().isTile())
      lookups.insert(value.definingOp());
    return true;
  });
  const bool areKnown =
      areFound && llvm::all_of(lookups, [](Op *lookup) {
        return llvm::all_of(lookup->operands(), [](Value *operand) {
          return !operand->type().isTile() ||
                 isFoundByElement(operand, [](Value &value) { return !value.type().isTile(); });
        });
      });
  return areKnown ? std::optional(std::move(lookups)) : std::nullopt;
}

} // namespace dtile::ir
