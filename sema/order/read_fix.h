// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The text that orders a read.
#pragma once

#include "frontend/base/diagnostics.h"

#include <vector>

namespace dtile::sema {

struct KernelInstance;
struct TSpace;
struct Variable;

/// `x[i] after token`, in parentheses where more of an expression follows.
[[nodiscard]] std::vector<FixIt> readFix(const SourceManager &sources, SourceRange read,
                                         llvm::StringRef token);

/// Proposes that the reads that noteUnorderedRead notes one of are after `acquire`, where they can
/// name it.
void orderReads(DiagBuilder &builder, const SourceManager &sources, const KernelInstance &kernel,
                const TSpace &space, const Variable *acquire);

} // namespace dtile::sema
