// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// merge-notifies: sends small messages to several ranks before the first of them is told.
//
// Expects: loops that put and notify in each iteration, as
//   `for hop in 0..W { let gone = put(t, x@peer[…]); notify(s@peer[…], after: gone); }`.
// Produces: a loop that puts, an await of all its tokens, and a loop that only notifies.
// Why: a notify waits until what the program has stored has landed, a round trip. Notifies in a
//   loop of their own wait at the same time, so there is one round trip instead of one a rank.
// Leaves alone: iterations that wait for something, which a notify may have to come before;
//   messages that take longer than a notify, whose first reader would wait for the last one's data;
//   places that are read from memory; spaces with warp roles, whose epilogues are already divided.
#include "ir/analysis/loop_positions.h"
#include "ir/core/builder.h"
#include "ir/machine/target_facts.h"
#include "ir/transform/pass.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SetVector.h"

namespace dtile::passes {
namespace {

using namespace dtile::ir;

/// What a program sends while a notify would be under way. One schedule serves all machines.
constexpr int64_t kMostBytes = int64_t(Timing().threadsRate * Timing().notifyLatency);

bool isSend(const Op &op) { return op.is(OpKind::Put) || op.is(OpKind::ReduceAdd); }

/// Bytes of a tile or number that is sent; more than most where memory is.
int64_t bytesOf(const Op &send) {
  const Type type = send.operand(0)->type();
  if (!type.isTile() && !type.isScalar() && !type.isIndex())
    return kMostBytes + 1;
  return type.elements() * int64_t(dtypeBytes(type.elementOrIndex()));
}

/// Whether one thread can do it, of nothing but numbers.
bool isOwnWork(const Op &op) {
  const auto isTile = [](const Value *value) { return value->type().isTile(); };
  return op.numRegions() == 0 && (op.isPure() || op.is(OpKind::SigAt) || op.is(OpKind::SigSlice)) &&
         llvm::none_of(op.operands(), isTile) && llvm::none_of(op.results(), isTile);
}

/// One loop.
class Merger {
public:
  explicit Merger(Op &loop) : loop_(loop), body_(loop.body()), builder_(body_.module()) {}

  [[nodiscard]] bool isWorth();
  void run();

private:
  bool addNotify(Op &notify);
  bool addPlace(Value *value);
  Value *carryTokens();
  void emitNotifies();

  Op &loop_;
  Block &body_;
  Builder builder_;
  llvm::SmallVector<Op *, 4> notifies_;
  /// What the notifies come after.
  llvm::SmallVector<Value *, 4> tokens_;
  /// What says which cells they are of.
  llvm::SetVector<Op *> places_;
};

bool Merger::isWorth() {
  if (!loop_.is(OpKind::For) || loop_.numResults() > 0 ||
      loop_.enclosing(OpKind::Space)->has(attr::warpgroups))
    return false;
  int64_t bytes = 0;
  for (Op &op : body_.ops()) {
    if (isSend(op))
      bytes += bytesOf(op);
    if (op.is(OpKind::Notify) ? !addNotify(op)
                              : op.numRegions() > 0 || op.hasEffect(Wait | Order | Signal))
      return false;
  }
  return !tokens_.empty() && bytes <= kMostBytes;
}

/// Of one cell, after what this iteration has sent.
bool Merger::addNotify(Op &notify) {
  notifies_.push_back(&notify);
  for (Value *token : notify.operands().drop_front()) {
    const Op *op = token->definingOp();
    if (!op || op->parentBlock() != &body_ || !token->hasOneUse() ||
        (!isSend(*op) && !op->is(OpKind::TokenJoin)))
      return false;
    tokens_.push_back(token);
  }
  return notify.operand(0)->type().rank() == 0 && addPlace(notify.operand(0));
}

bool Merger::addPlace(Value *value) {
  Op *op = value->definingOp();
  if (!op || op->parentBlock() != &body_)
    return true;
  if (!isOwnWork(*op) || !llvm::all_of(op->operands(), [&](Value *x) { return addPlace(x); }))
    return false;
  places_.insert(op);
  return true;
}

/// Behind the loop, a token of all that its iterations have sent.
Value *Merger::carryTokens() {
  builder_.setInsertionPoint(&loop_);
  loop_.addOperand(builder_.op(OpKind::TokenDone, {})->result());
  llvm::SmallVector<Value *, 4> all{body_.addArgument(builder_.types().token(), "sent")};
  llvm::append_range(all, tokens_);
  builder_.setInsertionPoint(body_.terminator());
  body_.terminator()->addOperand(
      builder_.op(OpKind::TokenJoin, all, builder_.types().token())->result());
  return loop_.addResult(builder_.types().token(), "sent");
}

void Merger::emitNotifies() {
  Op *loop = builder_.op(OpKind::For, loop_.operands().take_front(3));
  ValueMap map;
  map[body_.argument(0)] = loop->body().addArgument(builder_.types().index(), "i");
  builder_.setInsertionPointToEnd(loop->body());
  // In the order of the body.
  for (Op &op : body_.ops())
    if (places_.contains(&op))
      cloneOp(builder_, op, map);
  for (Op *notify : notifies_) {
    Value *cell = notify->operand(0);
    const auto it = map.find(cell);
    builder_.setLoc(notify->loc());
    builder_.op(OpKind::Notify, {it == map.end() ? cell : it->second});
  }
  builder_.op(OpKind::Yield, {});
}

void Merger::run() {
  builder_.setLoc(notifies_.front()->loc());
  Value *sent = carryTokens();
  builder_.setInsertionPoint(&*std::next(loop_.getIterator()));
  builder_.op(OpKind::Await, {sent});
  emitNotifies();
  for (Op *notify : notifies_)
    notify->erase();
}

} // namespace

bool mergeNotifies(Module &module, PassContext &context) {
  bool changed = false;
  for (Op *loop : loopsOfSpaces(module)) {
    Merger merger(*loop);
    if (!merger.isWorth())
      continue;
    merger.run();
    context.remark(*loop, "what its iterations send is under way together before they notify");
    changed = true;
  }
  return changed;
}

} // namespace dtile::passes
