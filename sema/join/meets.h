// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `barrier(local);`: all ranks along one axis of the mesh meet.
#pragma once

#include "frontend/ast/ast.h"

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringSet.h"

namespace dtile::join {

/// Puts notifies and a wait in place of each barrier along an axis, and adds the signals that these
/// need to `params`. `names` are all that the kernel has, `prologue` what stands before its roles.
/// Calls back with barriers that stand where that does not do, and why; they stay.
void meetAlongAxes(llvm::ArrayRef<ast::Param> &params, llvm::ArrayRef<ast::Role *> &roles,
                   llvm::ArrayRef<ast::Stmt *> prologue, const llvm::StringSet<> &names,
                   ast::Arena &arena,
                   llvm::function_ref<void(const ast::CallExpr &barrier, llvm::StringRef axis,
                                           llvm::StringRef why)>
                       refuse);

} // namespace dtile::join
