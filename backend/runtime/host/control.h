// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The cells that processes use among themselves: a block at the same offset of each rank's heap.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace dtile::runtime {

/// Layout: a word that serializes updates, a word that stops the job and the words why; then rows
/// with one cell a rank: meetings, two of agreements, kBarriers for the barriers of kernels; and
/// two that outlive failures: meetings to recover, and what ranks must agree on then. Last, what is
/// gathered: two halves in turn, each with kGatherBytes a rank.
class ControlBlock {
public:
  static constexpr int32_t kBarriers = 64;
  static constexpr int64_t kMessageBytes = 4096;
  static constexpr int64_t kGatherBytes = 8192;

  ControlBlock(char *own, int64_t offset, int32_t ranks)
      : own_(own), offset_(offset), ranks_(ranks) {}

  static int64_t bytes(int32_t ranks) { return rowsEnd(ranks) + 2 * kGatherBytes * ranks; }

  /// As it was at first, but for the rows that outlive failures.
  void reset() const { std::memset(own_, 0, size_t(recoveryCell(0) - offset_)); }

  // Offsets in the heap of any rank …
  int64_t updateLock() const { return offset_; }
  int64_t stopCell() const { return offset_ + 8; }
  int64_t messageOffset() const { return offset_ + 16; }
  int64_t meetingCell(int32_t from) const { return rowCell(0, from); }
  int64_t agreementCell(int32_t row, int32_t from) const { return rowCell(1 + row, from); }
  int64_t barrierCell(int32_t slot, int32_t from) const { return rowCell(3 + slot, from); }

  int64_t recoveryCell(int32_t from) const { return rowCell(3 + kBarriers, from); }
  int64_t recoveryValueCell(int32_t from) const { return rowCell(4 + kBarriers, from); }
  int64_t gatherOffset(int32_t half, int32_t from) const {
    return offset_ + rowsEnd(ranks_) + (int64_t(half) * ranks_ + from) * kGatherBytes;
  }

  // … and addresses in the own rank's.
  uint64_t *stop() const { return at(stopCell()); }
  const char *message() const { return own_ + (messageOffset() - offset_); }
  uint64_t *meeting(int32_t from) const { return at(meetingCell(from)); }
  uint64_t *agreement(int32_t row, int32_t from) const { return at(agreementCell(row, from)); }
  uint64_t *barrier(int32_t slot, int32_t from) const { return at(barrierCell(slot, from)); }
  uint64_t *recovery(int32_t from) const { return at(recoveryCell(from)); }
  uint64_t *recoveryValue(int32_t from) const { return at(recoveryValueCell(from)); }
  const char *gathered(int32_t half, int32_t from) const {
    return own_ + (gatherOffset(half, from) - offset_);
  }

private:
  static constexpr int64_t kRows = 16 + kMessageBytes;
  static int64_t rowsEnd(int32_t ranks) { return kRows + int64_t(5 + kBarriers) * ranks * 8; }
  int64_t rowCell(int32_t row, int32_t from) const {
    return offset_ + kRows + (int64_t(row) * ranks_ + from) * 8;
  }
  uint64_t *at(int64_t offset) const {
    return reinterpret_cast<uint64_t *>(own_ + (offset - offset_));
  }

  char *own_;
  int64_t offset_;
  int32_t ranks_;
};

} // namespace dtile::runtime
