// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Kernels with several images for one device: which one a launch takes, and what all of them share.
#include "tests/unit/runtime/device/device_fixture.h"

using namespace dtile;
using namespace dtile::runtime;
using namespace dtile::test;

namespace {

// Bodies of the second variant are slow for small x, and fast for large.
int64_t slowThenFast(const void *frame, int64_t, int64_t, int64_t) {
  return static_cast<const Frame *>(frame)->n < 400 ? 5000 : 200;
}
// A little faster than those of the first up to some size, far slower beyond.
int64_t fastThenFar(const void *frame, int64_t, int64_t, int64_t) {
  return static_cast<const Frame *>(frame)->n < 100'000 ? 900 : 50'000;
}
// As copies of rows take that do not begin at a word.
int64_t slowUnaligned(const void *frame, int64_t, int64_t, int64_t) {
  return reinterpret_cast<uintptr_t>(static_cast<const Frame *>(frame)->x) % 16 == 0 ? 500 : 9000;
}
int64_t wholeWordsWhereAligned(const void *frame) {
  return reinterpret_cast<uintptr_t>(static_cast<const Frame *>(frame)->x) % 16 == 0
             ? DTILE_WHOLE_WORDS
             : DTILE_IN_PARTS;
}
int64_t (*const kUnalignedWeights[])(const void *, int64_t, int64_t, int64_t) = {sendWeight,
                                                                                 slowUnaligned};
int64_t (*const kFarWeights[])(const void *, int64_t, int64_t, int64_t) = {sendWeight, fastThenFar};
int64_t (*const kSecondWeights[])(const void *, int64_t, int64_t, int64_t) = {sendWeight,
                                                                              slowThenFast};

class DeviceVariantsTest : public DeviceTeamTest {
protected:
  DeviceVariantsTest() {
    images[0] = images[1] = kernel.image;
    images[1].variant = 1;
    images[1].threads = 256;
    images[1].weights = kSecondWeights;
    std::copy(std::begin(kParams), std::end(kParams), params);
    kernel.desc.images = images;
    kernel.desc.nimages = 2;
    kernel.desc.params = params;
    kernel.desc.configuration = 1;
  }
  /// Threads of the last launch, which tell the variants apart.
  [[nodiscard]] int32_t threads() const { return machine.launches.back().threads; }
  /// They begin `offset` elements behind a word on rank `local`.
  void makeArgumentsBehind(int32_t local, int64_t offset, int64_t elements) {
    arguments = std::make_unique<Arguments>(team->localCount());
    for (int32_t l = 0; l < team->localCount(); ++l)
      for (int i = 0; i < 2; ++i) {
        float *data = allocate(l, elements + 1);
        arguments->add(l, tensor(data + (l == local ? offset : 0), {elements}));
      }
  }
  [[nodiscard]] int32_t launchWithElements(int64_t elements) {
    makeArguments(elements);
    EXPECT_TRUE(launch().ok());
    return threads();
  }

  dtile_device_image images[2];
  dtile_param_desc params[4];
};

TEST_F(DeviceVariantsTest, takes_the_one_that_is_estimated_to_end_first) {
  ASSERT_TRUE(make({0}).ok());
  EXPECT_EQ(launchWithElements(64), 128);
  EXPECT_EQ(launchWithElements(4096), 256);
  EXPECT_EQ(launchWithElements(64), 128);
}

TEST_F(DeviceVariantsTest, launches_the_function_for_its_kind) {
  const char *const entries[] = {"plain", "split", "shared", "copied"};
  std::copy(std::begin(entries), std::end(entries), images[0].entries);
  images[0].loading = [](const void *frame) -> int64_t {
    return static_cast<const Frame *>(frame)->n < 100 ? DTILE_WHOLE_WORDS : DTILE_IN_PARTS;
  };
  kernel.desc.nimages = 1;
  ASSERT_TRUE(make({0}).ok());
  (void)launchWithElements(64);
  EXPECT_EQ(machine.launches.back().function, "plain");
  (void)launchWithElements(128);
  EXPECT_EQ(machine.launches.back().function, "copied");
  // An image without that function moves whole words always.
  images[0].loading = nullptr;
  (void)launchWithElements(256);
  EXPECT_EQ(machine.launches.back().function, "plain");
}

// The second variant is the faster one, and has no function for parts of words.
TEST_F(DeviceVariantsTest, leaves_launches_in_parts_to_variants_that_have_a_function) {
  images[1].weights = kUnalignedWeights;
  images[1].loading = wholeWordsWhereAligned;
  images[1].entries[DTILE_LAUNCH_COPIED] = nullptr;
  ASSERT_TRUE(make({0}).ok());
  makeArgumentsBehind(0, 0, 64);
  ASSERT_TRUE(launch().ok());
  EXPECT_EQ(threads(), 256);
  makeArgumentsBehind(0, 1, 64);
  ASSERT_TRUE(launch().ok());
  EXPECT_EQ(threads(), 128);
  // Nothing else fits.
  images[0].shared_bytes = machine.sharedBytes + 1;
  ASSERT_TRUE(make({0}).ok());
  makeArgumentsBehind(0, 1, 64);
  const Status status = launch();
  EXPECT_EQ(status.code, DTILE_INVALID);
  EXPECT_NE(status.message.find("whose rows are not multiples of 16 bytes"), std::string::npos)
      << status.message;
}

// Where tensors lie is not known alike.
TEST_F(DeviceVariantsTest, ranks_whose_tensors_begin_elsewhere_choose_alike) {
  ASSERT_TRUE(make({0, 1}).ok());
  images[1].protocol = 1;
  images[1].weights = kUnalignedWeights;
  makeArgumentsBehind(1, 1, 64);
  ASSERT_TRUE(launch().ok());
  EXPECT_EQ(machine.launches[0].threads, 256);
  EXPECT_EQ(machine.launches[1].threads, 256);
}

TEST_F(DeviceVariantsTest, counts_launches_together_and_reports_which_one_ran) {
  ASSERT_TRUE(make({0}).ok());
  (void)launchWithElements(64);
  (void)launchWithElements(4096);
  const RecordedLaunch &first = machine.launches[0], &second = machine.launches[1];
  EXPECT_EQ(first.words.kernel, second.words.kernel);
  EXPECT_EQ(first.words.kernel_id + 1, second.words.kernel_id);
}

TEST_F(DeviceVariantsTest, estimates_only_at_the_first_launch_with_certain_arguments) {
  ASSERT_TRUE(make({0}).ok());
  makeArguments(64);
  ASSERT_TRUE(launch().ok());
  const int32_t before = machine.prologues;
  ASSERT_TRUE(launch(3).ok());
  EXPECT_EQ(machine.prologues, before);
}

TEST_F(DeviceVariantsTest, shares_objects_only_among_variants_that_look_alike) {
  ASSERT_TRUE(make({0}).ok());
  (void)launchWithElements(4096);
  const auto data = frameOf(machine.launches.back()).scratch.data;
  // The first variant becomes the faster one.
  images[1].weights = kWeights;
  images[0].weights = kSecondWeights;
  (void)launchWithElements(4096);
  ASSERT_EQ(threads(), 128);
  EXPECT_EQ(frameOf(machine.launches.back()).scratch.data, data);
  images[0].protocol = 1;
  (void)launchWithElements(4096);
  ASSERT_EQ(threads(), 128);
  EXPECT_NE(frameOf(machine.launches.back()).scratch.data, data);
}

// What other ranks see is not chosen by sizes that ranks need not agree on.
TEST_F(DeviceVariantsTest, ranks_with_different_sizes_choose_alike) {
  ASSERT_TRUE(make({0, 1}).ok());
  images[1].protocol = 1;
  (void)launchWithElements(64);
  // Unknown sizes are taken as large.
  EXPECT_EQ(machine.launches[0].threads, 256);
  EXPECT_EQ(machine.launches[1].threads, 256);
  // Where the sizes are the same on all ranks they may decide.
  params[0].agreed = params[1].agreed = 1;
  (void)launchWithElements(32);
  EXPECT_EQ(machine.launches[2].threads, 128);
  EXPECT_EQ(machine.launches[3].threads, 128);
}

// Of sizes that may differ nobody knows whether they are small or large.
TEST_F(DeviceVariantsTest, ranks_choose_what_is_nowhere_far_from_the_fastest) {
  ASSERT_TRUE(make({0, 1}).ok());
  images[1].protocol = 1;
  images[1].weights = kFarWeights;
  (void)launchWithElements(64);
  EXPECT_EQ(machine.launches[0].threads, 128);
  EXPECT_EQ(machine.launches[1].threads, 128);
  // Where all know it, it is taken.
  params[0].agreed = params[1].agreed = 1;
  (void)launchWithElements(32);
  EXPECT_EQ(machine.launches[2].threads, 256);
}

TEST_F(DeviceVariantsTest, leaves_out_variants_that_do_not_fit) {
  images[1].shared_bytes = machine.sharedBytes + 1;
  ASSERT_TRUE(make({0}).ok());
  EXPECT_EQ(launchWithElements(4096), 128);
}

TEST_F(DeviceVariantsTest, says_why_none_fits) {
  for (dtile_device_image &image : images)
    image.shared_bytes = machine.sharedBytes + 1;
  ASSERT_TRUE(make({0}).ok());
  makeArguments(64);
  const Status status = launch();
  EXPECT_EQ(status.code, DTILE_INVALID);
  EXPECT_NE(status.message.find("bytes of shared memory"), std::string::npos) << status.message;
}

// The driver refuses launches with more parameters than it takes.
TEST_F(DeviceVariantsTest, says_that_a_driver_takes_fewer_parameters) {
  for (dtile_device_image &image : images)
    image.frame_bytes = machine.parameterBytes;
  ASSERT_TRUE(make({0}).ok());
  makeArguments(64);
  const Status status = launch();
  EXPECT_EQ(status.code, DTILE_INVALID);
  EXPECT_NE(status.message.find("has 4608 bytes of parameters, but the driver of GPU 0 takes 4352"),
            std::string::npos)
      << status.message;
}

// The second variant is estimated to be slow for small x.
TEST_F(DeviceVariantsTest, takes_what_was_measured_on_such_a_device) {
  const dtile_tuned_size sizes[] = {{0, 0}};
  const int64_t small[] = {64}, large[] = {4096};
  const dtile_tuned_row rows[] = {{"Fake", "sm_90", 1, 1, 0, 0, small, nullptr},
                                  {"Other", "sm_90", 1, 0, 0, 0, large, nullptr},
                                  {"Fake", "sm_90", 2, 0, 0, 0, large, nullptr}};
  kernel.desc.ntuned_sizes = 1;
  kernel.desc.tuned_sizes = sizes;
  kernel.desc.ntuned = 3;
  kernel.desc.tuned = rows;
  ASSERT_TRUE(make({0}).ok());
  EXPECT_EQ(launchWithElements(64), 256);
  EXPECT_EQ(launchWithElements(72), 256);
  // Far from what was measured; and measured elsewhere, or on another number of ranks.
  EXPECT_EQ(launchWithElements(128), 128);
  EXPECT_EQ(launchWithElements(4096), 256);
}

TEST_F(DeviceVariantsTest, measured_protocols_are_chosen_by_what_ranks_agree_on) {
  const dtile_tuned_size sizes[] = {{0, 0}};
  const int64_t small[] = {32}, large[] = {4096};
  const dtile_tuned_row rows[] = {{"Fake", "sm_90", 2, 0, 0, 0, large, nullptr},
                                  {"Fake", "sm_90", 2, 1, 1, 0, small, nullptr}};
  kernel.desc.ntuned_sizes = 1;
  kernel.desc.tuned_sizes = sizes;
  kernel.desc.ntuned = 2;
  kernel.desc.tuned = rows;
  images[1].protocol = 1;
  ASSERT_TRUE(make({0, 1}).ok());
  // Ranks need not agree on x, so that the row of the largest speaks for all sizes.
  (void)launchWithElements(32);
  EXPECT_EQ(machine.launches[0].threads, 128);
  EXPECT_EQ(machine.launches[1].threads, 128);
  params[0].agreed = params[1].agreed = 1;
  (void)launchWithElements(33);
  EXPECT_EQ(machine.launches[2].threads, 256);
  EXPECT_EQ(machine.launches[3].threads, 256);
}

} // namespace
