// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "backend/runtime/device/print/print_ring.h"

#include "backend/runtime/arguments/regions.h"
#include "backend/runtime/text/print_text.h"
#include "frontend/base/value_text.h"

#include <atomic>
#include <cstring>

namespace dtile::runtime {

static_assert(DTILE_PRINT_IN_FULL == kShownInFull && DTILE_PRINT_AT_ENDS == kShownAtEnds,
              "devices send what is shown");

namespace {

const int64_t *numbersOf(const dtile_device_print &print) {
  return reinterpret_cast<const int64_t *>(&print + 1);
}

/// How many positions of a dimension are shown.
int64_t shownOf(int64_t size) { return size > kShownInFull ? 2 * kShownAtEnds : size; }

/// Whether a record holds what it says; a device that has failed may have written anything.
bool isSound(const dtile_device_print &print) {
  const auto isIn = [](int64_t x, int64_t most) { return x >= 0 && x <= most; };
  if (!isIn(print.positions, DTILE_MAX_RANK) || !isIn(print.ndim, DTILE_MAX_RANK) ||
      print.dtype < -1 || print.dtype > DTILE_F64)
    return false;
  int64_t bytes = int64_t(sizeof print) + 8 * (print.positions + print.ndim);
  if (bytes > int64_t(print.bytes))
    return false;
  int64_t elements = print.dtype < 0 ? 0 : 1;
  for (int32_t d = 0; d < print.ndim; ++d) {
    const int64_t size = numbersOf(print)[print.positions + d];
    if (size < 0)
      return false;
    elements *= shownOf(size);
  }
  return print.dtype < 0 || bytes + elements * elementBytes(print.dtype) <= int64_t(print.bytes);
}

} // namespace

PrintRing::PrintRing(void *memory, int64_t room)
    : prints_(static_cast<dtile_device_prints *>(memory)), room_(room) {
  std::memset(memory, 0, size_t(sizeFor(room)));
  prints_->room = uint64_t(room);
}

void PrintRing::read(bool areOver, const std::function<void(const dtile_device_print &)> &show) {
  for (;;) {
    const uint64_t at = read_ % uint64_t(room_);
    auto *print = reinterpret_cast<dtile_device_print *>(ring() + at);
    const uint32_t state = std::atomic_ref(print->state).load(std::memory_order_acquire);
    if (state == DTILE_PRINT_NONE || (state == DTILE_PRINT_BEGUN && !areOver))
      return;
    const uint64_t bytes = print->bytes;
    const bool isGap = state == DTILE_PRINT_GAP;
    // Never where a device has done what it was told to.
    if (bytes == 0 || bytes % 8 != 0 || bytes > uint64_t(room_) - at ||
        (!isGap && bytes < sizeof *print))
      return;
    if (state == DTILE_PRINT_COMPLETE && isSound(*print)) {
      show(*print);
    } else if (!isGap) {
      ++lost_.records;
      lost_.bytes += bytes;
    }
    std::memset(static_cast<void *>(print), 0, bytes);
    read_ += bytes;
    std::atomic_ref(prints_->read).store(read_, std::memory_order_release);
  }
}

LostPrints PrintRing::takeLost() {
  // Only devices write them: what was told is known here.
  const LostPrints all{
      lost_.records + std::atomic_ref(prints_->lost).load(std::memory_order_relaxed),
      lost_.bytes + std::atomic_ref(prints_->lost_bytes).load(std::memory_order_relaxed)};
  const LostPrints since{all.records - told_.records, all.bytes - told_.bytes};
  told_ = all;
  return since;
}

std::vector<int64_t> positionOf(const dtile_device_print &print) {
  return {numbersOf(print), numbersOf(print) + print.positions};
}

std::string valueText(const dtile_device_print &print) {
  if (print.dtype < 0)
    return "";
  const int64_t *size = numbersOf(print) + print.positions;
  const auto *elements = reinterpret_cast<const char *>(size + print.ndim);
  const auto element = [&](int64_t number) {
    // Of the whole value in row-major order; what is left out has no place.
    int64_t place = 0, stride = 1;
    for (int32_t d = print.ndim - 1; d >= 0; --d) {
      const int64_t position = number % size[d], shown = shownOf(size[d]);
      number /= size[d];
      place += stride * (position < shown - kShownAtEnds ? position : position - size[d] + shown);
      stride *= shown;
    }
    return elementText(print.dtype, elements + place * elementBytes(print.dtype));
  };
  return " = " + arrayText(size, print.ndim, element);
}

} // namespace dtile::runtime
