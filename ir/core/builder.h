// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Makes ops at an insertion point, so that nesting in the IR is nesting in the C++.
#pragma once

#include "ir/core/ir.h"

#include "llvm/ADT/DenseMap.h"

namespace dtile::ir {

/// Inserts at the end of a block, or before an op.
class Builder {
public:
  explicit Builder(Module &module) : module_(module) {}

  [[nodiscard]] Module &module() const { return module_; }
  [[nodiscard]] TypeContext &types() const { return module_.types(); }

  void setInsertionPointToEnd(Block &block) {
    block_ = &block;
    before_ = nullptr;
  }
  void setInsertionPoint(Op *before) {
    block_ = before->parentBlock();
    before_ = before;
  }
  void setInsertionPointToStart(Block &block) {
    block_ = &block;
    before_ = block.empty() ? nullptr : &block.ops().front();
  }
  [[nodiscard]] Block *insertionBlock() const { return block_; }
  [[nodiscard]] Op *insertionPoint() const { return before_; }
  /// The position that new ops get.
  void setLoc(SourceLoc loc) { loc_ = loc; }
  [[nodiscard]] SourceLoc loc() const { return loc_; }

  /// Any op; result types where the row says `any`, inferred otherwise (leave empty).
  Op *op(OpKind kind, llvm::ArrayRef<Value *> operands, llvm::ArrayRef<Type> results = {});
  /// The same, with attributes, for ops of one result.
  Value *value(OpKind kind, llvm::ArrayRef<Value *> operands, Type result = {},
               std::vector<NamedAttr> attrs = {});

  Value *constIndex(int64_t value);
  Value *constInt(DType dtype, int64_t value);
  Value *constFloat(DType dtype, double value);
  Value *constBool(bool value);
  /// A tile of zeros, or of `false`.
  Value *zeros(Type tile);
  Value *cmp(llvm::StringRef pred, Value *a, Value *b);
  Value *add(Value *a, Value *b) { return value(OpKind::Add, {a, b}); }
  Value *sub(Value *a, Value *b) { return value(OpKind::Sub, {a, b}); }
  Value *mul(Value *a, Value *b) { return value(OpKind::Mul, {a, b}); }
  Value *div(Value *a, Value *b) { return value(OpKind::Div, {a, b}); }
  Value *rem(Value *a, Value *b) { return value(OpKind::Rem, {a, b}); }
  Value *min(Value *a, Value *b) { return value(OpKind::Min, {a, b}); }
  Value *max(Value *a, Value *b) { return value(OpKind::Max, {a, b}); }
  /// ceil(a / b) on index values.
  Value *ceilDiv(Value *a, Value *b);

private:
  Module &module_;
  Block *block_ = nullptr;
  Op *before_ = nullptr;
  SourceLoc loc_;
};

/// Restores a builder's insertion point.
class InsertionGuard {
public:
  explicit InsertionGuard(Builder &builder)
      : builder_(builder), block_(builder.insertionBlock()), before_(builder.insertionPoint()) {}
  ~InsertionGuard() {
    if (before_)
      builder_.setInsertionPoint(before_);
    else if (block_)
      builder_.setInsertionPointToEnd(*block_);
  }
  InsertionGuard(const InsertionGuard &) = delete;
  InsertionGuard &operator=(const InsertionGuard &) = delete;

private:
  Builder &builder_;
  Block *block_;
  Op *before_;
};

/// Maps values of an original to values of its copy.
using ValueMap = llvm::DenseMap<Value *, Value *>;
/// Copies an op with its regions before the builder's insertion point; operands go through `map`
/// (unmapped ones stay), and results and block arguments are added to it.
Op *cloneOp(Builder &builder, const Op &op, ValueMap &map);
/// A copy of a whole module, with the same types and sources.
[[nodiscard]] std::unique_ptr<Module> cloneModule(Module &module);

} // namespace dtile::ir
