// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Compares limits with sizes, and follows sums to where they are stored.
#include "ir/schedule/pipeline/operand_limits.h"

#include "ir/core/op_classes.h"

namespace dtile::passes {

using namespace dtile::ir;

std::array<Value *, 2> carriedAs(const Use &use) {
  const bool isNext = use.user->is(OpKind::Yield);
  Op &loop = isNext ? *use.user->parentOp() : *use.user;
  const unsigned number = isNext ? use.index : use.index - 3;
  return {loop.body().argument(number + 1), loop.result(number)};
}

bool OperandLimits::isExact(const TensorBox &box, unsigned dim) {
  const auto &[firsts, length, limit, viewDim] = box.dims[dim];
  if (!limit)
    return true;
  const Polynomial end = polynomial(limit), size = polynomial(box.object->operand(dim));
  if (end == size)
    return true;
  Polynomial room = end;
  for (Value *first : firsts)
    room = room - polynomial(first);
  if (room == Polynomial(length))
    return true;
  const Op *loop =
      firsts.size() == 1 && firsts[0]->argumentOf() ? firsts[0]->argumentOf()->parentOp() : nullptr;
  if (!loop || !loop->is(OpKind::For) || firsts[0] != loop->body().argument(0) ||
      polynomial(loop->operand(1)) != end || polynomial(loop->operand(2)) != Polynomial(length))
    return false;
  const auto isMultiple = [&, length = length](const Polynomial &p) {
    return llvm::all_of(p.terms(), [&](const auto &term) { return term.second % length == 0; });
  };
  const Polynomial first = polynomial(loop->operand(0));
  if (isMultiple(end - first))
    return true;
  const auto least = end.asAtom();
  if (!least || polys_.atom(*least).kind != Polynomials::AtomKind::Min || first != Polynomial(0))
    return false;
  const Polynomial &lhs = polys_.atom(*least).lhs, &rhs = polys_.atom(*least).rhs;
  return (lhs == size && isMultiple(rhs)) || (rhs == size && isMultiple(lhs));
}

bool OperandLimits::isUnseen(const TensorBox &box, unsigned dim, Value &product,
                             unsigned productDim) {
  const TensorBox::Dim &its = box.dims[dim];
  if (its.firsts.size() != 1)
    return false;
  const Polynomial room = polynomial(its.limit) - polynomial(its.firsts[0]);
  Tiles seen;
  return staysApart(&product, productDim, room, seen);
}

bool OperandLimits::staysApart(Value *tile, unsigned dim, const Polynomial &room, Tiles &seen) {
  if (!seen.insert(tile).second)
    return true;
  for (const Use &use : tile->uses()) {
    Op &user = *use.user;
    const bool isCarried =
        user.is(OpKind::For) || (user.is(OpKind::Yield) && user.parentOp()->is(OpKind::For));
    if (isCarried) {
      for (Value *next : carriedAs(use))
        if (!staysApart(next, dim, room, seen))
          return false;
      continue;
    }
    const bool isStore =
        user.is(OpKind::Store) || user.is(OpKind::Put) || user.is(OpKind::ReduceAdd);
    if (isStore && use.index == 0) {
      if (!isStoredWithin(user.operand(1), dim, room))
        return false;
      continue;
    }
    if (!isElementwise(user.kind()) || !staysApart(user.result(), dim, room, seen))
      return false;
  }
  return true;
}

bool OperandLimits::isStoredWithin(Value *view, unsigned dim, const Polynomial &room) {
  Op *op = view->definingOp();
  if (!op || !op->is(OpKind::ViewTile))
    return false;
  // The window's operands of the view's dimension number `dim`.
  unsigned operand = 1;
  unsigned position = 0;
  for (char letter : op->get(attr::dims)) {
    if (letter == 'r' && position == dim)
      return polynomial(op->operand(operand + 1)) - polynomial(op->operand(operand)) == room;
    operand += letter == 'r' ? 2 : letter == 'i' ? 1 : 0;
    position += letter != 'i';
  }
  return false;
}

} // namespace dtile::passes
