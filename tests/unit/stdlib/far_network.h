// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Stands for NVSHMEM's device functions where ranks are memory of this process: those of other
// hosts are not mapped, and what is sent to them lands as late as the library allows, in any order
// that it allows. Threads are not ordered with each other: a fence or quiet is of the thread that
// calls it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace dtile::test {

/// Heaps of the ranks, of `bytes` bytes each; every `ranksAHost` of them are of one host.
void openFarNetwork(const std::vector<void *> &heaps, size_t bytes, int ranksAHost, unsigned seed);
/// Messages that have been sent since it was opened.
[[nodiscard]] int64_t farMessages();
/// How often a thread has waited for what it had sent since its last wait: at a quiet, and at a
/// fence, where NVSHMEM may wait as well.
[[nodiscard]] int64_t farWaits();
/// Whether memory is still to be read by what is on its way.
[[nodiscard]] bool areFarSourcesInUse();
/// Some of what is on its way lands. Called where threads wait.
void stepFarNetwork();
/// What tells threads of the emulated machine apart.
[[nodiscard]] const void *farThread();

} // namespace dtile::test
