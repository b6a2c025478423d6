// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Who notifies a signal, as the descriptor of its kernel says.
#pragma once

#include "backend/runtime/kernel_abi.h"
#include "backend/runtime/telemetry/block.h"

#include <cstdint>
#include <string>

namespace dtile::runtime::telemetry {

struct Senders {
  /// Roles with commas between, and the first place of a notify.
  std::string roles, place;
  /// How a cell says which rank it is (dtile_notify_from); places that differ are anybody.
  int32_t from = DTILE_FROM_ANYBODY;
  int64_t value = 0;
};

/// Of parameter `signal`.
[[nodiscard]] Senders sendersOf(const dtile_kernel_desc &desc, int32_t signal);

/// Says in `wait`, whose cell is known, which rank notifies it.
void findSender(int32_t from, int64_t value, int32_t rank, int32_t ranks, Wait &wait);

} // namespace dtile::runtime::telemetry
