// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Elementwise arithmetic: integers with floor division and safe shifts, floats with one rounding an
// operation, and the narrow floats by bits, so that everything vectorizes.
#include "backend/llvm/arith.h"

#include "backend/llvm/math.h"
#include "frontend/base/check.h"

#include "llvm/IR/Intrinsics.h"
#include "llvm/IR/MDBuilder.h"

namespace dtile::backend {

using ir::OpKind;

llvm::Type *memoryType(llvm::LLVMContext &context, DType type) {
  if (type == DType::F32)
    return llvm::Type::getFloatTy(context);
  if (type == DType::F64)
    return llvm::Type::getDoubleTy(context);
  return llvm::Type::getIntNTy(context, dtypeBits(type));
}

llvm::Type *computeType(llvm::LLVMContext &context, DType type) {
  switch (dtypeClass(type)) {
  case DTypeClass::Bool:
    return llvm::Type::getInt1Ty(context);
  case DTypeClass::Int:
  case DTypeClass::UInt:
    return llvm::Type::getIntNTy(context, dtypeBits(type));
  case DTypeClass::Float:
    return type == DType::F64 ? llvm::Type::getDoubleTy(context) : llvm::Type::getFloatTy(context);
  }
  DTILE_UNREACHABLE("a class of element types without a computing form");
}

llvm::Type *laneType(llvm::Type *scalar, unsigned lanes) {
  return lanes == 1 ? scalar : llvm::FixedVectorType::get(scalar, lanes);
}

DType accumulatorType(DType type) {
  return isFloat(type) && type != DType::F64 ? DType::F32 : type;
}

namespace {

/// The integer type (or vector) as wide as a float type (or vector).
llvm::Type *bitsOf(llvm::Type *type) {
  return type->getWithNewBitWidth(type->getScalarSizeInBits());
}

llvm::Type *withScalar(llvm::Type *like, llvm::Type *scalar) {
  if (auto *vector = llvm::dyn_cast<llvm::FixedVectorType>(like))
    return llvm::FixedVectorType::get(scalar, vector->getNumElements());
  return scalar;
}

bool isSigned(DType type) { return dtypeClass(type) == DTypeClass::Int; }

} // namespace

llvm::Constant *Arith::splat(llvm::Value *like, double value) {
  return llvm::ConstantFP::get(like->getType(), value);
}

llvm::Constant *Arith::splatInt(llvm::Type *type, uint64_t value) {
  return llvm::ConstantInt::get(type, value, /*IsSigned=*/false, /*ImplicitTrunc=*/true);
}

llvm::Value *Arith::broadcast(llvm::Value *scalar, unsigned lanes) {
  return lanes == 1 || scalar->getType()->isVectorTy() ? scalar
                                                       : b.CreateVectorSplat(lanes, scalar);
}

// Forms.

llvm::Value *Arith::fromMemory(DType type, llvm::Value *value) {
  llvm::LLVMContext &context = b.getContext();
  switch (type) {
  case DType::Bool:
    return b.CreateICmpNE(value, llvm::Constant::getNullValue(value->getType()));
  case DType::BF16: {
    if (usesBfloat_) {
      llvm::Type *bfloat = withScalar(value->getType(), b.getBFloatTy());
      return b.CreateFPExt(b.CreateBitCast(value, bfloat), withScalar(bfloat, b.getFloatTy()));
    }
    llvm::Type *i32 = withScalar(value->getType(), b.getInt32Ty());
    llvm::Value *high = b.CreateShl(b.CreateZExt(value, i32), 16);
    return b.CreateBitCast(high, withScalar(i32, b.getFloatTy()));
  }
  case DType::F16: {
    llvm::Type *half = withScalar(value->getType(), llvm::Type::getHalfTy(context));
    return b.CreateFPExt(b.CreateBitCast(value, half), withScalar(half, b.getFloatTy()));
  }
  case DType::F8E4M3:
  case DType::F8E5M2:
    return fromF8(type, value);
  case DType::I8:
  case DType::I16:
  case DType::I32:
  case DType::I64:
  case DType::U8:
  case DType::U16:
  case DType::U32:
  case DType::U64:
  case DType::F32:
  case DType::F64:
    return value;
  }
  DTILE_UNREACHABLE("an element type without a computing form");
}

llvm::Value *Arith::toMemory(DType type, llvm::Value *value) {
  llvm::LLVMContext &context = b.getContext();
  llvm::Type *memory = withScalar(value->getType(), memoryType(context, type));
  switch (type) {
  case DType::Bool:
    return b.CreateZExt(value, memory);
  case DType::BF16: {
    if (usesBfloat_) {
      llvm::Type *bfloat = withScalar(value->getType(), b.getBFloatTy());
      return b.CreateBitCast(b.CreateFPTrunc(value, bfloat), memory);
    }
    // Already rounded: the low half is zero.
    llvm::Value *bits = b.CreateBitCast(value, bitsOf(value->getType()));
    return b.CreateTrunc(b.CreateLShr(bits, 16), memory);
  }
  case DType::F16: {
    llvm::Type *half = withScalar(value->getType(), llvm::Type::getHalfTy(context));
    return b.CreateBitCast(b.CreateFPTrunc(value, half), memory);
  }
  case DType::F8E4M3:
  case DType::F8E5M2:
    if (llvm::Value *code = codeOfF8(type, value))
      return b.CreateTrunc(code, memory);
    return b.CreateTrunc(toF8(type, value), memory);
  case DType::I8:
  case DType::I16:
  case DType::I32:
  case DType::I64:
  case DType::U8:
  case DType::U16:
  case DType::U32:
  case DType::U64:
  case DType::F32:
  case DType::F64:
    return value;
  }
  DTILE_UNREACHABLE("an element type without a memory form");
}

llvm::Value *Arith::round(DType type, llvm::Value *value) {
  if (type == DType::BF16 && usesBfloat_) {
    llvm::Type *bfloat = withScalar(value->getType(), b.getBFloatTy());
    return b.CreateFPExt(b.CreateFPTrunc(value, bfloat), value->getType());
  }
  if (type == DType::BF16)
    return roundBits(value, 16);
  if (type == DType::F16) {
    llvm::Type *half = withScalar(value->getType(), llvm::Type::getHalfTy(b.getContext()));
    return b.CreateFPExt(b.CreateFPTrunc(value, half), value->getType());
  }
  if (type == DType::F8E4M3 || type == DType::F8E5M2)
    return fromF8(type, toF8(type, value));
  return value;
}

/// f32 without its last bits, to nearest even; NaN stays NaN.
llvm::Value *Arith::roundBits(llvm::Value *value, unsigned dropped) {
  llvm::Type *i32 = bitsOf(value->getType());
  llvm::Value *bits = b.CreateBitCast(value, i32);
  // Half of the last kept bit, minus one when that bit is even.
  llvm::Value *odd = b.CreateAnd(b.CreateLShr(bits, dropped), 1);
  const uint32_t half = (1u << (dropped - 1)) - 1;
  llvm::Value *rounded = b.CreateAdd(bits, b.CreateAdd(odd, splatInt(i32, half)));
  llvm::Value *quiet = b.CreateOr(bits, splatInt(i32, 0x00400000));
  rounded = b.CreateSelect(b.CreateFCmpUNO(value, value), quiet, rounded);
  return b.CreateBitCast(b.CreateAnd(rounded, splatInt(i32, ~0u << dropped)), value->getType());
}

/// The code of a float in its low byte, as i32.
llvm::Value *Arith::toF8(DType type, llvm::Value *x) {
  const bool e4m3 = type == DType::F8E4M3;
  const unsigned mantissa = e4m3 ? 3 : 2;
  const unsigned bias = e4m3 ? 7 : 15;
  const unsigned drop = 23 - mantissa;
  llvm::Type *i32 = bitsOf(x->getType());
  llvm::Value *bits = b.CreateBitCast(x, i32);
  llvm::Value *sign = b.CreateAnd(b.CreateLShr(bits, 24), splatInt(i32, 0x80));
  llvm::Value *magnitude = b.CreateAnd(bits, splatInt(i32, 0x7fffffff));
  llvm::Value *odd = b.CreateAnd(b.CreateLShr(magnitude, drop), 1);
  llvm::Value *normal =
      b.CreateAdd(magnitude, b.CreateAdd(odd, splatInt(i32, (1u << (drop - 1)) - 1)));
  normal = b.CreateSub(b.CreateLShr(normal, drop), splatInt(i32, (127 - bias) << mantissa));
  // Below the smallest normal, adding 2^k with the right unit in the last place rounds to a
  // multiple of the smallest subnormal.
  const float magic = e4m3 ? 16384.0f : 128.0f;
  llvm::Value *small = b.CreateFAdd(b.CreateBitCast(magnitude, x->getType()), splat(x, magic));
  small = b.CreateSub(b.CreateBitCast(small, i32), splatInt(i32, llvm::bit_cast<uint32_t>(magic)));
  llvm::Value *isSmall = b.CreateICmpULT(magnitude, splatInt(i32, (128 - bias) << 23));
  llvm::Value *code = b.CreateSelect(isSmall, small, normal);
  // Overflow is infinity, or NaN where there is none.
  const unsigned top = e4m3 ? 0x7f : 0x7c;
  code = b.CreateBinaryIntrinsic(llvm::Intrinsic::umin, code, splatInt(i32, top));
  if (!e4m3)
    code = b.CreateSelect(b.CreateFCmpUNO(x, x), splatInt(i32, 0x7e), code);
  return b.CreateOr(code, sign);
}

/// The float of a code (i8, or i32 with the code in its low byte).
llvm::Value *Arith::fromF8(DType type, llvm::Value *bits) {
  llvm::Type *i16 = withScalar(bits->getType(), b.getInt16Ty());
  llvm::Type *half = withScalar(i16, llvm::Type::getHalfTy(b.getContext()));
  llvm::Type *f32 = withScalar(i16, b.getFloatTy());
  llvm::Value *code = b.CreateZExtOrTrunc(bits, i16);
  const auto known = [&](llvm::Value *value) {
    if (!llvm::isa<llvm::Constant>(value))
      codes_.insert({value, {type, bits}});
    return value;
  };
  // e5m2 is the high byte of a half.
  if (type == DType::F8E5M2)
    return known(b.CreateFPExt(b.CreateBitCast(b.CreateShl(code, 8), half), f32));
  // e4m3 is a half with another bias once its fields are in place: the scale makes up for it.
  llvm::Value *magnitude = b.CreateAnd(code, splatInt(i16, 0x7f));
  llvm::Value *sign = b.CreateShl(b.CreateAnd(code, splatInt(i16, 0x80)), 8);
  llvm::Value *fields = b.CreateOr(b.CreateShl(magnitude, 7), sign);
  llvm::Value *value = b.CreateFPExt(b.CreateBitCast(fields, half), f32);
  value = b.CreateFMul(value, splat(value, 256.0));
  llvm::Value *isNan = b.CreateICmpEQ(magnitude, splatInt(i16, 0x7f));
  llvm::Value *nan = llvm::ConstantFP::getQNaN(f32);
  return known(b.CreateSelect(isNan, nan, value));
}

llvm::Value *Arith::codeOfF8(DType type, llvm::Value *value) const {
  const auto it = codes_.find(value);
  if (it == codes_.end() || it->second.type != type)
    return nullptr;
  return it->second.bits;
}

// Constants.

llvm::Constant *Arith::constant(DType type, const ir::Attr &value) {
  llvm::Type *compute = computeType(b.getContext(), type);
  if (isFloat(type)) {
    double number = 0;
    if (const auto *real = std::get_if<double>(&value))
      number = *real;
    else if (const auto *whole = std::get_if<int64_t>(&value))
      number = static_cast<double>(*whole);
    // Through the memory form, so that the constant is one of the type.
    uint64_t storage = 0;
    storeFromDouble(type, &storage, number);
    return llvm::ConstantFP::get(compute, loadAsDouble(type, &storage));
  }
  int64_t number = 0;
  if (const auto *whole = std::get_if<int64_t>(&value))
    number = *whole;
  else if (const auto *truth = std::get_if<bool>(&value))
    number = *truth;
  else if (const auto *real = std::get_if<double>(&value))
    number = static_cast<int64_t>(*real);
  if (type == DType::Bool)
    return llvm::ConstantInt::getBool(b.getContext(), number != 0);
  return splatInt(compute, static_cast<uint64_t>(number));
}

llvm::Constant *Arith::zero(DType type) {
  return llvm::Constant::getNullValue(computeType(b.getContext(), type));
}

// Integers.

/// Floor division by a known positive number.
llvm::Value *Arith::divideByPositive(llvm::Value *x, llvm::ConstantInt *y, bool remainder) {
  const llvm::APInt &divisor = y->getValue();
  if (divisor.isPowerOf2()) {
    if (remainder)
      return b.CreateAnd(x, llvm::ConstantInt::get(x->getType(), divisor - 1));
    return b.CreateAShr(x, llvm::ConstantInt::get(x->getType(), divisor.logBase2()));
  }
  llvm::Constant *d = llvm::ConstantInt::get(x->getType(), divisor);
  llvm::Value *rest = b.CreateSRem(x, d);
  // All ones where the truncated remainder is negative.
  llvm::Value *below = b.CreateAShr(rest, x->getType()->getScalarSizeInBits() - 1);
  if (remainder)
    return b.CreateAdd(rest, b.CreateAnd(below, d));
  return b.CreateAdd(b.CreateSDiv(x, d), below);
}

llvm::Value *Arith::divide(DType type, llvm::Value *x, llvm::Value *y, bool remainder) {
  llvm::Type *t = x->getType();
  llvm::Constant *none = llvm::Constant::getNullValue(t);
  llvm::Constant *one = splatInt(t, 1);
  llvm::Constant *known = llvm::dyn_cast<llvm::Constant>(y);
  if (known && t->isVectorTy())
    known = known->getSplatValue();
  auto *number = llvm::dyn_cast_if_present<llvm::ConstantInt>(known);
  if (number && !number->isZero() && !isSigned(type))
    return remainder ? b.CreateURem(x, y) : b.CreateUDiv(x, y);
  if (number && number->getValue().isStrictlyPositive())
    return divideByPositive(x, number, remainder);

  llvm::Value *byZero = b.CreateICmpEQ(y, none);
  if (!isSigned(type)) {
    llvm::Value *safe = b.CreateSelect(byZero, one, y);
    llvm::Value *result = remainder ? b.CreateURem(x, safe) : b.CreateUDiv(x, safe);
    return b.CreateSelect(byZero, none, result);
  }
  // The least number over -1 traps on some machines; over 1 it gives the wrapped answer.
  llvm::Constant *least =
      llvm::ConstantInt::get(t, llvm::APInt::getSignedMinValue(t->getScalarSizeInBits()));
  llvm::Value *overflows =
      b.CreateAnd(b.CreateICmpEQ(x, least), b.CreateICmpEQ(y, llvm::Constant::getAllOnesValue(t)));
  llvm::Value *safe = b.CreateSelect(b.CreateOr(byZero, overflows), one, y);
  llvm::Value *quotient = b.CreateSDiv(x, safe);
  llvm::Value *rest = b.CreateSub(x, b.CreateMul(quotient, safe));
  llvm::Value *signsDiffer = b.CreateICmpSLT(b.CreateXor(rest, safe), none);
  llvm::Value *adjust = b.CreateAnd(signsDiffer, b.CreateICmpNE(rest, none));
  llvm::Value *result = remainder ? b.CreateSelect(adjust, b.CreateAdd(rest, safe), rest)
                                  : b.CreateSelect(adjust, b.CreateSub(quotient, one), quotient);
  return b.CreateSelect(byZero, none, result);
}

llvm::Value *Arith::shift(OpKind kind, DType type, llvm::Value *x, llvm::Value *y) {
  llvm::Type *t = x->getType();
  const unsigned width = t->getScalarSizeInBits();
  // Negative amounts are large unsigned ones.
  llvm::Value *inside = b.CreateICmpULT(y, splatInt(t, width));
  if (kind == OpKind::Shl) {
    llvm::Value *safe = b.CreateSelect(inside, y, llvm::Constant::getNullValue(t));
    return b.CreateSelect(inside, b.CreateShl(x, safe), llvm::Constant::getNullValue(t));
  }
  llvm::Value *amount = b.CreateSelect(inside, y, splatInt(t, width - 1));
  return isSigned(type) ? b.CreateAShr(x, amount) : b.CreateLShr(x, amount);
}

llvm::Value *Arith::integerBinary(OpKind kind, DType type, llvm::Value *x, llvm::Value *y) {
  const bool isBool = type == DType::Bool;
  using llvm::Intrinsic::ID;
  const ID least = isSigned(type) ? llvm::Intrinsic::smin : llvm::Intrinsic::umin;
  const ID most = isSigned(type) ? llvm::Intrinsic::smax : llvm::Intrinsic::umax;
  switch (kind) {
  case OpKind::Add:
    return isBool ? b.CreateOr(x, y) : b.CreateAdd(x, y);
  case OpKind::Sub:
    return b.CreateSub(x, y);
  case OpKind::Mul:
    return isBool ? b.CreateAnd(x, y) : b.CreateMul(x, y);
  case OpKind::Div:
    return divide(type, x, y, /*remainder=*/false);
  case OpKind::Rem:
    return divide(type, x, y, /*remainder=*/true);
  case OpKind::Min:
    return isBool ? b.CreateAnd(x, y) : b.CreateBinaryIntrinsic(least, x, y);
  case OpKind::Max:
    return isBool ? b.CreateOr(x, y) : b.CreateBinaryIntrinsic(most, x, y);
  case OpKind::And:
    return b.CreateAnd(x, y);
  case OpKind::Or:
    return b.CreateOr(x, y);
  case OpKind::Xor:
    return b.CreateXor(x, y);
  case OpKind::Shl:
  case OpKind::Shr:
    return shift(kind, type, x, y);
  default:
    DTILE_UNREACHABLE("not an operation on two integers");
  }
}

llvm::Value *Arith::integerUnary(OpKind kind, DType type, llvm::Value *x) {
  switch (kind) {
  case OpKind::Neg:
    return b.CreateNeg(x);
  case OpKind::Not:
    return b.CreateNot(x);
  case OpKind::Abs:
    if (!isSigned(type))
      return x;
    return b.CreateBinaryIntrinsic(llvm::Intrinsic::abs, x, b.getFalse());
  case OpKind::Floor:
  case OpKind::Ceil:
    return x;
  default:
    DTILE_UNREACHABLE("not an operation on one integer");
  }
}

// Floats.

llvm::Value *Arith::approximateQuotient(DType type, llvm::Value *x, llvm::Value *y,
                                        llvm::Intrinsic::ID intrinsic) {
  if (!x->getType()->isFloatTy())
    return binary(OpKind::Div, type, x, y);
  if (intrinsic != llvm::Intrinsic::not_intrinsic)
    return round(type, b.CreateIntrinsic(intrinsic, {}, {x, y}));
  constexpr float kUnits = 2.5; // what LLVM has a shorter sequence for
  llvm::MDNode *units = llvm::MDBuilder(b.getContext()).createFPMath(kUnits);
  return round(type, b.CreateFDiv(x, y, "", units));
}

llvm::Value *Arith::approximateExp(llvm::Value *x) {
  constexpr double kLog2E = 1.44269504088896340736;
  llvm::Value *power = b.CreateFMul(x, llvm::ConstantFP::get(x->getType(), kLog2E));
  return b.CreateIntrinsic(units_.exp2, {x->getType()}, {power});
}

llvm::Value *Arith::floatBinary(OpKind kind, llvm::Value *x, llvm::Value *y) {
  switch (kind) {
  case OpKind::Add:
    return b.CreateFAdd(x, y);
  case OpKind::Sub:
    return b.CreateFSub(x, y);
  case OpKind::Mul:
    return b.CreateFMul(x, y);
  case OpKind::Div:
    return b.CreateFDiv(x, y);
  case OpKind::Rem:
    return emitRem(b, x, y);
  case OpKind::Min:
    return b.CreateBinaryIntrinsic(llvm::Intrinsic::minnum, x, y);
  case OpKind::Max:
    return b.CreateBinaryIntrinsic(llvm::Intrinsic::maxnum, x, y);
  case OpKind::Pow:
    return emitPow(b, x, y);
  default:
    DTILE_UNREACHABLE("not an operation on two floats");
  }
}

llvm::Value *Arith::floatUnary(OpKind kind, llvm::Value *x) {
  switch (kind) {
  case OpKind::Neg:
    return b.CreateFNeg(x);
  case OpKind::Abs:
    return b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x);
  case OpKind::Sqrt:
    return b.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, x);
  case OpKind::Rsqrt:
    return b.CreateFDiv(splat(x, 1.0), b.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, x));
  case OpKind::Floor:
    return b.CreateUnaryIntrinsic(llvm::Intrinsic::floor, x);
  case OpKind::Ceil:
    return b.CreateUnaryIntrinsic(llvm::Intrinsic::ceil, x);
  case OpKind::Exp2:
    if (units_.exp2 != llvm::Intrinsic::not_intrinsic && x->getType()->isFloatTy())
      return b.CreateIntrinsic(units_.exp2, {x->getType()}, {x});
    return emitMath(b, kind, x, units_);
  default:
    return emitMath(b, kind, x, units_);
  }
}

llvm::Value *Arith::binary(OpKind kind, DType type, llvm::Value *x, llvm::Value *y) {
  if (isFloat(type)) {
    llvm::Value *result = floatBinary(kind, x, y);
    const bool isTerm = kind == OpKind::Add || kind == OpKind::Sub || kind == OpKind::Mul;
    auto *op = llvm::dyn_cast<llvm::Instruction>(result);
    if (contracts_ && isTerm && op)
      op->setHasAllowContract(true);
    return round(type, result);
  }
  return integerBinary(kind, type, x, y);
}

llvm::Value *Arith::unary(OpKind kind, DType type, llvm::Value *x) {
  if (isFloat(type))
    return round(type, floatUnary(kind, x));
  return integerUnary(kind, type, x);
}

llvm::Value *Arith::compare(llvm::StringRef pred, DType type, llvm::Value *x, llvm::Value *y) {
  using P = llvm::CmpInst::Predicate;
  struct Row {
    llvm::StringLiteral name;
    P real, integer, natural;
  };
  static constexpr Row kRows[] = {
      {"eq", P::FCMP_OEQ, P::ICMP_EQ, P::ICMP_EQ},   {"ne", P::FCMP_UNE, P::ICMP_NE, P::ICMP_NE},
      {"lt", P::FCMP_OLT, P::ICMP_SLT, P::ICMP_ULT}, {"le", P::FCMP_OLE, P::ICMP_SLE, P::ICMP_ULE},
      {"gt", P::FCMP_OGT, P::ICMP_SGT, P::ICMP_UGT}, {"ge", P::FCMP_OGE, P::ICMP_SGE, P::ICMP_UGE},
  };
  for (const Row &row : kRows) {
    if (row.name != pred)
      continue;
    if (isFloat(type))
      return b.CreateFCmp(row.real, x, y);
    return b.CreateICmp(isSigned(type) ? row.integer : row.natural, x, y);
  }
  DTILE_UNREACHABLE("a comparison that does not exist");
}

/// A double as a float for a second rounding: toward zero, with the last bit set when inexact.
llvm::Value *Arith::narrowToOdd(llvm::Value *x) {
  llvm::Type *f32 = withScalar(x->getType(), b.getFloatTy());
  llvm::Type *i32 = bitsOf(f32);
  llvm::Value *nearest = b.CreateFPTrunc(x, f32);
  llvm::Value *back = b.CreateFPExt(nearest, x->getType());
  llvm::Value *away = b.CreateFCmpOGT(b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, back),
                                      b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x));
  llvm::Value *inexact = b.CreateFCmpONE(back, x);
  llvm::Value *bits = b.CreateBitCast(nearest, i32);
  bits = b.CreateSub(bits, b.CreateZExt(away, i32));
  bits = b.CreateOr(bits, b.CreateZExt(inexact, i32));
  return b.CreateBitCast(bits, f32);
}

/// A float as an integer, towards zero: the nearest one of the type where it has no such, and 0 for
/// what is no number.
llvm::Value *Arith::saturate(DType to, llvm::Value *x, llvm::Type *target) {
  const unsigned bits = dtypeBits(to);
  const llvm::Intrinsic::ID machines = isSigned(to) ? toSigned_ : toUnsigned_;
  const auto convert = [&](llvm::Type *type) -> llvm::Value * {
    if (machines != llvm::Intrinsic::not_intrinsic && x->getType()->isFloatTy() && bits <= 32)
      return b.CreateIntrinsic(machines, {}, {x});
    return b.CreateIntrinsic(isSigned(to) ? llvm::Intrinsic::fptosi_sat
                                          : llvm::Intrinsic::fptoui_sat,
                             {type, x->getType()}, {x});
  };
  // By way of 32 bits only where that is one instruction.
  if (bits >= 32 || machines == llvm::Intrinsic::not_intrinsic)
    return convert(target);
  llvm::Type *word = withScalar(x->getType(), b.getInt32Ty());
  llvm::Value *value = convert(word);
  const auto limit = [&](llvm::Intrinsic::ID which, const llvm::APInt &most) {
    value = b.CreateBinaryIntrinsic(which, value, llvm::ConstantInt::get(word, most));
  };
  if (isSigned(to)) {
    limit(llvm::Intrinsic::smin, llvm::APInt::getSignedMaxValue(bits).sext(32));
    limit(llvm::Intrinsic::smax, llvm::APInt::getSignedMinValue(bits).sext(32));
  } else {
    limit(llvm::Intrinsic::umin, llvm::APInt::getMaxValue(bits).zext(32));
  }
  return b.CreateTrunc(value, target);
}

llvm::Value *Arith::bitcast(DType from, DType to, llvm::Value *x) {
  llvm::Type *target = withScalar(x->getType(), memoryType(b.getContext(), to));
  return fromMemory(to, b.CreateBitCast(toMemory(from, x), target));
}

llvm::Value *Arith::cast(DType from, DType to, llvm::Value *x) {
  if (from == to)
    return x;
  llvm::Type *target = withScalar(x->getType(), computeType(b.getContext(), to));
  llvm::Constant *none = llvm::Constant::getNullValue(x->getType());
  const bool fromUnsigned = from == DType::Bool || dtypeClass(from) == DTypeClass::UInt;
  if (isFloat(from)) {
    if (to == DType::Bool)
      return b.CreateFCmpUNE(x, none);
    if (!isFloat(to))
      return saturate(to, x, target);
    if (from != DType::F64)
      return to == DType::F64 ? b.CreateFPExt(x, target) : round(to, x);
    if (to == DType::F32)
      return b.CreateFPTrunc(x, target);
    return round(to, narrowToOdd(x));
  }
  if (to == DType::Bool)
    return b.CreateICmpNE(x, none);
  if (!isFloat(to))
    return fromUnsigned ? b.CreateZExtOrTrunc(x, target) : b.CreateSExtOrTrunc(x, target);
  const bool narrow = to != DType::F32 && to != DType::F64;
  if (!narrow || dtypeBits(from) <= 16) {
    llvm::Value *value = fromUnsigned ? b.CreateUIToFP(x, target) : b.CreateSIToFP(x, target);
    return round(to, value);
  }
  // Through a double, which holds what decides the rounding of all but integers beyond 2^53.
  llvm::Type *f64 = withScalar(x->getType(), b.getDoubleTy());
  llvm::Value *wide = fromUnsigned ? b.CreateUIToFP(x, f64) : b.CreateSIToFP(x, f64);
  return round(to, narrowToOdd(wide));
}

} // namespace dtile::backend
