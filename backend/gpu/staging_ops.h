// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Instructions of devices whose copy engine moves boxes of tensors to shared memory on its own, and
// whose matrix units read their operands there: the part of the seam that staged loops need
// (lower_staged.cpp). Devices without them have none (Device::staging).
//
// Addresses of shared memory are i32. Phases are i32, 0 or 1: a wait for phase p returns once that
// phase of the barrier has completed; barriers begin in phase 0.
#pragma once

#include "ir/core/ir.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/IR/IRBuilder.h"

#include <cstdint>
#include <optional>

namespace dtile::backend::gpu {

/// How a matrix operand lies in shared memory: as the copy engine writes a box whose innermost
/// dimension is `swizzle` bytes wide. Wider operands are several boxes, one behind the other. f32
/// are multiplied as tf32.
struct SharedOperand {
  DType dtype;
  /// 32, 64 or 128: bytes of the innermost dimension of a box, and the period in which 16-byte
  /// words are exchanged.
  unsigned swizzle;
  /// The innermost dimension is not the one that is summed over; 2-byte elements only. Then the
  /// bytes of a box count.
  bool isAcross = false;
  unsigned boxBytes = 0;
};

/// Shape of one group of matrix instructions of a warpgroup: 64 rows by `columns` columns. Where
/// `a` is in registers only its type counts.
struct GroupDot {
  SharedOperand a, b;
  DType accumulator;
  unsigned columns;
  /// Bytes of the summed dimension that one instruction takes: 32.
  static constexpr unsigned kDepthBytes = 32;
};

/// Emits at a builder's insertion point.
class StagingOps {
public:
  virtual ~StagingOps() = default;

  /// Threads of a warp.
  static constexpr unsigned kWarpThreads = 32;
  /// A warp's threads meet.
  virtual void meetWarp(llvm::IRBuilder<> &b) const = 0;
  /// i32 or i64, where a warp's threads meet: what its first thread has. The assembler knows that
  /// it is the same in all: addresses and branches that follow from it cost them little.
  [[nodiscard]] virtual llvm::Value *uniform(llvm::IRBuilder<> &b, llvm::Value *value) const = 0;
  /// i1, where a warp's threads meet: whether it holds in any.
  [[nodiscard]] virtual llvm::Value *anyOfWarp(llvm::IRBuilder<> &b, llvm::Value *value) const = 0;
  /// i1, where a warp's threads meet: true in one of them, always the same.
  [[nodiscard]] virtual llvm::Value *isElected(llvm::IRBuilder<> &b) const = 0;

  // Barriers in shared memory, 8 bytes each.
  virtual void initBarrier(llvm::IRBuilder<> &b, llvm::Value *barrier, unsigned arrivals) const = 0;
  /// Behind all initBarrier, before the program's barrier.
  virtual void publishBarriers(llvm::IRBuilder<> &b) const = 0;
  /// One arrival that also announces bytes of the copy engine.
  virtual void arriveExpecting(llvm::IRBuilder<> &b, llvm::Value *barrier,
                               llvm::Value *bytes) const = 0;
  virtual void arrive(llvm::IRBuilder<> &b, llvm::Value *barrier) const = 0;
  /// In threads where the condition (i1) holds; without a branch.
  virtual void arriveWhere(llvm::IRBuilder<> &b, llvm::Value *condition,
                           llvm::Value *barrier) const = 0;
  /// One arrival, once what the thread has started to copy by itself (async_copies.h) is there.
  virtual void arriveWhenFetched(llvm::IRBuilder<> &b, llvm::Value *barrier) const = 0;
  /// i1: the phase has completed; may wait for some time before it says no.
  [[nodiscard]] virtual llvm::Value *tryWait(llvm::IRBuilder<> &b, llvm::Value *barrier,
                                             llvm::Value *phase) const = 0;

  /// By one thread: copies the box at `coordinates` (elements, innermost first) to shared memory;
  /// its bytes arrive at the barrier. What lies outside the tensor is zeros.
  virtual void copyBox(llvm::IRBuilder<> &b, llvm::Value *shared, llvm::Value *map,
                       llvm::ArrayRef<llvm::Value *> coordinates, llvm::Value *barrier) const = 0;
  /// The engine looks at a map before it is asked to copy.
  virtual void prefetchMap(llvm::IRBuilder<> &b, llvm::Value *map) const = 0;
  /// Bytes that rows in memory and in shared memory begin at multiples of, and are long.
  static constexpr unsigned kRowAlign = 16;
  /// By one thread: copies `bytes` (i32) from memory, this device's or a peer's, to shared memory;
  /// they arrive at the barrier.
  virtual void loadRow(llvm::IRBuilder<> &b, llvm::Value *shared, llvm::Value *memory,
                       llvm::Value *bytes, llvm::Value *barrier) const = 0;
  /// By one thread: copies `bytes` (i32) from shared memory to memory, this device's or a peer's,
  /// in the thread's current group.
  virtual void storeRow(llvm::IRBuilder<> &b, llvm::Value *memory, llvm::Value *shared,
                        llvm::Value *bytes) const = 0;
  virtual void commitStores(llvm::IRBuilder<> &b) const = 0;
  /// All but `pending` of the thread's groups of stores have read their shared memory.
  virtual void awaitStoresRead(llvm::IRBuilder<> &b, unsigned pending) const = 0;
  /// All of the thread's stores are visible in memory.
  virtual void awaitStores(llvm::IRBuilder<> &b) const = 0;
  /// Plain accesses before it and the copy engine's behind it (and the reverse) are in order.
  virtual void proxyFence(llvm::IRBuilder<> &b) const = 0;
  /// The same for shared memory alone, which takes a fraction of the time.
  virtual void sharedProxyFence(llvm::IRBuilder<> &b) const = 0;

  /// Whether there is such a matrix instruction.
  [[nodiscard]] virtual bool hasDot(const GroupDot &dot) const = 0;
  /// What instructions know an operand by; `address` is of its first row, a multiple of 1024.
  [[nodiscard]] virtual llvm::Value *descriptor(llvm::IRBuilder<> &b, const SharedOperand &operand,
                                                llvm::Value *address) const = 0;
  /// The descriptor moved by a number of bytes, of the summed dimension within a box or of whole
  /// groups of 8 rows.
  [[nodiscard]] virtual llvm::Value *advance(llvm::IRBuilder<> &b, llvm::Value *descriptor,
                                             uint64_t bytes) const = 0;
  /// Makes zeros values of their own, of which there is one however many paths lead to their uses:
  /// as constants they would be written to registers on each.
  virtual void writeZeros(llvm::IRBuilder<> &b,
                          llvm::MutableArrayRef<llvm::Value *> zeros) const = 0;
  /// Before the first dot of a group: the registers of accumulators are the instructions' now.
  virtual void beginDots(llvm::IRBuilder<> &b) const = 0;
  /// accumulators += a · bᵀ over 32 bytes of the summed dimension; one value a register, i32 or
  /// float, in the order of the hardware's layout. `a` is a descriptor, or the i32 words of a
  /// fragment. Without `adds` what the accumulators were does not count.
  virtual void dot(llvm::IRBuilder<> &b, const GroupDot &dot, llvm::ArrayRef<llvm::Value *> a,
                   llvm::Value *bOperand, llvm::MutableArrayRef<llvm::Value *> accumulators,
                   bool adds) const = 0;
  virtual void endDots(llvm::IRBuilder<> &b) const = 0;
  /// All but `pending` groups are done. The accumulators of those that are pass through it, as may
  /// other values of their type, which are computed before it then.
  virtual void awaitDots(llvm::IRBuilder<> &b, unsigned pending,
                         llvm::MutableArrayRef<llvm::Value *> accumulators) const = 0;

  /// Gives this warpgroup more or fewer registers a thread (a multiple of 8).
  virtual void setRegisters(llvm::IRBuilder<> &b, unsigned count, bool more) const = 0;
};

} // namespace dtile::backend::gpu
