// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How the processes of a job find each other, and that nobody else is let in.
#include "backend/runtime/job/rendezvous.h"

#include "tests/unit/runtime/job/processes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>

namespace dtile::test {
namespace {

using namespace runtime;
using testing::HasSubstr;

TEST(Rendezvous, gathers_agrees_and_passes_descriptors) {
  const std::string name = uniqueName("gathers");
  EXPECT_TRUE(inProcesses(3, [&](int32_t rank) {
    std::unique_ptr<Rendezvous> job;
    if (!Rendezvous::join({rank, 3, rank, name}, 5000, &job).ok())
      return false;
    int64_t own = rank * 10, all[3] = {};
    bool isFine = job->allGather(&own, 8, all, "test").ok() && all[1] == 10 && all[2] == 20;
    isFine &= job->agree(7, "a number").ok();
    Status differ = job->agree(uint64_t(rank), "a rank");
    isFine &= differ.code == DTILE_INVALID && differ.message.find("a rank") != std::string::npos;
    int file = memfd_create("own", 0);
    isFine &= write(file, &own, 8) == 8;
    std::vector<int> files;
    isFine &= job->exchange(file, &files, "files").ok() && files.size() == 3;
    for (int64_t peer = 0; isFine && peer < 3; ++peer) {
      int64_t read = -1;
      isFine &= pread(files[size_t(peer)], &read, 8, 0) == 8 && read == peer * 10;
    }
    return isFine;
  }));
}

TEST(Rendezvous, names_who_does_not_come) {
  std::unique_ptr<Rendezvous> job;
  Status status = Rendezvous::join({0, 2, 0, uniqueName("alone")}, 50, &job);
  EXPECT_EQ(status.code, DTILE_TIMEOUT);
  EXPECT_THAT(status.message, HasSubstr("the job lacks rank 1: it did not come to rank 0"));
  status = Rendezvous::join({1, 2, 1, uniqueName("alone")}, 50, &job);
  EXPECT_THAT(status.message, HasSubstr("rank 1 waited 50 ms for rank 0"));
}

// ---- Other users ----

constexpr uid_t kNobody = 65534;

/// A socket, and the address of a job's meeting place.
struct MeetingPlace {
  explicit MeetingPlace(const std::string &job) {
    const std::string name = "dtile-" + std::to_string(geteuid()) + "-" + job;
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path + 1, name.data(), name.size());
    length = socklen_t(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  }
  const sockaddr *at() const { return reinterpret_cast<const sockaddr *>(&address); }

  int socket = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address = {};
  socklen_t length = 0;
};

/// Runs `act(socket, place)` as another user, until it is destroyed.
class OtherUser {
public:
  template <typename Act> OtherUser(const std::string &job, Act act) {
    const MeetingPlace place(job);
    int ready[2];
    if (pipe(ready) != 0)
      return;
    child_ = fork();
    if (child_ == 0) {
      const bool isFine = setuid(kNobody) == 0;
      act(place, [&] { (void)!write(ready[1], &isFine, 1); });
      pause();
      _exit(0);
    }
    close(place.socket);
    close(ready[1]);
    ready_ = ready[0];
  }
  ~OtherUser() {
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
    close(ready_);
  }
  /// Waits until the other user has done what it does; whether it was another user.
  bool isReady() const {
    bool isFine = false;
    return read(ready_, &isFine, 1) == 1 && isFine;
  }

private:
  pid_t child_ = -1;
  int ready_ = -1;
};

TEST(Rendezvous, lets_no_other_user_in) {
  if (geteuid() != 0)
    GTEST_SKIP() << "only root can act as another user";
  const std::string name = uniqueName("strangers");
  const OtherUser other(name, [](const MeetingPlace &place, auto ready) {
    while (connect(place.socket, place.at(), place.length) != 0)
      usleep(1000);
    // Rank 0 may have closed the connection already.
    const char hello[2048] = "let me in";
    (void)send(place.socket, hello, sizeof hello, MSG_NOSIGNAL);
    ready();
  });
  EXPECT_TRUE(inProcesses(2, [&](int32_t rank) {
    if (rank == 1 && !other.isReady())
      return false;
    std::unique_ptr<Rendezvous> job;
    return Rendezvous::join({rank, 2, rank, name}, 5000, &job).ok() && job->meet("test").ok();
  }));
}

TEST(Rendezvous, joins_no_other_users_job) {
  if (geteuid() != 0)
    GTEST_SKIP() << "only root can act as another user";
  const std::string name = uniqueName("squatters");
  const OtherUser other(name, [](const MeetingPlace &place, auto ready) {
    if (bind(place.socket, place.at(), place.length) == 0 && listen(place.socket, 8) == 0)
      ready();
  });
  ASSERT_TRUE(other.isReady());
  std::unique_ptr<Rendezvous> job;
  const Status status = Rendezvous::join({1, 2, 1, name}, 5000, &job);
  EXPECT_EQ(status.code, DTILE_UNAVAILABLE);
  EXPECT_THAT(status.message, HasSubstr("was taken by a process of another user (uid 65534)"));
}

} // namespace
} // namespace dtile::test
