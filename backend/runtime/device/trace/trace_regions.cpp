// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "backend/runtime/device/trace/trace_regions.h"

#include <algorithm>
#include <cstring>

namespace dtile::runtime {

namespace {

constexpr int64_t kEventBytes = sizeof(dtile_device_event);
constexpr int64_t kRegionBytes = sizeof(dtile_device_region);
/// Of what those have that run bodies, a warp beside them has this part.
constexpr uint32_t kPartOfHelpers = 4;
constexpr int64_t kMostOfRegion = 1 << 20;

} // namespace

TraceRegions::TraceRegions(int32_t programs, int64_t events)
    : programs_(programs),
      most_(uint32_t(std::clamp<int64_t>(events / std::max(programs, 1), 1, kMostOfRegion))) {}

uint32_t TraceRegions::most(int32_t recorder) const {
  return recorder == DTILE_RECORD_BODIES ? most_ : std::max(most_ / kPartOfHelpers, 1u);
}

int64_t TraceRegions::headBytes() const {
  return int64_t(sizeof(dtile_device_trace)) + kRegionBytes * DTILE_DEVICE_RECORDERS * programs_;
}

int64_t TraceRegions::eventsAt(int32_t program, int32_t recorder) const {
  int64_t before = 0, each = 0;
  for (int32_t r = 0; r < DTILE_DEVICE_RECORDERS; ++r) {
    before += r < recorder ? most(r) : 0;
    each += most(r);
  }
  return headBytes() + kEventBytes * (each * program + before);
}

int64_t TraceRegions::bytes() const { return eventsAt(programs_, 0); }

std::vector<char> TraceRegions::head(uint64_t address) const {
  std::vector<char> head(static_cast<size_t>(headBytes()));
  const dtile_device_trace trace = {programs_, {}};
  std::memcpy(head.data(), &trace, sizeof trace);
  char *at = head.data() + sizeof trace;
  for (int32_t program = 0; program < programs_; ++program)
    for (int32_t recorder = 0; recorder < DTILE_DEVICE_RECORDERS; ++recorder) {
      dtile_device_region region = {};
      region.events =
          reinterpret_cast<dtile_device_event *>(address + uint64_t(eventsAt(program, recorder)));
      region.most = most(recorder);
      std::memcpy(at, &region, sizeof region);
      at += kRegionBytes;
    }
  return head;
}

std::vector<TraceRegions::Recorded> TraceRegions::recorded(const std::vector<char> &head,
                                                           int64_t *dropped) const {
  std::vector<Recorded> all;
  const char *at = head.data() + sizeof(dtile_device_trace);
  for (int32_t program = 0; program < programs_; ++program)
    for (int32_t recorder = 0; recorder < DTILE_DEVICE_RECORDERS; ++recorder) {
      dtile_device_region region;
      std::memcpy(&region, at, sizeof region);
      at += kRegionBytes;
      *dropped += region.dropped;
      // A device that has failed may have written anything.
      if (const uint32_t count = std::min(region.count, most(recorder)); count > 0)
        all.push_back({program, recorder, eventsAt(program, recorder), count});
    }
  return all;
}

} // namespace dtile::runtime
