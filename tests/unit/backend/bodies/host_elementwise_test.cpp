// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Elementwise operations of compiled code against the interpreter, on every element type.
#include "host_support.h"

#include <limits>

namespace dtile::backend::host::testing {
namespace {

constexpr int64_t kCount = 200;

/// One operation under test.
struct Operation {
  std::string name;
  DType out;
  bool isBinary = true;
  std::string attributes = "";
};

/// Every operation over kCount elements of type `in`, once as tiles and once as scalars.
/// Parameters: the two operands, then for each operation the tiles' result and the scalars'.
std::string elementwiseText(llvm::ArrayRef<Operation> operations, DType in) {
  const std::string x = dtypeName(in).str();
  const std::string n = std::to_string(kCount);
  std::string params;
  std::string tiles;
  std::string scalars;
  int number = 2;
  for (const Operation &op : operations) {
    const std::string i = std::to_string(number);
    const std::string z = dtypeName(op.out).str();
    params += "  %t" + i + " = param @t" + i + " %n {param = " + i + ", mode = \"out\"} : view<" +
              z + ", 1>\n";
    params += "  %s" + i + " = param @s" + i + " %n {param = " + std::to_string(number + 1) +
              ", mode = \"out\"} : view<" + z + ", 1>\n";
    tiles += "    %z" + i + " = " + op.name + (op.isBinary ? " %x, %y " : " %x ") + op.attributes +
             " : tile<" + n + "x" + z + ">\n    store %z" + i + ", %t" + i + "\n";
    scalars += "    %e" + i + " = view.slice %s" + i + ", %i {dims = \"i\"} : view<" + z +
               ", 0>\n    %w" + i + " = " + op.name + (op.isBinary ? " %u, %v " : " %u ") +
               op.attributes + " : " + z + "\n    store %w" + i + ", %e" + i + "\n";
    number += 2;
  }
  return "kernel @k {\n"
         "  %n = const {value = " +
         n +
         "} : index\n"
         "  %c0 = const {value = 0} : index\n"
         "  %c1 = const {value = 1} : index\n"
         "  %a = param @a %n {param = 0, mode = \"in\"} : view<" +
         x +
         ", 1>\n"
         "  %b = param @b %n {param = 1, mode = \"in\"} : view<" +
         x + ", 1>\n" + params +
         "  space @tiles {vars = []} {\n"
         "    %x = load %a : tile<" +
         n + "x" + x +
         ">\n"
         "    %y = load %b : tile<" +
         n + "x" + x + ">\n" + tiles +
         "    yield\n  }\n"
         "  space @scalars %c0, %n, %c1 {vars = [\"i\"]} (%i: index) {\n"
         "    %ai = view.slice %a, %i {dims = \"i\"} : view<" +
         x +
         ", 0>\n"
         "    %bi = view.slice %b, %i {dims = \"i\"} : view<" +
         x +
         ", 0>\n"
         "    %u = load %ai : " +
         x +
         "\n"
         "    %v = load %bi : " +
         x + "\n" + scalars + "    yield\n  }\n  return\n}\n";
}

void checkOperations(llvm::ArrayRef<Operation> operations, DType in, Tensor a, Tensor b,
                     double tolerance) {
  std::string what = dtypeName(in).str() + ":";
  std::vector<Tensor> tensors{std::move(a), std::move(b)};
  for (const Operation &op : operations) {
    what += " " + op.name + " " + op.attributes;
    tensors.push_back(zeros(op.out, {kCount}));
    tensors.push_back(zeros(op.out, {kCount}));
  }
  SCOPED_TRACE(what);
  runBoth(elementwiseText(operations, in), 1, std::move(tensors), tolerance);
}

/// Operations whose result has the operands' type.
void checkSame(std::initializer_list<const char *> names, DType type, bool isBinary, Tensor a,
               Tensor b, double tolerance) {
  std::vector<Operation> operations;
  for (const char *name : names)
    operations.push_back({name, type, isBinary});
  checkOperations(operations, type, std::move(a), std::move(b), tolerance);
}

/// One unit in the last place of 1, a little more where the narrow types may round twice.
double toleranceOf(DType type) {
  switch (type) {
  case DType::F64:
    return 1e-14;
  case DType::F32:
    return 1e-6;
  case DType::F16:
    return 1.0 / 1024;
  case DType::BF16:
    return 1.0 / 128;
  case DType::F8E4M3:
    return 1.0 / 8;
  case DType::F8E5M2:
    return 1.0 / 4;
  default:
    return 0;
  }
}

const DType kFloats[] = {DType::F32,  DType::F64,    DType::F16,
                         DType::BF16, DType::F8E4M3, DType::F8E5M2};
const DType kIntegers[] = {DType::I8, DType::I16, DType::I32, DType::I64,
                           DType::U8, DType::U16, DType::U32, DType::U64};

/// Every corner of an integer type, with every other.
Tensor corners(DType type, bool outer) {
  Tensor tensor = zeros(type, {kCount});
  const int64_t bits = dtypeBits(type);
  const int64_t least =
      bits == 64 ? std::numeric_limits<int64_t>::min() : -(int64_t(1) << (bits - 1));
  const int64_t values[] = {0, 1,  -1,    2,         -2,     3,        -3,
                            7, -8, least, least + 1, ~least, bits - 1, bits};
  for (int64_t i = 0; i < kCount; ++i)
    storeFromInt(type, tensor.bytes.data() + i * bits / 8,
                 values[(outer ? i / std::size(values) : i) % std::size(values)]);
  return tensor;
}

Tensor specials(DType type, bool outer) {
  const double infinity = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double values[] = {0.0, -0.0, 1,    -1,   infinity, -infinity, nan,
                           0.5, -2.5, 3e-8, 1e-5, 6e4,      -448,      1e30};
  return filled(type, {kCount}, 1, [&](int64_t i) {
    return values[(outer ? i / std::size(values) : i) % std::size(values)];
  });
}

TEST(HostElementwise, FloatArithmeticRoundsOnceAnOperation) {
  for (DType type : kFloats) {
    const auto names = {"add", "sub", "mul", "div", "min", "max"};
    checkSame(names, type, true, random(type, {kCount}, 1, 1, 4), random(type, {kCount}, 2, 1, 4),
              0);
    checkSame(names, type, true, specials(type, false), specials(type, true), 0);
  }
}

TEST(HostElementwise, RemainderFollowsTheFloor) {
  for (DType type : kFloats)
    checkSame({"rem"}, type, true, random(type, {kCount}, 3, 1, 40),
              random(type, {kCount}, 4, 1, 4), 4 * toleranceOf(type));
}

TEST(HostElementwise, SignsAndWholeNumbersAreExact) {
  for (DType type : kFloats)
    checkSame({"neg", "abs", "floor", "ceil", "sqrt"}, type, false, specials(type, false),
              specials(type, true), 0);
}

TEST(HostElementwise, ElementaryFunctionsAreClose) {
  for (DType type : kFloats) {
    checkSame({"exp", "exp2", "tanh", "erf", "sin", "cos", "atan"}, type, false,
              random(type, {kCount}, 5, 1, 6), random(type, {kCount}, 6), toleranceOf(type));
    Tensor positive = filled(type, {kCount}, 1, [](int64_t i) { return 0.01 + 0.05 * double(i); });
    checkSame({"log", "log2", "sqrt", "rsqrt"}, type, false, positive, positive, toleranceOf(type));
    checkSame({"pow"}, type, true, positive, random(type, {kCount}, 7, 1, 2), toleranceOf(type));
  }
}

TEST(HostElementwise, ElementaryFunctionsKnowTheirLimits) {
  for (DType type : {DType::F32, DType::F64, DType::BF16})
    checkSame({"exp", "exp2", "log", "log2", "tanh", "erf", "atan", "rsqrt"}, type, false,
              specials(type, false), specials(type, true), toleranceOf(type));
}

TEST(HostElementwise, IntegersWrapFloorAndShiftSafely) {
  for (DType type : kIntegers) {
    const auto names = {"add", "sub", "mul", "div", "rem", "min",
                        "max", "and", "or",  "xor", "shl", "shr"};
    checkSame(names, type, true, corners(type, false), corners(type, true), 0);
    checkSame(names, type, true, random(type, {kCount}, 8), random(type, {kCount}, 9), 0);
    checkSame({"neg", "not", "abs"}, type, false, corners(type, false), corners(type, true), 0);
  }
}

TEST(HostElementwise, BoolsAreLogical) {
  Tensor a = random(DType::Bool, {kCount}, 10);
  Tensor b = random(DType::Bool, {kCount}, 11);
  checkSame({"and", "or", "xor"}, DType::Bool, true, a, b, 0);
  checkSame({"not"}, DType::Bool, false, a, b, 0);
}

TEST(HostElementwise, ComparisonsKnowSignsAndNaN) {
  std::vector<Operation> operations;
  for (const char *pred : {"eq", "ne", "lt", "le", "gt", "ge"})
    operations.push_back({"cmp", DType::Bool, true, std::string("{pred = \"") + pred + "\"}"});
  for (DType type : kIntegers)
    checkOperations(operations, type, corners(type, false), corners(type, true), 0);
  for (DType type : kFloats)
    checkOperations(operations, type, specials(type, false), specials(type, true), 0);
}

TEST(HostElementwise, CastsBetweenAllTypesAgree) {
  std::vector<DType> all(std::begin(kFloats), std::end(kFloats));
  all.insert(all.end(), std::begin(kIntegers), std::end(kIntegers));
  all.push_back(DType::Bool);
  for (DType from : all) {
    std::vector<Operation> operations;
    for (DType to : all)
      if (from != to)
        operations.push_back({"cast", to, false});
    Tensor values = isFloat(from)         ? specials(from, false)
                    : from == DType::Bool ? random(from, {kCount}, 12)
                                          : corners(from, false);
    checkOperations(operations, from, values, random(from, {kCount}, 13, 1, 300), 0);
    checkOperations(operations, from, random(from, {kCount}, 13, 1, 300), values, 0);
  }
}

TEST(HostElementwise, BitsOfAllTypesAgree) {
  std::vector<DType> all(std::begin(kFloats), std::end(kFloats));
  all.insert(all.end(), std::begin(kIntegers), std::end(kIntegers));
  for (DType from : all) {
    std::vector<Operation> operations;
    for (DType to : all)
      if (from != to && dtypeBits(from) == dtypeBits(to) && (dtypeBits(from) > 16 || !isFloat(to)))
        operations.push_back({"bitcast", to, false});
    // Of a NaN of 8 or 16 bits it matters only that it is one.
    const bool hasNans = isFloat(from) && dtypeBits(from) > 16;
    Tensor values = hasNans ? specials(from, false) : random(from, {kCount}, 12, 1, 300);
    checkOperations(operations, from, values, random(from, {kCount}, 13, 1, 300), 0);
  }
}

TEST(HostElementwise, EveryPatternOfNarrowFloatsConverts) {
  for (DType from : {DType::F8E4M3, DType::F8E5M2}) {
    std::vector<Operation> operations;
    for (DType to : kFloats)
      if (to != from)
        operations.push_back({"cast", to, false});
    Tensor patterns = zeros(from, {kCount});
    for (int half = 0; half < 2; ++half) {
      for (int64_t i = 0; i < kCount; ++i)
        patterns.bytes[i] = uint8_t(i + half * 56);
      checkOperations(operations, from, patterns, patterns, 0);
    }
  }
}

TEST(HostElementwise, TiesRoundToEven) {
  const std::pair<DType, int> kMantissas[] = {
      {DType::F16, 10}, {DType::BF16, 7}, {DType::F8E4M3, 3}, {DType::F8E5M2, 2}};
  for (auto [to, mantissa] : kMantissas)
    for (DType from : {DType::F32, DType::F64}) {
      // Middles of neighbours, and just off the middle, over many exponents.
      const double unit = std::ldexp(1.0, -mantissa);
      Tensor values = filled(from, {kCount}, 1, [&](int64_t i) {
        const double offsets[] = {0.5, 1.5, 0.5 + 1e-7, 1.5 - 1e-7};
        return std::ldexp(1.0 + unit * offsets[i % 4], int(i / 8) - 18) * (i % 8 < 4 ? 1 : -1);
      });
      checkOperations({{"cast", to, false}}, from, values, values, 0);
    }
}

} // namespace
} // namespace dtile::backend::host::testing
