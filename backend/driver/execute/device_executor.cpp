// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Launches on GPUs: all ranks in this process, several on one GPU where there are fewer of them.
#include "backend/driver/execute/device_code.h"
#include "backend/driver/execute/executor.h"
#include "backend/driver/trace/trace_log.h"

#include "backend/runtime/dtile.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <random>
#include <thread>

namespace dtile::driver {

namespace {

/// Memory of a rank's GPU for one argument; kept from launch to launch.
struct Buffer {
  void *address = nullptr;
  size_t bytes = 0;
};

/// Words of the last call of the runtime; empty when it succeeded.
std::string words(dtile_status status) { return status == DTILE_OK ? "" : dtile_last_error(); }

class DeviceKernelRun : public LoadedKernel {
public:
  DeviceKernelRun(const sema::KernelInstance &kernel, std::shared_ptr<DeviceCode> code,
                  const dtile_kernel_desc *desc, dtile_team *team, const Options &options)
      : code_(std::move(code)), desc_(desc), team_(team), options_(options),
        ranks_(dtile_team_size(team)), buffers_(size_t(ranks_)), random_(options.scheduleSeed + 1) {
    for (const sema::KernelParam &param : kernel.params)
      if (isLaunchArgument(param))
        params_.push_back(&param);
  }
  ~DeviceKernelRun() override {
    for (int rank = 0; rank < ranks_; ++rank)
      for (const Buffer &buffer : buffers_[rank])
        dtile_device_free(team_, rank, buffer.address);
  }

  LaunchResult launch(RankArgs &args, int count) override {
    LaunchResult result;
    symmetric_.assign(params_.size(), nullptr);
    result.failure = enter(args);
    if (result.failure.empty())
      result.failure = copyIn(args);
    if (result.failure.empty())
      result = run(args, count);
    if (result.failure.empty())
      result.failure = copyOut(args);
    for (void *object : symmetric_)
      if (std::string failure = words(dtile_symm_free(team_, object)); result.failure.empty())
        result.failure = failure;
    return result;
  }

private:
  [[nodiscard]] bool isTensor(size_t i) const {
    return params_[i]->type->kind != sema::TypeKind::Scalar;
  }
  [[nodiscard]] void *address(int rank, size_t i) const {
    return symmetric_[i] ? dtile_symm_address(team_, symmetric_[i], rank)
                         : buffers_[rank][i].address;
  }

  /// Memory for all arguments.
  std::string enter(const RankArgs &args) {
    for (size_t i = 0; i < params_.size(); ++i) {
      if (!isTensor(i))
        continue;
      if (params_[i]->mode == ast::ParamMode::Symm) {
        const size_t bytes = std::max<size_t>(args[0][i].bytes(), 1);
        if (auto failure = words(dtile_symm_alloc(team_, int64_t(bytes), &symmetric_[i]));
            !failure.empty())
          return failure;
        continue;
      }
      for (int rank = 0; rank < ranks_; ++rank) {
        buffers_[rank].resize(params_.size());
        Buffer &buffer = buffers_[rank][i];
        const size_t bytes = std::max<size_t>(args[rank][i].bytes(), 1);
        if (args[rank][i].sizes.size() > DTILE_MAX_RANK)
          return "an argument has more than " + std::to_string(DTILE_MAX_RANK) + " dimensions";
        if (buffer.bytes >= bytes)
          continue;
        dtile_device_free(team_, rank, buffer.address);
        buffer = {};
        if (auto failure = words(dtile_device_alloc(team_, rank, int64_t(bytes), &buffer.address));
            !failure.empty())
          return failure;
        buffer.bytes = bytes;
      }
    }
    return {};
  }

  std::string copyIn(const RankArgs &args) {
    for (int rank = 0; rank < ranks_; ++rank)
      for (size_t i = 0; i < params_.size(); ++i)
        if (isTensor(i))
          if (auto failure =
                  words(dtile_copy_to_device(team_, rank, address(rank, i), args[rank][i].data,
                                             int64_t(args[rank][i].bytes())));
              !failure.empty())
            return failure;
    return {};
  }

  std::string copyOut(RankArgs &args) {
    for (int rank = 0; rank < ranks_; ++rank)
      for (size_t i = 0; i < params_.size(); ++i)
        if (isTensor(i) && isWritten(*params_[i]))
          if (auto failure =
                  words(dtile_copy_from_device(team_, rank, args[rank][i].data, address(rank, i),
                                               int64_t(args[rank][i].bytes())));
              !failure.empty())
            return failure;
    return {};
  }

  LaunchResult run(const RankArgs &args, int count) {
    std::vector<std::vector<dtile_tensor>> tensors(static_cast<size_t>(ranks_));
    std::vector<std::vector<dtile_arg>> passed(static_cast<size_t>(ranks_));
    std::vector<const dtile_arg *> pointers;
    for (int rank = 0; rank < ranks_; ++rank) {
      tensors[rank].resize(params_.size());
      passed[rank].resize(params_.size());
      for (size_t i = 0; i < params_.size(); ++i) {
        const HostArg &arg = args[rank][i];
        if (!isTensor(i)) {
          passed[rank][i].scalar_bits = arg.scalarBits;
          continue;
        }
        dtile_tensor &tensor = tensors[rank][i];
        tensor.data = address(rank, i);
        tensor.dtype = int32_t(arg.dtype);
        tensor.ndim = int32_t(arg.sizes.size());
        int64_t stride = 1;
        for (size_t d = arg.sizes.size(); d-- > 0;) {
          tensor.size[d] = arg.sizes[d];
          tensor.stride[d] = stride;
          stride *= arg.sizes[d];
        }
        passed[rank][i].tensor = &tensor;
      }
      pointers.push_back(passed[rank].data());
    }
    LaunchResult result;
    const auto begin = std::chrono::steady_clock::now();
    if (options_.graph)
      result.failure = replay(pointers, count);
    else if (options_.delayRank >= 0)
      result.failure = launchDelayed(pointers, count);
    else
      result.failure =
          words(dtile_launch_repeat(team_, desc_, pointers.data(), int32_t(params_.size()), count));
    result.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    return result;
  }

  std::string launchOn(int rank, llvm::ArrayRef<const dtile_arg *> passed) {
    void *stream = nullptr;
    if (auto failure = words(dtile_team_stream(team_, rank, &stream)); !failure.empty())
      return failure;
    return words(
        dtile_launch_on(team_, rank, desc_, passed[rank], int32_t(params_.size()), stream));
  }

  /// Before each of its launches the late rank sleeps up to 3 ms, or not at all: the others are
  /// ahead of it by a part of a launch, or by several.
  std::string launchDelayed(llvm::ArrayRef<const dtile_arg *> passed, int count) {
    const int late = options_.delayRank % ranks_;
    for (int i = 0; i < count; ++i)
      for (int step = 0; step < ranks_; ++step) {
        const int rank = (late + 1 + step) % ranks_;
        if (rank == late && random_() % 4 != 0)
          std::this_thread::sleep_for(std::chrono::microseconds(random_() % 3000));
        if (auto failure = launchOn(rank, passed); !failure.empty()) {
          dtile_team_synchronize(team_);
          return failure;
        }
      }
    return words(dtile_team_synchronize(team_));
  }

  /// Makes what a launch needs, by none, and captures a launch of each rank, which is replayed
  /// `count` times: the kernel's epoch is what it would be without graphs.
  std::string replay(llvm::ArrayRef<const dtile_arg *> passed, int count) {
    auto failure =
        words(dtile_launch_repeat(team_, desc_, passed.data(), int32_t(params_.size()), 0));
    std::vector<void *> graphs(static_cast<size_t>(ranks_), nullptr);
    for (int rank = 0; rank < ranks_ && failure.empty(); ++rank) {
      failure = words(dtile_capture_begin(team_, rank));
      if (!failure.empty())
        break;
      failure = launchOn(rank, passed);
      const auto ended = words(dtile_capture_end(team_, rank, &graphs[rank]));
      if (failure.empty())
        failure = ended;
    }
    for (int i = 0; i < count && failure.empty(); ++i)
      for (int rank = 0; rank < ranks_ && failure.empty(); ++rank)
        failure = words(dtile_graph_replay(team_, rank, graphs[rank]));
    const auto ended = words(dtile_team_synchronize(team_));
    for (int rank = 0; rank < ranks_; ++rank)
      dtile_graph_destroy(team_, rank, graphs[rank]);
    return failure.empty() ? ended : failure;
  }

  std::shared_ptr<DeviceCode> code_;
  const dtile_kernel_desc *desc_;
  dtile_team *team_;
  const Options &options_;
  int ranks_;
  std::vector<const sema::KernelParam *> params_;
  std::vector<std::vector<Buffer>> buffers_;
  /// Of the current launch: one entry a parameter, null for those that are not symmetric.
  std::vector<void *> symmetric_;
  std::minstd_rand random_;
};

class DeviceExecutor : public Executor {
public:
  DeviceExecutor(const Options &options, int ranks, TraceLog *trace)
      : options_(options), ranks_(ranks), trace_(trace) {}
  ~DeviceExecutor() override { destroyTeam(); }

  [[nodiscard]] llvm::StringRef name() const override { return options_.target; }
  [[nodiscard]] int ranks() const override { return ranks_; }

  llvm::Expected<LoadedKernel *> load(const KernelCode &code) override {
    if (llvm::Error error = createTeam())
      return error;
    std::unique_ptr<DeviceKernelRun> &kernel = kernels_[code.instance];
    if (kernel)
      return kernel.get();
    std::shared_ptr<DeviceCode> &compiled = *code.deviceCode;
    if (!compiled) {
      auto made = compileForDevice(*code.module, options_);
      if (!made)
        return made.takeError();
      compiled = std::move(*made);
    }
    const dtile_kernel_desc *desc = compiled->find(code.instance->name);
    if (!desc)
      return llvm::createStringError("kernel `" + code.instance->name + "` was not compiled");
    if (trace_)
      trace_->nameKernel(desc->name, code.instance->decl->name.name);
    kernel = std::make_unique<DeviceKernelRun>(*code.instance, compiled, desc, team_, options_);
    return kernel.get();
  }

  void reset() override { destroyTeam(); }

private:
  llvm::Error createTeam() {
    if (team_)
      return llvm::Error::success();
    std::vector<int32_t> available(options_.devices.begin(), options_.devices.end());
    if (available.empty()) {
      int32_t count = 0;
      if (dtile_device_count(options_.target.c_str(), &count) != DTILE_OK)
        return failure();
      for (int32_t i = 0; i < count; ++i)
        available.push_back(i);
    }
    std::vector<int32_t> devices;
    for (int rank = 0; rank < ranks_; ++rank)
      devices.push_back(available[size_t(rank) % available.size()]);
    dtile_device_options teamOptions = DTILE_DEVICE_OPTIONS_INIT;
    teamOptions.target = options_.target.c_str();
    teamOptions.ndevices = ranks_;
    teamOptions.devices = devices.data();
    teamOptions.wait_timeout_ms = options_.waitTimeoutMs;
    if (dtile_team_create_devices(&teamOptions, &team_) != DTILE_OK)
      return failure();
    return trace_ ? trace_->begin(team_) : llvm::Error::success();
  }

  [[nodiscard]] llvm::Error failure() const {
    return llvm::createStringError("cannot start " + std::to_string(ranks_) +
                                   (ranks_ == 1 ? " rank" : " ranks") +
                                   " on GPUs: " + dtile_last_error());
  }

  void destroyTeam() {
    if (team_ && trace_)
      llvm::cantFail(trace_->end(team_), "the team's trace was begun");
    kernels_.clear();
    if (team_)
      dtile_team_destroy(std::exchange(team_, nullptr));
  }

  const Options &options_;
  int ranks_;
  TraceLog *trace_;
  dtile_team *team_ = nullptr;
  std::map<const sema::KernelInstance *, std::unique_ptr<DeviceKernelRun>> kernels_;
};

} // namespace

std::unique_ptr<Executor> makeDeviceExecutor(const Options &options, int ranks, TraceLog *trace) {
  return std::make_unique<DeviceExecutor>(options, ranks, trace);
}

} // namespace dtile::driver
