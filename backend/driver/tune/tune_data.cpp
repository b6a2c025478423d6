// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Makes, passes and compares arguments.
#include "backend/driver/tune/tune_data.h"

#include "backend/driver/execute/default_arguments.h"
#include "backend/driver/testing/test_values.h"
#include "backend/ndarray/npy.h"
#include "ir/model/launch_sizes.h"
#include "ir/protocol/check/clause_data.h"

#include "llvm/ADT/STLExtras.h"

#include <cstring>

namespace dtile::driver {

namespace {

using ndarray::NDArray;

constexpr uint64_t kSeed = 20;

const std::string *valueOf(const Options &options, const std::string &name) {
  const auto it =
      llvm::find_if(options.arguments, [&](const NamedText &arg) { return arg.first == name; });
  return it == options.arguments.end() ? nullptr : &it->second;
}

llvm::Expected<NDArray> scalarOf(const sema::KernelParam &param, const std::string *text) {
  double number = 0;
  if (!text)
    if (auto value = defaultArgument(param))
      return *value;
  if (!text)
    return llvm::createStringError("`" + param.name + "` is a number: give it with `--arg " +
                                   param.name + "=…`");
  if (llvm::StringRef(*text).getAsDouble(number))
    return llvm::createStringError("`" + param.name + "` is a number, and `" + *text + "` is none");
  NDArray value(param.type->dtype, {});
  if (value.isIntegral())
    value.setInt(0, int64_t(number));
  else
    value.setDouble(0, number);
  return value;
}

llvm::Expected<NDArray> arrayFromFile(const sema::KernelParam &param, llvm::StringRef pattern,
                                      const Sizes &sizes, int rank) {
  std::string path = pattern.str();
  const llvm::StringRef hole = "@rank";
  for (size_t at = path.find(hole); at != std::string::npos; at = path.find(hole, at))
    path.replace(at, hole.size(), std::to_string(rank));
  auto array = ndarray::readNpy(path, param.type->dtype);
  if (!array)
    return array.takeError();
  if (array->shape() != sizes)
    return llvm::createStringError("`" + param.name + "` has the sizes " + sizesText(sizes) +
                                   " in this launch, and `" + path + "` has " +
                                   sizesText(array->shape()));
  return array;
}

/// Integers of more than a byte are positions and counts, which random numbers would not be.
bool mayBeRandom(DType dtype) {
  return isFloat(dtype) || dtype == DType::I8 || dtype == DType::U8 || dtype == DType::Bool;
}

bool isReplicated(const sema::KernelInstance &instance, size_t param) {
  return llvm::any_of(instance.clauses, [&](const sema::Clause &clause) {
    return clause.kind == sema::Clause::Kind::Replicated && clause.param == param;
  });
}

/// Numbers of one launch, for the clauses of a kernel.
class LaunchNumbers {
public:
  /// `sizes`: of the parameters. Scalars that are no integers are not known.
  LaunchNumbers(const Options &options, ir::Op &kernel, llvm::ArrayRef<Sizes> sizes, int ranks)
      : known_(ranks) {
    for (ir::Op &op : kernel.body().ops()) {
      if (op.is(ir::OpKind::LaunchDim))
        known_.set(*op.result(),
                   sizes[size_t(op.get(ir::attr::param))][size_t(op.get(ir::attr::dim))]);
      int64_t number = 0;
      if (op.is(ir::OpKind::ScalarParam))
        if (const std::string *text = valueOf(options, op.get(ir::attr::name).str());
            text && !llvm::StringRef(*text).getAsInteger(10, number))
          known_.set(*op.result(), number);
    }
  }
  [[nodiscard]] std::optional<int64_t> number(const ir::Value *value) {
    return known_.number(*const_cast<ir::Value *>(value));
  }

private:
  model::LaunchSizes known_;
};

/// False where no clause speaks of the parameter, or no numbers were found that are as it says.
bool drawAsRequired(ir::Op &kernel, size_t param, LaunchNumbers &numbers, NDArray &array,
                    protocol::OneRank rank, uint64_t seed) {
  const auto op = llvm::find_if(kernel.body().ops(), [&](const ir::Op &op) {
    return op.is(ir::OpKind::Param) && size_t(op.get(ir::attr::param)) == param;
  });
  if (op == kernel.body().ops().end())
    return false;
  interpret::TensorArg tensor;
  tensor.data = array.data();
  tensor.dtype = array.dtype();
  tensor.sizes = array.shape();
  tensor.strides.resize(tensor.sizes.size());
  int64_t stride = 1;
  for (size_t d = tensor.sizes.size(); d-- > 0; stride *= tensor.sizes[d])
    tensor.strides[d] = stride;
  return protocol::drawByClauses(
      *op, tensor, [&](const ir::Value *value) { return numbers.number(value); }, rank, seed);
}

} // namespace

llvm::Expected<Arrays> makeArguments(const Options &options, const sema::KernelInstance &instance,
                                     ir::Op &kernel, llvm::ArrayRef<Sizes> sizes, int ranks) {
  LaunchNumbers numbers(options, kernel, sizes, ranks);
  for (const auto &[name, value] : options.arguments)
    if (llvm::none_of(instance.params,
                      [&, &name = name](const auto &param) { return param.name == name; }))
      return llvm::createStringError("it has no argument `" + name + "`");
  Arrays arrays(instance.params.size());
  for (auto [i, param] : llvm::enumerate(instance.params)) {
    if (!isLaunchArgument(param))
      continue;
    const std::string *given = valueOf(options, param.name);
    const DType dtype = param.type->dtype;
    if (param.type->kind == sema::TypeKind::Scalar) {
      auto value = scalarOf(param, given);
      if (!value)
        return value.takeError();
      arrays[i].assign(size_t(ranks), *value);
      continue;
    }
    if (!ndarray::elementCount(sizes[i]))
      return llvm::createStringError("an array of sizes " + sizesText(sizes[i]) + " is too large");
    // Each launch has a copy beside it.
    if (llvm::Error error = ndarray::checkRoom(dtype, sizes[i], int64_t(ranks) * 4))
      return error;
    for (int rank = 0; rank < ranks; ++rank) {
      const uint64_t own = isReplicated(instance, i) ? 0 : uint64_t(rank);
      const uint64_t seed = kSeed + i * 4099 + own;
      if (given && isInput(param)) {
        auto array = arrayFromFile(param, *given, sizes[i], rank);
        if (!array)
          return array.takeError();
        arrays[i].push_back(std::move(*array));
      } else if (!isInput(param)) {
        arrays[i].push_back(ndarray::poison(dtype, sizes[i]));
      } else if (mayBeRandom(dtype)) {
        arrays[i].push_back(ndarray::random(dtype, sizes[i], seed));
      } else {
        arrays[i].emplace_back(dtype, sizes[i]);
        if (!drawAsRequired(kernel, i, numbers, arrays[i].back(), {rank, ranks}, seed))
          return llvm::createStringError(
              "`" + param.name + "` has integers that must make sense: `requires all(" +
              param.name + " >= 0 && " + param.name +
              " < …)` says which do, or give it with `--arg " + param.name + "=FILE.npy`");
      }
    }
  }
  return arrays;
}

LaunchResult launchWith(LoadedKernel &kernel, const sema::KernelInstance &instance,
                        const Arrays &arguments, int count, Arrays *results) {
  Arrays own = arguments;
  RankArgs args;
  for (const std::vector<NDArray> &ranks : own)
    args.resize(std::max(args.size(), ranks.size()));
  for (auto [i, param] : llvm::enumerate(instance.params)) {
    if (!isLaunchArgument(param))
      continue;
    for (auto [rank, array] : llvm::enumerate(own[i])) {
      HostArg &arg = args[rank].emplace_back();
      arg.dtype = param.type->dtype;
      arg.data = array.data();
      if (param.type->kind == sema::TypeKind::Scalar)
        std::memcpy(&arg.scalarBits, array.data(), array.bytes());
      else
        arg.sizes = array.shape();
    }
  }
  LaunchResult result = kernel.launch(args, count);
  if (results)
    *results = std::move(own);
  return result;
}

std::string difference(const sema::KernelInstance &instance, const Arrays &actual,
                       const Arrays &expected, bool isExact) {
  for (auto [i, param] : llvm::enumerate(instance.params)) {
    if (!isWritten(param))
      continue;
    for (size_t rank = 0; rank < actual[i].size(); ++rank) {
      const ndarray::Comparison found = compareLoosely(actual[i][rank], expected[i][rank],
                                                       isExact ? Tolerance() : tf32Tolerance());
      if (const std::string text = found.text(); !text.empty())
        return "its `" + param.name + "` is wrong on rank " + std::to_string(rank) + ": " + text;
    }
  }
  return {};
}

} // namespace dtile::driver
