// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The loops of bodies, and what an iteration computes from its position and inputs alone: that can
// be computed ahead of it.
#pragma once

#include "ir/core/ir.h"

#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/SmallVector.h"

#include <optional>

namespace dtile::ir {

/// The `for` loops of spaces, inner ones after those around them.
[[nodiscard]] llvm::SmallVector<Op *, 8> loopsOfSpaces(Module &module);

/// Whether two loops are `for` loops over the same positions, in the same order.
[[nodiscard]] bool haveSamePositions(const Op &a, const Op &b);

/// Whether no two iterations of a `for` loop reach one element through a view that one op of its
/// body has: a tile or element that is further each time.
[[nodiscard]] bool movesPast(const Op &loop, const Value &view);

/// Ops of a loop's body, each after those that it uses.
using PositionChain = llvm::SmallSetVector<Op *, 8>;

/// Whether the op looks a number up that an input holds.
[[nodiscard]] bool isLookup(const Op &op);

/// What of the reads of inputs may be done ahead: of numbers (isLookup), or of tiles, too.
enum class Ahead : uint8_t { Numbers, Tiles };

/// Whether the op loads or gathers a tile of one dimension of numbers that an input holds, in words
/// that can be copied.
[[nodiscard]] bool isTileLookup(const Op &op);

/// Appends what an op of a loop's body (directly in it) needs of the body, itself last. False where
/// that is more than the loop's position, pure ops and look-ups: what the loop carries or loads
/// else, a rank that may not exist, ops with regions. `isVarying` is set where it is the position
/// at all.
[[nodiscard]] bool followsFromPosition(Op &op, PositionChain &chain, bool &isVarying,
                                       Ahead ahead = Ahead::Numbers);

/// The same of a gather of rows, each of whose numbers can be found by itself (isFoundByElement):
/// the chain has what that takes besides, and none of the tiles that the numbers stand in.
[[nodiscard]] bool rowsFollowFromPosition(Op &gather, PositionChain &chain, bool &isVarying);

/// The tile look-ups among what a gather's rows are found from. Nothing where one of them is only
/// known by another.
[[nodiscard]] std::optional<llvm::SmallSetVector<Op *, 2>> tileLookups(Op &gather);

} // namespace dtile::ir
