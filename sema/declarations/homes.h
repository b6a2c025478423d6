// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What names of one file are called in another, for declarations that are copied there.
#pragma once

#include "sema/context.h"
#include "sema/join/join.h"

namespace dtile::sema {

/// How names of `from` are said in `to`, which gets a name for the module where it has none.
[[nodiscard]] join::Home homeOf(Context &context, ModuleInfo &from, ModuleInfo &to);

} // namespace dtile::sema
