// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What happens when a kernel runs in many schedules: what the checker's verdicts are judged by.
#pragma once

#include "ir/core/ir.h"
#include "ir/protocol/check/launch_sizes.h"

#include <cstdint>
#include <string>
#include <vector>

namespace dtile::bench {

/// One run: everything that is needed to do it again.
struct Case {
  int ranks = 1;
  protocol::SizeValues values;
  int64_t launches = 1;
  unsigned round = 0;
};

/// Runs of one kernel, each compared with the one of its ranks, sizes and launches that takes
/// bodies in order and lets transfers land at once.
class ScheduleRuns {
public:
  /// `kernel` is of `module`, with derived counts; `seed` chooses schedules.
  ScheduleRuns(ir::Module &module, ir::Op &kernel, uint64_t seed);
  ~ScheduleRuns();

  /// Three ranks at most, few sizes, one launch and several: in order, and so many schedules.
  void runFew(unsigned rounds);
  /// More ranks, more sizes, more launches and schedules, until so many steps are spent.
  void runAdversarial(uint64_t steps);

  /// A run hung or trapped, or two schedules gave different results.
  [[nodiscard]] bool isUnsafe() const { return isUnsafe_; }
  /// What happened, and with which ranks, sizes and schedule; empty where nothing did.
  [[nodiscard]] const std::string &evidence() const { return evidence_; }
  /// Outcomes of `runFew`, one for each choice of ranks, sizes and launches.
  [[nodiscard]] const std::vector<std::string> &outcomes() const { return outcomes_; }
  [[nodiscard]] int64_t runs() const { return runs_; }
  /// Inputs get elements that are made up, so what data decides is only seen for these. Launches
  /// for which no elements are known that clauses allow are left out. False where that leaves no
  /// launch of several ranks.
  [[nodiscard]] bool hasElements() const { return !lacksElements_ || hasRunTogether_; }

private:
  std::string outcome(const Case &at);
  /// Runs a case; false when it shows that the kernel is unsafe.
  bool compare(const Case &at, std::string &first);

  ir::Module &module_;
  ir::Op &kernel_;
  protocol::LaunchSizes sizes_;
  uint64_t seed_;
  /// The kernel with its waits as late, and its transfers as early, as their tokens allow: a body
  /// by itself never does what comes later in it first.
  std::unique_ptr<ir::Module> reordered_;
  bool isUnsafe_ = false;
  /// Who comes first gets the first number of a counter: then results may depend on the schedule.
  bool mayDiffer_ = false;
  bool lacksElements_ = false;
  bool hasRunTogether_ = false;
  std::string evidence_;
  std::vector<std::string> outcomes_;
  int64_t runs_ = 0;
  uint64_t steps_ = 0;
  uint64_t mostSteps_;
};

} // namespace dtile::bench
