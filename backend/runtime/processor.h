// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Whether this machine's processor has the instructions that a kernel was compiled to.
#pragma once

#include "backend/runtime/errors.h"

#include <cstdint>
#include <string>

namespace dtile::runtime {

/// The rows of processor_features.def that this processor and its system have, a bit each; none on
/// other machines than x86-64. The processor is asked once a process.
[[nodiscard]] uint64_t processorFeatures();

/// What the processor calls itself, or "processor" where it does not. Choices that were measured on
/// another one are not used.
[[nodiscard]] const std::string &processorName();

/// DTILE_UNAVAILABLE, with the instructions that are missing, unless the kernel's code for
/// processors runs on one that has `features`.
[[nodiscard]] Status checkProcessor(const dtile_kernel_desc &kernel, uint64_t features);

} // namespace dtile::runtime
