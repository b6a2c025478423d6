// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Finds the telemetry of the processes of this machine, and joins those of one job.
#pragma once

#include "backend/runtime/telemetry/read_block.h"

#include <cstdint>
#include <string>
#include <vector>

namespace dtile::runtime::telemetry {

/// The processes of a job that run here, by first rank.
struct JobView {
  uint64_t job = 0;
  /// When it was looked at.
  int64_t nowNs = 0;
  std::vector<ProcessView> processes;

  [[nodiscard]] int32_t ranks() const { return processes.front().ranks; }
  /// Null: no process here has it.
  [[nodiscard]] const RankView *rank(int32_t rank) const;
  [[nodiscard]] const ProcessView *processOf(int32_t rank) const;
};

/// What was looked at and is not shown, a line each.
using Notes = std::vector<std::string>;

/// All that this user may read, oldest first. Reads only: nothing is written anywhere, and no
/// process is stopped or asked.
[[nodiscard]] std::vector<JobView> findJobs(Notes *notes);

/// The same of these processes.
[[nodiscard]] std::vector<JobView> joinJobs(std::vector<ProcessView> processes, Notes *notes);

} // namespace dtile::runtime::telemetry
