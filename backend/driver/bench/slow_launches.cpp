// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Random launches first, then chains from the slowest of them and from new ones.
#include "backend/driver/bench/slow_launches.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <cmath>

namespace dtile::driver {

namespace {

/// Part of the time in which launches are drawn at random.
constexpr double kDrawing = 0.3;
/// Part of it after which nothing new is begun, so that what was found can be made small.
constexpr double kSearching = 0.9;
/// Temperatures of the annealing, in units of the factor's logarithm.
constexpr double kHot = 0.4, kCold = 0.03;
/// Steps of a chain that find nothing slower before it ends.
constexpr size_t kPatience = 12;
/// Timings of what has to be certain, and how many are taken at once. Of few the median says
/// little: where ranks share processors, launches are fast only when ranks happen to run side by
/// side.
constexpr size_t kTimings = 15, kMoreTimings = 4;
/// Nanoseconds that clocks and schedulers add to any launch.
constexpr double kNoise = 2000;
/// Launches without which the median says nothing.
constexpr size_t kFew = 8;
/// Multiples that sizes are rounded to.
constexpr int64_t kRound = 64;
constexpr int64_t kAlignments[] = {256, 64, 16, 8, 1};
/// What an already known kind counts of its logarithm, so that chains go elsewhere.
constexpr double kKnownKind = 0.3;
/// Of launches that a find explains, one in so many is made small all the same.
constexpr double kDoubt = 0.2;
/// So many known launches in turn are drawn by chance only where few are left; and where so many
/// cannot run, none can.
constexpr size_t kStale = 300;

int64_t alignmentOf(int64_t size) {
  return *llvm::find_if(kAlignments, [&](int64_t alignment) { return size % alignment == 0; });
}

/// The same to a reader, to whom a power of two is as round as can be.
int64_t roundnessOf(int64_t size) {
  return llvm::isPowerOf2_64(uint64_t(size)) ? kAlignments[0] : alignmentOf(size);
}

bool isLarger(const LaunchPoint &a, const LaunchPoint &b) {
  return a.setting == b.setting && a != b &&
         llvm::equal(a.sizes, b.sizes, [](int64_t one, int64_t other) { return one >= other; });
}

} // namespace

SlowSearch::SlowSearch(SlowSearchInput input) : input_(std::move(input)), random_(input_.seed) {}

bool SlowSearch::chance(double part) {
  return std::uniform_real_distribution<double>(0, 1)(random_) < part;
}

int64_t SlowSearch::anySize(const SizeRange &range) {
  std::uniform_real_distribution<double> power(std::log2(double(range.least)),
                                               std::log2(double(range.most) + 1));
  const auto size = int64_t(std::exp2(power(random_)));
  const int64_t alignment =
      kAlignments[std::uniform_int_distribution<size_t>(0, std::size(kAlignments) - 1)(random_)];
  return range.nearest(std::max(size / alignment * alignment, int64_t(1)));
}

LaunchPoint SlowSearch::anyPoint() {
  LaunchPoint point;
  point.setting = std::uniform_int_distribution<size_t>(0, input_.settings - 1)(random_);
  for (const SizeRange &range : input_.ranges)
    point.sizes.push_back(anySize(range));
  stale_ = times_.contains(point) ? stale_ + 1 : 0;
  return point;
}

bool SlowSearch::isExhausted() const {
  return stale_ > kStale || (refused_ > kStale && measured() == 0);
}

LaunchPoint SlowSearch::neighbour(const LaunchPoint &point) {
  LaunchPoint other = point;
  if (input_.settings > 1 && chance(0.15))
    other.setting = std::uniform_int_distribution<size_t>(0, input_.settings - 1)(random_);
  if (input_.ranges.empty())
    return other;
  const size_t axis = std::uniform_int_distribution<size_t>(0, input_.ranges.size() - 1)(random_);
  const SizeRange &range = input_.ranges[axis];
  int64_t &size = other.sizes[axis];
  const int64_t alignment =
      kAlignments[std::uniform_int_distribution<size_t>(0, std::size(kAlignments) - 1)(random_)];
  switch (std::uniform_int_distribution<int>(0, 4)(random_)) {
  case 0:
    size = anySize(range);
    break;
  case 1:
    size = size / alignment * alignment + (chance(0.5) ? alignment : 0);
    break;
  case 2:
    size += std::uniform_int_distribution<int64_t>(-8, 8)(random_) * range.step;
    break;
  default:
    size = int64_t(double(size) *
                   std::exp2(std::uniform_real_distribution<double>(-1.5, 1.5)(random_)));
    size = size >= alignment ? size / alignment * alignment : size;
  }
  size = range.nearest(size);
  return other;
}

const SlowSearch::Known &SlowSearch::timed(const LaunchPoint &point, size_t timings) {
  const auto [entry, isNew] = times_.try_emplace(point);
  Known &known = entry->second;
  if (!isNew && !known.time)
    return known;
  while (known.timings.size() < timings) {
    const auto time = input_.time(point);
    if (!time) {
      // What cannot run cannot run later.
      known.time.reset();
      ++refused_;
      return known;
    }
    known.timings.insert(llvm::upper_bound(known.timings, time->measured), time->measured);
    known.time = {known.timings[(known.timings.size() - 1) / 2], time->expected};
  }
  return known;
}

double SlowSearch::typical(size_t setting) const {
  std::vector<double> parts;
  for (const auto &[point, known] : times_)
    if (point.setting == setting && known.time && std::isfinite(known.time->expected) &&
        known.time->expected > 0)
      parts.push_back(known.time->measured / known.time->expected);
  if (parts.size() < kFew)
    return 1;
  const auto middle = parts.begin() + std::ptrdiff_t(parts.size() / 2);
  std::nth_element(parts.begin(), middle, parts.end());
  return *middle;
}

LaunchPoint SlowSearch::roundedUp(const LaunchPoint &point) const {
  LaunchPoint up = point;
  for (auto [size, range] : llvm::zip_equal(up.sizes, input_.ranges)) {
    if (range.isFixed())
      continue;
    const int64_t round = size < kRound ? int64_t(llvm::PowerOf2Ceil(uint64_t(size)))
                                        : int64_t(llvm::alignTo(uint64_t(size), uint64_t(kRound)));
    // In steps of the range, which the kernel may ask for; past its end by less than one.
    size =
        range.least + int64_t(llvm::divideCeil(uint64_t(std::max(round, range.least) - range.least),
                                               uint64_t(range.step))) *
                          range.step;
  }
  return up;
}

std::optional<SlowSearch::Verdict> SlowSearch::judge(const LaunchPoint &point) {
  const std::optional<LaunchTime> own = timed(point).time;
  if (!own)
    return std::nullopt;
  if (const LaunchPoint up = roundedUp(point); up != point)
    (void)timed(up);
  Verdict verdict{.measured = own->measured, .limit = own->expected * typical(point.setting)};
  for (const auto &[other, known] : times_)
    if (known.time && known.time->measured < verdict.limit && isLarger(other, point)) {
      verdict.limit = known.time->measured;
      verdict.larger = other;
    }
  verdict.factor = own->measured / (verdict.limit + kNoise);
  return verdict;
}

std::optional<SlowSearch::Verdict> SlowSearch::judgeWithCare(const LaunchPoint &point) {
  for (;;) {
    auto verdict = judge(point);
    if (!verdict || verdict->factor < input_.factor)
      return verdict;
    // What is timed here may change which launch is the fastest of the larger ones.
    const size_t own = timed(point).timings.size();
    const size_t others = verdict->larger ? timed(*verdict->larger).timings.size() : kTimings;
    if (std::min(own, others) >= kTimings)
      return verdict;
    const LaunchPoint &next = own <= others ? point : *verdict->larger;
    const Known &known = timed(next, std::min(own, others) + kMoreTimings);
    if (!known.time)
      return std::nullopt;
  }
}

SlowLaunch *SlowSearch::explaining(const LaunchPoint &point) {
  const auto it = llvm::find_if(found_, [&](const SlowLaunch &one) {
    return (one.point.setting == point.setting || one.point.setting == 0) &&
           llvm::equal(point.sizes, one.point.sizes, [](int64_t size, int64_t least) {
             return size >= least && alignmentOf(size) <= alignmentOf(least);
           });
  });
  return it == found_.end() ? nullptr : &*it;
}

/// Values that are simpler than `size`, the simplest first: smaller by much, or rounder.
std::vector<int64_t> SlowSearch::simpler(const SizeRange &range, int64_t size) const {
  std::vector<int64_t> values;
  const auto add = [&](int64_t value) {
    value = range.nearest(value);
    const bool isRounder = roundnessOf(value) > roundnessOf(size);
    const bool isSmaller = value < size && roundnessOf(value) >= roundnessOf(size);
    if ((isRounder && value <= 2 * size) || isSmaller)
      values.push_back(value);
  };
  add(range.least);
  for (const int64_t alignment : kAlignments) {
    add(size / alignment * alignment);
    add(int64_t(llvm::alignTo(uint64_t(size), uint64_t(alignment))));
  }
  // What is left behind a multiple of a tile stays.
  for (const int64_t tile : {int64_t(256), int64_t(64), int64_t(16)})
    for (const int64_t part : {8, 2})
      add(size / tile / part * tile + size % tile);
  for (const int64_t part : {4, 2})
    add(size / part);
  add(size * 3 / 4);
  add(size - range.step);
  return values;
}

LaunchPoint SlowSearch::shrink(LaunchPoint point) {
  const auto isSlow = [&](const LaunchPoint &other) {
    const auto verdict = judgeWithCare(other);
    return verdict && verdict->factor >= input_.factor;
  };
  for (size_t setting = 0; setting < point.setting; ++setting) {
    LaunchPoint other = point;
    other.setting = setting;
    if (isSlow(other))
      point = other;
  }
  for (bool isBetter = true; isBetter && !input_.isOver(1);) {
    isBetter = false;
    for (auto [axis, range] : llvm::enumerate(input_.ranges))
      for (const int64_t value : simpler(range, point.sizes[axis])) {
        LaunchPoint other = point;
        other.sizes[axis] = value;
        if (input_.isOver(1))
          return point;
        if (!isSlow(other))
          continue;
        point = std::move(other);
        isBetter = true;
        break;
      }
  }
  return point;
}

void SlowSearch::keep(const LaunchPoint &point, double factor) {
  const auto count = [&](SlowLaunch &one) {
    ++one.count;
    if (factor > one.worstFactor) {
      one.worstFactor = factor;
      one.worst = point;
    }
  };
  if (SlowLaunch *known = explaining(point); known && !chance(kDoubt))
    return count(*known);
  const LaunchPoint small = shrink(point);
  const auto verdict = judgeWithCare(small);
  if (!verdict || verdict->factor < input_.factor)
    return;
  const auto same =
      llvm::find_if(found_, [&](const SlowLaunch &one) { return one.point == small; });
  if (same != found_.end())
    return count(*same);
  found_.push_back({.point = small,
                    .measured = verdict->measured,
                    .limit = verdict->limit,
                    .factor = verdict->factor,
                    .larger = verdict->larger,
                    .worst = point,
                    .worstFactor = factor});
}

void SlowSearch::anneal(LaunchPoint from) {
  const auto heightOf = [&](const LaunchPoint &point) -> std::optional<double> {
    const auto verdict = judge(point);
    if (!verdict)
      return std::nullopt;
    const double height = std::log(std::max(verdict->factor, 1e-3));
    return explaining(point) && height > 0 ? kKnownKind * height : height;
  };
  auto height = heightOf(from);
  if (!height)
    return;
  double best = *height;
  for (size_t idle = 0; idle < kPatience && !input_.isOver(kSearching); ++idle) {
    const LaunchPoint next = neighbour(from);
    const auto other = heightOf(next);
    if (!other)
      continue;
    // Cold towards the end.
    double gone = 0;
    while (gone < 1 && input_.isOver(kSearching * (gone + 0.1)))
      gone += 0.1;
    const double temperature = kHot * std::pow(kCold / kHot, gone);
    if (*other >= *height || chance(std::exp((*other - *height) / temperature))) {
      from = next;
      height = other;
    }
    if (*other > best) {
      best = *other;
      idle = 0;
    }
    if (const auto verdict = judgeWithCare(next); verdict && verdict->factor >= input_.factor)
      return keep(next, verdict->factor);
  }
}

std::vector<SlowLaunch> SlowSearch::run() {
  std::vector<std::pair<double, LaunchPoint>> drawn;
  while (!isExhausted() && !input_.isOver(kDrawing)) {
    const LaunchPoint point = anyPoint();
    if (const auto verdict = judge(point); verdict && stale_ == 0)
      drawn.emplace_back(verdict->factor, point);
  }
  stale_ = 0;
  llvm::sort(drawn, [](const auto &a, const auto &b) { return a > b; });
  size_t next = 0;
  while (!isExhausted() && !input_.isOver(kSearching)) {
    LaunchPoint from = next < drawn.size() && chance(0.7) ? drawn[next++].second : anyPoint();
    if (const auto verdict = judgeWithCare(from); verdict && verdict->factor >= input_.factor)
      keep(from, verdict->factor);
    else
      anneal(std::move(from));
  }
  // Later launches may have set other limits.
  std::vector<SlowLaunch> slow;
  for (SlowLaunch &one : found_)
    if (const auto verdict = judge(one.point); verdict && verdict->factor >= input_.factor) {
      one.measured = verdict->measured;
      one.limit = verdict->limit;
      one.larger = verdict->larger;
      one.factor = verdict->factor;
      slow.push_back(one);
    }
  llvm::stable_sort(slow,
                    [](const SlowLaunch &a, const SlowLaunch &b) { return a.factor > b.factor; });
  return slow;
}

} // namespace dtile::driver
