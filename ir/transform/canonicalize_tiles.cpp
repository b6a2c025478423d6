// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// canonicalize, the rules for tiles, views and signal cells.
#include "ir/transform/canonicalizer.h"

#include "llvm/ADT/STLExtras.h"

namespace dtile::passes {

using namespace dtile::ir;

bool Canonicalizer::simplifyTrans(Op &op) {
  Value *x = op.operand(0);
  const llvm::ArrayRef<int64_t> perm = op.get(attr::perm);
  bool isIdentity = true;
  for (unsigned i = 0; i < perm.size(); ++i)
    isIdentity = isIdentity && perm[i] == int64_t(i);
  if (isIdentity)
    return replace(op, x);
  Op *inner = definedBy(x, OpKind::Trans);
  if (!inner)
    return false;
  std::vector<int64_t> both;
  for (const int64_t dim : perm)
    both.push_back(inner->get(attr::perm)[dim]);
  setOperand(op, 0, inner->operand(0));
  op.set(attr::perm, both);
  return true;
}

bool Canonicalizer::simplifyReshape(Op &op) {
  Value *x = op.operand(0);
  if (x->type() == op.result()->type())
    return replace(op, x);
  if (Op *inner = definedBy(x, OpKind::Reshape)) {
    setOperand(op, 0, inner->operand(0));
    return true;
  }
  return false;
}

bool Canonicalizer::simplifyBroadcast(Op &op) {
  Value *x = op.operand(0);
  if (x->type() == op.result()->type())
    return replace(op, x);
  if (Op *inner = definedBy(x, OpKind::Broadcast)) {
    setOperand(op, 0, inner->operand(0));
    return true;
  }
  return false;
}

/// A slice of everything is the view itself.
bool Canonicalizer::simplifySlice(Op &op) {
  const llvm::StringRef dims = op.get(attr::dims);
  return dims.find_first_not_of('a') == llvm::StringRef::npos && replace(op, op.operand(0));
}

/// Of two views the one that is meant, where that is known.
bool Canonicalizer::simplifyViewSelect(Op &op) {
  if (op.operand(1) == op.operand(2))
    return replace(op, op.operand(1));
  const std::optional<Constant> condition = constantIn(op.operand(0));
  return condition && replace(op, op.operand(std::get<bool>(*condition) ? 1 : 2));
}

/// Sizes that are known from where the view or signal comes from.
bool Canonicalizer::simplifyDim(Op &op) {
  const int64_t dim = op.get(attr::dim);
  Op *from = op.operand(0)->definingOp();
  if (!from)
    return false;
  switch (from->kind()) {
  case OpKind::Param:
  case OpKind::SignalParam:
    return replace(op, from->operand(unsigned(dim)));
  case OpKind::ViewReshape:
    return replace(op, from->operand(unsigned(dim) + 1));
  case OpKind::ViewAt:
  case OpKind::SigAt:
    setOperand(op, 0, from->operand(0));
    return true;
  case OpKind::ViewSlice:
  case OpKind::ViewTile:
  case OpKind::SigSlice: {
    // Which dimension of the operand this one is.
    const llvm::StringRef dims = from->get(attr::dims);
    int64_t kept = -1;
    size_t source = 0, windows = 0;
    for (; source < dims.size(); ++source) {
      kept += dims[source] != 'i';
      if (kept == dim)
        break;
      windows += dims[source] == 'r';
    }
    if (dims[source] == 'a') {
      op.set(attr::dim, int64_t(source));
      setOperand(op, 0, from->operand(0));
      return true;
    }
    if (!from->is(OpKind::ViewTile))
      return false;
    return replace(op, makeConst(op, op.result()->type(), from->get(attr::lens)[windows]));
  }
  default:
    return false;
  }
}

// A product that is added to something else accumulates into that, as where it is written in the
// sum itself.
bool Canonicalizer::simplifySum(Op &op) {
  for (const unsigned i : {0u, 1u}) {
    Op *dot = definedBy(op.operand(i), OpKind::Dot);
    Op *sum = dot ? definedBy(dot->operand(2), OpKind::Splat) : nullptr;
    const std::optional<Constant> start = sum ? constantIn(sum->operand(0)) : std::nullopt;
    if (!start || !isConstant(*start, 0) || !dot->result()->hasOneUse() ||
        dot->parentBlock() != op.parentBlock())
      continue;
    dot->moveBefore(&op);
    setOperand(*dot, 2, op.operand(1 - i));
    return replace(op, dot->result());
  }
  return false;
}

bool Canonicalizer::simplifyTiles(Op &op) {
  switch (op.kind()) {
  case OpKind::Trans:
  case OpKind::Reshape:
  case OpKind::Broadcast:
    // However its elements are arranged, they are equal.
    if (Op *splat = definedBy(op.operand(0), OpKind::Splat))
      return replace(op, make(op, OpKind::Splat, {splat->operand(0)}, op.result()->type()));
    break;
  default:
    break;
  }
  switch (op.kind()) {
  case OpKind::Add:
    return simplifySum(op);
  case OpKind::Trans:
    return simplifyTrans(op);
  case OpKind::Reshape:
    return simplifyReshape(op);
  case OpKind::Broadcast:
    return simplifyBroadcast(op);
  case OpKind::ViewSlice:
  case OpKind::SigSlice:
    return simplifySlice(op);
  case OpKind::ViewSelect:
    return simplifyViewSelect(op);
  case OpKind::ViewDim:
  case OpKind::SigDim:
    return simplifyDim(op);
  default:
    return false;
  }
}

} // namespace dtile::passes
