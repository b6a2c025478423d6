// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Structures of options as programs of other versions have them.
#pragma once

#include "backend/runtime/errors.h"

#include <cstddef>
#include <cstdint>

namespace dtile::runtime {

/// More bytes of symmetric heap than any machine has; far from where sums overflow.
constexpr int64_t kMostSymmetricBytes = int64_t(1) << 46;

/// Copies the `known` bytes of options that this library knows from a caller's structure, which
/// begins with its size: what it lacks is zero, and what it has beyond must be. `least` is where
/// the fields end that the first version had.
Status copyOptions(const void *given, uint32_t least, uint32_t known, const char *initializer,
                   void *out);

inline Status readOptions(const dtile_team_options *given, dtile_team_options *out) {
  return copyOptions(given, offsetof(dtile_team_options, wait_graph), sizeof *out,
                     "DTILE_TEAM_OPTIONS_INIT", out);
}

inline Status readOptions(const dtile_device_options *given, dtile_device_options *out) {
  return copyOptions(given, sizeof *out, sizeof *out, "DTILE_DEVICE_OPTIONS_INIT", out);
}

} // namespace dtile::runtime
