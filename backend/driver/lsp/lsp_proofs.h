// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the language server shows of the checker.
#pragma once

#include "editors/lsp/proofs.h"

namespace dtile::driver {

/// Checks the kernels of a file one after the other, as a build does (lsp::Prove).
void proveKernels(const lsp::Analysis &analysis, uint64_t work, lsp::ProofSink sink);

} // namespace dtile::driver
