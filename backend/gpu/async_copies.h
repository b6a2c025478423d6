// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copies from global to shared memory that threads start and do not wait for: the part of the seam
// that multistage loops need (multistage_loop.cpp). Devices without them have none
// (Device::asyncCopies).
#pragma once

#include "llvm/IR/IRBuilder.h"

namespace dtile::backend::gpu {

/// Emits at a builder's insertion point, for each thread by itself.
class AsyncCopies {
public:
  virtual ~AsyncCopies() = default;

  /// Starts to copy `bytes` (4, 8 or 16) to an address in shared memory: `valid` of them (i32) from
  /// global memory, then zeros. Both addresses are multiples of `bytes`; where nothing is valid,
  /// the one in global memory may be any.
  virtual void copy(llvm::IRBuilder<> &b, llvm::Value *shared, llvm::Value *global, unsigned bytes,
                    llvm::Value *valid) const = 0;
  /// What the thread has started since the last commit is one group.
  virtual void commit(llvm::IRBuilder<> &b) const = 0;
  /// All but the last `pending` groups of the thread have arrived, as it sees shared memory; others
  /// see it after a barrier.
  virtual void await(llvm::IRBuilder<> &b, unsigned pending) const = 0;
};

} // namespace dtile::backend::gpu
