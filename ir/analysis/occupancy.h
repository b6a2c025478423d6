// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How many programs of a kernel a processor of a GPU should hold at once.
#pragma once

#include "ir/core/ir.h"

namespace dtile::ir {

/// Registers of a processor, of 32 bits.
inline constexpr int64_t kProcessorRegisters = 65536;

/// For how many programs of so many threads a processor's `registers` (of 32 bits) are to suffice.
///
/// 1 for kernels with products, which are the better the more registers a thread has, and for those
/// without tiles, whose copies are under way without threads. Others wait for memory and for other
/// ranks most of the time, and a program that waits does nothing else, so that more of them are
/// faster, as long as none spills: as many as have room for the tiles that a body needs at once.
/// Without that a compiler takes all registers that one program could have, for paths that never
/// run (rows that begin anywhere).
[[nodiscard]] int64_t residentPrograms(Op &kernel, int64_t registers, int64_t threads);

} // namespace dtile::ir
