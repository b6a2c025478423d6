/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 * How many programs each space of a launch on a device gets. A pure function: the runtime calls it
 * at each launch, what predicts times may call it too.
 *
 * All programs of a launch are resident at once, so there are `resident` of them to share:
 *
 * 1. A space without bodies on this rank gets none, nor does one that follows another that has
 *    some (one that may follow: only if all bodies that compute before it run at once). Every other
 *    gets at least one: spaces may wait for one another.
 *    Where only data is moved before a space that follows, its bodies count as bodies of those who
 *    move.
 * 2. An ordered space gets one; a space whose author asked for a number gets that many; neither
 *    more than it has bodies.
 * 3. Where others compute, spaces whose bodies only move data get at most `m` each: the `m` with
 *    which the launch is estimated to end first, the largest of those that are nearly equal. Beside
 *    products `m` is up to a quarter of what there is, and none gets more than `most`, or as many
 *    times that as its bodies take longer for their latency: so many keep as much in flight. In
 *    kernels without products, `m` is up to half.
 * 4. The remaining programs go to the remaining spaces, in proportion to bodies times weight, never
 *    more than a space has bodies. What one leaves the others share in the same way.
 * 5. Where spaces that compute have no bodies for the rest, spaces that move data take it: small
 *    problems wait for data sooner than for arithmetic.
 *
 * A body takes its weight, which is what it moves or computes at full rate, and its latency, as far
 * as other programs of its processor do not cover it.
 *
 * The estimate of rule 3: data has moved when the bodies that move it are through, `fill` programs
 * at once at most of what has no latency, for these fill the way to other devices. In kernels
 * without products the latency of each round but one comes on top: programs drain and start
 * together, and leave the way idle meanwhile. A space that computes runs equal bodies in waves, on
 * its programs, and where it shares its bodies also on those that are done with moving data. One
 * that waits has one body left when all data has moved, and bodies that move data and wait have one
 * left when everything is computed.
 *
 * Clusters. The `parts` programs of a cluster may share the loops of bodies
 * (dtile_device_space.exchange): of few bodies, so that all processors have work, and of somewhat
 * more than there are processors, so that the last round leaves fewer without. Then the bodies that
 * are shared out are as many as a space's bodies times `parts`, and each takes its part of the
 * loop, and the exchange. A space's programs are whole clusters, which take bodies in turn.
 *
 * Divided bodies. Of a space whose last round has bodies for a quarter of its programs, a half or
 * three quarters, bodies of that round may be divided between programs (dtile_device_space.divide):
 * it takes a quarter of a round, a half or both, and what it takes to add up. The only space that
 * is free to choose gets two or four programs a body for that where it has fewer bodies than
 * programs can run. */
#pragma once

#include "backend/runtime/kernel_abi.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How long a body of a space takes on average, or waits, in nanoseconds, where `together` programs
 * share a processor and `running` run on the device: the mean of some that are spread over all. At
 * least 1. */
int64_t dtile_mean_weight(int64_t (*weight)(const void *frame, int64_t body, int64_t together,
                                            int64_t running),
                          const void *frame, int64_t bodies, int64_t together, int64_t running);

/* The part of a body's latency that the other programs of its processor do not cover, of a space
 * without products that computes and does not wait. All of it for other spaces, and where
 * `together` is 1. While a program waits, the others use what it leaves idle. So `together` bodies
 * take at least `weight`, which is for all of them, and at least a body's own part of that and its
 * latency. Often both are near each other, and neither hides the other. They add up to
 *
 *   weight * cbrt((1 + (1 / together + latency / weight)^3) / (1 + (1 / together)^3))
 *
 * The power is of 920 times of norms, softmax and products of elements on an H200, by the best
 * choice among 24 configurations (docs/measurements/rows.md). Nanoseconds. */
int64_t dtile_uncovered_latency(const dtile_device_space *space, int64_t weight, int64_t latency,
                                int64_t together);

/* Programs of a launch that run at once, on a device that holds `resident` of them on `processors`
 * processors: on all of it, and on one processor. Each at least 1. */
typedef struct dtile_device_load {
  int64_t running, together;
} dtile_device_load;
dtile_device_load dtile_load_of(int32_t nspaces, const int64_t *bodies, int64_t resident,
                                int64_t processors);

/* Writes nspaces + 1 numbers: programs [first[s], first[s + 1]) are those of space s. `bodies`,
 * `weights` and `latencies` (nanoseconds a body) are the spaces'. Gives the number of programs, or,
 * negated, how many the launch needs at least where that is more than `resident` (a pinned number
 * is not cut). Zero where no space has bodies. */
int32_t dtile_share_programs(int32_t nspaces, const dtile_device_space *spaces,
                             const int64_t *bodies, const int64_t *weights,
                             const int64_t *latencies, int32_t resident, int32_t *first);

/* When the bodies of a launch that is shared so have ended, by the estimate of rule 3; `first` is
 * what dtile_share_programs wrote. Nanoseconds. */
double dtile_launch_time(int32_t nspaces, const dtile_device_space *spaces, const int64_t *bodies,
                         const int64_t *weights, const int64_t *latencies, const int32_t *first);

/* The same for each space: when its bodies have ended. The largest of these is what
 * dtile_launch_time gives. */
void dtile_space_ends(int32_t nspaces, const dtile_device_space *spaces, const int64_t *bodies,
                      const int64_t *weights, const int64_t *latencies, const int32_t *first,
                      double *ends);

/* The spaces of whose last round bodies are to be divided (a bit each), as that is estimated to end
 * earlier. */
uint32_t dtile_divided_spaces(int32_t nspaces, const dtile_device_space *spaces,
                              const int64_t *bodies, const int64_t *weights,
                              const int64_t *latencies, const int32_t *first);

/* The largest cluster that is tried. */
enum { DTILE_MOST_PARTS = 8 };

/* Of spaces whose loops `parts` programs share, what dtile_share_programs is to see: `parts` bodies
 * for each, with their part of the weight, which programs of other spaces do not take. `shared` is
 * what of the weights is shared. 0, and nothing is changed, where no space shares loops, one has
 * very many bodies, or no cluster is `resident`. */
int32_t dtile_share_loops(int32_t nspaces, dtile_device_space *spaces, int32_t parts,
                          const int64_t *shared, int32_t resident, int64_t *bodies,
                          int64_t *weights);

/* Makes of spaces for which the copy engine sends (`engine`, a bit each) what dtile_share_programs
 * is to see. The engine makes one copy after the other. So it is as if one program moved all, at
 * the rate of the link, with what the driver takes for the copies of a body besides: `bytes` are
 * those that a body sends on average, `link_rate` bytes a nanosecond. A space that would follow
 * such spaces alone does not: it needs programs of its own. */
void dtile_leave_to_engine(int32_t nspaces, dtile_device_space *spaces, uint32_t engine,
                           const int64_t *bodies, const double *bytes, double link_rate,
                           int64_t *weights, int64_t *latencies);

/* Gives bodies of spaces that follow others their part of the way to other devices: all `running`
 * programs run them at once, when those before are done. `bytes` and `link_rate` as above. In
 * kernels without products, says how many programs that move data fill the way (`fill`): what a
 * body does beside sending keeps it from nobody. */
void dtile_share_link(int32_t nspaces, dtile_device_space *spaces, const int64_t *bodies,
                      const double *bytes, double link_rate, int64_t running,
                      const int64_t *latencies, int64_t *weights);

/* Moves the boundaries in `first` to where clusters of `parts` programs begin and end, by more
 * programs for the spaces before, and fewer for those that share loops. Gives the number of
 * programs; 0 where a space that shares loops (`bodies` as dtile_share_loops gives them) has none
 * of its own, fewer than a cluster, or a boundary cannot be moved. */
int32_t dtile_align_to_clusters(int32_t nspaces, const dtile_device_space *spaces, int32_t parts,
                                int32_t resident, const int64_t *bodies, int32_t *first);

/* Adds to what dividing a body takes what of its `weight` is not `shared`. */
void dtile_add_unshared(dtile_device_space *space, int64_t weight, int64_t shared);

/* Whether dividing bodies of the last round, which takes `more` of a body's time each time, ends
 * earlier; 0 where `more` is. */
int32_t dtile_divides(int64_t bodies, int64_t programs, double more);

/* Programs of a launch whose clusters of two share loads (dtile_device_image.paired): of `paired`
 * bodies, where `resident` programs run in clusters of two. `gain` is the time of a body that
 * shares no loads over that of one that does, and `start` is what such a launch takes more, over
 * the former. 0 where `bodies` on `programs` are estimated to end
 * earlier: what fills up pairs, and processors that have no neighbour, may make one round more (or,
 * where bodies of the last round may be divided at the cost of `more`, a larger part of one). 0
 * also where more than half of all processors have nothing to do, as those that have do not ask for
 * more than caches deliver. */
int32_t dtile_pair_programs(int64_t paired, int64_t resident, int64_t bodies, int64_t programs,
                            double more, double gain, double start);

#ifdef __cplusplus
}
#endif
