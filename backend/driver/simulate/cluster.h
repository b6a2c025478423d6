// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Machines and networks of the command line, `h200+ib`.
#pragma once

#include "backend/driver/session.h"
#include "backend/driver/target_code.h"
#include "ir/simulate/simulation.h"

#include <optional>

namespace dtile::driver {

/// What a launch is simulated on.
struct SimulatedCluster {
  simulate::Cluster cluster;
  /// What compiles for the machine.
  TargetArch target;
};

/// The cluster of `--machine` for a mesh whose last axis is a host, where it has several; nothing
/// after reporting.
[[nodiscard]] std::optional<SimulatedCluster> findCluster(Session &session,
                                                          llvm::ArrayRef<int64_t> axes);

/// "64 ranks of h200, 8 hosts of 8 by ib (NDR InfiniBand, …)".
[[nodiscard]] std::string text(const simulate::Cluster &cluster);

} // namespace dtile::driver
