// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Matrix instructions of one warp, as data: what they multiply, and which thread holds what.
#pragma once

#include "frontend/base/dtype.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <cstdint>

namespace dtile {

/// sum (rows x columns) += a (rows x depth) · b (depth x columns). The fragments are layouts in
/// text form (ir/core/layout.h) of registers and lanes; consecutive registers of a and b fill
/// 32-bit words.
struct MatrixProduct {
  llvm::StringLiteral name;
  DType a, b, sum;
  int32_t rows, columns, depth;
  llvm::StringLiteral fragmentA, fragmentB, fragmentSum;
  /// It uses 10 mantissa bits of f32 operands: for products that ask for tf32.
  bool isTf32 = false;
};

/// Fragments of PTX's mma.m16n8k16 (two-byte elements) and mma.m16n8k32 (one-byte elements); PTX
/// ISA, "Matrix Fragments".
#define DTILE_MMA_16(NAME, TYPE)                                                                   \
  {NAME,                                                                                           \
   DType::TYPE,                                                                                    \
   DType::TYPE,                                                                                    \
   DType::F32,                                                                                     \
   16,                                                                                             \
   8,                                                                                              \
   16,                                                                                             \
   "[1:1 0:8 1:8 | 1:2 1:4 0:1 0:2 0:4 |]",                                                        \
   "[0:1 0:8 | 0:2 0:4 1:1 1:2 1:4 |]",                                                            \
   "[1:1 0:8 | 1:2 1:4 0:1 0:2 0:4 |]"}
#define DTILE_MMA_8(NAME, A, B, SUM)                                                               \
  {NAME,                                                                                           \
   DType::A,                                                                                       \
   DType::B,                                                                                       \
   DType::SUM,                                                                                     \
   16,                                                                                             \
   8,                                                                                              \
   32,                                                                                             \
   "[1:1 1:2 0:8 1:16 | 1:4 1:8 0:1 0:2 0:4 |]",                                                   \
   "[0:1 0:2 0:16 | 0:4 0:8 1:1 1:2 1:4 |]",                                                       \
   "[1:1 0:8 | 1:2 1:4 0:1 0:2 0:4 |]"}
/// PTX's mma.m16n8k8 of tf32: a register is an element.
#define DTILE_MMA_TF32                                                                             \
  {"m16n8k8.tf32",                                                                                 \
   DType::F32,                                                                                     \
   DType::F32,                                                                                     \
   DType::F32,                                                                                     \
   16,                                                                                             \
   8,                                                                                              \
   8,                                                                                              \
   "[0:8 1:4 | 1:1 1:2 0:1 0:2 0:4 |]",                                                            \
   "[0:4 | 0:1 0:2 1:1 1:2 1:4 |]",                                                                \
   "[1:1 0:8 | 1:2 1:4 0:1 0:2 0:4 |]",                                                            \
   true}
#define DTILE_MMA_SM80                                                                             \
  DTILE_MMA_16("m16n8k16.bf16", BF16), DTILE_MMA_16("m16n8k16.f16", F16), DTILE_MMA_TF32,          \
      DTILE_MMA_8("m16n8k32.s8", I8, I8, I32), DTILE_MMA_8("m16n8k32.u8", U8, U8, U32)

#define DTILE_MMA_F8(SUFFIX)                                                                       \
  DTILE_MMA_8("m16n8k32.e4m3.e4m3" SUFFIX, F8E4M3, F8E4M3, F32),                                   \
      DTILE_MMA_8("m16n8k32.e4m3.e5m2" SUFFIX, F8E4M3, F8E5M2, F32),                               \
      DTILE_MMA_8("m16n8k32.e5m2.e4m3" SUFFIX, F8E5M2, F8E4M3, F32),                               \
      DTILE_MMA_8("m16n8k32.e5m2.e5m2" SUFFIX, F8E5M2, F8E5M2, F32)

/// Of sm_80, and of sm_89 and later. The former has no instructions for one-byte
/// floats: two for halves, which hold all their values, stand for one.
inline constexpr MatrixProduct kMmaSm80[] = {DTILE_MMA_SM80, DTILE_MMA_F8(".halves")};
inline constexpr MatrixProduct kMmaSm89[] = {DTILE_MMA_SM80, DTILE_MMA_F8("")};
#undef DTILE_MMA_SM80
#undef DTILE_MMA_F8
#undef DTILE_MMA_TF32
#undef DTILE_MMA_16
#undef DTILE_MMA_8

} // namespace dtile
