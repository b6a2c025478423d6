// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Numbers by hashes of what they stand for, in one piece of memory. A part of terms.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace dtile::interpret {

/// A key made of two numbers.
[[nodiscard]] inline uint64_t pairKey(uint32_t a, uint32_t b) { return uint64_t(a) << 32 | b; }

/// Spreads what two keys differ in over all bits.
[[nodiscard]] inline uint64_t mixed(uint64_t key) {
  key ^= key >> 32;
  key *= 0x9e3779b97f4a7c15;
  return key ^ key >> 29;
}

/// Numbers by 64-bit keys. Several may have one key, as where that is a hash: they are met in the
/// order in which they came.
class IdTable {
public:
  /// The first number of that key for which `isIt` holds, or kNone.
  template <typename IsIt> [[nodiscard]] uint32_t find(uint64_t key, IsIt &&isIt) const {
    if (slots_.empty())
      return kNone;
    for (size_t at = placeOf(key); slots_[at].id != kNone; at = next(at))
      if (slots_[at].key == key && isIt(slots_[at].id))
        return slots_[at].id;
    return kNone;
  }
  [[nodiscard]] uint32_t find(uint64_t key) const {
    return find(key, [](uint32_t) { return true; });
  }
  void insert(uint64_t key, uint32_t id) {
    // Half of it stays empty, so that runs of full slots are short.
    if (2 * (size_ + 1) > slots_.size())
      grow();
    ++size_;
    enter({key, id});
  }

  static constexpr uint32_t kNone = UINT32_MAX;

private:
  struct Slot {
    uint64_t key = 0;
    uint32_t id = kNone;
  };
  [[nodiscard]] size_t placeOf(uint64_t key) const { return mixed(key) & (slots_.size() - 1); }
  [[nodiscard]] size_t next(size_t at) const { return (at + 1) & (slots_.size() - 1); }
  void enter(const Slot &slot) {
    size_t at = placeOf(slot.key);
    while (slots_[at].id != kNone)
      at = next(at);
    slots_[at] = slot;
  }
  void grow() {
    constexpr size_t kFirstSlots = 64;
    std::vector<Slot> old(slots_.empty() ? kFirstSlots : 2 * slots_.size());
    old.swap(slots_);
    // From an empty slot on: numbers of one key keep their order.
    size_t start = 0;
    while (start < old.size() && old[start].id != kNone)
      ++start;
    for (size_t i = 0; i < old.size(); ++i)
      if (const Slot &slot = old[(start + i) & (old.size() - 1)]; slot.id != kNone)
        enter(slot);
  }

  std::vector<Slot> slots_;
  size_t size_ = 0;
};

} // namespace dtile::interpret
