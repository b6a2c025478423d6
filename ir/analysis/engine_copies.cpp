// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The conditions under which a copy engine does what bodies put and notify at other ranks.
#include "ir/analysis/engine_copies.h"

#include "ir/analysis/communication.h"
#include "ir/core/constants.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallPtrSet.h"

#include <algorithm>
#include <cstdlib>

namespace dtile::ir {

namespace {

constexpr const char *kOfEpoch =
    "what it sends follows from the number of the launch, and a captured graph replays the same "
    "copies";

std::string quoted(const Op &param) { return "`" + param.get(attr::name).str() + "`"; }

bool isPut(const Op &op) { return op.is(OpKind::Put) || op.is(OpKind::PutSignal); }

bool notifiesOthers(const Op &op) {
  const Value *cells = op.is(OpKind::Notify) || op.is(OpKind::PutSignal) ? cellsOf(op) : nullptr;
  return cells && cells->type().isRemote();
}

/// What bodies may do beside arithmetic, and if they may not, why.
std::string whyNotListed(const Op &op) {
  switch (op.kind()) {
  case OpKind::Put:
  case OpKind::PutSignal:
    return op.operand(0)->type().isView() && !op.operand(0)->type().isRemote()
               ? ""
               : "what is put here is no region of this rank's memory";
  case OpKind::Notify:
  case OpKind::Await:
  case OpKind::TokenDone:
  case OpKind::TokenJoin:
  case OpKind::SigAt:
  case OpKind::SigSlice:
  case OpKind::Assert:
  case OpKind::For:
  case OpKind::If:
  case OpKind::Yield:
    return "";
  case OpKind::Wait:
  case OpKind::Poll:
  case OpKind::Barrier:
    return "its bodies wait, and copies begin with the launch";
  case OpKind::Epoch:
    return kOfEpoch;
  case OpKind::Load:
  case OpKind::Gather:
    return "its bodies load data, which the host does not see";
  default:
    break;
  }
  const auto isTile = [](const Value *value) { return value->type().isTile(); };
  return op.isPure() && op.numRegions() == 0 && llvm::none_of(op.results(), isTile)
             ? ""
             : "its bodies do more than put regions of memory and notify";
}

/// Whether the number of the launch says what a value is that is computed before the spaces.
bool followsFromEpoch(const Value *value, llvm::SmallPtrSetImpl<const Op *> &seen) {
  Op *op = value->definingOp();
  if (!op || !seen.insert(op).second || op->is(OpKind::SignalParam))
    return false;
  bool found = false;
  walk(*op, [&](Op &inner) {
    found |= inner.is(OpKind::Epoch);
    for (const Value *operand : inner.operands())
      found |= followsFromEpoch(operand, seen);
  });
  return found;
}

/// Of sizes and cells: whether two values are computed in the same way of the same values.
bool isSame(const Value *x, const Value *y) {
  if (x == y)
    return true;
  const Op *p = x->definingOp(), *q = y->definingOp();
  if (!p || !q || p->kind() != q->kind() || p->numOperands() != q->numOperands() ||
      p->numRegions() > 0 || !p->isPure() || p->numResults() != 1)
    return false;
  if (p->is(OpKind::Const))
    return constantOf(x) && constantOf(x) == constantOf(y);
  if (p->is(OpKind::LaunchDim))
    return p->get(attr::param) == q->get(attr::param) && p->get(attr::dim) == q->get(attr::dim);
  const auto areSame = [&](unsigned first, unsigned second) {
    return isSame(p->operand(0), q->operand(first)) && isSame(p->operand(1), q->operand(second));
  };
  if ((p->is(OpKind::Add) || p->is(OpKind::Mul)) && areSame(1, 0))
    return true;
  if (p->is(OpKind::Cmp) && p->get(attr::pred) != q->get(attr::pred))
    return false;
  return llvm::all_of(llvm::zip(p->operands(), q->operands()), [](const auto &pair) {
    return isSame(std::get<0>(pair), std::get<1>(pair));
  });
}

/// Whether all launches that share a signal object, which has the signal's sizes, agree on a value
/// of its region.
bool isOfObject(const Value *value, const Op &signal) {
  const Op *op = value->definingOp();
  if (!op ||
      llvm::any_of(signal.operands(), [&](const Value *size) { return isSame(value, size); }))
    return true;
  if (op->is(OpKind::Const) || op->is(OpKind::Rank) || op->is(OpKind::NumRanks))
    return true;
  return op->isPure() && op->numOperands() > 0 && op->numRegions() == 0 &&
         llvm::all_of(op->operands(),
                      [&](const Value *operand) { return isOfObject(operand, signal); });
}

/// The number that a count is, where it follows from constants: counts are not folded yet.
std::optional<int64_t> numberOf(const Value *count) {
  if (const auto known = constantOf(count))
    return known;
  const Op *op = count->definingOp();
  if (!op || op->numOperands() != 2)
    return std::nullopt;
  const auto x = numberOf(op->operand(0));
  const auto y = x ? numberOf(op->operand(1)) : std::nullopt;
  constexpr int64_t kMost = INT32_MAX;
  if (!y || std::max(std::abs(*x), std::abs(*y)) > kMost)
    return std::nullopt;
  switch (op->kind()) {
  case OpKind::Add:
    return *x + *y;
  case OpKind::Sub:
    return *x - *y;
  case OpKind::Mul:
    return *x * *y;
  case OpKind::Max:
    return std::max(*x, *y);
  default:
    return std::nullopt;
  }
}

/// Whether a derived count is 0 or 1.
bool isAtMostOne(const Value *count) {
  if (const auto known = numberOf(count))
    return *known >= 0 && *known <= 1;
  const Op *op = count->definingOp();
  if (!op)
    return false;
  if (op->is(OpKind::Select))
    return isAtMostOne(op->operand(1)) && isAtMostOne(op->operand(2));
  return op->is(OpKind::Add) && numberOf(op->operand(0)) == 0 && isAtMostOne(op->operand(1));
}

/// What of a transfer to another rank a copy engine cannot do.
std::string whyNotSent(const Op &put) {
  for (const Op *source : objectsOf(put.operand(0)))
    if (!source || !source->is(OpKind::Param) || source->get(attr::mode) != ParamMode::In)
      return (source ? quoted(*source) : "what is put here") +
             " is no input, so it may not be complete when the launch begins";
  for (const Op *target : objectsOf(put.operand(1))) {
    if (!target || !target->is(OpKind::Param))
      return "where this is put to is not known";
    if (target->get(attr::zero))
      return quoted(*target) + " is zeroed before each launch, so it has copies taken in turn";
  }
  return "";
}

std::string whyNotCounted(const Op &signal) {
  if (signal.numRegions() == 0 || const_cast<Op &>(signal).body().empty())
    return "how many notifies a cell of " + quoted(signal) + " gets is not derived";
  Op *yields = const_cast<Op &>(signal).body().terminator();
  const Value *count = yields->operand(0);
  if (!isAtMostOne(count))
    return "a cell of " + quoted(signal) + " may get several notifies in a launch";
  if (!isOfObject(count, signal))
    return "which cells of " + quoted(signal) +
           " are notified does not follow from its sizes, so it may differ from launch to launch";
  return "";
}

} // namespace

std::optional<EngineRefusal> whyNoCopyEngine(Op &space) {
  if (space.has(attr::after_all))
    return EngineRefusal{&space, "its bodies begin after those of `" +
                                     space.get(attr::after_all).str() + "`"};
  for (Op &other : space.parentBlock()->ops())
    if (other.is(OpKind::Space) && other.has(attr::after_all) &&
        other.get(attr::after_all) == space.get(attr::name))
      return EngineRefusal{&other, "programs would not know when it has ended, as `when all` asks"};
  llvm::SmallPtrSet<const Op *, 16> seen;
  for (const Value *bound : space.operands())
    if (followsFromEpoch(bound, seen))
      return EngineRefusal{&space, kOfEpoch};
  std::optional<EngineRefusal> refusal;
  bool sends = false;
  walk(space.body(), [&](Op &op) {
    if (refusal)
      return;
    std::string reason = whyNotListed(op);
    for (const Value *operand : op.operands())
      if (reason.empty() && followsFromEpoch(operand, seen))
        reason = kOfEpoch;
    if (reason.empty() && isPut(op) && op.operand(1)->type().isRemote()) {
      reason = whyNotSent(op);
      sends = true;
    }
    if (!reason.empty())
      refusal = EngineRefusal{&op, std::move(reason)};
  });
  if (refusal)
    return refusal;
  if (!sends)
    return EngineRefusal{&space, "it puts nothing to other ranks"};
  for (const Op *signal : signalsOfEngine(space))
    if (std::string reason = whyNotCounted(*signal); !reason.empty())
      return EngineRefusal{signal, std::move(reason)};
  return std::nullopt;
}

llvm::SmallVector<Op *, 4> signalsOfEngine(Op &space) {
  llvm::SmallPtrSet<const Op *, 4> notified;
  walk(space.body(), [&](Op &op) {
    if (notifiesOthers(op))
      notified.insert(objectOf(cellsOf(op)));
  });
  llvm::SmallVector<Op *, 4> signals;
  for (Op &op : space.parentBlock()->ops())
    if (op.is(OpKind::SignalParam) && notified.contains(&op))
      signals.push_back(&op);
  return signals;
}

bool usesCopyEngine(const Op &kernel) {
  return llvm::any_of(const_cast<Op &>(kernel).body().ops(), [](const Op &op) {
    return op.is(OpKind::Space) && op.get(attr::engine_copies);
  });
}

} // namespace dtile::ir
