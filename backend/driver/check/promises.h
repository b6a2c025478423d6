// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What kernels ensure, as the checker follows it.
#pragma once

#include "ir/protocol/check/promise.h"
#include "sema/sema.h"
#include "sema/tree/typed_ast.h"

#include "llvm/ADT/ArrayRef.h"

namespace dtile::driver {

/// The `ensures` clauses of kernels, each under its instance's name.
std::vector<protocol::Promise> promisesOf(const sema::Program &program,
                                          llvm::ArrayRef<const sema::KernelInstance *> kernels);

} // namespace dtile::driver
