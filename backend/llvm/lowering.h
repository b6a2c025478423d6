// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// IR to LLVM, what every target shares: scalars, views, signal cells and structured control. A
// target derives from FunctionLowering and says what tiles, memory and communication become.
#pragma once

#include "backend/llvm/arith.h"
#include "backend/llvm/debug_info.h"
#include "backend/llvm/views.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/Error.h"

namespace dtile::backend {

/// One LLVM module being made, and the first thing that went wrong.
class ModuleLowering {
public:
  ModuleLowering(ir::Module &source, llvm::Module &module, bool debugInfo);

  ir::Module &source;
  llvm::Module &module;
  DebugInfo debug;

  [[nodiscard]] llvm::LLVMContext &context() const { return module.getContext(); }
  /// The IR asks for what this target cannot do. The first message is kept.
  void unsupported(const ir::Op &op, const llvm::Twine &why);
  [[nodiscard]] llvm::Error takeError();
  /// `file:line:column: `, or nothing where that is not known.
  [[nodiscard]] std::string placeOf(SourceLoc loc) const;
  /// Address of a private zero-terminated string; equal strings share one.
  [[nodiscard]] llvm::Constant *string(llvm::StringRef text);

private:
  std::string error_;
  SourceLoc errorLoc_;
  llvm::StringMap<llvm::Constant *> strings_;
};

/// Lowers ops into one LLVM function, at `b`.
class FunctionLowering {
public:
  explicit FunctionLowering(ModuleLowering &module)
      : module_(module), b(module.context()), arith_(b), views_(b) {}
  virtual ~FunctionLowering() = default;

  /// Lowers a block's ops; the terminator's operands are left for the caller to read.
  void lowerBlock(ir::Block &block);
  /// What a value has become.
  [[nodiscard]] llvm::ArrayRef<llvm::Value *> parts(ir::Value *value);
  /// The same, for values of one part.
  [[nodiscard]] llvm::Value *scalar(ir::Value *value);
  [[nodiscard]] View view(ir::Value *value);
  [[nodiscard]] SignalCells cells(ir::Value *value);
  void set(ir::Value *value, Parts parts) { parts_[value] = std::move(parts); }
  /// LLVM types of a value's parts, in order. A tile with a layout has one a register that holds
  /// elements of it.
  [[nodiscard]] virtual llvm::SmallVector<llvm::Type *, 4> partTypes(ir::Type type);

protected:
  /// What loops and conditions carry of a value: its parts, or fewer values that hold all of them.
  [[nodiscard]] virtual llvm::SmallVector<llvm::Type *, 4> carriedTypes(ir::Type type) {
    return partTypes(type);
  }
  [[nodiscard]] virtual Parts carried(ir::Type type, llvm::ArrayRef<llvm::Value *> parts) {
    return Parts(parts);
  }
  [[nodiscard]] virtual Parts fromCarried(ir::Type type, llvm::ArrayRef<llvm::Value *> carried) {
    return Parts(carried);
  }

  /// A value that is defined outside what this function lowers.
  virtual Parts outside(ir::Value *value) = 0;
  /// Ops on tiles, memory, communication and launches: everything that is not shared.
  virtual void lowerTargetOp(ir::Op &op) = 0;
  /// Rank, NumRanks or Epoch.
  virtual llvm::Value *fact(ir::OpKind kind) = 0;
  /// Control goes from where `from` are known to where `to` are read; tiles move here.
  virtual void moveTiles(ir::Op &op, llvm::ArrayRef<ir::Value *> from,
                         llvm::ArrayRef<ir::Value *> to) {}
  /// Control comes to a region of a `for`, `while` or `if`, from before it or, in a loop, from its
  /// end; and has left all of them.
  virtual void enterRegion(ir::Op &op, unsigned region) {}
  virtual void leaveRegions(ir::Op &op) {}
  /// A dropped signal position: stops the launch unless it is below `size`.
  virtual void checkCell(ir::Op &op, llvm::Value *position, llvm::Value *size) = 0;
  /// Stops the launch unless the rank exists.
  virtual void checkRank(ir::Op &op, llvm::Value *rank) = 0;

  /// Lowers one op, with its regions.
  virtual void lowerOp(ir::Op &op);
  /// Reports an op that this target cannot do, and gives its results some value, so that lowering
  /// can go on to its end.
  void giveUp(ir::Op &op, const llvm::Twine &why);
  /// Emits a loop over [0, count) of i64 at the insertion point, which ends up after it.
  void loop(llvm::Value *count, llvm::StringRef name, llvm::function_ref<void(llvm::Value *)> body);
  /// Emits `body` in a block that runs when `condition` holds; the insertion point ends up after.
  void when(llvm::Value *condition, llvm::StringRef name, llvm::function_ref<void()> body);
  /// The same for what launches rarely do: its code stands behind the function's other code, so
  /// that a processor which fetches code ahead fetches what it runs.
  void whenRarely(llvm::Value *condition, llvm::StringRef name, llvm::function_ref<void()> body);
  /// For a branch whose first way is taken rarely.
  [[nodiscard]] llvm::MDNode *unlikely() const;
  /// A new block of the current function.
  [[nodiscard]] llvm::BasicBlock *block(const llvm::Twine &name);
  [[nodiscard]] llvm::LLVMContext &context() const { return module_.context(); }

  ModuleLowering &module_;
  llvm::IRBuilder<> b;
  Arith arith_;
  ViewBuilder views_;

  /// The bounds of a For that this code runs: [first, end). Asked once a loop, before it.
  virtual std::pair<llvm::Value *, llvm::Value *> loopBounds(ir::Op &op);

private:
  void lowerElementwise(ir::Op &op);
  void lowerViewOp(ir::Op &op);
  void lowerSignalOp(ir::Op &op);
  void lowerFor(ir::Op &op);
  void lowerWhile(ir::Op &op);
  void lowerIf(ir::Op &op);
  [[nodiscard]] llvm::SmallVector<llvm::Value *, 4> scalars(llvm::ArrayRef<ir::Value *> values);
  /// Phis for what is carried of some values, at the insertion point.
  [[nodiscard]] llvm::SmallVector<llvm::PHINode *> phis(llvm::ArrayRef<ir::Value *> values);
  /// What is carried of some values, one after the other.
  [[nodiscard]] Parts allParts(llvm::ArrayRef<ir::Value *> values);
  void addIncoming(llvm::ArrayRef<llvm::PHINode *> phis, llvm::ArrayRef<llvm::Value *> values,
                   llvm::BasicBlock *from);
  /// Gives values their share of such a list.
  void distribute(llvm::ArrayRef<llvm::Value *> all, llvm::ArrayRef<ir::Value *> values);

  llvm::DenseMap<ir::Value *, Parts> parts_;
};

/// A kernel's name, or the kind of another op, for messages.
[[nodiscard]] std::string describe(const ir::Op &op);

} // namespace dtile::backend
