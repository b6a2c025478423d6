// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Chakra execution traces (github.com/mlcommons/chakra, schema/protobuf/et_def.proto), and the
// inputs beside them with which ASTRA-sim (github.com/astra-sim/astra-sim) runs them.
#pragma once

#include "backend/driver/session.h"
#include "backend/driver/simulate/trace_graph.h"

namespace dtile::driver {

/// Writes one trace a rank, `NAME.RANK.et`, and `network.yml`, `system.json` and `memory.json`,
/// into a folder that is made where it is not there. False after reporting.
[[nodiscard]] bool writeChakraFiles(Session &session, const std::string &folder,
                                    const std::string &name, const simulate::Cluster &cluster,
                                    const TraceGraph &graph);

} // namespace dtile::driver
