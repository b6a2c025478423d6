// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Clusters: programs that run at once on processors beside each other, and reach each other's
// shared memory (NVIDIA's thread block clusters and distributed shared memory). Devices without
// them have none (Device::clusterOps).
//
// Addresses are i32: of a program's own shared memory, or, as `address` gives them, of that of any
// program of the cluster.
#pragma once

#include "llvm/ADT/SmallVector.h"
#include "llvm/IR/IRBuilder.h"

namespace dtile::backend::gpu {

/// Emits at a builder's insertion point.
class ClusterOps {
public:
  virtual ~ClusterOps() = default;

  /// i32: programs of the cluster, 1 in a launch without clusters (%cluster_nctaid), and which of
  /// them this one is (%cluster_ctarank).
  [[nodiscard]] virtual llvm::Value *size(llvm::IRBuilder<> &b) const = 0;
  [[nodiscard]] virtual llvm::Value *rank(llvm::IRBuilder<> &b) const = 0;
  /// i32: which cluster of the launch it is, and how many there are (%clusterid, %nclusterid). A
  /// launch without clusters has as many as programs.
  [[nodiscard]] virtual llvm::Value *number(llvm::IRBuilder<> &b) const = 0;
  [[nodiscard]] virtual llvm::Value *count(llvm::IRBuilder<> &b) const = 0;
  /// By all threads of the cluster that have not ended: a barrier after the fence of
  /// BulkCopies::publishBarriers, so that mbarriers of all its programs are there for all. It
  /// orders nothing else (barrier.cluster.arrive.relaxed; with release it takes 0.7 µs).
  virtual void meet(llvm::IRBuilder<> &b) const = 0;
  /// The address in the shared memory of program `rank` of what is at `shared` here (mapa).
  [[nodiscard]] virtual llvm::Value *address(llvm::IRBuilder<> &b, llvm::Value *shared,
                                             llvm::Value *rank) const = 0;
  /// An arrival at an mbarrier of any program of the cluster. It orders no writes for other
  /// programs: what they are to see goes by `copy` (mbarrier.arrive.shared::cluster).
  virtual void arrive(llvm::IRBuilder<> &b, llvm::Value *barrier) const = 0;
  /// In threads where the condition (i1) holds; predicated, without a branch.
  virtual void arriveWhere(llvm::IRBuilder<> &b, llvm::Value *condition,
                           llvm::Value *barrier) const = 0;
  /// By one thread: copies `bytes` (i32, a multiple of 16) from this program's shared memory to any
  /// program's of the cluster; they complete at an mbarrier there. What threads wrote is fenced
  /// before (BulkCopies::sharedProxyFence; cp.async.bulk.shared::cluster.shared::cta).
  virtual void copy(llvm::IRBuilder<> &b, llvm::Value *to, llvm::Value *from, llvm::Value *bytes,
                    llvm::Value *barrier) const = 0;
  /// Four f32 of this program's shared memory, at an address of 16 bytes' alignment, where a
  /// condition (i1) holds; elsewhere negative zeros, which change no sum. Without a branch.
  [[nodiscard]] virtual llvm::SmallVector<llvm::Value *, 4>
  loadWhere(llvm::IRBuilder<> &b, llvm::Value *condition, llvm::Value *address) const = 0;
};

} // namespace dtile::backend::gpu
