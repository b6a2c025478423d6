// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Makes the executors that `--executor` asks for.
#include "backend/driver/executor_set.h"

namespace dtile::driver {

ExecutorSet::ExecutorSet(const Options &options, int ranks, Job *job) {
  if (options.executor != ExecutorKind::Interpreter)
    owned_.push_back(makeHostExecutor(options, ranks, job));
  if (options.executor != ExecutorKind::Host)
    owned_.push_back(makeInterpreterExecutor(ranks, options.scheduleSeed));
  for (const auto &executor : owned_)
    list_.push_back(executor.get());
}

} // namespace dtile::driver
