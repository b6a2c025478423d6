// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What differs between GPUs: the seam of the shared lowering. One implementation a vendor
// (backend/nvptx, backend/amdgpu); everything else in backend/gpu asks facts, never names.
#pragma once

#include "backend/runtime/device_abi.h"
#include "ir/core/ir.h"
#include "ir/machine/target_facts.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Module.h"

#include <cstdint>

namespace dtile::backend::gpu {

class AsyncCopies;
class BulkCopies;
class ClusterOps;
class WarpgroupMma;
class WarpOps;

/// One kind of device (an architecture of a vendor). Has no state.
class Device {
public:
  virtual ~Device() = default;

  /// `nvptx`, `amdgpu`: also the name of the device library's bitcode.
  [[nodiscard]] virtual llvm::StringRef vendor() const = 0;
  /// `sm_90a`, `gfx942`.
  [[nodiscard]] virtual llvm::StringRef arch() const = 0;
  [[nodiscard]] virtual llvm::StringRef triple() const = 0;
  /// LLVM's features for kernels with at most so many bytes of by-value parameters.
  [[nodiscard]] virtual llvm::StringRef features(int64_t parameterBytes) const = 0;
  [[nodiscard]] virtual const TargetFacts &facts() const = 0;

  /// Address spaces of memory that all programs see, and of a program's shared memory.
  static constexpr unsigned kGlobal = 1, kShared = 3;

  /// Address space of a kernel's by-value parameters. They have the attribute `byval` where it is
  /// 0, else `byref`.
  [[nodiscard]] virtual unsigned parameterSpace() const { return 0; }
  /// Bytes of them that a kernel can have (device_abi.h).
  [[nodiscard]] virtual int64_t parameterBytes() const = 0;
  /// Calling convention, attributes and metadata that make a function a kernel of `threads`
  /// threads, `programs` of which are to have registers on a processor, and whose by-value
  /// parameters are constant.
  virtual void makeKernel(llvm::Function &function, unsigned threads, unsigned programs) const = 0;
  /// Registers of 32 bits that a processor has for its programs, over all lanes; 0 where one
  /// program is to have all of them.
  [[nodiscard]] virtual int64_t registers() const = 0;
  /// LLVM's name of the scope of all programs of one device.
  [[nodiscard]] virtual llvm::StringRef rankScope() const = 0;
  /// i32: this thread in its program, this program in the launch.
  [[nodiscard]] virtual llvm::Value *threadIndex(llvm::IRBuilder<> &b) const = 0;
  [[nodiscard]] virtual llvm::Value *programIndex(llvm::IRBuilder<> &b) const = 0;
  /// All threads of the program meet; orders their memory accesses.
  virtual void barrier(llvm::IRBuilder<> &b) const = 0;
  /// The same for `threads` of them, at one of the program's barriers; 0 is that of all.
  virtual void barrier(llvm::IRBuilder<> &b, unsigned which, unsigned threads) const = 0;
  /// The 32-bit value of the lane whose number differs by `mask`; all lanes of the warp take part.
  [[nodiscard]] virtual llvm::Value *shuffleXor(llvm::IRBuilder<> &b, llvm::Value *value,
                                                unsigned mask) const = 0;
  /// That of the lane before, in all lanes but the first; null where the device has no such shuffle
  /// here. All lanes of the warp take part.
  [[nodiscard]] virtual llvm::Value *shuffleUp(llvm::IRBuilder<> &, llvm::Value *) const {
    return nullptr;
  }
  [[nodiscard]] virtual bool hasShuffleUp() const { return false; }

  /// sum += a · b by matrix instructions of the warp: a row of facts().products. Operands are
  /// 32-bit words (f64: elements) of consecutive registers of their fragments, sums are f32, f64 or
  /// i32 registers.
  virtual void multiply(llvm::IRBuilder<> &b, const MatrixProduct &product,
                        llvm::ArrayRef<llvm::Value *> aWords, llvm::ArrayRef<llvm::Value *> bWords,
                        llvm::MutableArrayRef<llvm::Value *> sums) const = 0;
  /// Whether instructions take and give sums as vectors, which loops then carry.
  [[nodiscard]] virtual bool hasSumVectors() const { return false; }
  /// Hides a constant vector of accumulators from LLVM, which would split it into scalars.
  [[nodiscard]] virtual llvm::Value *initialAccumulator(llvm::IRBuilder<> &,
                                                        llvm::Constant *sums) const {
    return sums;
  }
  /// f32 as a nearest value of tf32; ties as the device likes.
  [[nodiscard]] virtual llvm::Value *roundToTf32(llvm::IRBuilder<> &b, llvm::Value *value) const;
  /// The intrinsic of 2 to an f32, to within 2 units in the last place, where the device has an
  /// instruction; results that are subnormal may be 0.
  [[nodiscard]] virtual llvm::Intrinsic::ID exp2() const { return llvm::Intrinsic::not_intrinsic; }
  /// Whether arrays of a thread that are indexed at run time stay in memory of its own.
  [[nodiscard]] virtual bool hasThreadArrays() const { return true; }
  /// Whether it has instructions for the smaller and larger of two f32, NaN where one is.
  [[nodiscard]] virtual bool hasMinimum() const { return false; }
  /// The intrinsic of f32 to 32 bits towards zero that saturates, and gives 0 for what is no
  /// number.
  [[nodiscard]] virtual llvm::Intrinsic::ID truncation(bool /*isSigned*/) const {
    return llvm::Intrinsic::not_intrinsic;
  }
  /// The intrinsic of a quotient of two f32 to within 2 units in the last place, where LLVM has no
  /// shorter sequence for `!fpmath`.
  [[nodiscard]] virtual llvm::Intrinsic::ID divide() const {
    return llvm::Intrinsic::not_intrinsic;
  }
  /// Whether two f16 or bf16 of a word are subtracted at once.
  [[nodiscard]] virtual bool subtractsPairs() const { return false; }
  /// Whether loadMatrices can be used.
  [[nodiscard]] virtual bool hasLdmatrix() const { return false; }
  /// Up to 4 squares of 8 x 8 two-byte elements from shared memory, one word a square: lane l gives
  /// the address of row l % 8 of square l / 8, and gets elements 2 * (l % 4) and the next of row
  /// l / 4 (of column l / 4 when transposed) of each.
  [[nodiscard]] virtual llvm::SmallVector<llvm::Value *, 4>
  loadMatrices(llvm::IRBuilder<> &b, llvm::Value *address, unsigned count, bool transposed) const;

  /// The same i32 or i64, of which LLVM knows nothing: what is computed from it is not moved to
  /// before it.
  [[nodiscard]] virtual llvm::Value *opaque(llvm::IRBuilder<> &, llvm::Value *value) const {
    return value;
  }
  // What only some devices have; null where they have not.
  /// Asynchronous copies of single threads to shared memory.
  [[nodiscard]] virtual const AsyncCopies *asyncCopies() const { return nullptr; }
  [[nodiscard]] virtual const WarpOps *warpOps() const { return nullptr; }
  [[nodiscard]] virtual const BulkCopies *bulkCopies() const { return nullptr; }
  [[nodiscard]] virtual const ClusterOps *clusterOps() const { return nullptr; }
  [[nodiscard]] virtual const WarpgroupMma *warpgroupMma() const { return nullptr; }
};

} // namespace dtile::backend::gpu
