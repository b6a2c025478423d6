// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Whether what a load reads exists.
#pragma once

#include "ir/core/ir.h"

namespace dtile::protocol {

/// Whether all positions of a dimension of what a load reads exist in every launch: none is past a
/// limit or an edge. False where that is not shown. The kernel is inlined.
[[nodiscard]] bool isWhole(ir::Op &load, unsigned dim);
/// Whether such a dimension is cut from a range or a block at all, whose end is known.
[[nodiscard]] bool hasKnownEnd(ir::Op &load, unsigned dim);

} // namespace dtile::protocol
