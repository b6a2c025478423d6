// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Products of tiles without matrix instructions: element by element, from shared memory.
#include "backend/gpu/bodies/multistage_loop.h"

#include "ir/analysis/shared_memory_plan.h"

#include "llvm/IR/Intrinsics.h"

namespace dtile::backend::gpu {

using ir::Layout;
using ir::LayoutBits;
using ir::Op;
using ir::OpKind;

namespace {

/// Elements of an operand that a thread reads at once, at most.
constexpr int64_t kMostRun = 4;
/// Steps of the depth in one iteration, at most, and products of elements in it.
constexpr int64_t kMostSteps = 8, kMostUnrolled = 512;
/// Of a thread, for sums and for what they are made from: 255 less what addresses need.
constexpr int64_t kMostThreadRegisters = 208;

} // namespace

/// Multiplies in blocks whose operands are in shared memory, each as deep as they are.
class ElementProduct {
public:
  ElementProduct(BodyLowering &body, Op &op)
      : body_(body), b(body.b), op_(op), to_(body.info(op.result()->type())),
        dtype_(accumulatorType(op.result()->type().dtype())),
        depth_(op.operand(0)->type().shape()[1]), whole_(ProductBlocks::whole(to_.shape, depth_)),
        blocks_(whole_) {
    for (unsigned i : {0u, 1u})
      if (std::optional<SharedTile> copied = body.asyncOperand(op.operand(i));
          copied && body.readsShared(op, *copied))
        copied_[i] = *copied;
  }
  void run();

private:
  /// Where the part of an operand is that a block of this size needs, without an address.
  [[nodiscard]] SharedTile placeOf(unsigned i, const ProductBlocks &blocks) const;
  /// Of both operands; 0 where they are in shared memory already.
  [[nodiscard]] int64_t bytesOf(const ProductBlocks &blocks) const;
  /// Writes both operands' parts from these rows, columns and this depth on.
  void stage(const Layout::Position &from, int64_t depth);
  /// Adds the products of a block to its sums.
  void multiply(const Layout::Position &from, int64_t depth);
  /// What a thread reads of an operand at once: so many neighbours, of a line or of lines.
  struct Run {
    bool isAlongDepth = false;
    int64_t length = 1;
  };
  [[nodiscard]] Run runOf(unsigned i, int64_t depth, int64_t offset) const;
  void fitRegisters(Run (&runs)[2], int64_t sums) const;
  [[nodiscard]] const TileInfo &operand(unsigned i) const {
    return body_.info(op_.operand(i)->type());
  }

  BodyLowering &body_;
  llvm::IRBuilder<> &b;
  Op &op_;
  const TileInfo &to_;
  /// Narrow sums are kept wide until the end.
  DType dtype_;
  int64_t depth_;
  ProductBlocks whole_, blocks_;
  std::optional<SharedTile> copied_[2];
  SharedTile tiles_[2];
  Registers sums_;
};

SharedTile ElementProduct::placeOf(unsigned i, const ProductBlocks &blocks) const {
  // A row is what is read together.
  const DType type = op_.operand(i)->type().dtype();
  const TileInfo &from = operand(i);
  if (blocks == whole_)
    return body_.sharedTile(type, {&from}, from.longestRun().dim, true);
  const TilePiece piece(from, blocks.fixed(i, whole_), {});
  return body_.sharedTile(type, {&piece.info}, from.longestRun().dim, true);
}

int64_t ElementProduct::bytesOf(const ProductBlocks &blocks) const {
  int64_t bytes = 0;
  for (unsigned i : {0u, 1u}) {
    const SharedTile tile = copied_[i] ? *copied_[i] : placeOf(i, blocks);
    const int64_t lines = i == 0 ? blocks.rows : blocks.columns;
    // Threads of layouts that reach past the tile read past it.
    const int64_t past = blocks == whole_ ? to_.extent(i) - to_.shape[i]
                                          : std::max<int64_t>(0, to_.extent(i) - lines);
    const bool isCut = lines < (i == 0 ? whole_.rows : whole_.columns);
    bytes += (copied_[i] ? 0 : tile.bytes) + (isCut ? 0 : past * tile.strides[i]);
  }
  return bytes;
}

void ElementProduct::stage(const Layout::Position &from, int64_t depth) {
  const int64_t bytes = bytesOf(blocks_);
  llvm::Value *base = bytes > 0 ? body_.sharedScratch(bytes) : nullptr;
  bool isWritten = false;
  for (unsigned i : {0u, 1u}) {
    if (copied_[i]) {
      tiles_[i] = *copied_[i];
      continue;
    }
    SharedTile &tile = tiles_[i] = placeOf(i, blocks_);
    tile.base = base;
    base = b.CreateConstGEP1_64(b.getInt8Ty(), base, uint64_t(tile.bytes));
    ir::Value *value = op_.operand(i);
    if (blocks_ == whole_) {
      body_.writeShared(tile, operand(i), body_.registers(value));
    } else {
      PositionBits at{};
      at[i] = from[i];
      at[1 - i] = int32_t(depth);
      body_.writePiece(tile, TilePiece(operand(i), blocks_.fixed(i, whole_), at),
                       body_.registers(value));
    }
    isWritten = true;
  }
  if (isWritten)
    body_.programBarrier();
}

ElementProduct::Run ElementProduct::runOf(unsigned i, int64_t depth, int64_t offset) const {
  const SharedTile &tile = tiles_[i];
  const int64_t each = dtypeBytes(tile.dtype);
  const bool isAlongDepth = tile.fastest == 1 - i;
  // Every run begins at a multiple of its bytes.
  int64_t bytes = kMostRun * each;
  for (const int64_t apart : {offset, tile.strides[1 - tile.fastest]})
    if (apart != 0)
      bytes = std::min(bytes, int64_t(1) << llvm::countr_zero(uint64_t(apart)));
  int64_t length = std::max<int64_t>(1, std::min(bytes, ir::kSharedWordBytes) / each);
  if (isAlongDepth)
    return {true, std::min(length, int64_t(1) << llvm::countr_zero(uint64_t(depth)))};
  // As long as the thread has all of it.
  const llvm::ArrayRef<Layout::Position> bits = to_.layout.bits(LayoutBits::Register);
  int64_t has = 1;
  while (has < length &&
         llvm::any_of(bits, [&](const Layout::Position &way) { return way[i] == has; }))
    has *= 2;
  return {false, has};
}

/// Shortens runs along the depth, of which each line takes as many registers, until they fit beside
/// the sums.
void ElementProduct::fitRegisters(Run (&runs)[2], int64_t sums) const {
  while (true) {
    int64_t registers = sums;
    for (unsigned i : {0u, 1u}) {
      int64_t lines = 1;
      for (const Layout::Position &way : to_.layout.bits(LayoutBits::Register))
        lines *= way[i] != 0 ? 2 : 1;
      registers += lines * (runs[i].isAlongDepth ? runs[i].length : 1);
    }
    if (registers * std::max<int64_t>(1, dtypeBytes(dtype_) / 4) <= kMostThreadRegisters)
      return;
    bool isShorter = false;
    for (Run &run : runs)
      if (run.isAlongDepth && run.length > 1) {
        run.length /= 2;
        isShorter = true;
      }
    if (!isShorter)
      return;
  }
}

void ElementProduct::multiply(const Layout::Position &from, int64_t first) {
  const int64_t depth = std::min(depth_ - first, blocks_.depth);
  const int64_t sizes[] = {blocks_.rows, blocks_.columns};
  llvm::SmallVector<unsigned, 16> slots;
  for (unsigned slot = 0; slot < to_.size(); ++slot)
    if (llvm::all_of(llvm::ArrayRef<unsigned>{0, 1}, [&](unsigned d) {
          return (to_.at(slot)[d] & ~int32_t(sizes[d] - 1)) == from[d];
        }))
      slots.push_back(slot);
  // Where this thread's rows of the one and columns of the other begin.
  llvm::Value *begin[2];
  Run runs[2];
  for (unsigned i : {0u, 1u}) {
    begin[i] = b.CreateGEP(b.getInt8Ty(), tiles_[i].base,
                           b.CreateMul(body_.threadPosition(to_.layout, i),
                                       b.getInt32(uint32_t(tiles_[i].strides[i]))));
    const int64_t offset =
        copied_[i] ? from[i] * tiles_[i].strides[i] + first * tiles_[i].strides[1 - i] : 0;
    if (offset != 0)
      begin[i] = b.CreateConstGEP1_64(b.getInt8Ty(), begin[i], uint64_t(offset));
    runs[i] = runOf(i, depth, offset);
  }
  fitRegisters(runs, slots.size());
  llvm::BasicBlock *before = b.GetInsertBlock();
  llvm::BasicBlock *inside = body_.block("dot"), *after = body_.block("dot.end");
  b.CreateBr(inside);
  b.SetInsertPoint(inside);
  llvm::PHINode *k = b.CreatePHI(b.getInt32Ty(), 2, "k");
  k->addIncoming(b.getInt32(0), before);
  llvm::SmallVector<llvm::PHINode *> carried;
  for (unsigned slot : slots) {
    llvm::PHINode *phi = b.CreatePHI(sums_[slot]->getType(), 2);
    phi->addIncoming(sums_[slot], before);
    carried.push_back(phi);
    sums_[slot] = phi;
  }
  int64_t steps = 1;
  for (const Run &run : runs)
    if (run.isAlongDepth)
      steps = std::max(steps, run.length);
  while (steps < kMostSteps && depth % (steps * 2) == 0 &&
         int64_t(slots.size()) * steps < kMostUnrolled)
    steps *= 2;
  // By line and step.
  std::map<std::pair<int32_t, int64_t>, llvm::Value *> read[2];
  for (int64_t step = 0; step < steps; ++step) {
    auto element = [&](unsigned i, int32_t at) {
      at &= int32_t(sizes[i] - 1);
      if (llvm::Value *known = read[i][{at, step}])
        return known;
      const auto [isAlongDepth, length] = runs[i];
      const SharedTile &tile = tiles_[i];
      const int64_t line = isAlongDepth ? at : at & ~(length - 1);
      llvm::Value *row = b.CreateGEP(b.getInt8Ty(), begin[i],
                                     b.CreateMul(k, b.getInt32(uint32_t(tile.strides[1 - i]))));
      llvm::Value *address = b.CreateConstGEP1_64(
          b.getInt8Ty(), row, uint64_t(step * tile.strides[1 - i] + line * tile.strides[i]));
      llvm::Type *type = memoryType(b.getContext(), tile.dtype);
      llvm::Value *word =
          b.CreateAlignedLoad(body_.packedType(type, unsigned(length)), address,
                              llvm::Align(uint64_t(length) * dtypeBytes(tile.dtype)));
      for (auto [n, value] : llvm::enumerate(body_.unpacked(type, word, unsigned(length)))) {
        const int32_t by = int32_t(n);
        read[i][isAlongDepth ? std::pair(at, step + by) : std::pair(int32_t(line) + by, step)] =
            body_.arith_.cast(tile.dtype, dtype_, body_.arith_.fromMemory(tile.dtype, value));
      }
      return read[i][{at, step}];
    };
    for (unsigned slot : slots) {
      const Layout::Position at = to_.at(slot);
      llvm::Value *x = element(0, at[0]), *y = element(1, at[1]);
      llvm::Value *&sum = sums_[slot];
      if (isFloat(dtype_))
        sum = b.CreateIntrinsic(llvm::Intrinsic::fma, {x->getType()}, {x, y, sum});
      else
        sum = body_.arith_.binary(OpKind::Add, dtype_, sum,
                                  body_.arith_.binary(OpKind::Mul, dtype_, x, y));
    }
  }
  llvm::Value *next = b.CreateAdd(k, b.getInt32(uint32_t(steps)));
  k->addIncoming(next, b.GetInsertBlock());
  for (auto [phi, slot] : llvm::zip_equal(carried, slots))
    phi->addIncoming(sums_[slot], b.GetInsertBlock());
  b.CreateCondBr(b.CreateICmpULT(next, b.getInt32(uint32_t(depth))), inside, after);
  b.SetInsertPoint(after);
  body_.sharedRead();
}

void ElementProduct::run() {
  blocks_ = chooseBlocks(to_, whole_, {1, 1, 1}, body_.gpu_.sharedRoom(),
                         [&](const ProductBlocks &blocks) { return bytesOf(blocks); });
  sums_ = body_.registers(op_.operand(2), to_.layout);
  for (int64_t row = 0; row < to_.shape[0]; row += blocks_.rows)
    for (int64_t column = 0; column < to_.shape[1]; column += blocks_.columns)
      for (int64_t depth = 0; depth < depth_; depth += blocks_.depth) {
        const Layout::Position from{int32_t(row), int32_t(column)};
        stage(from, depth);
        multiply(from, depth);
      }
  for (llvm::Value *&sum : sums_)
    sum = body_.arith_.round(op_.result()->type().dtype(), sum);
  body_.setRegisters(op_.result(), std::move(sums_));
}

void BodyLowering::multiplyByElements(Op &op) { ElementProduct(*this, op).run(); }

} // namespace dtile::backend::gpu
