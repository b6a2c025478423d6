// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a frame holds, and functions that read it.
#include "backend/launch/frame.h"

#include "backend/llvm/tile_order.h"
#include "backend/runtime/device_abi.h"
#include "frontend/base/check.h"

#include "llvm/IR/Intrinsics.h"

namespace dtile::backend::launch {

using ir::Op;
using ir::OpKind;

// Where things are.

Frame::Frame(Op &kernel, FrameKind kind, int64_t room) : kernel_(kernel), kind_(kind), room_(room) {
  if (kind_ == FrameKind::Device) {
    findVarying();
    for (Op &op : kernel.body().ops()) {
      if (op.is(OpKind::Param) && op.get(ir::attr::mode) == ir::ParamMode::Scratch)
        objects_[&op] = allocate(sizeof(dtile_device_object));
      if (op.is(OpKind::SignalParam))
        objects_[&op] = allocate(sizeof(dtile_device_cells));
    }
  }
  for (Op &op : kernel.body().ops()) {
    if (!op.is(OpKind::Space) && !op.is(OpKind::SignalParam))
      continue;
    if (op.is(OpKind::Space))
      for (ir::Value *operand : op.operands()) {
        capture(operand);
        // The host side counts bodies, for this launch.
        const Op *producer = operand->definingOp();
        if (isVarying(operand) && producer && producer->parentBlock() == &kernel_.body())
          captured_.insert(operand);
      }
    // The sizes of a signal place its cells.
    if (op.is(OpKind::SignalParam))
      capture(op.result());
    ir::walk(op.body(), [&](Op &inner) { captureOperands(inner); });
  }
}

void Frame::findVarying() {
  for (Op &op : kernel_.body().ops()) {
    bool isVarying = op.is(OpKind::Epoch) ||
                     (op.is(OpKind::Param) && op.get(ir::attr::mode) == ir::ParamMode::Scratch);
    ir::walk(op, [&](Op &inner) {
      isVarying |= inner.is(OpKind::Epoch);
      for (ir::Value *operand : inner.operands())
        isVarying |= varying_.contains(operand);
    });
    // A parameter is where it is, whatever its sizes.
    if (isVarying && !op.is(OpKind::Space) && !op.is(OpKind::SignalParam))
      varying_.insert_range(op.results());
  }
}

void Frame::captureOperands(Op &op) {
  for (ir::Value *operand : op.operands())
    capture(operand);
}

void Frame::capture(ir::Value *value) {
  Op *op = value->definingOp();
  if (!op || op->parentBlock() != &kernel_.body())
    return;
  // Tiles are computed again where they are used.
  if (value->type().isTile() || isVarying(value))
    ir::walk(*op, [&](Op &inner) { captureOperands(inner); });
  else
    captured_.insert(value);
}

int64_t Frame::allocate(int64_t size, int64_t align) {
  bytes_ = int64_t(llvm::alignTo(uint64_t(bytes_), uint64_t(align)));
  return std::exchange(bytes_, bytes_ + size);
}

llvm::ArrayRef<Frame::Part> Frame::parts(ir::Value *value) const {
  auto it = places_.find(value);
  DTILE_CHECK(it != places_.end(), "a captured value");
  return it->second;
}

int64_t Frame::object(const Op &param) const {
  auto it = objects_.find(&param);
  DTILE_CHECK(it != objects_.end(), "a scratch or signal parameter of this kernel");
  return it->second;
}

const Frame::TensorMap &Frame::addTensorMap(TensorMap asked) {
  DTILE_CHECK(asked.param->is(OpKind::Param), "only tensor parameters have maps");
  for (const auto &map : tensorMaps_)
    if (map->isFor(asked)) {
      if (map->folded.rows == 0)
        map->folded = asked.folded;
      return *map;
    }
  auto map = std::make_unique<TensorMap>(std::move(asked));
  map->copies = scratchCopies(*map->param);
  map->offset = allocate(kTensorMapBytes * map->copies, 64);
  map->usable = allocate();
  tensorMaps_.push_back(std::move(map));
  return *tensorMaps_.back();
}

void Frame::placeFoldedMaps() {
  for (const auto &map : tensorMaps_) {
    TensorMap::Folded &folded = map->folded;
    if (folded.rows == 0)
      continue;
    constexpr int64_t kMapAlign = 64;
    const int64_t dims = int64_t(map->box.size()) - 1;
    const int64_t numbers = kFrameWordBytes * (2 + map->copies + dims);
    if (bytes_ + kMapAlign + kTensorMapBytes * map->copies + numbers > room_) {
      folded = {};
      continue;
    }
    folded.offset = allocate(kTensorMapBytes * map->copies, kMapAlign);
    folded.pitch = allocate();
    folded.rest = allocate();
    folded.before = allocate(kFrameWordBytes * map->copies);
    folded.rowsApart = allocate(kFrameWordBytes * dims);
  }
}

int64_t scratchCopies(const Op &param) {
  if (param.get(ir::attr::mode) != ir::ParamMode::Scratch)
    return 1;
  return std::max<int64_t>(param.get(ir::attr::zero) ? 2 : 1, param.getOr(ir::attr::copies, 1));
}

namespace {

/// Elements of a row with those that fill it up.
llvm::Value *flaggedRow(llvm::IRBuilder<> &b, DType type, llvm::Value *size) {
  constexpr int64_t kRowBytes = 8;
  const int64_t group = std::max<int64_t>(1, kRowBytes / dtypeBytes(type));
  return b.CreateAnd(b.CreateAdd(size, b.getInt64(group - 1)), b.getInt64(-group));
}

bool usesLl(const Op &param) { return param.get(ir::attr::ll); }

} // namespace

View scratchView(ViewBuilder &views, llvm::IRBuilder<> &b, const Op &param, llvm::Value *data,
                 llvm::ArrayRef<llvm::Value *> sizes) {
  const ir::Type type = param.result()->type();
  if (!usesLl(param))
    return views.contiguous(type, data, sizes);
  llvm::SmallVector<llvm::Value *, 4> filled(sizes);
  filled.back() = flaggedRow(b, type.dtype(), sizes.back());
  View view = views.contiguous(type, data, filled);
  view.dims.back().high = view.dims.back().extent = sizes.back();
  return view;
}

llvm::SmallVector<llvm::Value *, 4> scratchMemory(llvm::IRBuilder<> &b, const Op &param,
                                                  llvm::ArrayRef<llvm::Value *> sizes) {
  llvm::SmallVector<llvm::Value *, 4> memory(sizes);
  if (usesLl(param))
    memory.back() =
        b.CreateShl(flaggedRow(b, param.result()->type().dtype(), sizes.back()), uint64_t(1));
  return memory;
}

// Functions that read it.

void FrameFunction::begin(llvm::Function *function, unsigned frameArgument) {
  function_ = function;
  frame_ = function->getArg(frameArgument);
  entry_ = llvm::BasicBlock::Create(context(), "entry", function);
  start_ = llvm::BasicBlock::Create(context(), "start", function);
  b.SetInsertPoint(start_);
}

void FrameFunction::end() {
  llvm::IRBuilder<> entry(entry_);
  entry.CreateBr(start_);
}

llvm::Value *FrameFunction::loadFrame(int64_t offset, llvm::Type *type) {
  llvm::Value *&known = loaded_[offset];
  if (!known) {
    llvm::IRBuilder<> entry(entry_);
    llvm::Value *address = entry.CreateConstGEP1_64(entry.getInt8Ty(), frame_, offset);
    llvm::LoadInst *load = entry.CreateAlignedLoad(type, address, llvm::Align(8));
    // Nothing writes the frame once the prologue is done.
    load->setMetadata(llvm::LLVMContext::MD_invariant_load,
                      llvm::MDNode::get(entry.getContext(), {}));
    known = load;
  }
  return known;
}

llvm::Value *FrameFunction::stackSlot(llvm::Type *type, llvm::StringRef name) {
  llvm::IRBuilder<> entry(entry_, entry_->begin());
  return entry.CreateAlloca(type, nullptr, name);
}

Parts FrameFunction::outside(ir::Value *value) {
  const Op *op = value->definingOp();
  DTILE_CHECK(op != nullptr, "block arguments are set by whoever lowers the block");
  Parts parts;
  for (auto [part, type] : llvm::zip_equal(layout_->parts(value), partTypes(value->type())))
    parts.push_back(part.constant ? part.constant : loadFrame(part.offset, type));
  return parts;
}

llvm::Value *FrameFunction::fact(OpKind kind) {
  const int64_t offset = kind == OpKind::Rank       ? Frame::kRank
                         : kind == OpKind::NumRanks ? Frame::kNumRanks
                                                    : Frame::kEpoch;
  return loadFrame(offset, b.getInt64Ty());
}

void FrameFunction::lowerTargetOp(Op &op) {
  giveUp(op, "cannot be used where only sizes and counts are computed");
}

// What they compute.

llvm::SmallVector<llvm::Value *, 4> blockCounts(FunctionLowering &f, llvm::IRBuilder<> &b,
                                                Op &space, llvm::Value *paired) {
  llvm::SmallVector<llvm::Value *, 4> counts;
  for (unsigned d = 0; d < ir::spaceDims(space); ++d)
    counts.push_back(emitBlockCount(b, f.scalar(space.operand(3 * d)),
                                    f.scalar(space.operand(3 * d + 1)),
                                    f.scalar(space.operand(3 * d + 2))));
  if (!paired)
    return counts;
  llvm::Value *&even = counts[*ir::TileOrder::fromSpace(space).pairedDimension()];
  llvm::Value *isOdd = b.CreateAnd(even, b.getInt64(1));
  even = b.CreateAdd(even, b.CreateSelect(paired, isOdd, b.getInt64(0)));
  return counts;
}

llvm::SmallVector<llvm::Value *, 4> positions(FunctionLowering &f, llvm::IRBuilder<> &b, Op &space,
                                              llvm::Value *rank, llvm::Value *linear,
                                              llvm::Value *paired, bool areFew) {
  const ir::TileOrder order = ir::TileOrder::fromSpace(space);
  llvm::SmallVector<llvm::Value *, 4> centers(order.rotate.size(), rank);
  for (auto [d, center] : llvm::enumerate(centers))
    if (ir::Value *other = ir::rotationCenter(space, unsigned(d)); other && order.rotate[d] != 0)
      center = f.scalar(other);
  llvm::SmallVector<llvm::Value *, 4> result =
      emitTileOrder(b, order, blockCounts(f, b, space, paired), centers, linear, areFew);
  for (auto [d, block] : llvm::enumerate(result))
    block = b.CreateAdd(f.scalar(space.operand(3 * d)),
                        b.CreateMul(block, f.scalar(space.operand(3 * d + 2))));
  return result;
}

llvm::Value *expectedCount(FunctionLowering &f, llvm::IRBuilder<> &b, Op &signal,
                           llvm::Value *cell) {
  DTILE_CHECK(!signal.body().empty(), "a signal with a derived count");
  llvm::ArrayRef<ir::Value *> at = signal.body().arguments();
  SignalCells cells = f.cells(signal.result());
  for (size_t d = at.size(); d-- > 0;) {
    llvm::Value *digit = d == 0 ? cell : b.CreateURem(cell, cells.dims[d].size);
    f.set(at[d], {digit});
    if (d > 0)
      cell = b.CreateUDiv(cell, cells.dims[d].size);
  }
  f.lowerBlock(signal.body());
  return f.scalar(signal.body().terminator()->operand(0));
}

llvm::Function *lowerCount(LaunchModule &module, const Frame &frame, Op &space,
                           llvm::StringRef name) {
  FrameFunction f(module, &frame);
  llvm::IRBuilder<> &b = f.builder();
  llvm::Function *function =
      module.function(name, llvm::FunctionType::get(b.getInt64Ty(), {b.getPtrTy()}, false));
  f.begin(function, 0);
  llvm::Value *total = b.getInt64(1);
  for (llvm::Value *blocks : blockCounts(f, b, space))
    total = b.CreateMul(total, blocks);
  // A space that is empty in this launch may have bodies when the frame is replayed: somebody has
  // to be there to run them.
  if (llvm::any_of(space.operands(), [&](ir::Value *bound) { return frame.isVarying(bound); }))
    total = b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, total, b.getInt64(1));
  b.CreateRet(total);
  f.end();
  return function;
}

} // namespace dtile::backend::launch
