// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The rule of device_programs.h.
#include "backend/runtime/device_programs.h"

#include "backend/runtime/device_abi.h"

#include <algorithm>
#include <cstdint>

namespace {

/// Programs of a space as far as they are known, and what it can use.
struct Share {
  int64_t least = 0;
  int64_t most = 0;
  double work = 0;
};

/// Gives `spare` programs to shares that have room, in proportion to their work.
void distribute(Share *shares, int32_t count, int64_t spare) {
  while (spare > 0) {
    double work = 0;
    for (int32_t s = 0; s < count; ++s)
      if (shares[s].least < shares[s].most)
        work += shares[s].work;
    if (work == 0)
      return;
    // Who would get more than it can use gets that, and the rest is shared anew.
    const double each = double(spare) / work;
    bool isFilled = false;
    for (int32_t s = 0; s < count; ++s) {
      Share &share = shares[s];
      const int64_t room = share.most - share.least;
      if (room <= 0 || double(room) > share.work * each)
        continue;
      share.least = share.most;
      spare -= room;
      isFilled = true;
    }
    if (isFilled)
      continue;
    int64_t given = 0;
    int32_t largest = -1;
    for (int32_t s = 0; s < count; ++s) {
      Share &share = shares[s];
      if (share.least >= share.most)
        continue;
      const auto part = int64_t(share.work * each);
      share.least += part;
      given += part;
      if (largest < 0 || share.work > shares[largest].work)
        largest = s;
    }
    // What rounding left.
    const int64_t room = shares[largest].most - shares[largest].least;
    const int64_t rest = std::min(spare - given, room);
    shares[largest].least += rest;
    spare -= given + rest;
    if (given + rest == 0)
      return;
  }
}

} // namespace

int32_t dtile_share_programs(int32_t nspaces, const dtile_device_space *spaces,
                             const int64_t *bodies, int32_t resident, int32_t *first) {
  Share shares[DTILE_DEVICE_MAX_SPACES];
  int64_t needed = 0;
  bool hasComputation = false;
  bool hasBodies = false;
  for (int32_t s = 0; s < nspaces; ++s) {
    Share &share = shares[s];
    const bool isFollowing = spaces[s].follows && hasBodies;
    hasBodies |= bodies[s] > 0;
    if (bodies[s] <= 0 || isFollowing)
      continue;
    const int64_t fixed = spaces[s].ordered ? 1 : spaces[s].pinned;
    share.least = std::clamp<int64_t>(fixed, 1, bodies[s]);
    share.most = fixed > 0 ? share.least : bodies[s];
    share.work = double(bodies[s]) * double(std::max<int64_t>(spaces[s].weight, 1));
    needed += share.least;
    hasComputation |= fixed <= 0 && spaces[s].most <= 0;
  }
  if (needed > resident)
    return int32_t(std::max<int64_t>(-needed, INT32_MIN));

  // Spaces that move data come first: their share is bounded.
  int64_t spare = resident - needed;
  for (int32_t s = 0; s < nspaces; ++s) {
    Share &share = shares[s];
    if (spaces[s].most <= 0 || share.least == 0 || share.least >= share.most)
      continue;
    int64_t most = std::min<int64_t>(share.most, spaces[s].most);
    if (hasComputation)
      most = std::min<int64_t>(most, std::max(1, resident / 4));
    const int64_t more = std::clamp<int64_t>(most - share.least, 0, spare);
    share.least += more;
    share.most = share.least;
    spare -= more;
  }
  distribute(shares, nspaces, spare);

  // Beside little arithmetic nobody else has a use for the rest.
  int64_t idle = resident;
  for (int32_t s = 0; s < nspaces; ++s)
    idle -= shares[s].least;
  for (int32_t s = 0; s < nspaces && hasComputation; ++s) {
    if (spaces[s].most <= 0 || spaces[s].pinned > 0 || spaces[s].ordered || shares[s].least == 0)
      continue;
    const int64_t more = std::clamp<int64_t>(bodies[s] - shares[s].least, 0, idle);
    shares[s].least += more;
    idle -= more;
  }

  first[0] = 0;
  for (int32_t s = 0; s < nspaces; ++s)
    first[s + 1] = first[s] + int32_t(shares[s].least);
  return first[nspaces];
}
