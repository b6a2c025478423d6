// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What of a body comes before what, whatever is computed: program order, tokens, awaits. Private to
// ir/protocol/prove.
#pragma once

#include "ir/core/ir.h"

#include "llvm/ADT/SmallPtrSet.h"

#include <optional>
#include <vector>

namespace dtile::protocol::prove {

using ir::Op;
using ir::OpKind;
using ir::Value;

/// Whether `a` comes before `b` in program order where loops around both are in one iteration.
[[nodiscard]] bool isBefore(Op *a, Op *b);
/// Whether `op` runs whenever `other` does, in the same iteration of the loops around it: it stands
/// in a block around `other`.
[[nodiscard]] bool runsWith(Op *op, Op *other);

/// Whether the bodies of a space run one after another, in the order of their only position.
[[nodiscard]] bool runsInOrder(const Op &space);
/// Whether two ops stand in different arms of one `if`.
[[nodiscard]] bool areInArms(Op *a, Op *b);

/// The waits and transfers that tokens stand for; with the transfers, what these are after.
using TokenSources = llvm::SmallPtrSet<Op *, 8>;
[[nodiscard]] TokenSources sourcesOf(llvm::ArrayRef<Value *> tokens);
/// The same for all tokens among an op's operands.
[[nodiscard]] TokenSources tokensOf(const Op &op);

/// A wait that an op comes after, and by which op of its body: the wait is over when `by` runs,
/// and `by` runs before the op or is it.
struct WaitBefore {
  Op *wait = nullptr;
  Op *by = nullptr;
  /// `by` runs in an earlier iteration of this loop, which is around both; or, of a space, in an
  /// earlier body.
  Op *earlierOf = nullptr;
  /// Or in the same one.
  bool isSameToo = false;
};
/// The waits that an operation comes after.
[[nodiscard]] std::vector<WaitBefore> waitsBefore(Op *op);
/// The waits that a notify passes on: what all of its body that runs at once has come after, too.
[[nodiscard]] std::vector<WaitBefore> waitsReleased(Op *notify);
/// The waits without which the launch does not end.
[[nodiscard]] std::vector<WaitBefore> waitsOfEnd(Op &space);

/// The only loop that two ops of a body are both in; null where there is none, or more than one.
[[nodiscard]] Op *onlyLoopAround(Op *a, Op *b);

/// How a notify comes after what an access did.
enum class Release : uint8_t {
  No,
  /// Whatever their ranks.
  Yes,
  /// Where the notify goes to the rank that the access wrote to: a fence is between.
  SameRank
};
/// What a transfer does runs beside the body. A fence orders of it only what was sent, neither what
/// was read for that nor what a get brings.
enum class Course : uint8_t { AtOnce, Sent, Beside };
[[nodiscard]] Release releases(Op *notify, Op *access, Course course);

/// Whether the second of two ops of a body is ordered after the first, where loops around both are
/// in one iteration and the first comes first there.
[[nodiscard]] bool isOrdered(Op *first, bool firstIsAsync, Op *second);
/// Whether what the op does is over before the innermost loop around both goes on.
[[nodiscard]] bool isOverInIteration(Op *op, bool isAsync, Op *other);
/// How many iterations of the loop around both later, at the first, what the transfer does is over
/// when `other` runs: its token goes from iteration to iteration, and each awaits what comes.
/// Nothing where that is not known.
[[nodiscard]] std::optional<unsigned> iterationsUntilOver(Op *transfer, Op *other);
/// Whether an op of bodies that start after those of a transfer is after the token that these have
/// yielded, itself or by an await before it.
[[nodiscard]] bool isAfterYielded(Op *transfer, Op *later);
/// Whether what the op does is over when its body ends, for bodies that start after it.
[[nodiscard]] bool isOverInBody(Op *op, bool isAsync);

} // namespace dtile::protocol::prove
