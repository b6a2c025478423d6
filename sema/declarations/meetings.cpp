// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sema/declarations/meetings.h"

#include "frontend/ast/mesh.h"
#include "sema/join/meets.h"
#include "sema/join/names.h"

namespace dtile::sema {

void expandMeetings(Context &context) {
  for (const auto &module : context.modules)
    for (ast::Decl *decl : module->tree->decls) {
      auto *kernel = llvm::dyn_cast<ast::KernelDecl>(decl);
      // Elsewhere there are no axes, which is said where bodies are checked.
      if (kernel == nullptr || kernel->isBroken || ast::meshOf(*kernel) == nullptr)
        continue;
      const auto isOfModule = [&](llvm::StringRef name) { return module->names.contains(name); };
      join::meetAlongAxes(
          kernel->params, kernel->roles, kernel->prologue, join::namesOf(*kernel, isOfModule).all,
          context.arena,
          [&](const ast::CallExpr &barrier, llvm::StringRef axis, llvm::StringRef why) {
            context.report(barrier.range, diag::barrier_of_axis, axis, why);
          });
    }
}

} // namespace dtile::sema
