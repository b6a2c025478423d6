// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Questions about what an op touches: the object of a view or signal, and the rank that it is on.
#pragma once

#include "ir/core/ir.h"

namespace dtile::ir {

/// The `param` or `signal_param` op that a view or signal value comes from; null where it comes
/// from elsewhere (a function's parameter), or from one of two.
[[nodiscard]] Op *objectOf(Value *viewOrSignal);
/// Whether an op loads or gathers what no rank writes in a launch: of an input, after acquires at
/// most. Those order what uses the value: the read may be done, as often as one likes, wherever its
/// operands are there.
[[nodiscard]] bool isReadOfInput(const Op &op);
/// The same of loads alone.
[[nodiscard]] bool isLoadOfInput(const Op &op);
/// All of which it may be a part: more than one where `view.select` chooses; a null among them is
/// one that is not known.
[[nodiscard]] llvm::SmallVector<Op *, 2> objectsOf(const Value *viewOrSignal);
/// The `view.at` or `sig.at` through which the value reaches a rank; null when it is this rank's
/// own.
[[nodiscard]] Op *rankSelectionOf(Value *viewOrSignal);
/// What is said where a coordinate of such an op is outside of its axis, the `axis`-th of `axes`.
[[nodiscard]] std::string outsideAxisText(const Op &rankSelection, size_t axis,
                                          llvm::StringRef coordinate, llvm::StringRef size);
/// Whether two views may share bytes: their objects are the same, or unknown. Different parameters
/// are different memory; a launch that breaks this where one of them is written is refused.
[[nodiscard]] bool mayAlias(Value *a, Value *b);
/// The view that a memory op writes (store, scatter, atomic, put, get, reduce_add), or null.
[[nodiscard]] Value *writtenView(const Op &op);
/// The views that a memory op reads.
[[nodiscard]] llvm::SmallVector<Value *, 2> readViews(const Op &op);
/// The cells of a notify, put_signal or wait; null for other ops.
[[nodiscard]] Value *cellsOf(const Op &op);

/// The puts of what this rank has that a notify of one cell is after, where all that it is after
/// are such puts to the rank that it notifies; empty where it is after anything else. Once the cell
/// shows the notify, they have landed: their tokens say no more than that. A put_signal may be
/// both.
[[nodiscard]] llvm::SmallVector<Op *, 2> putsToldBy(const Op &notify);
/// The notify that tells of a put as above, or null.
[[nodiscard]] Op *notifyToldOf(const Op &put);

/// Whether a body can leave out what an op does: it writes or tells, and gives nothing but tokens.
[[nodiscard]] bool canBeLeftOut(const Op &op);
/// Whether the bodies of a space can go on to their ends, without harm, where a wait or a check has
/// failed: what they do to memory is left to the epilogue warp, or can be left out.
[[nodiscard]] bool canGoOnAfterFailures(const Op &space);

/// Whether a loop is the epilogue warp's alone, which sends a tile to each rank or notifies each.
[[nodiscard]] bool isLoopOfEpilogue(const Op &op);
/// What stores a tile for the epilogue warp: the op, or one in that loop. Null: nothing.
[[nodiscard]] Op *tileStoreOfEpilogue(Op &op);

} // namespace dtile::ir
