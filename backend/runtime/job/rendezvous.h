// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The processes of one job: a star of sockets around rank 0, over which they meet and exchange
// bytes, and within a host file descriptors. Not for anything that is fast.
#pragma once

#include "backend/runtime/errors.h"
#include "backend/runtime/job/admission.h"
#include "backend/runtime/job/place.h"
#include "backend/runtime/job/watch.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace dtile::runtime {

/// Calls are collective, in the same order everywhere. A peer that has died, or does not come
/// within the timeout, is an error that names it, on all ranks.
class Rendezvous {
public:
  static Status join(const JobPlace &place, int32_t timeoutMs, std::unique_ptr<Rendezvous> *out);
  /// In place of join: tells the others why this process cannot take part, if they come soon.
  static void withdraw(JobPlace place, const Status &why);
  ~Rendezvous();
  Rendezvous(const Rendezvous &) = delete;
  Rendezvous &operator=(const Rendezvous &) = delete;

  [[nodiscard]] int32_t rank() const { return rank_; }
  [[nodiscard]] int32_t ranks() const { return int32_t(members_.size()); }
  [[nodiscard]] const JobMember &member(int32_t rank) const { return members_[size_t(rank)]; }
  /// Ranks of the same host share descriptors.
  [[nodiscard]] bool isOnSameHost(int32_t rank) const;
  [[nodiscard]] bool hasSeveralHosts() const { return hostRanks_.size() < members_.size(); }
  Watch &watch() { return *watch_; }

  /// `out` gets `bytes` of each rank, in order.
  Status allGather(const void *in, int64_t bytes, void *out, const char *what);
  Status meet(const char *what);
  /// Ranks have the same value, or an error says which differ.
  Status agree(uint64_t value, const char *what);
  /// A descriptor of the file of each rank of this host, at the rank's place, and -1 at others; the
  /// caller closes them. The own one is a duplicate.
  Status exchange(int descriptor, std::vector<int> *out, const char *what);

private:
  explicit Rendezvous(int32_t rank, int32_t timeoutMs) : rank_(rank), timeoutMs_(timeoutMs) {}
  Status openHost(const JobPlace &place, uint64_t session);
  Status exchangeHere(int descriptor, std::vector<int> *out, const char *what);
  Status receive(int32_t from, void *out, int64_t bytes, const char *what);
  Status send(int32_t to, const void *in, int64_t bytes, const char *what);
  /// Whether there is something to read from a peer before its time is over.
  Status awaitData(int32_t from, int64_t end, const char *what);
  /// `error`: of its connection, kTooLate, or 0 for its end.
  Status lost(int32_t peer, const char *what, int error);
  [[nodiscard]] int socketTo(int32_t peer) const;

  int32_t rank_, timeoutMs_;
  std::vector<JobMember> members_;
  /// Rank 0: a socket to every rank but itself; others: one to rank 0.
  std::vector<Socket> sockets_;
  std::unique_ptr<Watch> watch_;
  /// The ranks of this host among themselves, where the job meets by TCP; else null.
  std::unique_ptr<Rendezvous> host_;
  /// Of the job, in the order of the host's.
  std::vector<int32_t> hostRanks_;
};

} // namespace dtile::runtime
