// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Element types that the warpgroups of sm_90 multiply (PTX ISA, "wgmma.mma_async").
#pragma once

#include "ir/machine/target_facts.h"

namespace dtile {

/// MN-major operands exist for 2-byte types only (PTX ISA, "Matrix descriptor": transposition). f8
/// accumulates about 14 bits ("DeepSeek-V3 Technical Report", 3.3.2), so its sums are promoted.
inline constexpr GroupProduct kHopperProducts[] = {
    {.a = DType::BF16,
     .b = DType::BF16,
     .sum = DType::F32,
     .takesMnMajor = true,
     .fromRegisters = true},
    {.a = DType::F16,
     .b = DType::F16,
     .sum = DType::F32,
     .takesMnMajor = true,
     .fromRegisters = true},
    {.a = DType::F8E4M3, .b = DType::F8E4M3, .sum = DType::F32, .needsPromotion = true},
    {.a = DType::F8E4M3, .b = DType::F8E5M2, .sum = DType::F32, .needsPromotion = true},
    {.a = DType::F8E5M2, .b = DType::F8E4M3, .sum = DType::F32, .needsPromotion = true},
    {.a = DType::F8E5M2, .b = DType::F8E5M2, .sum = DType::F32, .needsPromotion = true},
    {.a = DType::I8, .b = DType::I8, .sum = DType::I32},
    {.a = DType::U8, .b = DType::U8, .sum = DType::U32},
    {.a = DType::F32, .b = DType::F32, .sum = DType::F32, .isTf32 = true, .fromRegisters = true},
};

/// Programs with bulk copies that saturate the 18 links of NVLink 4: 8 of 46 GB/s each (measured on
/// H200s), and two that make up for the first load and last store of copies.
inline constexpr int32_t kHopperMovers = 10;
/// Four rings of four slots of 4 KiB; the slots' mbarriers take 128 bytes a ring.
inline constexpr int32_t kHopperCopyBytes = 4 * (128 + 4 * 4096);

} // namespace dtile
