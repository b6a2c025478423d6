// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Whether the arguments of a test's launch are as the kernel requires. Sizes and scalars are the
// launch's own to check.
#pragma once

#include "backend/driver/execute/declared_sizes.h"
#include "backend/driver/testing/test_values.h"

namespace dtile::driver {

/// A clause about elements that does not hold.
struct BrokenClause {
  const sema::Clause *clause = nullptr;
  int rank = 0;
  /// "`starts[4]` is 2, and `starts[3]` is 3"
  std::string why;
};

/// The first; `inputs` has an entry a parameter, `sizes` one a rank.
[[nodiscard]] std::optional<BrokenClause>
findBrokenClause(const sema::KernelInstance &kernel,
                 llvm::ArrayRef<std::optional<TestValue>> inputs,
                 llvm::ArrayRef<SolvedSizes> sizes);

} // namespace dtile::driver
