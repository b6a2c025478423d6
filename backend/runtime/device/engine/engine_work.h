// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the copy engine does beside a launch: copies to other ranks, each followed by words that are
// written to cells there. The list follows from the launch's arguments, as its frame does.
#pragma once

#include "backend/runtime/arguments/regions.h"
#include "backend/runtime/device/device.h"

#include <cstdint>
#include <string>
#include <vector>

namespace dtile::runtime {

struct DeviceObject;

/// What is done before and between the copies of one launch, in order.
class EngineWork {
public:
  /// Copies of one launch. The driver takes 2 to 3 microseconds for each.
  static constexpr size_t kMostCopies = 1024;
  /// The put whose data a cell tells of.
  struct Place {
    std::string file;
    int32_t line = 0, column = 0;
  };
  /// A cell that is written at a peer.
  struct Arrival {
    int32_t peer = 0;
    const DeviceObject *signal = nullptr;
    uint64_t cell = 0;
    /// In places(); -1: no put came before.
    int32_t place = -1;
  };

  [[nodiscard]] const std::vector<DeviceCopy> &copies() const { return copies_; }
  [[nodiscard]] const std::vector<Arrival> &arrivals() const { return arrivals_; }
  [[nodiscard]] const std::vector<Place> &places() const { return places_; }
  [[nodiscard]] int64_t bytes() const { return bytes_; }
  /// Empty, or why programs send after all. Then there are no copies.
  [[nodiscard]] const std::string &refusal() const { return refusal_; }

  /// Copies runs from one address to another.
  void put(DeviceAddress to, DeviceAddress from, const RunPlan &runs, const dtile_site &site);
  /// Writes `word` to the cell after all puts before it.
  void notify(DeviceAddress to, DeviceAddress word, const Arrival &arrival);
  void refuse(std::string why);

private:
  void add(const DeviceCopy &copy);

  std::vector<DeviceCopy> copies_;
  std::vector<Arrival> arrivals_;
  std::vector<Place> places_;
  /// Of the last put.
  int32_t place_ = -1;
  int64_t bytes_ = 0;
  std::string refusal_;
};

/// A stream that forks from a caller's and joins it.
struct EngineStream {
  StreamHandle stream = nullptr;
  EventHandle event = nullptr;
};

} // namespace dtile::runtime
