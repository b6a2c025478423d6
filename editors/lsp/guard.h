// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A mistake of ours ends one analysis, not the editor's server.
#pragma once

#include "llvm/ADT/STLFunctionalExtras.h"

namespace dtile::lsp {

/// Runs `work` on a thread of its own with a deep stack, and waits. False where it aborted or
/// touched memory that is not there: what it held is lost, so it must own what it changes.
[[nodiscard]] bool runGuarded(llvm::function_ref<void()> work);

} // namespace dtile::lsp
