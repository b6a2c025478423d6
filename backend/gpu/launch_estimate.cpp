// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The same arithmetic as at a launch (backend/runtime/device/choose/device_variants.cpp), with
// residency estimated from the IR instead of asked of the driver.
#include "backend/gpu/launch_estimate.h"

#include "backend/gpu/paired_bodies.h"
#include "backend/gpu/space_facts.h"
#include "backend/runtime/device/choose/device_programs.h"
#include "backend/runtime/device_abi.h"
#include "ir/analysis/occupancy.h"
#include "ir/analysis/shared_memory_plan.h"
#include "ir/core/op_classes.h"
#include "ir/core/tile_order.h"
#include "ir/model/body_time.h"
#include "ir/model/launch_sizes.h"

#include <algorithm>

namespace dtile::backend::gpu {

using ir::Op;
using ir::OpKind;

namespace {

/// Bodies whose times stand for all of a space.
constexpr int64_t kSampledBodies = 5;
/// Programs of one processor that occupancy calculators rarely exceed for tile kernels.
constexpr int64_t kMostEach = 8;
/// Registers of a thread of a kernel with products.
constexpr int64_t kThreadRegisters = 168;
/// Registers of a thread for the tiles that it holds at once; what more they take is spilled. The
/// same with the partial sums that are promoted to one of them.
constexpr int64_t kGroupTileRegisters = 128;
constexpr int64_t kPromotedTileRegisters = 160;
/// The same where operands are in registers, too.
constexpr int64_t kTileRegisters = 80;

/// Bytes of the slots of the kernel's loops, and of what loops keep for each other.
int64_t sharedBytes(Op &kernel) {
  int64_t most = 0;
  for (Op &op : kernel.body().ops())
    if (op.is(OpKind::Space))
      most = std::max(most, model::keptBytes(op));
  ir::walk(kernel, [&](Op &op) {
    if (!op.is(OpKind::For) || model::loadsAhead(op) != model::Ahead::Threads)
      return;
    ir::MultistageSlot slot;
    for (const Op &load : op.body().ops())
      if (ir::comesVia(load, ir::LoadPath::Threads))
        slot.addTile(load.result()->type(), load.get(ir::attr::swizzle));
    most = std::max(most, slot.bytes() * op.get(ir::attr::async_stages));
  });
  return most;
}

int64_t threadsOf(const Op &kernel, const TargetFacts &machine) {
  return std::max<int64_t>(kernel.getOr(ir::attr::threads, 4 * machine.lanes), 1);
}

/// Threads that hold the tiles of bodies: of staged spaces those of the warpgroups that multiply.
int64_t holdersOf(Op &kernel, const TargetFacts &machine) {
  int64_t groups = 0;
  for (const Op &op : kernel.body().ops())
    if (op.is(OpKind::Space))
      groups = std::max(groups, op.getOr(ir::attr::warpgroups, 0));
  return groups > 0 ? groups * machine.groupThreads : threadsOf(kernel, machine);
}

/// Registers of a thread for a tile.
int64_t registersOf(const ir::Value &tile, int64_t holders) {
  return tile.type().isTile() ? int64_t(model::bytesOf(tile.type())) / 4 / holders : 0;
}

/// Registers a thread of the largest tile that bodies compute or load, or of the tiles that a loop
/// carries from round to round.
int64_t tileRegisters(Op &kernel, const TargetFacts &machine) {
  int64_t most = 0;
  const int64_t holders = std::max<int64_t>(holdersOf(kernel, machine), 1);
  ir::walk(kernel, [&](Op &op) {
    if (op.numResults() == 1 && (model::computes(op) || model::readsMemory(op)))
      most = std::max(most, registersOf(*op.result(), holders));
    if (!op.is(OpKind::For))
      return;
    int64_t carried = 0;
    for (ir::Value *value : op.body().terminator()->operands())
      carried += registersOf(*value, holders);
    most = std::max(most, carried);
  });
  return most;
}

/// Registers a thread of the partial sums of products whose accumulators are promoted.
int64_t partialRegisters(Op &kernel, const TargetFacts &machine) {
  int64_t most = 0;
  ir::walk(kernel, [&](Op &op) {
    if (!op.is(OpKind::Dot) || !op.has(ir::attr::warpgroups))
      return;
    const ir::Type sum = op.result()->type();
    const GroupProduct *product =
        machine.findGroupProduct(op.operand(0)->type().dtype(), op.operand(1)->type().dtype(),
                                 sum.dtype(), op.has(ir::attr::precision));
    if (product && product->needsPromotion)
      most = std::max(most, TargetFacts::kGroupRows *
                                TargetFacts::columnsOfPart(sum.shape()[1] / ir::columnSharers(op)) /
                                machine.groupThreads);
  });
  return most;
}

/// Whether registers hold the tiles of the kernel's bodies.
bool holdsTiles(Op &kernel, const TargetFacts &machine) {
  const int64_t tiles = tileRegisters(kernel, machine);
  if (!hasStagedLoads(kernel))
    return tiles <= kTileRegisters;
  return tiles <= kGroupTileRegisters &&
         tiles + partialRegisters(kernel, machine) <= kPromotedTileRegisters;
}

/// Means over bodies of a space, in nanoseconds.
struct BodyMeans {
  int64_t weight = 1;
  int64_t latency = 0;
  /// Of the weight, what programs of a cluster share.
  int64_t shared = 0;
  double remoteBytes = 0;
};

BodyMeans meansOf(Op &space, llvm::ArrayRef<int64_t> counts, int64_t bodies,
                  model::LaunchSizes &sizes, model::BodyFacts &facts, const TargetFacts &machine,
                  double together, double running, bool isPaired = false) {
  const int64_t samples = std::min(bodies, kSampledBodies);
  double weight = 0, latency = 0, shared = 0, remote = 0;
  for (int64_t i = 0; i < samples; ++i) {
    int64_t body = bodies / samples * i + (bodies / samples) / 2;
    for (unsigned d = unsigned(counts.size()); d-- > 0; body /= counts[d]) {
      const int64_t first = *sizes.number(*space.operand(3 * d));
      const int64_t step = *sizes.number(*space.operand(3 * d + 2));
      sizes.set(*space.body().arguments()[d], first + body % counts[d] * step);
    }
    model::BodyTime<model::LaunchSizes> time(sizes, machine, together, running, &facts, isPaired);
    weight += time.bodyTime(space.body());
    latency += time.latency(space.body());
    shared += time.sharedTime(space.body());
    remote += time.remoteBytes(space.body());
  }
  if (samples == 0)
    return {};
  return {std::max<int64_t>(int64_t(weight / double(samples)), 1),
          int64_t(latency / double(samples)), int64_t(shared / double(samples)),
          remote / double(samples)};
}

} // namespace

GpuLaunchEstimate::GpuLaunchEstimate(Op &kernel, const TargetFacts &machine)
    : kernel_(kernel), machine_(machine), sizes_(model::freeSizes(kernel)) {
  for (Op &op : kernel.body().ops())
    if (op.is(OpKind::Space))
      spaces_.push_back(&op);
  isPossible_ = spaces_.size() <= DTILE_DEVICE_MAX_SPACES && holdsTiles(kernel, machine);
  if (!hasStagedLoads(kernel)) {
    each_ = std::clamp<int64_t>(ir::programsInShared(machine, sharedBytes(kernel)), 1, kMostEach);
    const int64_t threads = threadsOf(kernel, machine);
    const int64_t byRegisters =
        multiplies(kernel) ? ir::kProcessorRegisters / (threads * kThreadRegisters)
                           : ir::residentPrograms(kernel, ir::kProcessorRegisters, threads);
    each_ = std::clamp<int64_t>(byRegisters, 1, each_);
  }
}

/// What a launch of certain sizes has to do.
struct GpuLaunchEstimate::Work {
  explicit Work(int64_t ranks) : ranks(ranks), sizes(ranks) {}
  int64_t ranks;
  model::LaunchSizes sizes;
  dtile_device_space facts[DTILE_DEVICE_MAX_SPACES] = {};
  int64_t bodies[DTILE_DEVICE_MAX_SPACES] = {};
  llvm::SmallVector<llvm::SmallVector<int64_t, 4>, 4> counts;
};

bool GpuLaunchEstimate::isByTma(Work &work) {
  return llvm::all_of(spaces_, [&](Op *space) {
    bool isAligned = true;
    ir::walk(*space, [&](Op &op) {
      if (ir::comesVia(op, ir::LoadPath::Tma))
        isAligned &= work.sizes.byRowStart(op, {.anywhere = 1}) == 0;
    });
    return isAligned;
  });
}

bool GpuLaunchEstimate::isUnstaged(Work &work) {
  return llvm::any_of(spaces_, [&](Op *space) {
    bool isAligned = true;
    if (facts_.hasUnstagedBody(*space))
      ir::walk(*space, [&](Op &op) {
        if (ir::comesVia(op, ir::LoadPath::Tma))
          isAligned &= work.sizes.byRowStart(op, {.anywhere = 1}) == 0;
      });
    return !isAligned;
  });
}

uint32_t GpuLaunchEstimate::engineOf(const Work &work) const {
  // A body's data, and the word that follows it; for more copies programs send.
  constexpr int64_t kMostBodies = 512;
  int64_t all = 0;
  uint32_t engine = 0;
  for (auto [s, space] : llvm::enumerate(spaces_))
    if (space->get(ir::attr::engine_copies)) {
      all += std::min(work.bodies[s], kMostBodies + 1);
      engine |= 1u << s;
    }
  return all <= kMostBodies && work.ranks > 1 ? engine : 0;
}

bool GpuLaunchEstimate::countBodies(Work &work) {
  work.counts.resize(spaces_.size());
  for (auto [s, space] : llvm::enumerate(spaces_)) {
    work.facts[s] = spaceFacts(*space, machine_);
    work.bodies[s] = 1;
    for (unsigned d = 0; d < ir::spaceDims(*space); ++d) {
      const auto first = work.sizes.number(*space->operand(3 * d));
      const auto end = work.sizes.number(*space->operand(3 * d + 1));
      const auto step = work.sizes.number(*space->operand(3 * d + 2));
      if (!first || !end || !step)
        return false;
      work.counts[s].push_back(model::blockCount(*first, *end, *step));
      if (__builtin_mul_overflow(work.bodies[s], work.counts[s].back(), &work.bodies[s]))
        return false;
    }
  }
  return true;
}

std::optional<model::ProgramShares> GpuLaunchEstimate::share(const model::KnownSizes &sizes,
                                                             int64_t ranks) {
  Work work(ranks);
  for (const auto &[size, value] : sizes)
    work.sizes.set(*size, value);
  if (!countBodies(work))
    return std::nullopt;
  const auto count = int32_t(spaces_.size());
  const auto resident = int32_t(machine_.processors * each_);
  const auto [running, together] = dtile_load_of(count, work.bodies, resident, machine_.processors);
  int64_t weights[DTILE_DEVICE_MAX_SPACES] = {}, latencies[DTILE_DEVICE_MAX_SPACES] = {};
  double bytes[DTILE_DEVICE_MAX_SPACES] = {};
  model::ProgramShares made;
  made.together = together;
  made.running = running;
  made.overhead = launchTime(kernel_, machine_);
  for (auto [s, space] : llvm::enumerate(spaces_)) {
    const BodyMeans means = meansOf(*space, work.counts[s], work.bodies[s], work.sizes, facts_,
                                    machine_, double(together), double(running));
    weights[s] = means.weight;
    latencies[s] = dtile_uncovered_latency(&work.facts[s], means.weight, means.latency, together);
    dtile_add_unshared(&work.facts[s], means.weight, means.shared);
    made.shares.push_back(work.facts[s].shares != 0);
    bytes[s] = means.remoteBytes;
  }
  dtile_leave_to_engine(count, work.facts, engineOf(work), work.bodies, bytes,
                        machine_.timing.linkRate, weights, latencies);
  int32_t first[DTILE_DEVICE_MAX_SPACES + 1] = {};
  if (dtile_share_programs(count, work.facts, work.bodies, weights, latencies, resident, first) < 0)
    return std::nullopt;
  made.first.assign(first, first + count + 1);
  return made;
}

std::optional<double> GpuLaunchEstimate::nanoseconds(llvm::ArrayRef<int64_t> values,
                                                     int64_t ranks) {
  const std::optional<LaunchTimeline> launch = timeline(values, ranks);
  return launch ? std::optional(launch->total) : std::nullopt;
}

std::optional<LaunchTimeline> GpuLaunchEstimate::timeline(llvm::ArrayRef<int64_t> values,
                                                          int64_t ranks) {
  Work work(ranks);
  for (auto [size, value] : llvm::zip_equal(sizes_, values))
    work.sizes.set(*size, value);
  if (!countBodies(work))
    return std::nullopt;
  std::optional<LaunchTimeline> best = timeline(work, 1);
  for (int32_t parts = 2; best && parts <= std::min(machine_.clusterPrograms, +DTILE_MOST_PARTS);
       ++parts)
    if (std::optional<LaunchTimeline> other = timeline(work, parts))
      if (other->total < best->total)
        best = std::move(other);
  return best;
}

int32_t GpuLaunchEstimate::pair(Work &work, int32_t programs, Estimated of) {
  Op &space = *spaces_.front();
  if (machine_.clusterPrograms < 2 || !mayPairBodies(space) || !isByTma(work))
    return programs;
  llvm::SmallVector<int64_t, 4> counts = work.counts.front();
  int64_t &even = counts[*ir::TileOrder::fromSpace(space).pairedDimension()];
  if (even <= 1)
    return programs;
  even += even % 2;
  int64_t paired = 1;
  for (const int64_t count : counts)
    paired *= count;
  const int32_t others = programs - of.first[1];
  const int64_t room = residentInClusters(2) - (others + others % 2);
  const auto [running, together] =
      dtile_load_of(int32_t(spaces_.size()), work.bodies, int32_t(machine_.processors * each_),
                    machine_.processors);
  const BodyMeans means = meansOf(space, work.counts.front(), work.bodies[0], work.sizes, facts_,
                                  machine_, double(together), double(running), /*isPaired=*/true);
  const auto alone = double(of.weights[0] + of.latencies[0]);
  const int32_t inPairs = dtile_pair_programs(paired, room, work.bodies[0], of.first[1],
                                              double(of.facts[0].divide) / alone,
                                              alone / double(means.weight + of.latencies[0]));
  if (inPairs == 0)
    return programs;
  of.bodies[0] = paired;
  of.weights[0] = means.weight;
  const int32_t moved = inPairs - of.first[1];
  for (size_t s = 1; s <= spaces_.size(); ++s)
    of.first[s] += moved;
  return programs + moved;
}

int32_t GpuLaunchEstimate::residentInClusters(int32_t parts) const {
  // Clusters end where groups of processors do; how many there are exactly, only the driver knows.
  const int64_t group = parts > 1 ? machine_.groupProcessors : machine_.processors;
  return int32_t(group * each_ / parts * (machine_.processors / group) * parts);
}

std::optional<LaunchTimeline> GpuLaunchEstimate::timeline(Work &work, int32_t parts) {
  const auto count = int32_t(spaces_.size());
  if (parts > 1 && isUnstaged(work))
    return std::nullopt;
  const int32_t resident = residentInClusters(parts);
  int64_t bodies[DTILE_DEVICE_MAX_SPACES] = {}, weights[DTILE_DEVICE_MAX_SPACES] = {},
          latencies[DTILE_DEVICE_MAX_SPACES] = {}, shared[DTILE_DEVICE_MAX_SPACES] = {};
  std::copy(std::begin(work.bodies), std::end(work.bodies), bodies);
  dtile_device_space facts[DTILE_DEVICE_MAX_SPACES];
  std::copy(std::begin(work.facts), std::end(work.facts), facts);
  if (parts > 1 && !dtile_share_loops(count, facts, parts, shared, resident, bodies, weights))
    return std::nullopt;
  const auto [running, together] = dtile_load_of(count, bodies, resident, machine_.processors);
  double remote = 0, bytes[DTILE_DEVICE_MAX_SPACES] = {};
  for (auto [s, space] : llvm::enumerate(spaces_)) {
    const BodyMeans means = meansOf(*space, work.counts[s], work.bodies[s], work.sizes, facts_,
                                    machine_, double(together), double(running));
    weights[s] = means.weight;
    latencies[s] = dtile_uncovered_latency(&facts[s], means.weight, means.latency, together);
    shared[s] = means.shared;
    remote += double(work.bodies[s]) * means.remoteBytes;
    bytes[s] = means.remoteBytes;
  }
  dtile_leave_to_engine(count, facts, engineOf(work), work.bodies, bytes, machine_.timing.linkRate,
                        weights, latencies);
  if (parts > 1) {
    std::copy(std::begin(work.bodies), std::end(work.bodies), bodies);
    dtile_share_loops(count, facts, parts, shared, resident, bodies, weights);
  }
  for (int32_t s = 0; s < count; ++s)
    dtile_add_unshared(&facts[s], weights[s], shared[s]);
  int32_t first[DTILE_DEVICE_MAX_SPACES + 1] = {};
  int32_t programs =
      dtile_share_programs(count, facts, bodies, weights, latencies, resident, first);
  if (programs > 0 && parts > 1)
    programs = dtile_align_to_clusters(count, facts, parts, resident, bodies, first);
  if (programs > 0 && parts == 1)
    programs = pair(work, programs, {facts, bodies, weights, latencies, first});
  if (programs < 0 || (programs == 0 && parts > 1))
    return std::nullopt;
  LaunchTimeline launch;
  launch.overhead = launchTime(kernel_, machine_);
  launch.linkBytes = remote;
  launch.linkTime = remote / machine_.timing.linkRate;
  double ends[DTILE_DEVICE_MAX_SPACES] = {};
  double all = 0, last = 0;
  if (programs > 0)
    dtile_space_ends(count, facts, bodies, weights, latencies, first, ends);
  for (auto [s, space] : llvm::enumerate(spaces_)) {
    all += double(bodies[s]) * double(weights[s]);
    last = std::max(last, ends[s]);
    launch.rows.push_back({.name = space->get(ir::attr::name).str(),
                           .moves = facts[s].most > 0,
                           .waits = facts[s].waits != 0,
                           .bodies = bodies[s],
                           .programs = first[s + 1] - first[s],
                           .end = ends[s],
                           .work = double(weights[s]),
                           .latency = double(latencies[s])});
  }
  // Without bodies there is nothing to move.
  launch.total = launch.overhead + (programs == 0 ? 0 : std::max(last, launch.linkTime));
  launch.workTime = programs == 0 ? 0 : all / double(programs);
  return launch;
}

} // namespace dtile::backend::gpu
