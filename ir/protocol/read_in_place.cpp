// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// read-in-place: what a rank would copy from its input to its own part of gathered memory is read
// where it is.
//
// Expects: inlined kernels with derived counts.
// Produces: reads of a scratch object that may be of the rank's own part, where that part is a copy
//   of an input (ir/protocol/prove/regions/own_copies.h), read the input instead: `view.select`
//   chooses. Transfers to that part are left out; where a transfer goes to each rank in turn, it
//   is given nothing of a window, or stands in an `if`.
// Why: a hop of an all-gather, or of sending parts of a sum to their owners, costs memory traffic
//   and time of processors also where the owner is the rank itself.
// Leaves alone: notifies and waits, so that counts and order are what they were; objects of which
//   no transfer could be left out.
#include "ir/analysis/communication.h"
#include "ir/protocol/prove/regions/own_copies.h"
#include "ir/transform/pass.h"

#include "llvm/ADT/STLExtras.h"

namespace dtile::passes {

using namespace dtile::ir;
using protocol::prove::OwnCopies;
using protocol::prove::OwnCopy;

namespace {

/// Rewrites one kernel.
class InPlaceReader {
public:
  InPlaceReader(Op &kernel, PassContext &context)
      : kernel_(kernel), context_(context), copies_(kernel), builder_(kernel.body().module()) {}
  bool run();

private:
  void computePositions(const OwnCopy &copy);
  [[nodiscard]] Value *sourcePart(const OwnCopy &copy);
  [[nodiscard]] Value *isOwn(Value *number, const Polynomial &own);
  void redirect(const OwnCopy &copy, const OwnCopy::Read &read);
  [[nodiscard]] Value *emptied(const Op &window, Value *condition);
  void leaveOut(const Op &object, const OwnCopy::Put &put);

  Op &kernel_;
  PassContext &context_;
  OwnCopies copies_;
  Builder builder_;
  /// For each dimension of the source: its position, or its first and its end; null for all of it.
  llvm::SmallVector<std::pair<Value *, Value *>, 4> positions_;
};

std::string quoted(const Op &param) { return "`" + param.get(attr::name).str() + "`"; }

/// Directly in the kernel, once for all reads.
void InPlaceReader::computePositions(const OwnCopy &copy) {
  positions_.clear();
  Op *space = nullptr;
  for (Op &op : kernel_.body().ops())
    if (op.is(OpKind::Space) && !space)
      space = &op;
  builder_.setInsertionPoint(space);
  unsigned dim = 0;
  for (const OwnCopy::Dim &each : copy.dims) {
    if (each.isPosition) {
      positions_.push_back({copies_.emit(builder_, each.at), nullptr});
      continue;
    }
    dim += dim == copy.ranks;
    Value *size = copy.object->operand(dim++);
    if (each.at.isZero() && !each.isLonger) {
      positions_.push_back({nullptr, nullptr});
      continue;
    }
    Value *first = copies_.emit(builder_, each.at);
    positions_.push_back({first, builder_.add(first, size)});
  }
}

/// The part of the source that the object's own part is a copy of.
Value *InPlaceReader::sourcePart(const OwnCopy &copy) {
  Value *source = copy.source->result();
  llvm::SmallVector<Value *, 6> operands{source};
  std::string letters;
  for (const auto &[dim, position] : llvm::zip_equal(copy.dims, positions_)) {
    letters += dim.isPosition ? 'i' : position.first ? 'r' : 'a';
    for (Value *value : {position.first, position.second})
      if (value)
        operands.push_back(value);
  }
  if (operands.size() == 1)
    return source;
  const Type type = source->type();
  const unsigned rank = letters.size() - llvm::count(letters, 'i');
  return builder_.value(OpKind::ViewSlice, operands,
                        builder_.types().view(type.dtype(), rank, false), {{attr::dims, letters}});
}

/// Whether a number is this rank's own one, of ranks or of places on an axis. Computed where the
/// number is.
Value *InPlaceReader::isOwn(Value *number, const Polynomial &own) {
  if (Op *op = number->definingOp()) {
    builder_.setInsertionPoint(op);
    Value *self = copies_.emit(builder_, own);
    Value *is = builder_.cmp("eq", number, self);
    is->definingOp()->moveAfter(op);
    return is;
  }
  builder_.setInsertionPointToStart(*number->argumentOf());
  return builder_.cmp("eq", number, copies_.emit(builder_, own));
}

void InPlaceReader::redirect(const OwnCopy &copy, const OwnCopy::Read &read) {
  builder_.setLoc(read.op->loc());
  builder_.setInsertionPoint(read.op);
  Value *view = sourcePart(copy);
  ValueMap map;
  for (Op *cut : read.cuts) {
    const bool isFirst = cut == read.cuts.front();
    std::string letters = cut->get(attr::dims).str();
    llvm::SmallVector<Value *, 6> operands(cut->operands());
    operands[0] = view;
    if (isFirst) {
      // Without the rank's number.
      letters.erase(copy.ranks, 1);
      operands.erase(operands.begin() + read.ownerAt);
      if (llvm::all_of(letters, [](char letter) { return letter == 'a'; }))
        continue;
    }
    std::vector<NamedAttr> attrs{{attr::dims, letters}};
    if (cut->is(OpKind::ViewTile))
      attrs.push_back({attr::lens, cut->get(attr::lens).vec()});
    view = builder_.value(cut->kind(), operands, cut->result()->type(), attrs);
  }
  if (!read.isAlways) {
    Value *isHere = isOwn(read.owner(), copy.place);
    builder_.setInsertionPoint(read.op);
    view = builder_.value(OpKind::ViewSelect, {isHere, view, read.op->operand(0)}, view->type(),
                          {{attr::in_place, true}});
  }
  read.op->setOperand(0, view);
  context_.remark(*read.op, "this rank's own part of " + quoted(*copy.object) +
                                " is read in place, from " + quoted(*copy.source));
}

/// The same window, of which nothing is inside where the condition holds.
Value *InPlaceReader::emptied(const Op &window, Value *condition) {
  // The limit of its first range is put where that begins.
  unsigned first = 1;
  for (const char letter : window.get(attr::dims)) {
    if (letter == 'r')
      break;
    first += letter == 'i';
  }
  llvm::SmallVector<Value *, 6> operands(window.operands());
  operands[first + 1] = builder_.value(
      OpKind::Select, {condition, operands[first], operands[first + 1]}, operands[first]->type());
  return builder_.value(
      OpKind::ViewTile, operands, window.result()->type(),
      {{attr::dims, window.get(attr::dims).str()}, {attr::lens, window.get(attr::lens).vec()}});
}

/// What nobody reads is not sent. Nothing is left of a window, so that bodies stay without
/// branches; other views are sent in an `if`.
void InPlaceReader::leaveOut(const Op &object, const OwnCopy::Put &put) {
  Op &op = *put.op;
  context_.remark(op, "nothing is put into this rank's own part of " + quoted(object));
  builder_.setLoc(op.loc());
  builder_.setInsertionPoint(&op);
  const Type token = op.result()->type();
  if (put.isAlways) {
    op.result()->replaceAllUsesWith(builder_.value(OpKind::TokenDone, {}, token));
    op.erase();
    return;
  }
  Value *isHere = isOwn(rankSelectionOf(op.operand(1))->operand(1), copies_.rank());
  builder_.setInsertionPoint(&op);
  if (Op *window = op.operand(0)->definingOp();
      window && window->is(OpKind::ViewTile) && window->get(attr::dims).contains('r')) {
    op.setOperand(0, emptied(*window, isHere));
    op.set(attr::in_place, true);
    return;
  }
  Op *choice = builder_.op(OpKind::If, {isHere}, {token});
  op.result()->replaceAllUsesWith(choice->result());
  builder_.setInsertionPointToEnd(choice->body(0));
  builder_.op(OpKind::Yield, {builder_.value(OpKind::TokenDone, {}, token)});
  op.moveToEnd(choice->body(1));
  builder_.setInsertionPointToEnd(choice->body(1));
  builder_.op(OpKind::Yield, {op.result()});
}

bool InPlaceReader::run() {
  bool changed = false;
  for (Op &param : kernel_.body().ops()) {
    if (!param.is(OpKind::Param))
      continue;
    const std::optional<OwnCopy> copy = copies_.find(param);
    if (!copy) {
      if (!copies_.reason().empty())
        context_.remark(param, "this rank's own part of " + quoted(param) +
                                   " is not read in place: " + copies_.reason());
      continue;
    }
    changed = true;
    computePositions(*copy);
    for (const OwnCopy::Read &read : copy->reads)
      redirect(*copy, read);
    for (const OwnCopy::Put &put : copy->puts)
      leaveOut(param, put);
  }
  return changed;
}

} // namespace

bool readInPlace(Module &module, PassContext &context) {
  bool changed = false;
  for (Op &kernel : module.body().ops())
    if (kernel.is(OpKind::Kernel))
      changed |= InPlaceReader(kernel, context).run();
  return changed;
}

} // namespace dtile::passes
