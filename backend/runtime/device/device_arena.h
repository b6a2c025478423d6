// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A rank's own device memory for counters: small, zero at first, never given back one by one.
#pragma once

#include "backend/runtime/device/device.h"

#include <cstdint>
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
};

} // namespace dtile::runtime
