// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads a kernel for a launch, and chooses which of its ranks are simulated.
#include "ir/simulate/simulation.h"

#include "ir/simulate/run.h"

#include "llvm/ADT/STLExtras.h"

namespace dtile::simulate {

using ir::Op;
using ir::OpKind;

namespace {

/// Bodies of all ranks that are simulated one by one where ranks do not correspond.
constexpr double kMostBodies = 2e8;
/// Of those that stand for others; beyond these, the order of waits may differ.
constexpr double kMostExactBodies = 1e6;

class KernelLaunch final : public Launch {
public:
  KernelLaunch(const Cluster &cluster, ProgramShares shares) {
    plan_.cluster = cluster;
    plan_.shares = std::move(shares);
  }
  std::optional<Obstacle> read(Op &kernel, const KnownSizes &sizes);
  std::variant<Outcome, Obstacle> run(const Options &options) override;

private:
  std::variant<Outcome, Failure> runFew(Likeness likeness, double mostBodies,
                                        const Options &options);
  /// Bodies of the launch on one rank.
  [[nodiscard]] double bodiesOfRank() const;

  Plan plan_;
};

std::optional<Obstacle> KernelLaunch::read(Op &kernel, const KnownSizes &sizes) {
  plan_.kernelLoc = kernel.loc();
  plan_.meets = kernel.get(ir::attr::entry_barrier);
  ir::walk(kernel, [&](Op &op) { plan_.hasCounts |= op.is(OpKind::Wait) && op.numOperands() > 1; });
  for (Op &op : kernel.body().ops()) {
    if (!op.is(OpKind::Space))
      continue;
    PlannedSpace &space = plan_.spaces.emplace_back();
    space.order = ir::TileOrder::fromSpace(op);
    if (op.has(ir::attr::after_all))
      for (const auto [i, other] : llvm::enumerate(plan_.spaces))
        if (other.steps.name == op.get(ir::attr::after_all))
          space.after = int32_t(i);
    if (auto obstacle = readSpace(op, *plan_.cluster.machine, sizes, double(plan_.shares.together),
                                  double(plan_.shares.running), space.steps, space.signals))
      return obstacle;
    space.launchWords = space.steps.arithmetic.initial();
    space.launchWords[size_t(space.steps.arithmetic.ranks())].integer = plan_.cluster.ranks;
    space.steps.arithmetic.run(model::kLaunchLevel, space.launchWords.data());
  }
  return std::nullopt;
}

double KernelLaunch::bodiesOfRank() const {
  double all = 0;
  for (const PlannedSpace &space : plan_.spaces) {
    double bodies = 1;
    for (const int64_t blocks : blocksOf(space, space.wordsOf(0)))
      bodies *= double(blocks);
    all += bodies;
  }
  return all;
}

/// With the fewest ranks that stand for all; what is against that where there are none.
std::variant<Outcome, Failure> KernelLaunch::runFew(Likeness likeness, double mostBodies,
                                                    const Options &options) {
  Failure last{plan_.kernelLoc, "its ranks do not do the same in turn"};
  // Who reads events knows ranks that stand for others by hosts.
  for (const Symmetry &symmetry :
       Symmetry::candidates(plan_.cluster, /*byHosts=*/bool(options.record))) {
    if (bodiesOfRank() * double(symmetry.count()) > mostBodies)
      break;
    std::variant<Outcome, Failure> made = simulate(plan_, symmetry, likeness, options);
    if (std::holds_alternative<Outcome>(made))
      return made;
    // What is only a matter of names is seen again with more ranks, or is gone.
    last = std::get<Failure>(std::move(made));
  }
  return last;
}

std::variant<Outcome, Obstacle> KernelLaunch::run(const Options &options) {
  const int64_t ranks = plan_.cluster.ranks;
  const double bodies = bodiesOfRank() * double(ranks);
  std::optional<Failure> why;
  const auto fewer = [&](Likeness likeness, double mostBodies) -> std::optional<Outcome> {
    auto made = runFew(likeness, mostBodies, options);
    if (auto *outcome = std::get_if<Outcome>(&made))
      return std::move(*outcome);
    why = std::get<Failure>(std::move(made));
    return std::nullopt;
  };
  if (ranks > 1 && !options.allRanks) {
    if (auto outcome = fewer(Likeness::Full, kMostExactBodies))
      return std::move(*outcome);
    // Who waits first for whom matters little: less than a user waits for all ranks.
    if (bodies > kMostExactBodies)
      if (auto outcome = fewer(Likeness::ButForWaits, kMostBodies)) {
        outcome->isClose = true;
        return std::move(*outcome);
      }
  }
  const auto obstacleOf = [&](const Failure &failure) {
    return Obstacle{failure.loc.isValid() ? failure.loc : plan_.kernelLoc, failure.why};
  };
  if (bodies > kMostBodies)
    return obstacleOf({why ? why->loc : plan_.kernelLoc,
                       (why ? why->why + ", and " : std::string()) +
                           std::to_string(int64_t(bodies)) + " bodies of all ranks are too many"});
  std::variant<Outcome, Failure> made =
      simulate(plan_, Symmetry::none(ranks), Likeness::Full, options);
  if (auto *outcome = std::get_if<Outcome>(&made))
    return std::move(*outcome);
  return obstacleOf(std::get<Failure>(made));
}

} // namespace

std::variant<std::unique_ptr<Launch>, Obstacle>
Launch::make(Op &kernel, const KnownSizes &sizes, const Cluster &cluster, ProgramShares shares) {
  auto made = std::make_unique<KernelLaunch>(cluster, std::move(shares));
  if (auto obstacle = made->read(kernel, sizes))
    return *obstacle;
  return std::unique_ptr<Launch>(std::move(made));
}

} // namespace dtile::simulate
