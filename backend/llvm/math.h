// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Elementary functions in LLVM IR. f32 ones that kernels lean on are polynomials that vectorize and
// need no library; the rest, and f64, call libm once a lane.
//
//   f32 function     how          largest error found, in units in the last place
//   exp, exp2        polynomial   1.02 (all floats)
//   log              polynomial   0.83 (every third float, here and below)
//   log2             polynomial   1.31
//   tanh             polynomial   1.34
//   erf              polynomial   1.02
//   sin, cos, pow    libm         libm's
//
// On GPUs exp2 is an instruction, and exp, tanh and erf are made of it: about 2 units more, and
// results below 2^-126 are 0.
#pragma once

#include "ir/core/ir.h"

#include "llvm/IR/IRBuilder.h"

namespace dtile::backend {

/// What a machine has instructions of f32 for.
struct FloatUnits {
  /// The intrinsic of 2 to the x, if there is one: what is an exponential, or is made of one, is
  /// computed by it.
  llvm::Intrinsic::ID exp2 = llvm::Intrinsic::not_intrinsic;
  /// The smaller and the larger of two numbers, NaN where one is (llvm.minimum, llvm.maximum).
  bool hasMinimum = false;
};

/// Emits exp, exp2, log, log2, sin, cos, tanh or erf of floats or doubles (scalars or vectors).
[[nodiscard]] llvm::Value *emitMath(llvm::IRBuilder<> &builder, ir::OpKind kind, llvm::Value *x,
                                    const FloatUnits &units = {});
/// x to the y.
[[nodiscard]] llvm::Value *emitPow(llvm::IRBuilder<> &builder, llvm::Value *x, llvm::Value *y);

/// x - y floor(x / y), rounded once: the remainder with the sign of y.
[[nodiscard]] llvm::Value *emitRem(llvm::IRBuilder<> &builder, llvm::Value *x, llvm::Value *y);

} // namespace dtile::backend
