// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// All passes, and the order in which a level of optimization runs them.
#pragma once

#include "ir/machine/target_facts.h"
#include "ir/transform/pass_manager.h"

#include <string>

namespace dtile::passes {

/// Every row of passes.def.
[[nodiscard]] llvm::ArrayRef<PassInfo> allPasses();

enum class OptLevel : uint8_t { O0, O1, O2 };

/// The passes of a level, in the text form of parsePipeline.
[[nodiscard]] llvm::StringRef pipelineText(OptLevel level);

/// The passes that prepare a module for a machine with devices, in the same form; none for others.
/// `areMapped`: kernels run only where each rank addresses the memory of all others.
[[nodiscard]] std::string devicePipelineText(const TargetFacts &machine, bool areMapped = true);

} // namespace dtile::passes
