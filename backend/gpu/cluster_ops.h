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
  /// By all threads of the cluster that have not ended: a barrier that orders what they did to
  /// shared memory (barrier.cluster).
  virtual void sync(llvm::IRBuilder<> &b) const = 0;
  /// The address in the shared memory of program `rank` of what is at `shared` here (mapa).
  [[nodiscard]] virtual llvm::Value *address(llvm::IRBuilder<> &b, llvm::Value *shared,
                                             llvm::Value *rank) const = 0;
  /// Four f32 at an address in the cluster plus so many bytes, of 16 bytes' alignment (ld,
  /// st.shared::cluster.v4).
  [[nodiscard]] virtual llvm::SmallVector<llvm::Value *, 4>
  load(llvm::IRBuilder<> &b, llvm::Value *address, unsigned offset) const = 0;
  virtual void store(llvm::IRBuilder<> &b, llvm::Value *address, unsigned offset,
                     llvm::ArrayRef<llvm::Value *> values) const = 0;
};

} // namespace dtile::backend::gpu
