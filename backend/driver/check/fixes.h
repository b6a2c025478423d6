// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Edits of a kernel that do what would mend a finding of the checker. Each is empty where the text
// does not have the form that the edit needs, or is not that of the kernel: plans bring their own.
#pragma once

#include "frontend/ast/ast.h"
#include "frontend/base/diagnostics.h"
#include "ir/protocol/check/remedies.h"

#include <vector>

namespace dtile::driver {

/// An `after` of the token that a `let` names; nothing where that is not seen at the place, or is
/// used up elsewhere.
std::vector<FixIt> fixesFor(const SourceManager &sources, const ast::KernelDecl &kernel,
                            const protocol::MissingOrder &missing);
/// A parameter for the signal, a notify after the read, and a role that awaits it at the end;
/// nothing where the kernel has no roles, or the read is not found.
std::vector<FixIt> fixesFor(const SourceManager &sources, const ast::KernelDecl &kernel,
                            const protocol::MissingSignal &missing);
/// The wait without its `count:`.
std::vector<FixIt> fixesFor(const SourceManager &sources, const ast::KernelDecl &kernel,
                            const protocol::LargeCount &large);
/// The notify in front of the wait; nothing where it is after something, uses what is made between
/// them, or stands in another block.
std::vector<FixIt> fixesFor(const SourceManager &sources, const ast::KernelDecl &kernel,
                            const protocol::LateNotify &late);
/// A `requires` of whole blocks.
std::vector<FixIt> fixesFor(const SourceManager &sources, const ast::KernelDecl &kernel,
                            const protocol::ShortSize &size);
/// Ranks from 0 where they were counted from 1, and the part is the rank's own.
std::vector<FixIt> fixesFor(const SourceManager &sources, const ast::KernelDecl &kernel,
                            const protocol::LeftOutPart &part);

} // namespace dtile::driver
