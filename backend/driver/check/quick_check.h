// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The checks of communication that a build makes.
#pragma once

#include "backend/driver/session.h"
#include "backend/driver/target_code.h"
#include "ir/protocol/check/check_protocol.h"

#include <future>

namespace dtile::driver {

/// Proves kernels, and runs those that are not proved, as `dtilec check` does; beside a proof it
/// runs less. It works beside the caller, who makes code from the scheduled module. They share
/// sources, which both only read, and the context of types and the memory of drift, which guard
/// themselves.
class QuickCheck {
public:
  /// Begins. `written` is what was lowered, before any pass; `scheduled` is what code is made of.
  /// What has room on the target that runs the fewest programs at once has room on all. `promises`
  /// is what the kernels ensure; of some of its runs it is looked whether that holds.
  QuickCheck(Session &session, std::unique_ptr<ir::Module> written, ir::Module &scheduled,
             llvm::ArrayRef<TargetArch> targets, std::vector<protocol::Promise> promises = {});
  QuickCheck(const QuickCheck &) = delete;
  QuickCheck &operator=(const QuickCheck &) = delete;

  /// Waits for its end, and reports what it found.
  [[nodiscard]] bool finish(Diagnostics &diagnostics);
  /// The same for variants of a kernel of which one has been reported: only what is wrong.
  [[nodiscard]] bool finishVariants(Diagnostics &diagnostics);

private:
  bool run();

  passes::DriftMemory &driftMemory_;
  std::unique_ptr<ir::Module> written_;
  std::unique_ptr<ir::Module> scheduled_;
  Diagnostics diagnostics_;
  protocol::CheckOptions options_;
  /// The last member: its end waits for the check, which uses the others.
  std::future<bool> isFine_;
};

} // namespace dtile::driver
