// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What reductions and scans repeat, and what they begin with.
#pragma once

#include "frontend/base/dtype.h"
#include "ir/core/ir.h"

#include "llvm/IR/Constants.h"

namespace dtile::backend {

/// The elementwise op that a reduction of this `kind` attribute repeats.
[[nodiscard]] ir::OpKind combinerOf(llvm::StringRef kind);

/// What leaves the other operand of a combiner as it is, in the computing form of a type. In max
/// and min a NaN gives way to any number.
[[nodiscard]] llvm::Constant *neutralOf(llvm::LLVMContext &context, ir::OpKind combiner,
                                        DType type);

} // namespace dtile::backend
