// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the bodies of a rank print, as it comes from a device: a dtile_device_prints with its ring
// (device_abi.h). Devices write there while the host reads.
#pragma once

#include "backend/runtime/device_abi.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace dtile::runtime {

/// What there was no room for, or what was never completed.
struct LostPrints {
  uint64_t records = 0, bytes = 0;
};

class PrintRing {
public:
  /// What devices find in memory that is `sizeFor` bytes large. It outlives this.
  PrintRing(void *memory, int64_t room);
  static int64_t sizeFor(int64_t room) { return int64_t(sizeof(dtile_device_prints)) + room; }

  /// Gives each record that is complete to `show`, in the order in which programs took their room,
  /// and makes that free. `areOver`: no program runs any more. Then what is not complete never
  /// will be; else reading ends there.
  void read(bool areOver, const std::function<void(const dtile_device_print &)> &show);
  /// Since the last call.
  LostPrints takeLost();
  [[nodiscard]] int64_t room() const { return room_; }

private:
  [[nodiscard]] char *ring() const { return reinterpret_cast<char *>(prints_ + 1); }

  dtile_device_prints *prints_;
  int64_t room_;
  uint64_t read_ = 0;
  LostPrints lost_, told_;
};

/// The position of the body that has printed.
std::vector<int64_t> positionOf(const dtile_device_print &print);
/// " = [1, 2, …]"; "" where nothing but the name is shown.
std::string valueText(const dtile_device_print &print);

} // namespace dtile::runtime
