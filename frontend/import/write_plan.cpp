// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The plan of an all-gather: along which ranks each chunk comes to each rank. The algorithm is run
// on names of chunks; buffers, thread blocks and the order of steps are left behind, as overlaps
// derive what a plan's transfers wait for.
#include "frontend/import/algorithm.h"
#include "frontend/import/closed_forms.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <tuple>

namespace dtile::imported {

namespace {

/// Where a chunk stands: rank, buffer, and its place there, or the message of a box and its place.
using Place = std::tuple<int, Buffer, int, int64_t>;

/// How a chunk has come to a rank: straight from `from`, in round `level` of transfers, which wait
/// for those of the rounds before.
struct Arrival {
  int from = -1;
  int level = 0;
};

/// What a rank sends at one level: the rank that it goes to, and the rank whose chunk it is.
struct Transfer {
  int to = 0;
  int64_t owner = 0;
};

class PlanWriter {
public:
  explicit PlanWriter(const Algorithm &algorithm) : a_(algorithm) {}

  std::string write() {
    if (a_.collective != Collective::AllGather || a_.inputChunks == 0 ||
        a_.outputChunks != a_.ranks * a_.inputChunks || !run() || !findLevels())
      return "";
    const std::string name = nameOf(a_) + "_plan";
    std::string text = "\n/// The same for `overlap`: who passes whose rows on to whom.\nplan " +
                       name +
                       "<CHUNK = auto>(shard: in T[S, K], x: scratch symm T[W, S, K]) {\n"
                       "requires W == " +
                       std::to_string(a_.ranks) +
                       ";\nrole own over (m in S by CHUNK) { put(shard[m, :], x[rank(), m, :]); "
                       "}\n";
    for (size_t level = 1; level < levels_.size(); ++level)
      text += writeLevel(level);
    return text + "ensures x ~= all_gather(shard);\n}\n";
  }

private:
  const Algorithm &a_;
  std::map<Place, int64_t> chunks_;
  /// By rank and chunk.
  std::map<std::pair<int, int64_t>, Arrival> arrivals_;
  /// By level, then by rank.
  std::vector<std::vector<std::vector<Transfer>>> levels_;

  [[nodiscard]] static Place place(const Region &region, int64_t i) {
    const bool isBox = region.buffer == Buffer::Box;
    return {region.rank, region.buffer, isBox ? region.event : 0, isBox ? i : region.index + i};
  }

  void begin() {
    for (int rank = 0; rank < a_.ranks; ++rank)
      for (int64_t i = 0; i < a_.inputChunks; ++i) {
        const int64_t chunk = rank * a_.inputChunks + i;
        if (a_.inPlace)
          chunks_[{rank, Buffer::Output, 0, chunk}] = chunk;
        else
          chunks_[{rank, Buffer::Input, 0, i}] = chunk;
        arrivals_[{rank, chunk}] = {};
      }
  }

  /// Runs all steps, in an order that their waits allow. Whether they end, and leave each chunk
  /// where it belongs.
  bool run() {
    begin();
    // The round in which an event happens, and that of the last event for which a block has waited.
    std::vector<int> happened(a_.events.size()), waited(a_.blocks.size());
    std::vector<int64_t> missing(a_.events.size());
    for (const ThreadBlock &block : a_.blocks)
      for (const Step &step : block.steps)
        for (const int event : step.notifies)
          ++missing[size_t(event)];
    std::vector<size_t> next(a_.blocks.size());
    bool isMoving = true;
    while (isMoving) {
      isMoving = false;
      for (size_t b = 0; b < next.size(); ++b) {
        const std::vector<Step> &steps = a_.blocks[b].steps;
        for (; next[b] < steps.size(); ++next[b]) {
          const Step &step = steps[next[b]];
          if (llvm::any_of(step.waits, [&](int event) { return missing[size_t(event)] > 0; }))
            break;
          for (const int event : step.waits)
            waited[b] = std::max(waited[b], happened[size_t(event)]);
          if (!move(step, waited[b] + 1))
            return false;
          const int round = waited[b] + (isTransfer(step) ? 1 : 0);
          for (const int event : step.notifies) {
            --missing[size_t(event)];
            happened[size_t(event)] = std::max(happened[size_t(event)], round);
          }
          isMoving = true;
        }
      }
    }
    for (size_t b = 0; b < next.size(); ++b)
      if (next[b] < a_.blocks[b].steps.size())
        return false;
    for (int rank = 0; rank < a_.ranks; ++rank)
      for (int64_t chunk = 0; chunk < a_.outputChunks; ++chunk) {
        const auto there = chunks_.find({rank, Buffer::Output, 0, chunk});
        if (there == chunks_.end() || there->second != chunk)
          return false;
      }
    return true;
  }

  static bool isTransfer(const Step &step) {
    return llvm::any_of(step.targets, [&](const Region &target) {
      return llvm::any_of(step.sources,
                          [&](const Region &source) { return source.rank != target.rank; });
    });
  }

  /// Whether the step only copies chunks that are there. Those that change ranks do in `round`.
  bool move(const Step &step, int round) {
    if (step.targets.empty())
      return true;
    if (step.sources.size() != 1)
      return false;
    const Region &source = step.sources.front();
    for (int64_t i = 0; i < source.count; ++i) {
      const auto found = chunks_.find(place(source, i));
      if (found == chunks_.end())
        return false;
      const int64_t chunk = found->second;
      for (const Region &target : step.targets) {
        chunks_[place(target, i)] = chunk;
        // What comes a second time is not sent by the plan.
        arrivals_.try_emplace({target.rank, chunk}, Arrival{source.rank, round});
      }
    }
    return true;
  }

  /// Whether the chunks of a rank go the same way.
  bool findLevels() {
    for (const auto &[where, arrival] : arrivals_) {
      const auto [rank, chunk] = where;
      const int64_t owner = chunk / a_.inputChunks;
      const Arrival &first = arrivals_.at({rank, owner * a_.inputChunks});
      if (first.from != arrival.from || first.level != arrival.level)
        return false;
      if (arrival.from < 0 || chunk % a_.inputChunks != 0)
        continue;
      if (size_t(arrival.level) >= levels_.size())
        levels_.resize(size_t(arrival.level) + 1);
      auto &level = levels_[size_t(arrival.level)];
      level.resize(size_t(a_.ranks));
      level[size_t(arrival.from)].push_back({.to = rank, .owner = owner});
    }
    return true;
  }

  /// Sorts the transfers of each rank by how far their ranks are from it.
  static void sort(std::vector<std::vector<Transfer>> &level, bool byBits) {
    const auto ranks = int64_t(level.size());
    for (int64_t rank = 0; rank < ranks; ++rank) {
      const auto distance = [&](int64_t other) {
        return byBits ? other ^ rank : (other - rank + ranks) % ranks;
      };
      const auto key = [&](const Transfer &transfer) {
        return std::pair(distance(transfer.to), distance(transfer.owner));
      };
      llvm::sort(level[size_t(rank)],
                 [&](const Transfer &x, const Transfer &y) { return key(x) < key(y); });
    }
  }

  [[nodiscard]] std::vector<int64_t> moduli() const {
    std::vector<int64_t> all;
    for (int64_t group = 2; group <= a_.ranks; ++group)
      if (a_.ranks % group == 0)
        all.push_back(group);
    return all;
  }

  /// Expressions of the rank and of the owner of transfers.
  using Expressions = std::array<std::string, 2>;

  /// One for all transfers of a level, the i-th of a rank as turn i; none where some ranks have
  /// fewer of them.
  std::optional<Expressions> turnExpressions(llvm::ArrayRef<std::vector<Transfer>> level) const {
    std::vector<Point> to, owner;
    for (size_t rank = 0; rank < level.size(); ++rank) {
      if (level[rank].size() != level.front().size())
        return std::nullopt;
      for (const auto &[turn, transfer] : llvm::enumerate(level[rank])) {
        to.push_back({.rank = int64_t(rank), .turn = int64_t(turn), .value = transfer.to});
        owner.push_back({.rank = int64_t(rank), .turn = int64_t(turn), .value = transfer.owner});
      }
    }
    auto first = closedForm(to, moduli()), second = closedForm(owner, moduli());
    if (!first || !second)
      return std::nullopt;
    return Expressions{std::move(*first), std::move(*second)};
  }

  std::string writeLevel(size_t number) {
    std::vector<std::vector<Transfer>> &level = levels_[number];
    const std::string name = "step" + std::to_string(number);
    size_t most = 0;
    for (const std::vector<Transfer> &transfers : level)
      most = std::max(most, transfers.size());
    for (const bool byBits : {false, true}) {
      sort(level, byBits);
      if (const auto one = turnExpressions(level))
        return writeRole(name, *one, most > 1 ? "i in 0.." + std::to_string(most) + ", " : "", "");
    }
    sort(level, /*byBits=*/false);
    std::string text;
    for (size_t turn = 0; turn < most; ++turn)
      text += writeRole(name + "_" + std::to_string(turn), level, turn);
    return text;
  }

  /// A role of the i-th transfers of all ranks that have so many.
  std::string writeRole(const std::string &name, llvm::ArrayRef<std::vector<Transfer>> level,
                        size_t turn) const {
    std::vector<Point> points[2];
    std::vector<int64_t> ranks;
    for (int64_t rank = 0; rank < a_.ranks; ++rank) {
      const std::vector<Transfer> &transfers = level[size_t(rank)];
      if (turn >= transfers.size())
        continue;
      ranks.push_back(rank);
      points[0].push_back({.rank = rank, .turn = 0, .value = transfers[turn].to});
      points[1].push_back({.rank = rank, .turn = 0, .value = transfers[turn].owner});
    }
    Expressions expressions;
    for (size_t e = 0; e < expressions.size(); ++e) {
      const auto form = closedForm(points[e], moduli());
      expressions[e] = form ? *form : tableForm(points[e], a_.ranks);
    }
    const bool isEveryone = int(ranks.size()) == a_.ranks;
    return writeRole(name, expressions, "", isEveryone ? "" : rankCondition(ranks, a_.ranks));
  }

  static std::string writeRole(const std::string &name, const Expressions &expressions,
                               const std::string &turns, const std::string &condition) {
    const auto &[to, owner] = expressions;
    // What a rank sends of its own is the shard, for which nothing waits.
    const bool isOwn = owner == "r";
    const std::string rows = isOwn ? "[r, m, :]" : "[c, m, :]";
    const std::string sends = (isOwn ? "" : "let c = " + owner + ";\n") + "put(" +
                              (isOwn ? "shard[m, :]" : "x" + rows) + ", x@(" + to + ")" + rows +
                              ");\n";
    std::string text = "role " + name + " over (" + turns + "m in S by CHUNK) {\n";
    if ((to + owner + condition).find('r') != std::string::npos)
      text += "let r = rank();\n";
    return text + (condition.empty() ? sends : "if " + condition + " {\n" + sends + "}\n") + "}\n";
  }
};

} // namespace

std::string writePlan(const Algorithm &algorithm) { return PlanWriter(algorithm).write(); }

} // namespace dtile::imported
