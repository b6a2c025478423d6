// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Abstract socket names belong to no file, so nothing is left behind by a process that dies. They
// are seen by this machine's processes only, which is as far as file descriptors of device memory
// reach. Every process of the machine can connect to them, or take them first: so both ends ask the
// kernel whose process the other one is.
#include "backend/runtime/device/rendezvous.h"

#include "backend/runtime/clock.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <utility>

namespace dtile::runtime {

namespace {

/// The address of a name, and its length.
socklen_t addressOf(const std::string &name, sockaddr_un *out) {
  std::memset(out, 0, sizeof *out);
  out->sun_family = AF_UNIX;
  // The first byte is 0: an abstract name.
  size_t length = std::min(name.size(), sizeof out->sun_path - 1);
  std::memcpy(out->sun_path + 1, name.data(), length);
  return socklen_t(offsetof(sockaddr_un, sun_path) + 1 + length);
}

int millisecondsLeft(int64_t end) {
  int64_t left = (end - nowNs()) / 1'000'000;
  return left > 0 ? int(left) : 0;
}

Status sendDescriptor(int socket, int descriptor) {
  char byte = 'd';
  iovec data = {&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message = {};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr *header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &descriptor, sizeof(int));
  if (sendmsg(socket, &message, MSG_NOSIGNAL) == 1)
    return {};
  return {DTILE_UNAVAILABLE,
          format("cannot pass a file descriptor to another process: %s", std::strerror(errno))};
}

/// -1: none came.
int receiveDescriptor(int socket) {
  char byte = 0;
  iovec data = {&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message = {};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC) != 1)
    return -1;
  cmsghdr *header = CMSG_FIRSTHDR(&message);
  if (!header || header->cmsg_type != SCM_RIGHTS)
    return -1;
  int descriptor = -1;
  std::memcpy(&descriptor, CMSG_DATA(header), sizeof(int));
  return descriptor;
}

/// The user whose process is at the other end: who connected, or who listens.
bool otherEnd(int socket, uid_t *out) {
  ucred peer = {};
  socklen_t length = sizeof peer;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0 || length != sizeof peer)
    return false;
  *out = peer.uid;
  return true;
}

bool waitReadable(int socket, int64_t end) {
  pollfd entry = {socket, POLLIN, 0};
  int ready;
  do
    ready = poll(&entry, 1, millisecondsLeft(end));
  while (ready < 0 && errno == EINTR);
  return ready > 0;
}

} // namespace

Rendezvous::~Rendezvous() {
  for (int socket : sockets_)
    if (socket >= 0)
      close(socket);
}

Status Rendezvous::join(const JobPlace &place, int32_t timeoutMs,
                        std::unique_ptr<Rendezvous> *out) {
  if (place.ranks < 1 || place.rank < 0 || place.rank >= place.ranks)
    return {DTILE_INVALID, format("rank %d of %d ranks", place.rank, place.ranks)};
  std::unique_ptr<Rendezvous> made(new Rendezvous(place.rank, place.ranks, timeoutMs));
  std::string name = "dtile-" + std::to_string(geteuid()) + "-" + place.name;
  Status status = place.rank == 0 ? made->accept(name) : made->connect(name);
  if (status.ok())
    *out = std::move(made);
  return status;
}

Status Rendezvous::accept(const std::string &name) {
  sockets_.assign(size_t(ranks_), -1);
  if (ranks_ == 1)
    return {};
  int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address;
  socklen_t length = addressOf(name, &address);
  if (listener < 0 || bind(listener, reinterpret_cast<sockaddr *>(&address), length) != 0 ||
      listen(listener, ranks_) != 0) {
    Status status = {DTILE_UNAVAILABLE,
                     format("cannot listen at the job's meeting place `%s`: %s; is the same job "
                            "name in use?",
                            name.c_str(), std::strerror(errno))};
    if (listener >= 0)
      close(listener);
    return status;
  }
  int64_t end = nowNs() + int64_t(timeoutMs_) * 1'000'000;
  Status status;
  for (int32_t missing = ranks_ - 1; missing > 0 && status.ok();) {
    if (nowNs() > end || !waitReadable(listener, end)) {
      status = {DTILE_TIMEOUT,
                format("%d of %d processes of the job did not come within %d ms; all ranks must be "
                       "on this machine",
                       missing, ranks_, timeoutMs_)};
      break;
    }
    int socket = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    int32_t hello[2] = {-1, 0};
    if (socket < 0)
      continue;
    // Any process may connect; those of other users are no part of the job.
    if (uid_t user = 0; !otherEnd(socket, &user) || user != geteuid()) {
      close(socket);
      continue;
    }
    if (!waitReadable(socket, end) || recv(socket, hello, sizeof hello, MSG_WAITALL) != 8 ||
        hello[0] < 1 || hello[0] >= ranks_ || hello[1] != ranks_ || sockets_[size_t(hello[0])] >= 0)
      status = {DTILE_INVALID, format("a process of the job says that it is rank %d of %d; rank 0 "
                                      "expects each of %d ranks once",
                                      hello[0], hello[1], ranks_)};
    if (status.ok())
      sockets_[size_t(hello[0])] = socket;
    else
      close(socket);
    --missing;
  }
  close(listener);
  return status;
}

Status Rendezvous::connect(const std::string &name) {
  sockets_.assign(1, -1);
  sockaddr_un address;
  socklen_t length = addressOf(name, &address);
  int64_t end = nowNs() + int64_t(timeoutMs_) * 1'000'000;
  for (;;) {
    int socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (socket >= 0 && ::connect(socket, reinterpret_cast<sockaddr *>(&address), length) == 0) {
      sockets_[0] = socket;
      if (uid_t user = 0; !otherEnd(socket, &user) || user != geteuid())
        return {DTILE_UNAVAILABLE,
                format("the job's meeting place `%s` was taken by a process of another user "
                       "(uid %lld): start the job with another name or port",
                       name.c_str(), static_cast<long long>(user))};
      int32_t hello[2] = {rank_, ranks_};
      return send(0, hello, sizeof hello, "the start of the job");
    }
    if (socket >= 0)
      close(socket);
    if (nowNs() > end)
      return {DTILE_TIMEOUT,
              format("rank %d waited %d ms for rank 0 of the job; all ranks must be on one machine "
                     "(the peer-to-peer provider reaches no further)",
                     rank_, timeoutMs_)};
    usleep(5'000);
  }
}

Status Rendezvous::lost(int32_t peer, const char *what) const {
  return {DTILE_TIMEOUT, format("rank %d lost rank %d or waited more than %d ms for it at %s",
                                rank_, peer, timeoutMs_, what)};
}

Status Rendezvous::receive(int32_t from, void *out, int64_t bytes, const char *what) {
  int64_t end = nowNs() + int64_t(timeoutMs_) * 1'000'000;
  int socket = sockets_[size_t(rank_ == 0 ? from : 0)];
  for (auto *at = static_cast<char *>(out); bytes > 0;) {
    if (!waitReadable(socket, end))
      return lost(from, what);
    ssize_t got = recv(socket, at, size_t(bytes), 0);
    if (got < 0 && errno == EINTR)
      continue;
    if (got <= 0)
      return lost(from, what);
    at += got;
    bytes -= got;
  }
  return {};
}

Status Rendezvous::send(int32_t to, const void *in, int64_t bytes, const char *what) {
  int socket = sockets_[size_t(rank_ == 0 ? to : 0)];
  for (auto *at = static_cast<const char *>(in); bytes > 0;) {
    ssize_t sent = ::send(socket, at, size_t(bytes), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR)
      continue;
    if (sent <= 0)
      return lost(to, what);
    at += sent;
    bytes -= sent;
  }
  return {};
}

Status Rendezvous::allGather(const void *in, int64_t bytes, void *out, const char *what) {
  auto *all = static_cast<char *>(out);
  std::memmove(all + rank_ * bytes, in, size_t(bytes));
  if (rank_ != 0) {
    Status status = send(0, in, bytes, what);
    return status.ok() ? receive(0, all, bytes * ranks_, what) : status;
  }
  for (int32_t peer = 1; peer < ranks_; ++peer)
    if (Status status = receive(peer, all + peer * bytes, bytes, what); !status.ok())
      return status;
  for (int32_t peer = 1; peer < ranks_; ++peer)
    if (Status status = send(peer, all, bytes * ranks_, what); !status.ok())
      return status;
  return {};
}

Status Rendezvous::meet(const char *what) {
  char own = 1;
  std::vector<char> all(static_cast<size_t>(ranks_));
  return allGather(&own, 1, all.data(), what);
}

Status Rendezvous::agree(uint64_t value, const char *what) {
  std::vector<uint64_t> all(static_cast<size_t>(ranks_));
  if (Status status = allGather(&value, sizeof value, all.data(), what); !status.ok())
    return status;
  for (int32_t rank = 0; rank < ranks_; ++rank)
    if (all[size_t(rank)] != value)
      return {DTILE_INVALID,
              format("ranks %d and %d differ in %s, which must be equal on all ranks "
                     "and asked for in the same order",
                     rank_, rank, what)};
  return {};
}

Status Rendezvous::exchange(int descriptor, std::vector<int> *out, const char *what) {
  out->assign(size_t(ranks_), -1);
  int64_t end = nowNs() + int64_t(timeoutMs_) * 1'000'000;
  auto receiveFrom = [&](int32_t peer, int *to) -> Status {
    int socket = sockets_[size_t(rank_ == 0 ? peer : 0)];
    *to = waitReadable(socket, end) ? receiveDescriptor(socket) : -1;
    return *to >= 0 ? Status() : lost(peer, what);
  };
  Status status;
  if (rank_ != 0) {
    status = sendDescriptor(sockets_[0], descriptor);
    for (int32_t rank = 0; rank < ranks_ && status.ok(); ++rank)
      status = receiveFrom(0, &(*out)[size_t(rank)]);
  } else {
    (*out)[0] = fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
    for (int32_t peer = 1; peer < ranks_ && status.ok(); ++peer)
      status = receiveFrom(peer, &(*out)[size_t(peer)]);
    for (int32_t peer = 1; peer < ranks_; ++peer)
      for (int32_t rank = 0; rank < ranks_ && status.ok(); ++rank)
        status = sendDescriptor(sockets_[size_t(peer)], (*out)[size_t(rank)]);
  }
  if (status.ok())
    return meet(what);
  for (int &one : *out)
    if (one >= 0)
      close(std::exchange(one, -1));
  return status;
}

Status placeFromEnvironment(JobPlace *out) {
  auto text = [](const char *name) -> const char * {
    const char *value = std::getenv(name);
    return value && *value ? value : nullptr;
  };
  auto number = [&](const char *name, int32_t otherwise) {
    const char *value = text(name);
    return value ? int32_t(std::strtol(value, nullptr, 10)) : otherwise;
  };
  int32_t here = 0;
  if (text("RANK") && text("WORLD_SIZE")) {
    out->rank = number("RANK", 0);
    out->ranks = number("WORLD_SIZE", 1);
    out->localRank = number("LOCAL_RANK", out->rank);
    here = number("LOCAL_WORLD_SIZE", out->ranks);
    if (!text("MASTER_PORT") && !text("TORCHELASTIC_RUN_ID"))
      return {DTILE_UNAVAILABLE, "RANK and WORLD_SIZE are set, but neither MASTER_PORT nor "
                                 "TORCHELASTIC_RUN_ID, by which the processes of a job find each "
                                 "other; start them with torchrun or set MASTER_PORT"};
    for (const char *part :
         {"TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "MASTER_ADDR", "MASTER_PORT"})
      if (const char *value = text(part))
        out->name += std::string(value) + "-";
  } else if (text("OMPI_COMM_WORLD_RANK") && text("OMPI_COMM_WORLD_SIZE")) {
    out->rank = number("OMPI_COMM_WORLD_RANK", 0);
    out->ranks = number("OMPI_COMM_WORLD_SIZE", 1);
    out->localRank = number("OMPI_COMM_WORLD_LOCAL_RANK", out->rank);
    here = number("OMPI_COMM_WORLD_LOCAL_SIZE", out->ranks);
    for (const char *part : {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "SLURM_JOB_ID"})
      if (const char *value = text(part))
        out->name += std::string(value) + "-";
  } else {
    return {DTILE_UNAVAILABLE,
            "this process belongs to no job: neither RANK and WORLD_SIZE nor OMPI_COMM_WORLD_RANK "
            "are set; start it with torchrun or mpirun, or use dtile_team_create_devices"};
  }
  if (here != out->ranks)
    return {DTILE_UNAVAILABLE, format("the job has %d ranks, %d of them on this machine; the "
                                      "peer-to-peer provider reaches one machine only",
                                      out->ranks, here)};
  return {};
}

} // namespace dtile::runtime
