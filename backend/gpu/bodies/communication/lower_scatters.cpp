// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Scatters and atomics: elements that index tiles name, and single ones. Each element is written or
// updated by one thread; where a tile has copies in other threads, those are left out, and get what
// was found by way of shared memory.
#include "backend/gpu/bodies/lower_body.h"

#include "llvm/Support/SaveAndRestore.h"

#include "frontend/base/check.h"

#include "llvm/ADT/StringSwitch.h"

namespace dtile::backend::gpu {

using ir::Op;
using ir::OpKind;

void BodyLowering::eachPlace(
    Op &op, const View &to, const TileInfo &tile,
    llvm::function_ref<void(unsigned slot, llvm::Value *exists, llvm::ArrayRef<llvm::Value *> at)>
        act) {
  const llvm::SmallVector<Registers, 4> at =
      indices(op, ir::firstIndexTile(op), unsigned(to.dims.size()), tile.layout);
  llvm::SmallVector<llvm::Value *, 4> thread;
  for (unsigned d = 0; d < tile.shape.size(); ++d)
    thread.push_back(tile.overhangs(d) ? threadPosition(tile.layout, d) : nullptr);
  for (unsigned slot = 0; slot < tile.size(); ++slot) {
    llvm::SmallVector<llvm::Value *, 4> positions;
    for (const Registers &dimension : at)
      positions.push_back(dimension[slot]);
    llvm::Value *exists = views_.contains(to, positions);
    for (auto [d, part] : llvm::enumerate(thread))
      if (part)
        exists = b.CreateAnd(
            exists, b.CreateICmpULT(b.CreateAdd(part, b.getInt32(uint32_t(tile.at(slot)[d]))),
                                    b.getInt32(uint32_t(tile.shape[d]))));
    act(slot, exists, positions);
  }
}

void BodyLowering::lowerScatter(Op &op) {
  ir::Value *tile = op.operand(0);
  if (!tile->type().layout())
    return giveUp(op, "has a tile without a layout (pass infer-layouts)");
  beforeWrite(op.operand(1));
  View to = locatedToSend(op.operand(1));
  const TileInfo &from = info(tile->type());
  const DType dtype = to.type.dtype();
  llvm::ArrayRef<llvm::Value *> values = registers(tile);
  auto all = [&] {
    eachPlace(op, to, from,
              [&](unsigned slot, llvm::Value *exists, llvm::ArrayRef<llvm::Value *> at) {
                when(exists, "scatter", [&] {
                  storeWord(to, arith_.toMemory(dtype, values[slot]), globalAddress(to, at),
                            dtypeBytes(dtype));
                });
              });
    finishStores(to);
  };
  if (llvm::Value *original = isOriginal(from.layout))
    return when(original, "scatter.original", all);
  all();
}

llvm::Value *BodyLowering::globalAddress(const View &view, llvm::ArrayRef<llvm::Value *> at) {
  return b.CreateAddrSpaceCast(views_.address(view, at), b.getPtrTy(Device::kGlobal));
}

// Atomics.

/// The update of one element that is there; the old value, where it is asked for.
llvm::Value *BodyLowering::updated(Op &op, const View &cell, DType type, bool own,
                                   llvm::Value *operand, llvm::Value *desired) {
  const llvm::StringRef kind = op.get(ir::attr::kind);
  const OpKind combine = llvm::StringSwitch<OpKind>(kind)
                             .Case("min", OpKind::Min)
                             .Case("max", OpKind::Max)
                             .Case("and", OpKind::And)
                             .Case("or", OpKind::Or)
                             .Default(OpKind::Add);
  if (kind == "add" && !op.result()->hasUses()) {
    addAt(cell, type, cell.data, operand, own);
    return nullptr;
  }
  if (kind == "add" && isSentAtomically(type))
    return either(
        cell.far, [&] { return fetchAddFar(cell, type, operand); },
        [&] {
          return call(dtypeBits(type) == 32 ? DeviceCall::fetch_add_i32 : DeviceCall::fetch_add_i64,
                      {cell.data, operand, b.getInt32(own ? 0 : 1)});
        });
  return atomicUpdate(type, cell, own, [&](llvm::Value *seen) -> llvm::Value * {
    if (kind == "exch")
      return operand;
    if (kind == "cas")
      return b.CreateSelect(arith_.compare("eq", type, seen, operand), desired, seen);
    return arith_.binary(combine, type, seen, operand);
  });
}

llvm::Value *BodyLowering::updatedWhere(llvm::Value *acts, Op &op, const View &cell, DType type,
                                        bool own, llvm::Value *operand, llvm::Value *desired) {
  llvm::BasicBlock *before = b.GetInsertBlock();
  llvm::BasicBlock *inside = block("atomic"), *after = block("atomic.end");
  b.CreateCondBr(acts, inside, after);
  b.SetInsertPoint(inside);
  llvm::Value *old = updated(op, cell, type, own, operand, desired);
  llvm::BasicBlock *end = b.GetInsertBlock();
  b.CreateBr(after);
  b.SetInsertPoint(after);
  llvm::Value *none = arith_.zero(type);
  if (!op.result()->hasUses())
    return none;
  llvm::PHINode *result = b.CreatePHI(none->getType(), 2);
  result->addIncoming(none, before);
  result->addIncoming(old, end);
  return result;
}

void BodyLowering::lowerAtomic(Op &op) {
  beforeWrite(op.operand(0));
  const DType type = op.operand(0)->type().elementOrIndex();
  const View cell = isSentAtomically(type) ? locatedToSend(op.operand(0)) : located(op.operand(0));
  const bool own = isOwn(op.operand(0));
  llvm::Value *operand = scalar(op.operand(1));
  llvm::Value *desired = op.get(ir::attr::kind) == "cas" ? scalar(op.operand(2)) : nullptr;
  llvm::Value *acts = b.CreateAnd(isLeader(), b.CreateIsNotNull(cell.data));
  llvm::Value *old = updatedWhere(acts, op, cell, type, own, operand, desired);
  set(op.result(), {op.result()->hasUses() ? fromLeader(old) : old});
}

void BodyLowering::lowerAtomicScatter(Op &op) {
  awaitTokens(op, op.numOperands() - ir::numTrailingTokens(op));
  ir::Value *tile = op.operand(1);
  if (!tile->type().layout())
    return giveUp(op, "has a tile without a layout (pass infer-layouts)");
  beforeWrite(op.operand(0));
  const DType type = tile->type().dtype();
  const View to = isSentAtomically(type) ? locatedToSend(op.operand(0)) : located(op.operand(0));
  const bool own = isOwn(op.operand(0));
  const TileInfo &from = info(tile->type());
  const bool isSwap = op.get(ir::attr::kind) == "cas";
  llvm::ArrayRef<llvm::Value *> values = registers(tile);
  llvm::ArrayRef<llvm::Value *> desired =
      isSwap ? registers(op.operand(2)) : llvm::ArrayRef<llvm::Value *>();
  llvm::Value *original = isOriginal(from.layout);
  Registers old;
  eachPlace(op, to, from,
            [&](unsigned slot, llvm::Value *exists, llvm::ArrayRef<llvm::Value *> at) {
              View cell = to;
              cell.data = globalAddress(to, at);
              llvm::Value *acts = original ? b.CreateAnd(original, exists) : exists;
              old.push_back(updatedWhere(acts, op, cell, type, own, values[slot],
                                         isSwap ? desired[slot] : nullptr));
            });
  finishStores(to);
  if (op.result()->hasUses() && original)
    old = fromOriginals(op, original, from, old);
  setRegisters(op.result(), std::move(old));
}

/// What the threads that act have found, in all that have a copy of the tile.
Registers BodyLowering::fromOriginals(Op &op, llvm::Value *original, const TileInfo &tile,
                                      llvm::ArrayRef<llvm::Value *> found) {
  SharedTile shared = sharedTile(op.result()->type().dtype(), {&tile}, tile.longestRun().dim,
                                 /*padded=*/false);
  if (shared.bytes > gpu_.sharedRoom()) {
    giveUp(op, "has old values that its threads exchange, and more than shared memory holds; use a "
               "smaller block");
    return Registers(found);
  }
  shared.base = sharedScratch(shared.bytes);
  when(original, "found", [&] { writeShared(shared, tile, found); });
  programBarrier();
  Registers result = readShared(shared, tile);
  sharedRead();
  return result;
}

void BodyLowering::lowerReduceAddScatter(Op &op) {
  awaitTokens(op, op.numOperands() - ir::numTrailingTokens(op));
  const llvm::SaveAndRestore later(isSentLater_, sendsLater(op));
  ir::Value *tile = op.operand(0);
  if (!tile->type().layout())
    return giveUp(op, "has a tile without a layout (pass infer-layouts)");
  ir::Value *target = op.operand(1);
  if (!target->type().isRemote())
    beforeWrite(target);
  const DType type = tile->type().dtype();
  const View to = isSentAtomically(type) ? locatedToSend(target) : located(target);
  const bool own = isOwn(target);
  const TileInfo &from = info(tile->type());
  llvm::ArrayRef<llvm::Value *> values = registers(tile);
  auto all = [&] {
    eachPlace(op, to, from,
              [&](unsigned slot, llvm::Value *exists, llvm::ArrayRef<llvm::Value *> at) {
                when(exists, "reduce",
                     [&] { addAt(to, type, globalAddress(to, at), values[slot], own); });
              });
    finishStores(to);
  };
  if (llvm::Value *original = isOriginal(from.layout))
    return when(original, "reduce.original", all);
  all();
}

} // namespace dtile::backend::gpu
