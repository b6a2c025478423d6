// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Global memory: tiles and scalars, of this device and of peers. Neighbours in registers move in
// words of up to 16 bytes where the view's address and strides allow it, which is asked once a tile
// at run time; what a view does not have is asked of 16 zero bytes.
#include "backend/gpu/bodies/lower_body.h"

#include "backend/llvm/sink.h"
#include "frontend/base/check.h"

#include "llvm/ADT/StringSwitch.h"
#include "llvm/IR/Module.h"

#include <map>

namespace dtile::backend::gpu {

using ir::Layout;
using ir::Op;
using ir::OpKind;

namespace {

llvm::Value *both(llvm::IRBuilder<> &b, llvm::Value *x, llvm::Value *y) {
  return x ? b.CreateAnd(x, y) : y;
}

/// One tile's accesses through a view.
class TileAccess {
public:
  /// Groups are of `most` registers at most.
  TileAccess(BodyLowering &body, const View &view, const TileInfo &info, unsigned most = 16);

  /// Groups of registers that are moved at once where `aligned` holds.
  TileInfo::Run run;
  /// i1: the addresses of all runs are aligned, and their elements are neighbours, all inside or
  /// all outside of the view; null for runs of one.
  llvm::Value *aligned = nullptr;
  /// i1: the whole tile is inside of the view.
  llvm::Value *whole = nullptr;

  /// Begins a way through the tile: positions of one way build on what was computed for those
  /// before them, so all of it must be computed wherever the way goes.
  void beginWay();
  /// Address of the element at a position of thread 0, in this thread; `inRun` where `aligned`
  /// holds: neighbours are 1 apart.
  [[nodiscard]] llvm::Value *address(const Layout::Position &at, bool inRun = false);
  /// i1: it exists.
  [[nodiscard]] llvm::Value *exists(const Layout::Position &at);
  [[nodiscard]] llvm::Type *element() const { return element_; }
  [[nodiscard]] unsigned bytes() const { return bytes_; }

private:
  llvm::IRBuilder<> &b;
  const View &view_;
  llvm::Type *element_;
  unsigned bytes_;
  /// The position of thread 0's first element in this thread, from the first that exists; and how
  /// many do.
  llvm::SmallVector<llvm::Value *, 4> first_, span_;
  llvm::Value *base_;
  /// Bytes from an element to the next one of a dimension.
  llvm::SmallVector<llvm::Value *, 4> step_;
  /// What the way has come to: addresses; the last one along a dimension, from a position whose
  /// coordinates from there on are 0; coordinates of a dimension that exist.
  struct Reached {
    int32_t coordinate = 0;
    llvm::Value *address = nullptr;
  };
  std::map<Layout::Position, llvm::Value *> addresses_;
  std::map<std::pair<unsigned, Layout::Position>, Reached> last_;
  std::map<std::pair<unsigned, int32_t>, llvm::Value *> exist_;
};

TileAccess::TileAccess(BodyLowering &body, const View &view, const TileInfo &info, unsigned most)
    : b(body.builder()), view_(view) {
  const DType dtype = view.type.dtype();
  element_ = memoryType(b.getContext(), dtype);
  bytes_ = dtypeBytes(dtype);
  const auto limit = unsigned(body.gpu().device.facts().accessBytes);
  run = info.longestRun();
  run.length = std::min({run.length, std::max(1u, limit / bytes_), most});

  base_ = b.CreateAddrSpaceCast(view.data, b.getPtrTy(Device::kGlobal));
  llvm::Value *offset = b.getInt64(0);
  llvm::SmallVector<llvm::Value *, 4> low;
  for (auto [d, dim] : llvm::enumerate(view.dims)) {
    llvm::Value *position = body.threadPosition(info.layout, unsigned(d));
    offset = b.CreateAdd(offset, b.CreateMul(b.CreateZExt(position, b.getInt64Ty()), dim.stride));
    const auto [begin, count] = body.existing(dim, info.shape[d]);
    low.push_back(begin);
    first_.push_back(b.CreateSub(position, begin));
    step_.push_back(b.CreateMul(dim.stride, b.getInt64(bytes_)));
    span_.push_back(count);
    if (!info.overhangs(unsigned(d)))
      whole = both(b, whole, b.CreateICmpEQ(count, b.getInt32(uint32_t(info.shape[d]))));
    else
      whole = b.getFalse();
  }
  base_ = b.CreateGEP(element_, base_, offset);
  if (run.length == 1)
    return;
  // One number whose low bits say whether anything is out of step.
  const uint64_t size = uint64_t(run.length) * bytes_;
  llvm::Value *sum = b.CreatePtrToInt(view.data, b.getInt64Ty());
  for (auto [d, dim] : llvm::enumerate(view.dims)) {
    if (d != run.dim) {
      if (info.extent(unsigned(d)) > 1)
        sum = b.CreateOr(sum, step_[d]);
      continue;
    }
    llvm::Value *edges = b.CreateOr(low[d], b.CreateAdd(low[d], span_[d]));
    sum = b.CreateOr(sum, b.CreateMul(b.CreateZExt(edges, b.getInt64Ty()), b.getInt64(bytes_)));
    aligned = b.CreateICmpEQ(dim.stride, b.getInt64(1));
  }
  llvm::Value *rest = b.CreateAnd(sum, b.getInt64(size - 1));
  aligned = b.CreateAnd(aligned, b.CreateICmpEQ(rest, b.getInt64(0)));
}

void TileAccess::beginWay() {
  addresses_.clear();
  last_.clear();
  exist_.clear();
}

llvm::Value *TileAccess::address(const Layout::Position &at, bool inRun) {
  // Each dimension is walked step by step, so that few multiples of its stride are needed.
  Layout::Position reached{};
  llvm::Value *address = base_;
  for (unsigned d = 0; d < view_.dims.size(); ++d) {
    if (at[d] == 0 || (inRun && d == run.dim))
      continue;
    const Layout::Position from = reached;
    reached[d] = at[d];
    llvm::Value *&known = addresses_[reached];
    if (!known) {
      Reached &last = last_.try_emplace({d, from}, Reached{0, address}).first->second;
      llvm::Value *bytes = b.CreateMul(step_[d], b.getInt64(at[d] - last.coordinate));
      known = b.CreateGEP(b.getInt8Ty(), last.address, bytes);
      last = {at[d], known};
    }
    address = known;
  }
  const int32_t along = inRun ? at[run.dim] : 0;
  return along == 0 ? address : b.CreateConstGEP1_64(element_, address, uint64_t(along));
}

llvm::Value *TileAccess::exists(const Layout::Position &at) {
  llvm::Value *all = nullptr;
  for (unsigned d = 0; d < view_.dims.size(); ++d) {
    llvm::Value *&known = exist_[{d, at[d]}];
    if (!known)
      known = b.CreateICmpULT(b.CreateAdd(first_[d], b.getInt32(uint32_t(at[d]))), span_[d]);
    all = both(b, all, known);
  }
  return all ? all : b.getTrue();
}

} // namespace

llvm::Value *zeroBytes(llvm::IRBuilder<> &b) {
  llvm::Module &module = *b.GetInsertBlock()->getModule();
  constexpr llvm::StringLiteral kName = "dtile.zeros";
  if (llvm::GlobalVariable *known = module.getNamedGlobal(kName))
    return known;
  llvm::Type *type = llvm::ArrayType::get(b.getInt8Ty(), 16);
  // Not a constant: it is to stand in the same memory as what is read otherwise.
  auto *zeros = new llvm::GlobalVariable(module, type, /*isConstant=*/false,
                                         llvm::GlobalValue::InternalLinkage,
                                         llvm::Constant::getNullValue(type), kName, nullptr,
                                         llvm::GlobalValue::NotThreadLocal, Device::kGlobal,
                                         /*isExternallyInitialized=*/true);
  zeros->setAlignment(llvm::Align(16));
  return zeros;
}

BodyLowering::Existing BodyLowering::existing(const ViewDimension &dim, int64_t size) {
  // Sizes of tiles fit 32 bits, and nothing of a tile is past them.
  const auto clamped = [&](llvm::Value *x) {
    x = b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, x, b.getInt64(0));
    x = b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, x, b.getInt64(size));
    return b.CreateTrunc(x, b.getInt32Ty());
  };
  llvm::Value *first = clamped(dim.low);
  llvm::Value *count = b.CreateSub(clamped(dim.high), first);
  return {first, b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, count, b.getInt32(0))};
}

void BodyLowering::lowerMemoryOp(Op &op) {
  if (std::optional<SharedTile> copied = asyncTile(op)) {
    if (!isReadByProducts(op.result()))
      setRegisters(op.result(), readShared(*copied, info(op.result()->type())));
    return;
  }
  switch (op.kind()) {
  case OpKind::Load:
    return lowerLoad(op);
  case OpKind::Store:
    return lowerStore(op);
  case OpKind::Gather:
    return lowerGather(op);
  case OpKind::Scatter:
    return lowerScatter(op);
  case OpKind::Atomic:
    return lowerAtomic(op);
  case OpKind::AtomicScatter:
    return lowerAtomicScatter(op);
  case OpKind::ReduceAddScatter:
    return lowerReduceAddScatter(op);
  default:
    DTILE_UNREACHABLE("an op on memory");
  }
}

// Loads.

void BodyLowering::lowerLoad(Op &op) {
  if (op.get(ir::attr::ll))
    return loadLl(op);
  beforeRead(op.operand(0));
  View from = located(op.operand(0));
  const ir::Type type = op.result()->type();
  if (!type.isTile()) {
    llvm::Type *element = memoryType(context(), from.type.dtype());
    llvm::Value *data = b.CreateAddrSpaceCast(from.data, b.getPtrTy(Device::kGlobal));
    data = b.CreateSelect(b.CreateIsNotNull(from.data), data, zeroBytes(b));
    return set(op.result(), {arith_.fromMemory(from.type.dtype(), b.CreateLoad(element, data))});
  }
  if (!type.layout())
    return giveUp(op, "has a tile without a layout (pass infer-layouts)");
  setRegisters(op.result(), loadTile(from, info(type)));
}

Registers BodyLowering::loadTile(const View &from, const TileInfo &to) {
  const DType dtype = from.type.dtype();
  orderByUse(*b.GetInsertBlock());
  TileAccess access(*this, from, to);
  llvm::Type *element = access.element();
  const llvm::Align align(access.bytes());

  auto checked = [&](const Layout::Position &at, llvm::Value *address) {
    return b.CreateSelect(access.exists(at), address, zeroBytes(b));
  };
  if (!access.aligned) {
    Registers result;
    for (unsigned slot = 0; slot < to.size(); ++slot) {
      llvm::Value *address = checked(to.at(slot), access.address(to.at(slot)));
      result.push_back(arith_.fromMemory(dtype, b.CreateAlignedLoad(element, address, align)));
    }
    return result;
  }

  // Three ways: all there and aligned, aligned, neither. Words go around the branches, not numbers.
  llvm::SmallVector<llvm::SmallVector<unsigned, 16>> groups;
  llvm::SmallVector<Layout::Position> positions;
  to.eachRun(access.run, [&](llvm::ArrayRef<unsigned> slots, const Layout::Position &at) {
    groups.emplace_back(slots);
    positions.push_back(at);
  });
  llvm::BasicBlock *words = block("load.words"), *wholes = block("load.whole");
  llvm::BasicBlock *parts = block("load.parts"), *single = block("load.single");
  llvm::BasicBlock *after = block("load.end");
  b.CreateCondBr(access.aligned, words, single);
  b.SetInsertPoint(words);
  b.CreateCondBr(access.whole, wholes, parts);

  llvm::SmallVector<llvm::SmallVector<llvm::Value *>, 3> loaded(3);
  llvm::SmallVector<llvm::BasicBlock *, 3> ends;
  llvm::BasicBlock *const ways[] = {wholes, parts, single};
  for (unsigned way = 0; way < 3; ++way) {
    b.SetInsertPoint(ways[way]);
    access.beginWay();
    for (auto [slots, position] : llvm::zip_equal(groups, positions)) {
      llvm::Type *word = packedType(element, slots.size());
      if (way == 2) {
        loaded[way].push_back(
            loadSingly(access.run, slots, position, element, [&](const Layout::Position &each) {
              return checked(each, access.address(each));
            }));
        continue;
      }
      llvm::Value *address = access.address(position, /*inRun=*/true);
      if (way == 1 || slots.size() < access.run.length)
        address = checked(position, address);
      loaded[way].push_back(
          b.CreateAlignedLoad(word, address, llvm::Align(access.bytes() * slots.size())));
    }
    ends.push_back(b.GetInsertBlock());
    b.CreateBr(after);
  }
  b.SetInsertPoint(after);
  Registers result(to.size());
  llvm::SmallVector<llvm::PHINode *> merged;
  for (size_t i = 0; i < groups.size(); ++i) {
    merged.push_back(b.CreatePHI(loaded[0][i]->getType(), 3));
    for (auto [way, end] : llvm::enumerate(ends))
      merged.back()->addIncoming(loaded[way][i], end);
  }
  for (auto [slots, word] : llvm::zip_equal(groups, merged))
    for (auto [slot, value] : llvm::zip_equal(slots, unpacked(element, word, slots.size())))
      result[slot] = arith_.fromMemory(dtype, value);
  return result;
}

llvm::Value *
BodyLowering::loadSingly(TileInfo::Run run, llvm::ArrayRef<unsigned> slots, Layout::Position at,
                         llvm::Type *element,
                         llvm::function_ref<llvm::Value *(const Layout::Position &)> address) {
  llvm::SmallVector<llvm::Value *, 16> values;
  for (size_t i = 0; i < slots.size(); ++i, ++at[run.dim])
    values.push_back(
        b.CreateAlignedLoad(element, address(at), llvm::Align(element->getScalarSizeInBits() / 8)));
  return packed(element, values);
}

// Stores.

void BodyLowering::lowerStore(Op &op) {
  beforeWrite(op.operand(1));
  View to = locatedToSend(op.operand(1));
  const DType dtype = to.type.dtype();
  ir::Value *value = op.operand(0);
  if (!value->type().isTile()) {
    llvm::Value *bits = arith_.toMemory(dtype, scalar(value));
    llvm::Value *acts = b.CreateAnd(isLeader(), b.CreateIsNotNull(to.data));
    return when(acts, "store", [&] {
      storeWord(to, bits, b.CreateAddrSpaceCast(to.data, b.getPtrTy(Device::kGlobal)),
                dtypeBytes(dtype));
      finishStores(to);
    });
  }
  if (!value->type().layout())
    return giveUp(op, "has a tile without a layout (pass infer-layouts)");
  storeTile(info(value->type()), registers(value), to);
}

void BodyLowering::storeTile(const TileInfo &from, llvm::ArrayRef<llvm::Value *> values,
                             const View &to) {
  const DType dtype = to.type.dtype();
  llvm::Type *element = memoryType(context(), dtype);
  orderByUse(*b.GetInsertBlock());
  eachGroup(from, to, 16, [&](llvm::ArrayRef<unsigned> slots, llvm::Value *address) {
    llvm::SmallVector<llvm::Value *, 16> bits;
    for (unsigned slot : slots)
      bits.push_back(arith_.toMemory(dtype, values[slot]));
    storeWord(to, packed(element, bits), address, dtypeBytes(dtype) * unsigned(slots.size()));
  });
  finishStores(to);
}

void BodyLowering::storeTile(ir::Value *tile, const View &view) {
  storeTile(info(tile->type()), registers(tile), view);
}

void BodyLowering::eachGroup(
    const TileInfo &from, const View &to, unsigned most,
    llvm::function_ref<void(llvm::ArrayRef<unsigned> slots, llvm::Value *address)> body) {
  TileAccess access(*this, to, from, most);
  auto singly = [&] {
    access.beginWay();
    from.eachRun({access.run.dim, 1},
                 [&](llvm::ArrayRef<unsigned> slots, const Layout::Position &at) {
                   if (from.isCopy(slots.front()))
                     return;
                   llvm::Value *address = access.address(at);
                   when(access.exists(at), "one", [&] { body(slots, address); });
                 });
  };
  auto all = [&] {
    if (!access.aligned)
      return singly();
    llvm::BasicBlock *words = block("words"), *wholes = block("words.whole");
    llvm::BasicBlock *parts = block("words.parts"), *single = block("single");
    llvm::BasicBlock *after = block("groups.end");
    b.CreateCondBr(access.aligned, words, single);
    b.SetInsertPoint(words);
    b.CreateCondBr(access.whole, wholes, parts);
    for (bool isWhole : {true, false}) {
      b.SetInsertPoint(isWhole ? wholes : parts);
      access.beginWay();
      from.eachRun(access.run, [&](llvm::ArrayRef<unsigned> slots, const Layout::Position &at) {
        if (from.isCopy(slots.front()))
          return;
        llvm::Value *address = access.address(at, /*inRun=*/true);
        if (isWhole && slots.size() == access.run.length)
          return body(slots, address);
        when(access.exists(at), "part", [&] { body(slots, address); });
      });
      b.CreateBr(after);
    }
    b.SetInsertPoint(single);
    singly();
    b.CreateBr(after);
    b.SetInsertPoint(after);
  };
  if (llvm::Value *original = isOriginal(from.layout))
    return when(original, "original", all);
  all();
}

// Elements at positions that were computed.

void BodyLowering::lowerGather(Op &op) {
  if (!op.result()->type().layout())
    return giveUp(op, "has a tile without a layout (pass infer-layouts)");
  beforeRead(op.operand(0));
  View from = located(op.operand(0));
  const TileInfo &to = info(op.result()->type());
  if (gathersRows(op))
    return setRegisters(op.result(), gatherRows(op, from, to));
  const DType dtype = from.type.dtype();
  llvm::SmallVector<Registers, 4> at = indices(op, 1, unsigned(from.dims.size()), to.layout);
  Registers result;
  for (unsigned slot = 0; slot < to.size(); ++slot) {
    llvm::SmallVector<llvm::Value *, 4> positions;
    for (const Registers &dimension : at)
      positions.push_back(dimension[slot]);
    llvm::Value *address =
        b.CreateAddrSpaceCast(views_.address(from, positions), b.getPtrTy(Device::kGlobal));
    address = b.CreateSelect(views_.contains(from, positions), address, zeroBytes(b));
    result.push_back(
        arith_.fromMemory(dtype, b.CreateAlignedLoad(memoryType(context(), dtype), address,
                                                     llvm::Align(dtypeBytes(dtype)))));
  }
  setRegisters(op.result(), std::move(result));
}

Registers BodyLowering::gatherRows(Op &op, const View &from, const TileInfo &to) {
  ir::Value *numbers = op.operand(1);
  const TileInfo &numbersInfo = info(numbers->type());
  const DType dtype = from.type.dtype();
  // A row's elements are found as those of one row, from which rows are told apart here.
  View row = from;
  llvm::Value *zero = b.getInt64(0), *count = b.getInt64(uint64_t(to.shape[0]));
  row.dims[0] = {.low = zero, .high = count, .extent = count, .stride = zero};
  TileAccess access(*this, row, to);
  llvm::Type *element = access.element();
  llvm::Value *pitch = b.CreateMul(from.dims[0].stride, b.getInt64(access.bytes()));
  std::map<int32_t, std::pair<llvm::Value *, llvm::Value *>> rows;
  const auto rowOf = [&](const Layout::Position &at) {
    auto &[bytes, exists] = rows[at[0]];
    if (!bytes) {
      llvm::Value *number = registers(numbers)[slotOf(numbersInfo, {at[0]})];
      number = arith_.cast(numbers->type().dtype(), DType::I64, number);
      bytes = b.CreateMul(number, pitch);
      exists = b.CreateAnd(b.CreateICmpSGE(number, from.dims[0].low),
                           b.CreateICmpSLT(number, from.dims[0].high));
    }
    return rows[at[0]];
  };
  // Computed once, where all ways come from.
  for (unsigned slot = 0; slot < to.size(); ++slot)
    (void)rowOf(to.at(slot));
  const auto address = [&](const Layout::Position &at, bool inRun) {
    const auto [bytes, exists] = rowOf(at);
    llvm::Value *there = b.CreateGEP(b.getInt8Ty(), access.address(at, inRun), bytes);
    return b.CreateSelect(b.CreateAnd(exists, access.exists(at)), there, zeroBytes(b));
  };

  llvm::SmallVector<llvm::SmallVector<unsigned, 16>> groups;
  llvm::SmallVector<Layout::Position> positions;
  to.eachRun(access.run, [&](llvm::ArrayRef<unsigned> slots, const Layout::Position &at) {
    groups.emplace_back(slots);
    positions.push_back(at);
  });
  const auto singly = [&](size_t group) {
    return loadSingly(access.run, groups[group], positions[group], element,
                      [&](const Layout::Position &at) { return address(at, /*inRun=*/false); });
  };
  llvm::SmallVector<llvm::Value *> words;
  if (!access.aligned || access.run.dim == 0) {
    access.beginWay();
    for (size_t i = 0; i < groups.size(); ++i)
      words.push_back(singly(i));
  } else {
    llvm::BasicBlock *wide = block("gather.words"), *single = block("gather.single");
    llvm::BasicBlock *after = block("gather.end");
    const uint64_t size = uint64_t(access.run.length) * access.bytes();
    llvm::Value *isEven = b.CreateIsNull(b.CreateAnd(pitch, b.getInt64(size - 1)));
    b.CreateCondBr(b.CreateAnd(access.aligned, isEven), wide, single);
    b.SetInsertPoint(wide);
    access.beginWay();
    for (auto [slots, at] : llvm::zip_equal(groups, positions))
      words.push_back(b.CreateAlignedLoad(packedType(element, slots.size()),
                                          address(at, /*inRun=*/true),
                                          llvm::Align(access.bytes() * slots.size())));
    b.CreateBr(after);
    b.SetInsertPoint(single);
    access.beginWay();
    llvm::SmallVector<llvm::Value *> others;
    for (size_t i = 0; i < groups.size(); ++i)
      others.push_back(singly(i));
    llvm::BasicBlock *ends = b.GetInsertBlock();
    b.CreateBr(after);
    b.SetInsertPoint(after);
    for (auto [word, other] : llvm::zip_equal(words, others)) {
      llvm::PHINode *merged = b.CreatePHI(word->getType(), 2);
      merged->addIncoming(word, wide);
      merged->addIncoming(other, ends);
      word = merged;
    }
  }
  Registers result(to.size());
  for (auto [slots, word] : llvm::zip_equal(groups, words))
    for (auto [slot, value] : llvm::zip_equal(slots, unpacked(element, word, slots.size())))
      result[slot] = arith_.fromMemory(dtype, value);
  return result;
}

llvm::SmallVector<Registers, 4> BodyLowering::indices(Op &op, unsigned first, unsigned count,
                                                      const Layout &layout) {
  llvm::SmallVector<Registers, 4> result;
  for (unsigned d = 0; d < count; ++d) {
    ir::Value *tile = op.operand(first + d);
    Registers wide;
    for (llvm::Value *index : registers(tile, layout))
      wide.push_back(arith_.cast(tile->type().dtype(), DType::I64, index));
    result.push_back(std::move(wide));
  }
  return result;
}

} // namespace dtile::backend::gpu
