// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// In which layout tiles come from memory and go there, beside that in which they are computed.
#pragma once

#include "ir/core/ir.h"
#include "ir/core/layout.h"
#include "ir/machine/target_facts.h"

namespace dtile::passes {

/// Elements of `bytes` bytes that one thread reads or writes at once; `facts` may be null.
[[nodiscard]] unsigned accessElements(const TargetFacts *facts, unsigned bytes);

/// Whether a tile's last dimension is the one whose elements are neighbours in memory, as far as
/// its definition says.
[[nodiscard]] bool isRowMajor(const ir::Value &tile);

/// The layout of a tile that a load gives or a store takes, where it is computed in `computed`:
/// that itself if it uses memory well and warps do not repeat it, what lanes make of it where no
/// element can change warps, else none: rows, by way of shared memory.
[[nodiscard]] std::optional<ir::Layout>
accessLayout(const ir::Value &tile, const ir::Layout &computed, const TargetFacts *facts);

} // namespace dtile::passes
