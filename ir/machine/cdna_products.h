// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Matrix instructions of AMD's CDNA processors (MFMA) as data. A wave multiplies 32 x 32 or 16 x 16
// elements; lane l holds row (of a) or column (of b) l % 32 or l % 16, and a run of the summed
// dimension that the lanes above continue.
//
// Source of the fragments: AMD's Matrix Instruction Calculator
// (github.com/ROCm/amd_matrix_instruction_calculator), asked for v_mfma_f32_32x32x8_bf16,
// v_mfma_f32_16x16x16_bf16, v_mfma_i32_32x32x16_i8, v_mfma_f32_32x32x2_f32,
// v_mfma_f32_16x16x4_f32, v_mfma_f32_32x32x4_xf32, v_mfma_f32_16x16x8_xf32 and
// v_mfma_f64_16x16x4_f64, with two liberties:
// - The order of the summed dimension is free as long as both operands have the same, so several
//   instructions are one row here, in which each lane holds 16 bytes (f64: 2 elements) of it in
//   one piece: one read of LDS.
// - b takes the place of the hardware's first operand and a that of its second. The hardware's rows
//   are then columns of the sum, and a lane holds 4 neighbours of a row of it (f64: one).
#pragma once

#include "ir/machine/matrix_products.h"

namespace dtile {

// The row or column of a lane, and which of 4 (f64: 1) neighbours registers are.
#define DTILE_LANES_32(DIM) #DIM ":1 " #DIM ":2 " #DIM ":4 " #DIM ":8 " #DIM ":16"
#define DTILE_LANES_16(DIM) #DIM ":1 " #DIM ":2 " #DIM ":4 " #DIM ":8"
// `RUN_A` and `RUN_B`: a lane's elements along the summed dimension; `NEXT`: where the lanes above
// go on.
#define DTILE_MFMA_32(NAME, A, B, SUM, DEPTH, RUN_A, RUN_B, NEXT)                                  \
  {NAME,                                                                                           \
   DType::A,                                                                                       \
   DType::B,                                                                                       \
   DType::SUM,                                                                                     \
   32,                                                                                             \
   32,                                                                                             \
   DEPTH,                                                                                          \
   "[" RUN_A " | " DTILE_LANES_32(0) " 1:" #NEXT " |]",                                            \
   "[" RUN_B " | " DTILE_LANES_32(1) " 0:" #NEXT " |]",                                            \
   "[1:1 1:2 1:8 1:16 | " DTILE_LANES_32(0) " 1:4 |]"}
#define DTILE_MFMA_16(NAME, A, B, SUM, DEPTH, RUN_A, RUN_B, NEXT, THEN)                            \
  {NAME,                                                                                           \
   DType::A,                                                                                       \
   DType::B,                                                                                       \
   DType::SUM,                                                                                     \
   16,                                                                                             \
   16,                                                                                             \
   DEPTH,                                                                                          \
   "[" RUN_A " | " DTILE_LANES_16(0) " 1:" #NEXT " 1:" #THEN " |]",                                \
   "[" RUN_B " | " DTILE_LANES_16(1) " 0:" #NEXT " 0:" #THEN " |]",                                \
   "[1:1 1:2 | " DTILE_LANES_16(0) " 1:4 1:8 |]"}

// 2, 4, 8, 16 and 32 elements of a lane.
#define DTILE_RUN_2(DIM) #DIM ":1"
#define DTILE_RUN_4(DIM) DTILE_RUN_2(DIM) " " #DIM ":2"
#define DTILE_RUN_8(DIM) DTILE_RUN_4(DIM) " " #DIM ":4"
#define DTILE_RUN_16(DIM) DTILE_RUN_8(DIM) " " #DIM ":8"
#define DTILE_RUN_32(DIM) DTILE_RUN_16(DIM) " " #DIM ":16"

#define DTILE_MFMA_TWO_BYTES(NAME, TYPE)                                                           \
  DTILE_MFMA_32("32x32x16." NAME, TYPE, TYPE, F32, 16, DTILE_RUN_8(1), DTILE_RUN_8(0), 8),         \
      DTILE_MFMA_16("16x16x32." NAME, TYPE, TYPE, F32, 32, DTILE_RUN_8(1), DTILE_RUN_8(0), 8, 16)
#define DTILE_MFMA_ONE_BYTE(NAME, A, B, SUM)                                                       \
  DTILE_MFMA_32("32x32x32." NAME, A, B, SUM, 32, DTILE_RUN_16(1), DTILE_RUN_16(0), 16),            \
      DTILE_MFMA_16("16x16x64." NAME, A, B, SUM, 64, DTILE_RUN_16(1), DTILE_RUN_16(0), 16, 32)
// One instruction of gfx950 with 32 bytes in each lane.
#define DTILE_MFMA_SCALED(NAME, A, B)                                                              \
  DTILE_MFMA_32("32x32x64." NAME, A, B, F32, 64, DTILE_RUN_32(1), DTILE_RUN_32(0), 32),            \
      DTILE_MFMA_16("16x16x128." NAME, A, B, F32, 128, DTILE_RUN_32(1), DTILE_RUN_32(0), 32, 64)
#define DTILE_MFMA_COMMON                                                                          \
  DTILE_MFMA_TWO_BYTES("bf16", BF16), DTILE_MFMA_TWO_BYTES("f16", F16),                            \
      DTILE_MFMA_ONE_BYTE("i8", I8, I8, I32),                                                      \
      DTILE_MFMA_32("32x32x8.f32", F32, F32, F32, 8, DTILE_RUN_4(1), DTILE_RUN_4(0), 4),           \
      DTILE_MFMA_16("16x16x16.f32", F32, F32, F32, 16, DTILE_RUN_4(1), DTILE_RUN_4(0), 4, 8),      \
      {"16x16x8.f64",                                                                              \
       DType::F64,                                                                                 \
       DType::F64,                                                                                 \
       DType::F64,                                                                                 \
       16,                                                                                         \
       16,                                                                                         \
       8,                                                                                          \
       "[1:1 | " DTILE_LANES_16(0) " 1:2 1:4 |]",                                                  \
       "[0:1 | " DTILE_LANES_16(1) " 0:2 0:4 |]",                                                  \
       "[1:4 1:8 | " DTILE_LANES_16(0) " 1:1 1:2 |]"}
// Its tf32, which only gfx942 has, is called xf32; a lane has 2 elements of an instruction.
#define DTILE_MFMA_XF32                                                                            \
  {"32x32x8.xf32",                                                                                 \
   DType::F32,                                                                                     \
   DType::F32,                                                                                     \
   DType::F32,                                                                                     \
   32,                                                                                             \
   32,                                                                                             \
   8,                                                                                              \
   "[" DTILE_RUN_4(1) " | " DTILE_LANES_32(0) " 1:4 |]",                                           \
   "[" DTILE_RUN_4(0) " | " DTILE_LANES_32(1) " 0:4 |]",                                           \
   "[1:1 1:2 1:8 1:16 | " DTILE_LANES_32(0) " 1:4 |]",                                             \
   true},                                                                                          \
  {                                                                                                \
    "16x16x16.xf32", DType::F32, DType::F32, DType::F32, 16, 16, 16,                               \
        "[" DTILE_RUN_4(1) " | " DTILE_LANES_16(0) " 1:4 1:8 |]",                                  \
        "[" DTILE_RUN_4(0) " | " DTILE_LANES_16(1) " 0:4 0:8 |]",                                  \
        "[1:1 1:2 | " DTILE_LANES_16(0) " 1:4 1:8 |]", true                                        \
  }
#define DTILE_MFMA_F8                                                                              \
  DTILE_MFMA_ONE_BYTE("e4m3.e4m3", F8E4M3, F8E4M3, F32),                                           \
      DTILE_MFMA_ONE_BYTE("e4m3.e5m2", F8E4M3, F8E5M2, F32),                                       \
      DTILE_MFMA_ONE_BYTE("e5m2.e4m3", F8E5M2, F8E4M3, F32),                                       \
      DTILE_MFMA_ONE_BYTE("e5m2.e5m2", F8E5M2, F8E5M2, F32)

/// Of gfx90a and gfx942. The latter's instructions on one-byte floats are for other formats (FNUZ:
/// another bias, one zero, one NaN) than dtile's, so that both multiply these as f16.
inline constexpr MatrixProduct kMfmaCdna2[] = {DTILE_MFMA_COMMON, DTILE_MFMA_F8};
inline constexpr MatrixProduct kMfmaCdna3[] = {DTILE_MFMA_COMMON, DTILE_MFMA_XF32, DTILE_MFMA_F8};
/// Of gfx950, whose one-byte floats are dtile's.
inline constexpr MatrixProduct kMfmaCdna4[] = {
    DTILE_MFMA_COMMON,
    DTILE_MFMA_SCALED("e4m3.e4m3", F8E4M3, F8E4M3),
    DTILE_MFMA_SCALED("e4m3.e5m2", F8E4M3, F8E5M2),
    DTILE_MFMA_SCALED("e5m2.e4m3", F8E5M2, F8E4M3),
    DTILE_MFMA_SCALED("e5m2.e5m2", F8E5M2, F8E5M2),
    DTILE_MFMA_F8,
};
#undef DTILE_LANES_32
#undef DTILE_LANES_16
#undef DTILE_MFMA_32
#undef DTILE_MFMA_16
#undef DTILE_RUN_2
#undef DTILE_RUN_4
#undef DTILE_RUN_8
#undef DTILE_RUN_16
#undef DTILE_RUN_32
#undef DTILE_MFMA_TWO_BYTES
#undef DTILE_MFMA_ONE_BYTE
#undef DTILE_MFMA_SCALED
#undef DTILE_MFMA_COMMON
#undef DTILE_MFMA_F8
#undef DTILE_MFMA_XF32

} // namespace dtile
