// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ir/machine/calibration.h"

#include <algorithm>

namespace dtile {
namespace {

using Number = std::optional<double>;
using Fit = decltype(Measurement::fit);

/// Bytes of a float, and of a row of load_alone and store_alone.
constexpr double kFloat = 4, kRow = 4096 * kFloat;
/// Additions of a row of add_alone.
constexpr double kAdditions = 256.0 * 4096;

Number positive(double number) { return number > 0 ? Number(number) : std::nullopt; }

/// So much more work in the larger launch.
Fit rateOf(double work) {
  return [work](double small, double large, const Timing &) -> Number {
    return large > small ? Number(work / (large - small)) : std::nullopt;
  };
}

/// So many more rounds, one after the other.
Fit latencyOf(double rounds) {
  return [rounds](double small, double large, const Timing &) {
    return positive((large - small) / rounds);
  };
}

/// Multiply-adds a nanosecond of a tile of `rows` and `columns` that takes `depth` of them a round,
/// without what a round costs besides (ir/model/op_cost.cpp: productTime, roundOverhead).
Fit productRateOf(double rows, double columns, double depth, double rounds, bool isGroup) {
  return [=](double small, double large, const Timing &known) -> Number {
    const double half = isGroup ? known.groupHalfColumns : known.warpHalfColumns;
    // A wgmma instruction takes 32 bytes of a row.
    const double besides =
        isGroup ? known.tmaRound + depth * 2 / 32 * known.groupIssue : known.asyncRound;
    const double round = (large - small) / rounds - besides;
    return round > 0 ? Number(rows * columns * depth * (1 + half / columns) / round) : std::nullopt;
  };
}

struct Table {
  /// Where bodies are fibers, time goes to arithmetic that GPUs do at once: less of it will do.
  bool isHost;
  std::vector<Measurement> rows = {};

  void add(llvm::StringRef field, std::string kernel, KernelSizes small, KernelSizes large,
           Fit fit) {
    rows.push_back({.field = findTimingField(field),
                    .kernel = std::move(kernel),
                    .small = std::move(small),
                    .large = std::move(large),
                    .fit = std::move(fit)});
  }
  /// The one of two sizes that fits the machine.
  [[nodiscard]] int64_t size(int64_t device, int64_t host) const { return isHost ? host : device; }
};

constexpr int64_t kKi = 1024, kMi = kKi * 1024;

void addMemory(Table &table) {
  // Both are larger than any L2 cache.
  const int64_t small = table.size(24 * kMi, kMi), large = table.size(64 * kMi, 8 * kMi);
  table.add("memoryRate", "read", {{"N", small}}, {{"N", large}},
            rateOf(double(large - small) * kFloat));
  const int64_t elements = table.size(4 * kMi, 256 * kKi);
  const int64_t few = 2, many = table.size(34, 10);
  table.add("cacheRate", "read_again", {{"N", elements}, {"R", few}},
            {{"N", elements}, {"R", many}}, rateOf(double((many - few) * elements) * kFloat));
  const int64_t rows = table.size(256, 16), moreRows = table.size(2048, 144);
  // Loads alone have twice the rate of what goes in and out.
  table.add("localRate", "load_alone", {{"K", rows}}, {{"K", moreRows}},
            rateOf(double(moreRows - rows) * kRow / 2));
  table.add("storeRate", "store_alone", {{"K", rows}}, {{"K", moreRows}},
            rateOf(double(moreRows - rows) * kRow));
  const int64_t links = table.size(8 * kMi, kMi), hops = 256, moreHops = 2304;
  table.add("memoryLatency", "chase", {{"K", hops}, {"N", links}}, {{"K", moreHops}, {"N", links}},
            latencyOf(double(moreHops - hops)));
}

void addArithmetic(Table &table, const TargetFacts &machine) {
  const int64_t few = 2, many = table.size(18, 4);
  table.add("elementRate", "add_alone", {{"K", few}}, {{"K", many}},
            rateOf(double(many - few) * kAdditions));
  // Tiles for half of the processors: with all of them the L2 cache may be what takes the time.
  const int64_t across = std::max<int64_t>(machine.processors / 16, 1);
  const bool isGroup = machine.groupRows > 0;
  const int64_t columns = isGroup ? 256 : 128, depth = isGroup ? 64 : 32;
  const int64_t shallow = table.size(1024, 64), deep = table.size(8192, 320);
  const KernelSizes plane = {{"M", table.size(8 * 128, 128)}, {"N", across * columns}};
  const auto with = [&](int64_t k) {
    KernelSizes sizes = plane;
    sizes.emplace_back("K", k);
    return sizes;
  };
  table.add(isGroup ? "groupRate" : "warpRate",
            isGroup ? "multiply_by_groups" : "multiply_by_warps", with(shallow), with(deep),
            productRateOf(128, double(columns), double(depth),
                          double(deep - shallow) / double(depth), isGroup));
}

void addRanks(Table &table, const TargetFacts &machine) {
  const int64_t part = 64 * kKi, whole = kMi;
  table.add(machine.copyBytes > 0 ? "bulkRate" : "threadsRate", "send_alone", {{"N", part}},
            {{"N", whole}}, rateOf(double(whole - part) * kFloat));
  const int64_t small = table.size(4 * kMi, 256 * kKi), large = table.size(16 * kMi, 2 * kMi);
  table.add("linkRate", "send", {{"N", small}}, {{"N", large}},
            rateOf(double(large - small) * kFloat));
  const int64_t few = table.size(64, 16), many = table.size(576, 144);
  table.add("notifyLatency", "tell", {{"K", few}}, {{"K", many}}, latencyOf(double(many - few)));
  table.add("peerLatency", "swap", {{"K", few}, {"N", 256}}, {{"K", many}, {"N", 256}},
            latencyOf(double(many - few)));
}

} // namespace

std::vector<Measurement> measurementsOf(const TargetFacts &machine, int64_t ranks) {
  Table table{.isHost = machine.processors == 0};
  table.add("launch", "idle", {{"N", 128}}, {},
            [](double small, double, const Timing &) { return positive(small); });
  addMemory(table);
  addArithmetic(table, machine);
  const size_t ofOne = table.rows.size();
  if (ranks > 1)
    addRanks(table, machine);
  for (size_t i = ofOne; i < table.rows.size(); ++i)
    table.rows[i].needsPeers = true;
  return std::move(table.rows);
}

} // namespace dtile
