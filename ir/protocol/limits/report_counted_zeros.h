// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "frontend/base/diagnostics.h"
#include "ir/core/ir.h"

namespace dtile::protocol {

/// A warning for each op of the module's kernels, which are inlined, that counts zeros past a limit
/// (counted_zeros.h), with what to write instead.
void reportCountedZeros(ir::Module &module, Diagnostics &diagnostics);

} // namespace dtile::protocol
