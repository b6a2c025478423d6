// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Follows a tile, element by element, to the windows that it was loaded from.
#include "ir/from_ast/existing_elements.h"
#include "ir/core/op_classes.h"

#include "llvm/ADT/DenseMap.h"

namespace dtile::ir {

namespace {

class Follower {
public:
  explicit Follower(Builder &builder) : builder_(builder) {}

  Value *existing(Value *tile) {
    const auto known = known_.find(tile);
    if (known != known_.end())
      return known->second;
    Op *op = tile->definingOp();
    Value *result = op ? ofOp(*op, tile->type()) : nullptr;
    known_[tile] = result;
    return result;
  }

private:
  Value *ofOp(Op &op, Type type) {
    if (op.is(OpKind::Load))
      return ofWindow(op.operand(0), type);
    if (op.is(OpKind::Select))
      return ofChoice(op, type);
    const bool isMoved = op.is(OpKind::Reshape) || op.is(OpKind::Broadcast) || op.is(OpKind::Trans);
    const bool isArithmetic = isElementwise(op.kind());
    if (!isMoved && !isArithmetic && !op.is(OpKind::Gather))
      return nullptr;
    Value *all = nullptr;
    for (Value *operand : op.operands())
      if (operand->type().isTile())
        all = both(all, existing(operand));
    return all && isMoved ? builder_.value(op.kind(), {all}, boolsOf(type)) : all;
  }

  /// Of what is chosen, where it is known which.
  Value *ofChoice(Op &op, Type type) {
    Value *chooser = existing(op.operand(0));
    Value *first = existing(op.operand(1)), *second = existing(op.operand(2));
    if (!first && !second)
      return chooser;
    const auto orAll = [&](Value *exists) {
      return exists ? exists
                    : builder_.value(OpKind::Splat, {builder_.constBool(true)}, boolsOf(type));
    };
    return both(chooser,
                builder_.value(OpKind::Select, {op.operand(0), orAll(first), orAll(second)}));
  }

  /// Of a load from `view.tile`: each of its ranges has a limit, and its tensor has an end.
  Value *ofWindow(Value *view, Type type) {
    Op *window = view->definingOp();
    if (!window || !window->is(OpKind::ViewTile))
      return nullptr;
    Value *all = nullptr;
    unsigned operand = 1, dim = 0, from = 0;
    for (const char letter : window->get(attr::dims)) {
      if (letter == 'r')
        all = both(all, inside(*window, operand, dim, from, type));
      operand += letter == 'r' ? 2 : letter == 'i' ? 1 : 0;
      dim += letter == 'i' ? 0 : 1;
      ++from;
    }
    return all;
  }

  /// Of positions along dimension `dim` of the tile, which is dimension `from` of the tensor.
  Value *inside(Op &window, unsigned operand, unsigned dim, unsigned from, Type type) {
    const int64_t length = type.shape()[dim];
    const Type positions = builder_.types().tile({length}, DType::I64);
    const auto everywhere = [&](Value *number) {
      return builder_.value(OpKind::Splat, {number}, positions);
    };
    Value *steps = builder_.value(OpKind::Iota, {}, builder_.types().tile({length}, DType::I32));
    Value *at = builder_.add(everywhere(window.operand(operand)),
                             builder_.value(OpKind::Cast, {steps}, positions));
    Value *size = builder_.value(OpKind::ViewDim, {window.operand(0)}, builder_.types().index(),
                                 {{attr::dim, int64_t(from)}});
    Value *limit = builder_.min(window.operand(operand + 1), size);
    Value *line = both(builder_.cmp("lt", at, everywhere(limit)),
                       builder_.cmp("ge", at, everywhere(builder_.constIndex(0))));
    if (type.rank() == 1)
      return line;
    llvm::SmallVector<int64_t, 4> shape(type.rank(), 1);
    shape[dim] = length;
    line = builder_.value(OpKind::Reshape, {line}, builder_.types().tile(shape, DType::Bool));
    return builder_.value(OpKind::Broadcast, {line}, boolsOf(type));
  }

  Value *both(Value *a, Value *b) {
    return !a ? b : !b || a == b ? a : builder_.value(OpKind::And, {a, b});
  }
  Type boolsOf(Type type) { return builder_.types().tile(type.shape(), DType::Bool); }

  Builder &builder_;
  llvm::DenseMap<Value *, Value *> known_;
};

} // namespace

Value *existingElements(Builder &builder, Value *tile) { return Follower(builder).existing(tile); }

} // namespace dtile::ir
