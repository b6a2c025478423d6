// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Teams whose heaps are NVSHMEM's, with a host library that writes down how it is called
// (tests/tools/fake_nvshmem.c): a process a rank.
#include "backend/runtime/device/device_team.h"
#include "tests/unit/runtime/device/fake_device.h"
#include "tests/unit/runtime/runtime_kernels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <filesystem>
#include <sys/wait.h>
#include <system_error>
#include <unistd.h>

namespace dtile::test {
namespace {

using namespace runtime;
using testing::HasSubstr;

constexpr const char *kHome = FAKE_NVSHMEM_HOME;
constexpr int64_t kHeapBytes = 1 << 20;

int32_t prologue(dtile_launch *, void *) { return 0; }
int64_t oneBody(const void *) { return 1; }
const dtile_space_desc kSpaces[] = {{"", 1, -1, 0, 0, nullptr, nullptr, nullptr, 0, nullptr}};
int64_t (*const kCounts[])(const void *) = {oneBody};
int64_t weight(const void *, int64_t, int64_t, int64_t) { return 1000; }
int64_t (*const kWeights[])(const void *, int64_t, int64_t, int64_t) = {weight};
const dtile_device_space kDeviceSpaces[] = {{}};

/// A kernel without arguments.
struct TestKernel {
  explicit TestKernel(int32_t version, const char *data = "image") {
    image.device_abi_version = DTILE_DEVICE_ABI_VERSION;
    image.target = "nvptx";
    image.arch = "sm_90";
    image.shmem = "nvshmem";
    image.shmem_version = version;
    image.data = data;
    image.bytes = int64_t(std::strlen(data)) + 1;
    std::fill(std::begin(image.entries), std::end(image.entries), "idle");
    image.threads = 128;
    image.frame_bytes = 64;
    image.prologue = prologue;
    image.counts = kCounts;
    image.weights = kWeights;
    image.latencies = kWeights;
    image.remote_bytes = kWeights;
    image.spaces = kDeviceSpaces;
    image.mapped_site = -1;
    desc.abi_version = DTILE_ABI_VERSION;
    desc.name = "idle";
    desc.file = "idle.dtile";
    desc.nspaces = 1;
    desc.spaces = kSpaces;
    desc.nimages = 1;
    desc.images = &image;
  }
  TestKernel(const TestKernel &) = delete;
  dtile_device_image image = {};
  dtile_kernel_desc desc = {};
};

/// What the library has written down.
std::string calls() {
  void *library =
      dlopen((std::string(kHome) + "/lib/libnvshmem_host.so.3").c_str(), RTLD_NOW | RTLD_NOLOAD);
  const auto *log = library ? static_cast<char *>(dlsym(library, "fake_nvshmem_log")) : nullptr;
  return log ? log : "not opened";
}

/// A process of a job.
class Process {
public:
  Process(int32_t rank, int32_t ranks, const std::string &name) : rank_(rank), ranks_(ranks) {
    machine.devices = ranks;
    joined_ = Rendezvous::join({rank, ranks, rank, name}, 5000, &config.job);
    config.ordinals = {rank};
    config.symmetricBytes = kHeapBytes;
    config.provider = findHeapProvider("nvshmem");
    config.providerHome = kHome;
  }

  Status make() {
    if (!joined_.ok())
      return joined_;
    return DeviceTeam::create(makeFakeDriver(machine), std::move(config), &team);
  }
  Status launch(const TestKernel &kernel) {
    return team->launchOn(0, &kernel.desc, nullptr, 0, nullptr);
  }

  /// Says on standard error what is not so; the child's exit code carries it.
  bool expect(bool isSo, const char *what, const std::string &seen) const {
    if (!isSo)
      std::fprintf(stderr, "rank %d of %d: not %s: %s\n", rank_, ranks_, what, seen.c_str());
    return isSo;
  }
  bool says(const Status &status, const char *words) const {
    return expect(status.message.find(words) != std::string::npos, words, status.message);
  }

  FakeMachine machine;
  DeviceTeamConfig config;
  std::unique_ptr<DeviceTeam> team;

private:
  int32_t rank_, ranks_;
  Status joined_;
};

/// Runs `run(process)` in so many processes; true when all gave true.
bool inProcesses(int32_t ranks, const std::function<bool(Process &, int32_t)> &run) {
  static int32_t jobs = 0;
  const std::string name = "nvshmem-" + std::to_string(getpid()) + "-" + std::to_string(jobs++);
  std::vector<pid_t> children;
  for (int32_t rank = 0; rank < ranks; ++rank) {
    pid_t child = fork();
    if (child == 0) {
      bool isFine = false;
      {
        Process process(rank, ranks, name);
        isFine = run(process, rank);
      }
      _exit(isFine ? 0 : 1);
    }
    children.push_back(child);
  }
  bool isFine = true;
  for (pid_t child : children) {
    int state = 0;
    waitpid(child, &state, 0);
    isFine &= WIFEXITED(state) && WEXITSTATUS(state) == 0;
  }
  return isFine;
}

TEST(NvshmemTeam, starts_attaches_each_module_once_and_ends_in_order) {
  EXPECT_TRUE(inProcesses(2, [](Process &p, int32_t rank) {
    Status status = p.make();
    if (!p.expect(status.ok(), "made", status.message))
      return false;
    // Peers' heaps are where NVSHMEM says.
    DeviceRank &own = p.team->local(0);
    const auto *peers = reinterpret_cast<const uint64_t *>(own.peers);
    bool isFine = p.expect(peers[rank] == own.heap && own.heap % 512 == 0 &&
                               peers[1 - rank] == own.heap + (uint64_t(1 - 2 * rank) << 40),
                           "NVSHMEM's heaps", std::to_string(peers[1 - rank]));
    // What NVSHMEM hands out need not be zero; the team's heap is.
    for (int64_t i = 0; i < kHeapBytes; ++i)
      isFine &= reinterpret_cast<const char *>(own.heap)[i] == 0;
    const TestKernel first(30405), again(30405), second(30300, "other");
    for (const TestKernel *kernel : {&first, &first, &again, &second}) {
      status = p.launch(*kernel);
      isFine &= p.expect(status.ok(), "launched", status.message);
    }
    p.team.reset();
    std::string wanted = rank == 0 ? "get_uniqueid, layout 0x10080\n" : "";
    wanted += "init, flags 8, layouts 0x10090 0x10080 0x10018, rank " + std::to_string(rank) +
              " of 2, id the job\n"
              "with NVLS off 1, transport none, size 68157440\n"
              "align 512, 1048576 bytes\n"
              "cumodule_init\ncumodule_init\ncumodule_finalize\ncumodule_finalize\n"
              "free\nfinalize\n";
    isFine &= p.expect(calls() == wanted, "the order of calls", calls());
    return p.expect(p.machine.modules == 0, "unloaded", std::to_string(p.machine.modules)) &&
           isFine;
  }));
}

TEST(NvshmemTeam, leaves_what_the_user_has_set) {
  EXPECT_TRUE(inProcesses(1, [](Process &p, int32_t) {
    setenv("NVSHMEM_DISABLE_NVLS", "0", 1);
    setenv("NVSHMEM_REMOTE_TRANSPORT", "ibrc", 1);
    setenv("NVSHMEM_SYMMETRIC_SIZE", "2G", 1);
    Status status = p.make();
    return p.expect(status.ok(), "made", status.message) &&
           p.expect(calls().find("with NVLS off 0, transport ibrc, size 2G") != std::string::npos,
                    "the user's", calls());
  }));
}

TEST(NvshmemTeam, runs_kernels_for_p2p_without_attaching_them) {
  EXPECT_TRUE(inProcesses(1, [](Process &p, int32_t) {
    Status status = p.make();
    TestKernel kernel(0);
    kernel.image.shmem = "p2p";
    if (status.ok())
      status = p.launch(kernel);
    return p.expect(status.ok(), "launched", status.message) &&
           p.expect(calls().find("cumodule") == std::string::npos, "without", calls());
  }));
}

TEST(NvshmemTeam, compares_versions_before_a_kernel_is_loaded) {
  EXPECT_TRUE(inProcesses(1, [](Process &p, int32_t) {
    Status status = p.make();
    if (!p.expect(status.ok(), "made", status.message))
      return false;
    const TestKernel newer(30500), next(40000), unknown(0), patched(30409);
    bool isFine =
        p.says(p.launch(newer), "kernel `idle` was compiled for the shmem provider `nvshmem`: "
                                "its device code is of NVSHMEM 3.5.0, but the host library of this "
                                "process is NVSHMEM 3.4.5 (") &&
        p.says(p.launch(newer), "libnvshmem_host.so.3), which must be of the same major") &&
        p.says(p.launch(next), "is of NVSHMEM 4.0.0") &&
        p.says(p.launch(unknown), "`nvshmem`, but does not say of which version: compile it again");
    isFine &= p.expect(p.machine.modules == 0 && p.machine.launches.empty(), "untouched", "");
    status = p.launch(patched);
    return p.expect(status.ok(), "launched", status.message) && isFine;
  }));
}

TEST(NvshmemTeam, says_what_is_missing_on_each_rank) {
  EXPECT_TRUE(inProcesses(2, [](Process &p, int32_t rank) {
    if (rank == 1)
      p.config.providerHome = "/nowhere";
    Status status = p.make();
    bool isFine =
        p.says(status, "cannot open NVSHMEM's host library (/nowhere/lib/"
                       "libnvshmem_host.so.3: ") &&
        p.says(status, "or DTILE_NVSHMEM_HOME, to the folder of an NVSHMEM 3 installation");
    if (rank == 0)
      isFine &= p.says(status, "rank 1 (process ") && p.says(status, ") cannot start NVSHMEM: ");
    return p.expect(rank == 1 || calls().empty(), "not started", calls()) && isFine;
  }));
  // A library of that name that is another one.
  EXPECT_TRUE(inProcesses(1, [](Process &p, int32_t) {
    p.config.providerHome = testing::TempDir() + "/other_nvshmem";
    const std::string library = p.config.providerHome + "/lib/libnvshmem_host.so.3";
    Dl_info info;
    const bool isFound = dladdr(reinterpret_cast<void *>(&std::strtod), &info) != 0;
    std::error_code failure;
    std::filesystem::create_directories(p.config.providerHome + "/lib", failure);
    std::filesystem::remove(library, failure);
    std::filesystem::create_symlink(isFound ? info.dli_fname : "libm.so.6", library, failure);
    return p.expect(!failure, "prepared", failure.message()) &&
           p.says(p.make(), "3.0 or later, is needed");
  }));
}

TEST(NvshmemTeam, finds_the_library_by_the_environment) {
  EXPECT_TRUE(inProcesses(1, [](Process &p, int32_t) {
    setenv("DTILE_NVSHMEM_HOME", kHome, 1);
    p.config.providerHome.clear();
    Status status = p.make();
    return p.expect(status.ok(), "made", status.message);
  }));
}

TEST(NvshmemTeam, refuses_libraries_that_do_not_fit) {
  EXPECT_TRUE(inProcesses(1, [](Process &p, int32_t) {
    setenv("FAKE_NVSHMEM_VERSION", "21100", 1);
    return p.says(p.make(), "is NVSHMEM 2.11.0, but this library knows NVSHMEM 3");
  }));
  EXPECT_TRUE(inProcesses(3, [](Process &p, int32_t rank) {
    setenv("FAKE_NVSHMEM_VERSION", rank == 2 ? "30300" : "30405", 1);
    const Status status = p.make();
    return rank == 0 ? p.says(status, "is 3.4.5 on rank 0 but 3.3.0 on rank 2")
                     : p.says(status, rank == 2 ? "is 3.3.0 on rank 2 but 3.4.5 on rank 0"
                                                : "is 3.4.5 on rank 1 but 3.3.0 on rank 2");
  }));
}

TEST(NvshmemTeam, fails_everywhere_where_one_rank_cannot_start) {
  struct Case {
    const char *call, *words;
  };
  for (const Case &each :
       {Case{"get_uniqueid", "cannot make a unique id: it needs nvshmem_bootstrap_uid.so.3"},
        Case{"init", "does not start on rank 0, GPU 0 (error 7, status 0)"},
        Case{"align", "NVSHMEM has no room for a symmetric heap of 1048576 bytes on GPU 0"},
        Case{"ptr", "rank 0 cannot address the memory of rank 1"}})
    EXPECT_TRUE(inProcesses(2, [&](Process &p, int32_t rank) {
      if (rank == 0)
        setenv("FAKE_NVSHMEM_FAIL", each.call, 1);
      const Status status = p.make();
      return p.says(status, each.words) &&
             (rank == 0 || p.says(status, ") cannot start NVSHMEM: ")) &&
             p.expect(calls().find("finalize") == std::string::npos, "left alone", calls());
    })) << each.call;
  // A start that fails says so by the status only.
  EXPECT_TRUE(inProcesses(1, [](Process &p, int32_t) {
    setenv("FAKE_NVSHMEM_STATUS", "1", 1);
    return p.says(p.make(), "(error 0, status 1); set NVSHMEM_DEBUG=WARN to see why");
  }));
  EXPECT_TRUE(inProcesses(1, [](Process &p, int32_t) {
    setenv("FAKE_NVSHMEM_STATUS", "3", 1);
    return p.says(p.make(), "several ranks on one GPU");
  }));
  EXPECT_TRUE(inProcesses(2, [](Process &p, int32_t rank) {
    p.machine.memory = rank == 1 ? kHeapBytes / 2 : kHeapBytes * 2;
    return p.says(p.make(), rank == 1 ? "GPU 1 has no room for a symmetric heap of 1048576 bytes"
                                      : ") cannot start NVSHMEM: GPU 1 has no room for a ");
  }));
  EXPECT_TRUE(inProcesses(2, [](Process &p, int32_t rank) {
    p.config.symmetricBytes += rank << 20;
    return p.says(p.make(), "ask for symmetric heaps of different sizes");
  }));
}

TEST(NvshmemTeam, says_which_module_cannot_be_attached_and_goes_on) {
  EXPECT_TRUE(inProcesses(1, [](Process &p, int32_t) {
    Status status = p.make();
    if (!p.expect(status.ok(), "made", status.message))
      return false;
    const TestKernel kernel(30405);
    setenv("FAKE_NVSHMEM_FAIL", "cumodule_init", 1);
    bool isFine = p.says(p.launch(kernel), "kernel `idle` cannot be loaded on GPU 0 (Fake): "
                                           "nvshmemx_cumodule_init of NVSHMEM 3.4.5 gave error 7");
    isFine &= p.expect(p.machine.launches.empty(), "not launched", "");
    unsetenv("FAKE_NVSHMEM_FAIL");
    status = p.launch(kernel);
    return p.expect(status.ok(), "launched", status.message) && isFine;
  }));
}

TEST(NvshmemTeam, does_not_wait_for_peers_after_a_failure) {
  EXPECT_TRUE(inProcesses(2, [](Process &p, int32_t rank) {
    Status status = p.make();
    const TestKernel kernel(30405);
    if (status.ok())
      status = p.launch(kernel);
    if (!p.expect(status.ok(), "launched", status.message))
      return false;
    if (rank == 1) {
      dtile_device_report &report = *p.team->local(0).words.report;
      report.failure = DTILE_DEVICE_TIMEOUT;
      report.rank = 1;
      report.state = 2;
    }
    bool isFine = p.team->barrier().ok();
    *p.team->local(0).words.abort = 1;
    isFine &= p.expect(p.team->synchronize().code == DTILE_TIMEOUT, "a timeout", "");
    p.team.reset();
    return isFine && p.expect(calls().find("cumodule_finalize\n") != std::string::npos &&
                                  calls().find("\nfinalize") == std::string::npos,
                              "detached, but not ended", calls());
  }));
}

TEST(NvshmemTeam, wants_one_process_a_device) {
  dtile_device_options options = DTILE_DEVICE_OPTIONS_INIT;
  options.ndevices = 2;
  options.shmem = "nvshmem";
  dtile_team *team = nullptr;
  EXPECT_EQ(dtile_team_create_devices(&options, &team), DTILE_INVALID);
  EXPECT_THAT(dtile_last_error(), HasSubstr("wants one process a GPU, but this one asks for 2"));
  options.target = "amdgpu";
  EXPECT_EQ(dtile_team_create_devices(&options, &team), DTILE_INVALID);
  EXPECT_THAT(dtile_last_error(), HasSubstr("for NVIDIA's GPUs only"));
  options.shmem = "rocshmem";
  EXPECT_EQ(dtile_team_create_devices(&options, &team), DTILE_INVALID);
  EXPECT_THAT(dtile_last_error(),
              HasSubstr("no host side for the shmem provider `rocshmem`: it has p2p and nvshmem"));
  options.shmem = "carrier pigeons";
  EXPECT_EQ(dtile_team_create_devices(&options, &team), DTILE_INVALID);
  EXPECT_THAT(dtile_last_error(),
              HasSubstr("no host side for the shmem provider `carrier pigeons`"));
}

} // namespace
} // namespace dtile::test
