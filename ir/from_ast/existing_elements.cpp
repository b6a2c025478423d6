// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Follows a tile to the windows that it was loaded from, through what is computed element by
// element, reductions along other dimensions, loops and functions. What exists is said by
// dimensions first, and becomes a tile of bools where it is asked for.
#include "ir/from_ast/existing_elements.h"
#include "ir/core/op_classes.h"
#include "ir/core/view_dims.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"

#include <utility>

namespace dtile::ir {

namespace {

/// A dimension of a tile of which a window says what exists.
struct Line {
  unsigned dim = 0;
  int64_t length = 1;
  /// The positions from `first` on that lie below `limit` and in dimension `from` of the view.
  Value *first = nullptr;
  Value *limit = nullptr;
  Value *view = nullptr;
  unsigned from = 0;

  friend bool operator==(const Line &, const Line &) = default;
};

/// Elements that exist in all of the lines, and in `chosen`, a tile of bools.
struct Existing {
  llvm::SmallVector<Line, 2> lines;
  Value *chosen = nullptr;

  void add(const Line &line) {
    if (!llvm::is_contained(lines, line))
      lines.push_back(line);
  }
};

class Follower {
public:
  explicit Follower(Builder &builder) : builder_(builder) {}

  Value *existing(Value *tile) { return asTile(of(tile), tile->type()); }

private:
  Existing of(Value *value) {
    const auto known = known_.find(value);
    if (known != known_.end())
      return known->second;
    Op *op = value->definingOp();
    Existing result;
    // A tile whose elements stand for one thing has no dimension to lack some of.
    if (op && value->type().isTile())
      result = ofOp(*op, value->index(), value->type());
    return known_[value] = result;
  }

  Existing ofOp(Op &op, unsigned result, Type type) {
    switch (op.kind()) {
    case OpKind::Load:
      return ofWindow(op.operand(0));
    case OpKind::Select:
      return ofChoice(op);
    case OpKind::Reshape:
    case OpKind::Broadcast:
    case OpKind::Trans:
      return moved(op, type);
    case OpKind::Reduce:
    case OpKind::ArgReduce:
      return reduced(op, type);
    case OpKind::For:
      return visible(inside(*op.body().terminator()->operand(result)));
    case OpKind::Call:
      return ofCall(op, result);
    case OpKind::Scan:
    case OpKind::Gather:
      break;
    default:
      if (!isElementwise(op.kind()))
        return {};
    }
    Existing all;
    for (Value *operand : op.operands())
      all = both(all, of(operand));
    return all;
  }

  /// Of what is chosen, where it is known which.
  Existing ofChoice(Op &op) {
    Existing chooser = of(op.operand(0));
    for (const unsigned side : {1, 2})
      if (standsForNothing(*op.operand(side)))
        return both(chooser, of(op.operand(3 - side)));
    const Existing first = of(op.operand(1)), second = of(op.operand(2));
    // What both lack is not there; the rest depends on the choice.
    Existing firstOnly{{}, first.chosen}, secondOnly{{}, second.chosen};
    for (const Line &line : first.lines)
      (llvm::is_contained(second.lines, line) ? chooser : firstOnly).add(line);
    for (const Line &line : second.lines)
      if (!llvm::is_contained(first.lines, line))
        secondOnly.add(line);
    if (isInside_)
      return chooser;
    const Type type = op.result()->type();
    Value *ofFirst = asTile(firstOnly, type), *ofSecond = asTile(secondOnly, type);
    if (!ofFirst && !ofSecond)
      return chooser;
    const auto orAll = [&](Value *exists) {
      return exists ? exists
                    : builder_.value(OpKind::Splat, {builder_.constBool(true)}, boolsOf(type));
    };
    Value *chosen =
        builder_.value(OpKind::Select, {op.operand(0), orAll(ofFirst), orAll(ofSecond)});
    return both(chooser, {{}, chosen});
  }

  /// Whether a value is there with what it is chosen beside: one number for all elements, or what
  /// an iteration before has left of the same choice.
  static bool standsForNothing(const Value &value) {
    if (const Op *op = value.definingOp())
      return op->is(OpKind::Splat);
    const Op *around = value.argumentOf()->parentOp();
    return around && around->is(OpKind::For);
  }

  /// Of a load from `view.tile`: each of its ranges has a limit, and its tensor has an end.
  static Existing ofWindow(Value *view) {
    Existing all;
    Op *window = view->definingOp();
    if (!window || !window->is(OpKind::ViewTile))
      return all;
    for (const ViewDim &dim : viewDims(*window))
      if (dim.isRange())
        all.add({dim.to, window->get(attr::lens)[dim.range], window->operand(dim.operand),
                 window->operand(dim.operand + 1), window->operand(0), dim.from});
    return all;
  }

  /// Of dimensions that only change their place; others make it a tile.
  Existing moved(Op &op, Type type) {
    const Existing before = of(op.operand(0));
    Existing after;
    Existing inTile{{}, before.chosen};
    for (Line line : before.lines) {
      const std::optional<unsigned> dim = placeOf(op, line.dim);
      if (!dim) {
        inTile.add(line);
        continue;
      }
      line.dim = *dim;
      after.add(line);
    }
    if (isInside_)
      return after;
    if (Value *tile = asTile(inTile, op.operand(0)->type())) {
      Op *same = builder_.op(op.kind(), {tile}, {boolsOf(type)});
      if (op.is(OpKind::Trans))
        same->set(attr::perm, op.get(attr::perm).vec());
      after.chosen = same->result();
    }
    return after;
  }

  /// The dimension of the result that one of the operand becomes.
  static std::optional<unsigned> placeOf(const Op &op, unsigned dim) {
    if (op.is(OpKind::Broadcast))
      return dim;
    if (op.is(OpKind::Trans))
      return unsigned(llvm::find(op.get(attr::perm), int64_t(dim)) - op.get(attr::perm).begin());
    // Dimensions of size 1 come and go.
    const llvm::ArrayRef<int64_t> from = op.operand(0)->type().shape();
    const llvm::ArrayRef<int64_t> to = op.result()->type().shape();
    const auto before = [](llvm::ArrayRef<int64_t> shape, size_t end) {
      int64_t elements = 1;
      for (const int64_t size : shape.take_front(end))
        elements *= size;
      return elements;
    };
    for (unsigned d = 0; d < to.size(); ++d)
      if (to[d] == from[dim] && before(to, d) == before(from, dim))
        return d;
    return std::nullopt;
  }

  /// A row is there where its positions are, whatever of it is past an end.
  Existing reduced(Op &op, Type type) {
    const auto axis = unsigned(op.get(attr::axis));
    const Existing before = of(op.operand(0));
    Existing after;
    for (Line line : before.lines) {
      if (line.dim == axis)
        continue;
      line.dim -= line.dim > axis ? 1 : 0;
      after.add(line);
    }
    if (before.chosen && !isInside_)
      after.chosen = builder_.value(OpKind::Reduce, {before.chosen}, boolsOf(type),
                                    {{attr::kind, "any"}, {attr::axis, int64_t(axis)}});
    return after;
  }

  /// Of what a function gives, by what its arguments are.
  Existing ofCall(Op &call, unsigned result) {
    Op *callee = builder_.module().lookup(call.get(attr::callee));
    if (!callee)
      return {};
    for (auto [argument, operand] : llvm::zip_equal(callee->body().arguments(), call.operands()))
      known_[argument] = of(operand);
    return visible(inside(*callee->body().terminator()->operand(result)));
  }

  /// Of what a loop or a function computes, by dimensions alone: its values are not to be had where
  /// the tile is asked for.
  Existing inside(Value &value) {
    const auto before = known_;
    const bool wasInside = std::exchange(isInside_, true);
    Existing result = of(&value);
    isInside_ = wasInside;
    known_ = before;
    return result;
  }

  /// What can be said where the tile is asked for.
  Existing visible(const Existing &found) const {
    Existing outside;
    for (const Line &line : found.lines)
      if (isVisible(line.first) && isVisible(line.limit) && isVisible(line.view))
        outside.add(line);
    return outside;
  }

  [[nodiscard]] bool isVisible(const Value *value) const {
    const Block *home =
        value->definingOp() ? value->definingOp()->parentBlock() : value->argumentOf();
    for (const Block *at = builder_.insertionBlock(); at;
         at = at->parentOp() ? at->parentOp()->parentBlock() : nullptr)
      if (at == home)
        return true;
    return false;
  }

  Value *asTile(const Existing &existing, Type type) {
    Value *all = existing.chosen;
    for (const Line &line : existing.lines)
      all = both(all, asTile(line, type));
    return all;
  }

  Value *asTile(const Line &line, Type type) {
    const Type positions = builder_.types().tile({line.length}, DType::I64);
    const auto everywhere = [&](Value *number) {
      return builder_.value(OpKind::Splat, {number}, positions);
    };
    Value *steps =
        builder_.value(OpKind::Iota, {}, builder_.types().tile({line.length}, DType::I32));
    Value *at =
        builder_.add(everywhere(line.first), builder_.value(OpKind::Cast, {steps}, positions));
    Value *size = builder_.value(OpKind::ViewDim, {line.view}, builder_.types().index(),
                                 {{attr::dim, int64_t(line.from)}});
    Value *limit = builder_.min(line.limit, size);
    Value *inside = both(builder_.cmp("lt", at, everywhere(limit)),
                         builder_.cmp("ge", at, everywhere(builder_.constIndex(0))));
    if (type.rank() == 1 && line.length == type.shape()[0])
      return inside;
    llvm::SmallVector<int64_t, 4> shape(type.rank(), 1);
    shape[line.dim] = line.length;
    inside = builder_.value(OpKind::Reshape, {inside}, builder_.types().tile(shape, DType::Bool));
    return builder_.value(OpKind::Broadcast, {inside}, boolsOf(type));
  }

  Value *both(Value *a, Value *b) {
    return !a ? b : !b || a == b ? a : builder_.value(OpKind::And, {a, b});
  }
  Existing both(Existing a, const Existing &b) {
    for (const Line &line : b.lines)
      a.add(line);
    a.chosen = isInside_ ? nullptr : both(a.chosen, b.chosen);
    return a;
  }
  Type boolsOf(Type type) { return builder_.types().tile(type.shape(), DType::Bool); }

  Builder &builder_;
  llvm::DenseMap<Value *, Existing> known_;
  /// What is followed stands in a loop or a function.
  bool isInside_ = false;
};

} // namespace

Value *existingElements(Builder &builder, Value *tile) { return Follower(builder).existing(tile); }

} // namespace dtile::ir
