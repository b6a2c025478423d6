// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A function's call by a test as a kernel: tests compute with functions by what bodies do.
#pragma once

#include "sema/context.h"

namespace dtile::sema {

/// The function that an expression names here: `f`, `module.f`, or `f.reference` of an `extern fn`;
/// null for all else.
[[nodiscard]] const ast::FnDecl *functionNamed(const ModuleInfo &module, const ast::Expr *callee);

/// A kernel that loads each argument whole and calls the function. With `results`, the types of
/// what that gives, it stores each to an output; numbers are tensors of one element.
const ast::KernelDecl *kernelOfCall(Context &context, ModuleInfo &home, const ast::FnDecl &fn,
                                    const FunctionCall &call, llvm::ArrayRef<Type> results);

} // namespace dtile::sema
