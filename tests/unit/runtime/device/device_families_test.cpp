// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Names for several kernels: which alternative a launch runs, and that all ranks run the same one.
#include "tests/unit/runtime/device/device_fixture.h"

using namespace dtile;
using namespace dtile::runtime;
using namespace dtile::test;

namespace {

// Slow for few elements, and fast for many.
int64_t slowThenFast(const void *frame, int64_t, int64_t, int64_t) {
  return static_cast<const Frame *>(frame)->n < 400 ? 50000 : 200;
}
int64_t (*const kSecondWeights[])(const void *, int64_t, int64_t, int64_t) = {sendWeight,
                                                                              slowThenFast};
// A tenth faster than the first, whatever the size.
int64_t slightlyFaster(const void *, int64_t, int64_t, int64_t) { return 900; }
int64_t (*const kSlightlyFaster[])(const void *, int64_t, int64_t, int64_t) = {sendWeight,
                                                                               slightlyFaster};
int64_t muchToSend(const void *, int64_t, int64_t, int64_t) { return 1 << 20; }
int64_t (*const kMuchToSend[])(const void *, int64_t, int64_t, int64_t) = {muchToSend, muchToSend};

class DeviceFamiliesTest : public DeviceTeamTest {
protected:
  DeviceFamiliesTest() : second("sm_90", "other image") {
    second.desc.name = "rotate";
    second.image.threads = 256;
    second.image.weights = kSecondWeights;
    // What callers pass.
    params[0] = kParams[0];
    params[1] = kParams[1];
    params[0].agreed = params[1].agreed = 1;
    family.abi_version = DTILE_ABI_VERSION;
    family.name = "either";
    family.file = "kernel.dtile";
    family.nparams = 2;
    family.params = params;
    family.nalternatives = 2;
    family.alternatives = alternatives;
  }
  /// Threads of the last launch, which tell the alternatives apart.
  [[nodiscard]] int32_t launchWithElements(int64_t elements) {
    makeArguments(elements);
    const Status status = team->launch(&family, arguments->data(), arguments->count(), 1);
    EXPECT_TRUE(status.ok()) << status.message;
    return machine.launches.back().threads;
  }

  TestKernel second;
  dtile_param_desc params[2];
  const dtile_kernel_desc *alternatives[2] = {&kernel.desc, &second.desc};
  dtile_kernel_desc family = {};
};

TEST_F(DeviceFamiliesTest, launches_the_one_that_is_estimated_to_be_the_fastest) {
  ASSERT_TRUE(make({0}).ok());
  EXPECT_EQ(launchWithElements(64), 128);
  EXPECT_EQ(launchWithElements(4096), 256);
  EXPECT_EQ(launchWithElements(64), 128);
}

TEST_F(DeviceFamiliesTest, launches_what_was_measured_on_such_a_device) {
  const dtile_tuned_size place = {0, 0};
  const int64_t small[] = {64}, large[] = {4096};
  const dtile_tuned_row rows[] = {{"Fake", "sm_90", 1, 1, 0, 0, small, nullptr},
                                  {"Other", "sm_90", 1, 0, 0, 0, large, nullptr},
                                  {"Fake", "sm_90", 2, 0, 0, 0, large, nullptr}};
  family.ntuned_sizes = 1;
  family.tuned_sizes = &place;
  family.ntuned = 3;
  family.tuned = rows;
  ASSERT_TRUE(make({0}).ok());
  EXPECT_EQ(launchWithElements(64), 256);
  EXPECT_EQ(launchWithElements(72), 256);
  // Far from what was measured; and measured elsewhere, or on another number of ranks.
  EXPECT_EQ(launchWithElements(200), 128);
  EXPECT_EQ(launchWithElements(4096), 256);
  ASSERT_TRUE(make({0, 1}).ok());
  EXPECT_EQ(launchWithElements(4096), 128);
}

TEST_F(DeviceFamiliesTest, takes_the_first_where_the_model_sees_little_difference) {
  second.image.weights = kSlightlyFaster;
  ASSERT_TRUE(make({0}).ok());
  EXPECT_EQ(launchWithElements(4096), 128);
}

TEST_F(DeviceFamiliesTest, counts_what_goes_over_the_link) {
  second.image.remote_bytes = kMuchToSend;
  second.image.link_rate = 1;
  ASSERT_TRUE(make({0}).ok());
  EXPECT_EQ(launchWithElements(4096), 128);
}

TEST_F(DeviceFamiliesTest, sizes_on_which_ranks_need_not_agree_do_not_count) {
  // Unknown sizes are taken as large.
  params[0].agreed = params[1].agreed = 0;
  ASSERT_TRUE(make({0, 1}).ok());
  EXPECT_EQ(launchWithElements(64), 256);
  params[0].agreed = params[1].agreed = 1;
  ASSERT_TRUE(make({0, 1}).ok());
  EXPECT_EQ(launchWithElements(64), 128);
}

TEST_F(DeviceFamiliesTest, estimates_once_for_the_same_sizes) {
  ASSERT_TRUE(make({0}).ok());
  (void)launchWithElements(64);
  const int32_t before = machine.prologues;
  ASSERT_TRUE(team->launch(&family, arguments->data(), arguments->count(), 3).ok());
  EXPECT_EQ(machine.prologues, before);
}

TEST_F(DeviceFamiliesTest, leaves_out_what_does_not_fit_and_says_why_nothing_does) {
  second.image.shared_bytes = machine.sharedBytes + 1;
  ASSERT_TRUE(make({0}).ok());
  EXPECT_EQ(launchWithElements(4096), 128);
  kernel.image.shared_bytes = machine.sharedBytes + 1;
  ASSERT_TRUE(make({0}).ok());
  makeArguments(64);
  const Status status = team->launch(&family, arguments->data(), arguments->count(), 1);
  EXPECT_EQ(status.code, DTILE_INVALID);
  EXPECT_NE(status.message.find("bytes of shared memory"), std::string::npos) << status.message;
}

TEST_F(DeviceFamiliesTest, refuses_arguments_before_it_looks_at_them) {
  ASSERT_TRUE(make({0}).ok());
  makeArguments(64);
  EXPECT_NE(team->launch(&family, arguments->data(), 1, 1)
                .message.find("kernel `either` takes 2 arguments, 1 given"),
            std::string::npos);
  dtile_arg none[2] = {};
  const dtile_arg *const all[] = {none};
  EXPECT_EQ(team->launch(&family, all, 2, 1).code, DTILE_INVALID);
}

} // namespace
