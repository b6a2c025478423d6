// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Launches on the interpreter: one machine a kernel, so that its signals live as long as it.
#include "backend/driver/execute/executor.h"

#include "ir/interpret/interpreter.h"
#include "ir/protocol/check/race_detector.h"

#include <chrono>
#include <cstring>
#include <map>

namespace dtile::driver {

namespace {

std::vector<int64_t> rowMajorStrides(const Sizes &sizes) {
  std::vector<int64_t> strides(sizes.size());
  int64_t stride = 1;
  for (size_t d = sizes.size(); d-- > 0;) {
    strides[d] = stride;
    stride *= sizes[d];
  }
  return strides;
}

// Empty arrays have no address.
void copy(void *to, const void *from, size_t bytes) {
  if (bytes != 0)
    std::memcpy(to, from, bytes);
}

class InterpretedKernel : public LoadedKernel {
public:
  InterpretedKernel(const KernelCode &code, int ranks, interpret::Schedule schedule, bool sanitize)
      : kernel_(*code.instance), module_(*code.module), ranks_(ranks), sanitize_(sanitize),
        machine_(*code.module, ranks, schedule) {}

  LaunchResult launch(RankArgs &args, int count) override {
    std::vector<void *> symmetric = enterSymmetricMemory(args);
    std::vector<std::vector<interpret::Arg>> passed(ranks_);
    for (int rank = 0; rank < ranks_; ++rank)
      for (size_t i = 0; i < args[rank].size(); ++i) {
        const HostArg &arg = args[rank][i];
        interpret::Arg &to = passed[rank].emplace_back();
        to.scalarBits = arg.scalarBits;
        to.tensor = {symmetric[i] ? machine_.symmAddress(symmetric[i], rank) : arg.data, arg.dtype,
                     arg.sizes, rowMajorStrides(arg.sizes)};
      }
    LaunchResult result;
    const auto start = std::chrono::steady_clock::now();
    if (sanitize_)
      result.failure = launchWatched(passed, count);
    else if (auto error = machine_.launchRepeat(kernel_.name, passed, count))
      result.failure = error->message;
    result.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    leaveSymmetricMemory(args, symmetric);
    return result;
  }

private:
  // Copies the arrays of `symm` parameters in. One entry an argument, null for the others.
  std::vector<void *> enterSymmetricMemory(const RankArgs &args) {
    std::vector<void *> symmetric;
    size_t i = 0;
    for (const sema::KernelParam &param : kernel_.params) {
      if (!isLaunchArgument(param))
        continue;
      void *memory = nullptr;
      if (param.mode == ast::ParamMode::Symm) {
        memory = machine_.symmAlloc(std::max<size_t>(args[0][i].bytes(), 1));
        for (int rank = 0; rank < ranks_; ++rank)
          copy(machine_.symmAddress(memory, rank), args[rank][i].data, args[rank][i].bytes());
      }
      symmetric.push_back(memory);
      ++i;
    }
    return symmetric;
  }

  void leaveSymmetricMemory(RankArgs &args, const std::vector<void *> &symmetric) {
    for (size_t i = 0; i < symmetric.size(); ++i) {
      if (!symmetric[i])
        continue;
      for (int rank = 0; rank < ranks_; ++rank)
        copy(args[rank][i].data, machine_.symmAddress(symmetric[i], rank), args[rank][i].bytes());
      machine_.symmFree(symmetric[i]);
    }
  }

  /// Launches under a detector; what it finds is a failure.
  std::string launchWatched(const std::vector<std::vector<interpret::Arg>> &args, int count) {
    protocol::RaceDetector detector(ranks_);
    machine_.observe(&detector);
    const auto error = machine_.launchRepeat(kernel_.name, args, count);
    machine_.observe(nullptr);
    if (error)
      return error->message;
    detector.finish(/*isComplete=*/true);
    std::string text;
    for (const protocol::Finding &finding : detector.findings())
      text += (text.empty() ? "" : "\n") + protocol::findingText(finding, module_.sources());
    return text;
  }

  const sema::KernelInstance &kernel_;
  ir::Module &module_;
  int ranks_;
  bool sanitize_;
  interpret::Machine machine_;
};

class InterpreterExecutor : public Executor {
public:
  InterpreterExecutor(int ranks, const Options &options)
      : ranks_(ranks), sanitize_(options.sanitize) {
    schedule_.seed = options.scheduleSeed;
    if (options.scheduleSeed != 0)
      schedule_.landing = interpret::Schedule::Landing::Random;
  }

  [[nodiscard]] llvm::StringRef name() const override { return "interp"; }
  [[nodiscard]] int ranks() const override { return ranks_; }

  llvm::Expected<LoadedKernel *> load(const KernelCode &code) override {
    std::unique_ptr<InterpretedKernel> &kernel = kernels_[code.instance];
    if (!kernel)
      kernel = std::make_unique<InterpretedKernel>(code, ranks_, schedule_, sanitize_);
    return kernel.get();
  }

  void reset() override { kernels_.clear(); }

private:
  int ranks_;
  bool sanitize_;
  interpret::Schedule schedule_;
  std::map<const sema::KernelInstance *, std::unique_ptr<InterpretedKernel>> kernels_;
};

} // namespace

std::unique_ptr<Executor> makeInterpreterExecutor(const Options &options, int ranks) {
  return std::make_unique<InterpreterExecutor>(ranks, options);
}

} // namespace dtile::driver
