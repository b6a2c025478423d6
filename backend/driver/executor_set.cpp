// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Makes the executors that `--executor` asks for.
#include "backend/driver/executor_set.h"

namespace dtile::driver {

#ifdef DTILE_WITHOUT_HOST
bool isLeadingProcess() { return true; }
#endif

llvm::Expected<std::unique_ptr<ExecutorSet>> ExecutorSet::make(const Options &options, int ranks) {
  auto set = std::make_unique<ExecutorSet>();
#ifndef DTILE_WITHOUT_HOST
  if (options.executor != ExecutorKind::Interpreter) {
    auto host = makeHostExecutor(options, ranks);
    if (!host)
      return host.takeError();
    set->owned_.push_back(std::move(*host));
  }
  if (options.executor != ExecutorKind::Host)
#endif
    set->owned_.push_back(makeInterpreterExecutor(ranks, options.scheduleSeed));
  for (const auto &executor : set->owned_)
    set->list_.push_back(executor.get());
  return set;
}

} // namespace dtile::driver
