// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Mistakes are made on IR, so that they are the same for every spelling of a program.
#include "checker_mutants.h"

#include "frontend/base/check.h"
#include "ir/core/tile_order.h"
#include "ir/interpret/control_slice.h"
#include "llvm/ADT/STLExtras.h"

namespace dtile::bench {

using ir::Op;
using ir::OpKind;
using ir::Value;
using Kind = Mutation::Kind;

const char *mutationName(Kind kind) {
  switch (kind) {
  case Kind::DropNotify:
    return "drop a notify";
  case Kind::DropAfter:
    return "drop an after";
  case Kind::DropAwait:
    return "drop an await";
  case Kind::DropOrder:
    return "drop a barrier, quiet or fence";
  case Kind::OtherCell:
    return "another cell";
  case Kind::OtherPeer:
    return "another peer";
  case Kind::OtherIndex:
    return "another slot of memory";
  case Kind::LateFirst:
    return "a loop or space begins at 1";
  case Kind::ShortSlice:
    return "one cell fewer in a slice";
  case Kind::NotZeroed:
    return "scratch is not zeroed";
  case Kind::SwapOrder:
    return "two operations in the other order";
  case Kind::OtherCount:
    return "another count";
  case Kind::SmallerBuffer:
    return "a buffer or signal is one shorter";
  }
  DTILE_UNREACHABLE("not a mutation");
}

namespace {

bool isToken(const Value *value) { return value->type().isToken() || value->type().isAcquire(); }

bool isZero(const Value *value) {
  const Op *op = value->definingOp();
  if (!op || !op->is(OpKind::Const))
    return false;
  const auto *number = std::get_if<int64_t>(op->attr("value"));
  return number && *number == 0;
}

void addSliceMutations(Op &op, unsigned number, std::vector<Mutation> &all) {
  const Kind kind = op.is(OpKind::SigSlice) ? Kind::OtherCell : Kind::OtherIndex;
  unsigned operand = 1;
  for (const char letter : op.strAttr("dims")) {
    if (letter == 'i')
      all.push_back({kind, number, operand});
    if (letter == 'r' && op.is(OpKind::SigSlice))
      all.push_back({Kind::ShortSlice, number, operand + 1});
    operand += letter == 'i' ? 1 : letter == 'r' ? 2 : 0;
  }
}

/// The next operation of the block, or null.
Op *following(Op &op) {
  const auto next = std::next(op.getIterator());
  return next == op.parentBlock()->ops().end() ? nullptr : &*next;
}

/// The next operation behind one in its block that others can see, and that does not use what it
/// gives; null where there is none.
Op *nextVisible(Op &op) {
  for (Op *next = following(op); next; next = following(*next)) {
    if (llvm::any_of(next->operands(), [&](const Value *v) { return v->definingOp() == &op; }))
      return nullptr;
    if (!next->isPure() && next->numRegions() == 0 && !next->is(OpKind::SigSlice))
      return next->is(OpKind::Yield) ? nullptr : next;
  }
  return nullptr;
}

bool isCommunication(const Op &op) {
  return op.hasEffect(ir::RemoteRead | ir::RemoteWrite | ir::Signal | ir::Wait | ir::Order);
}

/// Whether a dimension of a signal or a scratch object is one of slots: single positions of it are
/// asked for. (That two regions are of one size is settled before there is IR.)
bool isCutByPosition(Op &kernel, const Op &object, unsigned dim) {
  if (object.is(OpKind::SignalParam))
    return true;
  if (!object.is(OpKind::Param) || object.strAttr("mode") != "scratch")
    return false;
  bool isCut = false;
  walk(kernel, [&](Op &op) {
    if (!op.is(OpKind::ViewSlice) && !op.is(OpKind::ViewTile))
      return;
    const Value *view = op.operand(0);
    const bool isWhole = view->type().rank() == object.numOperands();
    isCut |= isWhole && interpret::rootParam(view) == &object && op.strAttr("dims")[dim] == 'i';
  });
  return isCut;
}

} // namespace

std::vector<Mutation> mutationsOf(Op &kernel) {
  std::vector<Mutation> all;
  unsigned number = 0;
  walk(kernel, [&](Op &op) {
    const unsigned n = number++;
    if (isCommunication(op) && nextVisible(op))
      all.push_back({Kind::SwapOrder, n, 0});
    if (op.is(OpKind::Wait))
      all.push_back({Kind::OtherCount, n, 0});
    for (unsigned i = 0; i < op.numOperands(); ++i)
      if (isCutByPosition(kernel, op, i))
        all.push_back({Kind::SmallerBuffer, n, i});
    switch (op.kind()) {
    case OpKind::Notify:
      all.push_back({Kind::DropNotify, n, 0});
      break;
    case OpKind::Await:
      all.push_back({Kind::DropAwait, n, 0});
      return;
    case OpKind::Barrier:
    case OpKind::Quiet:
    case OpKind::Fence:
      all.push_back({Kind::DropOrder, n, 0});
      return;
    case OpKind::ViewSlice:
    case OpKind::ViewTile:
    case OpKind::SigSlice:
      return addSliceMutations(op, n, all);
    case OpKind::ViewAt:
    case OpKind::SigAt:
      all.push_back({Kind::OtherPeer, n, 1});
      return;
    case OpKind::For:
      if (isZero(op.operand(0)))
        all.push_back({Kind::LateFirst, n, 0});
      return;
    case OpKind::Space:
      for (unsigned d = 0; d < ir::spaceDims(op); ++d)
        if (isZero(op.operand(3 * d)))
          all.push_back({Kind::LateFirst, n, 3 * d});
      return;
    case OpKind::Param:
      if (op.boolAttrOr("zero", false))
        all.push_back({Kind::NotZeroed, n, 0});
      return;
    default:
      break;
    }
    const bool hasTokens =
        op.hasEffect(ir::Read | ir::Write | ir::RemoteRead | ir::RemoteWrite | ir::Signal);
    for (unsigned i = 0; hasTokens && i < op.numOperands(); ++i)
      if (isToken(op.operand(i)))
        all.push_back({Kind::DropAfter, n, i});
  });
  return all;
}

namespace {

/// operand := (operand + 1) % size
void turn(ir::Builder &builder, Op &op, unsigned operand, Value *size) {
  Value *next = builder.add(op.operand(operand), builder.constIndex(1));
  op.setOperand(operand, builder.rem(next, size));
}

/// The dimension of a slice that operand number `operand` cuts.
int64_t dimOf(const Op &slice, unsigned operand) {
  unsigned next = 1;
  int64_t dim = 0;
  for (const char letter : slice.strAttr("dims")) {
    const unsigned count = letter == 'i' ? 1 : letter == 'r' ? 2 : 0;
    if (operand < next + count)
      return dim;
    next += count;
    ++dim;
  }
  DTILE_UNREACHABLE("an operand that cuts no dimension");
}

void apply(Op &op, const Mutation &mutation, ir::Module &module) {
  ir::Builder builder(module);
  builder.setInsertionPoint(&op);
  switch (mutation.kind) {
  case Kind::DropNotify:
  case Kind::DropAwait:
  case Kind::DropOrder:
    return op.erase();
  case Kind::DropAfter:
    if (op.hasAttr("ntok"))
      op.setAttr("ntok", op.intAttr("ntok") - 1);
    return op.removeOperand(mutation.operand);
  case Kind::OtherCell:
  case Kind::OtherIndex: {
    const OpKind dim = op.is(OpKind::SigSlice) ? OpKind::SigDim : OpKind::ViewDim;
    Value *size =
        builder.value(dim, {op.operand(0)}, {}, {{"dim", ir::Attr(dimOf(op, mutation.operand))}});
    return turn(builder, op, mutation.operand, size);
  }
  case Kind::OtherPeer:
    return turn(builder, op, mutation.operand, builder.value(OpKind::NumRanks, {}));
  case Kind::LateFirst:
    return op.setOperand(mutation.operand, builder.constIndex(1));
  case Kind::ShortSlice:
    return op.setOperand(mutation.operand,
                         builder.sub(op.operand(mutation.operand), builder.constIndex(1)));
  case Kind::NotZeroed:
    return op.removeAttr("zero");
  case Kind::SwapOrder: {
    // What the other one is computed from goes with it.
    Op *other = nextVisible(op);
    for (Op *between = following(op); between != other;) {
      Op *next = following(*between);
      if (!llvm::is_contained(between->operands(), op.numResults() ? op.result() : nullptr))
        between->moveBefore(&op);
      between = next;
    }
    return other->moveBefore(&op);
  }
  case Kind::OtherCount:
    if (op.numOperands() > 1)
      return op.setOperand(1, builder.add(op.operand(1), builder.constIndex(1)));
    return op.addOperand(builder.constIndex(1));
  case Kind::SmallerBuffer:
    return op.setOperand(mutation.operand,
                         builder.sub(op.operand(mutation.operand), builder.constIndex(1)));
  }
}

} // namespace

const Op *mutate(Op &kernel, const Mutation &mutation) {
  unsigned number = 0;
  Op *found = nullptr;
  walk(kernel, [&](Op &op) {
    if (number++ == mutation.op)
      found = &op;
  });
  DTILE_CHECK(found, "a mutation of an operation that there is not");
  apply(*found, mutation, kernel.parentBlock()->module());
  return found;
}

} // namespace dtile::bench
