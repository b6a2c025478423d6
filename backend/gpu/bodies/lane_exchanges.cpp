// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Changes of layout in which no element leaves its warp: bits of lanes and of registers change
// places by shuffles, without shared memory and without a barrier.
#include "backend/gpu/bodies/lower_body.h"

#include "llvm/ADT/STLExtras.h"

namespace dtile::backend::gpu {

using ir::Layout;
using ir::LayoutBits;

namespace {

constexpr unsigned kWordBits = 32;
/// Each moves half of the words: with more, shared memory is likely to be as fast.
constexpr unsigned kMostExchanges = 3;

/// A bit of a lane's number and a bit of a register's, whose ways change places.
struct Exchange {
  unsigned lane, bit;
};

/// What leads from one layout to the lanes of another; nothing where it takes more than that.
std::optional<llvm::SmallVector<Exchange, kMostExchanges>> exchanges(const Layout &from,
                                                                     const Layout &to) {
  if (from.bits(LayoutBits::Warp) != to.bits(LayoutBits::Warp) || from.lanes() != to.lanes())
    return std::nullopt;
  llvm::SmallVector<Exchange, kMostExchanges> result;
  const auto haves = from.bits(LayoutBits::Lane), wants = to.bits(LayoutBits::Lane);
  for (auto [lane, have, want] : llvm::enumerate(haves, wants)) {
    if (have == want)
      continue;
    const auto registers = from.bits(LayoutBits::Register);
    const auto *found = llvm::find(registers, want);
    if (found == registers.end() || want == Layout::Position{} || result.size() == kMostExchanges)
      return std::nullopt;
    result.push_back({unsigned(lane), unsigned(found - registers.begin())});
  }
  return result;
}

/// The layout with the exchanges made.
Layout swizzled(const Layout &from, llvm::ArrayRef<Exchange> exchanges) {
  llvm::SmallVector<Layout::Position, 8> registers(from.bits(LayoutBits::Register));
  llvm::SmallVector<Layout::Position, 8> lanes(from.bits(LayoutBits::Lane));
  for (const Exchange &exchange : exchanges)
    std::swap(registers[exchange.bit], lanes[exchange.lane]);
  Layout result(from.rank());
  for (const Layout::Position &way : registers)
    result.add(LayoutBits::Register, way);
  for (const Layout::Position &way : lanes)
    result.add(LayoutBits::Lane, way);
  for (const Layout::Position &way : from.bits(LayoutBits::Warp))
    result.add(LayoutBits::Warp, way);
  return result;
}

/// Bits of a register's number that no exchange is about, the lowest first, so many that their
/// registers fill a word.
llvm::SmallVector<unsigned, 2> wordBits(const Layout &layout, llvm::ArrayRef<Exchange> exchanges,
                                        unsigned elementBits) {
  llvm::SmallVector<unsigned, 2> bits;
  for (unsigned bit = 0; 1u << bit < layout.registers() && elementBits << bits.size() < kWordBits;
       ++bit)
    if (llvm::none_of(exchanges, [&](const Exchange &exchange) { return exchange.bit == bit; }))
      bits.push_back(bit);
  return bits;
}

} // namespace

bool BodyLowering::staysWithinWarps(const TileInfo &from, const TileInfo &to) {
  const auto swaps = exchanges(from.layout, to.layout);
  return swaps && withinThreads(TileInfo(swizzled(from.layout, *swaps), from.shape), to);
}

std::optional<Registers> BodyLowering::withinWarps(DType dtype, const TileInfo &from,
                                                   llvm::ArrayRef<llvm::Value *> registers,
                                                   const TileInfo &to) {
  const auto swaps = exchanges(from.layout, to.layout);
  if (!swaps)
    return std::nullopt;
  const TileInfo after(swizzled(from.layout, *swaps), from.shape);
  const auto slots = withinThreads(after, to);
  if (!slots)
    return std::nullopt;

  llvm::Type *element = memoryType(context(), dtype);
  const unsigned elementBits = element->getScalarSizeInBits();
  const auto inWord = wordBits(from.layout, *swaps, elementBits);
  uint32_t wordMask = 0;
  for (const unsigned bit : inWord)
    wordMask |= 1u << bit;
  // The registers of the word that `first` is the first of, in order.
  const auto members = [&](uint32_t first) {
    llvm::SmallVector<uint32_t, 4> result{first};
    for (const unsigned bit : inWord)
      for (size_t i = 0, count = result.size(); i < count; ++i)
        result.push_back(result[i] | 1u << bit);
    return result;
  };

  // By the number of the first register; null where none of them has an element of the tile.
  llvm::SmallVector<llvm::Value *, 64> words(from.layout.registers());
  for (uint32_t first = 0; first < words.size(); ++first) {
    if ((first & wordMask) != 0)
      continue;
    llvm::SmallVector<llvm::Value *, 4> values;
    bool isInside = false;
    for (const uint32_t index : members(first)) {
      const int32_t slot = from.slots[index];
      isInside |= slot >= 0;
      values.push_back(slot >= 0 ? arith_.toMemory(dtype, registers[unsigned(slot)])
                                 : llvm::Constant::getNullValue(element));
    }
    if (isInside)
      words[first] = packed(element, values);
  }
  for (const Exchange &swap : *swaps) {
    llvm::Value *isOdd = b.CreateIsNotNull(b.CreateAnd(thread_, b.getInt32(1u << swap.lane)));
    for (uint32_t first = 0; first < words.size(); ++first) {
      if ((first >> swap.bit & 1) != 0)
        continue;
      llvm::Value *&low = words[first], *&high = words[first | 1u << swap.bit];
      if (!low && !high)
        continue;
      llvm::Type *word = (low ? low : high)->getType();
      low = low ? low : llvm::Constant::getNullValue(word);
      high = high ? high : llvm::Constant::getNullValue(word);
      llvm::Value *got = fromLane(b.CreateSelect(isOdd, low, high), 1u << swap.lane);
      high = b.CreateSelect(isOdd, high, got);
      low = b.CreateSelect(isOdd, got, low);
    }
  }

  Registers have(after.size());
  for (uint32_t first = 0; first < words.size(); ++first) {
    if (!words[first])
      continue;
    const auto indices = members(first);
    for (auto [index, value] :
         llvm::zip_equal(indices, unpacked(element, words[first], indices.size())))
      if (const int32_t slot = after.slots[index]; slot >= 0)
        have[unsigned(slot)] = arith_.fromMemory(dtype, value);
  }
  Registers result;
  for (const unsigned slot : *slots)
    result.push_back(have[slot]);
  return result;
}

} // namespace dtile::backend::gpu
