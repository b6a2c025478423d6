// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Every elementwise operation on every element type that has it, as tile and as scalar, against
// definitions written here in wide integers and in double.
#include "interpreter_support.h"

#include <bit>
#include <cmath>
#include <limits>

namespace dtile::interpret::testing {
namespace {

constexpr DType kAll[] = {
#define DTYPE(ID, NAME, BITS, CLASS) DType::ID,
#include "frontend/base/dtypes.def"
};

constexpr int64_t kCount = 64;

/// Bytes of kCount elements.
struct Elements {
  DType dtype;
  std::vector<char> bytes;
  explicit Elements(DType dtype) : dtype(dtype), bytes(kCount * dtypeBytes(dtype)) {}
  char *at(int64_t i) { return bytes.data() + i * dtypeBytes(dtype); }
  Arg arg() { return tensor(bytes.data(), dtype, {kCount}); }
  double real(int64_t i) { return loadAsDouble(dtype, at(i)); }
};

/// Interesting values: limits, zero, small ones of both signs, NaN and infinity in floats.
Elements operands(DType dtype, unsigned turn) {
  Elements elements(dtype);
  constexpr double kReals[] = {0,   1,    -1,  0.5,    -2.25, 3,      1e-3, 7.75,
                               100, -0.1, 448, -57344, 1e30,  -1e-30, 2,    0.333};
  for (int64_t i = 0; i < kCount; ++i) {
    const int64_t choice = turn ? i / 8 : i % 16;
    if (isFloat(dtype)) {
      double value = kReals[choice % 16];
      if (i == 60 || (turn && i == 61))
        value = std::numeric_limits<double>::quiet_NaN();
      if (i == 62 || (turn && i == 63))
        value = std::numeric_limits<double>::infinity();
      storeFromDouble(dtype, elements.at(i), value);
      continue;
    }
    const unsigned bits = dtypeBits(dtype);
    const bool isSigned = dtypeClass(dtype) == DTypeClass::Int;
    const int64_t least = isSigned ? static_cast<int64_t>(~uint64_t(0) << (bits - 1)) : 0;
    const uint64_t most = isSigned ? ~uint64_t(least) : ~uint64_t(0) >> (64 - bits);
    const int64_t list[] = {0, 1, 2, 3, -1, -2, -3, 5, least, int64_t(most), 7, 31, 32, 8, 16, 63};
    storeFromInt(dtype, elements.at(i), dtype == DType::Bool ? choice & 1 : list[choice % 16]);
  }
  return elements;
}

std::string unaryText(const std::string &op, llvm::StringRef in, llvm::StringRef out) {
  const std::string a = in.str();
  const std::string c = out.str();
  return R"(
kernel @k {
  %n = const {value = 64} : index
  %a = param @a %n {param = 0, mode = "in"} : view<)" +
         a + R"(, 1>
  %t = param @t %n {param = 1, mode = "out"} : view<)" +
         c + R"(, 1>
  %s = param @s %n {param = 2, mode = "out"} : view<)" +
         c + R"(, 1>
  %c0 = const {value = 0} : index
  %c1 = const {value = 1} : index
  space @main {vars = []} {
    %x = load %a : tile<64x)" +
         a + R"(>
    %z = )" +
         op + R"( %x : tile<64x)" + c + R"(>
    store %z, %t
    for %c0, %n, %c1 (%i: index) {
      %av = view.slice %a, %i {dims = "i"} : view<)" +
         a + R"(, 0>
      %sv = view.slice %s, %i {dims = "i"} : view<)" +
         c + R"(, 0>
      %y = load %av : )" +
         a + R"(
      %w = )" +
         op + R"( %y : )" + c + R"(
      store %w, %sv
      yield
    }
    yield
  }
  return
})";
}

std::string binaryText(const std::string &op, const std::string &attrs, llvm::StringRef in,
                       llvm::StringRef out) {
  const std::string a = in.str();
  const std::string c = out.str();
  return R"(
kernel @k {
  %n = const {value = 64} : index
  %a = param @a %n {param = 0, mode = "in"} : view<)" +
         a + R"(, 1>
  %b = param @b %n {param = 1, mode = "in"} : view<)" +
         a + R"(, 1>
  %t = param @t %n {param = 2, mode = "out"} : view<)" +
         c + R"(, 1>
  %s = param @s %n {param = 3, mode = "out"} : view<)" +
         c + R"(, 1>
  %c0 = const {value = 0} : index
  %c1 = const {value = 1} : index
  space @main {vars = []} {
    %x = load %a : tile<64x)" +
         a + R"(>
    %y = load %b : tile<64x)" +
         a + R"(>
    %z = )" +
         op + " %x, %y" + attrs + " : tile<64x" + c + R"(>
    store %z, %t
    for %c0, %n, %c1 (%i: index) {
      %av = view.slice %a, %i {dims = "i"} : view<)" +
         a + R"(, 0>
      %bv = view.slice %b, %i {dims = "i"} : view<)" +
         a + R"(, 0>
      %sv = view.slice %s, %i {dims = "i"} : view<)" +
         c + R"(, 0>
      %xs = load %av : )" +
         a + R"(
      %ys = load %bv : )" +
         a + R"(
      %w = )" +
         op + " %xs, %ys" + attrs + " : " + c + R"(
      store %w, %sv
      yield
    }
    yield
  }
  return
})";
}

/// Runs the program; the tile's and the scalars' results must be the same bits.
Elements run(const std::string &program, std::vector<Elements> inputs, DType out) {
  Program parsed(program);
  Elements tile(out);
  Elements scalars(out);
  if (!parsed.module)
    return tile;
  Machine machine(*parsed.module, 1);
  std::vector<Arg> args;
  for (Elements &input : inputs)
    args.push_back(input.arg());
  args.push_back(tile.arg());
  args.push_back(scalars.arg());
  EXPECT_EQ(text(machine.launch("k", {args})), "");
  EXPECT_EQ(tile.bytes, scalars.bytes) << program;
  return tile;
}

using Wide = __int128;

Wide integer(Elements &elements, int64_t i) {
  const int64_t value = loadAsInt(elements.dtype, elements.at(i));
  return elements.dtype == DType::U64 ? Wide(uint64_t(value)) : Wide(value);
}

/// The low bits of a wide integer as an element.
void expectInteger(Elements &got, int64_t i, Wide expected, const std::string &what) {
  char element[8] = {};
  storeFromInt(got.dtype, element, static_cast<int64_t>(expected));
  EXPECT_EQ(loadAsInt(got.dtype, got.at(i)), loadAsInt(got.dtype, element)) << what << " " << i;
}

/// A real result, rounded once to the element type. Narrow types compute in f32 first.
void expectReal(Elements &got, int64_t i, double expected, double relative,
                const std::string &what) {
  const double value = got.real(i);
  char element[8] = {};
  if (got.dtype == DType::F64)
    storeFromDouble(got.dtype, element, expected);
  else
    storeFromDouble(got.dtype, element, static_cast<float>(expected));
  const double rounded = loadAsDouble(got.dtype, element);
  if (std::isnan(rounded) || std::isinf(rounded)) {
    EXPECT_EQ(std::isnan(value), std::isnan(rounded)) << what << " " << i << ": " << value;
    EXPECT_TRUE(std::isnan(rounded) || value == rounded) << what << " " << i << ": " << value;
    return;
  }
  EXPECT_NEAR(value, rounded, relative * std::fabs(rounded)) << what << " " << i;
}

/// Half a unit in the last place of a result is already in the rounding; libm may be off by a few.
double libmTolerance(DType dtype) {
  switch (dtype) {
  case DType::F64:
    return 1e-14;
  case DType::F32:
    return 1e-6;
  case DType::F16:
    return 1e-3;
  case DType::BF16:
    return 1e-2;
  default:
    return 0.26;
  }
}

struct IntegerOp {
  const char *name;
  Wide (*fn)(Wide, Wide, unsigned bits);
  bool onBool;
};

Wide floorDivide(Wide a, Wide b) {
  if (b == 0)
    return 0;
  const Wide quotient = a / b;
  return quotient * b != a && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

const IntegerOp kIntegerOps[] = {
    {"add", [](Wide a, Wide b, unsigned) { return a + b; }, false},
    {"sub", [](Wide a, Wide b, unsigned) { return a - b; }, false},
    // Only the low bits count, and the product of two u64 does not fit.
    {"mul", [](Wide a, Wide b, unsigned) { return Wide(int64_t(uint64_t(a) * uint64_t(b))); },
     false},
    {"div", [](Wide a, Wide b, unsigned) { return floorDivide(a, b); }, false},
    {"rem", [](Wide a, Wide b, unsigned) { return b == 0 ? 0 : a - floorDivide(a, b) * b; }, false},
    {"min", [](Wide a, Wide b, unsigned) { return a < b ? a : b; }, false},
    {"max", [](Wide a, Wide b, unsigned) { return a > b ? a : b; }, false},
    {"and", [](Wide a, Wide b, unsigned) { return a & b; }, true},
    {"or", [](Wide a, Wide b, unsigned) { return a | b; }, true},
    {"xor", [](Wide a, Wide b, unsigned) { return a ^ b; }, true},
    {"shl", [](Wide a, Wide b, unsigned bits) { return b < 0 || b >= bits ? 0 : a << int(b); },
     false},
    {"shr",
     [](Wide a, Wide b, unsigned bits) {
       return a >> int(b < 0 || b >= bits ? Wide(bits) - 1 : b);
     },
     false},
};

TEST(Elementwise, IntegerOperationsWrapFloorAndSaturateShifts) {
  for (const DType dtype : kAll) {
    if (isFloat(dtype))
      continue;
    for (const IntegerOp &op : kIntegerOps) {
      if (dtype == DType::Bool && !op.onBool)
        continue;
      const auto name = dtypeName(dtype);
      Elements a = operands(dtype, 0);
      Elements b = operands(dtype, 1);
      Elements got = run(binaryText(op.name, "", name, name), {a, b}, dtype);
      for (int64_t i = 0; i < kCount; ++i)
        expectInteger(got, i, op.fn(integer(a, i), integer(b, i), dtypeBits(dtype)),
                      std::string(op.name) + " " + name.str());
    }
  }
}

struct RealOp {
  const char *name;
  double (*fn)(double, double);
};

double flooredRemainder(double x, double y) {
  const double rest = std::fmod(x, y);
  return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
}

const RealOp kRealOps[] = {
    {"add", [](double a, double b) { return a + b; }},
    {"sub", [](double a, double b) { return a - b; }},
    {"mul", [](double a, double b) { return a * b; }},
    {"div", [](double a, double b) { return a / b; }},
    {"min", [](double a, double b) { return std::fmin(a, b); }},
    {"max", [](double a, double b) { return std::fmax(a, b); }},
    {"pow", [](double a, double b) { return std::pow(a, b); }},
};

TEST(Elementwise, FloatOperationsRoundAfterEach) {
  for (const DType dtype : kAll) {
    if (!isFloat(dtype))
      continue;
    for (const RealOp &op : kRealOps) {
      const auto name = dtypeName(dtype);
      Elements a = operands(dtype, 0);
      Elements b = operands(dtype, 1);
      Elements got = run(binaryText(op.name, "", name, name), {a, b}, dtype);
      const bool isExact = op.name != std::string("pow");
      for (int64_t i = 0; i < kCount; ++i)
        expectReal(got, i, op.fn(a.real(i), b.real(i)), isExact ? 0 : libmTolerance(dtype),
                   std::string(op.name) + " " + name.str());
    }
  }
}

TEST(Elementwise, FloatRemainderHasTheSignOfTheDivisor) {
  for (const DType dtype : {DType::F32, DType::F64}) {
    const auto name = dtypeName(dtype);
    Elements a(dtype);
    Elements b(dtype);
    for (int64_t i = 0; i < kCount; ++i) {
      storeFromDouble(dtype, a.at(i), (i - 32) * 0.75);
      storeFromDouble(dtype, b.at(i), i % 2 ? 2.5 : -1.25);
    }
    Elements got = run(binaryText("rem", "", name, name), {a, b}, dtype);
    for (int64_t i = 0; i < kCount; ++i)
      EXPECT_EQ(got.real(i), flooredRemainder(a.real(i), b.real(i))) << i;
  }
}

const std::pair<const char *, double (*)(double)> kUnaryReals[] = {
    {"neg", [](double a) { return -a; }},
    {"abs", [](double a) { return std::fabs(a); }},
    {"floor", [](double a) { return std::floor(a); }},
    {"ceil", [](double a) { return std::ceil(a); }},
    {"sqrt", [](double a) { return std::sqrt(a); }},
    {"rsqrt", [](double a) { return 1 / std::sqrt(a); }},
    {"exp", [](double a) { return std::exp(a); }},
    {"exp2", [](double a) { return std::exp2(a); }},
    {"log", [](double a) { return std::log(a); }},
    {"log2", [](double a) { return std::log2(a); }},
    {"sin", [](double a) { return std::sin(a); }},
    {"cos", [](double a) { return std::cos(a); }},
    {"atan", [](double a) { return std::atan(a); }},
    {"tanh", [](double a) { return std::tanh(a); }},
    {"erf", [](double a) { return std::erf(a); }},
};

TEST(Elementwise, FloatFunctions) {
  for (const DType dtype : kAll) {
    if (!isFloat(dtype))
      continue;
    for (const auto &[name, fn] : kUnaryReals) {
      const auto type = dtypeName(dtype);
      Elements a = operands(dtype, 0);
      Elements got = run(unaryText(name, type, type), {a}, dtype);
      for (int64_t i = 0; i < kCount; ++i)
        expectReal(got, i, fn(a.real(i)), libmTolerance(dtype), std::string(name) + type.str());
    }
  }
}

TEST(Elementwise, IntegerFunctions) {
  for (const DType dtype : kAll) {
    if (isFloat(dtype))
      continue;
    const auto type = dtypeName(dtype);
    Elements a = operands(dtype, 0);
    if (dtype != DType::Bool) {
      Elements negated = run(unaryText("neg", type, type), {a}, dtype);
      Elements absolute = run(unaryText("abs", type, type), {a}, dtype);
      for (int64_t i = 0; i < kCount; ++i) {
        const Wide value = integer(a, i);
        expectInteger(negated, i, -value, "neg");
        expectInteger(absolute, i, value < 0 ? -value : value, "abs");
      }
    }
    Elements inverted = run(unaryText("not", type, type), {a}, dtype);
    for (int64_t i = 0; i < kCount; ++i)
      expectInteger(inverted, i, dtype == DType::Bool ? Wide(integer(a, i) == 0) : ~integer(a, i),
                    "not " + type.str());
  }
}

TEST(Elementwise, Comparisons) {
  const std::pair<const char *, bool (*)(double, double)> preds[] = {
      {"eq", [](double a, double b) { return a == b; }},
      {"ne", [](double a, double b) { return a != b; }},
      {"lt", [](double a, double b) { return a < b; }},
      {"le", [](double a, double b) { return a <= b; }},
      {"gt", [](double a, double b) { return a > b; }},
      {"ge", [](double a, double b) { return a >= b; }},
  };
  for (const DType dtype : kAll)
    for (const auto &[name, fn] : preds) {
      Elements a = operands(dtype, 0);
      Elements b = operands(dtype, 1);
      const std::string attrs = std::string(" {pred = \"") + name + "\"}";
      Elements got = run(binaryText("cmp", attrs, dtypeName(dtype), "bool"), {a, b}, DType::Bool);
      for (int64_t i = 0; i < kCount; ++i) {
        // 64-bit integers do not all fit a double.
        bool expected = fn(a.real(i), b.real(i));
        if (!isFloat(dtype)) {
          const Wide order = integer(a, i) - integer(b, i);
          expected = fn(order < 0 ? -1 : order > 0, 0);
        }
        EXPECT_EQ(got.bytes[i], expected) << name << " " << dtypeName(dtype).str() << " " << i;
      }
    }
}

/// The one rounding from a wide integer or a double that a cast makes.
void storeCast(DType to, void *element, Elements &from, int64_t i) {
  if (isFloat(from.dtype))
    return storeFromDouble(to, element, from.real(i));
  const Wide value = integer(from, i);
  if (to == DType::Bool)
    storeFromInt(to, element, value != 0);
  else if (isInteger(to))
    storeFromInt(to, element, static_cast<int64_t>(value));
  else if (to == DType::F64)
    storeFromDouble(to, element, static_cast<double>(value));
  else if (to == DType::F32)
    storeFromDouble(to, element, static_cast<double>(static_cast<float>(value)));
  else if (value <= INT64_MAX)
    storeFromInt(to, element, static_cast<int64_t>(value));
  else
    storeFromDouble(to, element, static_cast<double>(value));
}

TEST(Elementwise, CastsBetweenAllTypesRoundOnceTruncateAndSaturate) {
  for (const DType from : kAll)
    for (const DType to : kAll) {
      Elements a = operands(from, 0);
      Elements got = run(unaryText("cast", dtypeName(from), dtypeName(to)), {a}, to);
      for (int64_t i = 0; i < kCount; ++i) {
        char element[8] = {};
        storeCast(to, element, a, i);
        const double expected = loadAsDouble(to, element);
        const double value = got.real(i);
        EXPECT_TRUE(value == expected || (std::isnan(value) && std::isnan(expected)))
            << dtypeName(from).str() << " to " << dtypeName(to).str() << " of " << a.real(i) << ": "
            << value << " instead of " << expected;
        if (isInteger(to))
          EXPECT_EQ(loadAsInt(to, got.at(i)), loadAsInt(to, element));
      }
    }
}

TEST(Elementwise, CastsOfWideIntegersToNarrowFloatsRoundOnce) {
  // 2^60 + 2^52 + 1 lies just above the middle of two bf16: by way of f32 or f64 the 1 is lost and
  // the tie goes down.
  for (const uint64_t value : {(uint64_t(1) << 60) + (uint64_t(1) << 52) + 1,
                               (uint64_t(1) << 63) + (uint64_t(1) << 55) + 1}) {
    Elements a(DType::U64);
    for (int64_t i = 0; i < kCount; ++i)
      storeFromInt(DType::U64, a.at(i), static_cast<int64_t>(value));
    Elements got = run(unaryText("cast", "u64", "bf16"), {a}, DType::BF16);
    const double unit = value >> 63 ? 0x1p56 : 0x1p53;
    EXPECT_EQ(got.real(0), std::ldexp(1, value >> 63 ? 63 : 60) + unit);
  }
}

TEST(Elementwise, SelectTakesTheSecondOperandWhereTheFirstIsFalse) {
  Program program(R"(
kernel @k {
  %n = const {value = 64} : index
  %c = param @c %n {param = 0, mode = "in"} : view<bool, 1>
  %a = param @a %n {param = 1, mode = "in"} : view<f16, 1>
  %b = param @b %n {param = 2, mode = "in"} : view<f16, 1>
  %t = param @t %n {param = 3, mode = "out"} : view<f16, 1>
  space @main {vars = []} {
    %m = load %c : tile<64xbool>
    %x = load %a : tile<64xf16>
    %y = load %b : tile<64xf16>
    %z = select %m, %x, %y : tile<64xf16>
    store %z, %t
    yield
  }
  return
})");
  Elements c(DType::Bool);
  Elements a = operands(DType::F16, 0);
  Elements b = operands(DType::F16, 1);
  Elements got(DType::F16);
  for (int64_t i = 0; i < kCount; ++i)
    c.bytes[i] = i % 3 == 0;
  Machine machine(*program.module, 1);
  ASSERT_EQ(text(machine.launch("k", {{c.arg(), a.arg(), b.arg(), got.arg()}})), "");
  for (int64_t i = 0; i < kCount; ++i)
    EXPECT_EQ(std::memcmp(got.at(i), i % 3 == 0 ? a.at(i) : b.at(i), 2), 0) << i;
}

TEST(Elementwise, OperandsKeepTheirValuesWhenResultsAreWrittenInPlace) {
  // x is used twice, y once: only y's memory may become a result.
  Program program(R"(
kernel @k {
  %n = const {value = 4} : index
  %a = param @a %n {param = 0, mode = "in"} : view<f32, 1>
  %t = param @t %n {param = 1, mode = "out"} : view<f32, 1>
  space @main {vars = []} {
    %x = load %a : tile<4xf32>
    %y = neg %x : tile<4xf32>
    %z = mul %y, %x : tile<4xf32>
    %w = add %z, %x : tile<4xf32>
    store %w, %t
    yield
  }
  return
})");
  std::vector<float> a{1, 2, 3, 4};
  std::vector<float> t(4);
  Machine machine(*program.module, 1);
  ASSERT_EQ(text(machine.launch("k", {{tensor(a), tensor(t)}})), "");
  EXPECT_EQ(t, (std::vector<float>{0, -2, -6, -12}));
}

} // namespace
} // namespace dtile::interpret::testing
