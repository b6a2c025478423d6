// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What pass bound-drift has found of a kernel, in words that fit the kernel with other constants.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace dtile::passes {

/// Whether the kernel's own waits keep ranks together (protocol::DriftBound).
struct DriftAnswer {
  bool isBounded = false;
  /// The same with one more space that waits for all notifies, where sizes are needed.
  bool isBoundedTogether = false;
  bool readsStale = false;
  std::string reason;
  /// Parameter and dimension of each size that is needed.
  std::vector<std::pair<int64_t, int64_t>> needed;
  /// Parameters that go in turn.
  std::vector<int64_t> inTurn;
  friend bool operator==(const DriftAnswer &, const DriftAnswer &) = default;
};

} // namespace dtile::passes
