// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Zeros past the limits of views that end inside of their tensors, which TMA reads on.
//
// In the last iteration of a loop, as a rule, a box reaches past the limit. The threads of the
// warpgroups share the tile's words of 16 bytes, keep what is within the limits, and meet. They all
// find the same limits, so all of them come here or none does.
#include "backend/gpu/staged/mma_warpgroups.h"

#include "llvm/ADT/STLExtras.h"

#include <array>

namespace dtile::backend::gpu {

using ir::Op;
using ir::OpKind;
using llvm::Value;

namespace {

/// A tile in its slot, and what of it exists.
struct CutTile {
  const StagedTile *tile;
  /// As products find it.
  BoxedTile boxed = tile->multiplied();
  /// i64: how many of its rows and columns exist; null where all do.
  std::array<Value *, 2> rooms{};

  [[nodiscard]] int64_t length(unsigned dim) const {
    return dim == 0 ? boxed.rows : boxed.columns();
  }
};

} // namespace

/// The staged operands of a product at which no other product looked before.
llvm::SmallVector<const Op *, 2> MmaWarpgroups::newOperands(const Op &dot) {
  const auto isNew = [&](const Op *load) {
    for (const Op &op : dot.parentBlock()->ops()) {
      if (&op == &dot)
        return true;
      if (op.is(OpKind::Dot) && (loadOf(op.operand(0)) == load || loadOf(op.operand(1)) == load))
        return false;
    }
    return true;
  };
  llvm::SmallVector<const Op *, 2> loads;
  for (unsigned i : {0u, 1u})
    if (const Op *load = loadOf(dot.operand(i)); load && isNew(load))
      loads.push_back(load);
  return loads;
}

void MmaWarpgroups::zeroPastLimits(llvm::ArrayRef<const Op *> loads) {
  llvm::SmallVector<CutTile, 2> cuts;
  Value *reachesPast = b.getFalse();
  for (const Op *load : loads) {
    if (!load->has(ir::attr::zeroed))
      continue;
    CutTile &cut = cuts.emplace_back(CutTile{&ring_.tiles.find(load)->second});
    for (const int64_t viewDim : load->get(ir::attr::zeroed)) {
      const unsigned dim = cut.tile->isTransposed() ? 1 - unsigned(viewDim) : unsigned(viewDim);
      cut.rooms[dim] = room(*cut.tile, unsigned(viewDim));
      Value *isCut = b.CreateICmpSLT(cut.rooms[dim], b.getInt64(cut.length(dim)));
      reachesPast = b.CreateOr(reachesPast, isCut);
    }
  }
  if (cuts.empty())
    return;
  Value *all = warp_.uniform(b, b.CreateZExt(reachesPast, b.getInt32Ty()));
  when(b.CreateIsNotNull(all), "limits", [&] {
    for (const CutTile &cut : cuts)
      zeroPast(cut.boxed, address(place_.slot(), cut.tile->offset), cut.rooms);
    bulk_.sharedProxyFence(b);
    gpu_.device.barrier(b, barrier_, threads_);
  });
}

Value *MmaWarpgroups::room(const StagedTile &tile, unsigned dim) {
  Value *result = nullptr;
  for (const ir::TensorBox &box : tile.source.boxes) {
    const auto *its =
        llvm::find_if(box.dims, [&](const ir::TensorBox::Dim &d) { return d.viewDim == dim; });
    Value *room = b.getInt64(dim == 0 ? tile.rows : tile.columns());
    if (its->limit) {
      room = scalar(its->limit);
      for (ir::Value *first : its->firsts)
        room = b.CreateSub(room, scalar(first));
    }
    result = result ? b.CreateSelect(scalar(tile.source.isFirst), result, room) : room;
  }
  return result;
}

void MmaWarpgroups::zeroPast(const BoxedTile &tile, Value *begin, llvm::ArrayRef<Value *> rooms) {
  const auto count = [&](int64_t x) { return b.getInt32(uint32_t(x)); };
  const auto limit = [&](unsigned dim, int64_t length) -> Value * {
    if (!rooms[dim])
      return count(length);
    Value *within = b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, rooms[dim], b.getInt64(length));
    within = b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, within, b.getInt64(0));
    return b.CreateTrunc(within, b.getInt32Ty());
  };
  Value *rows = limit(0, tile.rows), *columns = limit(1, tile.columns());
  SharedTile there = tile.layout();
  there.base = shared(begin);
  const auto bytes = int64_t(dtypeBytes(tile.dtype));
  const int64_t elements = ir::kSharedWordBytes / bytes,
                wordsOfRow = tile.rowBytes / ir::kSharedWordBytes;
  const int64_t words = tile.rows * wordsOfRow, wordsOfBox = tile.swizzle / ir::kSharedWordBytes;
  const int64_t threads = int64_t(threads_);
  auto *type = llvm::FixedVectorType::get(b.getIntNTy(unsigned(8 * bytes)), unsigned(elements));
  loop(b.getInt64((words + threads - 1) / threads), "zeros", [&](Value *round) {
    Value *word = b.CreateAdd(b.CreateMul(b.CreateTrunc(round, b.getInt32Ty()), count(threads)),
                              kernel_.thread);
    Value *row = b.CreateUDiv(word, count(wordsOfRow));
    Value *place = b.CreateURem(word, count(wordsOfRow));
    Value *first = b.CreateMul(place, count(elements));
    Value *isRow = b.CreateICmpULT(row, rows);
    Value *isWhole =
        b.CreateAnd(isRow, b.CreateICmpULE(b.CreateAdd(first, count(elements)), columns));
    Value *exists = b.CreateICmpULT(word, count(words));
    when(b.CreateAnd(exists, b.CreateNot(isWhole)), "word", [&] {
      Value *box = b.CreateUDiv(place, count(wordsOfBox));
      Value *inBox = b.CreateURem(place, count(wordsOfBox));
      Value *offset = b.CreateAdd(b.CreateMul(row, count(tile.swizzle)),
                                  b.CreateMul(inBox, count(ir::kSharedWordBytes)));
      offset = b.CreateAdd(there.swizzled(b, offset), b.CreateMul(box, count(tile.boxBytes())));
      Value *at = b.CreateGEP(b.getInt8Ty(), there.base, offset);
      Value *kept = b.CreateAlignedLoad(type, at, llvm::Align(ir::kSharedWordBytes));
      for (int64_t i = 0; i < elements; ++i) {
        Value *isIn = b.CreateAnd(isRow, b.CreateICmpULT(b.CreateAdd(first, count(i)), columns));
        Value *element = b.CreateExtractElement(kept, uint64_t(i));
        element = b.CreateSelect(isIn, element, llvm::ConstantInt::get(element->getType(), 0));
        kept = b.CreateInsertElement(kept, element, uint64_t(i));
      }
      b.CreateAlignedStore(kept, at, llvm::Align(ir::kSharedWordBytes));
    });
  });
}

} // namespace dtile::backend::gpu
