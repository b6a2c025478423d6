// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Elementary functions of the device library against this machine's libm.
#define DTILE_MATH(name) device_##name
#include "backend/device_library/math.c"

#include "gtest/gtest.h"

#include <cmath>
#include <functional>
#include <random>

namespace {

/// How far apart two numbers are, in units in the last place of the second.
double distance(double x, double y) {
  if (x == y || (std::isnan(x) && std::isnan(y)))
    return 0;
  if (!std::isfinite(x) || !std::isfinite(y))
    return INFINITY;
  return std::fabs(x - y) / (std::nextafter(std::fabs(y), INFINITY) - std::fabs(y));
}

using Function = double (*)(double);

/// Arguments from a range, each of some magnitudes, and the edges of the format.
void check(const char *name, Function ours, Function libm, double bound, double range) {
  std::mt19937_64 engine(7);
  std::uniform_real_distribution<double> unit(-1, 1);
  std::vector<double> arguments = {0.0, -0.0, 1.0, -1.0, INFINITY, -INFINITY, NAN, 5e-324, 1e308};
  for (int i = 0; i < 30000; ++i)
    arguments.push_back(unit(engine) * range * std::ldexp(1.0, -(i % 24)));
  for (double x : arguments) {
    const double got = ours(x), wanted = libm(x);
    ASSERT_LE(distance(got, wanted), bound) << name << "(" << x << ") = " << got;
    if (!std::isnan(wanted))
      ASSERT_EQ(std::signbit(got), std::signbit(wanted)) << name << "(" << x << ")";
  }
}

TEST(DeviceMath, FunctionsStayWithinTheirBounds) {
  check("exp", device_exp, [](double x) { return std::exp(x); }, 1, 760);
  check("exp2", device_exp2, [](double x) { return std::exp2(x); }, 1, 1080);
  check("log", device_log, [](double x) { return std::log(x); }, 1, 1e6);
  check("log2", device_log2, [](double x) { return std::log2(x); }, 1, 1e6);
  check("tanh", device_tanh, [](double x) { return std::tanh(x); }, 4, 25);
  check("erf", device_erf, [](double x) { return std::erf(x); }, 12, 7);
  for (double range : {20.0, 1e9, 1e18, 1e300}) {
    check("sin", device_sin, [](double x) { return std::sin(x); }, 2, range);
    check("cos", device_cos, [](double x) { return std::cos(x); }, 2, range);
  }
}

TEST(DeviceMath, MultiplesOfPiAreNearlyZero) {
  for (int i = 1; i < 2000; ++i) {
    EXPECT_LE(distance(device_sin(i * M_PI), std::sin(i * M_PI)), 3) << i;
    EXPECT_LE(distance(device_cos((i + 0.5) * M_PI), std::cos((i + 0.5) * M_PI)), 3) << i;
  }
}

TEST(DeviceMath, RemaindersAreExact) {
  std::mt19937_64 engine(11);
  std::uniform_real_distribution<double> unit(-1, 1);
  std::uniform_int_distribution<int> exponent(-1074, 1023);
  std::vector<double> edges = {0.0,
                               -0.0,
                               1.0,
                               -1.0,
                               INFINITY,
                               -INFINITY,
                               NAN,
                               5e-324,
                               -5e-324,
                               0x1p-1022,
                               0x1.fffffffffffffp-1023,
                               1.7e308};
  const auto check = [](double x, double y) {
    const double got = device_fmod(x, y), wanted = std::fmod(x, y);
    ASSERT_EQ(distance(got, wanted), 0) << x << " " << y << " " << got;
    if (!std::isnan(wanted))
      ASSERT_EQ(std::signbit(got), std::signbit(wanted)) << x << " " << y;
  };
  for (double x : edges)
    for (double y : edges)
      check(x, y);
  for (int i = 0; i < 30000; ++i) {
    const double x = std::ldexp(unit(engine), exponent(engine));
    check(x, std::ldexp(unit(engine), exponent(engine)));
    check(x, x * std::ldexp(unit(engine), -int(i % 60)));
  }
}

TEST(DeviceMath, PowersKnowTheirEdges) {
  const double values[] = {0.0,  -0.0, 1.0,      -1.0,      2.0, -2.0,  0.5,    -0.5,   3.0,
                           -3.0, 41.0, INFINITY, -INFINITY, NAN, 1e300, -1e300, 1e-310, 0x1p53};
  for (double x : values)
    for (double y : values) {
      const double got = device_pow(x, y), wanted = std::pow(x, y);
      EXPECT_LE(distance(got, wanted), 2) << x << " to the " << y << " = " << got;
      if (!std::isnan(wanted))
        EXPECT_EQ(std::signbit(got), std::signbit(wanted)) << x << " to the " << y;
    }
  std::mt19937_64 engine(7);
  std::uniform_real_distribution<double> unit(-1, 1);
  for (int i = 0; i < 30000; ++i) {
    const double x = std::exp(10 * unit(engine)), y = 30 * unit(engine);
    EXPECT_LE(distance(device_pow(x, y), std::pow(x, y)), 6) << x << " to the " << y;
  }
}

TEST(DeviceMath, FloatsAreRoundedOnce) {
  std::mt19937 engine(7);
  std::uniform_real_distribution<float> unit(-1, 1);
  for (int i = 0; i < 10000; ++i) {
    const float x = 1e4f * unit(engine), y = 8 * unit(engine);
    EXPECT_FLOAT_EQ(device_sinf(x), float(std::sin(double(x))));
    EXPECT_FLOAT_EQ(device_cosf(x), float(std::cos(double(x))));
    EXPECT_FLOAT_EQ(device_powf(std::fabs(x), y), float(std::pow(double(std::fabs(x)), double(y))));
  }
}

} // namespace
