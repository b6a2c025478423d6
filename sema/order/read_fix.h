// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The text that orders reads.
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

/// Proposes that what is read of the transfers that a signal announces is after a wait for those of
/// its cells that say so; nothing where the notifies do not show which these are.
void proposeWaits(DiagBuilder &builder, const SourceManager &sources, const KernelInstance &kernel,
                  unsigned signal);

} // namespace dtile::sema
