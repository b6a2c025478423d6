// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// run-ir FILE.dtir: runs the one kernel of a file on every executor, and compares with what the
// file expects. Exit code 0, or 1 after saying what differs. See tests/run/README.md for the
// directives.
#include "backend/host/host.h"
#include "backend/ndarray/ndarray.h"
#include "backend/runtime/dtile.h"
#include "frontend/base/diagnostics.h"
#include "ir/core/text_format.h"
#include "ir/interpret/interpreter.h"
#include "ir/transform/pass.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <cstring>

using namespace dtile;
using ndarray::NDArray;

namespace {

/// A tensor or a scalar of each launch.
struct Argument {
  std::string name;
  DType dtype = DType::I64;
  ndarray::Shape shape;
  bool isScalar = false;
  bool isSymmetric = false;
  /// What it begins with: a generator or values; groups for ranks are separated by |.
  std::string begin;
};

/// What a tensor must hold at the end.
struct Expectation {
  /// Number of ranks that it is about, or 0 for all.
  int ranks = 0;
  std::string name;
  std::string values;
};

struct Test {
  std::vector<int> ranks;
  int launches = 1;
  double tolerance = 0;
  std::vector<Argument> arguments;
  std::vector<Expectation> expectations;
  /// Part of the error, when the run must fail.
  std::string failure;
};

[[noreturn]] void refuse(const llvm::Twine &message) {
  llvm::errs() << "run-ir: " << message << '\n';
  std::exit(1);
}

template <typename T> T numberFrom(llvm::StringRef text) {
  T value = 0;
  if constexpr (std::is_same_v<T, double>) {
    if (text == "nan")
      return std::numeric_limits<double>::quiet_NaN();
    if (text.getAsDouble(value))
      refuse("'" + text + "' is no number");
  } else if (text.getAsInteger(10, value)) {
    refuse("'" + text + "' is no number");
  }
  return value;
}

/// "x: symm f32[2, 3] = iota"
Argument argumentFrom(llvm::StringRef text, bool isScalar) {
  Argument argument;
  argument.isScalar = isScalar;
  auto [name, rest] = text.split(':');
  auto [type, begin] = rest.split('=');
  argument.name = name.trim().str();
  argument.begin = begin.trim().str();
  type = type.trim();
  argument.isSymmetric = type.consume_front("symm ");
  auto [element, sizes] = type.split('[');
  const auto dtype = dtypeFromName(element.trim());
  if (!dtype)
    refuse("'" + element + "' is no element type");
  argument.dtype = *dtype;
  llvm::SmallVector<llvm::StringRef> parts;
  sizes.rtrim(" ]").split(parts, ',', -1, false);
  for (llvm::StringRef part : parts)
    argument.shape.push_back(numberFrom<int64_t>(part.trim()));
  return argument;
}

Test testFrom(llvm::StringRef text) {
  Test test;
  for (llvm::StringRef line : llvm::split(text, '\n')) {
    if (!line.consume_front("// "))
      continue;
    auto [key, value] = line.split(':');
    value = value.trim();
    if (key == "RANKS") {
      for (llvm::StringRef number : llvm::split(value, ' '))
        test.ranks.push_back(numberFrom<int>(number));
    } else if (key == "LAUNCHES") {
      test.launches = numberFrom<int>(value);
    } else if (key == "TOLERANCE") {
      test.tolerance = numberFrom<double>(value);
    } else if (key == "TENSOR" || key == "SCALAR") {
      test.arguments.push_back(argumentFrom(value, key == "SCALAR"));
    } else if (key == "FAILS") {
      test.failure = value.str();
    } else if (key == "EXPECT" || key.starts_with("EXPECT ON ")) {
      Expectation &expectation = test.expectations.emplace_back();
      if (key.consume_front("EXPECT ON "))
        expectation.ranks = numberFrom<int>(key);
      auto [name, values] = value.split('=');
      expectation.name = name.trim().str();
      expectation.values = values.trim().str();
    }
  }
  if (test.ranks.empty())
    test.ranks.push_back(1);
  if (test.expectations.empty() && test.failure.empty())
    refuse("the file expects nothing");
  return test;
}

/// Values of one rank: the group of that number, or the only one.
NDArray arrayFrom(const Argument &argument, llvm::StringRef text, int rank) {
  NDArray array(argument.dtype, argument.shape);
  llvm::SmallVector<llvm::StringRef> groups;
  text.split(groups, '|');
  if (groups.size() > 1 && size_t(rank) >= groups.size())
    refuse("'" + text + "' has no group for rank " + llvm::Twine(rank));
  llvm::StringRef group = groups[groups.size() == 1 ? 0 : rank].trim();
  const int64_t count = array.elements();
  if (group == "zeros")
    return array;
  if (group == "poison")
    return ndarray::poison(argument.dtype, argument.shape);
  if (group == "iota") {
    for (int64_t i = 0; i < count; ++i)
      array.setInt(i, rank * count + i);
    return array;
  }
  if (group.consume_front("random "))
    return ndarray::random(argument.dtype, argument.shape, numberFrom<uint64_t>(group) + rank);
  if (group.consume_front("all "))
    return ndarray::cast(ndarray::full(DType::F64, argument.shape, numberFrom<double>(group)),
                         argument.dtype);
  llvm::SmallVector<llvm::StringRef> values;
  group.split(values, ' ', -1, false);
  if (values.size() != size_t(count))
    refuse("'" + text + "' has " + llvm::Twine(values.size()) + " values for " +
           llvm::Twine(count) + " elements");
  for (int64_t i = 0; i < count; ++i)
    if (isFloat(argument.dtype))
      array.setDouble(i, numberFrom<double>(values[i]));
    else
      array.setInt(i, numberFrom<int64_t>(values[i]));
  return array;
}

/// arrays[argument][rank], as a run begins.
using Arrays = std::vector<std::vector<NDArray>>;

Arrays arraysOf(const Test &test, int ranks) {
  Arrays arrays;
  for (const Argument &argument : test.arguments) {
    auto &list = arrays.emplace_back();
    for (int r = 0; r < ranks; ++r)
      list.push_back(arrayFrom(argument, argument.begin, r));
  }
  return arrays;
}

uint64_t scalarBits(const NDArray &array) {
  uint64_t bits = 0;
  std::memcpy(&bits, array.data(), array.bytes());
  return bits;
}

/// Runs the launches and leaves the results in the arrays; "" or what went wrong.
std::string runInterpreted(const Test &test, interpret::Machine &machine, const std::string &kernel,
                           int ranks, Arrays &arrays) {
  std::vector<std::vector<interpret::Arg>> args(ranks);
  std::vector<void *> symmetric(arrays.size());
  for (size_t i = 0; i < arrays.size(); ++i) {
    const Argument &argument = test.arguments[i];
    if (argument.isSymmetric)
      symmetric[i] = machine.symmAlloc(arrays[i][0].bytes());
    for (int r = 0; r < ranks; ++r) {
      NDArray &array = arrays[i][r];
      interpret::Arg &arg = args[r].emplace_back();
      if (argument.isScalar) {
        arg.scalarBits = scalarBits(array);
        continue;
      }
      void *data = argument.isSymmetric ? machine.symmAddress(symmetric[i], r) : array.data();
      if (argument.isSymmetric)
        std::memcpy(data, array.data(), array.bytes());
      arg.tensor = {data, array.dtype(), array.shape(), array.strides()};
    }
  }
  auto error = machine.launchRepeat(kernel, args, test.launches);
  for (size_t i = 0; i < arrays.size(); ++i)
    for (int r = 0; r < ranks && test.arguments[i].isSymmetric; ++r)
      std::memcpy(arrays[i][r].data(), args[r][i].tensor.data, arrays[i][r].bytes());
  return error ? error->message : "";
}

std::string runOnHost(const Test &test, const dtile_kernel_desc &kernel, int ranks, Arrays &arrays,
                      uint64_t seed) {
  dtile_team_options options = DTILE_TEAM_OPTIONS_INIT;
  options.ranks = ranks;
  options.workers = 2;
  options.symmetric_bytes = int64_t(64) << 20;
  options.schedule_seed = seed;
  dtile_team *team = nullptr;
  if (dtile_team_create_threads(&options, &team) != DTILE_OK)
    return dtile_last_error();
  std::vector<std::vector<dtile_arg>> args(ranks, std::vector<dtile_arg>(arrays.size()));
  std::vector<dtile_tensor> tensors(arrays.size() * ranks);
  for (size_t i = 0; i < arrays.size(); ++i) {
    void *symmetric = nullptr;
    if (test.arguments[i].isSymmetric)
      dtile_symm_alloc(team, int64_t(arrays[i][0].bytes()), &symmetric);
    for (int r = 0; r < ranks; ++r) {
      NDArray &array = arrays[i][r];
      if (test.arguments[i].isScalar) {
        args[r][i].scalar_bits = scalarBits(array);
        continue;
      }
      dtile_tensor &tensor = tensors[i * ranks + r];
      tensor.data = symmetric ? dtile_symm_address(team, symmetric, r) : array.data();
      if (symmetric)
        std::memcpy(tensor.data, array.data(), array.bytes());
      tensor.dtype = int32_t(array.dtype());
      tensor.ndim = int32_t(array.rank());
      llvm::copy(array.shape(), tensor.size);
      llvm::copy(array.strides(), tensor.stride);
      args[r][i].tensor = &tensor;
    }
  }
  std::vector<const dtile_arg *> lists;
  for (const auto &list : args)
    lists.push_back(list.data());
  std::string error;
  if (dtile_launch_repeat(team, &kernel, lists.data(), int32_t(arrays.size()), test.launches) !=
      DTILE_OK)
    error = dtile_last_error();
  for (size_t i = 0; i < arrays.size(); ++i)
    for (int r = 0; r < ranks && test.arguments[i].isSymmetric; ++r)
      std::memcpy(arrays[i][r].data(), tensors[i * ranks + r].data, arrays[i][r].bytes());
  dtile_team_destroy(team);
  return error;
}

/// Number of things that are not as expected, each said.
int check(const Test &test, int ranks, const Arrays &arrays, const std::string &error,
          const std::string &executor) {
  const std::string where = executor + " on " + std::to_string(ranks) + " ranks: ";
  if (!test.failure.empty()) {
    if (error.find(test.failure) != std::string::npos)
      return 0;
    llvm::errs() << where << "should fail with '" << test.failure << "' but "
                 << (error.empty() ? "does not" : "says:\n" + error) << '\n';
    return 1;
  }
  if (!error.empty()) {
    llvm::errs() << where << error << '\n';
    return 1;
  }
  int failures = 0;
  for (const Expectation &expectation : test.expectations) {
    if (expectation.ranks != 0 && expectation.ranks != ranks)
      continue;
    const auto it = llvm::find_if(test.arguments, [&](const Argument &argument) {
      return argument.name == expectation.name;
    });
    if (it == test.arguments.end())
      refuse("no argument is called '" + expectation.name + "'");
    for (int r = 0; r < ranks; ++r) {
      const NDArray expected = arrayFrom(*it, expectation.values, r);
      const NDArray &actual = arrays[it - test.arguments.begin()][r];
      const auto result = ndarray::approxEqual(actual, expected, test.tolerance, test.tolerance);
      if (result.equal())
        continue;
      llvm::errs() << where << "`" << expectation.name << "` of rank " << r << ": " << result.text()
                   << '\n';
      ++failures;
    }
  }
  return failures;
}

} // namespace

int main(int argc, char **argv) {
  if (argc != 2)
    refuse("usage: run-ir FILE.dtir");
  SourceManager sources;
  llvm::Expected<FileId> file = sources.load(argv[1]);
  if (!file)
    refuse(llvm::toString(file.takeError()));
  Diagnostics diagnostics(sources);
  ir::TypeContext types;
  std::unique_ptr<ir::Module> module = ir::parseModule(*file, sources, types, diagnostics);
  if (!module || !ir::verify(*module, diagnostics)) {
    printDiagnostics(diagnostics, DiagnosticForm::Text, ColorMode::Never, llvm::errs());
    return 1;
  }
  std::string kernel;
  for (const ir::Op &op : module->body().ops())
    if (op.is(ir::OpKind::Kernel))
      kernel = op.get(ir::attr::name).str();
  const Test test = testFrom(sources.text(*file));

  int failures = 0;
  for (const int ranks : test.ranks)
    for (const auto landing :
         {interpret::Schedule::Landing::AtIssue, interpret::Schedule::Landing::AsLateAsAllowed})
      for (uint64_t seed = 0; seed < 4; ++seed) {
        Arrays arrays = arraysOf(test, ranks);
        interpret::Machine machine(*module, ranks, {seed, landing});
        const std::string error = runInterpreted(test, machine, kernel, ranks, arrays);
        const bool isLate = landing == interpret::Schedule::Landing::AsLateAsAllowed;
        failures +=
            check(test, ranks, arrays, error,
                  "interpreter (seed " + std::to_string(seed) + (isLate ? ", late landing)" : ")"));
      }
  // The host target has no calls.
  passes::PassContext context(diagnostics);
  passes::inlineCalls(*module, context);
  auto code = backend::host::jit(*module, {});
  if (!code)
    refuse(llvm::toString(code.takeError()));
  for (const int ranks : test.ranks)
    for (uint64_t seed = 0; seed < 3; ++seed) {
      Arrays arrays = arraysOf(test, ranks);
      const std::string error = runOnHost(test, *(*code)->find(kernel), ranks, arrays, seed);
      failures += check(test, ranks, arrays, error, "host (seed " + std::to_string(seed) + ")");
    }
  return failures != 0;
}
