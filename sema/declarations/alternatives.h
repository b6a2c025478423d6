// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Kernels that are names for several others: `kernel all_reduce(…) = one_shot | two_shot;`. Each
// launch runs one of them.
#pragma once

#include "sema/context.h"

namespace dtile::sema {

/// The kernels that `kernel` is a name for, in order; names that are no such kernels are left out.
[[nodiscard]] llvm::SmallVector<const ast::KernelDecl *, 4>
alternativesOf(const ModuleInfo &home, const ast::KernelDecl &kernel);

/// Whether callers pass it: no signal, nor memory that the runtime gives.
[[nodiscard]] bool isPassed(const ast::Param &param);

/// Why one call does not serve two kernels that overlaps were joined to, in words; or empty.
[[nodiscard]] std::string differenceOfJoined(const ast::KernelDecl &first,
                                             const ast::KernelDecl &other);

/// What a kernel or plan ensures, as text.
[[nodiscard]] std::string promisesOf(llvm::ArrayRef<ast::ExpectStmt *> ensures);

/// Checks one alternative, which stands as `name` in the declaration; false after reporting.
bool checkAlternative(Context &context, const ast::KernelDecl &kernel, const ast::Ident &name,
                      const ast::KernelDecl &alternative);

/// Checks that every alternative is a kernel of the file with the same parameters for its callers,
/// and promises something.
void checkAlternatives(Context &context, const ModuleInfo &home, const ast::KernelDecl &kernel);

} // namespace dtile::sema
