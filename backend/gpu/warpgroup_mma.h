// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Matrix products of warpgroups that read their operands from shared memory, asynchronously: PTX's
// wgmma. Devices without it have none (Device::warpgroupMma).
#pragma once

#include "ir/core/ir.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/IR/IRBuilder.h"

#include <cstdint>

namespace dtile::backend::gpu {

/// How a matrix operand lies in shared memory: as TMA writes a box whose innermost dimension is
/// `swizzle` bytes wide. Wider operands are several boxes, one after the other. f32 is multiplied
/// as tf32.
struct SharedOperand {
  DType dtype;
  /// 32, 64 or 128: bytes of the innermost dimension of a box, and the swizzle's width.
  unsigned swizzle;
  /// The innermost dimension is not the one that is summed over (M or N, not K); 2-byte elements
  /// only. Then the bytes of a box count.
  bool isMnMajor = false;
  unsigned boxBytes = 0;
  /// The instruction takes every so many groups of 8 rows. Of K-major operands.
  unsigned every = 1;
};

/// Shape of one wgmma: 64 rows by `columns` columns. Where `a` is in registers only its type
/// counts.
struct GroupDot {
  SharedOperand a, b;
  DType accumulator;
  unsigned columns;
};

/// Emits at a builder's insertion point.
class WarpgroupMma {
public:
  virtual ~WarpgroupMma() = default;

  /// Whether there is such a matrix instruction.
  [[nodiscard]] virtual bool hasDot(const GroupDot &dot) const = 0;
  /// The matrix descriptor of an operand; `address` is of its first row, a multiple of 1024.
  [[nodiscard]] virtual llvm::Value *descriptor(llvm::IRBuilder<> &b, const SharedOperand &operand,
                                                llvm::Value *address) const = 0;
  /// The descriptor advanced by a number of bytes: of the summed dimension within a box, or of
  /// whole groups of 8 rows.
  [[nodiscard]] virtual llvm::Value *advance(llvm::IRBuilder<> &b, llvm::Value *descriptor,
                                             uint64_t bytes) const = 0;
  /// Replaces constant zeros by registers that are zeroed once, however many paths lead to their
  /// uses; constants would be materialized on each path.
  virtual void writeZeros(llvm::IRBuilder<> &b,
                          llvm::MutableArrayRef<llvm::Value *> zeros) const = 0;
  /// Before the first product of a group: orders accesses of registers (wgmma.fence).
  virtual void fence(llvm::IRBuilder<> &b) const = 0;
  /// accumulators += a · bᵀ over 32 bytes of the summed dimension; one value a register, i32 or
  /// float, in the order of the hardware's layout. `a` is a descriptor, or the i32 words of a
  /// fragment. Without `adds` accumulators are overwritten. `fences`: after a fence of its own, as
  /// the fragment is written beside other products.
  virtual void dot(llvm::IRBuilder<> &b, const GroupDot &dot, llvm::ArrayRef<llvm::Value *> a,
                   llvm::Value *bOperand, llvm::MutableArrayRef<llvm::Value *> accumulators,
                   bool adds, bool fences) const = 0;
  /// wgmma.commit_group
  virtual void commit(llvm::IRBuilder<> &b) const = 0;
  /// All but `pending` groups are done (wgmma.wait_group). The accumulators of those that are pass
  /// through it, as may other values of their type, which are computed before it then. `fragments`
  /// are words of operands in registers: nothing else gets these before the products are done.
  virtual void wait(llvm::IRBuilder<> &b, unsigned pending,
                    llvm::MutableArrayRef<llvm::Value *> accumulators,
                    llvm::ArrayRef<llvm::Value *> fragments) const = 0;
};

} // namespace dtile::backend::gpu
