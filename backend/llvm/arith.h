// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Elementwise arithmetic in LLVM IR, the same for scalars and vectors of them.
//
// An element has two forms. In memory it is an integer of its size (or float, double). Computing it
// is i1 (bool), iN, float or double: the narrow floats compute as floats that hold only values of
// their type, so each operation on them ends with a rounding.
#pragma once

#include "backend/llvm/math.h"
#include "frontend/base/dtype.h"
#include "ir/core/ir.h"

#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/ValueMap.h"

#include <utility>

namespace dtile::backend {

/// What an element type is in memory.
[[nodiscard]] llvm::Type *memoryType(llvm::LLVMContext &context, DType type);
/// What an element type is while computing.
[[nodiscard]] llvm::Type *computeType(llvm::LLVMContext &context, DType type);
/// A vector, or the scalar itself for one lane.
[[nodiscard]] llvm::Type *laneType(llvm::Type *scalar, unsigned lanes);
/// f32 for the floats below it, otherwise the type itself: what sums are kept in.
[[nodiscard]] DType accumulatorType(DType type);

/// Emits elementwise operations at a builder's insertion point. Operands are all scalars or all
/// vectors of one length.
class Arith {
public:
  explicit Arith(llvm::IRBuilder<> &builder) : b(builder) {}

  /// Rounds to bf16 by the machine's instructions and not by bits; all NaN are one then.
  void useBfloat() { usesBfloat_ = true; }
  void useUnits(const FloatUnits &units) { units_ = units; }
  /// f32 to i32 and u32 by intrinsics of the machine that saturate, and give 0 for what is no
  /// number.
  void useTruncation(llvm::Intrinsic::ID toSigned, llvm::Intrinsic::ID toUnsigned) {
    toSigned_ = toSigned;
    toUnsigned_ = toUnsigned;
  }
  /// Lets a product that is added to something be rounded with the sum, once, or not any more; what
  /// was before.
  bool contract(bool allowed) { return std::exchange(contracts_, allowed); }

  [[nodiscard]] llvm::Value *fromMemory(DType type, llvm::Value *value);
  [[nodiscard]] llvm::Value *toMemory(DType type, llvm::Value *value);
  /// A float as the nearest value of a narrow type, still a float; other types as they are.
  [[nodiscard]] llvm::Value *round(DType type, llvm::Value *value);
  /// f32 as the nearest value of tf32.
  [[nodiscard]] llvm::Value *roundToTf32(llvm::Value *value) { return roundBits(value, 13); }

  /// The value of a `const`.
  [[nodiscard]] llvm::Constant *constant(DType type, const ir::Attr &value);
  [[nodiscard]] llvm::Constant *zero(DType type);

  /// Add to Shr of ops.def.
  [[nodiscard]] llvm::Value *binary(ir::OpKind kind, DType type, llvm::Value *x, llvm::Value *y);
  /// A quotient of floats that may be 2 units in the last place of f32 away, by an intrinsic of the
  /// machine's if it has one (else by what LLVM makes of `!fpmath`).
  [[nodiscard]] llvm::Value *approximateQuotient(DType type, llvm::Value *x, llvm::Value *y,
                                                 llvm::Intrinsic::ID intrinsic);
  /// e to the x, f32, by the machine's exp2, which it must have (FloatUnits): within 2 units in the
  /// last place and |x| / 2 more, as x log2(e) is rounded.
  [[nodiscard]] llvm::Value *approximateExp(llvm::Value *x);
  /// Neg to Ceil of ops.def.
  [[nodiscard]] llvm::Value *unary(ir::OpKind kind, DType type, llvm::Value *x);
  /// i1 lanes; `pred` as in Cmp.
  [[nodiscard]] llvm::Value *compare(llvm::StringRef pred, DType type, llvm::Value *x,
                                     llvm::Value *y);
  [[nodiscard]] llvm::Value *cast(DType from, DType to, llvm::Value *x);
  /// The same bits as a number of another type, which has as many.
  [[nodiscard]] llvm::Value *bitcast(DType from, DType to, llvm::Value *x);

  /// A constant of the element type of `like`, in every lane.
  [[nodiscard]] llvm::Constant *splat(llvm::Value *like, double value);
  [[nodiscard]] llvm::Constant *splatInt(llvm::Type *type, uint64_t value);
  /// One scalar in every lane; the scalar itself for one lane.
  [[nodiscard]] llvm::Value *broadcast(llvm::Value *scalar, unsigned lanes);

private:
  [[nodiscard]] llvm::Value *saturate(DType to, llvm::Value *x, llvm::Type *target);
  [[nodiscard]] llvm::Value *integerBinary(ir::OpKind kind, DType type, llvm::Value *x,
                                           llvm::Value *y);
  [[nodiscard]] llvm::Value *floatBinary(ir::OpKind kind, llvm::Value *x, llvm::Value *y);
  [[nodiscard]] llvm::Value *integerUnary(ir::OpKind kind, DType type, llvm::Value *x);
  [[nodiscard]] llvm::Value *floatUnary(ir::OpKind kind, llvm::Value *x);
  [[nodiscard]] llvm::Value *divide(DType type, llvm::Value *x, llvm::Value *y, bool remainder);
  [[nodiscard]] llvm::Value *divideByPositive(llvm::Value *x, llvm::ConstantInt *y, bool remainder);
  [[nodiscard]] llvm::Value *shift(ir::OpKind kind, DType type, llvm::Value *x, llvm::Value *y);
  [[nodiscard]] llvm::Value *roundBits(llvm::Value *value, unsigned dropped);
  [[nodiscard]] llvm::Value *toF8(DType type, llvm::Value *x);
  [[nodiscard]] llvm::Value *fromF8(DType type, llvm::Value *bits);
  /// The code that a value was computed from by fromF8; null for others.
  [[nodiscard]] llvm::Value *codeOfF8(DType type, llvm::Value *value) const;
  [[nodiscard]] llvm::Value *narrowToOdd(llvm::Value *x);

  /// What values of one-byte floats were computed from. LLVM does not see that computing the code
  /// again gives the same.
  struct Code {
    DType type;
    llvm::WeakVH bits;
  };
  struct KeepsKeys : llvm::ValueMapConfig<llvm::Value *> {
    enum { FollowRAUW = false };
  };

  llvm::IRBuilder<> &b;
  llvm::ValueMap<llvm::Value *, Code, KeepsKeys> codes_;
  bool usesBfloat_ = false;
  FloatUnits units_;
  llvm::Intrinsic::ID toSigned_ = llvm::Intrinsic::not_intrinsic;
  llvm::Intrinsic::ID toUnsigned_ = llvm::Intrinsic::not_intrinsic;
  bool contracts_ = false;
};

} // namespace dtile::backend
