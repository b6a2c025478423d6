// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The processes of one job on one machine: a star of Unix sockets around rank 0, over which they
// meet and exchange bytes and file descriptors. Not for anything that is fast.
#pragma once

#include "backend/runtime/errors.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace dtile::runtime {

/// Which job and which place in it.
struct JobPlace {
  int32_t rank = 0;
  int32_t ranks = 1;
  /// This process among those of its machine.
  int32_t localRank = 0;
  /// Equal in all processes of the job and in no other job's.
  std::string name;
};

/// From the variables that torchrun and mpirun set.
Status placeFromEnvironment(JobPlace *out);

/// Calls are collective, in the same order everywhere. A peer that does not come within the timeout
/// is an error that names it.
class Rendezvous {
public:
  static Status join(const JobPlace &place, int32_t timeoutMs, std::unique_ptr<Rendezvous> *out);
  ~Rendezvous();
  Rendezvous(const Rendezvous &) = delete;
  Rendezvous &operator=(const Rendezvous &) = delete;

  [[nodiscard]] int32_t rank() const { return rank_; }
  [[nodiscard]] int32_t ranks() const { return ranks_; }

  /// `out` gets `bytes` of each rank, in order.
  Status allGather(const void *in, int64_t bytes, void *out, const char *what);
  Status meet(const char *what);
  /// Ranks have the same value, or an error says which differ.
  Status agree(uint64_t value, const char *what);
  /// A descriptor of each rank's file; the caller closes them. The own one is a duplicate.
  Status exchange(int descriptor, std::vector<int> *out, const char *what);

private:
  Rendezvous(int32_t rank, int32_t ranks, int32_t timeoutMs)
      : rank_(rank), ranks_(ranks), timeoutMs_(timeoutMs) {}
  Status accept(const std::string &name);
  Status connect(const std::string &name);
  Status receive(int32_t from, void *out, int64_t bytes, const char *what);
  Status send(int32_t to, const void *in, int64_t bytes, const char *what);
  Status lost(int32_t peer, const char *what) const;

  int32_t rank_, ranks_, timeoutMs_;
  /// Rank 0: a socket to every rank but itself; others: one to rank 0.
  std::vector<int> sockets_;
};

} // namespace dtile::runtime
