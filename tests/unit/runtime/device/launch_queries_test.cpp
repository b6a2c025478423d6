// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// dtile_kernel_supports and dtile_kernel_sizes: what a launch would say, without one.
#include "tests/unit/runtime/device/device_fixture.h"

#include <gmock/gmock.h>

using ::testing::ElementsAre;
using ::testing::HasSubstr;

namespace dtile::test {
namespace {

dtile_tensor sized(int32_t dtype, std::vector<int64_t> size) {
  dtile_tensor made = tensor(static_cast<int64_t *>(nullptr), std::move(size));
  made.dtype = dtype;
  return made;
}

/// The answer: "" for yes, or the reason.
std::string ask(dtile_team *team, const dtile_kernel_desc &kernel,
                const std::vector<const dtile_tensor *> &tensors, int32_t local = 0) {
  std::vector<dtile_arg> arguments(tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i)
    arguments[i].tensor = tensors[i];
  int32_t supported = -1;
  const dtile_status status = dtile_kernel_supports(team, local, &kernel, arguments.data(),
                                                    int32_t(arguments.size()), &supported);
  if (status != DTILE_OK)
    return "error: " + std::string(dtile_last_error());
  return supported == 1 ? "" : "no: " + std::string(dtile_last_error());
}

/// The sizes of an argument, of which nothing is there where it is an error.
std::vector<int64_t> sizesOf(dtile_team *team, const dtile_kernel_desc &kernel,
                             const std::vector<const dtile_tensor *> &tensors, int32_t argument) {
  std::vector<dtile_arg> arguments(tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i)
    arguments[i].tensor = tensors[i];
  int64_t size[DTILE_MAX_RANK] = {-1, -1, -1, -1, -1, -1};
  if (dtile_kernel_sizes(team, 0, &kernel, arguments.data(), int32_t(arguments.size()), argument,
                         size) != DTILE_OK)
    return {};
  std::vector<int64_t> found;
  for (int64_t one : size)
    if (one >= 0)
      found.push_back(one);
  return found;
}

// ---- Processors ----

class QueriesOnProcessors : public ::testing::Test {
protected:
  Team team = makeTeam(2, 1, 0, 1 << 20);
  dtile_tensor x = sized(DTILE_I64, {5}), y = sized(DTILE_I64, {10});
};

TEST_F(QueriesOnProcessors, WhatALaunchTakesIsSupported) {
  EXPECT_EQ(ask(team.get(), kAllGather, {&x, &y}), "");
  EXPECT_EQ(ask(team.get(), kAllGather, {&x, &y}, 1), "");
}

TEST_F(QueriesOnProcessors, WhatALaunchRefusesIsNotAndTheReasonIsItsOwn) {
  const dtile_tensor nine = sized(DTILE_I64, {9}), floats = sized(DTILE_F32, {5});
  EXPECT_EQ(ask(team.get(), kAllGather, {&x, &nine}, 1),
            "no: kernel `all_gather`, argument `y`, rank 1: dimension 0 has the size 9, but the "
            "kernel wants 10");
  EXPECT_THAT(ask(team.get(), kAllGather, {&floats, &y}), HasSubstr("elements are f32"));
  EXPECT_THAT(ask(team.get(), kAllGather, {nullptr, &y}), HasSubstr("argument `x`: the tensor is"));
}

TEST_F(QueriesOnProcessors, RoomForObjectsIsWhatCallersLeave) {
  // Two copies of 2 * 20000 numbers of 8 bytes.
  const dtile_tensor shard = sized(DTILE_I64, {20000}), all = sized(DTILE_I64, {40000});
  EXPECT_EQ(ask(team.get(), kAllGather, {&shard, &all}), "");
  void *held = nullptr;
  ASSERT_EQ(dtile_symm_alloc(team.get(), 700000, &held), DTILE_OK);
  EXPECT_THAT(ask(team.get(), kAllGather, {&shard, &all}),
              HasSubstr("no room for 2 copies of `a`, i64 [2, 20000]"));
  ASSERT_EQ(dtile_symm_free(team.get(), held), DTILE_OK);
  EXPECT_EQ(ask(team.get(), kAllGather, {&shard, &all}), "");
}

TEST_F(QueriesOnProcessors, NothingIsMadeInTheHeap) {
  const dtile_tensor shard = sized(DTILE_I64, {20000}), all = sized(DTILE_I64, {40000});
  ASSERT_EQ(ask(team.get(), kAllGather, {&shard, &all}), "");
  void *held = nullptr;
  EXPECT_EQ(dtile_symm_alloc(team.get(), (1 << 20) - 4096, &held), DTILE_OK);
}

TEST_F(QueriesOnProcessors, SizesFollowFromWhatIsKnown) {
  EXPECT_THAT(sizesOf(team.get(), kAllGather, {&x, nullptr}, 1), ElementsAre(10));
  EXPECT_THAT(sizesOf(team.get(), kAllGather, {&x, &y}, 0), ElementsAre(5));
  // The size of x is where n comes from; that of y is n.
  EXPECT_THAT(sizesOf(team.get(), kNeighbourPut, {nullptr, &y}, 0), ElementsAre(10));
  const dtile_tensor large = sized(DTILE_I64, {(int64_t(1) << 30) + 1});
  EXPECT_THAT(sizesOf(team.get(), kNeighbourPut, {&large, nullptr}, 1),
              ElementsAre((int64_t(1) << 30) + 1));
}

TEST_F(QueriesOnProcessors, SizesThatNothingSaysAreAnError) {
  // The kernel multiplies, and does not divide.
  EXPECT_THAT(sizesOf(team.get(), kAllGather, {nullptr, &y}, 0), ElementsAre());
  EXPECT_STREQ(dtile_last_error(), "kernel `all_gather`: nothing that was passed says the size of "
                                   "dimension 0 of `x`: pass a tensor for it");
  EXPECT_THAT(sizesOf(team.get(), kNeighbourPut, {nullptr, nullptr}, 1), ElementsAre());
}

TEST_F(QueriesOnProcessors, WrongQuestionsAreErrors) {
  EXPECT_THAT(ask(team.get(), kAllGather, {&x}), HasSubstr("error: kernel `all_gather` takes 2"));
  EXPECT_THAT(ask(team.get(), kAllGather, {&x, &y}, 2), HasSubstr("error: local rank 2 is not"));
  EXPECT_THAT(ask(nullptr, kAllGather, {&x, &y}), HasSubstr("error: the team is null"));
  EXPECT_THAT(sizesOf(team.get(), kAllGather, {&x, &y}, 2), ElementsAre());
  EXPECT_STREQ(dtile_last_error(), "argument 2 of kernel `all_gather` is no tensor");
  int32_t supported = 0;
  EXPECT_EQ(dtile_kernel_supports(team.get(), 0, nullptr, nullptr, 0, &supported), DTILE_INVALID);
  EXPECT_EQ(dtile_kernel_supports(team.get(), 0, &kAllGather, nullptr, 2, &supported),
            DTILE_INVALID);
  EXPECT_EQ(dtile_kernel_supports(team.get(), 0, &kAllGather, nullptr, 2, nullptr), DTILE_INVALID);
}

// ---- Devices ----

class QueriesOnDevices : public DeviceTeamTest {
protected:
  dtile_tensor x = sized(DTILE_F32, {64}), y = sized(DTILE_F32, {64});
};

TEST_F(QueriesOnDevices, AreAnsweredWithoutALaunch) {
  ASSERT_TRUE(make({0, 1}).ok());
  EXPECT_EQ(ask(team.get(), kernel.desc, {&x, &y}, 1), "");
  EXPECT_TRUE(machine.launches.empty());
  makeArguments(64);
  ASSERT_TRUE(launch().ok());
  EXPECT_EQ(machine.launches.size(), 2u);
  EXPECT_EQ(ask(team.get(), kernel.desc, {&x, &y}), "");
  // Its code was loaded once a device.
  EXPECT_EQ(machine.modules, 2);
}

TEST_F(QueriesOnDevices, SayWhatALaunchWouldSay) {
  ASSERT_TRUE(make({0}).ok());
  const dtile_tensor odd = sized(DTILE_F32, {63});
  EXPECT_EQ(ask(team.get(), kernel.desc, {&x, &odd}),
            "no: kernel `shift`, argument `y`, rank 0: dimension 0 has the size 63, but the kernel "
            "wants 64");
  const dtile_tensor huge = sized(DTILE_F32, {1 << 18});
  EXPECT_THAT(ask(team.get(), kernel.desc, {&huge, &huge}), HasSubstr("no room for 2 copies"));
  const TestKernel other("sm_100a", "another image");
  EXPECT_THAT(ask(team.get(), other.desc, {&x, &y}), HasSubstr("no: kernel `shift` was compiled"));
}

TEST_F(QueriesOnDevices, SeeThatProgramsCannotBeResident) {
  machine.multiprocessors = 1;
  dtile_device_space spaces[2] = {kDeviceSpaces[0], kDeviceSpaces[1]};
  spaces[0].pinned = spaces[1].pinned = 8;
  kernel.image.spaces = spaces;
  ASSERT_TRUE(make({0}).ok());
  EXPECT_THAT(ask(team.get(), kernel.desc, {&x, &y}), HasSubstr("programs at once on rank 0"));
  makeArguments(64);
  EXPECT_THAT(launch().message, HasSubstr("programs at once on rank 0"));
}

TEST_F(QueriesOnDevices, FindSizesWithoutLoadingCode) {
  ASSERT_TRUE(make({0, 1}).ok());
  EXPECT_THAT(sizesOf(team.get(), kernel.desc, {&x, nullptr}, 1), ElementsAre(64));
  EXPECT_THAT(sizesOf(team.get(), kernel.desc, {nullptr, &y}, 0), ElementsAre(64));
  EXPECT_EQ(machine.modules, 0);
  const TestKernel other("sm_100a", "another image");
  EXPECT_THAT(sizesOf(team.get(), other.desc, {&x, nullptr}, 1), ElementsAre());
  EXPECT_THAT(dtile_last_error(), HasSubstr("has no code for GPU 0"));
}

TEST_F(QueriesOnDevices, AskTheAlternativeThatWouldRun) {
  const TestKernel second("sm_100a", "other image");
  const dtile_kernel_desc *alternatives[2] = {&second.desc, &kernel.desc};
  dtile_kernel_desc family = {};
  family.abi_version = DTILE_ABI_VERSION;
  family.name = "either";
  family.nparams = 2;
  family.params = kParams;
  family.nalternatives = 2;
  family.alternatives = alternatives;
  ASSERT_TRUE(make({0, 1}).ok());
  EXPECT_EQ(ask(team.get(), family, {&x, &y}), "");
  const dtile_tensor odd = sized(DTILE_F32, {63});
  EXPECT_THAT(ask(team.get(), family, {&x, &odd}), HasSubstr("wants 64"));
  EXPECT_THAT(ask(team.get(), family, {&x, nullptr}), HasSubstr("argument `y`: the tensor is"));
  EXPECT_THAT(sizesOf(team.get(), family, {&x, nullptr}, 1), ElementsAre(64));
  alternatives[1] = &second.desc;
  EXPECT_THAT(ask(team.get(), family, {&x, &y}), HasSubstr("was compiled for sm_100a"));
}

} // namespace
} // namespace dtile::test
