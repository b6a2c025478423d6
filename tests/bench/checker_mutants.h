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
#define MUTATION(enumerator, id, meaning) enumerator,
#include "checker_mutants.def"
  } kind;
  unsigned op;
  unsigned operand;
  /// By how much, or to what; the kind says which.
  int by = 0;
};

/// The name in results, as `drop-notify`, and what it means.
[[nodiscard]] const char *mutationId(Mutation::Kind kind);
[[nodiscard]] const char *mutationName(Mutation::Kind kind);
/// `drop-notify@12.0`, with what it is changed by behind a colon where there is a choice.
[[nodiscard]] std::string mutationText(const Mutation &mutation);
/// All mistakes that can be made in a kernel before its counts are derived.
[[nodiscard]] std::vector<Mutation> mutationsOf(ir::Op &kernel);
/// Makes some, of different operations. False where one cannot be made.
[[nodiscard]] bool mutate(ir::Op &kernel, llvm::ArrayRef<Mutation> mutations);

} // namespace dtile::bench
