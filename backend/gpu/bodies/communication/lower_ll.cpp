// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Messages whose words carry the number of their launch (pass ll-messages;
// backend/device_library/device.h has the words). Nobody meets: each thread stores the words that
// it has, and polls for those that it needs.
//
// A flagged object's memory is twice its data (backend/launch/frame.h, scratchView): what a view
// says is n bytes after the object's begin has its word 2 n bytes after it. Threads have groups
// of one or two words.
#include "backend/gpu/bodies/lower_body.h"

#include "frontend/base/check.h"
#include "ir/analysis/communication.h"
#include "ir/analysis/dependence.h"

#include <climits>

namespace dtile::backend::gpu {

using ir::Layout;
using ir::Op;

namespace {

/// Data of a word, and of the largest group.
constexpr unsigned kLlWordBytes = 4;
constexpr unsigned kLlGroupBytes = 8;
/// Groups that are polled for together: so many loads are on their way at once.
constexpr size_t kGroupsAtOnce = 8;

/// Registers whose data are one or two words, and where the first is in thread 0.
struct Group {
  llvm::SmallVector<unsigned, 8> slots;
  Layout::Position at;
};

/// A tile's words in this thread.
class LlTile {
public:
  /// `object`: where this rank's object begins.
  LlTile(BodyLowering &body, const View &view, llvm::Value *object, const TileInfo &info);

  [[nodiscard]] llvm::ArrayRef<Group> groups() const { return groups_; }
  /// Of a group.
  [[nodiscard]] unsigned words() const { return words_; }
  /// The element that a word begins with, or is a part of.
  [[nodiscard]] unsigned firstElement(unsigned word) const { return word * kLlWordBytes / bytes_; }
  [[nodiscard]] llvm::Value *address(const Group &group);
  /// i1: an element of a group is inside of the view.
  [[nodiscard]] llvm::Value *exists(const Group &group, unsigned element);

private:
  llvm::IRBuilder<> &b;
  const View &view_;
  unsigned bytes_;
  unsigned words_;
  llvm::SmallVector<Group> groups_;
  /// Where this thread's first word is.
  llvm::Value *base_;
  /// By dimension: its position from the first that is inside, and how many are.
  llvm::SmallVector<llvm::Value *, 4> first_, span_;
};

LlTile::LlTile(BodyLowering &body, const View &view, llvm::Value *object, const TileInfo &info)
    : b(body.builder()), view_(view), bytes_(dtypeBytes(view.type.dtype())) {
  const unsigned last = unsigned(info.shape.size()) - 1;
  const unsigned run = info.layout.contiguous(last) * bytes_;
  const bool isPair = run >= kLlGroupBytes && info.shape[last] * bytes_ % kLlGroupBytes == 0;
  const unsigned bytes = isPair ? kLlGroupBytes : std::max(kLlWordBytes, bytes_);
  DTILE_CHECK(run >= bytes && info.shape[last] * bytes_ % bytes == 0, "threads have whole words");
  words_ = bytes / kLlWordBytes;
  info.eachRun({last, bytes / bytes_},
               [&](llvm::ArrayRef<unsigned> slots, const Layout::Position &at) {
                 DTILE_CHECK(slots.size() == bytes / bytes_, "a tile ends with a word");
                 groups_.push_back({llvm::SmallVector<unsigned, 8>(slots), at});
               });

  llvm::Type *i64 = b.getInt64Ty();
  llvm::Value *offset =
      b.CreateSub(b.CreatePtrToInt(view.data, i64), b.CreatePtrToInt(object, i64));
  for (auto [d, dim] : llvm::enumerate(view.dims)) {
    llvm::Value *position = body.threadPosition(info.layout, unsigned(d));
    llvm::Value *step = b.CreateMul(dim.stride, b.getInt64(bytes_));
    offset = b.CreateAdd(offset, b.CreateMul(b.CreateZExt(position, i64), step));
    const auto [begin, count] = body.existing(dim, info.shape[d]);
    first_.push_back(b.CreateSub(position, begin));
    span_.push_back(count);
  }
  base_ = b.CreateGEP(b.getInt8Ty(), object, b.CreateShl(offset, uint64_t(1)));
}

llvm::Value *LlTile::address(const Group &group) {
  llvm::Value *offset = b.getInt64(0);
  for (auto [d, dim] : llvm::enumerate(view_.dims))
    if (group.at[d] != 0)
      offset = b.CreateAdd(offset,
                           b.CreateMul(dim.stride, b.getInt64(int64_t(group.at[d]) * 2 * bytes_)));
  return b.CreateGEP(b.getInt8Ty(), base_, offset);
}

llvm::Value *LlTile::exists(const Group &group, unsigned element) {
  llvm::Value *all = b.getTrue();
  for (auto [d, first, span] : llvm::enumerate(first_, span_)) {
    const uint32_t at = uint32_t(group.at[d]) + (d + 1 == first_.size() ? element : 0);
    all = b.CreateAnd(all, b.CreateICmpULT(b.CreateAdd(first, b.getInt32(at)), span));
  }
  return all;
}

/// A tile's own layout if each thread has whole words there, else one in which it has. `most`:
/// bytes that may follow each other in a thread.
Layout wordLayout(const TileInfo &info, DType type, const TargetFacts &facts, unsigned threads,
                  unsigned most) {
  const unsigned last = unsigned(info.shape.size()) - 1;
  const unsigned bytes = dtypeBytes(type);
  const unsigned run = info.layout.contiguous(last) * bytes;
  const bool isLong = run > most && info.shape[last] * bytes % most == 0;
  if (run >= kLlWordBytes && !isLong)
    return info.layout;
  // Words, or groups of them, are spread over the threads, then split into elements.
  const auto elements = int32_t((isLong ? most : kLlWordBytes) / bytes);
  llvm::SmallVector<int64_t, 4> words(info.shape);
  words.back() /= elements;
  llvm::SmallVector<unsigned, 4> order;
  for (unsigned d = last + 1; d-- > 0;)
    order.push_back(d);
  const Layout spread = ir::blockedLayout(
      words, order, 1, {.lanes = unsigned(facts.lanes), .warps = threads / unsigned(facts.lanes)});
  Layout layout(last + 1);
  for (int32_t distance = 1; distance < elements; distance *= 2)
    layout.add(ir::LayoutBits::Register, last, distance);
  for (ir::LayoutBits which :
       {ir::LayoutBits::Register, ir::LayoutBits::Lane, ir::LayoutBits::Warp})
    for (Layout::Position way : spread.bits(which)) {
      way[last] *= elements;
      layout.add(which, way);
    }
  return layout;
}

/// Any one of those values for which the condition holds; the last one where none does.
llvm::Value *chosen(llvm::IRBuilder<> &b, llvm::ArrayRef<llvm::Value *> conditions,
                    llvm::ArrayRef<llvm::Value *> values) {
  llvm::Value *result = values.back();
  for (auto [condition, value] : llvm::zip_equal(conditions.drop_back(), values.drop_back()))
    result = b.CreateSelect(condition, value, result);
  return result;
}

bool isLlLoad(const ir::Value &value) {
  const Op *op = value.definingOp();
  return op && op->is(ir::OpKind::Load) && op->get(ir::attr::ll);
}

} // namespace

llvm::Value *BodyLowering::lostFlag() {
  if (!lost_) {
    llvm::BasicBlock &entry = b.GetInsertBlock()->getParent()->getEntryBlock();
    llvm::IRBuilder<> start(&entry, entry.begin());
    lost_ = start.CreateAlloca(b.getInt32Ty(), nullptr, "lost");
    start.CreateStore(b.getInt32(0), lost_);
  }
  return lost_;
}

void BodyLowering::putLl(Op &op) {
  // Who goes on without words that never came tells nobody what it makes of them.
  if (ir::dependsOn(op.operand(0), isLlLoad))
    sync(b.CreateLoad(b.getInt32Ty(), lostFlag()));
  const Op *param = ir::objectOf(op.operand(1));
  DTILE_CHECK(param, "a put of flagged words names its object");
  const View there = view(op.operand(1));
  const DType dtype = there.type.dtype();
  const TileInfo &own = info(op.operand(0)->type());
  // Where a thread had several groups that follow each other, the stores of a warp would leave
  // gaps, and the way to peers carries whole sectors.
  const TileInfo from(wordLayout(own, dtype, gpu_.device.facts(), threads_, kLlGroupBytes),
                      own.shape);
  const Registers values = registers(op.operand(0), from.layout);
  llvm::Type *element = memoryType(context(), dtype);
  LlTile tile(*this, there, view(param->result()).data, from);
  if (there.rank)
    gpu_.needsMapped(op, launch::objectName(op.operand(1)));
  const auto store = [&] {
    for (const Group &group : tile.groups()) {
      if (from.isCopy(group.slots.front()))
        continue;
      // Rows have room for the words of their last group.
      when(tile.exists(group, 0), "put", [&] {
        llvm::SmallVector<llvm::Value *, 8> bits;
        for (unsigned slot : group.slots)
          bits.push_back(arith_.toMemory(dtype, values[slot]));
        llvm::Value *all =
            b.CreateBitCast(packed(element, bits), b.getIntNTy(tile.words() * kLlWordBytes * 8));
        llvm::Value *place = tile.address(group);
        if (there.rank)
          place = call(DeviceCall::peer, {kernel_.launch, place, there.rank});
        llvm::Value *low = b.CreateTrunc(all, b.getInt32Ty());
        if (tile.words() == 1)
          call(DeviceCall::put_word, {place, low, launchNumber(*param)});
        else
          call(DeviceCall::put_words,
               {place, low, b.CreateTrunc(b.CreateLShr(all, uint64_t(32)), b.getInt32Ty()),
                launchNumber(*param)});
      });
    }
  };
  if (llvm::Value *original = isOriginal(from.layout))
    return when(original, "original", store);
  store();
}

void BodyLowering::loadLl(Op &op) {
  const Op *param = ir::objectOf(op.operand(0));
  DTILE_CHECK(param, "a load of flagged words names its object");
  const View from = view(op.operand(0));
  const DType dtype = from.type.dtype();
  const TileInfo &own = info(op.result()->type());
  const TileInfo to(wordLayout(own, dtype, gpu_.device.facts(), threads_, UINT_MAX), own.shape);
  llvm::Type *element = memoryType(context(), dtype);
  llvm::Value *object = view(param->result()).data;
  llvm::Value *number = launchNumber(*param);
  llvm::Value *site = b.getInt32(gpu_.site(op, launch::objectName(op.operand(0))));
  LlTile tile(*this, from, object, to);
  llvm::Type *i32 = b.getInt32Ty();
  llvm::Type *i64 = b.getInt64Ty();

  // A thread for which words never come goes on without them: the launch has been given up, and it
  // leaves with the others at their next meeting, or when it is done. It polls no more.
  llvm::Value *lost = lostFlag();
  llvm::Value *began = stackSlot(i64, "began");

  Registers result(to.size());
  for (llvm::ArrayRef<Group> left = tile.groups(); !left.empty();
       left = left.drop_front(std::min(left.size(), kGroupsAtOnce))) {
    llvm::ArrayRef<Group> groups = left.take_front(kGroupsAtOnce);
    llvm::SmallVector<llvm::Value *, 8> places;
    llvm::SmallVector<llvm::Value *, 16> exist;
    for (const Group &group : groups) {
      for (unsigned word = 0; word < tile.words(); ++word)
        exist.push_back(tile.exists(group, tile.firstElement(word)));
      llvm::Value *zeros = b.CreateAddrSpaceCast(zeroBytes(b), b.getPtrTy());
      places.push_back(
          b.CreateSelect(exist[exist.size() - tile.words()], tile.address(group), zeros));
    }
    llvm::BasicBlock *before = b.GetInsertBlock();
    llvm::BasicBlock *poll = block("poll"), *again = block("again"), *done = block("polled");
    b.CreateBr(poll);
    b.SetInsertPoint(poll);
    llvm::PHINode *round = b.CreatePHI(i32, 2);
    round->addIncoming(b.getInt32(1), before);

    // Words, and which of them are not here.
    llvm::SmallVector<llvm::Value *, 16> words, absent, seen, wordPlaces;
    llvm::Value *anyAbsent = b.getFalse();
    for (llvm::Value *place : places) {
      llvm::Value *slot = stackSlot(llvm::ArrayType::get(i64, tile.words()), "words");
      call(tile.words() == 1 ? DeviceCall::get_word : DeviceCall::get_words, {place, slot});
      for (unsigned word = 0; word < tile.words(); ++word) {
        llvm::Value *loaded = b.CreateLoad(i64, b.CreateConstGEP1_64(i64, slot, word));
        llvm::Value *flag = b.CreateTrunc(b.CreateLShr(loaded, uint64_t(32)), i32);
        absent.push_back(b.CreateAnd(exist[words.size()], b.CreateICmpNE(flag, number)));
        anyAbsent = b.CreateOr(anyAbsent, absent.back());
        words.push_back(loaded);
        seen.push_back(flag);
        wordPlaces.push_back(place);
      }
    }
    llvm::Value *isLost = b.CreateICmpNE(b.CreateLoad(i32, lost), b.getInt32(0));
    b.CreateCondBr(b.CreateAnd(anyAbsent, b.CreateNot(isLost)), again, done);

    b.SetInsertPoint(again);
    llvm::Value *late =
        call(DeviceCall::words_late, {kernel_.launch, chosen(b, absent, wordPlaces), object,
                                      b.getInt32(2 * dtypeBytes(dtype)), number,
                                      chosen(b, absent, seen), round, began, site});
    b.CreateStore(late, lost);
    round->addIncoming(b.CreateAdd(round, b.getInt32(1)), b.GetInsertBlock());
    b.CreateBr(poll);

    b.SetInsertPoint(done);
    for (auto [g, group] : llvm::enumerate(groups)) {
      llvm::Type *all = b.getIntNTy(tile.words() * kLlWordBytes * 8);
      llvm::Value *bits = nullptr;
      for (unsigned word = 0; word < tile.words(); ++word) {
        llvm::Value *data = b.CreateTrunc(words[g * tile.words() + word], i32);
        data = b.CreateShl(b.CreateZExt(data, all), uint64_t(word) * kLlWordBytes * 8);
        bits = bits ? b.CreateOr(bits, data) : data;
      }
      bits = b.CreateBitCast(bits, packedType(element, unsigned(group.slots.size())));
      for (auto [i, value] :
           llvm::enumerate(unpacked(element, bits, unsigned(group.slots.size())))) {
        // After the end of a row is what the sender's registers happened to hold.
        if (i > 0)
          value = b.CreateSelect(tile.exists(group, unsigned(i)), value,
                                 llvm::Constant::getNullValue(value->getType()));
        result[group.slots[i]] = arith_.fromMemory(dtype, value);
      }
    }
  }
  if (to.layout == own.layout)
    return setRegisters(op.result(), std::move(result));
  setRegisters(op.result(), convert(dtype, own.shape, to.layout, result, own.layout));
}

} // namespace dtile::backend::gpu
