// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Teams of devices of host memory, and a kernel for them.
#pragma once

#include "backend/runtime/device/device_team.h"
#include "tests/unit/runtime/device/fake_device.h"
#include "tests/unit/runtime/runtime_kernels.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <vector>

namespace dtile::test {

using runtime::DeviceAddress;
using runtime::DeviceTeam;
using runtime::DeviceTeamConfig;
using runtime::Status;
using runtime::StreamHandle;

// ---- A kernel with an input, an output, scratch and a signal ----

struct Frame {
  const void *x;
  void *y;
  int64_t n, ranks;
  dtile_device_object scratch;
  dtile_device_cells cells;
};

inline FakeMachine *theMachine = nullptr;

inline int32_t prologue(dtile_launch *launch, void *memory) {
  ++theMachine->prologues;
  auto &frame = *static_cast<Frame *>(memory);
  frame.x = dtile_rt_arg_data(launch, 0);
  frame.y = dtile_rt_arg_data(launch, 1);
  frame.n = dtile_rt_arg_dim(launch, 0, 0);
  frame.ranks = dtile_rt_num_ranks(launch);
  if (dtile_rt_check_dim(launch, 1, 0, frame.n, dtile_rt_arg_dim(launch, 1, 0)) != 0)
    return 1;
  if (dtile_rt_device_scratch(launch, 2, 1, &frame.n, &frame.scratch) != 0)
    return 1;
  const int64_t cells[] = {frame.ranks, 3};
  return dtile_rt_device_signal(launch, 3, 2, cells, &frame.cells);
}

inline int64_t sendCount(const void *frame) { return static_cast<const Frame *>(frame)->ranks; }
inline int64_t workCount(const void *frame) { return static_cast<const Frame *>(frame)->n / 4; }

inline const dtile_param_desc kParams[] = {
    {"x", DTILE_PARAM_TENSOR, DTILE_MODE_IN, DTILE_F32, 1, 0, 1},
    {"y", DTILE_PARAM_TENSOR, DTILE_MODE_OUT, DTILE_F32, 1, 0, 1},
    {"buffer", DTILE_PARAM_TENSOR, DTILE_MODE_SCRATCH, DTILE_F32, 1, 1, 1},
    {"ready", DTILE_PARAM_SIGNAL, DTILE_MODE_SYMM, DTILE_U64, 2, 0, 1},
};
inline const dtile_space_desc kSpaces[] = {
    {"send", 1, -1, 0, 0, nullptr, nullptr, nullptr, 0, nullptr},
    {"work", 1, -1, 0, 0, nullptr, nullptr, nullptr, 0, nullptr},
};
inline int64_t (*const kCounts[])(const void *) = {sendCount, workCount};
inline int64_t sendWeight(const void *, int64_t, int64_t, int64_t) { return 100; }
inline int64_t workWeight(const void *, int64_t, int64_t, int64_t) { return 1000; }
inline int64_t (*const kWeights[])(const void *, int64_t, int64_t, int64_t) = {sendWeight,
                                                                               workWeight};
inline int64_t noLatency(const void *, int64_t, int64_t, int64_t) { return 0; }
inline int64_t (*const kLatencies[])(const void *, int64_t, int64_t, int64_t) = {noLatency,
                                                                                 noLatency};
inline const dtile_device_space kDeviceSpaces[] = {{0, 0, /*most=*/2, /*fill=*/1, 0, 0, 0, 0},
                                                   {0, 0, 0, 0, 0, 0, /*waits=*/1, 0}};
inline const dtile_site kSites[] = {{"kernel.dtile", "ready", 12, 5},
                                    {"kernel.dtile", "expected {0}, found {1}", 20, 9},
                                    {"kernel.dtile", "buffer", 14, 3}};

/// A kernel whose image is for `arch`.
struct TestKernel {
  explicit TestKernel(const char *arch = "sm_90", const char *data = "image") {
    image = {.device_abi_version = DTILE_DEVICE_ABI_VERSION,
             .format = DTILE_IMAGE_PTX,
             .target = "nvptx",
             .arch = arch,
             .shmem = "p2p",
             .data = data,
             .bytes = int64_t(std::strlen(data)) + 1,
             .entries = {"shift", "shift", "shift", "shift"},
             .threads = 128,
             .shared_bytes = 1024,
             .frame_bytes = sizeof(Frame),
             .prologue = prologue,
             .counts = kCounts,
             .weights = kWeights,
             .latencies = kLatencies,
             .remote_bytes = kLatencies,
             .spaces = kDeviceSpaces,
             .nsites = 3,
             .shmem_version = 0,
             .sites = kSites,
             .variant = 0,
             .protocol = 0,
             .launch_time = 0,
             .link_rate = 0,
             .constants = "",
             .mapped_site = -1,
             .packed_bytes = 0,
             .partial_bytes = 0,
             .nscratch = 0,
             .pair_time = 0,
             .scratch = nullptr,
             .engine = nullptr};
    desc = {.abi_version = DTILE_ABI_VERSION,
            .flags = 0,
            .name = "shift",
            .file = "kernel.dtile",
            .nparams = 4,
            .nspaces = 2,
            .nsignals = 1,
            .nalternatives = 0,
            .params = kParams,
            .spaces = kSpaces,
            .signals = nullptr,
            .frame_bytes = 0,
            .prologue = nullptr,
            .nimages = 1,
            .ntuned = 0,
            .images = &image,
            .processor_features = 0,
            .configuration = 0,
            .alternatives = nullptr,
            .ntuned_sizes = 0,
            .reserved2 = 0,
            .tuned_sizes = nullptr,
            .tuned = nullptr};
  }
  TestKernel(const TestKernel &) = delete;
  dtile_device_image image;
  dtile_kernel_desc desc;
};

inline const Frame &frameOf(const RecordedLaunch &launch) {
  return *static_cast<const Frame *>(launch.frame);
}

/// What a kernel leaves that waits for too long.
inline dtile_device_report &giveUp(const dtile_device_launch &words) {
  dtile_device_report &report = *words.team->report;
  report.failure = DTILE_DEVICE_TIMEOUT;
  report.kernel_id = words.kernel_id;
  report.state = 2;
  *words.team->abort = 1;
  return report;
}

class DeviceTeamTest : public testing::Test {
protected:
  void SetUp() override { theMachine = &machine; }

  Status make(std::vector<int32_t> ordinals, int64_t heapBytes = 1 << 20) {
    team.reset();
    DeviceTeamConfig config;
    config.ordinals = std::move(ordinals);
    config.symmetricBytes = heapBytes;
    config.timeoutMs = 500;
    return DeviceTeam::create(makeFakeDriver(machine), std::move(config), &team);
  }

  float *allocate(int32_t local, int64_t elements) {
    DeviceAddress address = 0;
    EXPECT_TRUE(team->local(local).device->allocate(elements * 4, &address).ok());
    return reinterpret_cast<float *>(address);
  }

  /// x and y of `elements` for every local rank, on its device.
  void makeArguments(int64_t elements) {
    arguments = std::make_unique<Arguments>(team->localCount());
    for (int32_t local = 0; local < team->localCount(); ++local)
      for (int i = 0; i < 2; ++i)
        arguments->add(local, tensor(allocate(local, elements), {elements}));
  }
  Status launch(int32_t count = 1) {
    return team->launch(&kernel.desc, arguments->data(), arguments->count(), count);
  }
  Status launchOn(int32_t local, StreamHandle stream = nullptr) {
    return team->launchOn(local, &kernel.desc, arguments->data()[local], arguments->count(),
                          stream);
  }
  /// One launch on rank 0 with these tensors.
  Status launchWith(const dtile_tensor &x, const dtile_tensor &y) {
    dtile_arg args[2];
    args[0].tensor = &x;
    args[1].tensor = &y;
    return team->launchOn(0, &kernel.desc, args, 2, nullptr);
  }

  FakeMachine machine;
  TestKernel kernel;
  std::unique_ptr<DeviceTeam> team;
  std::unique_ptr<Arguments> arguments;
};

} // namespace dtile::test
