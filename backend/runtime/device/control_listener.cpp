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

std::string ControlListener::report() {
  dtile_device_report *own = reportOf(rank_);
  if (std::atomic_ref(own->state).load(std::memory_order_acquire) != kComplete)
    return {};
  return {reinterpret_cast<const char *>(own), sizeof *own};
}

void ControlListener::takeReport(int32_t rank, const std::string &bytes) {
  dtile_device_report taken;
  if (bytes.size() != sizeof taken || rank == rank_)
    return;
  std::memcpy(&taken, bytes.data(), sizeof taken);
  taken.state = kBeingWritten;
  // A process of the same host may have it already.
  dtile_device_report *place = reportOf(rank);
  uint32_t state = kEmpty;
  if (!std::atomic_ref(place->state).compare_exchange_strong(state, kBeingWritten))
    return;
  *place = taken;
  std::atomic_ref(place->state).store(kComplete, std::memory_order_release);
}

} // namespace dtile::runtime
