// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A rank's own device memory for counters: small pieces, zero at first.
#pragma once

#include "backend/runtime/device/device.h"

#include <cstdint>
#include <map>
#include <vector>

namespace dtile::runtime {

class DeviceArena {
public:
  DeviceArena() = default;
  DeviceArena(const DeviceArena &) = delete;
  DeviceArena &operator=(const DeviceArena &) = delete;

  /// `stream` is where memory is zeroed.
  void open(Device &device, StreamHandle stream) {
    device_ = &device;
    stream_ = stream;
  }
  void close();

  /// 64-byte aligned, zero once this returns.
  Status allocate(int64_t bytes, DeviceAddress *out);
  /// Gives back what `bytes` were allocated at, which nothing on the device uses any more.
  void release(DeviceAddress address, int64_t bytes);
  /// Makes everything zero again, on the stream.
  Status zeroAll();

private:
  struct Chunk {
    DeviceAddress begin;
    int64_t bytes, used;
  };
  Device *device_ = nullptr;
  StreamHandle stream_ = nullptr;
  std::vector<Chunk> chunks_;
  /// Pieces that were given back, by their size.
  std::map<int64_t, std::vector<DeviceAddress>> free_;
};

} // namespace dtile::runtime
