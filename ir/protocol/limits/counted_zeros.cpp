// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Asks of each reduction what its elements past a limit are, and whether the others hide them.
#include "ir/protocol/limits/counted_zeros.h"

#include "ir/analysis/element_bounds.h"
#include "ir/analysis/past_limit.h"
#include "ir/protocol/prove/regions/window_ends.h"

#include "llvm/ADT/STLExtras.h"

#include <map>

namespace dtile::protocol {

namespace {

using namespace ir;

/// Whether an op only moves or converts what it has.
bool passesOn(const Op &op) {
  switch (op.kind()) {
  case OpKind::Splat:
  case OpKind::Broadcast:
  case OpKind::Reshape:
  case OpKind::Trans:
  case OpKind::Convert:
  case OpKind::Cast:
    return true;
  default:
    return false;
  }
}

class Finder {
public:
  explicit Finder(Op &kernel)
      : kernel_(kernel), past_([this](Op &load, unsigned dim) { return mayPass(load, dim); }) {}

  std::vector<CountedZeros> run() {
    walk(kernel_.body(), [&](Op &op) {
      if (op.is(OpKind::Reduce))
        lookAtReduction(op, op.get(attr::kind));
      else if (op.is(OpKind::ArgReduce))
        lookAtReduction(op, op.get(attr::kind));
      else if (op.is(OpKind::Dot))
        lookAtProduct(op);
      else if (op.is(OpKind::AtomicScatter))
        lookAtPlaces(op, op.operand(0), *op.operand(1), op.get(attr::kind) == "add");
      else if (op.is(OpKind::Scatter) || op.is(OpKind::ReduceAddScatter))
        lookAtPlaces(op, op.operand(1), *op.operand(0), op.is(OpKind::ReduceAddScatter));
    });
    return std::move(found_);
  }

private:
  bool mayPass(Op &load, unsigned dim) {
    if (!hasKnownEnd(load, dim))
      return false;
    const auto [it, isNew] = passes_.try_emplace({&load, dim});
    if (isNew)
      it->second = !isWhole(load, dim);
    return it->second;
  }

  void add(CountedZeros::Kind kind, Op &op, const PastElement &element, unsigned operand,
           unsigned axis) {
    found_.push_back({kind, &op, element.load, element.dim, op.operand(operand), axis});
  }

  void lookAtReduction(Op &op, llvm::StringRef kind) {
    Value *tile = op.operand(0);
    const auto axis = unsigned(op.get(attr::axis));
    const PastElement element = past_.of(tile, axis);
    if (element.kind != PastElement::Kind::FromZeros)
      return;
    if (kind == "sum" && element.number == 0) {
      if (isAverage(*op.result(), double(tile->type().shape()[axis])))
        add(CountedZeros::Kind::Averaged, op, element, 0, axis);
      return;
    }
    if (!element.number || !isNeutral(op, kind, *element.number))
      add(CountedZeros::Kind::Reduced, op, element, 0, axis);
  }

  bool isNeutral(Op &op, llvm::StringRef kind, double number) {
    Value *tile = op.operand(0);
    if (kind == "max")
      return number <= bounds_.of(tile).least || isCovered(*op.result(), OpKind::Max, number);
    if (kind == "min")
      return number >= bounds_.of(tile).largest || isCovered(*op.result(), OpKind::Min, number);
    if (kind == "prod")
      return number == 1;
    return kind == "all" ? number != 0 : number == 0;
  }

  /// Whether all that is made of a largest (or least) element is compared with something that is at
  /// least (or at most) the number.
  bool isCovered(Value &value, OpKind kind, double number) {
    return value.hasUses() && llvm::all_of(value.uses(), [&](const Use &use) {
             Op &user = *use.user;
             if (passesOn(user) || (user.is(OpKind::Reduce) &&
                                    user.get(attr::kind) == (kind == OpKind::Max ? "max" : "min")))
               return isCovered(*user.result(), kind, number);
             if (!user.is(kind))
               return false;
             const ElementBounds other = bounds_.of(user.operand(1 - use.index));
             return kind == OpKind::Max ? other.least >= number : other.largest <= number;
           });
  }

  /// Whether a sum is divided by the number of positions that a block has.
  static bool isAverage(const Value &sum, double count) {
    return llvm::any_of(sum.uses(), [&](const Use &use) {
      Op &user = *use.user;
      if (passesOn(user))
        return isAverage(*user.result(), count);
      if (user.is(OpKind::Reduce) && user.get(attr::kind) == "sum")
        return isAverage(*user.result(),
                         count *
                             double(user.operand(0)->type().shape()[size_t(user.get(attr::axis))]));
      if (use.index != 0 && !user.is(OpKind::Mul))
        return false;
      if (!user.is(OpKind::Div) && !user.is(OpKind::Mul))
        return false;
      PastLimit numbers([](Op &, unsigned) { return false; });
      const std::optional<double> by = numbers.of(user.operand(1 - use.index), {}).number;
      constexpr double kRounding = 1e-3;
      return by && std::abs((user.is(OpKind::Div) ? *by / count : *by * count) - 1) < kRounding;
    });
  }

  void lookAtProduct(Op &dot) {
    const PastElement a = past_.of(dot.operand(0), 1), b = past_.of(dot.operand(1), 0);
    const bool isMasked =
        a.kind == PastElement::Kind::Masked || b.kind == PastElement::Kind::Masked;
    if (isMasked || a.number == 0 || b.number == 0)
      return;
    if (a.kind == PastElement::Kind::FromZeros)
      add(CountedZeros::Kind::Reduced, dot, a, 0, 1);
    else if (b.kind == PastElement::Kind::FromZeros)
      add(CountedZeros::Kind::Reduced, dot, b, 1, 0);
  }

  /// `view` is cut at index tiles that stand after it and after `value`.
  void lookAtPlaces(Op &op, const Value *view, Value &value, bool isSum) {
    const auto first =
        unsigned(op.is(OpKind::AtomicScatter) && op.get(attr::kind) == "cas" ? 3 : 2);
    const auto indices = op.operands().slice(first, view->type().rank());
    const Type shape = indices.front()->type();
    for (unsigned dim = 0; shape.isTile() && dim < shape.rank(); ++dim) {
      PastElement element;
      for (Value *index : indices)
        if (const PastElement one = past_.of(index, dim); one.kind >= element.kind)
          element = one;
      const PastElement written = past_.of(&value, dim);
      const bool changesNothing =
          written.kind == PastElement::Kind::Masked || (isSum && written.number == 0);
      if (element.kind == PastElement::Kind::FromZeros && !changesNothing)
        return add(CountedZeros::Kind::Indexed, op, element, first, dim);
    }
  }

  Op &kernel_;
  PastLimit past_;
  BoundsFinder bounds_;
  std::map<std::pair<Op *, unsigned>, bool> passes_;
  std::vector<CountedZeros> found_;
};

} // namespace

std::vector<CountedZeros> countedZeros(Op &kernel) { return Finder(kernel).run(); }

} // namespace dtile::protocol
