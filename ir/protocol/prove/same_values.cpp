// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Whether elements that two executions compute are one number: they are computed alike, from equal
// numbers and from elements of inputs, which no body writes. Of a tile one element is followed, so
// a row of one tile may be another tile. Floats are left out: the order of a sum may differ.
#include "ir/protocol/prove/model.h"

#include "ir/core/op_classes.h"

#include "llvm/ADT/STLExtras.h"

#include <array>

namespace dtile::protocol::prove {

namespace {

/// Values are followed through so many ops.
constexpr unsigned kDepth = 24;

bool isWholeNumber(ir::Type type) {
  if (type.isIndex())
    return true;
  return (type.isScalar() || type.isTile()) &&
         (isInteger(type.dtype()) || type.dtype() == DType::Bool);
}

bool haveEqualAttrs(const Op &a, const Op &b, llvm::StringRef but = "") {
  const auto isIn = [&](const Op &other) {
    return [&, but](const ir::NamedAttr &attr) {
      const ir::Attr *its = other.attr(attr.name);
      return attr.name == but || (its && *its == attr.value);
    };
  };
  return llvm::all_of(a.attrs(), isIn(b)) && llvm::all_of(b.attrs(), isIn(a));
}

/// The position in the operand of a reshape that only adds or drops dimensions of one element.
std::optional<Position> beforeReshape(const Op &reshape, const Position &at) {
  const ir::Type from = reshape.operand(0)->type(), to = reshape.result()->type();
  if (!from.isTile())
    return Position();
  Position inner;
  unsigned d = 0;
  const auto skip = [&] {
    while (d < to.rank() && to.shape()[d] == 1)
      ++d;
  };
  for (const int64_t size : from.shape()) {
    if (size == 1) {
      inner.push_back(Polynomial(0));
      continue;
    }
    skip();
    if (d == to.rank() || to.shape()[d] != size)
      return std::nullopt;
    inner.push_back(at[d++]);
  }
  skip();
  return d == to.rank() ? std::optional(inner) : std::nullopt;
}

} // namespace

/// Goes to where an element comes from, through what only gives tiles another shape.
void Scene::followShapes(Element &element) {
  while (Op *op = element.value->definingOp()) {
    switch (op->kind()) {
    case OpKind::Splat:
      element.at.clear();
      break;
    case OpKind::Convert:
      break;
    case OpKind::Broadcast:
      for (const auto &[d, size] : llvm::enumerate(op->operand(0)->type().shape()))
        if (size == 1)
          element.at[d] = Polynomial(0);
      break;
    case OpKind::Reshape: {
      auto inner = beforeReshape(*op, element.at);
      if (!inner)
        return;
      element.at = std::move(*inner);
      break;
    }
    default:
      return;
    }
    element.value = op->operand(0);
  }
}

/// The number that an element is, where polynomials can say it.
std::optional<Polynomial> Scene::numberOf(const Element &element) {
  Op *op = element.value->definingOp();
  const ir::Type type = element.value->type();
  if (!type.isTile()) {
    if (!Polynomials::isNumber(type))
      return std::nullopt;
    return polys.of(element.value, element.instance->environment);
  }
  if (op && op->is(OpKind::Iota) && countsWithoutWrapping(type))
    return element.at.front();
  if (op && op->is(OpKind::Cast) && keepsNumbers(*op)) {
    Element inner{op->operand(0), element.at, element.instance};
    followShapes(inner);
    return numberOf(inner);
  }
  return std::nullopt;
}

/// Whether two loads read one element of an input. Behind the edge of the input both give zero; but
/// what a view cuts off before the edge must not matter.
bool Scene::areOneElement(Facts &facts, const Element &x, const Element &y) {
  struct Read {
    Region region;
    Position at;
  };
  const auto readOf = [&](const Element &element) -> std::optional<Read> {
    Read read{region(element.value->definingOp()->operand(0), *element.instance, facts), {}};
    const Region &region = read.region;
    if (!region.object || !region.isExact || region.live.size() != element.at.size())
      return std::nullopt;
    for (const DimRegion &dim : region.dims)
      read.at.push_back(dim.at.value_or(Polynomial()));
    for (const auto &[of, at] : llvm::zip_equal(region.live, element.at))
      read.at[of.first] = of.second + at;
    return read;
  };
  const auto a = readOf(x), b = readOf(y);
  if (!a || !b || a->region.object != b->region.object ||
      a->region.object->get(ir::attr::mode) != ir::ParamMode::In)
    return false;
  const Op &object = *a->region.object;
  const auto isEqual = [&](const Polynomial &p, const Polynomial &q) {
    return refuter.impliesEqual(facts, p, q);
  };
  if (!isSaid(&object, "replicated") && !isEqual(a->region.rank, b->region.rank))
    return false;
  if (!llvm::all_of(llvm::zip_equal(a->at, b->at), [&](const auto &both) {
        return isEqual(std::get<0>(both), std::get<1>(both));
      }))
    return false;
  // Where the element exists, neither view cuts it off.
  Facts in = facts;
  for (const auto &[d, at] : llvm::enumerate(a->at)) {
    in.push_back(at);
    ir::addLess(in, at, polys.of(object.operand(unsigned(d)), x.instance->environment));
  }
  return llvm::all_of(std::array{&*a, &*b}, [&](const Read *read) {
    const bool isInside = llvm::all_of(
        read->region.inside, [&](const auto &condition) { return implies(in, condition.second); });
    return isInside &&
           llvm::all_of(llvm::zip_equal(read->region.dims, read->at), [&](const auto &both) {
             const auto &[dim, at] = both;
             return llvm::all_of(dim.atLeast,
                                 [&](const Polynomial &low) { return implies(in, at - low); }) &&
                    llvm::all_of(dim.below, [&](const Polynomial &high) {
                      return implies(in, high - at - Polynomial(1));
                    });
           });
  });
}

bool Scene::areOneNumber(Facts &facts, Element x, Element y, unsigned depth) {
  followShapes(x);
  followShapes(y);
  if (!isWholeNumber(x.value->type()) || !isWholeNumber(y.value->type()) || depth == kDepth)
    return false;
  const auto numberOfX = numberOf(x), numberOfY = numberOf(y);
  if (numberOfX && numberOfY && refuter.impliesEqual(facts, *numberOfX, *numberOfY))
    return true;
  Op *a = x.value->definingOp(), *b = y.value->definingOp();
  if (!a || !b || a->kind() != b->kind() || a->numOperands() != b->numOperands() ||
      a->result()->type().elementOrIndex() != b->result()->type().elementOrIndex())
    return false;
  if (a->is(OpKind::Load))
    return areOneElement(facts, x, y);
  if (a->is(OpKind::Const))
    return haveEqualAttrs(*a, *b);
  const auto operand = [](const Element &element, unsigned i) {
    Value *value = element.value->definingOp()->operand(i);
    return Element{value, value->type().isTile() ? element.at : Position(), element.instance};
  };
  if (a->is(OpKind::Reduce)) {
    const auto axisOf = [](const Op &op) { return unsigned(op.get(ir::attr::axis)); };
    const int64_t extent = a->operand(0)->type().shape()[axisOf(*a)];
    if (extent != b->operand(0)->type().shape()[axisOf(*b)] ||
        !haveEqualAttrs(*a, *b, ir::attr::axis.name))
      return false;
    // All elements along the axis: one that stands for any.
    const Polynomial any = var(polys.fresh(Polynomial(extent)));
    facts.push_back(any);
    ir::addLess(facts, any, Polynomial(extent));
    const auto along = [&](const Element &element) {
      Op *op = element.value->definingOp();
      Element inner{op->operand(0), element.at, element.instance};
      inner.at.insert(inner.at.begin() + axisOf(*op), any);
      return inner;
    };
    return areOneNumber(facts, along(x), along(y), depth + 1);
  }
  if (!ir::isElementwise(a->kind()) || !haveEqualAttrs(*a, *b))
    return false;
  for (unsigned i = 0; i < a->numOperands(); ++i)
    if (!areOneNumber(facts, operand(x, i), operand(y, i), depth + 1))
      return false;
  return true;
}

bool Scene::areOneNumber(const Facts &facts, const Element &x, const Element &y) {
  Facts known = facts;
  return areOneNumber(known, x, y, 0);
}

} // namespace dtile::protocol::prove
