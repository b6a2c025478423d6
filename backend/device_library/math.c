/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 * Elementary functions for devices, which have no libm: what generated code calls by libm's names
 * (backend/llvm/math.cpp says which; f32 has polynomials of its own for most). Freestanding C;
 * every GPU that code is made for has f64 and fused multiply-add.
 *
 *   function        how                                       largest error against libm, in ulp
 *   sin, cos        pi/2 in three parts, 2/pi in 1280 bits    1 (3 beside multiples of pi/2)
 *   exp, exp2       series of degree 13 on +-ln2/2            1
 *   log, log2       series of atanh                           1
 *   pow             log in two doubles                        6
 *   tanh            expm1                                     4
 *   erf             a positive series, and a fraction         12
 *   fmod            division of whole numbers                 0
 *   sinf, cosf, powf, fmodf are the f64 ones, rounded. */

#ifndef DTILE_MATH
#define DTILE_MATH(name) name
#endif

typedef unsigned long long u64;

static double ofBits(u64 bits) {
  double value;
  __builtin_memcpy(&value, &bits, 8);
  return value;
}

static u64 bitsOf(double value) {
  u64 bits;
  __builtin_memcpy(&bits, &value, 8);
  return bits;
}

/* value * 2^n, rounded once. */
static double scaled(double value, int n) {
  int half = n / 2;
  double a = ofBits((u64)(half + 1023) << 52), b = ofBits((u64)(n - half + 1023) << 52);
  return value * a * b;
}

static const double kInfinity = __builtin_inf();

/* ---- Exponentials ---- */

static const double kLn2High = 0x1.62e42feep-1, kLn2Low = 0x1.a39ef35793c76p-33;
static const double kLog2E = 0x1.71547652b82fep0;

/* (e^r - 1 - r) / r^2 for |r| <= ln2/2. */
static double expRest(double r) {
  double p = 1.0 / 6227020800.0;
  p = __builtin_fma(p, r, 1.0 / 479001600.0);
  p = __builtin_fma(p, r, 1.0 / 39916800.0);
  p = __builtin_fma(p, r, 1.0 / 3628800.0);
  p = __builtin_fma(p, r, 1.0 / 362880.0);
  p = __builtin_fma(p, r, 1.0 / 40320.0);
  p = __builtin_fma(p, r, 1.0 / 5040.0);
  p = __builtin_fma(p, r, 1.0 / 720.0);
  p = __builtin_fma(p, r, 1.0 / 120.0);
  p = __builtin_fma(p, r, 1.0 / 24.0);
  p = __builtin_fma(p, r, 1.0 / 6.0);
  return __builtin_fma(p, r, 0.5);
}

/* e^(x + low). */
static double expOf(double x, double low) {
  if (x != x)
    return x;
  if (x > 709.8)
    return kInfinity;
  if (x < -745.2)
    return 0.0;
  double n = __builtin_rint(x * kLog2E);
  double r = __builtin_fma(-n, kLn2High, x);
  r = __builtin_fma(-n, kLn2Low, r) + low;
  return scaled(1.0 + (r + r * r * expRest(r)), (int)n);
}

double DTILE_MATH(exp)(double x) { return expOf(x, 0.0); }

double DTILE_MATH(exp2)(double x) {
  if (x != x)
    return x;
  if (x >= 1024.0)
    return kInfinity;
  if (x < -1075.0)
    return 0.0;
  double n = __builtin_rint(x);
  double f = x - n;
  double r = f * 0x1.62e42fefa39efp-1;
  double low = __builtin_fma(f, 0x1.62e42fefa39efp-1, -r) + f * 0x1.abc9e3b39803fp-56;
  return scaled(1.0 + (r + (r * r * expRest(r) + low)), (int)n);
}

/* e^y - 1 for 0 <= y <= 60. */
static double expMinus1(double y) {
  double n = __builtin_rint(y * kLog2E);
  double r = __builtin_fma(-n, kLn2High, y);
  r = __builtin_fma(-n, kLn2Low, r);
  double e = r + r * r * expRest(r);
  double scale = ofBits((u64)((int)n + 1023) << 52);
  return __builtin_fma(e, scale, scale - 1.0);
}

double DTILE_MATH(tanh)(double x) {
  double size = __builtin_fabs(x);
  if (!(size < 22.0))
    return x != x ? x : __builtin_copysign(1.0, x);
  double t = expMinus1(2.0 * size);
  return __builtin_copysign(t / (t + 2.0), x);
}

/* ---- Logarithms ---- */

/* x = 2^e m with m in [sqrt(1/2), sqrt(2)), for positive finite x. */
static double mantissa(double x, int *e) {
  int extra = 0;
  if (x < 0x1p-1022) {
    x *= 0x1p54;
    extra = -54;
  }
  u64 bits = bitsOf(x);
  long long top = (long long)(bits - 0x3fe6a09e667f3bcdull) >> 52;
  *e = (int)top + extra;
  return ofBits(bits - ((u64)top << 52));
}

/* (log m - 2 s) / s for s = (m - 1) / (m + 1), from z = s^2. */
static double logRest(double z) {
  double p = 2.0 / 23.0;
  p = __builtin_fma(p, z, 2.0 / 21.0);
  p = __builtin_fma(p, z, 2.0 / 19.0);
  p = __builtin_fma(p, z, 2.0 / 17.0);
  p = __builtin_fma(p, z, 2.0 / 15.0);
  p = __builtin_fma(p, z, 2.0 / 13.0);
  p = __builtin_fma(p, z, 2.0 / 11.0);
  p = __builtin_fma(p, z, 2.0 / 9.0);
  p = __builtin_fma(p, z, 2.0 / 7.0);
  p = __builtin_fma(p, z, 2.0 / 5.0);
  p = __builtin_fma(p, z, 2.0 / 3.0);
  return p * z;
}

/* log of a positive finite number as a sum of two doubles. */
static double logOf(double x, double *low) {
  int e;
  double m = mantissa(x, &e);
  double f = m - 1.0, d = m + 1.0;
  double s = f / d;
  /* What the division, and the sum m + 1, have rounded away. */
  double dLow = 1.0 - (d - m);
  double sLow = (__builtin_fma(-s, d, f) - s * dLow) / d;
  double rest = s * logRest(s * s);
  /* e ln2 + 2 s + rest, largest first. */
  double a = e * kLn2High;
  double b = 2.0 * s;
  double sum = a + b;
  double part = sum - a;
  double lost = (a - (sum - part)) + (b - part);
  lost += 2.0 * sLow + e * kLn2Low + rest;
  double high = sum + lost;
  *low = (sum - high) + lost;
  return high;
}

/* What log is outside of the positive finite numbers. */
static double logEdge(double x) {
  if (x == 0.0)
    return -kInfinity;
  return x < 0.0 ? __builtin_nan("") : x;
}

double DTILE_MATH(log)(double x) {
  if (!(x > 0.0 && x < kInfinity))
    return logEdge(x);
  double low;
  double high = logOf(x, &low);
  return high + low;
}

double DTILE_MATH(log2)(double x) {
  if (!(x > 0.0 && x < kInfinity))
    return logEdge(x);
  int e;
  double m = mantissa(x, &e);
  double low;
  double high = logOf(m, &low);
  double p = high * kLog2E;
  double rest = __builtin_fma(high, kLog2E, -p) + (low * kLog2E + high * 0x1.777d0ffda0d24p-56);
  return (e + p) + ((p - ((e + p) - e)) + rest);
}

double DTILE_MATH(pow)(double x, double y) {
  if (y == 0.0 || x == 1.0)
    return 1.0;
  if (x != x || y != y)
    return x + y;
  double size = __builtin_fabs(x), amount = __builtin_fabs(y);
  int isWhole = __builtin_floor(y) == y;
  int isOdd = isWhole && amount < 0x1p53 && ((long long)amount & 1);
  if (x < 0.0 && !isWhole && x != -kInfinity && amount != kInfinity)
    return __builtin_nan("");
  double sign = isOdd && __builtin_signbit(x) ? -1.0 : 1.0;
  if (amount == kInfinity) {
    if (size == 1.0)
      return 1.0;
    return (size > 1.0) == (y > 0.0) ? kInfinity : 0.0;
  }
  if (size == 0.0 || size == kInfinity)
    return sign * ((size == 0.0) == (y > 0.0) ? 0.0 : kInfinity);
  double low;
  double high = logOf(size, &low);
  double p = y * high;
  if (p > 710.0)
    return sign * kInfinity;
  if (p < -746.0)
    return sign * 0.0;
  return sign * expOf(p, __builtin_fma(y, high, -p) + y * low);
}

/* ---- Sines ---- */

/* 2/pi, after a word of zeros. */
static const u64 kTwoOverPi[22] = {
    0,
    0xa2f9836e4e441529ull,
    0xfc2757d1f534ddc0ull,
    0xdb6295993c439041ull,
    0xfe5163abdebbc561ull,
    0xb7246e3a424dd2e0ull,
    0x06492eea09d1921cull,
    0xfe1deb1cb129a73eull,
    0xe88235f52ebb4484ull,
    0xe99c7026b45f7e41ull,
    0x3991d639835339f4ull,
    0x9c845f8bbdf9283bull,
    0x1ff897ffde05980full,
    0xef2f118b5a0a6d1full,
    0x6d367ecf27cb09b7ull,
    0x4f463f669e5fea2dull,
    0x7527bac7ebe5f17bull,
    0x3d0739f78a5292eaull,
    0x6bfb5fb11f8d5d08ull,
    0x56033046fc7b6babull,
    0xf0cfbc209af4361dull,
    0,
};

static u64 tableBits(int from) {
  int word = from >> 6, shift = from & 63;
  u64 high = kTwoOverPi[word] << shift;
  return shift == 0 ? high : high | kTwoOverPi[word + 1] >> (64 - shift);
}

static const double kHalfPi = 0x1.921fb54442d18p0, kHalfPiLow = 0x1.1a62633145c07p-54;

/* |x| >= 2^31 as a multiple of pi/2 and a rest: only bits of 2/pi that matter modulo 4 are
 * multiplied (M. Payne and R. Hanek, 1983). */
static int reduceFar(double x, double *high, double *low) {
  u64 bits = bitsOf(x);
  int e = (int)(bits >> 52 & 0x7ff) - 1075;
  u64 m = (bits & 0xfffffffffffffull) | 0x10000000000000ull;
  int from = e - 2 + 64;
  typedef unsigned __int128 u128;
  u128 c = (u128)m * tableBits(from + 128);
  u64 q2 = (u64)c;
  u128 d = (u128)m * tableBits(from + 64) + (u64)(c >> 64);
  u64 q1 = (u64)d;
  u64 q0 = m * tableBits(from) + (u64)(d >> 64);
  int n = (int)(q0 >> 62);
  u128 fraction = (u128)(q0 << 2 | q1 >> 62) << 64 | (q1 << 2 | q2 >> 62);
  int isAbove = (int)(fraction >> 127);
  if (isAbove) {
    fraction = -fraction;
    ++n;
  }
  u64 top = (u64)(fraction >> 64);
  int zeros = top != 0 ? __builtin_clzll(top) : 64 + __builtin_clzll((u64)fraction | 1);
  fraction <<= zeros;
  double a = scaled((double)(u64)(fraction >> 75), -53 - zeros);
  double b = scaled((double)((u64)(fraction >> 22) & 0x1fffffffffffffull), -106 - zeros);
  double r = a * kHalfPi;
  double rest = __builtin_fma(a, kHalfPi, -r) + (a * kHalfPiLow + b * kHalfPi);
  int isNegative = (x < 0.0) != isAbove;
  *high = isNegative ? -r : r;
  *low = isNegative ? -rest : rest;
  return x < 0.0 ? -n : n;
}

/* x = n pi/2 + high + low, with |high| below about pi/4; n modulo 4. */
static int reduce(double x, double *high, double *low) {
  if (!(__builtin_fabs(x) < 0x1p31))
    return reduceFar(x, high, low) & 3;
  double n = __builtin_rint(x * 0x1.45f306dc9c883p-1);
  /* The first difference is exact, the second product is in two parts. */
  double r = __builtin_fma(-n, 0x1.921fb544p0, x);
  double t = n * 0x1.0b4611a6p-34;
  double tLow = __builtin_fma(n, 0x1.0b4611a6p-34, -t);
  double h = r - t;
  double part = h - r;
  double lost = (r - (h - part)) - (t + part);
  double u = n * 0x1.3198a2e037073p-69;
  lost = lost - tLow - u;
  *high = h + lost;
  *low = (h - *high) + lost;
  return (int)((long long)n & 3);
}

static double sinOf(double r, double low) {
  double z = r * r;
  double p = 1.0 / 355687428096000.0;
  p = __builtin_fma(p, z, -1.0 / 1307674368000.0);
  p = __builtin_fma(p, z, 1.0 / 6227020800.0);
  p = __builtin_fma(p, z, -1.0 / 39916800.0);
  p = __builtin_fma(p, z, 1.0 / 362880.0);
  p = __builtin_fma(p, z, -1.0 / 5040.0);
  p = __builtin_fma(p, z, 1.0 / 120.0);
  p = __builtin_fma(p, z, -1.0 / 6.0);
  return r + __builtin_fma(r * z, p, low * (1.0 - 0.5 * z));
}

static double cosOf(double r, double low) {
  double z = r * r;
  double p = -1.0 / 6402373705728000.0;
  p = __builtin_fma(p, z, 1.0 / 20922789888000.0);
  p = __builtin_fma(p, z, -1.0 / 87178291200.0);
  p = __builtin_fma(p, z, 1.0 / 479001600.0);
  p = __builtin_fma(p, z, -1.0 / 3628800.0);
  p = __builtin_fma(p, z, 1.0 / 40320.0);
  p = __builtin_fma(p, z, -1.0 / 720.0);
  p = __builtin_fma(p, z, 1.0 / 24.0);
  double half = 0.5 * z;
  double w = 1.0 - half;
  return w + (((1.0 - w) - half) + __builtin_fma(z * z, p, -r * low));
}

static double circular(double x, int turn) {
  if (!(__builtin_fabs(x) < kInfinity))
    return __builtin_nan("");
  double r, low;
  int n = reduce(x, &r, &low) + turn;
  double value = n & 1 ? cosOf(r, low) : sinOf(r, low);
  return n & 2 ? -value : value;
}

double DTILE_MATH(sin)(double x) { return x == 0.0 ? x : circular(x, 0); }
double DTILE_MATH(cos)(double x) { return circular(x, 1); }

/* ---- The error function ---- */

double DTILE_MATH(erf)(double x) {
  if (x != x)
    return x;
  double size = __builtin_fabs(x);
  if (size > 6.0)
    return __builtin_copysign(1.0, x);
  double z = size * size;
  double value;
  if (size < 1.75) {
    /* 2/sqrt(pi) e^-z times the sum of x (2z)^k / (1 3 5 … (2k + 1)): nothing cancels. */
    double term = size, sum = size;
    for (int k = 1; k < 100 && term > sum * 0x1p-56; ++k) {
      term *= 2.0 * z / (2 * k + 1);
      sum += term;
    }
    value = 0x1.20dd750429b6dp0 * expOf(-z, -__builtin_fma(size, size, -z)) * sum;
  } else {
    /* 1 - e^-z / sqrt(pi) / (x + 1/2/(x + 2/2/(x + 3/2/(x + …)))). */
    double fraction = size;
    for (int k = 90; k > 0; --k)
      fraction = size + 0.5 * k / fraction;
    value = 1.0 - expOf(-z, -__builtin_fma(size, size, -z)) * 0x1.20dd750429b6dp-1 / fraction;
  }
  return __builtin_copysign(value, x);
}

/* ---- Remainders ---- */

/* Digits of the quotient are taken off eleven at a time, in whole numbers: nothing is rounded. */
double DTILE_MATH(fmod)(double x, double y) {
  const u64 kSign = 1ull << 63, kOne = 1ull << 52, kSpecial = 0x7ffull << 52;
  u64 sign = bitsOf(x) & kSign, a = bitsOf(x) & ~kSign, b = bitsOf(y) & ~kSign;
  if (a >= kSpecial || b > kSpecial || b == 0)
    return __builtin_nan("");
  if (a < b)
    return x;
  /* Each is its digits times 2^(exponent - 1075); small ones have the exponent 1. */
  int high = (int)(a >> 52), low = (int)(b >> 52);
  u64 rest = high ? (a & (kOne - 1)) | kOne : a, digits = low ? (b & (kOne - 1)) | kOne : b;
  high += !high;
  low += !low;
  rest %= digits;
  while (high > low && rest) {
    int step = high - low < 11 ? high - low : 11;
    rest = (rest << step) % digits;
    high -= step;
  }
  while (rest && rest < kOne && low > 1) {
    rest <<= 1;
    --low;
  }
  return ofBits(sign | (rest < kOne ? rest : (rest & (kOne - 1)) | (u64)low << 52));
}

/* ---- f32 ---- */

float DTILE_MATH(sinf)(float x) { return (float)DTILE_MATH(sin)(x); }
float DTILE_MATH(cosf)(float x) { return (float)DTILE_MATH(cos)(x); }
float DTILE_MATH(powf)(float x, float y) { return (float)DTILE_MATH(pow)(x, y); }
float DTILE_MATH(fmodf)(float x, float y) { return (float)DTILE_MATH(fmod)(x, y); }
