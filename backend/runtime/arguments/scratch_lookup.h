// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What dtile_kernel_scratch has in common for processors and devices.
#pragma once

#include "backend/runtime/errors.h"
#include "backend/runtime/host/kernel_state.h"

#include <vector>

namespace dtile::runtime {

/// The kernel, or those that it is a name for.
std::vector<const dtile_kernel_desc *> kernelsOf(const dtile_kernel_desc &desc);

/// The number of the scratch object that a kernel calls `name`, or -1.
int32_t findScratch(const dtile_kernel_desc &kernel, const char *name);

/// Why there is nothing to look at: the kernel has no scratch object of that name, or has not been
/// launched.
Status noScratch(const dtile_kernel_desc &desc, const char *name, int32_t rank);

/// A copy of one, as callers see it.
dtile_tensor scratchTensor(const ObjectKey &key, int32_t dtype, void *copy);

} // namespace dtile::runtime
