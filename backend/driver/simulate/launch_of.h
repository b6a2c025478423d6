// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The launch that the command line asks to simulate.
#pragma once

#include "backend/driver/compile.h"
#include "backend/driver/simulate/cluster.h"

#include <memory>
#include <string>

namespace dtile::driver {

struct SimulatedLaunch {
  /// As its author wrote it.
  std::string kernel;
  const sema::KernelInstance *instance = nullptr;
  /// "BM=128 BN=256": integers that its text, the command line or the model gives.
  std::string constants;
  /// The model has chosen some of them for these sizes.
  bool isChosen = false;
  simulate::Cluster cluster;
  LoweredModule lowered;
  std::unique_ptr<ir::Module> module;
  ir::Op *op = nullptr;
  std::unique_ptr<simulate::Launch> launch;
};

/// The kernel of `--kernel`, with `--const`, `--sizes`, `--mesh` and `--machine`; nothing after
/// reporting.
[[nodiscard]] std::optional<SimulatedLaunch> launchOf(Session &session, sema::Program &program);

} // namespace dtile::driver
