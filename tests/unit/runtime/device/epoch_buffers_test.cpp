// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// When ranks meet before a launch that takes parts of memory in turn, and what graphs do to that.
#include "backend/runtime/device/epoch_buffers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace dtile::runtime {
namespace {

using ::testing::HasSubstr;

/// A kernel of a buffer that it only reads and one that it writes, half by half in turn or not.
struct Kernel {
  explicit Kernel(const char *name, uint32_t flags = DTILE_PARAM_WRITTEN | DTILE_PARAM_IN_TURN) {
    params[1].flags = flags;
    desc.name = name;
    desc.nparams = 2;
    desc.params = params;
    state.desc = &desc;
    state.name = name;
    state.argumentOf = {0, 1};
  }
  Kernel(const Kernel &) = delete;
  dtile_param_desc params[2] = {
      {"x", DTILE_PARAM_TENSOR, DTILE_MODE_SYMM, DTILE_F32, 1, 0, 1},
      {"box", DTILE_PARAM_TENSOR, DTILE_MODE_SYMM, DTILE_F32, 2, 0, 1},
  };
  dtile_kernel_desc desc = {};
  KernelState state;
};

struct TurnedMemoryTest : testing::Test {
  std::vector<float> heap = std::vector<float>(1000);
  TurnedMemory turned;
  TurnedMemory::Entry entry;

  /// Launches with a buffer of 2 times `half` elements, `first` elements into the heap: "meets",
  /// "goes on", or the error.
  std::string launch(const Kernel &kernel, int64_t first, int64_t half, bool isCaptured = false) {
    dtile_tensor x = {}, box = {};
    x.data = box.data = heap.data() + first;
    x.dtype = box.dtype = DTILE_F32;
    x.ndim = 1;
    x.size[0] = 1;
    box.ndim = 2;
    box.size[0] = 2;
    box.size[1] = half;
    dtile_arg arguments[2] = {};
    arguments[0].tensor = &x;
    arguments[1].tensor = &box;
    const uint64_t before = turned.version();
    const Status status =
        turned.enter(kernel.state, arguments, heap.data(), /*rank=*/3, isCaptured, &entry);
    if (status.ok())
      return entry.meets ? "meets" : "goes on";
    EXPECT_EQ(turned.version(), before);
    return status.message;
  }
  std::string capture(const Kernel &kernel, int64_t first, int64_t half) {
    return launch(kernel, first, half, /*isCaptured=*/true);
  }
};

TEST_F(TurnedMemoryTest, MeetsOnce) {
  Kernel a("a");
  EXPECT_EQ(launch(a, 100, 50), "meets");
  EXPECT_EQ(launch(a, 100, 50), "goes on");
  EXPECT_EQ(launch(a, 100, 50), "goes on");
}

TEST_F(TurnedMemoryTest, MeetsAgainWhenAnotherHasWritten) {
  Kernel a("a"), b("b"), plain("plain", DTILE_PARAM_WRITTEN), reads("reads", 0);
  EXPECT_EQ(launch(a, 100, 50), "meets");
  // Each counts its own launches.
  EXPECT_EQ(launch(b, 100, 50), "meets");
  EXPECT_EQ(launch(a, 100, 50), "meets");
  EXPECT_EQ(launch(a, 100, 50), "goes on");
  EXPECT_EQ(launch(plain, 100, 50), "goes on");
  EXPECT_EQ(launch(a, 100, 50), "meets");
  EXPECT_EQ(launch(reads, 100, 50), "goes on");
  EXPECT_EQ(launch(a, 100, 50), "goes on");
}

TEST_F(TurnedMemoryTest, CountsEveryByte) {
  Kernel a("a"), b("b");
  auto isLeftAloneBy = [&](int64_t first, int64_t half) {
    launch(a, 100, 50);
    EXPECT_EQ(launch(a, 100, 50), "goes on");
    launch(b, first, half);
    return launch(a, 100, 50) == "goes on";
  };
  EXPECT_TRUE(isLeftAloneBy(200, 50));
  EXPECT_TRUE(isLeftAloneBy(0, 50));
  EXPECT_TRUE(isLeftAloneBy(150, 0));
  EXPECT_FALSE(isLeftAloneBy(199, 1));
  EXPECT_FALSE(isLeftAloneBy(99, 1));
  EXPECT_FALSE(isLeftAloneBy(50, 200));
  EXPECT_FALSE(isLeftAloneBy(120, 10));
}

// Another place or other sizes: parts of one lie in parts of the other.
TEST_F(TurnedMemoryTest, IsCutInOneWay) {
  Kernel a("a");
  EXPECT_EQ(launch(a, 100, 50), "meets");
  EXPECT_EQ(launch(a, 100, 25), "meets");
  EXPECT_EQ(launch(a, 100, 50), "meets");
  EXPECT_EQ(launch(a, 120, 30), "meets");
  EXPECT_EQ(launch(a, 200, 25), "meets");
  EXPECT_EQ(launch(a, 120, 30), "goes on");
}

TEST_F(TurnedMemoryTest, SaysWhoNeedNotAsk) {
  Kernel a("a"), plain("plain", DTILE_PARAM_WRITTEN), reads("reads", 0);
  EXPECT_TRUE(TurnedMemory::concerns(a.desc) && TurnedMemory::concerns(plain.desc));
  EXPECT_FALSE(TurnedMemory::concerns(reads.desc));
  launch(a, 100, 50);
  const uint64_t version = entry.version;
  EXPECT_EQ(version, turned.version());
  EXPECT_EQ(launch(a, 100, 50), "goes on");
  EXPECT_EQ(entry.version, version);
  launch(plain, 0, 50);
  EXPECT_EQ(entry.version, version);
  // What was settled before is not any more.
  launch(plain, 100, 50);
  EXPECT_EQ(entry.version, turned.version());
  EXPECT_NE(entry.version, version);
}

TEST_F(TurnedMemoryTest, KeepsWhatGraphsRelyOn) {
  Kernel a("a"), b("b"), again("a"), plain("plain", DTILE_PARAM_WRITTEN), reads("reads", 0);
  launch(a, 100, 50);
  EXPECT_EQ(capture(a, 100, 50), "goes on");
  EXPECT_EQ(launch(a, 100, 50), "goes on");
  EXPECT_EQ(launch(reads, 100, 50), "goes on");
  const std::string refused = launch(b, 100, 50);
  EXPECT_THAT(refused, HasSubstr("kernel `b`, argument `box`, rank 3"));
  EXPECT_THAT(refused, HasSubstr("a captured launch of kernel `a` writes parts"));
  EXPECT_THAT(launch(again, 100, 50), HasSubstr("another build of `a`"));
  EXPECT_THAT(launch(plain, 199, 1), HasSubstr("kernel `plain`"));
  EXPECT_THAT(capture(plain, 199, 1), HasSubstr("kernel `plain`"));
  EXPECT_THAT(launch(a, 100, 25), HasSubstr("cuts it into other parts"));
  EXPECT_EQ(launch(a, 100, 50), "goes on");
  // The kernel is gone, its graph may be there.
  turned.forget(a.state);
  EXPECT_THAT(launch(b, 100, 50), HasSubstr("kernel `a`"));
  turned.release(100, 104);
  EXPECT_NE(launch(b, 100, 50), "meets");
  turned.release(400, 404);
  EXPECT_EQ(launch(b, 100, 50), "meets");
}

// Nobody knows when graphs are replayed.
TEST_F(TurnedMemoryTest, AlwaysMeetsWhereGraphsWriteToo) {
  Kernel a("a"), b("b"), plain("plain", DTILE_PARAM_WRITTEN);
  EXPECT_EQ(capture(plain, 100, 50), "goes on");
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(launch(a, 100, 50), "meets");
    EXPECT_EQ(entry.version, 0u);
    EXPECT_EQ(capture(a, 100, 50), "meets");
  }
  EXPECT_EQ(launch(b, 100, 50), "meets");
  EXPECT_EQ(launch(plain, 100, 50), "goes on");
}

// The graph's own meeting comes when it is replayed.
TEST_F(TurnedMemoryTest, IsNotMetForByACapture) {
  Kernel a("a");
  EXPECT_EQ(capture(a, 100, 50), "meets");
  EXPECT_EQ(entry.version, 0u);
  EXPECT_EQ(capture(a, 100, 50), "meets");
  EXPECT_EQ(launch(a, 100, 50), "meets");
  EXPECT_EQ(capture(a, 100, 50), "goes on");
}

TEST_F(TurnedMemoryTest, ForgetsALaunchThatDidNotTakePlace) {
  Kernel a("a"), b("b");
  EXPECT_EQ(launch(a, 100, 50), "meets");
  turned.leave();
  EXPECT_EQ(launch(a, 100, 50), "meets");
  EXPECT_EQ(launch(b, 100, 50), "meets");
  turned.leave();
  EXPECT_EQ(launch(a, 100, 50), "goes on");
  EXPECT_EQ(capture(a, 100, 50), "goes on");
  turned.leave();
  EXPECT_EQ(launch(b, 100, 50), "meets");
}

TEST_F(TurnedMemoryTest, BeginsAgain) {
  Kernel a("a"), b("b");
  EXPECT_EQ(launch(a, 100, 50), "meets");
  turned.release(0, 400);
  EXPECT_EQ(launch(a, 100, 50), "goes on");
  turned.release(400, 800);
  EXPECT_EQ(launch(a, 100, 50), "meets");
  turned.restart();
  EXPECT_NE(entry.version, turned.version());
  EXPECT_EQ(launch(a, 100, 50), "meets");
  turned.forget(b.state);
  EXPECT_EQ(launch(a, 100, 50), "goes on");
  turned.forget(a.state);
  EXPECT_EQ(launch(a, 100, 50), "meets");
}

} // namespace
} // namespace dtile::runtime
