// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "backend/runtime/device/control_listener.h"

#include <atomic>
#include <cstring>

namespace dtile::runtime {

namespace {
// States of a report (device_abi.h).
constexpr uint32_t kEmpty = 0, kBeingWritten = 1, kComplete = 2;
} // namespace

bool ControlListener::isAborted() {
  return std::atomic_ref(*control_).load(std::memory_order_acquire) != 0;
}

void ControlListener::abort() { std::atomic_ref(*control_).store(1, std::memory_order_release); }

std::string ControlListener::reports() {
  std::string all;
  for (int32_t rank = 0; rank < ranks_; ++rank) {
    dtile_device_report *report = reportOf(rank);
    if (std::atomic_ref(report->state).load(std::memory_order_acquire) == kComplete)
      all.append(reinterpret_cast<const char *>(report), sizeof *report);
  }
  return all;
}

void ControlListener::takeReports(const std::string &bytes) {
  dtile_device_report taken;
  for (size_t at = 0; at + sizeof taken <= bytes.size(); at += sizeof taken) {
    std::memcpy(&taken, bytes.data() + at, sizeof taken);
    taken.state = kBeingWritten;
    if (taken.rank < 0 || taken.rank >= ranks_)
      continue;
    // A process of the same host may have it already.
    dtile_device_report *place = reportOf(taken.rank);
    uint32_t state = kEmpty;
    if (!std::atomic_ref(place->state).compare_exchange_strong(state, kBeingWritten))
      continue;
    *place = taken;
    std::atomic_ref(place->state).store(kComplete, std::memory_order_release);
  }
}

} // namespace dtile::runtime
