// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What of the checks of communication a build makes; `dtilec check` has the rest.
#pragma once

#include "backend/driver/target_code.h"
#include "ir/protocol/check_protocol.h"

#include <future>

namespace dtile::driver {

/// Runs beside the caller, who makes code from another copy of the module. Both only read what they
/// share: the sources, and the context of types, which guards itself.
class QuickCheck {
public:
  /// Begins. What has room on the target that runs the fewest programs at once has room on all.
  QuickCheck(const SourceManager &sources, ir::Module &module, llvm::ArrayRef<TargetArch> targets);
  QuickCheck(const QuickCheck &) = delete;
  QuickCheck &operator=(const QuickCheck &) = delete;

  /// Waits for its end, and reports what it found.
  [[nodiscard]] bool finish(Diagnostics &diagnostics);

private:
  std::unique_ptr<ir::Module> module_;
  Diagnostics diagnostics_;
  protocol::CheckOptions options_;
  /// The last member: its end waits for the check, which uses the others.
  std::future<bool> isFine_;
};

} // namespace dtile::driver
