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

class KernelLaunch final : public Launch {
public:
  KernelLaunch(const Cluster &cluster, ProgramShares shares) {
    plan_.cluster = cluster;
    plan_.shares = std::move(shares);
  }
  std::optional<Obstacle> read(Op &kernel, const KnownSizes &sizes);
  std::variant<Outcome, Obstacle> run(const Options &options) override;

private:
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
    space.steps.arithmetic.run(kLaunchLevel, space.launchWords.data());
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

std::variant<Outcome, Obstacle> KernelLaunch::run(const Options &options) {
  const Cluster &cluster = plan_.cluster;
  const int64_t period = cluster.network ? cluster.perHost : 1;
  if (period < cluster.ranks && !options.allRanks) {
    std::variant<Outcome, Failure> made = simulate(plan_, period, options);
    if (auto *outcome = std::get_if<Outcome>(&made))
      return std::move(*outcome);
    // What is only a matter of names is seen again with all ranks, or is gone.
  }
  const double bodies = bodiesOfRank() * double(cluster.ranks);
  if (bodies > kMostBodies)
    return Obstacle{plan_.kernelLoc, "its ranks do not do the same in turn, and " +
                                         std::to_string(int64_t(bodies)) +
                                         " bodies of all ranks are too many"};
  std::variant<Outcome, Failure> made = simulate(plan_, cluster.ranks, options);
  if (auto *outcome = std::get_if<Outcome>(&made))
    return std::move(*outcome);
  const Failure &failure = std::get<Failure>(made);
  return Obstacle{failure.loc.isValid() ? failure.loc : plan_.kernelLoc, failure.why};
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
