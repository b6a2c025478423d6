// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What is compared is a rank's own time in a launch: how long its bodies ran, less what they waited
// for others or for a worker. When a notify came would say less: one slow rank makes all late, and
// where workers serve several ranks the last rank is late by its number alone. The distance to the
// median of the ranks, and of that the median over the launches, says how slow a rank is; medians
// on both ways, so that neither single launches nor a single rank move what is compared to.
//
// A rank is apart where it is further from its nearest neighbour than all others are from each
// other, in the medians, and in more than half of the launches by themselves. So nothing is set by
// hand: what counts as far is what the others show among themselves. Medians alone would name a
// rank for what single launches do not show: of 64 launches they tell 1 us in 50 apart, and so much
// the first and the last rank of a process take longer.
#include "backend/runtime/telemetry/stragglers.h"

#include "backend/runtime/errors.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace dtile::runtime::telemetry {

namespace {

/// With fewer, a majority of launches says little.
constexpr size_t kLeastLaunches = 8;
constexpr size_t kLeastRanks = 4;

int64_t medianOf(std::vector<int64_t> values) {
  const size_t middle = values.size() / 2;
  std::nth_element(values.begin(), values.begin() + std::ptrdiff_t(middle), values.end());
  if (values.size() % 2 != 0)
    return values[middle];
  const int64_t below = *std::max_element(values.begin(), values.begin() + std::ptrdiff_t(middle));
  return below + (values[middle] - below) / 2;
}

/// The largest of the values, where it is further from the next than the rest from each other.
struct Apart {
  size_t index;
  int64_t othersNs;
  double deviations;
};

std::optional<Apart> findApart(const std::vector<int64_t> &values) {
  const size_t index = size_t(std::max_element(values.begin(), values.end()) - values.begin());
  std::vector<int64_t> others = values;
  others.erase(others.begin() + std::ptrdiff_t(index));
  const auto [least, most] = std::minmax_element(others.begin(), others.end());
  const int64_t range = *most - *least;
  if (values[index] - *most <= range)
    return std::nullopt;
  const int64_t median = medianOf(others);
  std::vector<int64_t> distances;
  for (const int64_t other : others)
    distances.push_back(std::abs(other - median));
  const int64_t deviation = medianOf(distances);
  return Apart{index, range,
               deviation == 0 ? 0 : double(values[index] - median) / double(deviation)};
}

/// What each rank took, in launches that all have ended.
struct OwnTimes {
  std::vector<int32_t> ranks;
  /// By launch and rank, as numbers in `ranks`.
  std::vector<std::vector<int64_t>> ran;
  /// By launch, sender and receiver, for what was notified; 0: nothing was.
  std::vector<std::vector<std::vector<int64_t>>> sent;

  explicit OwnTimes(const JobView &job);
};

OwnTimes::OwnTimes(const JobView &job) {
  std::vector<const RankView *> views;
  std::map<uint64_t, std::vector<const LaunchView *>> ended;
  for (int32_t rank = 0; rank < job.ranks(); ++rank)
    if (const RankView *view = job.rank(rank)) {
      views.push_back(view);
      ranks.push_back(rank);
      for (const LaunchView &launch : view->launches)
        ended[launch.number].push_back(&launch);
    }
  for (const auto &[number, launches] : ended) {
    // A block that lies may have a launch twice.
    if (launches.size() != views.size())
      continue;
    auto &times = ran.emplace_back();
    auto &launch = sent.emplace_back();
    for (size_t from = 0; from < views.size(); ++from) {
      times.push_back(launches[from]->ranNs);
      auto &sender = launch.emplace_back();
      for (const int32_t rank : ranks)
        sender.push_back(rank == ranks[from] ? 0 : launches[from]->ownNs[size_t(rank)]);
    }
  }
}

std::optional<Straggler> findSlowRank(const OwnTimes &times, SkewReport &report) {
  const size_t count = times.ranks.size();
  std::vector<std::vector<int64_t>> late(count);
  std::vector<size_t> last(count), launches(count);
  for (const auto &launch : times.ran) {
    const int64_t median = medianOf(launch);
    for (size_t i = 0; i < count; ++i)
      late[i].push_back(launch[i] - median);
    ++last[size_t(std::max_element(launch.begin(), launch.end()) - launch.begin())];
    if (const std::optional<Apart> apart = findApart(launch))
      ++launches[apart->index];
  }
  std::vector<int64_t> values;
  for (size_t i = 0; i < count; ++i) {
    values.push_back(medianOf(late[i]));
    report.ranks.push_back({times.ranks[i], values.back(), last[i]});
  }
  const std::optional<Apart> apart = findApart(values);
  if (!apart || 2 * launches[apart->index] <= report.launches)
    return std::nullopt;
  return Straggler{times.ranks[apart->index], std::nullopt,    values[apart->index],
                   apart->deviations,         apart->othersNs, launches[apart->index]};
}

/// The same for what one rank sends to another, beside what it sends to the rest.
std::optional<Straggler> findSlowWay(const OwnTimes &times, size_t launches) {
  const size_t count = times.ranks.size();
  std::vector<std::vector<int64_t>> late(count * count);
  std::vector<size_t> apartIn(count * count);
  for (const auto &launch : times.sent) {
    std::vector<int64_t> values;
    std::vector<size_t> ways;
    for (size_t from = 0; from < count; ++from) {
      std::vector<int64_t> there;
      std::copy_if(launch[from].begin(), launch[from].end(), std::back_inserter(there),
                   [](int64_t own) { return own != 0; });
      if (there.empty())
        continue;
      const int64_t median = medianOf(std::move(there));
      for (size_t to = 0; to < count; ++to)
        if (launch[from][to] != 0) {
          values.push_back(launch[from][to] - median);
          ways.push_back(from * count + to);
          late[ways.back()].push_back(values.back());
        }
    }
    if (const auto apart = values.size() < kLeastRanks ? std::nullopt : findApart(values))
      ++apartIn[ways[apart->index]];
  }
  std::vector<int64_t> values;
  std::vector<size_t> ways;
  for (size_t way = 0; way < count * count; ++way)
    if (late[way].size() >= kLeastLaunches) {
      values.push_back(medianOf(late[way]));
      ways.push_back(way);
    }
  const std::optional<Apart> apart = values.size() < kLeastRanks ? std::nullopt : findApart(values);
  if (!apart)
    return std::nullopt;
  const size_t way = ways[apart->index];
  if (2 * apartIn[way] <= launches)
    return std::nullopt;
  return Straggler{times.ranks[way / count], times.ranks[way % count], values[apart->index],
                   apart->deviations,        apart->othersNs,          apartIn[way]};
}

/// What the system did with a process between two looks.
struct Shares {
  /// Of the time, that it waited for a processor.
  double starved;
  /// How many times longer all took for that; a logarithm, in thousandths of a millionth.
  int64_t stretch;
};

Shares sharesOf(const ProcessView &before, const ProcessView &after, int64_t wallNs) {
  const double ran = double(std::max<int64_t>(after.ranNs - before.ranNs, 0));
  const double starved = double(std::max<int64_t>(after.starvedNs - before.starvedNs, 0));
  // Several threads can wait at once.
  const double all = std::max({double(wallNs), ran + starved, 1.0});
  const double left = std::max({double(wallNs) - starved, ran, 1.0});
  return {starved / all, int64_t(std::log(std::max(all / left, 1.0)) * 1e9)};
}

/// A process is starved where it is apart as ranks are: further from its neighbour than the others
/// from each other, and the most between more than half of the looks.
void findStarved(const JobView &job, const Looks &earlier, SkewReport &report) {
  const size_t count = job.processes.size();
  std::vector<const JobView *> looks;
  for (const std::vector<JobView> &jobs : earlier)
    for (const JobView &look : jobs)
      if (look.job == job.job && look.ranks() == job.ranks() && look.processes.size() == count)
        looks.push_back(&look);
  looks.push_back(&job);
  if (count < kLeastRanks || looks.size() < kLooks)
    return;
  std::vector<std::vector<int64_t>> stretches(count), shares(count);
  std::vector<size_t> last(count);
  for (size_t look = 1; look < looks.size(); ++look) {
    for (size_t i = 0; i < count; ++i) {
      const Shares between = sharesOf(looks[look - 1]->processes[i], looks[look]->processes[i],
                                      looks[look]->nowNs - looks[look - 1]->nowNs);
      stretches[i].push_back(between.stretch);
      shares[i].push_back(int64_t(between.starved * 1e9));
    }
    const auto most =
        std::max_element(stretches.begin(), stretches.end(),
                         [](const auto &a, const auto &b) { return a.back() < b.back(); });
    ++last[size_t(most - stretches.begin())];
  }
  std::vector<int64_t> values;
  for (const std::vector<int64_t> &each : stretches)
    values.push_back(medianOf(each));
  const std::optional<Apart> apart = findApart(values);
  if (!apart || 2 * last[apart->index] < looks.size())
    return;
  Starved &starved = report.starved.emplace();
  starved.rank = job.processes[apart->index].firstLocal;
  starved.pid = job.processes[apart->index].pid;
  for (size_t i = 0; i < count; ++i) {
    const double share = double(medianOf(shares[i])) / 1e9;
    if (i == apart->index)
      starved.share = share;
    else
      starved.othersShare = std::max(starved.othersShare, share);
  }
}

std::string timeText(int64_t ns) {
  const double us = double(ns) / 1000;
  return std::abs(us) < 10'000 ? format("%.1f us", us) : format("%.1f ms", us / 1000);
}

} // namespace

SkewReport findStragglers(const JobView &job, const Looks &earlier) {
  SkewReport report;
  findStarved(job, earlier, report);
  const OwnTimes times(job);
  report.launches = times.ran.size();
  if (job.processes.front().kind == Kind::Gpus)
    report.whyNot = "how long launches take on GPUs is not shown";
  else if (times.ranks.size() < kLeastRanks)
    report.whyNot = format("%zu ranks are too few to say who is apart", times.ranks.size());
  else if (report.launches < kLeastLaunches)
    report.whyNot =
        format("%zu launches that all ranks have ended are too few to compare", report.launches);
  if (!report.whyNot.empty())
    return report;
  const std::optional<Straggler> rank = findSlowRank(times, report);
  const std::optional<Straggler> way = findSlowWay(times, report.launches);
  // A rank that is slow by one way is that way; one that is slow by more is the rank, and some way
  // of it is the slowest.
  const bool isSame = rank && way && rank->rank == way->rank;
  const bool isByWay = isSame && 2 * way->lateNs > rank->lateNs;
  if (rank && !isByWay)
    report.found.push_back(*rank);
  if (way && (!isSame || isByWay))
    report.found.push_back(*way);
  return report;
}

std::string textOf(const SkewReport &report) {
  std::string text;
  if (report.starved)
    text +=
        format("process %lld, rank %d, waits for a processor %.0f %% of the time, the others at "
               "most %.0f %%\n",
               static_cast<long long>(report.starved->pid), report.starved->rank,
               100 * report.starved->share, 100 * report.starved->othersShare);
  if (!report.whyNot.empty())
    return text + report.whyNot + "\n";
  for (const Straggler &slow : report.found) {
    text += format("rank %d is slow", slow.rank);
    if (slow.peer)
      text += format(" in what it sends to rank %d", *slow.peer);
    text += ": its launches take it " + timeText(slow.lateNs) + " more than the median";
    if (slow.deviations > 0)
      text += format(", %.0f median deviations", slow.deviations);
    text += "; the others are within " + timeText(slow.othersNs) +
            format("; apart in %zu of %zu launches\n", slow.launches, report.launches);
  }
  if (report.found.empty())
    text += format("no rank is apart from the others in %zu launches\n", report.launches);
  text += "  rank  over the median  slowest in\n";
  for (const RankSkew &rank : report.ranks)
    text += format("  %-5d %-16s %zu\n", rank.rank, timeText(rank.lateNs).c_str(), rank.last);
  return text;
}

} // namespace dtile::runtime::telemetry
