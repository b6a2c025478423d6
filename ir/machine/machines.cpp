// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The table of machines. A GPU of a known vendor is one row.
//
// Processors, shared memory, links (one direction) and rates of products (80% of dense bf16) are
// the vendors' figures for the parts in servers: H100/H200 SXM, H20, B200, A100, A10, L40S, MI250X
// (one die), MI300X, MI355X. Puts of an H200 reach 350 of its link's 450 GB/s (measured). Rates of
// the B200 are those of mma.sync, guessed from the H200's. Timing of all but the H100 is
// scaled from it.
#include "ir/machine/cdna_products.h"
#include "ir/machine/hopper_products.h"
#include "ir/machine/target_facts.h"
#include "ir/machine/timing.h"

namespace dtile {
namespace {

constexpr TargetFacts kMachines[] = {
    {.name = "host", .description = "ranks as fibers of this machine"},
    {.name = "h200",
     .description = "NVIDIA H200 (sm_90)",
     .processors = 132,
     .sharedBytes = 232448,
     .groupRows = 64,
     .groupThreads = 128,
     .groupProducts = kHopperProducts,
     .lanes = 32,
     .products = kMmaSm89,
     .movers = kHopperMovers,
     .copyBytes = kHopperCopyBytes,
     .asyncCopyBytes = 16,
     .clusterPrograms = 8,
     .cacheBytes = 50 << 20,
     .timing = kHopperTiming},
    {.name = "h20",
     .description = "NVIDIA H20 (sm_90)",
     .processors = 78,
     .sharedBytes = 232448,
     .groupRows = 64,
     .groupThreads = 128,
     .groupProducts = kHopperProducts,
     .lanes = 32,
     .products = kMmaSm89,
     .movers = kHopperMovers,
     .copyBytes = kHopperCopyBytes,
     .asyncCopyBytes = 16,
     .clusterPrograms = 8,
     .cacheBytes = 60 << 20,
     .timing = scaled(1000, 760, 9480, 3600, 350)},
    {.name = "b200",
     .description = "NVIDIA B200 (sm_100)",
     .processors = 148,
     .sharedBytes = 232448,
     .lanes = 32,
     .products = kMmaSm89,
     .movers = 2 * kHopperMovers,
     .copyBytes = kHopperCopyBytes,
     .asyncCopyBytes = 16,
     .cacheBytes = 126 << 20,
     .timing = scaled(3965, 2600, 10000, 7000, 700)},
    {.name = "a100",
     .description = "NVIDIA A100 (sm_80)",
     .processors = 108,
     .sharedBytes = 166912,
     .lanes = 32,
     .products = kMmaSm80,
     .asyncCopyBytes = 16,
     .cacheBytes = 40 << 20,
     .timing = scaled(1, 1150, 5000, 1800, 300)},
    {.name = "a10",
     .description = "NVIDIA A10 (sm_86)",
     .processors = 72,
     .sharedBytes = 101376,
     .lanes = 32,
     .products = kMmaSm80,
     .asyncCopyBytes = 16,
     .cacheBytes = 6 << 20,
     .timing = scaled(1, 690, 2000, 540, 32, 1500)},
    {.name = "l40s",
     .description = "NVIDIA L40S (sm_89)",
     .processors = 142,
     .sharedBytes = 101376,
     .lanes = 32,
     .products = kMmaSm89,
     .asyncCopyBytes = 16,
     .cacheBytes = 96 << 20,
     .timing = scaled(1, 1020, 4000, 780, 32, 1500)},
    {.name = "mi250x",
     .description = "one die of an AMD MI250X (gfx90a)",
     .processors = 110,
     .sharedBytes = 65536,
     .lanes = 64,
     .products = kMfmaCdna2,
     .cacheBytes = 8 << 20,
     .timing = scaled(1, 690, 3500, 1400, 200, 1000)},
    {.name = "mi300x",
     .description = "AMD MI300X (gfx942)",
     .processors = 304,
     .sharedBytes = 65536,
     .lanes = 64,
     .products = kMfmaCdna3,
     .cacheBytes = 256 << 20,
     .timing = scaled(1, 1720, 9480, 4600, 448, 1000)},
    {.name = "mi355x",
     .description = "AMD MI355X (gfx950)",
     .processors = 256,
     .sharedBytes = 163840,
     .lanes = 64,
     .products = kMfmaCdna4,
     .cacheBytes = 256 << 20,
     .timing = scaled(1, 3930, 9480, 7000, 538, 1000)},
};

} // namespace

llvm::ArrayRef<TargetFacts> allMachines() { return kMachines; }

const TargetFacts *findMachine(llvm::StringRef name) {
  for (const TargetFacts &machine : kMachines)
    if (machine.name == name)
      return &machine;
  return nullptr;
}

} // namespace dtile
