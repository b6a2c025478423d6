// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Follows views and signals to their parameters.
#include "ir/analysis/communication.h"

#include "llvm/ADT/STLExtras.h"

namespace dtile::ir {

namespace {

void addObjects(const Value *viewOrSignal, llvm::SmallVectorImpl<Op *> &objects) {
  Op *op = viewOrSignal->definingOp();
  while (op && !op->is(OpKind::Param) && !op->is(OpKind::SignalParam)) {
    if (op->is(OpKind::ViewSelect)) {
      addObjects(op->operand(1), objects);
      return addObjects(op->operand(2), objects);
    }
    const bool isStep = op->is(OpKind::ViewSlice) || op->is(OpKind::ViewTile) ||
                        op->is(OpKind::ViewAt) || op->is(OpKind::ViewReshape) ||
                        op->is(OpKind::SigSlice) || op->is(OpKind::SigAt);
    op = isStep ? op->operand(0)->definingOp() : nullptr;
  }
  if (!llvm::is_contained(objects, op))
    objects.push_back(op);
}

} // namespace

llvm::SmallVector<Op *, 2> objectsOf(const Value *viewOrSignal) {
  llvm::SmallVector<Op *, 2> objects;
  addObjects(viewOrSignal, objects);
  return objects;
}

Op *objectOf(Value *viewOrSignal) {
  const auto objects = objectsOf(viewOrSignal);
  return objects.size() == 1 ? objects.front() : nullptr;
}

std::string outsideAxisText(const Op &rankSelection, size_t axis, llvm::StringRef coordinate,
                            llvm::StringRef size) {
  const Op *object = objectOf(rankSelection.operand(0));
  std::string text = ("coordinate " + coordinate).str();
  if (object)
    text += (" of `" + object->get(attr::name) + "`").str();
  text += " is outside of axis `" + rankSelection.get(attr::axes)[axis] + "`";
  return (text + ", whose size is " + size).str();
}

bool isReadOfInput(const Op &op) {
  if (!op.is(OpKind::Load) && !op.is(OpKind::Gather))
    return false;
  const Op *object = objectOf(op.operand(0));
  return object && object->is(OpKind::Param) && object->get(attr::mode) == ParamMode::In &&
         llvm::none_of(op.operands(), [](const Value *v) { return v->type().isToken(); });
}

bool isLoadOfInput(const Op &op) { return op.is(OpKind::Load) && isReadOfInput(op); }

Op *rankSelectionOf(Value *viewOrSignal) {
  Op *op = viewOrSignal->definingOp();
  // Both of two that are chosen from are this rank's.
  while (op && op->numOperands() != 0 && !op->is(OpKind::ViewSelect)) {
    if (op->is(OpKind::ViewAt) || op->is(OpKind::SigAt))
      return op;
    op = op->operand(0)->definingOp();
  }
  return nullptr;
}

bool mayAlias(Value *a, Value *b) {
  const auto objectsA = objectsOf(a), objectsB = objectsOf(b);
  return llvm::any_of(objectsA, [&](Op *x) {
    return !x || llvm::any_of(objectsB, [&](Op *y) { return !y || x == y; });
  });
}

Value *writtenView(const Op &op) {
  switch (op.kind()) {
  case OpKind::Store:
  case OpKind::Scatter:
  case OpKind::Put:
  case OpKind::PutSignal:
  case OpKind::Get:
  case OpKind::ReduceAdd:
  case OpKind::ReduceAddScatter:
    return op.operand(1);
  case OpKind::Atomic:
  case OpKind::AtomicScatter:
    return op.operand(0);
  default:
    return nullptr;
  }
}

llvm::SmallVector<Value *, 2> readViews(const Op &op) {
  switch (op.kind()) {
  case OpKind::Load:
  case OpKind::Gather:
  case OpKind::Get:
  case OpKind::Atomic:
  case OpKind::AtomicScatter:
    return {op.operand(0)};
  case OpKind::Put:
  case OpKind::PutSignal:
    if (op.operand(0)->type().isView())
      return {op.operand(0)};
    return {};
  default:
    return {};
  }
}

Value *cellsOf(const Op &op) {
  if (op.is(OpKind::Notify) || op.is(OpKind::Wait) || op.is(OpKind::Poll))
    return op.operand(0);
  return op.is(OpKind::PutSignal) ? op.operand(2) : nullptr;
}

namespace {

/// Whether a put of what this rank has goes to the rank that is selected.
bool goesThere(const Op &put, const Op &selection) {
  const Op *there = rankSelectionOf(put.operand(1));
  return !put.operand(0)->type().isRemote() && there && there->operand(1) == selection.operand(1);
}

/// Adds the puts behind a token of a block; false where there is anything else. Which of them are
/// made may depend on conditions, as where a rank keeps what it would send to itself.
bool addPuts(Value *token, const Block &block, const Op &selection,
             llvm::SmallVectorImpl<Op *> &puts) {
  if (token->type().isAcquire())
    return true;
  Op *op = token->definingOp();
  if (!op || op->parentBlock() != &block)
    return false;
  if (op->is(OpKind::TokenDone))
    return true;
  if (!token->hasOneUse())
    return false;
  if (op->is(OpKind::TokenJoin))
    return llvm::all_of(op->operands(),
                        [&](Value *part) { return addPuts(part, block, selection, puts); });
  if (op->is(OpKind::If)) {
    const auto number = size_t(llvm::find(op->results(), token) - op->results().begin());
    for (unsigned i = 0; i < op->numRegions(); ++i) {
      const Block &branch = op->body(i);
      if (!addPuts(branch.terminator()->operand(unsigned(number)), branch, selection, puts))
        return false;
    }
    return true;
  }
  const bool isTold = op->is(OpKind::Put) && goesThere(*op, selection);
  if (isTold)
    puts.push_back(op);
  return isTold;
}

} // namespace

llvm::SmallVector<Op *, 2> putsToldBy(const Op &notify) {
  llvm::SmallVector<Op *, 2> puts;
  Value *cells =
      notify.is(OpKind::Notify) || notify.is(OpKind::PutSignal) ? cellsOf(notify) : nullptr;
  const Op *selection = cells && cells->type().rank() == 0 ? rankSelectionOf(cells) : nullptr;
  if (!selection)
    return puts;
  if (notify.is(OpKind::PutSignal)) {
    if (goesThere(notify, *selection))
      puts.push_back(const_cast<Op *>(&notify));
    return puts;
  }
  if (!llvm::all_of(notify.operands().drop_front(), [&](Value *token) {
        return addPuts(token, *notify.parentBlock(), *selection, puts);
      }))
    puts.clear();
  return puts;
}

Op *notifyToldOf(const Op &put) {
  if (put.is(OpKind::PutSignal))
    return putsToldBy(put).empty() ? nullptr : const_cast<Op *>(&put);
  const Value *token = put.numResults() == 1 ? put.result() : nullptr;
  while (token && token->hasOneUse()) {
    const Use &use = token->uses().front();
    Op *user = use.user;
    if (user->is(OpKind::Notify))
      return llvm::is_contained(putsToldBy(*user), &put) ? user : nullptr;
    Op *outer = user->is(OpKind::Yield) ? user->parentOp() : user;
    if (!outer->is(user->is(OpKind::Yield) ? OpKind::If : OpKind::TokenJoin))
      return nullptr;
    token = outer->result(user->is(OpKind::Yield) ? use.index : 0);
  }
  return nullptr;
}

bool canBeLeftOut(const Op &op) {
  return op.numRegions() == 0 && op.hasEffect(Write | RemoteWrite | Signal) &&
         llvm::all_of(op.results(), [](const Value *x) { return x->type().isToken(); });
}

bool canGoOnAfterFailures(const Op &space) {
  bool can = true;
  walk(const_cast<Op &>(space), [&](Op &op) {
    // The rank may be none: that is what has failed.
    const bool readsAtPeer =
        op.hasEffect(RemoteRead) ||
        llvm::any_of(readViews(op), [](const Value *view) { return view->type().isRemote(); });
    // What a `while` looks for may never come.
    const bool isPlain = !op.hasEffect(Write | RemoteWrite | Signal | Order) && !readsAtPeer &&
                         !op.is(OpKind::While);
    can &= isPlain || op.get(attr::epilogue) || (canBeLeftOut(op) && !readsAtPeer) ||
           op.is(OpKind::Await);
  });
  return can;
}

} // namespace dtile::ir
