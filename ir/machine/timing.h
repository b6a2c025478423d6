// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Times of operations, by machine. Those of the H100 were fitted to 35,040 times of bf16 products:
// 229 random shapes, up to 192 configurations each (docs/measurements/model.md). Not fitted:
// - launch, tmaStart, sharedStart and pairStart, read from small products on an H200
//   (docs/decisions/launch_kinds.md);
// - clusterBarrier, clusterRate, copyWarpRate, foldedRate, foldedUnit, transposeRate,
//   transposeStage and memoryRate, read from few shapes;
// - cacheRate and cacheRows, read from 1,069 times of 15 products on an H200
//   (docs/decisions/tiles_of_any_height.md).
#pragma once

#include "ir/machine/target_facts.h"

namespace dtile {

inline constexpr Timing kHopperTiming = {.launch = 3570,
                                         .tmaStart = 900,
                                         .sharedStart = 450,
                                         .pairStart = 1000,
                                         .groupRate = 3965,
                                         .groupHalfColumns = 29,
                                         .warpRate = 1730,
                                         .warpHalfColumns = 22,
                                         .groupIssue = 18.4,
                                         .tmaRate = 156,
                                         .tmaLatency = 1103,
                                         .tmaRound = 7,
                                         .tmaLoop = 204,
                                         .asyncRate = 58,
                                         .asyncLatency = 262,
                                         .asyncRound = 64,
                                         .asyncLoop = 1345,
                                         .cacheRate = 13200,
                                         .cacheRows64 = 1.05,
                                         .cacheRows32 = 1.3,
                                         .cacheRows16 = 1.93,
                                         .memoryRate = 4200,
                                         .shortRowFactor = 1.13,
                                         .copyWarpRate = 4,
                                         .foldedRate = 27,
                                         .foldedUnit = 480,
                                         .transposeRate = 70,
                                         .transposeStage = 300,
                                         .storeRate = 36,
                                         .clusterBarrier = 900,
                                         .clusterRate = 40,
                                         .linkRate = 350};

/// That of a machine that was not measured: rates by the vendor's figures, the rest as on an H100.
/// `peerLatency` is 1500 of cards on PCIe (networks.cpp).
constexpr Timing scaled(double groupRate, double warpRate, double cacheRate, double memoryRate,
                        double linkRate, double peerLatency = Timing().peerLatency) {
  Timing timing = kHopperTiming;
  timing.groupRate = groupRate;
  timing.warpRate = warpRate;
  timing.cacheRate = cacheRate;
  timing.memoryRate = memoryRate;
  timing.linkRate = linkRate;
  timing.peerLatency = peerLatency;
  return timing;
}

} // namespace dtile
