// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Where launches run: the interpreter, compiled code on threads, one process a rank, or GPUs.
#pragma once

#include "backend/driver/execute/declared_sizes.h"
#include "backend/driver/options.h"
#include "ir/core/ir.h"
#include "sema/tree/typed_ast.h"

#include "llvm/Support/Error.h"

#include <memory>
#include <string>
#include <vector>

namespace dtile::driver {

/// One argument of a launch on one rank: a row-major array in this process, or a scalar's bits.
struct HostArg {
  void *data = nullptr;
  DType dtype = DType::F32;
  Sizes sizes;
  uint64_t scalarBits = 0;

  [[nodiscard]] size_t bytes() const;
};

/// The arguments of a launch: for each rank, those parameters for which isLaunchArgument holds.
using RankArgs = std::vector<std::vector<HostArg>>;

/// What became of a launch.
struct LaunchResult {
  /// The report of a failed run; empty when it succeeded.
  std::string failure;
  /// The launch only: no copies, no compilation.
  double seconds = 0;
};

/// A kernel ready to run. Its signals and scratch objects live across its launches.
class LoadedKernel {
public:
  virtual ~LoadedKernel() = default;
  /// Launches `count` times without a meeting point between. Arrays of `out`, `inout` and `symm`
  /// parameters are written, on every rank, whichever process the rank is in.
  virtual LaunchResult launch(RankArgs &args, int count) = 0;
};

struct HostCode;
class DeviceCode;
class Job;
class TraceLog;

/// A kernel with its optimized IR, shared by all executors.
struct KernelCode {
  const sema::KernelInstance *instance = nullptr;
  ir::Module *module = nullptr;
  /// Where the host executor keeps what it compiled, for all numbers of ranks.
  std::shared_ptr<HostCode> *hostCode = nullptr;
  /// The same for GPUs.
  std::shared_ptr<DeviceCode> *deviceCode = nullptr;
};

/// A set of ranks to launch on.
class Executor {
public:
  virtual ~Executor() = default;
  /// As in messages: `interp`, `host`, `nvptx`.
  [[nodiscard]] virtual llvm::StringRef name() const = 0;
  [[nodiscard]] virtual int ranks() const = 0;
  /// The kernel, loaded when first asked for.
  virtual llvm::Expected<LoadedKernel *> load(const KernelCode &code) = 0;
  /// Forgets everything that lives across launches: after a failed one, nothing of it can be used.
  virtual void reset() = 0;
};

std::unique_ptr<Executor> makeInterpreterExecutor(const Options &options, int ranks);
/// Compiled for this machine: on threads, or where there is a job on its processes. `trace` gets
/// what ranks did, where it is not null.
std::unique_ptr<Executor> makeHostExecutor(const Options &options, int ranks, Job *job,
                                           TraceLog *trace);

/// Compiled for the GPUs of this machine, as `--target` says.
std::unique_ptr<Executor> makeDeviceExecutor(const Options &options, int ranks, TraceLog *trace);

/// What `--executor` asks for: one or, for `all`, each. A job is null where this process is in
/// none, and a trace where none is asked for.
std::vector<std::unique_ptr<Executor>> makeExecutors(const Options &options, int ranks, Job *job,
                                                     TraceLog *trace);

} // namespace dtile::driver
