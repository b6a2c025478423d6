// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The C interface against callers who are wrong, older or newer: errors in words, never signals.
#include "tests/unit/runtime/runtime_kernels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

namespace dtile::test {
namespace {

using ::testing::HasSubstr;

int32_t nothing(dtile_launch *, void *) { return 0; }

// ---- Symmetric arguments ----

class SymmetricArguments : public ::testing::Test {
protected:
  void SetUp() override {
    for (void **object : {&first, &second})
      ASSERT_EQ(dtile_symm_alloc(team.get(), 1024, object), DTILE_OK);
  }
  /// A launch with `elements` from `data` on; "" when it is let through.
  std::string with(void *data, int64_t elements, int64_t stride = 1) {
    Arguments arguments(2);
    for (int32_t rank = 0; rank < 2; ++rank) {
      dtile_tensor x =
          tensor(static_cast<int32_t *>(dtile_symm_address(team.get(), data, rank)), {elements});
      x.stride[0] = stride;
      arguments.add(rank, x);
    }
    const dtile_status status = dtile_launch_all(team.get(), &kernel, arguments.data(), 1);
    EXPECT_TRUE(status == DTILE_OK || status == DTILE_INVALID);
    return status == DTILE_OK ? "" : dtile_last_error();
  }
  Team team = makeTeam(2, 1, 0, 1 << 20);
  dtile_param_desc params[1] = {{"x", DTILE_PARAM_TENSOR, DTILE_MODE_SYMM, DTILE_I32, 1, 0, 1}};
  dtile_kernel_desc kernel = {DTILE_ABI_VERSION, 0,       "s", "s.dtile", 1, 0, 0, 0, params,
                              nullptr,           nullptr, 0,   nothing};
  void *first = nullptr, *second = nullptr;
};

TEST_F(SymmetricArguments, StayInTheirObjects) {
  EXPECT_EQ(with(first, 256), "");
  EXPECT_EQ(with(static_cast<int32_t *>(first) + 100, 156), "");
  EXPECT_EQ(with(first, 257),
            "kernel `s`, argument `x`, rank 0: the data is 1028 bytes, 0 behind the begin of a "
            "symmetric object of 1024 bytes: it goes past its end");
  EXPECT_THAT(with(static_cast<int32_t *>(first) + 100, 157), HasSubstr("400 behind the begin"));
  EXPECT_EQ(with(first, 0), "");
}

TEST_F(SymmetricArguments, AreNotWhatNobodyHasAskedFor) {
  EXPECT_THAT(with(static_cast<int32_t *>(second) + 256, 1), HasSubstr("in no object"));
  ASSERT_EQ(dtile_symm_free(team.get(), second), DTILE_OK);
  EXPECT_THAT(with(second, 256), HasSubstr("in one that was freed"));
  EXPECT_EQ(dtile_symm_free(team.get(), second), DTILE_INVALID);
  // Bytes that are rounded up are no bytes of the object.
  void *odd = nullptr;
  ASSERT_EQ(dtile_symm_alloc(team.get(), 10, &odd), DTILE_OK);
  EXPECT_EQ(with(odd, 2), "");
  EXPECT_THAT(with(odd, 3), HasSubstr("a symmetric object of 10 bytes"));
  void *empty = nullptr;
  ASSERT_EQ(dtile_symm_alloc(team.get(), 0, &empty), DTILE_OK);
  EXPECT_EQ(with(empty, 0), "");
  EXPECT_THAT(with(empty, 1), HasSubstr("in no object"));
}

TEST_F(SymmetricArguments, SizesThatOverflowAreRefused) {
  for (int64_t elements : {int64_t(1) << 62, int64_t(1) << 61, INT64_MAX, INT64_MAX / 4})
    EXPECT_THAT(with(first, elements), testing::AnyOf(HasSubstr("overflow"), HasSubstr("past")));
  params[0].mode = DTILE_MODE_IN;
  EXPECT_EQ(with(first, 256), "");
  EXPECT_THAT(with(first, 257), HasSubstr("past its end"));
  EXPECT_EQ(with(first, 64, 4), "");
  EXPECT_THAT(with(first, 64, 5), HasSubstr("past its end"));
  EXPECT_THAT(with(first, 3, INT64_MAX / 2 + 2), HasSubstr("overflow"));
  EXPECT_THAT(with(first, 3, INT64_MIN), HasSubstr("overflow"));
}

// ---- Kernels ----

TEST(Interface, KernelWithoutHostCodeIsRefusedOnProcessors) {
  Team team = makeTeam(2, 1);
  const dtile_space_desc spaces[] = {{"", 0, -1, 0, 0, nullptr, nullptr, nullptr, 0, nullptr}};
  const dtile_kernel_desc kernel = {DTILE_ABI_VERSION, 0,      "k",     "k.dtile", 0,      1, 0, 0,
                                    nullptr,           spaces, nullptr, 0,         nullptr};
  EXPECT_EQ(dtile_launch_all(team.get(), &kernel, nullptr, 0), DTILE_INVALID);
  EXPECT_STREQ(dtile_last_error(), "kernel `k` has no code for processors: compile it with "
                                   "--target host, too, or make a team of GPUs");
  EXPECT_EQ(dtile_launch_repeat(team.get(), &kernel, nullptr, 0, 0), DTILE_INVALID);
}

// ---- Options ----

TEST(Interface, OptionsThatNoMachineCanGiveAreRefused) {
  const auto create = [](auto set) {
    dtile_team_options options = DTILE_TEAM_OPTIONS_INIT;
    options.ranks = 2;
    set(options);
    dtile_team *team = nullptr;
    const dtile_status status = dtile_team_create_threads(&options, &team);
    EXPECT_EQ(team, nullptr);
    return status == DTILE_OK ? "" : std::string(dtile_last_error());
  };
  for (int64_t bytes : {int64_t(0x4000000000000000), INT64_MAX, (int64_t(1) << 30) + 1, int64_t(-1),
                        INT64_MIN, int64_t(1)})
    EXPECT_THAT(create([&](auto &o) { o.stack_bytes = bytes; }),
                HasSubstr("it must be 0 (for the default) or 16384 to 1073741824"));
  for (int32_t workers : {1025, INT32_MAX, -1, INT32_MIN})
    EXPECT_THAT(create([&](auto &o) { o.workers = workers; }), HasSubstr("workers is"));
  for (int64_t bytes : {int64_t(1) << 47, INT64_MAX, int64_t(1) << 46})
    EXPECT_THAT(create([&](auto &o) { o.symmetric_bytes = bytes; }),
                HasSubstr("ask for a smaller symmetric heap"));
  dtile_device_options options = DTILE_DEVICE_OPTIONS_INIT;
  options.ndevices = 1;
  options.symmetric_bytes = INT64_MAX;
  dtile_team *team = nullptr;
  EXPECT_EQ(dtile_team_create_devices(&options, &team), DTILE_OUT_OF_MEMORY);
}

/// Options with room behind them, as a newer version has.
template <typename Options> struct Newer {
  Options options;
  char more[16] = {};
};

TEST(Interface, OptionsOfOtherVersionsAreTakenOrRefused) {
  Newer<dtile_team_options> newer = {DTILE_TEAM_OPTIONS_INIT, {}};
  newer.options.ranks = 2;
  const auto create = [&] {
    dtile_team *made = nullptr;
    const dtile_status status = dtile_team_create_threads(&newer.options, &made);
    dtile_team_destroy(made);
    return status == DTILE_OK ? "" : std::string(dtile_last_error());
  };
  EXPECT_EQ(create(), "");
  newer.options.struct_bytes = sizeof newer;
  EXPECT_EQ(create(), "");
  newer.more[15] = 1;
  EXPECT_THAT(create(), HasSubstr("are of a newer version"));
  newer.options.struct_bytes = sizeof newer.options;
  EXPECT_EQ(create(), "");
  for (uint32_t bytes : {4u, uint32_t(sizeof newer.options - 1), 0xcdcdcdcdu}) {
    newer.options.struct_bytes = bytes;
    EXPECT_THAT(create(), HasSubstr("let them begin as DTILE_TEAM_OPTIONS_INIT"));
  }
  dtile_team *team = nullptr;
  EXPECT_EQ(dtile_team_create_env(&newer.options, &team), DTILE_INVALID);
  // Zeros are the fields of the first version.
  newer.options = {};
  newer.options.ranks = 2;
  EXPECT_EQ(create(), "");
  dtile_device_options devices = {};
  devices.ndevices = 1;
  devices.struct_bytes = 4;
  EXPECT_EQ(dtile_team_create_devices(&devices, &team), DTILE_INVALID);
  EXPECT_THAT(dtile_last_error(), HasSubstr("let them begin as DTILE_DEVICE_OPTIONS_INIT"));
  EXPECT_EQ(dtile_team_create_job(&devices, &team), DTILE_INVALID);
  EXPECT_EQ(dtile_team_create_device_env(&devices, &team), DTILE_INVALID);
}

// ---- Nulls ----

TEST(Interface, NullsAreErrors) {
  EXPECT_EQ(dtile_team_size(nullptr), -1);
  EXPECT_STREQ(dtile_last_error(), "the team is null: it was not made, or has been closed");
  EXPECT_EQ(dtile_team_first_local(nullptr), -1);
  EXPECT_EQ(dtile_team_local_count(nullptr), -1);
  dtile_team_destroy(nullptr);
  for (const char *target : {"nvptx", "amdgpu", "abacus", static_cast<const char *>(nullptr)}) {
    EXPECT_EQ(dtile_device_count(target, nullptr), DTILE_INVALID);
    EXPECT_EQ(dtile_device_arch(target, 0, nullptr, 10), DTILE_INVALID);
  }
  char arch[4];
  EXPECT_EQ(dtile_device_arch("nvptx", 0, arch, 0), DTILE_INVALID);
  dtile_team_options options = DTILE_TEAM_OPTIONS_INIT;
  options.ranks = 1;
  dtile_team *team = nullptr;
  EXPECT_EQ(dtile_team_create_threads(&options, nullptr), DTILE_INVALID);
  EXPECT_EQ(dtile_team_create_threads(nullptr, &team), DTILE_INVALID);
  EXPECT_EQ(dtile_team_create_env(nullptr, nullptr), DTILE_INVALID);
  EXPECT_EQ(dtile_team_create_devices(nullptr, nullptr), DTILE_INVALID);
  EXPECT_EQ(dtile_team_create_device_env(nullptr, nullptr), DTILE_INVALID);
  EXPECT_EQ(dtile_team_create_job(nullptr, nullptr), DTILE_INVALID);
  EXPECT_EQ(dtile_symm_alloc(nullptr, 1, nullptr), DTILE_INVALID);
  EXPECT_EQ(dtile_symm_free(nullptr, nullptr), DTILE_INVALID);
  EXPECT_EQ(dtile_symm_address(nullptr, nullptr, 0), nullptr);
  EXPECT_EQ(dtile_team_barrier(nullptr), DTILE_INVALID);
  EXPECT_EQ(dtile_team_recover(nullptr), DTILE_INVALID);
  EXPECT_EQ(dtile_team_trim(nullptr, 0), DTILE_INVALID);
  EXPECT_EQ(dtile_team_all_gather(nullptr, nullptr, 1, nullptr), DTILE_INVALID);
  dtile_graph_destroy(nullptr, 0, nullptr);
  Team made = makeTeam(1);
  EXPECT_EQ(dtile_symm_alloc(made.get(), 8, nullptr), DTILE_INVALID);
  EXPECT_EQ(dtile_symm_address(made.get(), nullptr, 0), nullptr);
  EXPECT_EQ(dtile_team_all_gather(made.get(), nullptr, 8, nullptr), DTILE_INVALID);
  EXPECT_EQ(dtile_launch_all(made.get(), nullptr, nullptr, 0), DTILE_INVALID);
  EXPECT_EQ(dtile_launch_all(made.get(), &kNeighbourPut, nullptr, 2), DTILE_INVALID);
  EXPECT_EQ(dtile_team_stream(made.get(), 0, nullptr), DTILE_INVALID);
  EXPECT_THAT(dtile_last_error(), HasSubstr("run on processors, not on GPUs"));
  EXPECT_EQ(dtile_team_trim(made.get(), 2), DTILE_INVALID);
}

// ---- Forked children ----

TEST(Interface, ForkedChildrenAreToldAndEndInOrder) {
  // Its workers are not in the child, and it may be locked.
  Team team = makeTeam(2, 4);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(20);
    void *memory = nullptr;
    bool isFine = dtile_team_barrier(team.get()) == DTILE_INVALID &&
                  std::strstr(dtile_last_error(), "was forked") != nullptr &&
                  dtile_symm_alloc(team.get(), 8, &memory) == DTILE_INVALID &&
                  dtile_launch_all(team.get(), &kNeighbourPut, nullptr, 0) == DTILE_INVALID &&
                  dtile_team_size(team.get()) == 2;
    dtile_team_destroy(team.release());
    Team own = makeTeam(2, 2);
    isFine &= dtile_team_barrier(own.get()) == DTILE_OK;
    own.reset();
    _exit(isFine ? 0 : 1);
  }
  int state = 0;
  waitpid(child, &state, 0);
  EXPECT_TRUE(WIFEXITED(state) && WEXITSTATUS(state) == 0) << state;
  EXPECT_EQ(dtile_team_barrier(team.get()), DTILE_OK);
}

// ---- Room ----

TEST(Interface, TrimmedObjectsAreMadeAgain) {
  Team team = makeTeam(2, 2, 0, 1 << 20);
  std::vector<int64_t> x(20'000, 3), y(20'000);
  Arguments arguments(2);
  std::vector<int64_t> z(20'000);
  for (int r = 0; r < 2; ++r) {
    arguments.add(r, tensor(x.data(), {20'000}));
    arguments.add(r, tensor(r == 0 ? y.data() : z.data(), {20'000}));
  }
  const auto launch = [&] {
    return dtile_launch_all(team.get(), &kNeighbourPut, arguments.data(), 2);
  };
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(launch(), DTILE_OK) << dtile_last_error();
    ASSERT_EQ(launch(), DTILE_OK) << dtile_last_error();
    EXPECT_EQ(y.back() + z.back(), 6);
    ASSERT_EQ(dtile_team_trim(team.get(), i % 2 == 0 ? 0 : DTILE_TRIM_CAPTURED), DTILE_OK);
    EXPECT_EQ(dtile_team_recover(team.get()), DTILE_OK);
  }
}

// ---- Scratch objects ----

TEST(Interface, ScratchOfTheLastLaunchCanBeLookedAt) {
  Team team = makeTeam(2, 2, 0, 1 << 20);
  dtile_tensor found = {};
  const auto look = [&](const char *name, int32_t local = 0) {
    return dtile_kernel_scratch(team.get(), local, &kNeighbourPut, name, &found);
  };
  EXPECT_EQ(look("b"), DTILE_INVALID);
  EXPECT_STREQ(dtile_last_error(), "kernel `neighbour` has no scratch object `b`; it has `a`");
  // An argument is the caller's.
  EXPECT_EQ(look("x"), DTILE_INVALID);
  EXPECT_EQ(look("a"), DTILE_INVALID);
  EXPECT_THAT(dtile_last_error(), HasSubstr("rank 0: no launch has left anything in `a`"));
  EXPECT_EQ(look("a", 2), DTILE_INVALID);
  EXPECT_EQ(look(nullptr), DTILE_INVALID);
  EXPECT_EQ(dtile_kernel_scratch(nullptr, 0, &kNeighbourPut, "a", &found), DTILE_INVALID);
  EXPECT_EQ(dtile_kernel_scratch(team.get(), 0, &kNeighbourPut, "a", nullptr), DTILE_INVALID);

  std::vector<const void *> copies;
  for (int64_t launch = 0; launch < 5; ++launch) {
    // With other sizes in between, which have objects of their own.
    const int64_t n = launch == 2 ? 7 : 5;
    std::vector<int64_t> x[2], y[2];
    Arguments arguments(2);
    for (int r = 0; r < 2; ++r) {
      x[r].assign(size_t(n), 10 * launch + r);
      y[r].resize(size_t(n));
      arguments.add(r, tensor(x[r].data(), {n}));
      arguments.add(r, tensor(y[r].data(), {n}));
    }
    ASSERT_EQ(dtile_launch_all(team.get(), &kNeighbourPut, arguments.data(), 2), DTILE_OK);
    for (int32_t local : {0, 1}) {
      ASSERT_EQ(look("a", local), DTILE_OK) << dtile_last_error();
      EXPECT_EQ(found.dtype, DTILE_I64);
      ASSERT_EQ(found.ndim, 1);
      ASSERT_EQ(found.size[0], n);
      EXPECT_EQ(found.stride[0], 1);
      // What its neighbour has put there.
      const auto *data = static_cast<const int64_t *>(found.data);
      EXPECT_EQ(std::vector<int64_t>(data, data + n), x[1 - local]);
    }
    if (n == 5)
      copies.push_back(found.data);
  }
  EXPECT_NE(copies[0], copies[1]);
  EXPECT_EQ(copies[0], copies[2]);
  EXPECT_EQ(copies[1], copies[3]);
  ASSERT_EQ(dtile_team_trim(team.get(), 0), DTILE_OK);
  EXPECT_EQ(look("a"), DTILE_INVALID);
}

} // namespace
} // namespace dtile::test
