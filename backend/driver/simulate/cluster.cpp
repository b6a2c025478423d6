// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Finds machines and networks by name, and sees that the ranks fit into hosts.
#include "backend/driver/simulate/cluster.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

namespace dtile::driver {

namespace {

/// What compiles for a machine; no target where nothing does.
TargetArch targetOf(const TargetFacts &machine) {
  for (const backend::Target *target : backend::allTargets())
    for (const llvm::StringRef arch : target->archs())
      if (const TargetFacts *facts = target->facts(arch); facts && facts->sharesCode(machine))
        return {target, arch.str(), /*areMapped=*/false, /*splitsSums=*/true, &machine};
  return {};
}

/// Where nobody names one.
const TargetFacts &usualMachine() { return *findMachine("h200"); }

std::string machineNames() {
  std::vector<std::string> names;
  for (const TargetFacts &machine : allMachines())
    if (targetOf(machine).target && findHost(machine.name))
      names.push_back(machine.name.str());
  return llvm::join(names, ", ");
}

std::string networkNames() {
  std::vector<std::string> names;
  for (const NetworkFacts &network : allNetworks())
    names.push_back(network.name.str());
  return llvm::join(names, ", ");
}

} // namespace

std::optional<SimulatedCluster> findCluster(Session &session, llvm::ArrayRef<int64_t> axes) {
  const std::string &network = session.options.network;
  const bool isNetworkNamed = !network.empty();
  const auto refuse = [&](const std::string &why) {
    session.diagnostics.report(SourceLoc{}, diag::bad_cluster, why);
    return std::nullopt;
  };
  SimulatedCluster made;
  const TargetFacts &machine = session.options.machine ? *session.options.machine : usualMachine();
  made.target = targetOf(machine);
  made.cluster.host = findHost(machine.name);
  if (!made.target.target || !made.cluster.host)
    return refuse("knows no hosts of `" + machine.name.str() + "`; there is " + machineNames());
  made.cluster.machine = &machine;
  made.cluster.network = isNetworkNamed ? findNetwork(network) : nullptr;
  if (isNetworkNamed && !made.cluster.network)
    return refuse("knows no network `" + network + "`; there is " + networkNames());
  int64_t ranks = 1;
  for (const int64_t size : axes)
    ranks *= size;
  const int64_t most = made.cluster.host->ranks;
  made.cluster.ranks = ranks;
  made.cluster.axes.assign(axes.begin(), axes.end());
  const bool areOneHost = !isNetworkNamed || (axes.size() == 1 && ranks <= most);
  made.cluster.perHost = areOneHost ? ranks : axes.size() > 1 ? axes.back() : most;
  if (made.cluster.perHost > most)
    return refuse("`" + machine.name.str() + "` has hosts of " + std::to_string(most) +
                  " ranks, and " + std::to_string(made.cluster.perHost) +
                  " of the mesh are in one" +
                  (isNetworkNamed ? "" : "; name the network between hosts, as `h200+ib`"));
  if (ranks % made.cluster.perHost != 0)
    return refuse("`" + machine.name.str() + "` has hosts of " + std::to_string(most) +
                  " ranks, and " + std::to_string(ranks) + " are no whole number of hosts");
  if (made.cluster.perHost == ranks)
    made.cluster.network = nullptr;
  return made;
}

std::string text(const simulate::Cluster &cluster) {
  std::string text = std::to_string(cluster.ranks) + (cluster.ranks == 1 ? " rank" : " ranks") +
                     " of " + cluster.machine->name.str();
  if (!cluster.network)
    return text + ", in one host";
  return text + ", " + std::to_string(cluster.ranks / cluster.perHost) + " hosts of " +
         std::to_string(cluster.perHost) + " by " + cluster.network->name.str() + " (" +
         cluster.network->description.str() + ")";
}

} // namespace dtile::driver
