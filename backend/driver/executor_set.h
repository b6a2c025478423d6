// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The executors that `--executor` asks for.
#pragma once

#include "backend/driver/executor.h"

#include <memory>
#include <vector>

namespace dtile::driver {

/// Executors of equal numbers of ranks.
class ExecutorSet {
public:
  ExecutorSet(const Options &options, int ranks, Job *job);

  [[nodiscard]] llvm::ArrayRef<Executor *> list() const { return list_; }
  [[nodiscard]] int ranks() const { return list_.front()->ranks(); }

private:
  std::vector<std::unique_ptr<Executor>> owned_;
  std::vector<Executor *> list_;
};

} // namespace dtile::driver
