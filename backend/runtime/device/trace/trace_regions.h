// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The memory that the programs of a rank record in: a dtile_device_trace, its regions and their
// events (device_abi.h).
#pragma once

#include "backend/runtime/device_abi.h"

#include <cstdint>
#include <functional>
#include <vector>

namespace dtile::runtime {

class TraceRegions {
public:
  TraceRegions() = default;
  /// For so many programs, with room for about `events` events of all of them together.
  TraceRegions(int32_t programs, int64_t events);

  [[nodiscard]] int32_t programs() const { return programs_; }
  [[nodiscard]] int64_t bytes() const;
  /// What stands at its begin, where that is at `address`, before anything was recorded.
  [[nodiscard]] std::vector<char> head(uint64_t address) const;
  [[nodiscard]] int64_t headBytes() const;

  /// What one recorder of a program has left: where its events stand, as bytes from the begin.
  struct Recorded {
    int32_t program = 0, recorder = 0;
    int64_t at = 0;
    uint32_t count = 0;
  };
  /// Of such a head that was read back. Adds what there was no room for to `dropped`.
  [[nodiscard]] std::vector<Recorded> recorded(const std::vector<char> &head,
                                               int64_t *dropped) const;

private:
  /// Events of a region.
  [[nodiscard]] uint32_t most(int32_t recorder) const;
  /// Bytes from the begin to the events of a region.
  [[nodiscard]] int64_t eventsAt(int32_t program, int32_t recorder) const;

  int32_t programs_ = 0;
  /// Of the threads that run bodies. Warps beside them have less to say.
  uint32_t most_ = 0;
};

} // namespace dtile::runtime
