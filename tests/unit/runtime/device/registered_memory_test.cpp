// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Memory of others as symmetric objects: dtile_symm_register.
#include "tests/unit/runtime/device/device_fixture.h"
#include "tests/unit/runtime/job/processes.h"

#include <gmock/gmock.h>

#include <array>
#include <sys/mman.h>

using ::testing::HasSubstr;

namespace dtile::test {
namespace {

// ---- Processors: y of every rank = x of its right neighbour ----

struct ReadFrame {
  FrameHead head;
  int64_t n = 0;
  void *x = nullptr, *y = nullptr;
};

int32_t readPrologue(dtile_launch *launch, void *memory) {
  auto &frame = *static_cast<ReadFrame *>(memory);
  fillHead(launch, frame.head);
  frame.n = dtile_rt_arg_dim(launch, 0, 0);
  frame.x = dtile_rt_arg_data(launch, 0);
  frame.y = dtile_rt_arg_data(launch, 1);
  return dtile_rt_check_dim(launch, 1, 0, frame.n, dtile_rt_arg_dim(launch, 1, 0));
}

int64_t oneBody(const void *) { return 1; }
void atZero(const void *, int64_t, int64_t *position) { position[0] = 0; }

void readBody(dtile_task *task, const void *memory, void *, int64_t) {
  const auto &frame = *static_cast<const ReadFrame *>(memory);
  const auto right = int32_t((frame.head.rank + 1) % frame.head.ranks);
  const dtile_region from = region(frame.x, DTILE_I64, {frame.n}, right);
  const dtile_region to = region(frame.y, DTILE_I64, {frame.n});
  dtile_rt_load(task, &from, &to);
}

const dtile_param_desc kReadParams[] = {
    {"x", DTILE_PARAM_TENSOR, DTILE_MODE_SYMM, DTILE_I64, 1, 0, 1, 0, 0},
    {"y", DTILE_PARAM_TENSOR, DTILE_MODE_OUT, DTILE_I64, 1, 0, 1, 0, 0},
};
const dtile_space_desc kReadSpaces[] = {
    {"", 0, -1, 0, 0, nullptr, oneBody, atZero, 0, readBody},
};
const dtile_kernel_desc kRead = {
    DTILE_ABI_VERSION, 0,           "read",  "read.dtile",      2,           1, 0, 0,
    kReadParams,       kReadSpaces, nullptr, sizeof(ReadFrame), readPrologue};

class RegisteredOnProcessors : public ::testing::Test {
protected:
  void SetUp() override {
    for (int64_t rank = 0; rank < 3; ++rank)
      for (int64_t i = 0; i < 100; ++i)
        memory[size_t(rank)][size_t(i)] = 1000 * rank + i;
  }
  dtile_status registerAll(int64_t bytes = 800) {
    void *pointers[3] = {memory[0].data(), memory[1].data(), memory[2].data()};
    return dtile_symm_register(team.get(), pointers, bytes);
  }
  /// A launch with `n` numbers from the `first` on; "" when it is let through.
  std::string launch(int64_t first, int64_t n, int64_t ofRankTwo = 0) {
    Arguments arguments(3);
    for (int32_t rank = 0; rank < 3; ++rank) {
      const int64_t begin = first + (rank == 2 ? ofRankTwo : 0);
      arguments.add(rank, tensor(memory[size_t(rank)].data() + begin, {n}));
      arguments.add(rank, tensor(result[size_t(rank)].data(), {n}));
    }
    const dtile_status status = dtile_launch_all(team.get(), &kRead, arguments.data(), 2);
    return status == DTILE_OK ? "" : dtile_last_error();
  }
  Team team = makeTeam(3, 1, 0, 1 << 20);
  std::array<std::array<int64_t, 100>, 3> memory = {}, result = {};
};

TEST_F(RegisteredOnProcessors, IsReachedByPeers) {
  EXPECT_THAT(launch(0, 100), HasSubstr("register it by dtile_symm_register"));
  ASSERT_EQ(registerAll(), DTILE_OK) << dtile_last_error();
  EXPECT_EQ(launch(10, 90), "");
  for (int64_t rank = 0; rank < 3; ++rank)
    for (int64_t i = 0; i < 90; ++i)
      ASSERT_EQ(result[size_t(rank)][size_t(i)], 1000 * ((rank + 1) % 3) + 10 + i);
  EXPECT_EQ(dtile_symm_address(team.get(), &memory[0][7], 2), &memory[2][7]);
}

TEST_F(RegisteredOnProcessors, IsAnObjectToEveryCheck) {
  ASSERT_EQ(registerAll(400), DTILE_OK);
  EXPECT_EQ(launch(0, 50), "");
  EXPECT_THAT(launch(1, 50),
              HasSubstr("400 bytes, 8 behind the begin of registered memory of 400"));
  EXPECT_THAT(launch(0, 20, /*ofRankTwo=*/1),
              HasSubstr("rank 2: the object is at another place of the registered memory"));
  EXPECT_EQ(dtile_symm_free(team.get(), memory[0].data()), DTILE_INVALID);
}

TEST_F(RegisteredOnProcessors, EndsWhenItIsUnregistered) {
  ASSERT_EQ(registerAll(), DTILE_OK);
  EXPECT_EQ(registerAll(), DTILE_INVALID);
  EXPECT_THAT(dtile_last_error(), HasSubstr("is registered already"));
  EXPECT_EQ(dtile_symm_unregister(team.get(), &memory[1]), DTILE_INVALID);
  ASSERT_EQ(dtile_symm_unregister(team.get(), &memory[0]), DTILE_OK);
  EXPECT_THAT(launch(0, 100), HasSubstr("is not in this rank's symmetric heap"));
  EXPECT_EQ(dtile_symm_unregister(team.get(), &memory[0]), DTILE_INVALID);
  EXPECT_EQ(registerAll(), DTILE_OK);
}

TEST_F(RegisteredOnProcessors, WrongMemoryIsRefused) {
  EXPECT_EQ(dtile_symm_register(team.get(), nullptr, 8), DTILE_INVALID);
  EXPECT_EQ(registerAll(0), DTILE_INVALID);
  void *same[3] = {&memory[0], &memory[0], &memory[2]};
  EXPECT_EQ(dtile_symm_register(team.get(), same, 8), DTILE_INVALID);
  void *none[3] = {&memory[0], nullptr, &memory[2]};
  EXPECT_EQ(dtile_symm_register(team.get(), none, 8), DTILE_INVALID);
  EXPECT_STREQ(dtile_last_error(), "dtile_symm_register: the pointer of rank 1 is null");
  void *object = nullptr;
  ASSERT_EQ(dtile_symm_alloc(team.get(), 64, &object), DTILE_OK);
  void *inHeap[3] = {object, &memory[1], &memory[2]};
  EXPECT_EQ(dtile_symm_register(team.get(), inHeap, 8), DTILE_INVALID);
  EXPECT_THAT(dtile_last_error(), HasSubstr("symmetric as it is"));
}

// ---- Devices: processes that map each other's files ----

constexpr int64_t kAllocation = 4 << 20;

/// What a process of a job sees: its team, and the allocations of all ranks.
struct Process {
  explicit Process(int32_t rank, const std::array<int, 2> &files, const std::string &name)
      : rank(rank) {
    theMachine = &machine;
    DeviceTeamConfig config;
    config.ordinals = {rank};
    config.symmetricBytes = 1 << 20;
    isFine = runtime::Rendezvous::join({rank, 2, rank, name}, 5000, &config.job).ok() &&
             DeviceTeam::create(makeFakeDriver(machine), std::move(config), &team).ok();
    for (size_t peer = 0; peer < 2; ++peer) {
      pointers[peer] =
          mmap(nullptr, kAllocation, PROT_READ | PROT_WRITE, MAP_SHARED, files[peer], 0);
      machine.foreign[reinterpret_cast<DeviceAddress>(pointers[peer])] = {files[peer], kAllocation};
    }
    params[0].mode = DTILE_MODE_SYMM;
    kernel.desc.params = params;
  }
  void check(bool isTrue, const char *what) {
    if (!isTrue)
      fprintf(stderr, "rank %d: %s\n", rank, what);
    isFine &= isTrue;
  }
  /// Of 64 numbers, `first` bytes behind the begin of the own allocation.
  Status launch(int64_t first) {
    const dtile_tensor x =
        tensor(reinterpret_cast<float *>(static_cast<char *>(pointers[rank]) + first), {64});
    // Nothing is allocated while a graph is captured.
    if (out == 0)
      check(team->local(0).device->allocate(256, &out).ok(), "an output");
    const dtile_tensor y = tensor(reinterpret_cast<float *>(out), {64});
    dtile_arg args[2];
    args[0].tensor = &x;
    args[1].tensor = &y;
    return team->launchOn(0, &kernel.desc, args, 2, nullptr);
  }

  int32_t rank;
  bool isFine = false;
  FakeMachine machine;
  std::unique_ptr<DeviceTeam> team;
  void *pointers[2] = {};
  DeviceAddress out = 0;
  dtile_param_desc params[4] = {kParams[0], kParams[1], kParams[2], kParams[3]};
  TestKernel kernel;
};

bool inJob(const char *test, const std::function<void(Process &)> &act) {
  std::array<int, 2> files = {};
  for (int &file : files) {
    file = memfd_create("foreign", 0);
    if (ftruncate(file, kAllocation) != 0)
      return false;
  }
  const std::string name = uniqueName(test);
  const bool isFine = inProcesses(2, [&](int32_t rank) {
    Process process(rank, files, name);
    if (process.isFine)
      act(process);
    return process.isFine;
  });
  for (int file : files)
    close(file);
  return isFine;
}

TEST(RegisteredOnDevices, is_at_one_distance_from_every_rank) {
  EXPECT_TRUE(inJob("distance", [](Process &p) {
    p.check(p.launch(4096).message.find("register it") != std::string::npos, "it is not yet");
    void *parts[2] = {static_cast<char *>(p.pointers[0]) + 4096,
                      static_cast<char *>(p.pointers[1]) + 4096};
    p.check(p.team->symmRegister(parts, 4096).ok(), "registers");
    p.check(p.launch(4096 + 256).ok(), "launches");
    // What the kernel is given, as its peers reach it.
    const auto at = reinterpret_cast<DeviceAddress>(frameOf(p.machine.launches.back()).x);
    const runtime::DeviceRank &own = p.team->local(0);
    const auto *peers = reinterpret_cast<const uint64_t *>(own.peers);
    p.check(at >= own.heap + (1 << 20), "it is behind the heap");
    auto *there = reinterpret_cast<float *>(peers[1 - p.rank] + (at - own.heap));
    there[3] = float(100 + p.rank);
    p.check(p.team->barrier().ok(), "meets");
    const auto *mine = reinterpret_cast<float *>(static_cast<char *>(parts[p.rank]) + 256);
    p.check(mine[3] == float(100 + 1 - p.rank), "the peer has written the owner's memory");
    p.check(p.launch(4096 + 4096 - 128).message.find("past its end") != std::string::npos,
            "ends where it ends");
  }));
}

TEST(RegisteredOnDevices, room_in_the_heap_stays_what_it_was) {
  EXPECT_TRUE(inJob("room", [](Process &p) {
    p.check(p.team->symmRegister(p.pointers, kAllocation).ok(), "registers");
    Status refusal;
    const dtile_tensor x = tensor(static_cast<float *>(nullptr), {64});
    dtile_arg args[2];
    args[0].tensor = args[1].tensor = &x;
    p.check(p.team->supports(0, p.kernel.desc, args, 2, &refusal).ok() && refusal.ok(),
            "is supported");
    p.check(p.team->symmFree(p.pointers[p.rank]).code == DTILE_INVALID, "is not freed");
  }));
}

TEST(RegisteredOnDevices, is_kept_while_a_graph_may_use_it) {
  EXPECT_TRUE(inJob("graph", [](Process &p) {
    p.check(p.team->symmRegister(p.pointers, kAllocation).ok(), "registers");
    p.check(p.launch(0).ok(), "launches");
    p.machine.capturing = true;
    p.check(p.launch(0).ok(), "is captured");
    p.machine.capturing = false;
    const Status refused = p.team->symmUnregister(p.pointers[p.rank]);
    p.check(refused.message.find("rank 0 has captured") != std::string::npos, "is kept");
    p.check(p.team->trim(DTILE_TRIM_CAPTURED).ok(), "trims");
    p.check(p.team->symmUnregister(p.pointers[p.rank]).ok(), "unregisters");
    p.check(p.launch(0).message.find("register it") != std::string::npos, "is not any more");
    p.check(p.team->symmUnregister(p.pointers[p.rank]).code == DTILE_INVALID, "once");
    // The same space again.
    p.check(p.team->symmRegister(p.pointers, kAllocation).ok(), "registers again");
    p.check(p.launch(0).ok(), "launches again");
  }));
}

TEST(RegisteredOnDevices, is_refused_when_it_was_freed) {
  EXPECT_TRUE(inJob("freed", [](Process &p) {
    p.check(p.team->symmRegister(p.pointers, kAllocation).ok(), "registers");
    p.check(p.launch(0).ok(), "launches");
    auto &own = p.machine.foreign.at(reinterpret_cast<DeviceAddress>(p.pointers[p.rank]));
    const auto mine = own;
    const auto isRefused = [&] {
      return p.launch(0).message.find("its memory has been freed since it was registered") !=
             std::string::npos;
    };
    own.first += 1000;
    p.check(isRefused(), "other memory is at its address");
    own.second = 0;
    p.check(isRefused(), "nothing is at its address");
    own = mine;
    p.check(p.launch(0).ok(), "launches again");
    own.first += 1000;
    p.check(p.team->symmUnregister(p.pointers[p.rank]).ok(), "unregisters what was freed");
    own = mine;
  }));
}

TEST(RegisteredOnDevices, ranks_unregister_what_was_registered_together) {
  EXPECT_TRUE(inJob("together", [](Process &p) {
    p.check(p.team->symmRegister(p.pointers, 4096).ok(), "registers");
    void *others[2] = {static_cast<char *>(p.pointers[0]) + 8192,
                       static_cast<char *>(p.pointers[1]) + 8192};
    p.check(p.team->symmRegister(others, 4096).ok(), "registers more");
    const Status status = p.team->symmUnregister(p.rank == 0 ? p.pointers[0] : others[1]);
    p.check(status.message.find("give memory that was not registered together") !=
                std::string::npos,
            status.message.c_str());
    p.check(p.team->symmUnregister(p.pointers[p.rank]).ok(), "then they agree");
  }));
}

TEST(RegisteredOnDevices, all_ranks_hear_of_one_that_cannot) {
  EXPECT_TRUE(inJob("cannot", [](Process &p) {
    if (p.rank == 1)
      p.machine.fault = "no more mappings";
    const Status status = p.team->symmRegister(p.pointers, kAllocation);
    p.check(status.message.find(p.rank == 1
                                    ? "no more mappings"
                                    : "rank 1 could not register its memory") != std::string::npos,
            status.message.c_str());
    p.machine.fault.clear();
    const Status differ = p.team->symmRegister(p.pointers, 4096 + p.rank);
    p.check(differ.message.find("registers 409") != std::string::npos, differ.message.c_str());
    // Of different places in their allocations, and of nobody.
    void *odd[2] = {p.pointers[0], static_cast<char *>(p.pointers[1]) + 256};
    p.check(p.team->symmRegister(odd, 4096).message.find("lies alike on all ranks") !=
                std::string::npos,
            "lies alike");
    void *nobody[2] = {&p, &p};
    p.check(p.team->symmRegister(nobody, 8).message.find("it is nobody's") != std::string::npos,
            "nobody's");
    p.check(p.team->symmRegister(p.pointers, kAllocation + 1).message.find("past the end") !=
                std::string::npos,
            "too long");
    p.check(p.team->symmRegister(p.pointers, kAllocation).ok(), "then it can");
    p.check(p.team->symmRegister(p.pointers, 64).message.find("already") != std::string::npos,
            "once");
  }));
}

TEST(RegisteredOnDevices, wants_a_job_of_processes) {
  FakeMachine machine;
  theMachine = &machine;
  DeviceTeamConfig config;
  config.ordinals = {0, 1};
  config.symmetricBytes = 1 << 20;
  std::unique_ptr<DeviceTeam> team;
  ASSERT_TRUE(DeviceTeam::create(makeFakeDriver(machine), std::move(config), &team).ok());
  void *pointers[2] = {&machine, &machine};
  EXPECT_EQ(team->symmRegister(pointers, 8).code, DTILE_UNAVAILABLE);
}

} // namespace
} // namespace dtile::test
