// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The watch of a job whose processes a provider of symmetric memory has brought together.
#pragma once

#include "backend/runtime/job/rendezvous.h"
#include "backend/runtime/shmem/shmem.h"

#include <cstdint>
#include <memory>

namespace dtile::runtime {

/// Collective. The processes tell each other by the provider where they meet, and a key that no
/// other process has. Null, in all of them, where they do not meet (a network that passes nothing
/// but the provider's messages): then failures are noticed by waits that take too long.
std::unique_ptr<Rendezvous> watchProvider(dtile_shmem &shmem);

} // namespace dtile::runtime
