// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What launches on devices have left in scratch objects, for their callers.
#include "device_fixture.h"

#include <gmock/gmock.h>

namespace dtile::test {
namespace {

using ::testing::HasSubstr;

class DeviceScratchTest : public DeviceTeamTest {
protected:
  void SetUp() override {
    DeviceTeamTest::SetUp();
    kernel.image.nscratch = 1;
    kernel.image.scratch = &use;
    ASSERT_TRUE(make({0, 1}).ok());
    makeArguments(8);
    machine.kernel = [this](const RecordedLaunch &launch) {
      const Frame &frame = frameOf(launch);
      const uint64_t before = *frame.scratch.turn >> DTILE_DEVICE_PART_BITS;
      const auto copy = int64_t(before) % use.copies;
      auto *data = reinterpret_cast<float *>(static_cast<char *>(frame.scratch.data) +
                                             copy * frame.scratch.copy_bytes);
      for (int64_t i = 0; i < frame.n; ++i)
        data[i] = float(100 * before + uint64_t(10 * launch.words.rank) + uint64_t(i));
      *frame.scratch.turn += DTILE_DEVICE_PARTS;
    };
  }

  Status look(int32_t local, const char *name = "buffer") {
    return team->scratch(local, kernel.desc, name, &found);
  }
  float first() { return *static_cast<const float *>(found.data); }

  /// As code for the kernel's `buffer` uses it.
  dtile_device_scratch use = {2, 2, 0, 0};
  dtile_tensor found = {};
};

TEST_F(DeviceScratchTest, is_the_copy_of_the_last_launch) {
  for (int launches = 0; launches < 5; ++launches) {
    ASSERT_TRUE(launch().ok());
    for (int32_t local : {0, 1}) {
      ASSERT_TRUE(look(local).ok()) << look(local).message;
      EXPECT_EQ(found.dtype, DTILE_F32);
      ASSERT_EQ(found.ndim, 1);
      EXPECT_EQ(found.size[0], 8);
      EXPECT_EQ(found.stride[0], 1);
      EXPECT_EQ(first(), float(100 * launches + 10 * local));
    }
  }
}

TEST_F(DeviceScratchTest, has_as_many_copies_as_the_code_uses) {
  // Other variants of the kernel take more in turn.
  use.copies = 1;
  ASSERT_TRUE(launch(3).ok());
  ASSERT_TRUE(look(1).ok());
  EXPECT_EQ(first(), 210.0F);
}

TEST_F(DeviceScratchTest, is_there_when_a_launch_has_been) {
  EXPECT_THAT(look(0).message, HasSubstr("no launch has left anything in `buffer`"));
  // It is made, and nothing runs.
  ASSERT_TRUE(launch(0).ok());
  EXPECT_THAT(look(0).message, HasSubstr("no launch has left anything in `buffer`"));
  ASSERT_TRUE(launchOn(0).ok());
  EXPECT_TRUE(look(0).ok());
  EXPECT_THAT(look(1).message, HasSubstr("rank 1: no launch has left anything in `buffer`"));
  EXPECT_THAT(look(0, "x").message, HasSubstr("has no scratch object `x`; it has `buffer`"));
  ASSERT_TRUE(team->trim(0).ok());
  EXPECT_EQ(look(0).code, DTILE_INVALID);
}

TEST_F(DeviceScratchTest, is_nothing_after_a_failure) {
  ASSERT_TRUE(launch().ok());
  machine.kernel = [](const RecordedLaunch &launch) { giveUp(launch.words); };
  ASSERT_TRUE(launchOn(0).ok());
  // The failure is told here.
  EXPECT_EQ(look(0).code, DTILE_TIMEOUT);
  EXPECT_EQ(look(0).code, DTILE_INVALID);
}

TEST_F(DeviceScratchTest, with_flags_is_no_tensor) {
  use.flagged = 1;
  ASSERT_TRUE(launch().ok());
  const Status status = look(0);
  EXPECT_EQ(status.code, DTILE_UNAVAILABLE);
  EXPECT_THAT(status.message, HasSubstr("`buffer` holds words that have flags between them"));
}

TEST_F(DeviceScratchTest, is_not_looked_at_in_a_capture) {
  ASSERT_TRUE(launch().ok());
  machine.capturing = true;
  EXPECT_THAT(look(0).message, HasSubstr("while a graph is captured"));
  machine.capturing = false;
  EXPECT_TRUE(look(0).ok());
}

} // namespace
} // namespace dtile::test
