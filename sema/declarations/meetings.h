// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Barriers along axes, in the kernels of a program.
#pragma once

#include "sema/context.h"

namespace dtile::sema {

/// Makes signals and waits of them, before overlaps join kernels.
void expandMeetings(Context &context);

} // namespace dtile::sema
