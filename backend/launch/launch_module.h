// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The LLVM module of this machine's code that stands around launches: the ABI's types in it, calls
// of the runtime, and the habits of its functions.
#pragma once

#include "backend/llvm/lowering.h"

#include <cstdint>

namespace dtile::backend::launch {

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
  llvm::StructType *notify;
  llvm::StructType *signal;
  llvm::StructType *deviceSpace;
  llvm::StructType *deviceScratch;
  llvm::StructType *image;
  llvm::StructType *kernel;
  llvm::StructType *tunedSize;
  llvm::StructType *tunedRow;
};

/// Calls of the runtime, one enumerator a row of runtime_abi.def.
enum class Runtime : uint8_t {
#define RT(NAME, SIGNATURE) NAME,
#include "backend/runtime/runtime_abi.def"
};

/// The module and what all of its functions use. Several may fill one LLVM module, from different
/// IR modules; only one of them with debug information.
class LaunchModule : public ModuleLowering {
public:
  LaunchModule(ir::Module &source, llvm::Module &module, VectorUnit vectors, bool debugInfo);

  AbiTypes abi;
  VectorUnit vectors;

  [[nodiscard]] llvm::FunctionCallee runtime(Runtime call);
  /// A dtile_site for an op; `what` names the object, or is empty.
  [[nodiscard]] llvm::Constant *siteValue(const ir::Op &op, llvm::StringRef what);
  /// The same in memory.
  [[nodiscard]] llvm::Constant *site(const ir::Op &op, llvm::StringRef what);

  /// An internal function with the habits of all generated code (no unwinding, vector width).
  [[nodiscard]] llvm::Function *function(llvm::StringRef name, llvm::FunctionType *type);
  /// The function of that name; `emit` makes its code, at the builder, when it is asked for first.
  [[nodiscard]] llvm::Function *shared(llvm::IRBuilder<> &builder, llvm::StringRef name,
                                       llvm::FunctionType *type,
                                       llvm::function_ref<void(llvm::Function *)> emit);
  /// A private constant array, or null when empty.
  [[nodiscard]] llvm::Constant *array(llvm::StringRef name, llvm::Type *element,
                                      llvm::ArrayRef<llvm::Constant *> values);
  /// A private constant of these bytes, aligned for any use.
  [[nodiscard]] llvm::Constant *bytes(llvm::StringRef name, llvm::StringRef data);
  [[nodiscard]] llvm::Constant *i32(int64_t value);
  [[nodiscard]] llvm::Constant *i64(int64_t value);
  [[nodiscard]] llvm::Constant *null();
};

/// Writes the dtile_region of what exists of a view to `place`.
void storeRegion(LaunchModule &module, llvm::IRBuilder<> &b, ViewBuilder &views, llvm::Value *place,
                 const View &view);
/// The same of cells.
void storeCells(LaunchModule &module, llvm::IRBuilder<> &b, ViewBuilder &views, llvm::Value *place,
                const SignalCells &cells);
/// Leaves of two views the positions that exist in both.
void cutToCommon(llvm::IRBuilder<> &b, View &x, View &y);

/// The name of the parameter that a view or signal is a part of, or "".
[[nodiscard]] llvm::StringRef objectName(const ir::Value *value);

} // namespace dtile::backend::launch
