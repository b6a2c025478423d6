// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A driver whose devices are host memory and whose launches are recorded, so that teams of devices
// are tested where there is none.
#pragma once

#include "backend/runtime/device/device.h"
#include "backend/runtime/device_abi.h"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace dtile::test {

/// A launch as a device saw it.
struct RecordedLaunch {
  int32_t ordinal = 0;
  std::string function;
  int32_t programs = 0;
  int32_t threads = 0;
  bool cooperative = false;
  runtime::StreamHandle stream = nullptr;
  dtile_device_launch words = {};
  const void *frame = nullptr;
};

/// What all devices of a fake driver share; outlives them.
struct FakeMachine {
  /// Frees what tests have left.
  ~FakeMachine();

  int32_t devices = 2;
  std::string arch = "sm_90";
  int32_t multiprocessors = 4;
  /// Programs that one multiprocessor holds.
  int32_t each = 2;
  /// Shared memory that a program may have.
  int32_t sharedBytes = 64 << 10;
  int64_t parameterBytes = 4352;
  /// Bytes of a device's memory that are left.
  int64_t memory = int64_t(1) << 30;
  /// New memory is full of something; else it is any, and may be more than there is (in teams of
  /// one process).
  bool isFilled = true;
  bool capturing = false;
  /// Calls of launch fail from now on.
  std::string fault;
  /// Runs instead of the kernel.
  std::function<void(const RecordedLaunch &)> kernel;

  /// Begin of each allocation of somebody else that can be shared: its file and size.
  std::map<runtime::DeviceAddress, std::pair<int, int64_t>> foreign;

  std::vector<RecordedLaunch> launches;
  /// Copies to other devices, with the launches before them; streams that follow others.
  struct RecordedCopy {
    runtime::DeviceCopy copy;
    runtime::StreamHandle stream = nullptr;
    size_t launchesBefore = 0;
  };
  std::vector<RecordedCopy> copies;
  std::vector<std::pair<runtime::StreamHandle, runtime::StreamHandle>> follows;
  bool hasCopyEngine = true;
  /// Begin of each allocation: its size and device.
  std::map<runtime::DeviceAddress, std::pair<int64_t, int32_t>> allocations;
  int32_t modules = 0;
  int32_t prologues = 0;
};

std::unique_ptr<runtime::DeviceDriver> makeFakeDriver(FakeMachine &machine);

} // namespace dtile::test
