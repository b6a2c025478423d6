// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One word of the process: a calling convention that passes arguments alone leaves no other place.
#include "backend/runtime/team_in_use.h"

#include <atomic>

namespace dtile::runtime {

namespace {
std::atomic<dtile_team *> inUse{nullptr};
} // namespace

dtile_team *teamInUse() { return inUse.load(std::memory_order_acquire); }

void useTeam(dtile_team *team) { inUse.store(team, std::memory_order_release); }

void forgetTeam(const dtile_team *team) {
  auto *expected = const_cast<dtile_team *>(team);
  inUse.compare_exchange_strong(expected, nullptr);
}

} // namespace dtile::runtime
