// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Launches compiled code: on the threads of this process, or as one process of a job.
#include "backend/driver/execute/executor.h"
#include "backend/driver/execute/job.h"
#include "backend/driver/target_code.h"
#include "backend/driver/trace/trace_log.h"

#include "backend/host/host.h"
#include "backend/runtime/dtile.h"
#include "backend/runtime/job.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <thread>

namespace dtile::driver {

/// Compiled code of one kernel instance.
struct HostCode {
  std::unique_ptr<backend::host::JitModule> module;
};

// The job.

llvm::Expected<std::unique_ptr<Job>> Job::join(const Options &options) {
  if (!runtime::inJob())
    return nullptr;
  dtile_team_options teamOptions = DTILE_TEAM_OPTIONS_INIT;
  teamOptions.schedule_seed = options.scheduleSeed;
  teamOptions.wait_graph = options.waitGraph.empty() ? nullptr : options.waitGraph.c_str();
  dtile_team *team = nullptr;
  if (dtile_team_create_env(&teamOptions, &team) != DTILE_OK)
    return llvm::createStringError("cannot join the job of this process: " +
                                   std::string(dtile_last_error()));
  return std::unique_ptr<Job>(new Job(team));
}

bool joinJob(Session &session, std::unique_ptr<Job> &job) {
  const Options &options = session.options;
  // Ranks on GPUs are of this process.
  if (options.executor == ExecutorKind::Interpreter || options.target != "host")
    return true;
  auto joined = Job::join(options);
  if (!joined) {
    session.reportFailure(joined.takeError());
    return false;
  }
  job = std::move(*joined);
  return true;
}

Job::~Job() { dtile_team_destroy(team_); }
int Job::ranks() const { return dtile_team_size(team_); }
int Job::rank() const { return dtile_team_first_local(team_); }

bool Job::anyFailed(bool failed) {
  const char own = failed ? 1 : 0;
  const void *in[] = {&own};
  std::vector<char> all(static_cast<size_t>(ranks()));
  // After a failed launch nothing can be asked, and that failure is known to all.
  if (dtile_team_all_gather(team_, in, 1, all.data()) != DTILE_OK)
    return true;
  return std::any_of(all.begin(), all.end(), [](char other) { return other != 0; });
}

void Job::leave() {
  // As long as the first process needs to print. It ends the job then, and this process with it.
  constexpr std::chrono::seconds kPrinting(3);
  if (dtile_team_barrier(team_) != DTILE_OK && rank() != 0)
    std::this_thread::sleep_for(kPrinting);
}

namespace {

static_assert(int(DTILE_F64) == int(DType::F64) && int(DTILE_BOOL) == int(DType::Bool),
              "the runtime counts element types as dtypes.def does");

class HostKernel : public LoadedKernel {
public:
  HostKernel(const sema::KernelInstance &kernel, std::shared_ptr<HostCode> code,
             const dtile_kernel_desc *desc, dtile_team *team)
      : kernel_(kernel), code_(std::move(code)), desc_(desc), team_(team),
        first_(dtile_team_first_local(team)), local_(dtile_team_local_count(team)),
        isDistributed_(local_ < dtile_team_size(team)) {}

  LaunchResult launch(RankArgs &args, int count) override {
    for (const HostArg &arg : args[first_])
      if (arg.sizes.size() > DTILE_MAX_RANK)
        return {"an argument has more than " + std::to_string(DTILE_MAX_RANK) + " dimensions", 0};
    std::vector<void *> symmetric(args[first_].size());
    LaunchResult result = enterSymmetricMemory(args, symmetric);
    if (result.failure.empty())
      result = start(args, symmetric, count);
    if (isDistributed_)
      agreeOnFailure(result);
    leaveSymmetricMemory(args, symmetric);
    if (result.failure.empty() && isDistributed_)
      gatherResults(args, result);
    return result;
  }

private:
  [[nodiscard]] std::vector<const sema::KernelParam *> launchParams() const {
    std::vector<const sema::KernelParam *> params;
    for (const sema::KernelParam &param : kernel_.params)
      if (isLaunchArgument(param))
        params.push_back(&param);
    return params;
  }

  static bool failed(dtile_status status, LaunchResult &result) {
    if (status != DTILE_OK)
      result.failure = dtile_last_error();
    return status != DTILE_OK;
  }

  // Copies the arrays of `symm` parameters in.
  LaunchResult enterSymmetricMemory(const RankArgs &args, std::vector<void *> &symmetric) {
    LaunchResult result;
    const auto params = launchParams();
    for (size_t i = 0; i < params.size(); ++i) {
      if (params[i]->mode != ast::ParamMode::Symm)
        continue;
      const size_t bytes = args[first_][i].bytes();
      if (failed(dtile_symm_alloc(team_, int64_t(std::max<size_t>(bytes, 1)), &symmetric[i]),
                 result))
        return result;
      for (int local = 0; local < local_ && bytes != 0; ++local)
        std::memcpy(dtile_symm_address(team_, symmetric[i], local), args[first_ + local][i].data,
                    bytes);
    }
    // A peer's early put must not be overwritten by this copy.
    if (isDistributed_)
      failed(dtile_team_barrier(team_), result);
    return result;
  }

  void leaveSymmetricMemory(RankArgs &args, const std::vector<void *> &symmetric) {
    for (size_t i = 0; i < symmetric.size(); ++i) {
      if (!symmetric[i])
        continue;
      for (int local = 0; local < local_; ++local)
        if (HostArg &arg = args[first_ + local][i]; arg.bytes() != 0)
          std::memcpy(arg.data, dtile_symm_address(team_, symmetric[i], local), arg.bytes());
      dtile_symm_free(team_, symmetric[i]);
    }
  }

  LaunchResult start(RankArgs &args, const std::vector<void *> &symmetric, int count) {
    const auto params = launchParams();
    std::vector<std::vector<dtile_tensor>> tensors(local_);
    std::vector<std::vector<dtile_arg>> passed(local_);
    std::vector<const dtile_arg *> pointers;
    for (int local = 0; local < local_; ++local) {
      tensors[local].resize(params.size());
      passed[local].resize(params.size());
      for (size_t i = 0; i < params.size(); ++i) {
        const HostArg &arg = args[first_ + local][i];
        if (params[i]->type->kind == sema::TypeKind::Scalar) {
          passed[local][i].scalar_bits = arg.scalarBits;
          continue;
        }
        dtile_tensor &tensor = tensors[local][i];
        tensor.data = symmetric[i] ? dtile_symm_address(team_, symmetric[i], local) : arg.data;
        tensor.dtype = int32_t(arg.dtype);
        tensor.ndim = int32_t(arg.sizes.size());
        int64_t stride = 1;
        for (size_t d = arg.sizes.size(); d-- > 0;) {
          tensor.size[d] = arg.sizes[d];
          tensor.stride[d] = stride;
          stride *= arg.sizes[d];
        }
        passed[local][i].tensor = &tensor;
      }
      pointers.push_back(passed[local].data());
    }
    LaunchResult result;
    const auto begin = std::chrono::steady_clock::now();
    const auto status =
        count == 1
            ? dtile_launch_all(team_, desc_, pointers.data(), int32_t(params.size()))
            : dtile_launch_repeat(team_, desc_, pointers.data(), int32_t(params.size()), count);
    result.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    failed(status, result);
    return result;
  }

  // A launch has failed in all processes or in none, with one report, as it does in one process:
  // the lowest rank's that failed by itself. Then the team is as good as new, so that the test may
  // go on.
  void agreeOnFailure(LaunchResult &result) {
    if (result.failure.empty())
      failed(dtile_team_barrier(team_), result);
    if (result.failure.empty() || dtile_team_recover(team_) != DTILE_OK)
      return;
    struct Report {
      bool isOwn = false;
      char words[4000] = "";
    };
    Report own;
    llvm::StringRef words = result.failure;
    own.isOwn = !words.consume_front("another rank stopped the job: ");
    words = words.take_front(sizeof own.words - 1);
    std::memcpy(own.words, words.data(), words.size());
    std::vector<Report> all(size_t(dtile_team_size(team_)));
    const void *in[] = {&own};
    if (dtile_team_all_gather(team_, in, sizeof own, all.data()) != DTILE_OK)
      return;
    const auto first =
        std::find_if(all.begin(), all.end(), [](const Report &report) { return report.isOwn; });
    result.failure = (first == all.end() ? all.front() : *first).words;
  }

  // What other processes' ranks have written.
  void gatherResults(RankArgs &args, LaunchResult &result) {
    const auto params = launchParams();
    for (size_t i = 0; i < params.size(); ++i) {
      if (!isWritten(*params[i]))
        continue;
      size_t most = 0;
      for (const auto &rank : args)
        most = std::max(most, rank[i].bytes());
      if (most == 0)
        continue;
      std::vector<char> own(most), all(most * args.size());
      std::memcpy(own.data(), args[first_][i].data, args[first_][i].bytes());
      const void *in[] = {own.data()};
      if (failed(dtile_team_all_gather(team_, in, int64_t(most), all.data()), result))
        return;
      for (size_t rank = 0; rank < args.size(); ++rank)
        if (const size_t bytes = args[rank][i].bytes())
          std::memcpy(args[rank][i].data, all.data() + rank * most, bytes);
    }
  }

  const sema::KernelInstance &kernel_;
  std::shared_ptr<HostCode> code_;
  const dtile_kernel_desc *desc_;
  dtile_team *team_;
  int first_;
  int local_;
  bool isDistributed_;
};

class HostExecutor : public Executor {
public:
  HostExecutor(const Options &options, int ranks, Job *job, TraceLog *trace)
      : options_(options), ranks_(ranks), job_(job), trace_(trace),
        team_(job ? job->team() : nullptr) {}
  ~HostExecutor() override { destroyTeam(); }

  llvm::Error createTeam() {
    if (job_ && trace_ && !std::exchange(isJobTraced_, true))
      return trace_->begin(team_);
    if (job_ || team_)
      return llvm::Error::success();
    dtile_team_options teamOptions = DTILE_TEAM_OPTIONS_INIT;
    teamOptions.ranks = ranks_;
    teamOptions.schedule_seed = options_.scheduleSeed;
    teamOptions.wait_graph = options_.waitGraph.empty() ? nullptr : options_.waitGraph.c_str();
    if (dtile_team_create_threads(&teamOptions, &team_) != DTILE_OK)
      return llvm::createStringError("cannot start " + std::to_string(ranks_) +
                                     " ranks: " + dtile_last_error());
    return trace_ ? trace_->begin(team_) : llvm::Error::success();
  }

  [[nodiscard]] llvm::StringRef name() const override { return "host"; }
  [[nodiscard]] int ranks() const override { return ranks_; }

  llvm::Expected<LoadedKernel *> load(const KernelCode &code) override {
    if (llvm::Error error = createTeam())
      return error;
    std::unique_ptr<HostKernel> &kernel = kernels_[code.instance];
    if (kernel)
      return kernel.get();
    std::shared_ptr<HostCode> &compiled = *code.hostCode;
    if (!compiled) {
      backend::host::HostOptions hostOptions;
      hostOptions.optLevel = unsigned(options_.optLevel);
      hostOptions.isTraced = trace_ != nullptr;
      const SourceManager none;
      const SourceManager *sources = code.module->sources();
      Diagnostics diagnostics(sources ? *sources : none);
      const std::unique_ptr<ir::Module> prepared =
          prepareFor(diagnostics, *code.module, {backend::findTarget("host"), ""});
      if (!prepared)
        return llvm::createStringError("a pass failed");
      auto module = backend::host::jit(*prepared, hostOptions);
      if (!module)
        return module.takeError();
      compiled = std::make_shared<HostCode>(std::move(*module));
    }
    if (job_)
      job_->keep(compiled);
    const dtile_kernel_desc *desc = compiled->module->find(code.instance->name);
    if (!desc)
      return llvm::createStringError("kernel `" + code.instance->name + "` was not compiled");
    if (trace_)
      trace_->nameKernel(desc->name, code.instance->decl->name.name);
    kernel = std::make_unique<HostKernel>(*code.instance, compiled, desc, team_);
    return kernel.get();
  }

  void reset() override { destroyTeam(); }

private:
  void destroyTeam() {
    // While the kernels are there that it names.
    if (team_ && trace_ && (!job_ || std::exchange(isJobTraced_, false)))
      llvm::cantFail(trace_->end(team_), "the team's trace was begun");
    kernels_.clear();
    // A job's team is the job's, and has recovered.
    if (!job_ && team_)
      dtile_team_destroy(std::exchange(team_, nullptr));
  }

  const Options &options_;
  int ranks_;
  Job *job_;
  TraceLog *trace_;
  /// A job's team was there before, and is there after.
  bool isJobTraced_ = false;
  dtile_team *team_;
  std::map<const sema::KernelInstance *, std::unique_ptr<HostKernel>> kernels_;
};

} // namespace

std::unique_ptr<Executor> makeHostExecutor(const Options &options, int ranks, Job *job,
                                           TraceLog *trace) {
  return std::make_unique<HostExecutor>(options, ranks, job, trace);
}

} // namespace dtile::driver
