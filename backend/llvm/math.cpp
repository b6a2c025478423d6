// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Elementary functions: argument reduction and polynomials for f32 (atan: for f64 too), calls of
// libm for the rest.
//
// The polynomials of exp, log, log2, tanh and atan are those of Cephes (S. Moshier); erf's is a
// minimax fit in two pieces. NaN passes through everywhere: bounds are applied by selects that are
// false for NaN.
#include "backend/llvm/math.h"

#include "frontend/base/check.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/bit.h"
#include "llvm/IR/Intrinsics.h"
#include "llvm/IR/Module.h"

#include <limits>

namespace dtile::backend {

using ir::OpKind;

namespace {

constexpr double kLog2E = 1.44269504088896340736;
constexpr double kLn2 = 0.693147180559945309417;
// The first has 9 trailing zero bits, so that its product with an exponent is exact.
constexpr double kLn2High = 0.693359375;
constexpr double kLn2Low = -2.12194440e-4;

/// Calls a libm function once a lane.
llvm::Value *callLibm(llvm::IRBuilder<> &b, llvm::StringRef name,
                      llvm::ArrayRef<llvm::Value *> args, bool isBuiltin = true) {
  llvm::Type *type = args.front()->getType();
  llvm::Type *scalar = type->getScalarType();
  llvm::Module *module = b.GetInsertBlock()->getModule();
  llvm::SmallVector<llvm::Type *, 2> parameters(args.size(), scalar);
  llvm::FunctionCallee callee =
      module->getOrInsertFunction(name, llvm::FunctionType::get(scalar, parameters, false));
  auto *function = llvm::cast<llvm::Function>(callee.getCallee());
  // Nobody reads errno.
  function->setDoesNotAccessMemory();
  function->setDoesNotThrow();
  function->setWillReturn();
  auto *vector = llvm::dyn_cast<llvm::FixedVectorType>(type);
  const auto call = [&](llvm::ArrayRef<llvm::Value *> operands) {
    llvm::CallInst *made = b.CreateCall(callee, operands);
    if (!isBuiltin)
      made->addFnAttr(llvm::Attribute::NoBuiltin);
    return made;
  };
  if (!vector)
    return call(args);
  llvm::Value *result = llvm::PoisonValue::get(type);
  for (unsigned lane = 0; lane < vector->getNumElements(); ++lane) {
    llvm::SmallVector<llvm::Value *, 2> operands;
    for (llvm::Value *arg : args)
      operands.push_back(b.CreateExtractElement(arg, lane));
    result = b.CreateInsertElement(result, call(operands), lane);
  }
  return result;
}

/// f32 functions on a float or a vector of floats.
struct FloatMath {
  llvm::IRBuilder<> &b;
  llvm::Type *f32;
  llvm::Type *i32;

  /// Of the machine; not for vectors.
  FloatUnits units;

  FloatMath(llvm::IRBuilder<> &builder, llvm::Type *type, const FloatUnits &units)
      : b(builder), f32(type), i32(type->getWithNewBitWidth(32)),
        units(type->isFloatTy() ? units : FloatUnits()) {}

  llvm::Constant *real(double value) { return llvm::ConstantFP::get(f32, value); }
  llvm::Constant *bits(uint32_t value) { return llvm::ConstantInt::get(i32, value); }
  llvm::Value *mulAdd(llvm::Value *x, llvm::Value *y, llvm::Value *z) {
    return b.CreateIntrinsic(llvm::Intrinsic::fmuladd, {f32}, {x, y, z});
  }
  llvm::Value *abs(llvm::Value *x) { return b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x); }
  llvm::Value *withSignOf(llvm::Value *x, llvm::Value *sign) {
    return b.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, x, sign);
  }
  /// Highest power first.
  llvm::Value *polynomial(llvm::Value *x, llvm::ArrayRef<double> coefficients) {
    llvm::Value *sum = real(coefficients.front());
    for (double c : coefficients.drop_front())
      sum = mulAdd(sum, x, real(c));
    return sum;
  }
  llvm::Value *atMost(llvm::Value *x, double bound) {
    if (units.hasMinimum)
      return b.CreateBinaryIntrinsic(llvm::Intrinsic::minimum, x, real(bound));
    return b.CreateSelect(b.CreateFCmpOGT(x, real(bound)), real(bound), x);
  }
  llvm::Value *atLeast(llvm::Value *x, double bound) {
    if (units.hasMinimum)
      return b.CreateBinaryIntrinsic(llvm::Intrinsic::maximum, x, real(bound));
    return b.CreateSelect(b.CreateFCmpOLT(x, real(bound)), real(bound), x);
  }

  /// e^r for |r| <= ln2 / 2, times 2^n with n given as the bits of 1.5 * 2^23 + n.
  llvm::Value *scaledExp(llvm::Value *r, llvm::Value *shifted) {
    llvm::Value *p = polynomial(r, {1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3,
                                    4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1});
    p = mulAdd(p, b.CreateFMul(r, r), r);
    p = b.CreateFAdd(p, real(1.0));
    llvm::Value *n =
        b.CreateSub(b.CreateBitCast(shifted, i32), bits(llvm::bit_cast<uint32_t>(12582912.0f)));
    // Two factors: 2^128 is no float, and results below 2^-126 round once, in the last product.
    llvm::Value *half = b.CreateAShr(n, 1);
    return b.CreateFMul(b.CreateFMul(p, powerOfTwo(half)), powerOfTwo(b.CreateSub(n, half)));
  }
  llvm::Value *powerOfTwo(llvm::Value *n) {
    return b.CreateBitCast(b.CreateShl(b.CreateAdd(n, bits(127)), 23), f32);
  }

  llvm::Value *exp(llvm::Value *x) {
    x = atLeast(atMost(x, 89.0), -105.0);
    if (units.exp2 != llvm::Intrinsic::not_intrinsic)
      return expByExp2(x);
    // Adding 1.5 * 2^23 rounds to an integer, which stands in the low bits.
    llvm::Value *shifted = mulAdd(x, real(kLog2E), real(12582912.0));
    llvm::Value *n = b.CreateFSub(shifted, real(12582912.0));
    llvm::Value *r = mulAdd(n, real(-kLn2High), x);
    r = mulAdd(n, real(-kLn2Low), r);
    return scaledExp(r, shifted);
  }

  /// 2^(x log2 e), with what the product's rounding leaves of its exponent: e^(h ln2) e^(l ln2).
  llvm::Value *expByExp2(llvm::Value *x) {
    const auto fma = [&](llvm::Value *a, double factor, llvm::Value *c) {
      return b.CreateIntrinsic(llvm::Intrinsic::fma, {f32}, {a, real(factor), c});
    };
    llvm::Value *high = b.CreateFMul(x, real(kLog2E));
    llvm::Value *low = fma(x, kLog2E, b.CreateFNeg(high));
    low = fma(x, kLog2E - double(float(kLog2E)), low);
    llvm::Value *power = b.CreateIntrinsic(units.exp2, {f32}, {high});
    return b.CreateFMul(power, fma(low, kLn2, real(1.0)));
  }

  llvm::Value *exp2(llvm::Value *x) {
    x = atLeast(atMost(x, 129.0), -152.0);
    llvm::Value *shifted = b.CreateFAdd(x, real(12582912.0));
    llvm::Value *n = b.CreateFSub(shifted, real(12582912.0));
    return scaledExp(b.CreateFMul(b.CreateFSub(x, n), real(kLn2)), shifted);
  }

  /// ln(x) = e ln2 + f + rest, with f = m - 1 for a mantissa m in [sqrt(1/2), sqrt(2)).
  struct LogParts {
    llvm::Value *e, *f, *rest;
  };
  LogParts logParts(llvm::Value *x) {
    llvm::Value *tiny = b.CreateFCmpOLT(x, real(0x1p-126));
    llvm::Value *scaled = b.CreateSelect(tiny, b.CreateFMul(x, real(0x1p23)), x);
    llvm::Value *all = b.CreateBitCast(scaled, i32);
    llvm::Value *exponent = b.CreateAShr(b.CreateSub(all, bits(0x3f3504f3)), 23);
    llvm::Value *m = b.CreateBitCast(b.CreateSub(all, b.CreateShl(exponent, 23)), f32);
    llvm::Value *e = b.CreateSIToFP(exponent, f32);
    e = b.CreateSelect(tiny, b.CreateFSub(e, real(23.0)), e);
    llvm::Value *f = b.CreateFSub(m, real(1.0));
    llvm::Value *z = b.CreateFMul(f, f);
    llvm::Value *p = polynomial(f, {7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1,
                                    -1.2420140846e-1, 1.4249322787e-1, -1.6668057665e-1,
                                    2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1});
    llvm::Value *rest = b.CreateFMul(b.CreateFMul(p, f), z);
    return {e, f, rest};
  }
  /// log(0) is -infinity, of a negative number NaN, of infinity and NaN the argument.
  llvm::Value *logEdges(llvm::Value *x, llvm::Value *result) {
    const double infinity = std::numeric_limits<double>::infinity();
    llvm::Value *ordinary =
        b.CreateAnd(b.CreateFCmpOGT(x, real(0.0)), b.CreateFCmpOLT(x, real(infinity)));
    llvm::Value *edge =
        b.CreateSelect(b.CreateFCmpOLT(x, real(0.0)), llvm::ConstantFP::getQNaN(f32), x);
    edge = b.CreateSelect(b.CreateFCmpOEQ(x, real(0.0)), real(-infinity), edge);
    return b.CreateSelect(ordinary, result, edge);
  }

  llvm::Value *log(llvm::Value *x) {
    LogParts parts = logParts(x);
    llvm::Value *z = b.CreateFMul(parts.f, parts.f);
    llvm::Value *y = mulAdd(parts.e, real(kLn2Low), parts.rest);
    y = mulAdd(z, real(-0.5), y);
    y = b.CreateFAdd(parts.f, y);
    return logEdges(x, mulAdd(parts.e, real(kLn2High), y));
  }

  llvm::Value *log2(llvm::Value *x) {
    LogParts parts = logParts(x);
    llvm::Value *z = b.CreateFMul(parts.f, parts.f);
    llvm::Value *y = mulAdd(z, real(-0.5), parts.rest);
    // log2(e) - 1, so that the leading part of the product is exact.
    llvm::Value *sum = b.CreateFMul(y, real(kLog2E - 1.0));
    sum = mulAdd(parts.f, real(kLog2E - 1.0), sum);
    sum = b.CreateFAdd(sum, y);
    sum = b.CreateFAdd(sum, parts.f);
    return logEdges(x, b.CreateFAdd(sum, parts.e));
  }

  llvm::Value *tanh(llvm::Value *x) {
    llvm::Value *z = b.CreateFMul(x, x);
    llvm::Value *small = polynomial(z, {-5.70498872745e-3, 2.06390887954e-2, -5.37397155531e-2,
                                        1.33314422036e-1, -3.33332819422e-1});
    small = mulAdd(b.CreateFMul(small, z), x, x);
    llvm::Value *size = abs(x);
    llvm::Value *clamped = atMost(size, 10.0);
    llvm::Value *e = exp(b.CreateFAdd(clamped, clamped));
    llvm::Value *large =
        b.CreateFSub(real(1.0), b.CreateFDiv(real(2.0), b.CreateFAdd(e, real(1.0))));
    return b.CreateSelect(b.CreateFCmpOLT(size, real(0.625)), small, withSignOf(large, x));
  }

  llvm::Value *erf(llvm::Value *x) {
    llvm::Value *z = b.CreateFMul(x, x);
    llvm::Value *small = polynomial(z, {-5.96761703e-4, 4.99119423e-3, -2.67681349e-2,
                                        1.12819925e-1, -3.76125336e-1, 1.28379166e-1});
    small = mulAdd(small, x, x);
    llvm::Value *size = abs(x);
    // Beyond 4, 1 - erf is below half a unit in the last place of 1.
    llvm::Value *t = atMost(size, 4.0);
    llvm::Value *r = polynomial(t, {-1.72853470e-5, 3.83197126e-4});
    llvm::Value *u = polynomial(t, {-3.88396438e-3, 2.42546219e-2});
    r = mulAdd(r, b.CreateFMul(t, t), u);
    r = mulAdd(r, t, real(-1.06777877e-1));
    r = mulAdd(r, t, real(-6.34846687e-1));
    r = mulAdd(r, t, real(-1.28717512e-1));
    r = mulAdd(r, t, b.CreateFNeg(t));
    llvm::Value *large = withSignOf(b.CreateFSub(real(1.0), exp(r)), x);
    return b.CreateSelect(b.CreateFCmpOGT(size, real(0.927734375)), large, small);
  }

  /// Also of doubles. atan(a) is pi/2 + atan(-1 / a) beyond 1 + sqrt(2), and beyond `middle`
  /// pi/4 + atan((a - 1) / (a + 1)).
  llvm::Value *atan(llvm::Value *x, bool isDouble) {
    constexpr double kQuarter = 0.785398163397448309616;
    // What a double of pi/2 leaves of it.
    constexpr double kHalfLow = 6.123233995736765886130e-17;
    const double middle = isDouble ? 0.66 : 0.414213562373095049;
    llvm::Value *size = abs(x);
    llvm::Value *isLarge = b.CreateFCmpOGT(size, real(2.41421356237309504880));
    llvm::Value *isMiddle = b.CreateFCmpOGT(size, real(middle));
    const auto choose = [&](llvm::Value *large, llvm::Value *mid, llvm::Value *small) {
      return b.CreateSelect(isLarge, large, b.CreateSelect(isMiddle, mid, small));
    };
    llvm::Value *t = b.CreateFDiv(choose(real(-1.0), b.CreateFSub(size, real(1.0)), size),
                                  choose(size, b.CreateFAdd(size, real(1.0)), real(1.0)));
    llvm::Value *z = b.CreateFMul(t, t);
    llvm::Value *p = nullptr;
    if (isDouble) {
      p = polynomial(z, {-8.750608600031904122785e-1, -1.615753718733365076637e1,
                         -7.500855792314704667340e1, -1.228866684490136173410e2,
                         -6.485021904942025371773e1});
      llvm::Value *q = polynomial(z, {1.0, 2.485846490142306297962e1, 1.650270098316988542046e2,
                                      4.328810604912902668951e2, 4.853903996359136964868e2,
                                      1.945506571482613964425e2});
      p = b.CreateFDiv(b.CreateFMul(z, p), q);
    } else {
      p = b.CreateFMul(z, polynomial(z, {8.05374449538e-2, -1.38776856032e-1, 1.99777106478e-1,
                                         -3.33329491539e-1}));
    }
    llvm::Value *y = mulAdd(t, p, t);
    if (isDouble)
      y = b.CreateFAdd(y, choose(real(kHalfLow), real(kHalfLow / 2), real(0.0)));
    y = b.CreateFAdd(y, choose(real(2 * kQuarter), real(kQuarter), real(0.0)));
    return withSignOf(y, x);
  }
};

} // namespace

llvm::Value *emitMath(llvm::IRBuilder<> &b, OpKind kind, llvm::Value *x, const FloatUnits &units) {
  const bool isFloat = x->getType()->getScalarType()->isFloatTy();
  FloatMath f(b, x->getType(), units);
  switch (kind) {
  case OpKind::Exp:
    return isFloat ? f.exp(x) : callLibm(b, "exp", {x});
  case OpKind::Exp2:
    return isFloat ? f.exp2(x) : callLibm(b, "exp2", {x});
  case OpKind::Log:
    return isFloat ? f.log(x) : callLibm(b, "log", {x});
  case OpKind::Log2:
    return isFloat ? f.log2(x) : callLibm(b, "log2", {x});
  case OpKind::Tanh:
    return isFloat ? f.tanh(x) : callLibm(b, "tanh", {x});
  case OpKind::Erf:
    return isFloat ? f.erf(x) : callLibm(b, "erf", {x});
  case OpKind::Atan:
    return f.atan(x, !isFloat);
  case OpKind::Sin:
    return callLibm(b, isFloat ? "sinf" : "sin", {x});
  case OpKind::Cos:
    return callLibm(b, isFloat ? "cosf" : "cos", {x});
  default:
    DTILE_UNREACHABLE("not an elementary function");
  }
}

llvm::Value *emitPow(llvm::IRBuilder<> &b, llvm::Value *x, llvm::Value *y) {
  return callLibm(b, x->getType()->getScalarType()->isFloatTy() ? "powf" : "pow", {x, y});
}

llvm::Value *emitRem(llvm::IRBuilder<> &b, llvm::Value *x, llvm::Value *y) {
  // LLVM would make its own instruction of the call, which not all targets compute exactly.
  const bool isFloat = x->getType()->getScalarType()->isFloatTy();
  llvm::Value *rest = callLibm(b, isFloat ? "fmodf" : "fmod", {x, y}, /*isBuiltin=*/false);
  llvm::Value *zero = llvm::ConstantFP::getZero(x->getType());
  llvm::Value *isOther = b.CreateXor(b.CreateFCmpOLT(rest, zero), b.CreateFCmpOLT(y, zero));
  llvm::Value *isMoved = b.CreateAnd(b.CreateFCmpONE(rest, zero), isOther);
  return b.CreateSelect(isMoved, b.CreateFAdd(rest, y), rest);
}

} // namespace dtile::backend
