// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which positions of a view exist, and where in its parameter they lie: what a copy moves is what
// exists in both of its views, position by position. Exact, where it is known; a region is only
// where something may be.
#include "ir/protocol/prove/model.h"

#include "llvm/ADT/STLExtras.h"

namespace dtile::protocol::prove {

namespace {

/// All of a parameter, or of what it is reshaped to.
ViewShape wholeShape(Op &object, unsigned firstSize, bool isParam, Polynomials &polys,
                     Polynomials::Environment &environment) {
  ViewShape shape;
  for (unsigned d = firstSize; d < object.numOperands(); ++d) {
    ViewShape::Dim dim;
    if (isParam)
      dim.of = d;
    dim.atLeast.push_back(Polynomial(0));
    dim.below.push_back(polys.of(object.operand(d), environment));
    shape.dims.push_back(std::move(dim));
  }
  return shape;
}

/// The view's positions, counted from `first` of the dimension.
void moveTo(ViewShape::Dim &dim, const Polynomial &first) {
  dim.origin = dim.origin + first;
  for (llvm::SmallVectorImpl<Polynomial> *bounds : {&dim.atLeast, &dim.below})
    for (Polynomial &bound : *bounds)
      bound = bound - first;
}

} // namespace

std::optional<ViewShape> Scene::shape(Value *view, Instance &instance, const Facts &facts) {
  Op *op = view->definingOp();
  if (!op)
    return std::nullopt;
  auto &environment = instance.environment;
  switch (op->kind()) {
  case OpKind::Param:
    return wholeShape(*op, 0, true, polys, environment);
  case OpKind::ViewAt:
    return shape(op->operand(0), instance, facts);
  case OpKind::ViewReshape: {
    // That there are as many elements is shown where it is done.
    const auto from = shape(op->operand(0), instance, facts);
    if (!from)
      return std::nullopt;
    ViewShape to = wholeShape(*op, 1, false, polys, environment);
    to.inside = from->inside;
    return to;
  }
  case OpKind::ViewSlice:
  case OpKind::ViewTile:
    break;
  default:
    return std::nullopt;
  }
  const auto from = shape(op->operand(0), instance, facts);
  if (!from)
    return std::nullopt;
  ViewShape to;
  to.inside = from->inside;
  const bool isWindow = op->is(OpKind::ViewTile);
  const Polynomial one(1);
  unsigned next = 1, window = 0;
  for (const auto &[letter, whole] : llvm::zip_equal(op->get(ir::attr::dims), from->dims)) {
    ViewShape::Dim dim = whole;
    if (letter == 'a') {
      to.dims.push_back(std::move(dim));
      continue;
    }
    Polynomial first = polys.of(op->operand(next++), environment);
    if (letter == 'i') {
      for (const Polynomial &low : dim.atLeast)
        to.inside.emplace_back(op, first - low);
      for (const Polynomial &high : dim.below)
        to.inside.emplace_back(op, high - first - one);
      continue;
    }
    const Polynomial end = polys.of(op->operand(next++), environment);
    if (!isWindow) {
      // A range begins where something exists, and counts from there.
      for (const Polynomial &low : dim.atLeast)
        if (!refuter.implies(facts, first - low))
          first = polys.minMax(Polynomials::AtomKind::Max, first, low);
      dim.atLeast.clear();
    }
    moveTo(dim, first);
    dim.atLeast.push_back(Polynomial(0));
    dim.below.push_back(end - first);
    if (isWindow)
      dim.below.push_back(Polynomial(op->get(ir::attr::lens)[window++]));
    to.dims.push_back(std::move(dim));
  }
  return to;
}

std::optional<Position> Scene::sizes(Value *view, Instance &instance) {
  Op *op = view->definingOp();
  if (!op)
    return std::nullopt;
  const auto number = [&](unsigned i) { return polys.of(op->operand(i), instance.environment); };
  const bool isWindow = op->is(OpKind::ViewTile);
  if (op->is(OpKind::Param) || op->is(OpKind::ViewReshape)) {
    Position whole;
    for (unsigned i = op->is(OpKind::Param) ? 0 : 1; i < op->numOperands(); ++i)
      whole.push_back(number(i));
    return whole;
  }
  if (!isWindow && !op->is(OpKind::ViewAt) && !op->is(OpKind::ViewSlice))
    return std::nullopt;
  const auto from = sizes(op->operand(0), instance);
  if (!from || op->is(OpKind::ViewAt))
    return from;
  using Kind = Polynomials::AtomKind;
  Position to;
  unsigned next = 1, window = 0;
  for (const auto &[letter, whole] : llvm::zip_equal(op->get(ir::attr::dims), *from)) {
    if (letter == 'a')
      to.push_back(whole);
    if (letter == 'r' && isWindow)
      to.push_back(Polynomial(op->get(ir::attr::lens)[window++]));
    if (letter == 'r' && !isWindow) {
      // A range is cut to what there is.
      const Polynomial first = polys.minMax(Kind::Max, number(next), Polynomial(0));
      const Polynomial end = polys.minMax(Kind::Min, number(next + 1), whole);
      to.push_back(polys.minMax(Kind::Max, end - first, Polynomial(0)));
    }
    next += letter == 'a' ? 0 : letter == 'i' ? 1 : 2;
  }
  return to;
}

Formula existsAt(const ViewShape &shape, llvm::ArrayRef<Polynomial> position) {
  Formula all;
  for (const auto &[op, condition] : shape.inside)
    all.parts.push_back(Formula::atLeastZero(condition));
  for (const auto &[dim, at] : llvm::zip_equal(shape.dims, position)) {
    for (const Polynomial &low : dim.atLeast)
      all.parts.push_back(Formula::atLeastZero(at - low));
    for (const Polynomial &high : dim.below)
      all.parts.push_back(Formula::atLeastZero(high - at - Polynomial(1)));
  }
  return all;
}

std::optional<llvm::SmallVector<Polynomial, 4>> positionIn(const ViewShape &shape,
                                                           llvm::ArrayRef<Polynomial> point) {
  llvm::SmallVector<Polynomial, 4> position;
  for (const ViewShape::Dim &dim : shape.dims) {
    if (!dim.of)
      return std::nullopt;
    position.push_back(point[*dim.of] - dim.origin);
  }
  return position;
}

} // namespace dtile::protocol::prove
