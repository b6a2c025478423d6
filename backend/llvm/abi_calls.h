// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Declarations of functions that a table lists with their signatures: the runtime's
// (backend/runtime/runtime_abi.def), the device library's (backend/gpu/device_calls.def).
#pragma once

#include "llvm/IR/Module.h"

namespace dtile::backend {

/// The function of that name, which is declared if it is not yet. The signature is the result, a
/// colon, and the arguments: v nothing, p pointer, i i32, l 64-bit integer.
[[nodiscard]] llvm::Function *declareAbiCall(llvm::Module &module, llvm::StringRef name,
                                             llvm::StringRef signature);

} // namespace dtile::backend
