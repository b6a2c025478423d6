// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Follows views and signals to their parameters.
#include "ir/analysis/communication.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallPtrSet.h"

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

/// Finds the puts behind the tokens of a notify, all of which must go to one rank. Which of them
/// are made may depend on conditions, as where a rank keeps what it would send to itself.
struct PutsBehind {
  const Op &selection;
  llvm::SmallVector<Op *, 2> puts;
  /// Looked at; the loops among what gives them, all of which are in front of the notify.
  llvm::SmallPtrSet<const Value *, 8> seen;
  llvm::SmallPtrSet<const Op *, 2> loops;

  /// False where there is anything else behind the token.
  bool add(Value *token) {
    if (token->type().isAcquire() || !seen.insert(token).second)
      return true;
    Op *op = token->definingOp();
    if (!op) {
      const Op *loop = token->argumentOf()->parentOp();
      return loops.contains(loop) && addCarried(*loop, token->index() - 1);
    }
    switch (op->kind()) {
    case OpKind::TokenDone:
      return true;
    case OpKind::TokenJoin:
      return llvm::all_of(op->operands(), [&](Value *part) { return add(part); });
    case OpKind::If:
      return addYielded(*op, 0, token->index()) && addYielded(*op, 1, token->index());
    case OpKind::For:
      loops.insert(op);
      return addCarried(*op, token->index());
    default:
      break;
    }
    const bool isTold = op->is(OpKind::Put) && goesThere(*op, selection);
    if (isTold)
      puts.push_back(op);
    return isTold;
  }
  bool addCarried(const Op &loop, unsigned number) {
    return add(loop.operand(3 + number)) && addYielded(loop, 0, number);
  }
  bool addYielded(const Op &op, unsigned region, unsigned number) {
    return add(op.body(region).terminator()->operand(number));
  }
};

} // namespace

llvm::SmallVector<Op *, 2> putsToldBy(const Op &notify) {
  Value *cells =
      notify.is(OpKind::Notify) || notify.is(OpKind::PutSignal) ? cellsOf(notify) : nullptr;
  const Op *selection = cells && cells->type().rank() == 0 ? rankSelectionOf(cells) : nullptr;
  if (!selection)
    return {};
  if (notify.is(OpKind::PutSignal)) {
    if (goesThere(notify, *selection))
      return {const_cast<Op *>(&notify)};
    return {};
  }
  PutsBehind behind{*selection, {}, {}, {}};
  if (!llvm::all_of(notify.operands().drop_front(),
                    [&](Value *token) { return behind.add(token); }))
    return {};
  return behind.puts;
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

bool isLoopOfEpilogue(const Op &op) {
  if (!op.is(OpKind::For) || op.numResults() > 0)
    return false;
  bool acts = false, isAlone = true;
  for (const Op &inner : op.body().ops()) {
    const bool computes = inner.isPure() || inner.is(OpKind::SigSlice) || inner.is(OpKind::Yield);
    acts |= inner.get(attr::epilogue);
    isAlone &= inner.numRegions() == 0 && (inner.get(attr::epilogue) || computes);
  }
  return acts && isAlone;
}

Op *tileStoreOfEpilogue(Op &op) {
  if (op.get(attr::epilogue))
    return op.numOperands() > 0 && op.operand(0)->type().isTile() ? &op : nullptr;
  if (isLoopOfEpilogue(op))
    for (Op &inner : op.body().ops())
      if (Op *store = tileStoreOfEpilogue(inner))
        return store;
  return nullptr;
}

} // namespace dtile::ir
