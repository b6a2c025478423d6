// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The rules of order within a body: dependence, not position.
#include "ir/analysis/ordering.h"

#include "ir/analysis/communication.h"

#include "llvm/ADT/STLExtras.h"

namespace dtile::ir {

bool areInOneLoop(const Op &a, const Op &b) {
  for (const Op *x = a.parentOp(); x && !x->is(OpKind::Space); x = x->parentOp())
    for (const Op *y = b.parentOp(); y; y = y->parentOp())
      if (x == y && (x->is(OpKind::For) || x->is(OpKind::While)))
        return true;
  return false;
}

bool isTransfer(const Op &op) {
  return op.is(OpKind::Put) || op.is(OpKind::PutSignal) || op.is(OpKind::Get) ||
         op.is(OpKind::ReduceAdd) || op.is(OpKind::ReduceAddScatter);
}

Effectful effectsOf(Op &op) {
  Effectful effects;
  walk(op, [&](Op &nested) {
    if ((nested.info().effects & ~Control) != 0 || nested.is(OpKind::Call))
      effects.push_back(&nested);
  });
  return effects;
}

namespace {

/// Whether another body, role or rank may see what this view holds: all but `in` and `out`.
bool isShared(Value *view) {
  return llvm::any_of(objectsOf(view), [](Op *object) {
    if (!object || !object->is(OpKind::Param))
      return true;
    const ParamMode mode = object->get(attr::mode);
    return mode != ParamMode::In && mode != ParamMode::Out;
  });
}

bool touchesSharedMemory(const Op &op) {
  Value *written = writtenView(op);
  return (written && isShared(written)) || llvm::any_of(readViews(op), isShared);
}

/// Orders everything before and after it.
bool isPoint(const Op &op) {
  return op.is(OpKind::Quiet) || op.is(OpKind::Fence) || op.is(OpKind::Barrier) ||
         op.is(OpKind::MemoryFence) || op.is(OpKind::Call);
}

} // namespace

bool mustStayBehind(const Op &earlier, const Op &later) {
  if (isPoint(earlier) || isPoint(later) || earlier.is(OpKind::Await))
    return true;
  // Prints tell in order what a body did; they order nothing else.
  if (earlier.is(OpKind::Print) || later.is(OpKind::Print))
    return earlier.is(OpKind::Print) && later.is(OpKind::Print);
  // A check guards what is written after it.
  if (earlier.is(OpKind::Assert) || later.is(OpKind::Assert))
    return earlier.is(OpKind::Assert) && !later.is(OpKind::Assert);
  // An await orders what is after it, not what is before.
  if (later.is(OpKind::Await))
    return false;
  // Who is notified may be whom the wait is for: after the wait, both would wait for ever.
  if (later.is(OpKind::Wait) && (earlier.is(OpKind::Notify) || earlier.is(OpKind::PutSignal)))
    return true;
  // A notify releases what the body has read and written; transfers only by their tokens.
  if (later.is(OpKind::Notify))
    return touchesSharedMemory(earlier) && !isTransfer(earlier);
  if (Value *written = writtenView(earlier)) {
    if (Value *other = writtenView(later); other && mayAlias(written, other))
      return true;
    if (llvm::any_of(readViews(later), [&](Value *v) { return mayAlias(written, v); }))
      return true;
  }
  if (Value *written = writtenView(later))
    return llvm::any_of(readViews(earlier), [&](Value *v) { return mayAlias(v, written); });
  return false;
}

bool mustStayBehind(const Effectful &earlier, const Effectful &later) {
  return llvm::any_of(earlier, [&](const Op *a) {
    return llvm::any_of(later, [&](const Op *b) { return mustStayBehind(*a, *b); });
  });
}

} // namespace dtile::ir
