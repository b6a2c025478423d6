// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Size symbols of a kernel, solved from the arguments of a launch as the launch itself does.
#pragma once

#include "sema/tree/typed_ast.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"

#include <optional>
#include <vector>

namespace dtile::driver {

/// Sizes of one tensor.
using Sizes = std::vector<int64_t>;

/// `[128, 64]`
[[nodiscard]] std::string sizesText(llvm::ArrayRef<int64_t> sizes);

/// What the sizes of a launch come to on one rank.
struct SolvedSizes {
  /// Declared sizes of every parameter.
  std::vector<Sizes> params;
  /// Values of the kernel's size symbols; unset where only an output tells.
  std::vector<std::optional<int64_t>> symbols;
};

/// Solves them from the sizes of the arguments that were passed, and from scalars (one entry a
/// parameter, set for integers; or none where they are not known). An error says, in words, which
/// argument does not fit.
llvm::Expected<SolvedSizes> solveSizes(const sema::KernelInstance &kernel,
                                       llvm::ArrayRef<std::optional<Sizes>> passed,
                                       llvm::ArrayRef<std::optional<int64_t>> scalars,
                                       int64_t numRanks);

/// A number that clauses name: of sizes, W and scalars (one entry a parameter, set for integers).
/// Nothing where it is made otherwise.
[[nodiscard]] std::optional<int64_t> launchNumber(const sema::TExpr &e, const SolvedSizes &sizes,
                                                  llvm::ArrayRef<std::optional<int64_t>> scalars,
                                                  int64_t numRanks);

/// Whether a parameter is an argument of a launch: everything but scratch objects and signals.
[[nodiscard]] bool isLaunchArgument(const sema::KernelParam &param);
/// Whether the caller gives its value: a launch argument that is not `out`.
[[nodiscard]] bool isInput(const sema::KernelParam &param);
/// Whether a launch may change the caller's array.
[[nodiscard]] bool isWritten(const sema::KernelParam &param);

} // namespace dtile::driver
