// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Teams of devices on a driver of host memory: what launches hand to a device, what is refused, and
// what becomes of failures.
#include "tests/unit/runtime/device/device_fixture.h"
#include "tests/unit/runtime/job/processes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

namespace dtile::test {
namespace {

using namespace runtime;
using testing::HasSubstr;

TEST_F(DeviceTeamTest, hands_each_rank_its_team_objects_and_programs) {
  ASSERT_TRUE(make({0, 1}).ok());
  makeArguments(64);
  ASSERT_TRUE(launch().ok());
  ASSERT_EQ(machine.launches.size(), 2u);
  for (int32_t rank = 0; rank < 2; ++rank) {
    const RecordedLaunch &one = machine.launches[size_t(rank)];
    EXPECT_EQ(one.ordinal, rank);
    EXPECT_EQ(one.words.rank, rank);
    EXPECT_EQ(one.words.num_ranks, 2);
    EXPECT_TRUE(one.cooperative);
    EXPECT_EQ(one.threads, 128);
    // 8 resident programs: 2 bodies send, 16 work.
    EXPECT_EQ(one.programs, 8);
    EXPECT_EQ(one.words.first_program[1], 2);
    for (int32_t s = 2; s <= DTILE_DEVICE_MAX_SPACES; ++s)
      EXPECT_EQ(one.words.first_program[s], 8) << s;
    // Zeroed scratch makes ranks meet.
    EXPECT_EQ(one.words.flags, DTILE_KERNEL_ENTRY_BARRIER);
    const dtile_device_team &words = *one.words.team;
    EXPECT_EQ(words.rank, rank);
    EXPECT_EQ(words.wait_budget_ns, 500'000'000);
    EXPECT_EQ(*words.abort, 0u);
    EXPECT_EQ(words.report->state, 0u);
    EXPECT_EQ(words.meeting[0] + words.meeting[1], 0u);
    for (int32_t peer = 0; peer < 2; ++peer)
      EXPECT_EQ(words.peers[peer], team->local(peer).heap);
    EXPECT_EQ(one.words.kernel->ended, 0u);
    const Frame &frame = frameOf(one);
    EXPECT_EQ(*frame.scratch.turn, 0u);
    EXPECT_EQ(static_cast<float *>(frame.scratch.data)[63], 0.0f);
    for (int cell = 0; cell < 6; ++cell)
      EXPECT_EQ(frame.cells.cells[cell] + frame.cells.bases[2 * cell] +
                    frame.cells.bases[2 * cell + 1] + frame.cells.asked[cell],
                0u);
    EXPECT_EQ(frame.cells.since[0] + frame.cells.since[1], 0u);
  }
  // The same offset everywhere.
  EXPECT_EQ(DeviceAddress(frameOf(machine.launches[0]).cells.cells) - team->local(0).heap,
            DeviceAddress(frameOf(machine.launches[1]).cells.cells) - team->local(1).heap);
}

TEST_F(DeviceTeamTest, prepares_a_launch_once_for_equal_arguments) {
  ASSERT_TRUE(make({0, 1}).ok());
  makeArguments(64);
  ASSERT_TRUE(launch(3).ok());
  ASSERT_TRUE(launch().ok());
  EXPECT_EQ(machine.prologues, 2);
  EXPECT_EQ(machine.launches.size(), 8u);
  EXPECT_EQ(machine.launches[0].frame, machine.launches[6].frame);
  // Other tensors of these sizes share the objects.
  const void *scratch = frameOf(machine.launches[0]).scratch.data;
  makeArguments(64);
  ASSERT_TRUE(launch().ok());
  EXPECT_EQ(machine.prologues, 4);
  EXPECT_EQ(frameOf(machine.launches[8]).scratch.data, scratch);
  makeArguments(128);
  ASSERT_TRUE(launch().ok());
  EXPECT_NE(frameOf(machine.launches[10]).scratch.data, scratch);
}

TEST_F(DeviceTeamTest, shares_a_device_between_ranks) {
  ASSERT_TRUE(make({0, 1, 0, 0}).ok());
  makeArguments(64);
  ASSERT_TRUE(launch().ok());
  EXPECT_EQ(machine.launches[0].programs, 2);
  EXPECT_FALSE(machine.launches[0].cooperative);
  EXPECT_EQ(machine.launches[1].programs, 8);
  EXPECT_TRUE(machine.launches[1].cooperative);
  EXPECT_NE(machine.launches[0].stream, machine.launches[2].stream);
  // One module a device.
  EXPECT_EQ(machine.modules, 2);
  team.reset();
  EXPECT_EQ(machine.modules, 0);
}

TEST_F(DeviceTeamTest, starts_all_programs_together_where_they_may_wait) {
  ASSERT_TRUE(make({0}).ok());
  makeArguments(64);
  ASSERT_TRUE(launch().ok());
  EXPECT_TRUE(machine.launches.back().cooperative);
  // Nothing to wait for: one space, no signal, no object that ranks must meet for.
  TestKernel alone("sm_90", "alone");
  alone.desc.nspaces = 1;
  alone.image.prologue = [](dtile_launch *, void *memory) {
    static_cast<Frame *>(memory)->ranks = 1;
    return 0;
  };
  dtile_param_desc params[] = {kParams[0], kParams[1]};
  alone.desc.params = params;
  alone.desc.nparams = 2;
  alone.desc.nsignals = 0;
  ASSERT_TRUE(team->launchOn(0, &alone.desc, arguments->data()[0], 2, nullptr).ok());
  EXPECT_FALSE(machine.launches.back().cooperative);
}

TEST_F(DeviceTeamTest, runs_one_program_where_no_space_has_bodies) {
  ASSERT_TRUE(make({0}).ok());
  kernel.desc.nspaces = 0;
  makeArguments(64);
  ASSERT_TRUE(launch().ok());
  EXPECT_EQ(machine.launches[0].programs, 1);
  EXPECT_EQ(machine.launches[0].words.first_program[1], 1);
}

TEST_F(DeviceTeamTest, launches_on_a_stream_of_the_caller) {
  ASSERT_TRUE(make({0, 1}).ok());
  makeArguments(64);
  char stream;
  ASSERT_TRUE(launchOn(1, &stream).ok());
  ASSERT_TRUE(launchOn(0, nullptr).ok());
  EXPECT_EQ(machine.launches[0].stream, &stream);
  EXPECT_EQ(machine.launches[0].words.rank, 1);
  EXPECT_EQ(machine.launches[1].stream, nullptr);
  EXPECT_THAT(launchOn(0, nullptr).message, "");
  EXPECT_THAT(team->launchOn(2, &kernel.desc, arguments->data()[0], 2, nullptr).message,
              HasSubstr("local rank 2 of 2"));
}

TEST_F(DeviceTeamTest, allocates_nothing_while_a_graph_is_captured) {
  ASSERT_TRUE(make({0}).ok());
  makeArguments(64);
  machine.capturing = true;
  EXPECT_THAT(launchOn(0).message, HasSubstr("cannot be loaded while a graph is captured"));
  machine.capturing = false;
  ASSERT_TRUE(launchOn(0).ok());
  machine.capturing = true;
  EXPECT_TRUE(launchOn(0).ok());
  machine.capturing = false;
  makeArguments(32);
  machine.capturing = true;
  EXPECT_THAT(launchOn(0).message, HasSubstr("launch once with these sizes before"));
  machine.capturing = false;
  EXPECT_TRUE(launchOn(0).ok());
}

/// A kernel of one space of n / 4 bodies, which programs may divide.
struct DividedKernel : TestKernel {
  DividedKernel() : TestKernel("sm_90", "divided") {
    desc.name = "divided";
    desc.nspaces = 1;
    desc.nsignals = 0;
    desc.nparams = 2;
    image.prologue = [](dtile_launch *launch, void *memory) {
      static_cast<Frame *>(memory)->n = dtile_rt_arg_dim(launch, 0, 0);
      return 0;
    };
    image.counts = counts;
    image.weights = weights;
    image.shared = weights;
    image.spaces = &space;
    image.partial_bytes = 4096;
  }
  int64_t (*counts[1])(const void *) = {workCount};
  int64_t (*weights[1])(const void *, int64_t, int64_t, int64_t) = {workWeight};
  dtile_device_space space = {.divide = 10};
};

TEST_F(DeviceTeamTest, programs_divide_bodies_of_the_last_round) {
  ASSERT_TRUE(make({0}).ok());
  DividedKernel rounds;
  const auto words = [&](int64_t bodies) {
    makeArguments(4 * bodies);
    EXPECT_EQ(team->launchOn(0, &rounds.desc, arguments->data()[0], 2, nullptr).message, "");
    return machine.launches.back().words;
  };
  EXPECT_EQ(words(16).divided, 0u);
  EXPECT_EQ(words(16).partials, nullptr);
  const dtile_device_launch first = words(11);
  EXPECT_EQ(first.divided, 1u);
  // They wait for each other.
  EXPECT_TRUE(machine.launches.back().cooperative);
  ASSERT_NE(first.partials, nullptr);
  for (int32_t program = 0; program < 16; ++program)
    EXPECT_EQ(first.partials[program], 0u);
  // One memory for all launches of a kernel, as its flags go on.
  const dtile_device_launch second = words(14);
  EXPECT_EQ(second.divided, 1u);
  EXPECT_EQ(second.partials, first.partials);
  EXPECT_EQ(words(7).divided, 0u);
}

TEST_F(DeviceTeamTest, divides_few_bodies_only_if_they_are_faster_on_all_programs) {
  ASSERT_TRUE(make({0}).ok());
  const auto dividedOf = [&](DividedKernel &few) {
    makeArguments(4 * 2);
    EXPECT_EQ(team->launchOn(0, &few.desc, arguments->data()[0], 2, nullptr).message, "");
    return machine.launches.back().words.divided;
  };
  DividedKernel alike;
  alike.weights[0] = [](const void *, int64_t, int64_t, int64_t) { return int64_t{100}; };
  EXPECT_EQ(dividedOf(alike), 1u);
  // Two programs have the memory to themselves, eight wait for it.
  DividedKernel bound;
  bound.weights[0] = [](const void *, int64_t, int64_t, int64_t running) {
    return int64_t{50} * running;
  };
  EXPECT_EQ(dividedOf(bound), 0u);
}

TEST_F(DeviceTeamTest, divides_no_bodies_without_memory_for_their_sums) {
  ASSERT_TRUE(make({0}).ok());
  DividedKernel rounds;
  const auto launch = [&] {
    EXPECT_EQ(team->launchOn(0, &rounds.desc, arguments->data()[0], 2, nullptr).message, "");
    return machine.launches.back().words.divided;
  };
  makeArguments(4 * 16);
  EXPECT_EQ(launch(), 0u);
  makeArguments(4 * 11);
  machine.capturing = true;
  EXPECT_EQ(launch(), 0u);
  machine.capturing = false;
  makeArguments(4 * 12);
  const int64_t left = std::exchange(machine.memory, 0);
  rounds.image.partial_bytes = int64_t(1) << 20;
  EXPECT_EQ(launch(), 0u);
  machine.memory = left;
  makeArguments(4 * 10);
  EXPECT_EQ(launch(), 1u);
}

TEST_F(DeviceTeamTest, no_launches_make_ready_for_a_graph) {
  ASSERT_TRUE(make({0}).ok());
  makeArguments(64);
  ASSERT_TRUE(team->launch(&kernel.desc, arguments->data(), 2, 0).ok());
  EXPECT_EQ(machine.launches.size(), 0u);
  machine.capturing = true;
  EXPECT_TRUE(launchOn(0).ok());
  EXPECT_EQ(machine.launches.size(), 1u);
}

// ---- What is refused ----

TEST_F(DeviceTeamTest, refuses_tensors_that_the_device_cannot_use) {
  ASSERT_TRUE(make({0, 1}).ok());
  float *own = allocate(0, 128), *other = allocate(1, 128);
  std::vector<float> host(64);
  const dtile_tensor y = tensor(own + 64, {64});
  EXPECT_THAT(launchWith(tensor(host.data(), {64}), y).message, HasSubstr("host memory"));
  EXPECT_THAT(launchWith(tensor(other, {64}), y).message,
              HasSubstr("argument `x`, rank 0: the data is on GPU 1, but the rank runs on GPU 0"));
  dtile_tensor wrong = tensor(own, {64});
  wrong.dtype = DTILE_BF16;
  EXPECT_THAT(launchWith(wrong, y).message, HasSubstr("elements are bf16"));
  wrong = tensor(own, {8, 8});
  EXPECT_THAT(launchWith(wrong, y).message, HasSubstr("2 dimensions, but the kernel wants 1"));
  wrong = tensor(own, {64});
  wrong.data = reinterpret_cast<char *>(own) + 2;
  EXPECT_THAT(launchWith(wrong, y).message, HasSubstr("misaligned"));
  EXPECT_THAT(launchWith(tensor(own + 32, {64}), y).message, HasSubstr("overlaps that of `x`"));
  EXPECT_THAT(launchWith(tensor(own, {32}), y).message, HasSubstr("has the size 64, but"));
  EXPECT_TRUE(machine.launches.empty());
  EXPECT_THAT(launchWith(tensor(own, {64}), y).message, "");
}

TEST_F(DeviceTeamTest, refuses_to_write_two_elements_at_one_place) {
  ASSERT_TRUE(make({0}).ok());
  float *own = allocate(0, 128);
  dtile_tensor y = tensor(own + 64, {64});
  y.stride[0] = 0;
  EXPECT_THAT(launchWith(tensor(own, {64}), y).message,
              HasSubstr("argument `y`, rank 0: all elements along dimension 0 are one place in "
                        "memory (strides [0], sizes [64]), but the kernel writes them: pass a "
                        "copy"));
  // They may be read so.
  dtile_tensor x = tensor(own, {64});
  x.stride[0] = 0;
  EXPECT_EQ(launchWith(x, tensor(own + 64, {64})).message, "");
}

TEST_F(DeviceTeamTest, accepts_views_that_interleave) {
  ASSERT_TRUE(make({0}).ok());
  float *memory = allocate(0, 128);
  dtile_tensor even = tensor(memory, {64}), odd = tensor(memory + 1, {64});
  even.stride[0] = odd.stride[0] = 2;
  EXPECT_THAT(launchWith(even, odd).message, "");
  odd.data = memory + 2;
  EXPECT_THAT(launchWith(even, odd).message, HasSubstr("overlaps"));
}

TEST_F(DeviceTeamTest, meets_where_memory_that_is_taken_in_turn_was_written_by_others) {
  ASSERT_TRUE(make({0, 1}).ok());
  TestKernel first, second;
  dtile_param_desc params[] = {kParams[0], kParams[1], kParams[2], kParams[3]};
  params[1].mode = DTILE_MODE_SYMM;
  params[1].flags = DTILE_PARAM_WRITTEN | DTILE_PARAM_IN_TURN;
  // Nothing else makes them meet.
  params[2].flags = 0;
  first.desc.params = second.desc.params = params;
  second.desc.name = "second";
  void *box = nullptr;
  ASSERT_TRUE(team->symmAlloc(256, &box).ok());
  float *x[] = {allocate(0, 64), allocate(1, 64)};
  auto launchOf = [&](TestKernel &which) {
    Status status;
    for (int32_t local = 0; local < 2 && status.ok(); ++local) {
      const dtile_tensor in = tensor(x[local], {64});
      const dtile_tensor out = tensor(static_cast<float *>(team->symmAddress(box, local)), {64});
      dtile_arg args[2];
      args[0].tensor = &in;
      args[1].tensor = &out;
      status = team->launchOn(local, &which.desc, args, 2, nullptr);
    }
    if (!status.ok())
      return status.message;
    // Ranks of one process come to one answer, though they launch one after the other.
    const size_t last = machine.launches.size() - 1;
    EXPECT_EQ(machine.launches[last].words.flags, machine.launches[last - 1].words.flags);
    return std::string(machine.launches[last].words.flags != 0 ? "meets" : "goes on");
  };
  EXPECT_EQ(launchOf(first), "meets");
  EXPECT_EQ(launchOf(first), "goes on");
  EXPECT_EQ(launchOf(second), "meets");
  EXPECT_EQ(launchOf(first), "meets");
  EXPECT_EQ(launchOf(first), "goes on");
  // The same address, given anew, whatever was prepared for it before.
  void *const before = box;
  ASSERT_TRUE(team->symmFree(box).ok());
  ASSERT_TRUE(team->symmAlloc(256, &box).ok());
  ASSERT_EQ(box, before);
  EXPECT_EQ(launchOf(first), "meets");
  EXPECT_EQ(launchOf(first), "goes on");
  // A launch that the driver refuses has done nothing.
  EXPECT_EQ(launchOf(second), "meets");
  machine.fault = "no resources";
  EXPECT_EQ(launchOf(first), "no resources");
  machine.fault.clear();
  EXPECT_EQ(launchOf(first), "meets");
  EXPECT_EQ(launchOf(first), "goes on");
  // Graphs are replayed at any time.
  machine.capturing = true;
  EXPECT_EQ(launchOf(first), "goes on");
  machine.capturing = false;
  EXPECT_THAT(launchOf(second), HasSubstr("a captured launch of kernel `shift`"));
  EXPECT_EQ(launchOf(first), "goes on");
}

TEST_F(DeviceTeamTest, refuses_kernels_that_are_for_something_else) {
  ASSERT_TRUE(make({0}).ok());
  makeArguments(64);
  auto launchOther = [&](TestKernel &other) {
    return team->launchOn(0, &other.desc, arguments->data()[0], 2, nullptr).message;
  };
  TestKernel blackwell("sm_100a");
  EXPECT_THAT(launchOther(blackwell),
              HasSubstr("was compiled for sm_100a (nvptx), but GPU 0 is sm_90"));
  TestKernel hostOnly;
  hostOnly.desc.nimages = 0;
  EXPECT_THAT(launchOther(hostOnly), HasSubstr("has no code for devices"));
  TestKernel nvshmem;
  nvshmem.image.shmem = "nvshmem";
  EXPECT_THAT(launchOther(nvshmem), HasSubstr("provider `nvshmem`"));
  TestKernel old;
  old.image.device_abi_version = 0;
  EXPECT_THAT(launchOther(old), HasSubstr("version 0 of the device ABI"));
  TestKernel broken("sm_90", "broken");
  EXPECT_THAT(launchOther(broken), HasSubstr("cannot be loaded on GPU 0 (Fake): the image is"));
  // A block of LZ4: seven literals.
  TestKernel packed("sm_90", "\x70"
                             "broken");
  packed.image.packed_bytes = 8;
  packed.image.bytes = 7;
  EXPECT_THAT(launchOther(packed), HasSubstr("the image is"));
  packed.image.bytes = 9;
  EXPECT_THAT(launchOther(packed), HasSubstr("its code is damaged"));
  TestKernel large;
  large.image.shared_bytes = 100 << 10;
  EXPECT_THAT(launchOther(large), HasSubstr("102400 bytes of shared memory"));
  EXPECT_TRUE(machine.launches.empty());
  EXPECT_TRUE(launchOn(0).ok());
}

TEST_F(DeviceTeamTest, refuses_launches_of_more_bodies_than_kernels_number) {
  ASSERT_TRUE(make({0}).ok());
  makeArguments(64);
  DividedKernel kernel;
  const auto messageOf = [&](int64_t (*count)(const void *)) {
    kernel.counts[0] = count;
    return team->launchOn(0, &kernel.desc, arguments->data()[0], 2, nullptr).message;
  };
  EXPECT_THAT(messageOf([](const void *) { return int64_t{1} << 31; }),
              HasSubstr("would run 2147483648 bodies on rank 0"));
  EXPECT_EQ(messageOf([](const void *) { return (int64_t{1} << 31) - 1; }), "");
}

TEST_F(DeviceTeamTest, refuses_launches_that_cannot_be_resident) {
  machine.multiprocessors = 1;
  machine.each = 1;
  ASSERT_TRUE(make({0}).ok());
  makeArguments(64);
  EXPECT_THAT(launchOn(0).message,
              HasSubstr("needs 2 programs at once on rank 0, but only 1 can be resident"));
  machine.each = 0;
  ASSERT_TRUE(make({0}).ok());
  makeArguments(64);
  EXPECT_THAT(launchOn(0).message, HasSubstr("cannot be resident on GPU 0"));
}

TEST_F(DeviceTeamTest, says_what_is_missing_when_a_team_is_made) {
  EXPECT_THAT(make({0, 1, 2}).message, HasSubstr("rank 2 wants GPU 2, but there are only 2"));
  machine.memory = 1000;
  EXPECT_THAT(make({0}).message, HasSubstr("no room for a symmetric heap of 1048576 bytes"));
}

TEST_F(DeviceTeamTest, says_that_the_heap_is_full_and_goes_on) {
  ASSERT_TRUE(make({0, 1}, 4096).ok());
  makeArguments(1024);
  EXPECT_THAT(launch().message, HasSubstr("no room for 2 copies of `buffer`, f32 [1024]"));
  makeArguments(64);
  EXPECT_TRUE(launch().ok());
}

// ---- Symmetric memory ----

TEST_F(DeviceTeamTest, gives_symmetric_memory_that_is_zero) {
  ASSERT_TRUE(make({0, 1}).ok());
  void *first = nullptr;
  ASSERT_TRUE(team->symmAlloc(1000, &first).ok());
  auto *second = static_cast<char *>(team->symmAddress(first, 1));
  EXPECT_EQ(DeviceAddress(first) - team->local(0).heap,
            DeviceAddress(second) - team->local(1).heap);
  EXPECT_EQ(second[999], 0);
  second[999] = 1;
  EXPECT_EQ(team->symmAddress(first, 2), nullptr);
  EXPECT_THAT(team->symmFree(second).message, HasSubstr("has not given this address"));
  ASSERT_TRUE(team->symmFree(first).ok());
  EXPECT_EQ(second[999], 0);
  EXPECT_THAT(team->symmAlloc(1 << 21, &first).message, HasSubstr("no room for 2097152 bytes"));
}

// ---- Failures ----

TEST_F(DeviceTeamTest, reports_a_wait_that_took_too_long_and_goes_on) {
  ASSERT_TRUE(make({0, 1}).ok());
  makeArguments(64);
  machine.kernel = [](const RecordedLaunch &launch) {
    const Frame &frame = frameOf(launch);
    frame.cells.cells[4] += 6;
    frame.cells.bases[8] = 5;
    frame.cells.since[1] = 3;
    launch.words.kernel->entered = 7;
    if (launch.words.rank != 1)
      return;
    dtile_device_report &report = giveUp(launch.words);
    report.rank = 1;
    report.space = 1;
    report.program = 3;
    report.site = 0;
    report.cell = 4;
    report.wanted = 3;
    report.seen = 1;
  };
  Status status = launch();
  EXPECT_EQ(status.code, DTILE_TIMEOUT);
  EXPECT_EQ(status.message, "timeout: a wait took more than 500 ms\n  kernel.dtile:12:5: rank 1, "
                            "kernel `shift`, role `work`, program 3 waits for `ready[1, 1]`: wants "
                            "3, has seen 1");
  // Everything is as it was at first.
  const RecordedLaunch last = machine.launches.back();
  EXPECT_EQ(frameOf(last).cells.cells[4], 0u);
  EXPECT_EQ(frameOf(last).cells.bases[8] + frameOf(last).cells.since[1], 0u);
  EXPECT_EQ(last.words.kernel->entered, 0u);
  EXPECT_EQ(*last.words.team->abort, 0u);
  EXPECT_EQ(last.words.team->report->state, 0u);
  machine.kernel = nullptr;
  EXPECT_TRUE(launch().ok());
}

TEST_F(DeviceTeamTest, names_the_element_whose_words_did_not_come) {
  ASSERT_TRUE(make({0}).ok());
  makeArguments(64);
  uint64_t seen = 4;
  machine.kernel = [&](const RecordedLaunch &launch) {
    *launch.words.team->report = {};
    dtile_device_report &report = giveUp(launch.words);
    report.site = 2;
    // Each element has its flag beside it.
    report.cell = 13;
    report.wanted = 6;
    report.seen = seen;
  };
  EXPECT_THAT(launch().message, HasSubstr("waits for `buffer[13]`: wants what launch 6 with these "
                                          "sizes puts there, has seen launch 4's"));
  seen = 0;
  EXPECT_THAT(launch().message, HasSubstr("`buffer[13]`: wants what launch 6 with these sizes puts "
                                          "there, has seen nothing"));
}

TEST_F(DeviceTeamTest, reports_a_failed_check_before_the_waits_that_it_caused) {
  ASSERT_TRUE(make({0, 1}).ok());
  makeArguments(64);
  machine.kernel = [](const RecordedLaunch &launch) {
    dtile_device_report &report = giveUp(launch.words);
    report.rank = report.site = launch.words.rank;
    if (launch.words.rank != 0)
      report.failure = DTILE_DEVICE_TRAP;
    report.nargs = 2;
    report.args[0] = 3;
    report.args[1] = -4;
  };
  // Found out by whoever asks next.
  ASSERT_TRUE(launchOn(1).ok());
  Status status = team->synchronize();
  EXPECT_EQ(status.code, DTILE_TRAP);
  EXPECT_THAT(status.message, HasSubstr("kernel.dtile:20:9: rank 1, kernel `shift`, role `send`, "
                                        "program 0: expected 3, found -4"));
  status = launch();
  EXPECT_EQ(status.code, DTILE_TRAP);
  EXPECT_LT(status.message.find("expected 3"), status.message.find("waits for"));
}

// Any of them may have been queued last, or be replayed from a graph.
TEST_F(DeviceTeamTest, names_the_kernel_that_failed) {
  ASSERT_TRUE(make({0}).ok());
  makeArguments(64);
  TestKernel next("sm_90", "other"), third("sm_90", "other");
  next.desc.name = "next";
  third.desc.name = "third";
  for (const size_t failing : {0, 1, 2}) {
    machine.launches.clear();
    for (const TestKernel *which : {&kernel, &next, &third})
      ASSERT_TRUE(team->launchOn(0, &which->desc, arguments->data()[0], 2, nullptr).ok());
    giveUp(machine.launches[failing].words);
    const char *names[] = {"shift", "next", "third"};
    EXPECT_THAT(team->synchronize().message,
                HasSubstr(std::string("kernel `") + names[failing] + "`"));
  }
  ++giveUp(machine.launches[0].words).kernel_id;
  EXPECT_THAT(team->synchronize().message, testing::Not(HasSubstr("kernel `")));
}

// A graph holds what it launches; the program may have closed where that came from.
TEST_F(DeviceTeamTest, names_places_of_a_library_that_was_closed) {
  ASSERT_TRUE(make({0}).ok());
  makeArguments(64);
  struct Library {
    char kernel[8] = "late", role[8] = "wait", signal[8] = "cells", file[16] = "late.dtile";
    dtile_param_desc params[4] = {kParams[0], kParams[1], kParams[2], kParams[3]};
    dtile_space_desc spaces[2] = {kSpaces[0], kSpaces[1]};
    dtile_site sites[1] = {{file, signal, 3, 4}};
    TestKernel compiled{"sm_90", "late"};
  };
  auto library = std::make_unique<Library>();
  library->params[3].name = library->signal;
  library->spaces[1].name = library->role;
  library->compiled.image.nsites = 1;
  library->compiled.image.sites = library->sites;
  library->compiled.desc.name = library->kernel;
  library->compiled.desc.params = library->params;
  library->compiled.desc.spaces = library->spaces;
  ASSERT_TRUE(team->launchOn(0, &library->compiled.desc, arguments->data()[0], 2, nullptr).ok());
  std::memset(static_cast<void *>(library.get()), 'x', sizeof(Library));
  library.reset();

  dtile_device_report &report = giveUp(machine.launches.back().words);
  report.space = 1;
  report.wanted = 2;
  EXPECT_THAT(team->synchronize().message,
              HasSubstr("late.dtile:3:4: rank 0, kernel `late`, role `wait`, program 0 waits for "
                        "`cells[0, 0]`: wants 2, has seen 0"));
}

TEST_F(DeviceTeamTest, hands_on_what_the_driver_says) {
  ASSERT_TRUE(make({0, 1}).ok());
  makeArguments(64);
  ASSERT_TRUE(launch().ok());
  machine.fault = "too many resources";
  EXPECT_THAT(launch().message, HasSubstr("too many resources"));
  machine.fault.clear();
  EXPECT_TRUE(launch().ok());
}

// ---- Jobs of several processes ----

TEST(DeviceJob, maps_the_heaps_of_all_processes) {
  const std::string name = uniqueName("heaps");
  EXPECT_TRUE(inProcesses(3, [&](int32_t rank) {
    FakeMachine machine;
    machine.devices = 3;
    theMachine = &machine;
    DeviceTeamConfig config;
    config.ordinals = {rank};
    config.symmetricBytes = 1 << 20;
    std::unique_ptr<DeviceTeam> team;
    if (!Rendezvous::join({rank, 3, rank, name}, 5000, &config.job).ok() ||
        !DeviceTeam::create(makeFakeDriver(machine), std::move(config), &team).ok())
      return false;
    DeviceRank &own = team->local(0);
    bool isFine = team->firstLocal() == rank && team->ranks() == 3 && team->localCount() == 1;
    // Writes into the right neighbour's object, through the table of peers.
    void *object = nullptr;
    isFine &= team->symmAlloc(64, &object).ok();
    const uint64_t *peers = reinterpret_cast<const uint64_t *>(own.peers);
    const auto offset = DeviceAddress(object) - own.heap;
    *reinterpret_cast<int64_t *>(peers[(rank + 1) % 3] + offset) = 100 + rank;
    isFine &= team->barrier().ok();
    isFine &= *static_cast<int64_t *>(object) == 100 + (rank + 2) % 3;
    // Reports are everybody's.
    TestKernel kernel;
    DeviceAddress x = 0, y = 0;
    isFine &= own.device->allocate(256, &x).ok() && own.device->allocate(256, &y).ok();
    dtile_tensor tensors[2] = {tensor(reinterpret_cast<float *>(x), {64}),
                               tensor(reinterpret_cast<float *>(y), {64})};
    dtile_arg args[2];
    args[0].tensor = &tensors[0];
    args[1].tensor = &tensors[1];
    isFine &= team->launchOn(0, &kernel.desc, args, 2, nullptr).ok() && team->barrier().ok();
    if (rank == 2) {
      dtile_device_report &report = *own.words.report;
      report.failure = DTILE_DEVICE_TIMEOUT;
      report.rank = 2;
      // Of another process's launch, which is of the same kernel.
      report.kernel_id = machine.launches.back().words.kernel_id;
      report.wanted = 1;
      report.state = 2;
      *own.words.abort = 1;
    }
    isFine &= team->barrier().ok();
    Status status = team->synchronize();
    isFine &= status.code == DTILE_TIMEOUT &&
              status.message.find("rank 2, kernel `shift`") != std::string::npos;
    // A job cannot go on.
    isFine &= team->synchronize().message.find("has failed before") != std::string::npos;
    return isFine;
  }));
}

TEST(DeviceJob, fails_everywhere_when_one_process_cannot_make_its_heap) {
  const std::string name = uniqueName("fails");
  EXPECT_TRUE(inProcesses(3, [&](int32_t rank) {
    FakeMachine machine;
    DeviceTeamConfig config;
    config.ordinals = {0};
    config.symmetricBytes = rank == 1 ? 2 << 20 : 1 << 20;
    std::unique_ptr<DeviceTeam> team;
    if (!Rendezvous::join({rank, 3, rank, name}, 5000, &config.job).ok())
      return false;
    return DeviceTeam::create(makeFakeDriver(machine), std::move(config), &team)
               .message.find("symmetric heaps of different sizes") != std::string::npos;
  }));
}

TEST(DeviceJob, finds_sizes_that_differ) {
  const std::string name = uniqueName("sizes");
  EXPECT_TRUE(inProcesses(2, [&](int32_t rank) {
    FakeMachine machine;
    DeviceTeamConfig config;
    config.ordinals = {0};
    config.symmetricBytes = 1 << 20;
    std::unique_ptr<DeviceTeam> team;
    void *object = nullptr;
    return Rendezvous::join({rank, 2, rank, name}, 5000, &config.job).ok() &&
           DeviceTeam::create(makeFakeDriver(machine), std::move(config), &team).ok() &&
           team->symmAlloc(64 + rank, &object).message.find("differ in the sizes") !=
               std::string::npos;
  }));
}

} // namespace
} // namespace dtile::test
