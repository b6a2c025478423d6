// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Small mistakes that can be made in a kernel's communication, one at a time.
#pragma once

#include "ir/core/builder.h"

#include <string>
#include <vector>

namespace dtile::bench {

/// One mistake, by the operation (in the order of a walk over the kernel) and the operand that it
/// is made at.
struct Mutation {
  enum class Kind : uint8_t {
    DropNotify,
    DropAfter,
    DropAwait,
    DropOrder,
    OtherCell,
    OtherPeer,
    OtherIndex,
    LateFirst,
    ShortSlice,
    NotZeroed,
    SwapOrder,
    OtherCount,
    SmallerBuffer,
  } kind;
  unsigned op;
  unsigned operand;
};

[[nodiscard]] const char *mutationName(Mutation::Kind kind);
/// All mistakes that can be made in a kernel before its counts are derived.
[[nodiscard]] std::vector<Mutation> mutationsOf(ir::Op &kernel);
/// Makes one; gives the operation that it was made at.
const ir::Op *mutate(ir::Op &kernel, const Mutation &mutation);

} // namespace dtile::bench
