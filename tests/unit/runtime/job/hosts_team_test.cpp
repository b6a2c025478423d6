// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Teams of devices on several hosts: processes of this machine that say they are on two, devices of
// host memory, and an NVSHMEM that maps the ranks of one host only (tests/tools/fake_nvshmem.c).
#include "backend/runtime/clock.h"
#include "tests/unit/runtime/device/device_fixture.h"
#include "tests/unit/runtime/job/free_port.h"
#include "tests/unit/runtime/job/processes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <dlfcn.h>
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/socket.h>

namespace dtile::test {
namespace {

using namespace runtime;

constexpr int32_t kRanks = 4, kEach = 2;
constexpr int32_t kBudgetMs = 6000;

/// One rank of four on two hosts.
struct Member {
  Member(int32_t rank, const std::string &name, int32_t port, bool nvshmem) : rank(rank) {
    machine.devices = kEach;
    theMachine = &machine;
    setenv("FAKE_NVSHMEM_RANKS_A_HOST", std::to_string(kEach).c_str(), 1);
    JobPlace place;
    place.rank = rank;
    place.ranks = kRanks;
    place.localRanks = kEach;
    place.name = name;
    place.address = "127.0.0.1";
    place.port = port;
    place.host = rank < kEach ? "left" : "right";
    DeviceTeamConfig config;
    made = Rendezvous::join(place, kBudgetMs, &config.job);
    if (!made.ok())
      return;
    config.ordinals = {rank % kEach};
    config.symmetricBytes = 1 << 20;
    config.provider = nvshmem ? findHeapProvider("nvshmem") : nullptr;
    config.providerHome = FAKE_NVSHMEM_HOME;
    made = DeviceTeam::create(makeFakeDriver(machine), std::move(config), &team);
  }

  Status launch(TestKernel &kernel) {
    Device &device = *team->local(0).device;
    DeviceAddress x = 0, y = 0;
    if (!device.allocate(256, &x).ok() || !device.allocate(256, &y).ok())
      return {DTILE_OUT_OF_MEMORY, "no memory"};
    const dtile_tensor tensors[2] = {tensor(reinterpret_cast<float *>(x), {64}),
                                     tensor(reinterpret_cast<float *>(y), {64})};
    dtile_arg args[2];
    args[0].tensor = &tensors[0];
    args[1].tensor = &tensors[1];
    return team->launchOn(0, &kernel.desc, args, 2, nullptr);
  }
  bool isAborted() { return std::atomic_ref(*team->local(0).words.abort).load() != 0; }
  bool says(const Status &status, const char *words) const {
    const bool isSo = status.message.find(words) != std::string::npos;
    if (!isSo)
      std::fprintf(stderr, "rank %d does not say: %s\nbut: %s\n", rank, words,
                   status.message.c_str());
    return isSo;
  }

  int32_t rank;
  FakeMachine machine;
  std::unique_ptr<DeviceTeam> team;
  Status made;
};

bool onTwoHosts(bool nvshmem, const std::function<bool(Member &)> &run) {
  static int jobs = 0;
  const std::string name = uniqueName("hosts") + std::to_string(jobs++);
  const int32_t port = freePort();
  return inProcesses(kRanks, [&](int32_t rank) {
    Member member(rank, name, port, nvshmem);
    return run(member);
  });
}

/// What the library has written down.
std::string nvshmemCalls() {
  void *library = dlopen(FAKE_NVSHMEM_HOME "/lib/libnvshmem_host.so.3", RTLD_NOW | RTLD_NOLOAD);
  const auto *log = library ? static_cast<char *>(dlsym(library, "fake_nvshmem_log")) : nullptr;
  return log ? log : "not opened";
}

struct FarKernel : TestKernel {
  FarKernel(const char *shmem, int32_t mappedSite) : TestKernel("sm_90", shmem) {
    image.shmem = shmem;
    image.shmem_version = 30405;
    image.mapped_site = mappedSite;
  }
};

TEST(HostsTeam, has_heaps_that_are_mapped_within_a_host_only) {
  EXPECT_TRUE(onTwoHosts(true, [](Member &member) {
    if (!member.made.ok())
      return member.says(member.made, "made");
    const auto *peers = reinterpret_cast<const uint64_t *>(member.team->local(0).peers);
    bool isFine = true;
    for (int32_t rank = 0; rank < kRanks; ++rank)
      isFine &= (peers[rank] != 0) == (rank / kEach == member.rank / kEach);
    // NVSHMEM's own variables choose what carries between hosts.
    isFine &= nvshmemCalls().find("with NVLS off 1, transport -,") != std::string::npos;
    void *object = nullptr;
    return isFine && member.team->symmAlloc(64, &object).ok() && member.team->barrier().ok();
  }));
}

TEST(HostsTeam, says_which_access_wants_memory_that_is_not_mapped) {
  EXPECT_TRUE(onTwoHosts(true, [](Member &member) {
    FarKernel puts("nvshmem", -1), loads("nvshmem", 2), near("p2p", -1), stores("p2p", 0);
    const Status sent = member.launch(puts);
    bool isFine = sent.ok() || member.says(sent, "launched");
    const Status alone = member.launch(near);
    isFine &= alone.ok() || member.says(alone, "launched");
    const Status loaded = member.launch(loads);
    isFine &= member.says(loaded, "kernel.dtile:14:3: kernel `shift` loads, stores or adds to "
                                  "`buffer` of other ranks in place, but the memory of rank ");
    isFine &=
        member.says(loaded, member.rank < kEach ? "rank 2, on `right`, is not mapped on rank "
                                                : "rank 0, on `left`, is not mapped on rank ");
    isFine &= member.says(loaded, "put or get a region of memory instead");
    isFine &= member.says(member.launch(stores),
                          "kernel.dtile:12:5: kernel `shift`, which was compiled for the shmem "
                          "provider `p2p`, accesses the memory of other ranks");
    // Ranks meet before it, which takes notifies.
    FarKernel zeroed("p2p", -1);
    zeroed.desc.flags = DTILE_KERNEL_ENTRY_BARRIER;
    zeroed.image.data = "zeroed";
    isFine &= member.says(member.launch(zeroed), "compile it with --shmem=nvshmem");
    return member.team->barrier().ok() && isFine;
  }));
}

/// How often something stands in the library's log.
int timesIn(const std::string &log, const char *words) {
  int times = 0;
  for (size_t at = log.find(words); at != std::string::npos; at = log.find(words, at + 1))
    ++times;
  return times;
}

TEST(HostsTeam, lets_the_network_access_tensors_outside_the_heap) {
  EXPECT_TRUE(onTwoHosts(true, [](Member &member) {
    FarKernel kernel("nvshmem", -1);
    if (!member.made.ok())
      return false;
    DeviceAddress memory = 0;
    bool isFine = member.team->local(0).device->allocate(4096, &memory).ok();
    const auto launch = [&](DeviceAddress x, DeviceAddress y) {
      const dtile_tensor tensors[2] = {tensor(reinterpret_cast<float *>(x), {64}),
                                       tensor(reinterpret_cast<float *>(y), {64})};
      dtile_arg args[2];
      args[0].tensor = &tensors[0];
      args[1].tensor = &tensors[1];
      const Status status = member.team->launchOn(0, &kernel.desc, args, 2, nullptr);
      return status.ok() || member.says(status, "launched");
    };
    isFine &= launch(memory, memory + 1024) && launch(memory, memory + 1024);
    isFine &= timesIn(nvshmemCalls(), "register 256 bytes") == 2;
    // What overlaps is lent as one.
    isFine &= launch(memory + 128, memory + 2048);
    isFine &= timesIn(nvshmemCalls(), "register 384 bytes") == 1 &&
              timesIn(nvshmemCalls(), "\nunregister") == 1;
    setenv("FAKE_NVSHMEM_FAIL", "register", 1);
    const dtile_tensor far = tensor(reinterpret_cast<float *>(memory + 3072), {64});
    dtile_arg args[2];
    args[0].tensor = args[1].tensor = &far;
    const dtile_tensor other = tensor(reinterpret_cast<float *>(memory + 1024), {64});
    args[1].tensor = &other;
    isFine &= member.says(member.team->launchOn(0, &kernel.desc, args, 2, nullptr),
                          "kernel `shift`, `x`: NVSHMEM 3.4.5 cannot let the network access 256 "
                          "bytes of a tensor on GPU ");
    unsetenv("FAKE_NVSHMEM_FAIL");
    isFine &= member.team->barrier().ok();
    member.team.reset();
    // All that is still lent is taken back at the end.
    return timesIn(nvshmemCalls(), "\nunregister") == 4 && isFine;
  }));
}

TEST(HostsTeam, of_p2p_is_refused_by_all) {
  EXPECT_TRUE(onTwoHosts(false, [](Member &member) {
    return member.says(member.made, "the job has ranks on several hosts (rank ") &&
           member.says(member.made, "p2p reaches one host only: use nvshmem");
  }));
}

TEST(HostsTeam, hands_on_aborts_and_reports) {
  EXPECT_TRUE(onTwoHosts(true, [](Member &member) {
    FarKernel kernel("nvshmem", -1);
    if (!member.made.ok() || !member.launch(kernel).ok() || !member.team->barrier().ok())
      return false;
    if (member.rank == 3) {
      dtile_device_report &report = giveUp(member.machine.launches.back().words);
      report.rank = 3;
      report.wanted = 5;
    }
    const int64_t end = nowNs() + 2'000'000'000;
    while (!member.isAborted() && nowNs() < end)
      usleep(1000);
    // A process of the same host may see the word before the watch does.
    usleep(100'000);
    const Status status = member.team->synchronize();
    const bool isFine = status.code == DTILE_TIMEOUT &&
                        member.says(status, "kernel.dtile:12:5: rank 3, kernel `shift`") &&
                        member.says(status, "wants 5, has seen 0");
    return isFine && member.says(member.team->synchronize(), "has failed before");
  }));
}

/// Stops this process for so long.
void pauseProcess(int seconds) {
  const pid_t own = getpid();
  if (fork() == 0) {
    // The connections are the job's, not this helper's.
    for (int each = 3; each < 256; ++each)
      close(each);
    usleep(useconds_t(seconds) * 1'000'000);
    kill(own, SIGCONT);
    _exit(0);
  }
  raise(SIGSTOP);
}

TEST(HostsTeam, says_beside_a_wait_that_took_too_long_who_is_stopped) {
  EXPECT_TRUE(onTwoHosts(true, [](Member &member) {
    FarKernel kernel("nvshmem", -1);
    if (!member.made.ok() || !member.launch(kernel).ok() || !member.team->barrier().ok())
      return false;
    if (member.rank == 3) {
      pauseProcess(6);
      return true;
    }
    // Longer than a process may be silent.
    usleep(4'000'000);
    if (member.rank == 0)
      giveUp(member.machine.launches.back().words);
    while (!member.isAborted())
      usleep(1000);
    usleep(100'000);
    const Status status = member.team->synchronize();
    return member.says(status, "rank 0, kernel `shift`") &&
           member.says(status, "rank 3 (process ") &&
           member.says(status, "on `right`) did not answer lately: stopped, or on a host");
  }));
}

TEST(HostsTeam, ends_at_once_where_a_process_is_killed) {
  auto *fine = static_cast<std::atomic<int> *>(
      mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  // The killed one does not give true.
  EXPECT_FALSE(onTwoHosts(true, [&](Member &member) {
    FarKernel kernel("nvshmem", -1);
    if (!member.made.ok() || !member.launch(kernel).ok() || !member.team->barrier().ok())
      return false;
    if (member.rank == 3)
      raise(SIGKILL);
    const int64_t begin = nowNs();
    while (!member.isAborted() && nowNs() < begin + 2'000'000'000)
      usleep(1000);
    bool isFine = nowNs() - begin < 1'000'000'000;
    const Status status = member.team->synchronize();
    isFine &= member.says(status, "rank 3 (process ");
    isFine &= member.says(status, " on `right`) has died: its process ended");
    // What comes later says so as well, and waits for no one.
    isFine &= member.says(member.team->barrier(), "has died");
    isFine &= member.says(member.launch(kernel), "has died");
    member.team.reset();
    isFine &= nowNs() - begin < 2'000'000'000;
    if (!isFine)
      std::fprintf(stderr, "rank %d: failed after %.2f s\n", member.rank,
                   double(nowNs() - begin) / 1e9);
    *fine += isFine;
    return isFine;
  }));
  EXPECT_EQ(*fine, kRanks - 1);
  munmap(static_cast<void *>(fine), 4096);
}

} // namespace
} // namespace dtile::test
