// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How much memory this process can still have. Asked before something large is made, so that what
// does not fit is a message about that thing, and not the end of the process by the system's hand.
#pragma once

#include "llvm/Support/Error.h"

#include <cstdint>

namespace dtile {

/// Bytes that this process can still have: what the machine has left, what its control group may
/// take, what its own limits allow. The largest number where the system does not say.
[[nodiscard]] uint64_t availableMemory();

/// Nothing where so many bytes can be had; an error says how many there are. Small amounts are not
/// looked at.
[[nodiscard]] llvm::Error checkMemory(uint64_t bytes);

/// "12.5 GB".
[[nodiscard]] std::string bytesText(uint64_t bytes);

} // namespace dtile
