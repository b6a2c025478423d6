// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Global memory: tiles and scalars, of this device and of peers. Neighbours in registers move in
// words of up to 16 bytes where the view's address and strides allow it, which is asked once a tile
// at run time; what a view does not have is asked of 16 zero bytes. Loads of tiles that begin
// elsewhere take the two words that hold each group, and shift.
#include "backend/gpu/bodies/memory/row_buffers.h"
#include "backend/gpu/bodies/memory/shifted_words.h"
#include "backend/gpu/bodies/memory/tile_access.h"

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

/// Words of a thread up to which those of a tile that ends anywhere are loaded together; of larger
/// tiles one after the other.
constexpr size_t kMostPartWords = 16;

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
  tracedTransfer(op, [&] {
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
  });
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
  const std::optional<RowBuffers::Place> kept = rows_ ? rows_->place(op) : std::nullopt;
  setRegisters(op.result(), loadTile(from, info(type), kept ? &*kept : nullptr));
}

Registers BodyLowering::loadTile(const View &from, const TileInfo &to,
                                 const RowBuffers::Place *kept) {
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

  // Ways: all there and aligned, aligned, all there, neighbours, none of it; from shared memory.
  // Words go around the branches, not numbers.
  llvm::SmallVector<llvm::SmallVector<unsigned, 16>> groups;
  llvm::SmallVector<Layout::Position> positions;
  to.eachRun(access.run, [&](llvm::ArrayRef<unsigned> slots, const Layout::Position &at) {
    groups.emplace_back(slots);
    positions.push_back(at);
  });
  llvm::BasicBlock *words = block("load.words"), *wholes = block("load.whole");
  llvm::BasicBlock *parts = block("load.parts"), *single = block("load.single");
  llvm::BasicBlock *after = block("load.end");
  const unsigned bytes = access.run.length * access.bytes();
  const bool areFull = llvm::all_of(groups, [&](const llvm::SmallVector<unsigned, 16> &slots) {
    return slots.size() == access.run.length;
  });
  if (!areFull)
    kept = nullptr;
  const bool canShift = areFull && (bytes == 8 || bytes == 16);
  const bool canLoop = areFull && gpu_.device.hasThreadArrays() && GroupLoop::canRun(positions);
  llvm::BasicBlock *shifted = canShift ? block("load.shifted") : nullptr;
  llvm::BasicBlock *shiftedParts =
      canShift && groups.size() <= kMostPartWords ? block("load.shifted.parts") : nullptr;
  llvm::BasicBlock *others = canShift ? block("load.others") : single;
  const auto wordAt = [&](size_t group) {
    return b.CreateConstInBoundsGEP1_64(b.getInt8Ty(), kept->address, uint64_t(kept->step) * group);
  };
  llvm::BasicBlock *filled = kept && kept->isFilled ? block("load.kept") : nullptr;
  if (filled) {
    llvm::BasicBlock *elsewhere = block("load.global");
    b.CreateCondBr(kept->exists, filled, elsewhere);
    b.SetInsertPoint(elsewhere);
  }
  b.CreateCondBr(access.aligned, words, others);
  b.SetInsertPoint(words);
  b.CreateCondBr(access.whole, wholes, parts);
  if (canShift) {
    b.SetInsertPoint(others);
    llvm::BasicBlock *rest = shiftedParts ? block("load.apart") : single;
    b.CreateCondBr(b.CreateAnd(access.isDense, access.whole), shifted, rest);
    if (shiftedParts) {
      b.SetInsertPoint(rest);
      b.CreateCondBr(access.isDense, shiftedParts, single);
    }
  }

  llvm::SmallVector<llvm::SmallVector<llvm::Value *>, 6> loaded(6);
  llvm::SmallVector<llvm::BasicBlock *, 4> ends;
  llvm::SmallVector<llvm::BasicBlock *, 4> ways = {wholes, parts, single};
  if (canShift)
    ways.push_back(shifted);
  if (shiftedParts)
    ways.push_back(shiftedParts);
  if (filled)
    ways.push_back(filled);
  for (unsigned way = 0; way < ways.size(); ++way) {
    b.SetInsertPoint(ways[way]);
    if (ways[way] == single && canLoop) {
      loaded[way] = loadInLoop(access, positions);
      ends.push_back(b.GetInsertBlock());
      b.CreateBr(after);
      continue;
    }
    access.beginWay();
    for (auto [group, slots, position] : llvm::enumerate(groups, positions)) {
      llvm::Type *word = packedType(element, slots.size());
      if (ways[way] == filled) {
        loaded[way].push_back(b.CreateAlignedLoad(word, wordAt(group), llvm::Align(bytes)));
        continue;
      }
      if (ways[way] == shifted) {
        llvm::Value *moved =
            loadShifted(b, access.address(position, /*inRun=*/true), bytes, access.bytes());
        loaded[way].push_back(b.CreateBitCast(moved, word));
        continue;
      }
      if (ways[way] == shiftedParts) {
        const TileAccess::Part part = access.existingOfRun(position);
        const auto inBytes = [&](llvm::Value *n) {
          return b.CreateMul(n, b.getInt32(access.bytes()));
        };
        llvm::Value *moved =
            loadShiftedPart(b, access.address(position, /*inRun=*/true), bytes, access.bytes(),
                            inBytes(part.begin), inBytes(part.end), zeroBytes(b));
        loaded[way].push_back(b.CreateBitCast(moved, word));
        continue;
      }
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
    merged.push_back(b.CreatePHI(loaded[0][i]->getType(), unsigned(ways.size())));
    for (auto [way, end] : llvm::enumerate(ends))
      merged.back()->addIncoming(loaded[way][i], end);
  }
  if (kept && !kept->isFilled)
    when(kept->exists, "keep", [&] {
      for (auto [group, word] : llvm::enumerate(merged))
        b.CreateAlignedStore(word, wordAt(group), llvm::Align(bytes));
    });
  for (auto [slots, word] : llvm::zip_equal(groups, merged))
    for (auto [slot, value] : llvm::zip_equal(slots, unpacked(element, word, slots.size())))
      result[slot] = arith_.fromMemory(dtype, value);
  return result;
}

/// The words of all groups, whose elements are loaded one by one.
llvm::SmallVector<llvm::Value *>
BodyLowering::loadInLoop(const TileAccess &access, llvm::ArrayRef<Layout::Position> positions) {
  llvm::Type *element = access.element();
  llvm::Type *word = packedType(element, access.run.length);
  llvm::Type *all = llvm::ArrayType::get(word, positions.size());
  llvm::Value *memory = stackSlot(all, "load.words");
  const auto place = [&](llvm::Value *group) {
    return b.CreateInBoundsGEP(all, memory, {b.getInt32(0), group});
  };
  GroupLoop(b, positions, access.rank())
      .run([&](llvm::Value *group, llvm::ArrayRef<llvm::Value *> first) {
        llvm::SmallVector<llvm::Value *, 4> at(first);
        llvm::SmallVector<llvm::Value *, 16> values;
        for (unsigned i = 0; i < access.run.length; ++i) {
          at[access.run.dim] = b.CreateAdd(first[access.run.dim], b.getInt32(i));
          llvm::Value *address =
              b.CreateSelect(access.exists(at), access.address(at), zeroBytes(b));
          values.push_back(b.CreateAlignedLoad(element, address, llvm::Align(access.bytes())));
        }
        b.CreateStore(packed(element, values), place(group));
      });
  llvm::SmallVector<llvm::Value *> words;
  for (unsigned i = 0; i < positions.size(); ++i)
    words.push_back(b.CreateLoad(word, place(b.getInt32(i))));
  return words;
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
  const auto word = [&](llvm::ArrayRef<unsigned> slots) {
    llvm::SmallVector<llvm::Value *, 16> bits;
    for (unsigned slot : slots)
      bits.push_back(arith_.toMemory(dtype, values[slot]));
    return packed(element, bits);
  };
  const auto store = [&](llvm::ArrayRef<unsigned> slots, llvm::Value *address) {
    storeWord(to, word(slots), address, dtypeBytes(dtype) * unsigned(slots.size()));
  };
  eachGroup(
      from, to, 16, store,
      [&](const TileAccess &access) { return storeInLoop(access, from, to, word); },
      [&](TileAccess &access) { storeInShifts(access, from, to, word); });
  finishStores(to);
}

/// Stores a tile whose rows begin at no multiples of 16 bytes: each lane an aligned word of its run
/// and that of the lane before; the first and the last of neighbouring lanes their ends one by one.
void BodyLowering::storeInShifts(
    TileAccess &access, const TileInfo &from, const View &to,
    llvm::function_ref<llvm::Value *(llvm::ArrayRef<unsigned> slots)> word) {
  const unsigned neighbours = neighbouringLanes(from, access.run);
  llvm::Value *lane = b.CreateAnd(thread_, b.getInt32(neighbours - 1));
  llvm::Value *isFirst = b.CreateIsNull(lane);
  llvm::Value *isLast = b.CreateICmpEQ(lane, b.getInt32(neighbours - 1));
  access.beginWay();
  from.eachRun(access.run, [&](llvm::ArrayRef<unsigned> slots, const Layout::Position &at) {
    llvm::Value *address = access.address(at, /*inRun=*/true);
    llvm::Value *own = word(slots);
    const ShiftedRun run = shiftRun(b, gpu_.device, own, address, access.bytes());
    when(b.CreateNot(b.CreateAnd(run.isShifted, isFirst)), "shifted",
         [&] { storeWord(to, run.word, run.address, unsigned(slots.size()) * access.bytes()); });
    llvm::Value *end = b.CreateSelect(isFirst, b.getTrue(), isLast);
    when(b.CreateAnd(run.isShifted, end), "ends", [&] {
      // The first lane's up to the next word, the last one's from its last word on.
      llvm::Value *head =
          b.CreateSub(b.getInt32(uint32_t(slots.size()) * access.bytes()), run.ofLaneBefore);
      for (auto [i, element] :
           llvm::enumerate(unpacked(access.element(), own, unsigned(slots.size())))) {
        llvm::Value *inHead = b.CreateICmpULT(b.getInt32(uint32_t(i) * access.bytes()), head);
        llvm::Value *place = b.CreateConstGEP1_64(access.element(), address, i);
        when(b.CreateICmpEQ(inHead, isFirst), "one",
             [&, element = element] { storeWord(to, element, place, access.bytes()); });
      }
    });
  });
}

/// Whether tiles are stored so: by few words of 16 bytes a thread, most of them whole.
bool BodyLowering::canStoreInShifts(const TileAccess &access, const TileInfo &from) {
  constexpr unsigned kFewestLanes = 4, kMostWords = 16;
  const unsigned each = access.run.length;
  if (!gpu_.device.hasShuffleUp() || each * access.bytes() != 16 ||
      from.size() > kMostWords * each || isOriginal(from.layout) ||
      neighbouringLanes(from, access.run) < kFewestLanes)
    return false;
  bool areFull = true;
  from.eachRun(access.run, [&](llvm::ArrayRef<unsigned> slots, const Layout::Position &) {
    areFull &= slots.size() == each && !from.isCopy(slots.front());
  });
  return areFull;
}

/// Stores the elements of all groups one by one; false where they need code of their own each.
bool BodyLowering::storeInLoop(
    const TileAccess &access, const TileInfo &from, const View &to,
    llvm::function_ref<llvm::Value *(llvm::ArrayRef<unsigned> slots)> word) {
  llvm::SmallVector<llvm::SmallVector<unsigned, 16>> groups;
  llvm::SmallVector<Layout::Position> positions;
  bool areFull = true;
  from.eachRun(access.run, [&](llvm::ArrayRef<unsigned> slots, const Layout::Position &at) {
    areFull &= slots.size() == access.run.length && !from.isCopy(slots.front());
    groups.emplace_back(slots);
    positions.push_back(at);
  });
  if (!areFull || !gpu_.device.hasThreadArrays() || !GroupLoop::canRun(positions))
    return false;
  llvm::Type *element = access.element();
  llvm::Type *type = packedType(element, access.run.length);
  llvm::Type *all = llvm::ArrayType::get(type, positions.size());
  llvm::Value *memory = stackSlot(all, "store.words");
  for (unsigned i = 0; i < positions.size(); ++i)
    b.CreateStore(word(groups[i]),
                  b.CreateInBoundsGEP(all, memory, {b.getInt32(0), b.getInt32(i)}));
  GroupLoop(b, positions, access.rank())
      .run([&](llvm::Value *group, llvm::ArrayRef<llvm::Value *> first) {
        llvm::Value *place = b.CreateInBoundsGEP(all, memory, {b.getInt32(0), group});
        const auto values = unpacked(element, b.CreateLoad(type, place), access.run.length);
        // Of a tile that ends anywhere, most groups exist as a whole or not at all.
        const TileAccess::Part part = access.existingOfRun(first);
        llvm::Value *isWhole =
            b.CreateAnd(access.isDense, b.CreateICmpEQ(b.CreateSub(part.end, part.begin),
                                                       b.getInt32(access.run.length)));
        when(isWhole, "neighbours", [&] {
          llvm::Value *address = access.address(first);
          for (auto [i, value] : llvm::enumerate(values))
            storeWord(to, value, b.CreateConstGEP1_64(element, address, i), access.bytes());
        });
        llvm::Value *isAny = b.CreateICmpSLT(part.begin, part.end);
        when(b.CreateAnd(isAny, b.CreateNot(isWhole)), "apart", [&] {
          llvm::SmallVector<llvm::Value *, 4> at(first);
          for (auto [i, value] : llvm::enumerate(values)) {
            at[access.run.dim] = b.CreateAdd(first[access.run.dim], b.getInt32(uint32_t(i)));
            llvm::Value *address = access.address(at);
            when(access.exists(at), "one", [&] { storeWord(to, value, address, access.bytes()); });
          }
        });
      });
  return true;
}

void BodyLowering::storeTile(ir::Value *tile, const View &view) {
  storeTile(info(tile->type()), registers(tile), view);
}

void BodyLowering::eachGroup(
    const TileInfo &from, const View &to, unsigned most,
    llvm::function_ref<void(llvm::ArrayRef<unsigned> slots, llvm::Value *address)> body,
    llvm::function_ref<bool(const TileAccess &access)> inLoop,
    llvm::function_ref<void(TileAccess &access)> inShifts) {
  TileAccess access(*this, to, from, most);
  auto singly = [&] {
    if (access.aligned && inLoop && inLoop(access))
      return;
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
    const bool canShift = inShifts && canStoreInShifts(access, from);
    llvm::BasicBlock *others = canShift ? block("words.others") : single;
    b.CreateCondBr(access.aligned, words, others);
    if (canShift) {
      llvm::BasicBlock *shifted = block("words.shifted");
      b.SetInsertPoint(others);
      b.CreateCondBr(b.CreateAnd(access.isDense, access.whole), shifted, single);
      b.SetInsertPoint(shifted);
      inShifts(access);
      b.CreateBr(after);
    }
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
