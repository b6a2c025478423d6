// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Private to backend/gpu and the vendors' folders: lowers code that sees a launch and its frame,
// the bodies of spaces and the derived counts of signals alike.
#pragma once

#include "backend/gpu/gpu_module.h"

namespace dtile::backend::gpu {

/// Values of the kernel's region come from the frame; those that change from launch to launch, and
/// tiles, are computed where lowerCaptured says.
class KernelFunction : public FunctionLowering {
public:
  KernelFunction(GpuModule &module, const KernelScaffold &kernel)
      : FunctionLowering(module), gpu_(module), kernel_(kernel) {}

  [[nodiscard]] llvm::IRBuilder<> &builder() { return b; }
  [[nodiscard]] GpuModule &gpu() { return gpu_; }

  /// Lowers, at the builder, those ops of the kernel's region that `user` needs and the frame does
  /// not hold.
  void lowerCaptured(ir::Op &user);

  /// i32: what flags of words are in this launch; of a flagged object that lowerCaptured has seen.
  [[nodiscard]] llvm::Value *launchNumber(const ir::Op &param) const {
    return numbers_.lookup(&param);
  }
  /// i64: the number of this launch, computed at the builder: in the entry block code would wait
  /// for what is loaded there.
  [[nodiscard]] llvm::Value *epoch() { return epoch(b); }
  [[nodiscard]] llvm::Value *epoch(llvm::IRBuilder<> &at) const;
  /// i64: launches with a scratch object before this one.
  [[nodiscard]] llvm::Value *scratchLaunches(const ir::Op &param);
  /// i64: which of its copies a scratch object is in this launch.
  [[nodiscard]] llvm::Value *scratchTurn(const ir::Op &param);
  /// Address of the dtile_device_cells of a signal parameter.
  [[nodiscard]] llvm::Value *cellsObject(const ir::Op &signalParam);
  /// i64: the derived count of a cell, by its row-major number in the whole signal. Only where the
  /// signal has one (its region is not empty).
  [[nodiscard]] llvm::Value *expected(ir::Op &signalParam, llvm::Value *cell);
  /// i64: the row-major number of a local cell in the whole signal.
  [[nodiscard]] llvm::Value *cellNumber(const ir::Op &signalParam, llvm::Value *cell);
  /// A part of the frame, in the function's entry block: uniform over the launch.
  [[nodiscard]] llvm::Value *loadFrame(int64_t offset, llvm::Type *type);
  [[nodiscard]] llvm::Value *frameAddress(int64_t offset);
  /// Says what a value, which is the same in all threads of a launch, is in each kind of launch.
  llvm::Value *launchFact(llvm::Value *fact, const InKinds &in);
  /// An access that moves whole words where the frame's words are so.
  void noteWholeWords(WholeWords::Access access);

protected:
  Parts outside(ir::Value *value) override;
  llvm::Value *fact(ir::OpKind kind) override;
  void lowerTargetOp(ir::Op &op) override;
  void checkCell(ir::Op &op, llvm::Value *position, llvm::Value *size) override {}
  void checkRank(ir::Op &op, llvm::Value *rank) override {}

  GpuModule &gpu_;
  const KernelScaffold &kernel_;

private:
  /// This launch's copy of a scratch object.
  void lowerScratch(ir::Op &param);

  llvm::DenseMap<const ir::Op *, llvm::Value *> numbers_;
};

} // namespace dtile::backend::gpu
