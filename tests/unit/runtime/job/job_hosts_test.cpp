// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Jobs of several hosts: processes of this machine that meet by TCP and say that they are on
// different hosts. What does not fit is an error in words on every rank, in time.
#include "backend/runtime/clock.h"
#include "backend/runtime/job/handshake.h"
#include "backend/runtime/job/rendezvous.h"

#include "tests/unit/runtime/job/free_port.h"
#include "tests/unit/runtime/job/processes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/socket.h>

namespace dtile::test {
namespace {

using namespace runtime;
using testing::HasSubstr;

constexpr int32_t kBudgetMs = 4000;

/// Rank `rank` of a job with `each` ranks a host.
JobPlace placeOf(int32_t rank, int32_t ranks, int32_t each, const std::string &name, int32_t port) {
  JobPlace place;
  place.rank = rank;
  place.ranks = ranks;
  place.localRank = rank % each;
  // Fewer than all: they meet by TCP.
  place.localRanks = 1;
  place.name = name;
  place.address = "127.0.0.1";
  place.port = port;
  place.host = std::string("host-") + char('a' + rank / each);
  return place;
}

double seconds(int64_t since) { return double(nowNs() - since) / 1e9; }

/// Says on standard error what is not so.
bool says(const Status &status, const char *words) {
  const bool isSo = status.message.find(words) != std::string::npos;
  if (!isSo)
    std::fprintf(stderr, "not said: %s\nbut: %s\n", words, status.message.c_str());
  return isSo;
}

bool exchanges(Rendezvous &job) {
  const int32_t rank = job.rank(), ranks = job.ranks();
  int64_t own = rank * 10;
  std::vector<int64_t> all(static_cast<size_t>(ranks));
  bool isFine = job.allGather(&own, 8, all.data(), "test").ok();
  for (int32_t peer = 0; peer < ranks; ++peer)
    isFine &= all[size_t(peer)] == peer * 10;
  isFine &= job.agree(7, "a number").ok();
  isFine &= ranks == 1 || says(job.agree(uint64_t(rank), "a rank"), "differ in a rank");
  const int file = memfd_create("own", 0);
  isFine &= write(file, &own, 8) == 8;
  std::vector<int> files;
  isFine &= job.exchange(file, &files, "files").ok() && int32_t(files.size()) == ranks;
  for (int32_t peer = 0; isFine && peer < ranks; ++peer) {
    int64_t read = -1;
    // Descriptors do not leave a host.
    isFine &= (files[size_t(peer)] >= 0) == job.isOnSameHost(peer);
    if (files[size_t(peer)] >= 0)
      isFine &= pread(files[size_t(peer)], &read, 8, 0) == 8 && read == peer * 10;
  }
  return isFine && job.meet("the end").ok();
}

bool hasIpv6() {
  Socket socket(::socket(AF_INET6, SOCK_STREAM, 0));
  sockaddr_in6 address = {};
  address.sin6_family = AF_INET6;
  address.sin6_addr = in6addr_loopback;
  return socket && bind(socket.get(), reinterpret_cast<sockaddr *>(&address), sizeof address) == 0;
}

TEST(JobHosts, meet_by_address_name_and_interface) {
  for (const char *address : {"127.0.0.1", "localhost", "::1"}) {
    if (std::strchr(address, ':') && !hasIpv6())
      continue;
    for (const char *interface : {"", "lo"}) {
      const std::string name = uniqueName("meet");
      const int32_t port = freePort();
      EXPECT_TRUE(inProcesses(4,
                              [&](int32_t rank) {
                                std::unique_ptr<Rendezvous> job;
                                JobPlace place = placeOf(rank, 4, 2, name, port);
                                place.address = address;
                                place.interface = interface;
                                place.key = "a secret";
                                const Status status = Rendezvous::join(place, kBudgetMs, &job);
                                return says({DTILE_OK, status.ok() ? "joined" : status.message},
                                            "joined") &&
                                       job->hasSeveralHosts() && exchanges(*job);
                              }))
          << address << " " << interface;
    }
  }
}

TEST(JobHosts, of_one_host_that_meets_by_tcp) {
  const std::string name = uniqueName("one");
  const int32_t port = freePort();
  EXPECT_TRUE(inProcesses(3, [&](int32_t rank) {
    std::unique_ptr<Rendezvous> job;
    return Rendezvous::join(placeOf(rank, 3, 3, name, port), kBudgetMs, &job).ok() &&
           !job->hasSeveralHosts() && exchanges(*job);
  }));
}

// One team after the other, as a process that makes several has it.
TEST(JobHosts, meet_again_at_the_same_port) {
  const std::string name = uniqueName("again");
  const int32_t port = freePort();
  EXPECT_TRUE(inProcesses(4, [&](int32_t rank) {
    for (int team = 0; team < 5; ++team) {
      std::unique_ptr<Rendezvous> job;
      if (!Rendezvous::join(placeOf(rank, 4, 2, name + std::to_string(team), port), kBudgetMs, &job)
               .ok() ||
          !job->meet("test").ok())
        return false;
    }
    return true;
  }));
}

TEST(JobHosts, of_64_processes_meet_in_3_seconds) {
  const std::string name = uniqueName("many");
  const int32_t port = freePort();
  const int64_t begin = nowNs();
  EXPECT_TRUE(inProcesses(64, [&](int32_t rank) {
    std::unique_ptr<Rendezvous> job;
    return Rendezvous::join(placeOf(rank, 64, 8, name, port), 10'000, &job).ok() &&
           job->meet("test").ok();
  }));
  const double taken = seconds(begin);
  std::printf("64 processes on 8 hosts have met and ended after %.2f s\n", taken);
  EXPECT_LT(taken, 3);
}

// ---- What does not fit together ----

/// All ranks of a job that cannot start say these words within the budget.
void expectFailure(int32_t ranks, int32_t each, const char *words,
                   const std::function<bool(JobPlace &)> &change, int32_t budgetMs = kBudgetMs) {
  const std::string name = uniqueName("fails");
  const int32_t port = freePort();
  const int64_t begin = nowNs();
  EXPECT_TRUE(inProcesses(ranks, [&](int32_t rank) {
    JobPlace place = placeOf(rank, ranks, each, name, port);
    if (!change(place))
      return true;
    std::unique_ptr<Rendezvous> job;
    return says(Rendezvous::join(place, budgetMs, &job), words);
  })) << words;
  EXPECT_LT(seconds(begin), budgetMs / 1e3 + 3) << words;
}

TEST(JobHosts, say_which_rank_lacks) {
  expectFailure(
      4, 2, "the job lacks rank 2: it did not come to rank 0 (on `host-a`) within 1000 ms",
      [](JobPlace &place) { return place.rank != 2; }, 1000);
}

// As where one host has fewer GPUs than the others.
TEST(JobHosts, hear_at_once_from_a_rank_that_cannot_take_part) {
  for (const int32_t without : {0, 2}) {
    const std::string name = uniqueName("withdraws");
    const int32_t port = freePort();
    const int64_t begin = nowNs();
    EXPECT_TRUE(inProcesses(4, [&](int32_t rank) {
      const JobPlace place = placeOf(rank, 4, 2, name, port);
      if (rank == without) {
        Rendezvous::withdraw(place, {DTILE_UNAVAILABLE, "there is no GPU 7"});
        return true;
      }
      std::unique_ptr<Rendezvous> job;
      const Status status = Rendezvous::join(place, 60'000, &job);
      return says(status, ("the job cannot start: rank " + std::to_string(without)).c_str()) &&
             says(status, "`) cannot take part: there is no GPU 7");
    })) << without;
    EXPECT_LT(seconds(begin), 5) << without;
  }
  // Nobody else comes.
  const int64_t begin = nowNs();
  Rendezvous::withdraw(placeOf(1, 4, 2, uniqueName("alone"), freePort()),
                       {DTILE_UNAVAILABLE, "there is no GPU 7"});
  EXPECT_LT(seconds(begin), 4);
}

TEST(JobHosts, say_where_rank_0_should_be) {
  expectFailure(
      3, 1, "for rank 0 of the job at 127.0.0.1:", [](JobPlace &place) { return place.rank != 0; },
      1000);
}

TEST(JobHosts, refuse_unequal_numbers_of_ranks) {
  expectFailure(3, 2, "hosts have unequal numbers of ranks: 2 on `host-a`, 1 on `host-b`",
                [](JobPlace &) { return true; });
}

TEST(JobHosts, refuse_what_differs) {
  expectFailure(4, 2, "ranks differ in the shmem provider", [](JobPlace &place) {
    place.traits = {{"the kind of GPUs", "nvptx"},
                    {"the shmem provider", place.rank == 3 ? "p2p" : "nvshmem"}};
    return true;
  });
  expectFailure(3, 1, "belongs to a job of 3 ranks", [](JobPlace &place) {
    if (place.rank == 2)
      place.ranks = 4;
    return true;
  });
  expectFailure(4, 2, "two processes of the job say that they are rank 1", [](JobPlace &place) {
    if (place.rank == 2)
      place.rank = 1;
    return true;
  });
}

TEST(JobHosts, refuse_an_address_that_is_not_rank_0s) {
  JobPlace place = placeOf(0, 2, 1, "address", freePort());
  // For documentation, RFC 5737.
  place.address = "192.0.2.7";
  std::unique_ptr<Rendezvous> job;
  EXPECT_THAT(Rendezvous::join(place, 500, &job).message,
              HasSubstr("`192.0.2.7`, but this is no address of its host `host-a`, which has "));
  place.rank = 1;
  EXPECT_THAT(Rendezvous::join(place, 500, &job).message,
              HasSubstr("rank 1, on `host-a`, waited 500 ms for rank 0 of the job at 192.0.2.7:"));
  place.address = "no such host.invalid";
  EXPECT_THAT(Rendezvous::join(place, 500, &job).message,
              HasSubstr("`no such host.invalid`, which is no address and no known name of a host"));
  place.address = "127.0.0.1";
  place.interface = "carrier0";
  EXPECT_THAT(
      Rendezvous::join(place, 500, &job).message,
      HasSubstr("there is no network interface `carrier0` with an address; there are `lo`"));
}

TEST(JobHosts, of_two_jobs_on_one_port_wait_for_each_other_or_say_so) {
  const int32_t port = freePort();
  const std::string name = uniqueName("shared");
  // Both are whole: one after the other.
  EXPECT_TRUE(inProcesses(4, [&](int32_t number) {
    std::unique_ptr<Rendezvous> job;
    const std::string own = name + (number < 2 ? "-x" : "-y");
    return Rendezvous::join(placeOf(number % 2, 2, 1, own, port), kBudgetMs, &job).ok() &&
           job->meet("test").ok();
  }));
  // The first lacks a rank, and so the second one cannot begin.
  const int64_t begin = nowNs();
  EXPECT_TRUE(inProcesses(3, [&](int32_t number) {
    std::unique_ptr<Rendezvous> job;
    if (number == 0)
      return says(Rendezvous::join(placeOf(0, 2, 1, name + "-x", port), 2000, &job),
                  "the job lacks rank 1: it did not come to rank 0 (on `host-a`) within 2000 ms; "
                  "processes that are no part of it came to the same port");
    usleep(200'000);
    return says(Rendezvous::join(placeOf(number - 1, 2, 1, name + "-y", port), 1000, &job),
                number == 1 ? "Address already in use; if another job has this port"
                            : "refuses this process: it is of another job");
  }));
  EXPECT_LT(seconds(begin), 5);
}

TEST(JobHosts, let_nobody_in_without_the_key) {
  const int32_t port = freePort();
  const std::string name = uniqueName("key");
  EXPECT_TRUE(inProcesses(3, [&](int32_t rank) {
    JobPlace place = placeOf(rank, 3, 1, name, port);
    place.key = rank == 2 ? "guessed" : "secret";
    std::unique_ptr<Rendezvous> job;
    return says(Rendezvous::join(place, 1000, &job),
                rank == 2 ? "of a job with another key: see DTILE_JOB_KEY" : "lacks rank 2");
  }));
}

/// Whatever else may connect or listen.
TEST(JobHosts, are_not_disturbed_by_strangers) {
  const int32_t port = freePort();
  const std::string name = uniqueName("strangers");
  EXPECT_TRUE(inProcesses(6, [&](int32_t number) {
    if (number >= 2) {
      std::vector<Endpoint> there;
      Socket socket;
      if (!resolve("127.0.0.1", port, &there).ok())
        return false;
      while (connectTo(there.front(), nullptr, nowNs() + 1'000'000'000, &socket) != 0)
        usleep(1000);
      char bytes[4096] = "GET / HTTP/1.0\r\n\r\n";
      // Some are silent, some say too little, some too much.
      if (number > 2)
        (void)!send(socket.get(), bytes, number == 3 ? 18 : sizeof bytes, MSG_NOSIGNAL);
      usleep(700'000);
      return true;
    }
    usleep(number == 1 ? 500'000 : 0);
    std::unique_ptr<Rendezvous> job;
    return Rendezvous::join(placeOf(number, 2, 1, name, port), kBudgetMs, &job).ok() &&
           job->meet("test").ok();
  }));
}

TEST(JobHosts, believe_no_other_program_at_the_port) {
  Socket listener;
  std::vector<Endpoint> here;
  const int32_t port = freePort();
  ASSERT_TRUE(resolve("127.0.0.1", port, &here).ok());
  ASSERT_EQ(listenAt(here.front(), 8, &listener), 0);
  std::unique_ptr<Rendezvous> job;
  EXPECT_THAT(Rendezvous::join(placeOf(1, 2, 1, "other", port), 500, &job).message,
              HasSubstr("does not answer as rank 0 of a job does; is the port another program's?"));
  EXPECT_THAT(
      Rendezvous::join(placeOf(0, 2, 1, "other", port), 500, &job).message,
      HasSubstr("Address already in use; if another job has this port, set DTILE_JOB_PORT"));
}

// Another job's rank 0 may have challenged a process and then go away before it has read who that
// is: its job was complete.
TEST(JobHosts, go_on_where_another_job_leaves_the_port_in_the_middle) {
  const std::string name = uniqueName("leaves");
  const int32_t port = freePort();
  EXPECT_TRUE(inProcesses(3, [&](int32_t number) {
    std::unique_ptr<Rendezvous> job;
    if (number < 2) {
      // Rank 0 comes when the other one has the port.
      usleep(number == 0 ? 300'000 : 100'000);
      return Rendezvous::join(placeOf(number, 2, 1, name, port), kBudgetMs, &job).ok() &&
             job->meet("test").ok();
    }
    Socket listener;
    std::vector<Endpoint> here;
    if (!resolve("127.0.0.1", port, &here).ok() || listenAt(here.front(), 8, &listener) != 0)
      return false;
    for (int32_t knocks = 0; knocks < 8; ++knocks) {
      if (!waitReadable(listener.get(), nowNs() + 2'000'000'000))
        return false;
      Socket guest(accept(listener.get(), nullptr, nullptr));
      Challenge challenge;
      std::memcpy(challenge.magic, kJobMagic, sizeof kJobMagic);
      challenge.protocol = kJobProtocol;
      challenge.bytes = sizeof(Hello);
      if (sendAll(guest.get(), &challenge, sizeof challenge, nowNs() + 1'000'000'000) != 0 ||
          !waitReadable(guest.get(), nowNs() + 1'000'000'000))
        return false;
    }
    return true;
  }));
}

// ---- Those that are lost later ----

/// Rank `who` of four does `act` instead of coming to a meeting; the others' errors have `words`
/// before `limit` seconds have passed.
void expectLoss(int32_t who, double limit, const char *words,
                const std::function<bool(std::unique_ptr<Rendezvous> &)> &act) {
  const std::string name = uniqueName("lost");
  const int32_t port = freePort();
  for (const bool isOneHost : {false, true})
    EXPECT_TRUE(inProcesses(4,
                            [&](int32_t rank) {
                              std::unique_ptr<Rendezvous> job;
                              JobPlace place = placeOf(rank, 4, 2, name, port);
                              if (isOneHost)
                                place = {rank, 4, rank, name};
                              if (!Rendezvous::join(place, 2000, &job).ok() ||
                                  !job->meet("the start").ok())
                                return false;
                              if (rank == who)
                                return act(job);
                              const int64_t begin = nowNs();
                              const Status status = job->meet("the test");
                              const bool isInTime = seconds(begin) < limit;
                              if (!isInTime)
                                std::fprintf(stderr, "after %.2f s\n", seconds(begin));
                              // Nobody ends before all have spoken.
                              usleep(500'000);
                              return says(status, words) && isInTime;
                            }))
        << words << isOneHost;
}

/// Ends without a word, as a process that is killed.
bool dies(std::unique_ptr<Rendezvous> &) {
  usleep(300'000);
  _exit(0);
}

TEST(JobHosts, notice_at_once_who_has_died) {
  expectLoss(3, 1.8, "rank 3 (process ", dies);
  expectLoss(2, 1.8, " has died: its process ended without leaving the job", dies);
  expectLoss(0, 1.8, "rank 0 (process ", dies);
}

TEST(JobHosts, say_who_has_left) {
  expectLoss(3, 1.8, "has left the job, at the test", [](std::unique_ptr<Rendezvous> &job) {
    job.reset();
    return true;
  });
}

TEST(JobHosts, tell_who_is_late_from_who_is_stopped) {
  expectLoss(3, 3.5, "is late, but its process runs, at the test",
             [](std::unique_ptr<Rendezvous> &) {
               usleep(3'500'000);
               return true;
             });
  // A budget long enough to find out.
  const std::string name = uniqueName("stopped");
  const int32_t port = freePort();
  EXPECT_TRUE(inProcesses(3, [&](int32_t rank) {
    std::unique_ptr<Rendezvous> job;
    if (!Rendezvous::join(placeOf(rank, 3, 1, name, port), 4000, &job).ok() ||
        !job->meet("the start").ok())
      return false;
    if (rank == 2) {
      const pid_t own = getpid();
      if (fork() == 0) {
        // Not of the job.
        for (int each = 3; each < 64; ++each)
          close(each);
        usleep(6'000'000);
        kill(own, SIGCONT);
        _exit(0);
      }
      raise(SIGSTOP);
      return true;
    }
    const Status status = job->meet("the test");
    return says(status, "rank 2 (process ") && says(status, "its process is stopped");
  }));
}

TEST(JobHosts, tell_all_why_one_gives_up) {
  expectLoss(3, 1.8, "GPU 1 has fallen off the bus", [](std::unique_ptr<Rendezvous> &job) {
    usleep(100'000);
    job->watch().fail({DTILE_UNAVAILABLE, "rank 3: GPU 1 has fallen off the bus"});
    usleep(500'000);
    return true;
  });
}

} // namespace
} // namespace dtile::test
