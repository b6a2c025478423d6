// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Whether bodies that wait leave room for those that they wait for. Private to ir/protocol.
#pragma once

#include "ir/protocol/check/check_protocol.h"
#include "ir/protocol/check/launch_sizes.h"

namespace dtile::protocol {

/// Runs an inlined kernel that does not hang where there is room for all bodies on programs that
/// take their bodies one after another: first one a space, then as many as the machine has.
[[nodiscard]] Progress checkProgress(ir::Module &module, ir::Op &kernel, const LaunchSizes &sizes,
                                     llvm::ArrayRef<int> ranks, const TargetFacts &machine,
                                     Diagnostics &diagnostics);

} // namespace dtile::protocol
