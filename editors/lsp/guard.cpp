// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A fresh thread has no phases (check.h) of work that was left in the middle.
#include "editors/lsp/guard.h"

#include "llvm/Support/CrashRecoveryContext.h"

namespace dtile::lsp {

bool runGuarded(llvm::function_ref<void()> work) {
  constexpr unsigned kStackBytes = 32u << 20;
  llvm::CrashRecoveryContext::Enable();
  llvm::CrashRecoveryContext context;
  return context.RunSafelyOnThread(work, kStackBytes);
}

} // namespace dtile::lsp
