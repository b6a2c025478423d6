// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Compile-time parameters whose values are the compiler's to choose.
#pragma once

#include "sema/context.h"

namespace dtile::sema {

/// Whether the default of a compile-time parameter is `auto` or `auto(…)`. A constant of the module
/// that is called `auto` means that constant.
[[nodiscard]] bool isChoice(const ModuleInfo &home, const ast::GenericParam &generic);

/// The values of `auto(64, 128)`, empty for `auto`; nothing after reporting.
[[nodiscard]] std::optional<std::vector<int64_t>> allowedValues(Context &context, ModuleInfo &home,
                                                                const ast::GenericParam &generic);

/// A value for the check of a declaration by itself: the first of `auto(64, 128)`, or 64.
[[nodiscard]] GenericValue unchosenValue(Context &context, ModuleInfo &home,
                                         const ast::GenericParam &generic);

/// The value that a choice of a kernel has where nobody chooses, by its use.
[[nodiscard]] GenericValue usualValue(const Choice &choice);

/// Checks the choices of a kernel: what is no number, or what callers see, is none.
void checkChoices(Context &context, ModuleInfo &home, const ast::KernelDecl &kernel);
/// Functions get their compile-time parameters from their callers: none is a choice.
void rejectChoices(Context &context, ModuleInfo &home, const ast::FnDecl &fn);

/// The choices of a kernel, in order, with how its text uses them.
[[nodiscard]] std::vector<Choice> choicesOf(Context &context, ModuleInfo &home,
                                            const ast::KernelDecl &kernel);

} // namespace dtile::sema
