// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Private to backend/host: the LLVM module being made, the ABI's types in it, and the functions
// around bodies (prologue, counts, positions).
#pragma once

#include "backend/llvm/lowering.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SetVector.h"

#include <cstdint>

namespace dtile::backend::host {

/// What the vector unit of the machine offers.
struct VectorUnit {
  unsigned bytes = 32;
  unsigned registers = 16;
};

/// The ABI's structs as LLVM types.
struct AbiTypes {
  explicit AbiTypes(llvm::LLVMContext &context);
  llvm::StructType *region;
  llvm::StructType *site;
  llvm::StructType *param;
  llvm::StructType *space;
  llvm::StructType *signal;
  llvm::StructType *kernel;
};

/// Calls of the runtime, one enumerator a row of runtime_abi.def.
enum class Runtime : uint8_t {
#define RT(NAME, SIGNATURE) NAME,
#include "backend/runtime/runtime_abi.def"
};

/// The module and what all of its functions use.
class HostModule : public ModuleLowering {
public:
  HostModule(ir::Module &source, llvm::Module &module, VectorUnit vectors, bool debugInfo);

  AbiTypes abi;
  VectorUnit vectors;

  [[nodiscard]] llvm::FunctionCallee runtime(Runtime call);
  /// A constant dtile_site for an op; `what` names the object, or is empty.
  [[nodiscard]] llvm::Constant *site(const ir::Op &op, llvm::StringRef what);
  /// 64 zero bytes: what is read where nothing exists.
  [[nodiscard]] llvm::Constant *zeros();
  /// void (temp, source, bytes of a row, stride, low, high): copies the existing part [low, high)
  /// of a row of elements of `bytes` bytes to `temp`, whose rest becomes 0. Strides in elements.
  [[nodiscard]] llvm::Function *fillRow(unsigned bytes);
  /// void (destination, temp, stride, low, high): the reverse, for what exists.
  [[nodiscard]] llvm::Function *spillRow(unsigned bytes);

  /// An internal function with the habits of all generated code (no unwinding, vector width).
  [[nodiscard]] llvm::Function *function(llvm::StringRef name, llvm::FunctionType *type);
  /// The function of that name; `emit` makes its code, at the builder, when it is asked for first.
  [[nodiscard]] llvm::Function *shared(llvm::IRBuilder<> &builder, llvm::StringRef name,
                                       llvm::FunctionType *type,
                                       llvm::function_ref<void(llvm::Function *)> emit);
  /// A private constant array, or null when empty.
  [[nodiscard]] llvm::Constant *array(llvm::StringRef name, llvm::Type *element,
                                      llvm::ArrayRef<llvm::Constant *> values);

private:
  llvm::DenseMap<unsigned, llvm::Function *> fillRows_;
  llvm::DenseMap<unsigned, llvm::Function *> spillRows_;
  llvm::GlobalVariable *zeros_ = nullptr;
};

/// What the rest of a kernel takes from its prologue: constants, and places in the frame. Rank,
/// num_ranks and epoch come first in it, then each value that is not constant once.
class Frame {
public:
  static constexpr int64_t kRank = 0;
  static constexpr int64_t kNumRanks = 8;
  static constexpr int64_t kEpoch = 16;

  /// One part of a value.
  struct Part {
    /// Null when it is in the frame.
    llvm::Constant *constant = nullptr;
    int64_t offset = 0;
  };

  /// Finds the values of the kernel's region that spaces and signals use.
  explicit Frame(ir::Op &kernel);

  [[nodiscard]] const llvm::SetVector<ir::Value *> &captured() const { return captured_; }
  /// Where the parts of a captured value are; the prologue says it before anybody asks.
  void place(ir::Value *value, llvm::SmallVector<Part, 4> parts) {
    places_[value] = std::move(parts);
  }
  [[nodiscard]] llvm::ArrayRef<Part> parts(ir::Value *value) const;
  /// Eight new bytes.
  [[nodiscard]] int64_t allocate() { return std::exchange(bytes_, bytes_ + 8); }
  [[nodiscard]] int64_t bytes() const { return bytes_; }

private:
  void capture(ir::Value *value);
  ir::Op &kernel_;
  llvm::SetVector<ir::Value *> captured_;
  llvm::DenseMap<ir::Value *, llvm::SmallVector<Part, 4>> places_;
  int64_t bytes_ = 24;
};

/// A function that reads the frame.
class FrameFunction : public FunctionLowering {
public:
  FrameFunction(HostModule &module, const Frame *frame)
      : FunctionLowering(module), host_(module), layout_(frame) {}

  /// Starts a new LLVM function whose argument `frameArgument` is the frame.
  void begin(llvm::Function *function, unsigned frameArgument);
  /// Ends it: the entry block jumps to what was emitted.
  void end();
  [[nodiscard]] llvm::IRBuilder<> &builder() { return b; }

protected:
  Parts outside(ir::Value *value) override;
  void lowerTargetOp(ir::Op &op) override;
  llvm::Value *fact(ir::OpKind kind) override;
  void checkCell(ir::Op &op, llvm::Value *position, llvm::Value *size) override {}
  void checkRank(ir::Op &op, llvm::Value *rank) override {}

  /// Loads a part of the frame, in the entry block.
  [[nodiscard]] llvm::Value *loadFrame(int64_t offset, llvm::Type *type);
  /// A static stack slot.
  [[nodiscard]] llvm::Value *stackSlot(llvm::Type *type, llvm::StringRef name);

  HostModule &host_;
  const Frame *layout_;
  llvm::Function *function_ = nullptr;
  llvm::Value *frame_ = nullptr;
  llvm::BasicBlock *entry_ = nullptr;
  llvm::BasicBlock *start_ = nullptr;
  llvm::DenseMap<int64_t, llvm::Value *> loaded_;
};

/// Emits all functions and the descriptor of a kernel.
void lowerKernel(HostModule &module, ir::Op &kernel);

/// What lowerBody makes.
struct LoweredBody {
  llvm::Function *function;
  int64_t workspaceBytes;
};
/// Emits the body function of a space.
[[nodiscard]] LoweredBody lowerBody(HostModule &module, const Frame &frame, ir::Op &space,
                                    llvm::StringRef name);

/// Number of blocks of each dimension, then the positions of body `linear`.
[[nodiscard]] llvm::SmallVector<llvm::Value *, 4> blockCounts(FrameFunction &function,
                                                              ir::Op &space);
[[nodiscard]] llvm::SmallVector<llvm::Value *, 4> positions(FrameFunction &function, ir::Op &space,
                                                            llvm::Value *rank, llvm::Value *linear);

/// The name of the parameter that a view or signal is a part of, or "".
[[nodiscard]] llvm::StringRef objectName(const ir::Value *value);

} // namespace dtile::backend::host
