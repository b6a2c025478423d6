// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "backend/runtime/job/rendezvous.h"

#include "backend/runtime/clock.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>
#include <utility>

namespace dtile::runtime {

Rendezvous::~Rendezvous() = default;

Status Rendezvous::join(const JobPlace &place, int32_t timeoutMs,
                        std::unique_ptr<Rendezvous> *out) {
  if (place.ranks < 1 || place.rank < 0 || place.rank >= place.ranks)
    return {DTILE_INVALID, format("rank %d of %d ranks", place.rank, place.ranks)};
  std::unique_ptr<Rendezvous> made(new Rendezvous(place.rank, timeoutMs));
  Admitted admitted;
  Status status = place.rank == 0 ? admitAll(place, timeoutMs, &admitted)
                                  : askAdmission(place, timeoutMs, &admitted);
  if (!status.ok())
    return status;
  made->members_ = std::move(admitted.members);
  made->sockets_ = std::move(admitted.exchange);
  made->watch_ = std::make_unique<Watch>(place.rank, std::move(admitted.watch), made->members_);
  status = made->openHost(place, admitted.session);
  if (status.ok())
    *out = std::move(made);
  return status;
}

void Rendezvous::withdraw(JobPlace place, const Status &why) {
  // Whoever starts this one waits for its error.
  constexpr int32_t kTellMs = 2'000;
  place.fault = why.message;
  Admitted none;
  if (place.ranks > 1)
    (void)(place.rank == 0 ? admitAll(place, kTellMs, &none) : askAdmission(place, kTellMs, &none));
}

bool Rendezvous::isOnSameHost(int32_t rank) const {
  return std::strcmp(members_[size_t(rank)].machine, members_[size_t(rank_)].machine) == 0;
}

Status Rendezvous::openHost(const JobPlace &place, uint64_t session) {
  JobPlace host;
  for (int32_t rank = 0; rank < ranks(); ++rank) {
    if (!isOnSameHost(rank))
      continue;
    if (rank == rank_)
      host.rank = int32_t(hostRanks_.size());
    hostRanks_.push_back(rank);
  }
  // Unix sockets pass descriptors already.
  if (!place.hasSeveralHosts())
    return {};
  host.ranks = int32_t(hostRanks_.size());
  host.localRank = host.rank;
  // In no other job's, even of the same name, and in no other host's of this one.
  host.name = format("%s%016llx-%d", place.name.c_str(), static_cast<unsigned long long>(session),
                     hostRanks_.front());
  return join(host, timeoutMs_, &host_);
}

int Rendezvous::socketTo(int32_t peer) const {
  return sockets_[size_t(rank_ == 0 ? peer : 0)].get();
}

Status Rendezvous::lost(int32_t peer, const char *what, int error) {
  // Who has died is known by the watch, which may be about to say so.
  constexpr int kMoment = 300;
  pollfd entry = {watch_->descriptor(), POLLIN, 0};
  (void)poll(&entry, 1, kMoment);
  if (Status failure = watch_->failure(); !failure.ok())
    return failure;
  // Rank 0 is late itself where it waits for another one.
  if (const int32_t cause = watch_->waitedFor();
      error == kTooLate && rank_ != 0 && cause >= 0 && cause != rank_)
    peer = cause;
  std::string words = watch_->stateOf(peer);
  if (isCutOff(error))
    words = lostHostText(peer, members_[size_t(peer)], error);
  words += format(", at %s", what);
  if (error == kTooLate)
    words += format(": rank %d gave up after %d ms", rank_, timeoutMs_);
  Status status = {DTILE_TIMEOUT, std::move(words)};
  watch_->fail(status);
  return status;
}

Status Rendezvous::awaitData(int32_t from, int64_t end, const char *what) {
  watch_->setWaiting(from);
  pollfd entries[] = {{socketTo(from), POLLIN, 0}, {watch_->descriptor(), POLLIN, 0}};
  for (;;) {
    const int ready = poll(entries, 2, millisecondsLeft(end));
    if (ready < 0 && errno == EINTR)
      continue;
    // What has come counts, whatever has happened since.
    if (ready > 0 && entries[0].revents != 0) {
      watch_->setWaiting(-1);
      return {};
    }
    if (ready > 0)
      return watch_->failure();
    return lost(from, what, kTooLate);
  }
}

Status Rendezvous::receive(int32_t from, void *out, int64_t bytes, const char *what) {
  const int64_t end = nowNs() + int64_t(timeoutMs_) * 1'000'000;
  for (auto *at = static_cast<char *>(out); bytes > 0;) {
    if (Status status = awaitData(from, end, what); !status.ok())
      return status;
    const ssize_t got = recv(socketTo(from), at, size_t(bytes), MSG_DONTWAIT);
    if (got < 0 && (errno == EINTR || errno == EAGAIN))
      continue;
    if (got <= 0)
      return lost(from, what, got < 0 ? errno : 0);
    at += got;
    bytes -= got;
  }
  return {};
}

Status Rendezvous::send(int32_t to, const void *in, int64_t bytes, const char *what) {
  const int64_t end = nowNs() + int64_t(timeoutMs_) * 1'000'000;
  const int error = sendAll(socketTo(to), in, bytes, end);
  return error == 0 ? Status() : lost(to, what, error);
}

Status Rendezvous::allGather(const void *in, int64_t bytes, void *out, const char *what) {
  auto *all = static_cast<char *>(out);
  std::memmove(all + rank_ * bytes, in, size_t(bytes));
  if (rank_ != 0) {
    Status status = send(0, in, bytes, what);
    return status.ok() ? receive(0, all, bytes * ranks(), what) : status;
  }
  for (int32_t peer = 1; peer < ranks(); ++peer)
    if (Status status = receive(peer, all + peer * bytes, bytes, what); !status.ok())
      return status;
  for (int32_t peer = 1; peer < ranks(); ++peer)
    if (Status status = send(peer, all, bytes * ranks(), what); !status.ok())
      return status;
  return {};
}

Status Rendezvous::meet(const char *what) {
  char own = 1;
  std::vector<char> all(members_.size());
  return allGather(&own, 1, all.data(), what);
}

Status Rendezvous::agree(uint64_t value, const char *what) {
  std::vector<uint64_t> all(members_.size());
  if (Status status = allGather(&value, sizeof value, all.data(), what); !status.ok())
    return status;
  for (int32_t rank = 0; rank < ranks(); ++rank)
    if (all[size_t(rank)] != value)
      return {DTILE_INVALID,
              format("ranks %d and %d differ in %s, which must be equal on all ranks "
                     "and asked for in the same order",
                     rank_, rank, what)};
  return {};
}

Status Rendezvous::exchange(int descriptor, std::vector<int> *out, const char *what) {
  out->assign(members_.size(), -1);
  std::vector<int> here;
  Rendezvous &host = host_ ? *host_ : *this;
  Status status = host.exchangeHere(descriptor, &here, what);
  for (size_t i = 0; i < here.size(); ++i)
    (*out)[size_t(hostRanks_[i])] = here[i];
  if (status.ok())
    status = meet(what);
  for (int &one : *out)
    if (one >= 0 && !status.ok())
      close(std::exchange(one, -1));
  return status;
}

Status Rendezvous::exchangeHere(int descriptor, std::vector<int> *out, const char *what) {
  out->assign(members_.size(), -1);
  const int64_t end = nowNs() + int64_t(timeoutMs_) * 1'000'000;
  const auto receiveFrom = [&](int32_t peer, int *to) -> Status {
    if (Status status = awaitData(peer, end, what); !status.ok())
      return status;
    *to = receiveDescriptor(socketTo(peer));
    return *to >= 0 ? Status() : lost(peer, what, 0);
  };
  Status status;
  if (rank_ != 0) {
    status = sendDescriptor(socketTo(0), descriptor);
    for (int32_t rank = 0; rank < ranks() && status.ok(); ++rank)
      status = receiveFrom(0, &(*out)[size_t(rank)]);
    return status;
  }
  (*out)[0] = fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
  for (int32_t peer = 1; peer < ranks() && status.ok(); ++peer)
    status = receiveFrom(peer, &(*out)[size_t(peer)]);
  for (int32_t peer = 1; peer < ranks(); ++peer)
    for (int32_t rank = 0; rank < ranks() && status.ok(); ++rank)
      status = sendDescriptor(socketTo(peer), (*out)[size_t(rank)]);
  return status;
}

} // namespace dtile::runtime
