// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The place of this process in its job, as the launcher's environment says it.
#pragma once

#include "backend/runtime/errors.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace dtile::runtime {

/// Which job, which place in it, and where its processes meet.
struct JobPlace {
  int32_t rank = 0;
  int32_t ranks = 1;
  /// This process among those of its host.
  int32_t localRank = 0;
  /// Equal in all processes of the job and in no other job's.
  std::string name;
  /// Ranks of this host as the launcher says; 0: all ranks are of this host.
  int32_t localRanks = 0;
  /// Of jobs of several hosts: where rank 0 listens, by name or number; several with commas
  /// between.
  std::string address;
  int32_t port = 0;
  /// The network interface that connections of this process take; empty: as the system routes.
  std::string interface;
  /// A secret of the job; empty: there is none.
  std::string key;
  /// Hosts need not have equal numbers of ranks.
  bool hostsMayDiffer = false;
  /// The host that this process is said to be on; empty: the one that it is on.
  std::string host;
  /// What all ranks must have alike, and what this one has.
  std::vector<std::pair<std::string, std::string>> traits;
  /// Why this process cannot take part: it comes only to say so. Empty: it can.
  std::string fault;

  [[nodiscard]] bool hasSeveralHosts() const { return localRanks > 0 && localRanks < ranks; }
};

/// From the variables that torchrun, mpirun, oshrun and srun set, and from DTILE_JOB_*.
Status placeFromEnvironment(JobPlace *out);

/// `name` of the options: a name, or `tcp://ADDRESS:PORT/NAME` for a job of several hosts.
Status placeFromName(const std::string &name, JobPlace *out);

} // namespace dtile::runtime
