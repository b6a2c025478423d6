// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// All passes, and the order in which a level of optimization runs them.
#pragma once

#include "ir/transform/pass_manager.h"

namespace dtile::passes {

/// Every row of passes.def.
[[nodiscard]] llvm::ArrayRef<PassInfo> allPasses();

enum class OptLevel : uint8_t { O0, O1, O2 };

/// The passes of a level, in the text form of parsePipeline.
[[nodiscard]] llvm::StringRef pipelineText(OptLevel level);

} // namespace dtile::passes
