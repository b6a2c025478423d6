// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The same arithmetic as at a launch (backend/runtime/device/choose/device_variants.cpp), with
// residency estimated from the IR instead of asked of the driver.
#include "backend/gpu/launch_estimate.h"

#include "backend/gpu/paired_bodies.h"
#include "backend/gpu/space_facts.h"
#include "backend/runtime/device/choose/device_programs.h"
#include "backend/runtime/device_abi.h"
#include "ir/analysis/dependence.h"
#include "ir/analysis/occupancy.h"
#include "ir/analysis/shared_memory_plan.h"
#include "ir/core/op_classes.h"
#include "ir/core/tile_order.h"
#include "ir/model/launch_sizes.h"

#include <algorithm>
#include <numeric>

namespace dtile::backend::gpu {

using ir::Op;
using ir::OpKind;
using ir::Value;

namespace {

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

} // namespace

GpuLaunchEstimate::GpuLaunchEstimate(Op &kernel, const TargetFacts &machine)
    : machine_(machine), sizes_(model::freeSizes(kernel)), overhead_(launchTime(kernel, machine)) {
  for (Op &op : kernel.body().ops())
    if (op.is(OpKind::Space)) {
      spaces_.push_back(&op);
      facts_.push_back(spaceFacts(op, machine));
    }
  if (machine.clusterPrograms > 1 && !spaces_.empty() && mayPairBodies(*spaces_.front()))
    pairedDimension_ = ir::TileOrder::fromSpace(*spaces_.front()).pairedDimension();
  ir::walk(kernel, [&](Op &op) {
    usesTma_ |= ir::comesVia(op, ir::LoadPath::Tma);
    if (op.is(OpKind::If) && op.enclosing(OpKind::Space))
      doRanksDiffer_ |= ir::dependsOn(op.operand(0), [](const ir::Value &from) {
        return from.definingOp() && from.definingOp()->is(OpKind::Rank);
      });
  });
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
  int64_t ranks = 1;
  int64_t bodies[DTILE_DEVICE_MAX_SPACES] = {};
  llvm::SmallVector<llvm::SmallVector<int64_t, 4>, 4> counts;
};

/// How its programs are shared among the spaces, and how long they take.
struct GpuLaunchEstimate::Launch {
  /// Programs on all processors, and on one.
  int64_t running = 1, together = 1;
  dtile_device_space facts[DTILE_DEVICE_MAX_SPACES] = {};
  int64_t bodies[DTILE_DEVICE_MAX_SPACES] = {};
  /// Nanoseconds of a body, of what of it no other hides, and of when a space's last one ends.
  int64_t weights[DTILE_DEVICE_MAX_SPACES] = {};
  int64_t latencies[DTILE_DEVICE_MAX_SPACES] = {};
  double ends[DTILE_DEVICE_MAX_SPACES] = {};
  /// Programs [first[s], first[s + 1]) are those of space s.
  int32_t first[DTILE_DEVICE_MAX_SPACES + 1] = {};
  int32_t programs = 0;
  double remoteBytes = 0, linkTime = 0, total = 0;
};

bool GpuLaunchEstimate::isByTma() const {
  return llvm::none_of(recorded_, [](const RecordedBodies &space) { return space.isUnaligned(); });
}

bool GpuLaunchEstimate::isUnstaged() {
  return llvm::any_of(llvm::zip_equal(spaces_, recorded_), [&](const auto &pair) {
    const auto &[space, recorded] = pair;
    return bodyFacts_.hasUnstagedBody(*space) && recorded.isUnaligned();
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

void GpuLaunchEstimate::record(llvm::ArrayRef<Value *> sizes) {
  if (!recorded_.empty() && sizes == llvm::ArrayRef(recordedFor_))
    return;
  recordedFor_ = sizes.vec();
  recorded_.clear();
  for (Op *space : spaces_)
    recorded_.emplace_back(*space, sizes, machine_, bodyFacts_);
}

bool GpuLaunchEstimate::setLaunch(llvm::ArrayRef<int64_t> sizes, int64_t ranks, int64_t rank,
                                  Work &work) {
  if (spaces_.size() > DTILE_DEVICE_MAX_SPACES)
    return false;
  work.ranks = ranks;
  for (size_t s = 0; s < spaces_.size(); ++s) {
    recorded_[s].setLaunch(sizes, ranks, rank);
    auto counts = recorded_[s].counts();
    if (!counts)
      return false;
    work.bodies[s] = 1;
    for (const int64_t count : *counts)
      if (__builtin_mul_overflow(work.bodies[s], count, &work.bodies[s]))
        return false;
    work.counts.push_back(std::move(*counts));
  }
  return true;
}

std::optional<model::ProgramShares> GpuLaunchEstimate::share(const model::KnownSizes &sizes,
                                                             int64_t ranks) {
  std::vector<Value *> known;
  std::vector<int64_t> numbers;
  for (const auto &[size, number] : sizes) {
    known.push_back(size);
    numbers.push_back(number);
  }
  record(known);
  Work work;
  if (!setLaunch(numbers, ranks, /*rank=*/0, work))
    return std::nullopt;
  const std::optional<Launch> launch = alone(work);
  if (!launch)
    return std::nullopt;
  model::ProgramShares made;
  made.together = launch->together;
  made.running = launch->running;
  made.overhead = overhead_;
  for (size_t s = 0; s < spaces_.size(); ++s)
    made.shares.push_back(launch->facts[s].shares != 0);
  made.first.assign(launch->first, launch->first + spaces_.size() + 1);
  return made;
}

bool GpuLaunchEstimate::movesParts(llvm::ArrayRef<int64_t> sizes, int64_t ranks) {
  record(sizes_);
  Work work;
  if (!setLaunch(sizes, ranks, /*rank=*/0, work))
    return false;
  if (usesTma_)
    return !isByTma();
  return llvm::any_of(recorded_, [](const RecordedBodies &space) { return space.movesParts(); });
}

std::optional<double> GpuLaunchEstimate::nanoseconds(llvm::ArrayRef<int64_t> sizes, int64_t ranks) {
  const std::optional<Launch> launch = fastest(sizes, ranks);
  return launch ? std::optional(launch->total) : std::nullopt;
}

std::optional<LaunchTimeline> GpuLaunchEstimate::timeline(llvm::ArrayRef<int64_t> sizes,
                                                          int64_t ranks) {
  const std::optional<Launch> launch = fastest(sizes, ranks);
  if (!launch)
    return std::nullopt;
  LaunchTimeline made;
  made.overhead = overhead_;
  made.linkBytes = launch->remoteBytes;
  made.linkTime = launch->linkTime;
  made.total = launch->total;
  double all = 0;
  for (auto [s, space] : llvm::enumerate(spaces_)) {
    all += double(launch->bodies[s]) * double(launch->weights[s]);
    made.rows.push_back({.name = space->get(ir::attr::name).str(),
                         .moves = launch->facts[s].most > 0,
                         .waits = launch->facts[s].waits != 0,
                         .bodies = launch->bodies[s],
                         .programs = launch->first[s + 1] - launch->first[s],
                         .end = launch->ends[s],
                         .work = double(launch->weights[s]),
                         .latency = double(launch->latencies[s])});
  }
  made.workTime = launch->programs == 0 ? 0 : all / double(launch->programs);
  return made;
}

std::optional<GpuLaunchEstimate::Launch> GpuLaunchEstimate::fastest(llvm::ArrayRef<int64_t> sizes,
                                                                    int64_t ranks) {
  std::optional<Launch> slowest = fastestOn(0, sizes, ranks);
  if (!doRanksDiffer_ || ranks == 1 || !slowest)
    return slowest;
  std::optional<Launch> last = fastestOn(ranks - 1, sizes, ranks);
  return last && last->total > slowest->total ? last : slowest;
}

std::optional<GpuLaunchEstimate::Launch>
GpuLaunchEstimate::fastestOn(int64_t rank, llvm::ArrayRef<int64_t> sizes, int64_t ranks) {
  record(sizes_);
  Work work;
  if (!setLaunch(sizes, ranks, rank, work))
    return std::nullopt;
  std::optional<Launch> best = alone(work);
  if (best && best->programs > 0)
    pair(work, *best);
  for (int32_t parts = 2; best && parts <= std::min(machine_.clusterPrograms, +DTILE_MOST_PARTS);
       ++parts)
    if (std::optional<Launch> other = launchOf(work, parts); other && other->total < best->total)
      best = other;
  return best;
}

void GpuLaunchEstimate::pair(const Work &work, Launch &launch) {
  if (!pairedDimension_ || !isByTma())
    return;
  llvm::SmallVector<int64_t, 4> counts = work.counts.front();
  int64_t &even = counts[*pairedDimension_];
  if (even <= 1)
    return;
  even += even % 2;
  int64_t paired = 1;
  for (const int64_t count : counts)
    paired *= count;
  const int32_t others = launch.programs - launch.first[1];
  const int64_t room = residentInClusters(2) - (others + others % 2);
  const BodyMeans means = recorded_.front().means(work.counts.front(), double(launch.together),
                                                  double(launch.running), /*isPaired=*/true);
  const auto alone = double(launch.weights[0] + launch.latencies[0]);
  const int32_t inPairs = dtile_pair_programs(
      paired, room, work.bodies[0], launch.first[1], double(launch.facts[0].divide) / alone,
      alone / double(means.weight + launch.latencies[0]), machine_.timing.pairStart / alone);
  if (inPairs == 0)
    return;
  launch.bodies[0] = paired;
  launch.weights[0] = means.weight;
  const int32_t moved = inPairs - launch.first[1];
  for (size_t s = 1; s <= spaces_.size(); ++s)
    launch.first[s] += moved;
  launch.programs += moved;
  addTimes(launch);
  launch.total += machine_.timing.pairStart;
}

int32_t GpuLaunchEstimate::residentInClusters(int32_t parts) const {
  // Clusters end where groups of processors do; how many there are exactly, only the driver knows.
  const int64_t group = parts > 1 ? machine_.groupProcessors : machine_.processors;
  return int32_t(group * each_ / parts * (machine_.processors / group) * parts);
}

std::optional<GpuLaunchEstimate::Launch> GpuLaunchEstimate::alone(const Work &work) {
  std::optional<Launch> first = launchOf(work, 1);
  const auto count = int32_t(spaces_.size());
  if (!first || first->programs <= std::accumulate(work.bodies, work.bodies + count, int64_t{0}))
    return first;
  // Bodies are divided, and more programs run than bodies were counted.
  std::optional<Launch> divided = launchOf(work, 1, {.running = first->programs});
  std::optional<Launch> whole = launchOf(work, 1, {.mayDivide = false});
  return divided->total < whole->total ? divided : whole;
}

std::optional<GpuLaunchEstimate::Launch>
GpuLaunchEstimate::launchOf(const Work &work, int32_t parts, Assumed assumed) {
  const auto count = int32_t(spaces_.size());
  if (parts > 1 && isUnstaged())
    return std::nullopt;
  const int32_t resident = residentInClusters(parts);
  Launch made;
  int64_t shared[DTILE_DEVICE_MAX_SPACES] = {};
  std::copy_n(work.bodies, count, made.bodies);
  std::copy_n(facts_.begin(), count, made.facts);
  // As the runtime launches (LaunchPlanner::plan).
  for (int32_t s = 0; s < count && !(assumed.mayDivide && isByTma()); ++s)
    made.facts[s].divide = 0;
  if (parts > 1 &&
      !dtile_share_loops(count, made.facts, parts, shared, resident, made.bodies, made.weights))
    return std::nullopt;
  if (parts > 1 && !isByTma() &&
      std::accumulate(made.bodies, made.bodies + count, int64_t{0}) > resident)
    return std::nullopt;
  const auto [running, together] =
      assumed.running > 0 ? dtile_load_of(1, &assumed.running, resident, machine_.processors)
                          : dtile_load_of(count, made.bodies, resident, machine_.processors);
  made.running = running;
  made.together = together;
  double bytes[DTILE_DEVICE_MAX_SPACES] = {};
  for (int32_t s = 0; s < count; ++s) {
    const BodyMeans means =
        recorded_[size_t(s)].means(work.counts[size_t(s)], double(together), double(running));
    made.weights[s] = means.weight;
    made.latencies[s] =
        dtile_uncovered_latency(&made.facts[s], means.weight, means.latency, together);
    shared[s] = means.shared;
    made.remoteBytes += double(work.bodies[s]) * means.remoteBytes;
    bytes[s] = means.remoteBytes;
  }
  dtile_leave_to_engine(count, made.facts, engineOf(work), work.bodies, bytes,
                        machine_.timing.linkRate, made.weights, made.latencies);
  dtile_share_link(count, made.facts, work.bodies, bytes, machine_.timing.linkRate, running,
                   made.latencies, made.weights);
  if (parts > 1) {
    std::copy_n(work.bodies, count, made.bodies);
    dtile_share_loops(count, made.facts, parts, shared, resident, made.bodies, made.weights);
  }
  for (int32_t s = 0; s < count; ++s)
    dtile_add_unshared(&made.facts[s], made.weights[s], shared[s]);
  made.programs = dtile_share_programs(count, made.facts, made.bodies, made.weights, made.latencies,
                                       resident, made.first);
  if (made.programs > 0 && parts > 1)
    made.programs =
        dtile_align_to_clusters(count, made.facts, parts, resident, made.bodies, made.first);
  if (made.programs < 0 || (made.programs == 0 && parts > 1))
    return std::nullopt;
  made.linkTime = made.remoteBytes / machine_.timing.linkRate;
  addTimes(made);
  return made;
}

void GpuLaunchEstimate::addTimes(Launch &launch) const {
  launch.total = overhead_;
  // Without bodies there is nothing to move.
  if (launch.programs == 0)
    return;
  const auto count = int32_t(spaces_.size());
  dtile_space_ends(count, launch.facts, launch.bodies, launch.weights, launch.latencies,
                   launch.first, launch.ends);
  launch.total += std::max(*std::max_element(launch.ends, launch.ends + count), launch.linkTime);
}

} // namespace dtile::backend::gpu
