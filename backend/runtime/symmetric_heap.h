// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Offsets in the symmetric heap.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace dtile::runtime {

/// Hands out offsets. The same requests in the same order give the same offsets in every process,
/// which is all that keeps symmetric objects symmetric.
class SymmetricHeap {
public:
  static constexpr int64_t kAlignment = 256;

  /// Offsets in [begin, end).
  SymmetricHeap(int64_t begin, int64_t end);

  /// An aligned offset, or -1 when no gap is large enough. Zero bytes take the space of one.
  int64_t allocate(int64_t bytes);
  /// Bytes that the object at `offset` holds, or -1 when there is none.
  int64_t sizeAt(int64_t offset) const;
  /// False when no object begins at `offset`.
  bool release(int64_t offset);
  int64_t usedBytes() const { return usedBytes_; }

private:
  std::map<int64_t, int64_t> gaps_;
  std::map<int64_t, int64_t> objects_;
  int64_t usedBytes_ = 0;
};

/// The objects of callers among those in a heap: offsets, and bytes as they were asked for.
class CallersObjects {
public:
  void add(int64_t offset, int64_t bytes) { bytes_[offset] = bytes; }
  void remove(int64_t offset) { bytes_.erase(offset); }
  /// Bytes that the object at `offset` was asked for with, or -1 when none begins there.
  [[nodiscard]] int64_t bytesAt(int64_t offset) const;
  /// All that callers have below `end`, as it takes room.
  [[nodiscard]] int64_t bytes(int64_t end) const;
  /// In words, what is wrong with a use of `bytes` at `offset`; "" where one object holds them.
  [[nodiscard]] std::string check(int64_t offset, int64_t bytes) const;
  /// Equal where processes have the same objects at the same places.
  [[nodiscard]] uint64_t hash() const;

private:
  std::map<int64_t, int64_t> bytes_;
};

} // namespace dtile::runtime
