// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Asynchronous bulk copies between global and shared memory, and the barriers in shared memory
// (mbarriers) that they complete at: NVIDIA's TMA. Devices without it have none
// (Device::bulkCopies).
//
// Addresses of shared memory are i32. Phases are i32, 0 or 1: a wait for phase p returns once that
// phase of the barrier has completed; barriers begin in phase 0.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/IR/IRBuilder.h"

namespace dtile::backend::gpu {

/// Emits at a builder's insertion point.
class BulkCopies {
public:
  virtual ~BulkCopies() = default;

  // mbarriers, 8 bytes each.
  /// mbarrier.init: a phase completes after `arrivals` arrivals and all announced bytes.
  virtual void initBarrier(llvm::IRBuilder<> &b, llvm::Value *barrier,
                           llvm::Value *arrivals) const = 0;
  void initBarrier(llvm::IRBuilder<> &b, llvm::Value *barrier, unsigned arrivals) const {
    initBarrier(b, barrier, b.getInt32(arrivals));
  }
  /// After all initBarrier, before the program's barrier (fence.mbarrier_init).
  virtual void publishBarriers(llvm::IRBuilder<> &b) const = 0;
  /// One arrival that also announces bytes of bulk copies (mbarrier.arrive.expect_tx).
  virtual void arriveExpecting(llvm::IRBuilder<> &b, llvm::Value *barrier,
                               llvm::Value *bytes) const = 0;
  /// mbarrier.arrive
  virtual void arrive(llvm::IRBuilder<> &b, llvm::Value *barrier) const = 0;
  /// In threads where the condition (i1) holds; predicated, without a branch.
  virtual void arriveWhere(llvm::IRBuilder<> &b, llvm::Value *condition,
                           llvm::Value *barrier) const = 0;
  /// One arrival once the asynchronous copies that the thread itself has started (async_copies.h)
  /// are complete (cp.async.mbarrier.arrive).
  virtual void arriveAfterAsyncCopies(llvm::IRBuilder<> &b, llvm::Value *barrier) const = 0;
  /// i1: the phase has completed; may block for some time before it says no (mbarrier.try_wait).
  [[nodiscard]] virtual llvm::Value *tryWait(llvm::IRBuilder<> &b, llvm::Value *barrier,
                                             llvm::Value *phase) const = 0;

  /// By one thread: loads the box at `coordinates` (elements, innermost first) of a tensor map into
  /// shared memory; its bytes complete at the barrier. What lies outside the tensor is zeros
  /// (cp.async.bulk.tensor).
  virtual void loadBox(llvm::IRBuilder<> &b, llvm::Value *shared, llvm::Value *map,
                       llvm::ArrayRef<llvm::Value *> coordinates, llvm::Value *barrier) const = 0;
  /// The same into shared memory of several programs of a cluster, at the address that is `shared`
  /// here, and at their own barriers. Bit i of `programs` stands for program i
  /// (.multicast::cluster).
  virtual void multicastBox(llvm::IRBuilder<> &b, llvm::Value *shared, llvm::Value *map,
                            llvm::ArrayRef<llvm::Value *> coordinates, llvm::Value *barrier,
                            uint16_t programs) const = 0;
  /// prefetch.tensormap
  virtual void prefetchTensorMap(llvm::IRBuilder<> &b, llvm::Value *map) const = 0;
  /// By one thread: loads `bytes` (i32) from memory, this device's or a peer's, into shared memory;
  /// they complete at the barrier (cp.async.bulk).
  virtual void loadRow(llvm::IRBuilder<> &b, llvm::Value *shared, llvm::Value *memory,
                       llvm::Value *bytes, llvm::Value *barrier) const = 0;
  /// By one thread: stores `bytes` (i32) from shared memory to memory, this device's or a peer's,
  /// in the thread's current bulk group.
  virtual void storeRow(llvm::IRBuilder<> &b, llvm::Value *memory, llvm::Value *shared,
                        llvm::Value *bytes) const = 0;
  virtual void commitStores(llvm::IRBuilder<> &b) const = 0;
  /// All but `pending` of the thread's bulk groups have read their shared memory.
  virtual void awaitStoresRead(llvm::IRBuilder<> &b, unsigned pending) const = 0;
  /// All of the thread's bulk stores are visible in memory.
  virtual void awaitStores(llvm::IRBuilder<> &b) const = 0;
  /// Orders accesses of threads (generic proxy) before it with bulk copies (async proxy) after it,
  /// and the reverse (fence.proxy.async).
  virtual void proxyFence(llvm::IRBuilder<> &b) const = 0;
  /// The same for shared memory alone, at a fraction of the time.
  virtual void sharedProxyFence(llvm::IRBuilder<> &b) const = 0;
};

} // namespace dtile::backend::gpu
