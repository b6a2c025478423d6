// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which launches a kernel's own numbers ask for: where it counts modulo 3, compares a rank with 8,
// or has four cells, runs must go beyond. Private to ir/protocol.
#pragma once

#include "ir/interpret/control_slice.h"

#include "llvm/ADT/MapVector.h"

#include <cstdint>
#include <set>
#include <vector>

namespace dtile::protocol {

/// What launches need so that each value goes beyond the constants that it meets.
struct ControlReach {
  /// Sizes and scalars that launches bind, by the op that does.
  llvm::MapVector<const ir::Op *, std::set<int64_t>> sizes;
  /// Numbers of ranks.
  std::set<int64_t> ranks;
  /// Launches, back to back; 0 where the kernel does not ask for its epoch.
  int64_t launches = 0;
  /// Operations whose constant is too large for runs.
  std::vector<const ir::Op *> beyond;
};

/// Follows each constant `c` of the kernel's control back to the sizes, ranks and epochs that the
/// other side is made of: a remainder or quotient by `c` is to see numbers of at least 2 c (c where
/// the number of ranks makes them), a comparison with `c` both c and c + 1, a smaller or larger of
/// two c + 1, a position in `c` cells or elements c, a cast to few bits the first number that these
/// do not hold, a window of `c` positions c + 1.
[[nodiscard]] ControlReach reachOfControl(ir::Op &kernel, const interpret::ControlSlice &slice);

} // namespace dtile::protocol
