// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Makes the executors that `--executor` asks for.
#include "backend/driver/execute/executor.h"

namespace dtile::driver {

size_t HostArg::bytes() const {
  size_t bytes = dtypeBytes(dtype);
  for (int64_t size : sizes)
    bytes *= size_t(size);
  return bytes;
}

std::vector<std::unique_ptr<Executor>> makeExecutors(const Options &options, int ranks, Job *job,
                                                     TraceLog *trace) {
  std::vector<std::unique_ptr<Executor>> executors;
  if (options.executor != ExecutorKind::Interpreter)
    executors.push_back(options.target == "host" ? makeHostExecutor(options, ranks, job, trace)
                                                 : makeDeviceExecutor(options, ranks, trace));
  if (options.executor != ExecutorKind::Host)
    executors.push_back(makeInterpreterExecutor(options, ranks));
  return executors;
}

} // namespace dtile::driver
