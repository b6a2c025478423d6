// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Whether a kernel's outputs hold what it ensures, each addend once. Private to ir/protocol.
#pragma once

#include "ir/protocol/check/check_protocol.h"
#include "ir/protocol/check/launch_sizes.h"

namespace dtile::protocol {

/// What became of a kernel's promises.
struct KeptPromises {
  /// Those that hold in all runs.
  int64_t kept = 0;
  /// Numbers of ranks of these runs.
  std::vector<int> ranks;
  bool isRefused = false;
  /// Not all sizes were run.
  bool isCutShort = false;
  /// Why some could not be compared.
  std::vector<std::pair<const Promise *, std::string>> undecided;
};

/// Runs an inlined kernel, which has no race and does not hang, on sums of inputs instead of
/// numbers, and compares what its outputs hold. `work` is for all runs, in steps of the checker.
/// Where ranks are given, by who calls it, no others are run.
[[nodiscard]] KeptPromises checkPromises(ir::Op &kernel, llvm::ArrayRef<Promise> promises,
                                         llvm::ArrayRef<int> ranks, bool areRanksGiven,
                                         uint64_t work, Diagnostics &diagnostics);

} // namespace dtile::protocol
