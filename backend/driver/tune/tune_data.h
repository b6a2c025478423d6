// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Arguments of launches that are timed: random floats, and from files what has to make sense.
#pragma once

#include "backend/driver/execute/executor.h"
#include "backend/driver/session.h"
#include "backend/ndarray/ndarray.h"

#include <vector>

namespace dtile::driver {

/// For each parameter of a kernel and each rank an array; none for those that are no arguments.
using Arrays = std::vector<std::vector<ndarray::NDArray>>;

/// Arguments of these sizes (one list a parameter). Floats and bytes are random numbers. Scalars
/// and other integers are what `--arg` gives; integers that it does not give are random numbers of
/// those that the clauses of `kernel`, the instance's IR, allow. An error says what is missing.
[[nodiscard]] llvm::Expected<Arrays> makeArguments(const Options &options,
                                                   const sema::KernelInstance &instance,
                                                   ir::Op &kernel, llvm::ArrayRef<Sizes> sizes,
                                                   int ranks);

/// Launches with copies of the arguments. `results`, if given, gets the copies.
[[nodiscard]] LaunchResult launchWith(LoadedKernel &kernel, const sema::KernelInstance &instance,
                                      const Arrays &arguments, int count,
                                      Arrays *results = nullptr);

/// How what launches wrote differs, in words; empty where it does not. `isExact`: products are not
/// rounded to tf32.
[[nodiscard]] std::string difference(const sema::KernelInstance &instance, const Arrays &actual,
                                     const Arrays &expected, bool isExact);

} // namespace dtile::driver
