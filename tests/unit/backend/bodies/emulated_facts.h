// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The machine that unit tests of GPU bodies emulate, as their targets say
// (DTILE_EMULATED_LANES, DTILE_EMULATED_SHARED).
#pragma once

#include "ir/machine/cdna_products.h"
#include "ir/machine/hopper_products.h"
#include "ir/machine/target_facts.h"

namespace dtile::backend::gpu::testing {

/// Warps of 32 threads with NVIDIA's matrix instructions, or of 64 with AMD's.
inline constexpr bool kIsWide = DTILE_EMULATED_LANES == 64;
inline constexpr TargetFacts kFacts = {
    .name = "emulator",
    .description = "an emulated GPU",
    .processors = 2,
    .sharedBytes = kIsWide ? 65536 : 232448,
    .lanes = DTILE_EMULATED_LANES,
    .products = kIsWide ? llvm::ArrayRef<MatrixProduct>(kMfmaCdna3)
                        : llvm::ArrayRef<MatrixProduct>(kMmaSm89),
    .movers = kIsWide ? TargetFacts::kPlainMovers : kHopperMovers,
    .copyBytes = kIsWide ? 0 : kHopperCopyBytes,
    .asyncCopyBytes = kIsWide ? 0 : 16};

/// What code is generated for has less shared memory than passes have thought of, where the build
/// says so: then tiles change threads in pieces, and loops do not copy ahead.
constexpr TargetFacts generatedFor() {
  TargetFacts facts = kFacts;
#ifdef DTILE_EMULATED_SHARED
  facts.sharedBytes = DTILE_EMULATED_SHARED;
#endif
  return facts;
}
inline constexpr TargetFacts kDeviceFacts = generatedFor();

} // namespace dtile::backend::gpu::testing
