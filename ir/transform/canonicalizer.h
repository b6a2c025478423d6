// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The state of canonicalize and its rules, grouped by what they look at. Private to
// canonicalize*.cpp.
#pragma once

#include "ir/core/builder.h"
#include "ir/transform/fold.h"

#include "llvm/ADT/DenseSet.h"

#include <optional>
#include <vector>

namespace dtile::passes {

/// Rewrites ops until no rule applies. A rule is given an op, and says whether it changed anything;
/// it may erase the op. Each rule makes the module smaller or moves it towards one fixed form, so
/// the work ends.
class Canonicalizer {
public:
  explicit Canonicalizer(ir::Module &module) : builder_(module) {}
  /// Rewrites everything in a func or kernel.
  bool run(ir::Op &function);

private:
  // canonicalize.cpp: control, tokens and checks.
  bool simplify(ir::Op &op);
  bool simplifyIf(ir::Op &op);
  bool simplifyFor(ir::Op &op);
  bool simplifyWhile(ir::Op &op);
  bool dropInvariantCarries(ir::Op &op);
  bool simplifyTokens(ir::Op &op);
  bool simplifyJoin(ir::Op &op);
  bool simplifyAssert(ir::Op &op);
  bool simplifyLaunchCheck(ir::Op &op);
  bool simplifyLaunchRequire(ir::Op &op);
  /// Moves the ops of a region, but for its terminator, before `op`; arguments become `values`.
  void inlineRegion(ir::Op &op, ir::Block &body, llvm::ArrayRef<ir::Value *> values);
  /// How often a loop runs, if that is known to be 0 or 1.
  std::optional<unsigned> shortTripCount(const ir::Op &loop);

  // canonicalize_arithmetic.cpp
  bool simplifyArithmetic(ir::Op &op);
  bool foldConstants(ir::Op &op);
  bool scalarize(ir::Op &op);
  bool simplifyBinary(ir::Op &op);
  bool simplifyAdd(ir::Op &op);
  bool simplifySub(ir::Op &op);
  bool simplifyMul(ir::Op &op);
  bool simplifyDivRem(ir::Op &op);
  bool simplifyDivRemOfSum(ir::Op &op, int64_t divisor);
  bool simplifyMinMax(ir::Op &op);
  bool simplifyLogic(ir::Op &op);
  bool simplifyUnary(ir::Op &op);
  bool simplifyCeilDiv(ir::Op &op, ir::Op &quotient);
  bool simplifyCmp(ir::Op &op);
  bool simplifySelect(ir::Op &op);
  bool simplifyCast(ir::Op &op);
  bool simplifyBitcast(ir::Op &op);

  // canonicalize_tiles.cpp: tiles, views and signals.
  bool simplifyTiles(ir::Op &op);
  bool simplifyTrans(ir::Op &op);
  bool simplifyReshape(ir::Op &op);
  bool simplifyBroadcast(ir::Op &op);
  bool simplifySlice(ir::Op &op);
  bool simplifyViewSelect(ir::Op &op);
  bool simplifySum(ir::Op &op);
  bool simplifyDim(ir::Op &op);

  // Edits; all of them keep the worklist up to date.
  /// Every use of the op's only result becomes `value`, and the op goes.
  bool replace(ir::Op &op, ir::Value *value);
  bool replace(ir::Op &op, llvm::ArrayRef<ir::Value *> values);
  void replaceUses(ir::Value *from, ir::Value *to);
  void erase(ir::Op &op);
  void setOperand(ir::Op &op, unsigned i, ir::Value *value);
  void setOperands(ir::Op &op, llvm::ArrayRef<ir::Value *> values);
  void push(ir::Op *op);
  void pushUsers(const ir::Value *value);
  /// A new op before `op`, at its position in the source.
  ir::Value *make(ir::Op &op, ir::OpKind kind, llvm::ArrayRef<ir::Value *> operands,
                  ir::Type result = {});
  /// A constant of a scalar type, or a splat of one, before `op`.
  ir::Value *makeConst(ir::Op &op, ir::Type type, const Constant &value);

  ir::Builder builder_;
  std::vector<ir::Op *> worklist_;
  llvm::DenseSet<ir::Op *> listed_;
  bool changed_ = false;
};

/// The value of a scalar constant.
[[nodiscard]] std::optional<Constant> constantIn(const ir::Value *value);
/// The value of a scalar constant or of a splat of one.
[[nodiscard]] std::optional<Constant> splatConstantIn(const ir::Value *value);
/// The defining op, if it is of that kind.
[[nodiscard]] ir::Op *definedBy(const ir::Value *value, ir::OpKind kind);

} // namespace dtile::passes
