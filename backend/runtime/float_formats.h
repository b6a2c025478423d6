// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// f32 to the narrow float formats and back: to nearest even; beyond the largest, infinity (f8e4m3,
// which has none: NaN).
#pragma once

#include <cstdint>

namespace dtile::runtime {

float f16ToF32(uint16_t bits);
uint16_t f32ToF16(float value);
float bf16ToF32(uint16_t bits);
uint16_t f32ToBf16(float value);
/// OCP f8e4m3 of the FN kind: no infinities, one NaN a sign.
float f8e4m3ToF32(uint8_t bits);
uint8_t f32ToF8e4m3(float value);
float f8e5m2ToF32(uint8_t bits);
uint8_t f32ToF8e5m2(float value);

} // namespace dtile::runtime
