// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Edits of a program that say `after` where a race lacks it.
#pragma once

#include "frontend/ast/ast.h"
#include "frontend/base/diagnostics.h"
#include "ir/protocol/check/check_protocol.h"

namespace dtile::driver {

/// Nothing where the token has no name that is seen at that place, or is used up elsewhere.
std::vector<FixIt> orderFix(const SourceManager &sources, const ast::KernelDecl &kernel,
                            const protocol::MissingOrder &missing);

} // namespace dtile::driver
