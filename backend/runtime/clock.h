// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Monotonic time.
#pragma once

#include <chrono>
#include <cstdint>

namespace dtile::runtime {

/// Nanoseconds since some moment before the process began.
inline int64_t nowNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

} // namespace dtile::runtime
