// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How the processes of a job come together: each connects to rank 0 twice, for what is exchanged
// and for the watch, says who it is, proves that it knows the job's key, and is told whether all
// fit together. What does not is an error in words in all that came.
#pragma once

#include "backend/runtime/job/place.h"
#include "backend/runtime/job/sockets.h"

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace dtile::runtime {

/// A process of the job, as all know it.
struct JobMember {
  /// Its host's name, and what tells its network namespace from all others.
  char host[64] = {};
  char machine[96] = {};
  int64_t process = 0;
};

/// The connections of a process that was admitted. Rank 0 has one of each kind to every rank but
/// itself; others have one of each, to rank 0.
struct Admitted {
  std::vector<Socket> exchange, watch;
  std::vector<JobMember> members;
  /// Of this meeting, and of no other one.
  uint64_t session = 0;
};

/// Rank 0 waits for all processes.
Status admitAll(const JobPlace &place, int32_t timeoutMs, Admitted *out);
/// Comes to rank 0 and waits for its word.
Status askAdmission(const JobPlace &place, int32_t timeoutMs, Admitted *out);

/// How long a host may be out of reach before it counts as lost.
int32_t lostAfterMs(int32_t timeoutMs);
/// Of a job of one host, within its network namespace.
std::string meetingName(const JobPlace &place);
/// "rank 3 (process 4711 on `gpu2`)".
std::string memberText(int32_t rank, const JobMember &member);
/// Whether a connection ended with this errno because nothing comes through any more.
bool isCutOff(int error);
std::string lostHostText(int32_t rank, const JobMember &member, int error);

} // namespace dtile::runtime
