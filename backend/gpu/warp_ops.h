// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Instructions by which the warps of a warp-specialized space act on their own. Devices without
// them have none (Device::warpOps).
#pragma once

#include "llvm/IR/IRBuilder.h"

namespace dtile::backend::gpu {

/// Emits at a builder's insertion point. All threads of the warp come there together.
class WarpOps {
public:
  virtual ~WarpOps() = default;

  /// Threads of a warp.
  static constexpr unsigned kWarpThreads = 32;
  /// Barrier of the warp's threads (PTX: bar.warp.sync).
  virtual void syncWarp(llvm::IRBuilder<> &b) const = 0;
  /// Arrives at one of the program's barriers, of so many threads, and does not wait there for the
  /// others (PTX: barrier.arrive).
  virtual void arriveAtBarrier(llvm::IRBuilder<> &b, unsigned which, unsigned threads) const = 0;
  /// i32 or i64: the value of the warp's first thread (shfl.sync.idx). The assembler then knows
  /// that it is the same in all: addresses and branches that follow from it cost little.
  [[nodiscard]] virtual llvm::Value *uniform(llvm::IRBuilder<> &b, llvm::Value *value) const = 0;
  /// i32: the value (i32) of the warp's thread of this number (i32, below 32; shfl.sync.idx).
  [[nodiscard]] virtual llvm::Value *fromLane(llvm::IRBuilder<> &b, llvm::Value *value,
                                              llvm::Value *lane) const = 0;
  /// i1: whether it holds in any thread (vote.sync.any).
  [[nodiscard]] virtual llvm::Value *anyOfWarp(llvm::IRBuilder<> &b, llvm::Value *value) const = 0;
  /// i1: true in one thread, always the same (elect.sync).
  [[nodiscard]] virtual llvm::Value *isElected(llvm::IRBuilder<> &b) const = 0;
  /// Gives this warpgroup more or fewer registers a thread, a multiple of 8 (setmaxnreg).
  virtual void setRegisters(llvm::IRBuilder<> &b, unsigned count, bool more) const = 0;
};

} // namespace dtile::backend::gpu
