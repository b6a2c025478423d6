// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Private to backend/gpu: what a kernel does without when its code takes more shared memory than a
// program has. Passes have left room for all that stands there while bodies run
// (ir/analysis/shared_memory_plan.h); what elements go through to other threads is known only when
// the code is there (docs/decisions/stages_fit.md). So a kernel that takes too much is lowered
// again.
#pragma once

#include "backend/gpu/gpu_module.h"

namespace dtile::backend::gpu {

/// Of one kernel.
class SharedMemoryFit {
public:
  SharedMemoryFit(GpuModule &module, ir::Op &kernel);
  ~SharedMemoryFit() { module_.limitShared(std::nullopt); }
  SharedMemoryFit(const SharedMemoryFit &) = delete;
  SharedMemoryFit &operator=(const SharedMemoryFit &) = delete;

  /// Whether what was lowered last fits; else it has to be erased.
  [[nodiscard]] bool fits();
  /// Has the kernel do without one thing more; false where there is nothing left.
  [[nodiscard]] bool takeLess();
  /// The kernel cannot be compiled for this device: who takes most, and how much.
  void report();

private:
  GpuModule &module_;
  ir::Op &kernel_;
  int64_t room_;
  /// Of what was lowered last.
  GpuModule::Peak peak_;
  /// Tiles change threads in pieces.
  bool hasPieces_ = false;
};

} // namespace dtile::backend::gpu
