// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Functions that tests call (sema/declarations/test_builtins.def): array makers, reference
// operations, collectives.
#include "backend/driver/testing/test_evaluator.h"

#include "backend/ndarray/reference_ops.h"
#include "frontend/ast/mesh.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSwitch.h"

#include <cmath>

namespace dtile::driver {

namespace {

/// One enumerator a row of test_builtins.def.
enum class TestBuiltin : uint8_t {
#define TEST_BUILTIN(ID, NAME, SIGNATURE, DOC) ID,
#include "sema/declarations/test_builtins.def"
};

std::optional<TestBuiltin> findBuiltin(llvm::StringRef name) {
  return llvm::StringSwitch<std::optional<TestBuiltin>>(name)
#define TEST_BUILTIN(ID, NAME, SIGNATURE, DOC) .Case(NAME, TestBuiltin::ID)
#include "sema/declarations/test_builtins.def"
      .Default(std::nullopt);
}

llvm::StringRef signatureOf(TestBuiltin builtin) {
  switch (builtin) {
#define TEST_BUILTIN(ID, NAME, SIGNATURE, DOC)                                                     \
  case TestBuiltin::ID:                                                                            \
    return NAME SIGNATURE;
#include "sema/declarations/test_builtins.def"
  }
  return "";
}

// An array of a test may have this many bytes on a rank.
constexpr uint64_t kMaxArrayBytes = uint64_t(2) << 30;

bool fitsMemory(llvm::ArrayRef<int64_t> sizes, DType dtype) {
  const auto count = ndarray::elementCount(sizes);
  return count && uint64_t(*count) <= kMaxArrayBytes / dtypeBytes(dtype);
}

// -1 is the last axis.
llvm::Expected<unsigned> axisOf(const Array &array, int64_t axis) {
  const int64_t rank = array.rank();
  if (axis < -rank || axis >= rank)
    return llvm::createStringError("an array of sizes " + ndarray::shapeText(array.shape()) +
                                   " has no dimension " + std::to_string(axis));
  return unsigned(axis < 0 ? axis + rank : axis);
}

std::optional<ndarray::Unary> unaryOf(TestBuiltin builtin) {
  switch (builtin) {
#define DTILE_Function(KIND)                                                                       \
  case TestBuiltin::KIND:                                                                          \
    return ndarray::Unary::KIND;
#define DTILE_Own(KIND)
#define ELEMENTWISE(KIND, NAME, ARITY, TYPES, FORM, DOC) DTILE_##FORM(KIND)
#include "frontend/base/elementwise.def"
#undef DTILE_Function
#undef DTILE_Own
  default:
    return std::nullopt;
  }
}

std::optional<ndarray::Reduction> reductionOf(TestBuiltin builtin) {
  switch (builtin) {
  case TestBuiltin::Sum:
  case TestBuiltin::Mean:
    return ndarray::Reduction::Sum;
  case TestBuiltin::Max:
    return ndarray::Reduction::Max;
  case TestBuiltin::Min:
    return ndarray::Reduction::Min;
  case TestBuiltin::Prod:
    return ndarray::Reduction::Prod;
  case TestBuiltin::Any:
    return ndarray::Reduction::Any;
  case TestBuiltin::All:
    return ndarray::Reduction::All;
  default:
    return std::nullopt;
  }
}

} // namespace

struct TestEvaluator::Call {
  TestBuiltin builtin;
  SourceRange range;
  /// Null where nothing is written.
  std::optional<DType> dtype;
  std::vector<TestValue> args;
  std::vector<SourceRange> places;
  std::map<std::string, std::pair<TestValue, SourceRange>> labels;

  [[nodiscard]] const Array &at(size_t arg, int rank) const { return *args[arg].arrays[rank]; }
};

// What a call names.

TestEvaluator::Result TestEvaluator::evaluateCall(const ast::CallExpr &e) {
  const ast::Expr *callee = e.callee;
  llvm::ArrayRef<ast::Expr *> shape;
  const auto *index = llvm::dyn_cast<ast::IndexExpr>(callee);
  if (index) {
    shape = index->indices;
    callee = index->base;
  }
  const auto *generics = llvm::dyn_cast<ast::GenericExpr>(callee);
  if (generics)
    callee = generics->base;
  std::string name;
  if (const auto *plain = llvm::dyn_cast<ast::NameExpr>(callee))
    name = plain->name.str();
  else if (llvm::isa<ast::MemberExpr>(callee))
    name = session_.sources.text(callee->range).str();
  if (name.empty())
    return fail(callee->range, "a kernel or a function is needed here");
  if (index)
    return makeFilled(e, name, generics, shape, e.args);
  // A kernel may be called as a function is; what a kernel promises speaks of functions.
  if (!clause_)
    if (const ast::KernelDecl *kernel = library_.program().findKernel(name))
      return callKernel(e, *kernel, generics);
  // What tests know goes before a function of the file that has its name.
  const auto *plain = llvm::dyn_cast<ast::NameExpr>(callee);
  if (!(plain && findBuiltin(plain->name)))
    if (const ast::FnDecl *fn =
            library_.program().findFunction(callee, clause_ ? clause_->decl : nullptr))
      return callFunction(e, *fn, generics);
  return callBuiltin(e, name, generics);
}

TestEvaluator::Result TestEvaluator::callBuiltin(const ast::CallExpr &e, llvm::StringRef name,
                                                 const ast::GenericExpr *generics) {
  const auto builtin = findBuiltin(name);
  if (!builtin)
    return fail(e.callee->range, "`" + name + "` is neither a kernel nor a function of tests");
  if (*builtin == TestBuiltin::BackToBack)
    return backToBack(e);
  if (*builtin == TestBuiltin::Fails)
    return fail(e.range, "`fails` is an expectation of its own: `expect fails(\"text\", …);`");
  if (const ast::NameExpr *axis = ast::axisNamedBy(&e))
    return callOfAxis(e, *axis);
  if (*builtin == TestBuiltin::Rank && !e.args.empty())
    return rankAt(e);
  const auto *along =
      llvm::find_if(e.args, [](const ast::Arg &arg) { return arg.label.name == ast::kAlongLabel; });
  const auto *axis = along == e.args.end() ? nullptr : llvm::dyn_cast<ast::NameExpr>(along->value);
  llvm::SmallVector<ast::Arg, 4> args(e.args);
  if (axis)
    args.erase(args.begin() + (along - e.args.begin()));
  Call call{*builtin, e.range, std::nullopt, {}, {}, {}};
  if (generics) {
    if (generics->args.size() != 1)
      return fail(generics->range, "one element type is needed here");
    call.dtype = elementType(*generics->args.front().value);
    if (!call.dtype)
      return std::nullopt;
  }
  if (!evaluateArguments(call, args))
    return std::nullopt;
  const bool isCollective = *builtin >= TestBuiltin::AllGather && *builtin <= TestBuiltin::FromRank;
  if (axis && !isCollective)
    return fail(along->label.range,
                "there is no argument `along:` in `" + signatureOf(*builtin) + "`");
  switch (*builtin) {
  case TestBuiltin::Rank:
  case TestBuiltin::NumRanks:
  case TestBuiltin::Blocks:
  case TestBuiltin::Arange:
  case TestBuiltin::Iota:
    return callNumber(call);
  case TestBuiltin::Random:
  case TestBuiltin::Zeros:
  case TestBuiltin::Ones:
  case TestBuiltin::Full:
    return fail(e.range, "sizes in brackets are needed: `" + signatureOf(*builtin) + "`");
  case TestBuiltin::Transpose:
  case TestBuiltin::Reshape:
  case TestBuiltin::Concat:
  case TestBuiltin::BroadcastTo:
  case TestBuiltin::Take:
  case TestBuiltin::Cast:
  case TestBuiltin::Bitcast:
    return callShape(call);
#define DTILE_Function(KIND) case TestBuiltin::KIND:
#define DTILE_Own(KIND)
#define ELEMENTWISE(KIND, NAME, ARITY, TYPES, FORM, DOC) DTILE_##FORM(KIND)
#include "frontend/base/elementwise.def"
#undef DTILE_Function
#undef DTILE_Own
  case TestBuiltin::Pow:
  case TestBuiltin::Clamp:
  case TestBuiltin::Where:
    return callElementwise(call);
  case TestBuiltin::Sum:
  case TestBuiltin::Max:
  case TestBuiltin::Min:
  case TestBuiltin::Prod:
  case TestBuiltin::Mean:
  case TestBuiltin::Any:
  case TestBuiltin::All:
    return callReduction(call);
  case TestBuiltin::ArgMax:
  case TestBuiltin::ArgMin:
  case TestBuiltin::CumSum:
  case TestBuiltin::CumMax:
  case TestBuiltin::ArgSort:
  case TestBuiltin::Gather:
    return callAlong(call);
  case TestBuiltin::Matmul:
  case TestBuiltin::Softmax:
  case TestBuiltin::Attention:
    return callReference(call);
  case TestBuiltin::AllGather:
  case TestBuiltin::AllReduce:
  case TestBuiltin::ReduceScatter:
  case TestBuiltin::AllToAll:
  case TestBuiltin::FromRank:
    return callCollective(call, axis);
  case TestBuiltin::BackToBack:
  case TestBuiltin::Fails:
    break;
  }
  return std::nullopt;
}

// Arguments.

bool TestEvaluator::evaluateArguments(Call &call, llvm::ArrayRef<ast::Arg> args) {
  for (const ast::Arg &arg : args) {
    Result value = evaluate(*arg.value);
    if (!value)
      return false;
    if (value->isTuple()) {
      fail(arg.value->range, "an array or a number is needed here");
      return false;
    }
    if (!arg.label.name.empty()) {
      call.labels[arg.label.name.str()] = {std::move(*value), arg.value->range};
    } else {
      call.args.push_back(std::move(*value));
      call.places.push_back(arg.value->range);
    }
  }
  return true;
}

std::optional<std::vector<int64_t>> TestEvaluator::takeInts(Call &call, llvm::StringRef label,
                                                            int64_t otherwise) {
  auto node = call.labels.extract(label.str());
  std::vector<int64_t> ints(ranks_, otherwise);
  if (node.empty())
    return ints;
  const auto &[value, place] = node.mapped();
  for (int rank = 0; rank < ranks_; ++rank) {
    if (!isActive(rank))
      continue;
    if (!isWholeNumber(*value.arrays[rank])) {
      fail(place, "a single integer is needed here");
      return std::nullopt;
    }
    ints[rank] = value.arrays[rank]->getInt(0);
  }
  return ints;
}

std::optional<int64_t> TestEvaluator::takeInt(Call &call, llvm::StringRef label,
                                              int64_t otherwise) {
  auto it = call.labels.find(label.str());
  const SourceRange place = it == call.labels.end() ? call.range : it->second.second;
  const auto ints = takeInts(call, label, otherwise);
  return ints ? requireUniform(place, *ints, label) : std::nullopt;
}

bool TestEvaluator::requireNoLabels(Call &call) {
  if (call.labels.empty())
    return true;
  const auto &[name, value] = *call.labels.begin();
  fail(value.second, "there is no argument `" + name + ":` in `" + signatureOf(call.builtin) + "`");
  return false;
}

bool TestEvaluator::requireCount(const Call &call, size_t least, size_t most) {
  if (call.args.size() >= least && call.args.size() <= most)
    return true;
  fail(call.range,
       llvm::Twine(call.args.size()) + " arguments do not fit `" + signatureOf(call.builtin) + "`");
  return false;
}

std::optional<std::vector<Sizes>> TestEvaluator::sizesFrom(const Call &call, size_t first,
                                                           int64_t least) {
  std::vector<Sizes> sizes(ranks_);
  for (size_t i = first; i < call.args.size(); ++i)
    for (int rank = 0; rank < ranks_; ++rank) {
      if (!isActive(rank))
        continue;
      const Array &size = call.at(i, rank);
      if (!isWholeNumber(size) || size.getInt(0) < least) {
        fail(call.places[i], "a size is needed here, an integer from " + llvm::Twine(least));
        return std::nullopt;
      }
      sizes[rank].push_back(size.getInt(0));
    }
  return sizes;
}

// Numbers and new arrays.

TestEvaluator::Result TestEvaluator::callNumber(Call &call) {
  const bool isRange = call.builtin == TestBuiltin::Arange || call.builtin == TestBuiltin::Iota;
  const size_t count = isRange ? 1 : call.builtin == TestBuiltin::Blocks ? 2 : 0;
  if (!requireNoLabels(call) || !requireCount(call, count, count))
    return std::nullopt;
  if (call.builtin == TestBuiltin::NumRanks)
    return TestValue::number(ranks_, ranks_);
  if (call.builtin == TestBuiltin::Rank) {
    TestValue value = TestValue::number(ranks_, 0);
    for (int rank = 0; rank < ranks_; ++rank)
      value.arrays[rank] = share(Array::fromInts({}, {rank}));
    return value;
  }
  const auto numbers = sizesFrom(call, 0);
  if (!numbers)
    return std::nullopt;
  std::vector<const TestValue *> operands;
  for (const TestValue &arg : call.args)
    operands.push_back(&arg);
  const DType dtype = call.dtype.value_or(DType::I64);
  Result result = mapRanks(call.range, operands, [&](int rank) -> llvm::Expected<Array> {
    const Sizes &n = (*numbers)[rank];
    if (!isRange)
      return Array::fromInts({}, {n[1] == 0 ? 0 : (n[0] + n[1] - 1) / n[1]});
    if (!fitsMemory({n[0]}, dtype))
      return ndarray::noRoom("an array of " + std::to_string(n[0]) +
                             " elements is too large for a test");
    return ndarray::iota(dtype, n[0]);
  });
  if (result)
    result->isWeak = !isRange;
  return result;
}

TestEvaluator::Result TestEvaluator::makeFilled(const ast::Expr &e, llvm::StringRef name,
                                                const ast::GenericExpr *generics,
                                                llvm::ArrayRef<ast::Expr *> shape,
                                                llvm::ArrayRef<ast::Arg> args) {
  const auto builtin = findBuiltin(name);
  const bool isMaker = builtin && llvm::is_contained({TestBuiltin::Random, TestBuiltin::Zeros,
                                                      TestBuiltin::Ones, TestBuiltin::Full},
                                                     *builtin);
  if (!isMaker)
    return fail(e.range, "`" + name + "` is no array, and no function that makes one");
  DType dtype = DType::F32;
  if (generics) {
    const auto given = generics->args.size() == 1 ? elementType(*generics->args.front().value)
                                                  : std::optional<DType>();
    if (!given)
      return generics->args.size() == 1 ? std::nullopt
                                        : fail(generics->range, "one element type is needed here");
    dtype = *given;
  }
  const auto sizes = evaluateSizes(shape);
  Call call{*builtin, e.range, dtype, {}, {}, {}};
  if (!sizes || !evaluateArguments(call, args))
    return std::nullopt;
  for (int rank = 0; rank < ranks_; ++rank)
    if (isActive(rank) && !fitsMemory((*sizes)[rank], dtype))
      return fail(e.range, ndarray::noRoom("an array of sizes " + sizesText((*sizes)[rank]) +
                                           " is too large for a test"));
  if (*builtin == TestBuiltin::Random)
    return makeRandom(e, dtype, *sizes, call);
  const bool isFull = *builtin == TestBuiltin::Full;
  if (!requireNoLabels(call) || !requireCount(call, isFull, isFull))
    return std::nullopt;
  TestValue result;
  result.arrays.resize(ranks_);
  std::map<std::pair<Sizes, double>, SharedArray> known;
  for (int rank = 0; rank < ranks_; ++rank) {
    if (!isActive(rank))
      continue;
    if (isFull && call.at(0, rank).rank() != 0)
      return fail(call.places[0], "a single number is needed here");
    const double value = isFull                          ? call.at(0, rank).getDouble(0)
                         : *builtin == TestBuiltin::Ones ? 1.0
                                                         : 0.0;
    SharedArray &array = known[{(*sizes)[rank], value}];
    if (!array)
      array = share(ndarray::full(dtype, (*sizes)[rank], value));
    result.arrays[rank] = array;
  }
  return result;
}

TestEvaluator::Result TestEvaluator::makeRandom(const ast::Expr &e, DType dtype,
                                                llvm::ArrayRef<Sizes> sizes, Call &call) {
  const bool isBounded = call.labels.count("lo") != 0 || call.labels.count("hi") != 0;
  // `random<f32>[8](7)` is the seed as well.
  if (call.args.size() == 1 && call.labels.count("seed") == 0) {
    call.labels["seed"] = {call.args.front(), call.places.front()};
    call.args.clear();
  }
  const auto isReal = [&](llvm::StringRef label) {
    const auto found = call.labels.find(label.str());
    return found != call.labels.end() && isFloat(found->second.first.arrays[leader()]->dtype());
  };
  const auto seeds = takeInts(call, "seed", 0);
  if (!seeds)
    return std::nullopt;
  // Bounds with a point give any number between, others whole ones.
  if (isFloat(dtype) && (isReal("lo") || isReal("hi")))
    return makeRandomReals(e, dtype, sizes, call, *seeds);
  const auto lows = takeInts(call, "lo", 0);
  const auto highs = takeInts(call, "hi", 1);
  if (!lows || !highs || !requireNoLabels(call) || !requireCount(call, 0, 0))
    return std::nullopt;
  TestValue result;
  result.arrays.resize(ranks_);
  std::map<std::vector<int64_t>, SharedArray> known;
  for (int rank = 0; rank < ranks_; ++rank) {
    if (!isActive(rank))
      continue;
    const int64_t lo = (*lows)[rank], hi = (*highs)[rank];
    if (isBounded && (hi <= lo || uint64_t(hi) - uint64_t(lo) > uint64_t(1) << 32))
      return fail(e.range, "`hi` must be above `lo`, by 2^32 at most");
    std::vector<int64_t> key = {(*seeds)[rank], lo, hi};
    llvm::append_range(key, sizes[rank]);
    SharedArray &array = known[key];
    if (!array)
      array =
          share(isBounded ? ndarray::randomIntegers(dtype, sizes[rank], uint64_t(key[0]), lo, hi)
                          : ndarray::random(dtype, sizes[rank], uint64_t(key[0])));
    result.arrays[rank] = array;
  }
  return result;
}

TestEvaluator::Result TestEvaluator::makeRandomReals(const ast::Expr &e, DType dtype,
                                                     llvm::ArrayRef<Sizes> sizes, Call &call,
                                                     llvm::ArrayRef<int64_t> seeds) {
  const auto boundOf = [&](llvm::StringRef label, double otherwise) {
    auto node = call.labels.extract(label.str());
    return node.empty() ? TestValue::real(ranks_, otherwise) : std::move(node.mapped().first);
  };
  const TestValue lo = boundOf("lo", 0), hi = boundOf("hi", 1);
  if (!requireNoLabels(call) || !requireCount(call, 0, 0))
    return std::nullopt;
  TestValue result;
  result.arrays.resize(ranks_);
  std::map<std::tuple<int64_t, double, double, Sizes>, SharedArray> known;
  for (int rank = 0; rank < ranks_; ++rank) {
    if (!isActive(rank))
      continue;
    if (lo.arrays[rank]->rank() != 0 || hi.arrays[rank]->rank() != 0)
      return fail(e.range, "`lo` and `hi` are single numbers");
    const double from = lo.arrays[rank]->getDouble(0), to = hi.arrays[rank]->getDouble(0);
    if (!(from < to) || !std::isfinite(to - from))
      return fail(e.range, "`hi` must be above `lo`, and both be finite");
    SharedArray &array = known[{seeds[rank], from, to, sizes[rank]}];
    if (!array)
      array = share(ndarray::randomReals(dtype, sizes[rank], uint64_t(seeds[rank]), from, to));
    result.arrays[rank] = array;
  }
  return result;
}

// Shapes.

TestEvaluator::Result TestEvaluator::callShape(Call &call) {
  std::optional<int64_t> along = 0;
  if (call.builtin == TestBuiltin::Concat)
    along = takeInt(call, "axis", 0);
  const bool takesOne = call.builtin == TestBuiltin::Cast || call.builtin == TestBuiltin::Bitcast;
  const bool takesTwo = call.builtin == TestBuiltin::Take;
  if (!along || !requireNoLabels(call) ||
      !requireCount(call, takesTwo ? 2 : 1,
                    takesOne   ? 1
                    : takesTwo ? 2
                               : 64))
    return std::nullopt;
  if (takesOne && !call.dtype)
    return fail(call.range, call.builtin == TestBuiltin::Cast
                                ? "an element type is needed: `cast<f32>(x)`"
                                : "an element type is needed: `bitcast<u32>(x)`");
  std::vector<const TestValue *> operands;
  for (const TestValue &arg : call.args)
    operands.push_back(&arg);
  const bool hasSizes = llvm::is_contained(
      {TestBuiltin::Reshape, TestBuiltin::BroadcastTo, TestBuiltin::Transpose}, call.builtin);
  // One size of a reshape may be -1: it follows from the others.
  const bool mayFollow = call.builtin == TestBuiltin::Reshape;
  const auto sizes = hasSizes ? sizesFrom(call, 1, mayFollow ? -1 : 0) : std::vector<Sizes>();
  if (!sizes)
    return std::nullopt;
  return mapRanks(call.range, operands, [&](int rank) -> llvm::Expected<Array> {
    const Array &x = call.at(0, rank);
    switch (call.builtin) {
    case TestBuiltin::Reshape:
      return ndarray::reshape(x, (*sizes)[rank]);
    case TestBuiltin::BroadcastTo:
      return ndarray::broadcastTo(x, (*sizes)[rank]);
    case TestBuiltin::Transpose: {
      const std::vector<unsigned> perm((*sizes)[rank].begin(), (*sizes)[rank].end());
      return ndarray::transpose(x, perm);
    }
    case TestBuiltin::Take:
      return ndarray::take(x, call.at(1, rank));
    case TestBuiltin::Cast:
      return ndarray::cast(x, *call.dtype);
    case TestBuiltin::Bitcast:
      return ndarray::bitcast(x, *call.dtype);
    default: {
      llvm::Expected<unsigned> axis = axisOf(x, *along);
      if (!axis)
        return axis.takeError();
      std::vector<Array> parts;
      for (size_t i = 0; i < call.args.size(); ++i)
        parts.push_back(call.at(i, rank));
      return ndarray::concat(parts, *axis);
    }
    }
  });
}

// Elementwise, rounded to the operands' type as kernels do.

static llvm::Expected<Array> rounded(llvm::Expected<Array> made, DType type) {
  if (!made)
    return made;
  return ndarray::cast(*made, type);
}

TestEvaluator::Result TestEvaluator::callElementwise(Call &call) {
  const TestBuiltin kind = call.builtin;
  const bool isUnary = unaryOf(kind).has_value();
  const bool isOfThree = kind == TestBuiltin::Where || kind == TestBuiltin::Clamp;
  const size_t count = isUnary ? 1 : isOfThree ? 3 : 2;
  if (!requireNoLabels(call) || !requireCount(call, count, count))
    return std::nullopt;
  std::vector<const TestValue *> operands;
  for (const TestValue &arg : call.args)
    operands.push_back(&arg);
  Result result = mapRanks(call.range, operands, [&](int rank) -> llvm::Expected<Array> {
    const Array &x = call.at(0, rank);
    if (const auto unary = unaryOf(kind)) {
      const bool keeps = isFloat(x.dtype()) || elementTypes(*unary) == ElementTypes::Number;
      return ndarray::cast(ndarray::unary(*unary, x), keeps ? x.dtype() : DType::F64);
    }
    const auto isWeak = [&](size_t i) { return call.args[i].isWeak; };
    const Array &y = call.at(1, rank);
    if (kind == TestBuiltin::Where) {
      const Array &z = call.at(2, rank);
      return rounded(ndarray::where(x, y, z), commonType(y, isWeak(1), z, isWeak(2)));
    }
    const ndarray::Binary first = kind == TestBuiltin::Pow   ? ndarray::Binary::Pow
                                  : kind == TestBuiltin::Min ? ndarray::Binary::Min
                                                             : ndarray::Binary::Max;
    llvm::Expected<Array> made =
        rounded(ndarray::binary(first, x, y), commonType(x, isWeak(0), y, isWeak(1)));
    if (!made || kind != TestBuiltin::Clamp)
      return made;
    const Array &hi = call.at(2, rank);
    return rounded(ndarray::binary(ndarray::Binary::Min, *made, hi),
                   commonType(*made, isWeak(0) && isWeak(1), hi, isWeak(2)));
  });
  if (result)
    result->isWeak = llvm::all_of(call.args, [](const TestValue &arg) { return arg.isWeak; });
  return result;
}

// References, in f64 (or i64).

TestEvaluator::Result TestEvaluator::callReduction(Call &call) {
  if (call.args.size() == 2)
    return callElementwise(call);
  const bool overAll = call.labels.count("axis") == 0;
  const auto along = takeInt(call, "axis", 0);
  const auto keeps = takeInt(call, "keep", 0);
  if (!along || !keeps || !requireNoLabels(call) || !requireCount(call, 1, 1))
    return std::nullopt;
  return mapRanks(call.range, {&call.args[0]}, [&](int rank) -> llvm::Expected<Array> {
    const Array &x = call.at(0, rank);
    const ndarray::Reduction kind = *reductionOf(call.builtin);
    const auto finished = [&](llvm::Expected<Array> reduced, int64_t count) {
      return reduced && call.builtin == TestBuiltin::Mean
                 ? ndarray::binary(ndarray::Binary::Div, *reduced,
                                   Array::fromDoubles({}, {double(count)}))
                 : std::move(reduced);
    };
    if (overAll)
      return finished(ndarray::reduce(kind, x), x.elements());
    llvm::Expected<unsigned> axis = axisOf(x, *along);
    if (!axis)
      return axis.takeError();
    llvm::Expected<Array> reduced = finished(ndarray::reduce(kind, x, *axis), x.shape()[*axis]);
    if (!reduced || *keeps == 0)
      return reduced;
    ndarray::Shape shape = x.shape();
    shape[*axis] = 1;
    return ndarray::reshape(*reduced, shape);
  });
}

TestEvaluator::Result TestEvaluator::callAlong(Call &call) {
  const bool isGather = call.builtin == TestBuiltin::Gather;
  const bool isNamed = call.labels.count("axis") != 0;
  const auto along = takeInt(call, "axis", 0);
  const unsigned count = isGather ? 2 : 1;
  if (!along || !requireNoLabels(call) || !requireCount(call, count, count))
    return std::nullopt;
  for (int rank = 0; rank < ranks_; ++rank)
    if (isActive(rank) && !isNamed && call.at(0, rank).rank() != 1)
      return fail(call.range, "of an array of several dimensions `axis:` says along which");
  std::vector<const TestValue *> operands;
  for (const TestValue &arg : call.args)
    operands.push_back(&arg);
  return mapRanks(call.range, operands, [&](int rank) -> llvm::Expected<Array> {
    const Array &x = call.at(0, rank);
    llvm::Expected<unsigned> axis = axisOf(x, *along);
    if (!axis)
      return axis.takeError();
    switch (call.builtin) {
    case TestBuiltin::ArgMax:
      return ndarray::argReduce(ndarray::Reduction::Max, x, *axis);
    case TestBuiltin::ArgMin:
      return ndarray::argReduce(ndarray::Reduction::Min, x, *axis);
    case TestBuiltin::CumSum:
      return ndarray::scan(ndarray::Reduction::Sum, x, *axis);
    case TestBuiltin::CumMax:
      return ndarray::scan(ndarray::Reduction::Max, x, *axis);
    case TestBuiltin::ArgSort:
      return ndarray::argSort(x, *axis);
    default:
      return ndarray::takeAlong(x, call.at(1, rank), *axis);
    }
  });
}

TestEvaluator::Result TestEvaluator::callReference(Call &call) {
  if (call.builtin == TestBuiltin::Attention)
    return callAttention(call);
  if (call.builtin == TestBuiltin::Matmul) {
    if (!requireNoLabels(call) || !requireCount(call, 2, 2))
      return std::nullopt;
    return mapRanks(call.range, {&call.args[0], &call.args[1]},
                    [&](int rank) { return ndarray::matmul(call.at(0, rank), call.at(1, rank)); });
  }
  const auto along = takeInt(call, "axis", -1);
  if (!along || !requireNoLabels(call) || !requireCount(call, 1, 1))
    return std::nullopt;
  return mapRanks(call.range, {&call.args[0]}, [&](int rank) -> llvm::Expected<Array> {
    llvm::Expected<unsigned> axis = axisOf(call.at(0, rank), *along);
    if (!axis)
      return axis.takeError();
    return ndarray::softmax(call.at(0, rank), *axis);
  });
}

TestEvaluator::Result TestEvaluator::callAttention(Call &call) {
  std::optional<TestValue> scale, lengths;
  for (auto [label, value] : {std::pair("scale", &scale), std::pair("lengths", &lengths)})
    if (auto node = call.labels.extract(label); !node.empty())
      *value = std::move(node.mapped().first);
  const auto causal = takeInt(call, "causal", 0);
  if (!causal || !requireNoLabels(call) || !requireCount(call, 3, 3))
    return std::nullopt;
  std::vector<const TestValue *> operands = {&call.args[0], &call.args[1], &call.args[2]};
  for (auto *optional : {&scale, &lengths})
    if (*optional)
      operands.push_back(&**optional);
  return mapRanks(call.range, operands, [&](int rank) -> llvm::Expected<Array> {
    const Array &q = call.at(0, rank);
    if (q.rank() == 0)
      return llvm::createStringError("the query has no dimensions");
    if (scale && scale->arrays[rank]->rank() != 0)
      return llvm::createStringError("`scale:` is a single number");
    ndarray::AttentionMask mask;
    mask.isCausal = *causal != 0;
    if (lengths)
      for (int64_t i = 0; i < lengths->arrays[rank]->elements(); ++i)
        mask.lengths.push_back(lengths->arrays[rank]->getInt(i));
    const double by = scale ? scale->arrays[rank]->getDouble(0)
                            : 1.0 / std::sqrt(double(std::max<int64_t>(q.shape().back(), 1)));
    return ndarray::attention(q, call.at(1, rank), call.at(2, rank), by, mask);
  });
}

// All ranks at once.

TestEvaluator::Result TestEvaluator::callCollective(Call &call, const ast::NameExpr *along) {
  const auto dimension = takeInt(call, "axis", 0);
  const size_t count = call.builtin == TestBuiltin::FromRank ? 2 : 1;
  if (!dimension || !requireNoLabels(call) || !requireCount(call, count, count) ||
      !requireAllRanks(call.range, "what a collective sees"))
    return std::nullopt;
  const auto groups = groupsAlong(along);
  if (!groups)
    return std::nullopt;
  if (call.builtin == TestBuiltin::FromRank)
    return fromRank(call, *groups);
  TestValue result;
  result.arrays.resize(ranks_);
  for (const std::vector<int> &group : *groups) {
    ndarray::PerRank inputs;
    for (const int rank : group)
      inputs.push_back(call.at(0, rank));
    llvm::Expected<unsigned> axis = call.builtin == TestBuiltin::AllReduce && inputs[0].rank() == 0
                                        ? llvm::Expected<unsigned>(0)
                                        : axisOf(inputs[0], *dimension);
    if (!axis)
      return fail(call.range, axis.takeError());
    if (call.builtin == TestBuiltin::AllGather || call.builtin == TestBuiltin::AllReduce) {
      llvm::Expected<Array> same = call.builtin == TestBuiltin::AllGather
                                       ? ndarray::allGather(inputs, *axis)
                                       : ndarray::allReduce(inputs);
      if (!same)
        return fail(call.range, same.takeError());
      const auto shared = share(std::move(*same));
      for (const int rank : group)
        result.arrays[rank] = shared;
      continue;
    }
    llvm::Expected<ndarray::PerRank> parts = call.builtin == TestBuiltin::ReduceScatter
                                                 ? ndarray::reduceScatter(inputs, *axis)
                                                 : ndarray::allToAll(inputs, *axis);
    if (!parts)
      return fail(call.range, parts.takeError());
    for (auto [rank, part] : llvm::zip(group, *parts))
      result.arrays[rank] = share(std::move(part));
  }
  return result;
}

TestEvaluator::Result TestEvaluator::fromRank(Call &call, llvm::ArrayRef<std::vector<int>> groups) {
  const auto from = sizesFrom(call, 1);
  if (!from)
    return std::nullopt;
  TestValue result = call.args[0];
  for (const std::vector<int> &group : groups)
    for (const int rank : group) {
      const int64_t source = (*from)[rank].front();
      if (source >= int64_t(group.size()))
        return fail(call.places[1], "rank " + llvm::Twine(source) + " does not exist; there are " +
                                        llvm::Twine(group.size()));
      result.arrays[rank] = call.args[0].arrays[group[source]];
    }
  return result;
}

} // namespace dtile::driver
