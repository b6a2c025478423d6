// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `dtilec run`: one kernel on arrays from .npy files.
#include "backend/driver/execute/default_arguments.h"
#include "backend/driver/execute/job.h"
#include "backend/driver/execute/kernel_library.h"
#include "backend/driver/execute/mesh.h"
#include "backend/driver/output/output_file.h"
#include "backend/driver/trace/trace_log.h"

#include "backend/ndarray/npy.h"
#include "frontend/ast/mesh.h"
#include "frontend/base/check.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

namespace dtile::driver {

namespace {

using ndarray::NDArray;

constexpr llvm::StringLiteral kRankHole = "@rank";

// The file of one rank.
std::string pathFor(llvm::StringRef pattern, int rank) {
  std::string path;
  while (true) {
    const auto [before, after] = pattern.split(kRankHole);
    path += before;
    if (before.size() == pattern.size())
      return path;
    path += std::to_string(rank);
    pattern = after;
  }
}

// The type of parameter must be written for a signal.
bool isInputParam(const ast::Param &param) {
  if (param.type && param.type->name.name == "signal")
    return false;
  return param.mode != ast::ParamMode::Out && param.mode != ast::ParamMode::ScratchSymm;
}

// As scalars are given.
bool isNumber(llvm::StringRef text) {
  double number = 0;
  return text == "true" || text == "false" || !text.getAsDouble(number);
}

// A parameter with sizes is a tensor, wherever it lives.
bool isTensorParam(const ast::Param &param) { return param.mode != ast::ParamMode::Value; }

/// One run, from the command line to the files.
class KernelRun {
public:
  KernelRun(Session &session, Job *job, TraceLog *trace)
      : session_(session), options_(session.options), job_(job), trace_(trace) {}

  void run();

private:
  bool chooseRanks();
  const ast::KernelDecl *chooseKernel(const sema::Program &program);
  bool checkNames(const ast::KernelDecl &kernel);
  bool readArguments(const ast::KernelDecl &kernel);
  bool readScalar(const ast::Param &param, const std::string &text);
  bool instantiate(sema::Program &program, const ast::KernelDecl &kernel);
  bool convertArguments();
  bool allocate();
  bool launch(KernelLibrary &library);
  bool writeOutputs();

  template <typename... Args> bool fail(diag::Id id, Args &&...args) {
    session_.diagnostics.report(SourceLoc{}, id, std::forward<Args>(args)...);
    return false;
  }
  [[nodiscard]] bool isRequested(const sema::KernelParam &param) const {
    return llvm::any_of(options_.outputs,
                        [&](const NamedText &output) { return output.first == param.name; });
  }

  Session &session_;
  const Options &options_;
  Job *job_;
  TraceLog *trace_;
  int ranks_ = 1;
  /// The axes of `--mesh`, and the scalars that are sizes of these in the kernel.
  std::vector<int64_t> mesh_;
  llvm::StringMap<int64_t> axes_;
  const sema::KernelInstance *instance_ = nullptr;
  /// For each parameter and rank: its array. One entry stands for all ranks where they share a
  /// file.
  std::vector<std::vector<NDArray>> arrays_;
  /// A number given for a scalar, before its type is known.
  std::map<unsigned, std::string> scalars_;
  std::vector<SolvedSizes> sizes_;
};

bool KernelRun::chooseRanks() {
  if (options_.ranks.size() > 1)
    return fail(diag::bad_command_line, "one number of ranks is needed", "dtilec run");
  ranks_ = job_ ? job_->ranks() : 1;
  if (!options_.mesh.empty()) {
    auto axes = parseMesh(session_, options_.mesh);
    if (!axes)
      return false;
    mesh_ = std::move(*axes);
  }
  if (options_.ranks.empty() && mesh_.empty())
    return true;
  int64_t asked = 1;
  for (const int64_t size : mesh_)
    asked *= size;
  if (mesh_.empty())
    asked = options_.ranks.front();
  else if (!options_.ranks.empty() && options_.ranks.front() != asked)
    return fail(diag::bad_mesh, "has " + std::to_string(asked) + " ranks, and `--ranks` says " +
                                    std::to_string(options_.ranks.front()));
  if (asked < 1 || asked > kMaxRanks)
    return fail(diag::bad_ranks, asked, kMaxRanks);
  if (job_ && asked != ranks_)
    return fail(diag::bad_command_line,
                "this job has " + std::to_string(ranks_) + " processes, and " +
                    std::to_string(asked) + " ranks are asked for",
                "dtilec run");
  ranks_ = int(asked);
  return true;
}

const ast::KernelDecl *KernelRun::chooseKernel(const sema::Program &program) {
  const auto kernels = selectKernels(session_, program);
  const ast::KernelDecl *named = program.findKernel(session_.options.kernel);
  // Of a name for several kernels the first one runs, as on processors.
  if (kernels.size() <= 1 || (named && !named->alternatives.empty()))
    return kernels.empty() ? nullptr : kernels.front();
  std::vector<std::string> names;
  for (const ast::KernelDecl *kernel : kernels)
    names.push_back("`" + kernel->name.name.str() + "`");
  fail(diag::which_kernel, llvm::join(names, ", "));
  return nullptr;
}

// Arguments.

bool KernelRun::checkNames(const ast::KernelDecl &kernel) {
  const auto *mesh = mesh_.empty() ? nullptr : ast::meshOf(kernel);
  if (mesh && !hasAxes(session_, kernel, mesh_))
    return false;
  if (mesh)
    for (const ast::Param &param : kernel.params)
      if (const auto axis = ast::axisSizedBy(kernel, param))
        axes_[param.name.name] = mesh_[*axis];
  std::vector<std::string> inputs, outputs;
  for (const ast::Param &param : kernel.params) {
    if (isInputParam(param))
      inputs.push_back(param.name.name.str());
    if (param.mode == ast::ParamMode::Out || param.mode == ast::ParamMode::InOut ||
        (param.mode == ast::ParamMode::Symm && isInputParam(param)))
      outputs.push_back(param.name.name.str());
  }
  auto check = [&](const std::vector<NamedText> &given, const std::vector<std::string> &known,
                   diag::Id id) {
    for (size_t i = 0; i < given.size(); ++i) {
      const std::string &name = given[i].first;
      if (!llvm::is_contained(known, name))
        return fail(id, name,
                    "`" + kernel.name.name.str() + "` has " +
                        (known.empty() ? "none" : "`" + llvm::join(known, "`, `") + "`"));
      for (size_t j = 0; j < i; ++j)
        if (given[j].first == name)
          return fail(id, name, "it is given twice");
    }
    return true;
  };
  if (!check(options_.arguments, inputs, diag::bad_argument) ||
      !check(options_.outputs, outputs, diag::bad_output))
    return false;
  for (const auto &[name, path] : options_.outputs)
    if (ranks_ > 1 && !llvm::StringRef(path).contains(kRankHole))
      return fail(diag::bad_output, name,
                  "there are " + std::to_string(ranks_) +
                      " ranks, and each writes its own file; put `@rank` into `" + path + "`");
  for (const ast::Param &param : kernel.params)
    if (const std::string name = param.name.name.str();
        isInputParam(param) && !param.init && !axes_.contains(name) &&
        llvm::none_of(options_.arguments,
                      [&](const NamedText &argument) { return argument.first == name; }))
      return fail(diag::bad_argument, name, "it is missing; give it with `--arg " + name + "=…`");
  return true;
}

bool KernelRun::readScalar(const ast::Param &param, const std::string &text) {
  if (!isNumber(text))
    return fail(diag::bad_argument, param.name.name, "it is a number, and `" + text + "` is none");
  scalars_[unsigned(arrays_.size())] = text;
  arrays_.emplace_back();
  return true;
}

bool KernelRun::readArguments(const ast::KernelDecl &kernel) {
  for (const ast::Param &param : kernel.params) {
    if (!isInputParam(param)) {
      arrays_.emplace_back();
      continue;
    }
    const auto it = llvm::find_if(options_.arguments, [&](const NamedText &argument) {
      return argument.first == param.name.name;
    });
    if (!isTensorParam(param)) {
      const auto axis = axes_.find(param.name.name);
      if (it == options_.arguments.end() && axis == axes_.end())
        // It has a default value, which convertArguments takes.
        arrays_.emplace_back();
      else if (!readScalar(param, it != options_.arguments.end() ? it->second
                                                                 : std::to_string(axis->second)))
        return false;
      continue;
    }
    std::vector<NDArray> &arrays = arrays_.emplace_back();
    const bool isShared = !llvm::StringRef(it->second).contains(kRankHole);
    for (int rank = 0; rank < (isShared ? 1 : ranks_); ++rank) {
      const std::string path = pathFor(it->second, rank);
      if (isNumber(it->second) && !llvm::sys::fs::exists(path))
        return fail(diag::bad_argument, param.name.name,
                    "it is a tensor, `" + session_.sources.text(param.type->range).str() +
                        "`, so it takes a .npy file, and `" + it->second + "` is a number");
      llvm::Expected<NDArray> array = ndarray::readNpy(path);
      if (!array)
        return fail(diag::bad_array_file, llvm::toString(array.takeError()));
      arrays.push_back(std::move(*array));
    }
    // Each rank has memory of its own, also where they begin alike.
    if (isShared) {
      if (llvm::Error error =
              ndarray::checkRoom(arrays.front().dtype(), arrays.front().shape(), ranks_ - 1))
        return fail(diag::bad_argument, param.name.name,
                    "for " + std::to_string(ranks_) + " ranks, " +
                        llvm::toString(std::move(error)));
      arrays.resize(ranks_, arrays.front());
    }
  }
  return true;
}

bool KernelRun::instantiate(sema::Program &program, const ast::KernelDecl &kernel) {
  std::vector<sema::Program::ArgShape> shapes;
  for (size_t i = 0; i < kernel.params.size(); ++i) {
    if (!isInputParam(kernel.params[i]))
      continue;
    sema::Program::ArgShape &shape = shapes.emplace_back();
    if (arrays_[i].empty())
      continue;
    shape.dtype = arrays_[i].front().dtype();
    shape.sizes = arrays_[i].front().shape();
  }
  const sema::GenericArgs args =
      program.inferGenerics(&kernel, shapes, ranks_, constantsFor(session_, kernel));
  instance_ = program.instantiate(&kernel, args, kernel.name.range, session_.diagnostics);
  if (instance_ == nullptr || session_.diagnostics.hasErrors())
    return false;
  if (mesh_.empty())
    return true;
  // Scalars that were given count, and must be right.
  llvm::StringMap<int64_t> given;
  for (const auto &[i, text] : scalars_)
    if (int64_t number = 0; !llvm::StringRef(text).getAsInteger(0, number))
      given[kernel.params[i].name.name] = number;
  return fitMesh(session_, *instance_, mesh_, given);
}

// Element types that NumPy lacks come as raw bytes, so files are read again with what is expected.
bool KernelRun::convertArguments() {
  for (size_t i = 0; i < arrays_.size(); ++i) {
    const sema::KernelParam &param = instance_->params[i];
    const DType wanted = param.type->dtype;
    if (auto it = scalars_.find(unsigned(i)); it != scalars_.end()) {
      NDArray value(wanted, {});
      int64_t whole = 0;
      double number = 0;
      if (it->second == "true" || it->second == "false")
        value.setInt(0, it->second == "true");
      else if (!isFloat(wanted) && llvm::StringRef(it->second).getAsInteger(0, whole))
        return fail(diag::bad_argument, param.name,
                    "it is of type `" + dtypeName(wanted).str() + "`, and `" + it->second +
                        "` is no integer");
      else if (isFloat(wanted) && !llvm::StringRef(it->second).getAsDouble(number))
        value.setDouble(0, number);
      else
        value.setInt(0, whole);
      if (!isFloat(wanted) && value.getInt(0) != whole && it->second != "true")
        return fail(diag::bad_argument, param.name,
                    "`" + it->second + "` does not fit `" + dtypeName(wanted).str() + "`");
      arrays_[i].assign(ranks_, value);
      continue;
    }
    if (const auto value = defaultArgument(param)) {
      arrays_[i].assign(ranks_, *value);
      continue;
    }
    if (arrays_[i].empty() || arrays_[i].front().dtype() == wanted)
      continue;
    const auto named = llvm::find_if(options_.arguments, [&](const NamedText &argument) {
      return argument.first == param.name;
    });
    for (int rank = 0; rank < ranks_; ++rank) {
      llvm::Expected<NDArray> array = ndarray::readNpy(pathFor(named->second, rank), wanted);
      if (!array)
        return fail(diag::bad_array_file, llvm::toString(array.takeError()));
      arrays_[i][rank] = std::move(*array);
    }
  }
  return true;
}

bool KernelRun::allocate() {
  constexpr int64_t kMaxBytes = int64_t(64) << 30;
  for (int rank = 0; rank < ranks_; ++rank) {
    std::vector<std::optional<Sizes>> passed(arrays_.size());
    std::vector<std::optional<int64_t>> scalars(arrays_.size());
    for (size_t i = 0; i < arrays_.size(); ++i) {
      const sema::KernelParam &param = instance_->params[i];
      if (arrays_[i].empty() || !isInput(param))
        continue;
      if (param.type->kind != sema::TypeKind::Scalar)
        passed[i] = arrays_[i][rank].shape();
      else if (!isFloat(param.type->dtype))
        scalars[i] = arrays_[i][rank].getInt(0);
    }
    llvm::Expected<SolvedSizes> solved = solveSizes(*instance_, passed, scalars, ranks_);
    if (!solved)
      return fail(diag::bad_array_file,
                  "on rank " + std::to_string(rank) + ", " + llvm::toString(solved.takeError()));
    for (size_t i = 0; i < arrays_.size(); ++i) {
      const sema::KernelParam &param = instance_->params[i];
      if (!isWritten(param) || isInput(param))
        continue;
      const auto count = ndarray::elementCount(solved->params[i]);
      if (!count || *count > kMaxBytes / dtypeBytes(param.type->dtype))
        return fail(diag::bad_output, param.name,
                    "an array of sizes " + sizesText(solved->params[i]) + " is too large");
      if (llvm::Error error = ndarray::checkRoom(param.type->dtype, solved->params[i]))
        return fail(diag::bad_output, param.name, llvm::toString(std::move(error)));
      arrays_[i].push_back(ndarray::poison(param.type->dtype, solved->params[i]));
    }
    sizes_.push_back(std::move(*solved));
  }
  for (size_t i = 0; i < arrays_.size(); ++i)
    for (int rank = 1; rank < ranks_ && instance_->params[i].mode == ast::ParamMode::Symm; ++rank)
      if (sizes_[rank].params[i] != sizes_[0].params[i])
        return fail(diag::bad_argument, instance_->params[i].name,
                    "it is symmetric, and its sizes are " + sizesText(sizes_[0].params[i]) +
                        " on rank 0 and " + sizesText(sizes_[rank].params[i]) + " on rank " +
                        std::to_string(rank));
  return true;
}

// Running.

bool KernelRun::launch(KernelLibrary &library) {
  const auto code = library.get(instance_);
  if (!code)
    return false;
  RankArgs args(ranks_);
  for (int rank = 0; rank < ranks_; ++rank)
    for (size_t i = 0; i < arrays_.size(); ++i) {
      const sema::KernelParam &param = instance_->params[i];
      if (!isLaunchArgument(param))
        continue;
      NDArray &array = arrays_[i][rank];
      HostArg &arg = args[rank].emplace_back();
      arg.dtype = param.type->dtype;
      if (param.type->kind == sema::TypeKind::Scalar)
        std::memcpy(&arg.scalarBits, array.data(), array.bytes());
      else
        arg.sizes = sizes_[rank].params[i];
      arg.data = array.data();
    }
  const auto executors = makeExecutors(options_, ranks_, job_, trace_);
  Executor &executor = *executors.front();
  llvm::Expected<LoadedKernel *> kernel = executor.load(*code);
  if (!kernel)
    return fail(diag::build_failed, llvm::toString(kernel.takeError()));
  std::vector<double> seconds;
  for (int i = 0; i < options_.repeat; ++i) {
    const LaunchResult result = (*kernel)->launch(args, /*count=*/1);
    if (!result.failure.empty())
      return fail(diag::run_failed, instance_->name, result.failure);
    seconds.push_back(result.seconds);
  }
  if (options_.showTime && (!job_ || job_->rank() == 0)) {
    llvm::sort(seconds);
    llvm::outs() << llvm::formatv(
        "{0}: {1} launches on {2} ranks ({3}): median {4:f3} ms, least {5:f3} ms, most {6:f3} ms\n",
        instance_->name, options_.repeat, ranks_, executor.name(),
        seconds[seconds.size() / 2] * 1e3, seconds.front() * 1e3, seconds.back() * 1e3);
  }
  return true;
}

bool KernelRun::writeOutputs() {
  if (job_ && job_->rank() != 0)
    return true;
  OutputFiles files;
  for (const auto &[name, pattern] : options_.outputs) {
    const size_t index =
        size_t(llvm::find_if(instance_->params,
                             [&, &name = name](const auto &p) { return p.name == name; }) -
               instance_->params.begin());
    for (int rank = 0; rank < ranks_; ++rank)
      if (llvm::Error error =
              files.add(pathFor(pattern, rank), ndarray::formatNpy(arrays_[index][rank])))
        return fail(diag::cannot_write, llvm::toString(std::move(error)));
  }
  if (llvm::Error error = files.commit())
    return fail(diag::cannot_write, llvm::toString(std::move(error)));
  return true;
}

void KernelRun::run() {
  if (!chooseRanks())
    return;
  const auto program = analyzeFile(session_, options_.inputs.front());
  if (!program || !checkConstants(session_, *program))
    return;
  const ast::KernelDecl *kernel = chooseKernel(*program);
  if (!kernel || !checkNames(*kernel) || !readArguments(*kernel) ||
      !instantiate(*program, *kernel) || !convertArguments() || !allocate())
    return;
  KernelLibrary library(session_, *program);
  if (launch(library))
    writeOutputs();
}

} // namespace

ExitCode runRun(const Options &options) {
  Session session(options);
  std::unique_ptr<Job> job;
  if (!joinJob(session, job))
    return session.finish();
  TraceLog trace(options);
  if (job && !trace.joinJob(session, job->rank()))
    return session.finish(job.get());
  KernelRun(session, job.get(), trace.isOn() ? &trace : nullptr).run();
  // Results are there by now, whatever becomes of it.
  trace.finish(session);
  return session.finish(job.get());
}

} // namespace dtile::driver
