/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 * How many programs each space of a launch on a device gets. A pure function: the runtime calls it
 * at each launch, what predicts times may call it too.
 *
 * All programs of a launch are resident at once, so there are `resident` of them to share:
 *
 * 1. A space without bodies on this rank gets none, nor does one that follows another that has
 *    some. Every other gets at least one: spaces may wait for one another.
 * 2. An ordered space gets one; a space whose author asked for a number gets that many; neither
 *    more than it has bodies.
 * 3. A space whose bodies only move data gets at most `most`: few programs fill a link, and the
 *    others have arithmetic to do. It gets fewer where it would take more than a quarter of what
 *    there is while others could use it.
 * 4. The remaining programs go to the remaining spaces, in proportion to bodies times weight, never
 *    more than a space has bodies. What one leaves the others share in the same way.
 * 5. Where spaces that compute have no bodies for the rest, spaces that move data take it: small
 *    problems wait for data sooner than for arithmetic. */
#pragma once

#include "backend/runtime/kernel_abi.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Writes nspaces + 1 numbers: programs [first[s], first[s + 1]) are those of space s. Gives the
 * number of programs, or, negated, how many the launch needs at least where that is more than
 * `resident` (a pinned number is not cut). Zero where no space has bodies. */
int32_t dtile_share_programs(int32_t nspaces, const dtile_device_space *spaces,
                             const int64_t *bodies, int32_t resident, int32_t *first);

#ifdef __cplusplus
}
#endif
