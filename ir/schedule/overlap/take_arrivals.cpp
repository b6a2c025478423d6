// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// take-arrivals: runs iterations of loops over arriving cells as their notifies come.
//
// Expects: `for` loops marked `arrivals`, whose iterations may run in any order and begin with a
// wait for the iteration's own cell. Produces: rounds over the cells that have not been taken,
// which run the iteration of each that a `poll` finds complete; its wait stays, and returns at
// once. After many rounds without one, the next cell is waited for, as waits report peers that are
// lost. Which cells have been taken is a word of bits, so longer loops go in parts of 64 cells.
// Leaves alone: loops whose wait other passes have moved.
#include "ir/core/builder.h"
#include "ir/transform/pass.h"

namespace dtile::passes {
namespace {

using namespace dtile::ir;

/// Cells that a word remembers.
constexpr int64_t kCellsAtOnce = 64;
/// Rounds without an arrival before a wait blocks.
constexpr int64_t kIdleRounds = 4096;

/// The wait that the loop's iterations begin with, of a cell that their number alone chooses.
Op *ownWait(Op &loop) {
  Block &body = loop.body();
  for (Op &op : body.ops()) {
    if (!op.is(OpKind::Wait))
      continue;
    Op *cell = op.operand(0)->definingOp();
    const auto isKnown = [&](const Value *value) {
      const Op *from = value->definingOp();
      return value == body.argument(0) ||
             (from ? from->parentBlock() != &body : value->argumentOf() != &body);
    };
    const bool isOwn = op.numOperands() == 1 && cell && cell->is(OpKind::SigSlice) &&
                       cell->parentBlock() == &body && llvm::all_of(cell->operands(), isKnown);
    return isOwn ? &op : nullptr;
  }
  return nullptr;
}

using Values = llvm::SmallVector<Value *, 8>;

class Rewriter {
public:
  Rewriter(Op &loop, Op &wait)
      : loop_(loop), cell_(*wait.operand(0)->definingOp()), b_(loop.parentBlock()->module()) {
    b_.setLoc(loop.loc());
    for (const Value *result : loop.results())
      carried_.push_back(result->type());
  }

  void run() {
    b_.setInsertionPoint(&loop_);
    zero_ = b_.constIndex(0);
    one_ = b_.constIndex(1);
    Value *most = b_.constIndex(kCellsAtOnce);
    Values operands = {loop_.operand(0), loop_.operand(1), most};
    llvm::append_range(operands, loop_.operands().drop_front(3));
    Op *parts = b_.op(OpKind::For, operands, carried_);
    {
      const InsertionGuard guard(b_);
      const Values arguments = begin(parts->body(), {"part"});
      Value *count = b_.min(b_.sub(loop_.operand(1), arguments[0]), most);
      b_.op(OpKind::Yield, rounds(arguments[0], count, llvm::ArrayRef(arguments).drop_front()));
    }
    for (auto [old, now] : llvm::zip_equal(loop_.results(), parts->results()))
      old->replaceAllUsesWith(now);
    loop_.erase();
  }

private:
  /// The arguments of a region: numbers of these names, then what the loop carries.
  Values begin(Block &block, llvm::ArrayRef<llvm::StringRef> names) {
    b_.setInsertionPointToEnd(block);
    Values arguments;
    for (llvm::StringRef name : names)
      arguments.push_back(block.addArgument(b_.types().index(), name));
    for (Type type : carried_)
      arguments.push_back(block.addArgument(type, "carried"));
    return arguments;
  }

  llvm::SmallVector<Type, 8> withNumbers(unsigned numbers) {
    llvm::SmallVector<Type, 8> types(numbers, b_.types().index());
    types.append(carried_.begin(), carried_.end());
    return types;
  }

  /// `while done < count { … }` over the taken cells, how many they are, and idle rounds.
  Values rounds(Value *first, Value *count, llvm::ArrayRef<Value *> carried) {
    Values operands = {zero_, zero_, zero_};
    llvm::append_range(operands, carried);
    Op *loop = b_.op(OpKind::While, operands, withNumbers(3));
    const InsertionGuard guard(b_);
    {
      Values arguments = begin(loop->body(0), {"taken", "done", "idle"});
      Values passed = {b_.cmp("lt", arguments[1], count)};
      llvm::append_range(passed, arguments);
      b_.op(OpKind::Condition, passed);
    }
    const Values arguments = begin(loop->body(1), {"taken", "done", "idle"});
    Op *round = oneRound(first, count, arguments);
    Value *isIdle = b_.cmp("eq", round->result(1), arguments[1]);
    Value *idle =
        b_.value(OpKind::Select, {isIdle, b_.add(arguments[2], one_), zero_}, b_.types().index());
    Values next = {round->result(0), round->result(1), idle};
    llvm::append_range(next, round->results().drop_front(2));
    b_.op(OpKind::Yield, next);
    return Values(loop->results().drop_front(3));
  }

  Op *oneRound(Value *first, Value *count, llvm::ArrayRef<Value *> state) {
    Value *isLate = b_.cmp("ge", state[2], b_.constIndex(kIdleRounds));
    Values operands = {zero_, count, one_, state[0], state[1]};
    llvm::append_range(operands, state.drop_front(3));
    Op *round = b_.op(OpKind::For, operands, withNumbers(2));
    const InsertionGuard guard(b_);
    const Values arguments = begin(round->body(), {"at", "taken", "done"});
    Value *bit = b_.value(OpKind::Shl, {one_, arguments[0]});
    Value *isLeft = b_.cmp("eq", b_.value(OpKind::And, {arguments[1], bit}), zero_);
    Value *number = b_.add(first, arguments[0]);
    Op *comes = b_.op(OpKind::If, {asks(isLeft, number, isLate)}, withNumbers(2));
    take(*comes, bit, number, llvm::ArrayRef(arguments).drop_front());
    b_.op(OpKind::Yield, Values(comes->results()));
    return round;
  }

  /// Whether the cell has not been taken and may be now.
  Value *asks(Value *isLeft, Value *number, Value *isLate) {
    Op *ask = b_.op(OpKind::If, {isLeft}, {b_.types().scalar(DType::Bool)});
    const InsertionGuard guard(b_);
    b_.setInsertionPointToEnd(ask->body(0));
    ValueMap map{{loop_.body().argument(0), number}};
    const Op *cell = cloneOp(b_, cell_, map);
    Value *has = b_.value(OpKind::Poll, {cell->result()}, b_.types().scalar(DType::Bool));
    b_.op(OpKind::Yield, {b_.value(OpKind::Or, {has, isLate})});
    b_.setInsertionPointToEnd(ask->body(1));
    b_.op(OpKind::Yield, {b_.constBool(false)});
    return ask->result();
  }

  void take(Op &comes, Value *bit, Value *number, llvm::ArrayRef<Value *> state) {
    const InsertionGuard guard(b_);
    b_.setInsertionPointToEnd(comes.body(0));
    ValueMap map{{loop_.body().argument(0), number}};
    for (auto [argument, value] :
         llvm::zip_equal(loop_.body().arguments().drop_front(), state.drop_front(2)))
      map[argument] = value;
    const Op *end = loop_.body().terminator();
    for (const Op &op : loop_.body().ops())
      if (&op != end)
        (void)cloneOp(b_, op, map);
    Values next = {b_.value(OpKind::Or, {state[0], bit}), b_.add(state[1], one_)};
    for (Value *value : end->operands()) {
      const auto copy = map.find(value);
      next.push_back(copy == map.end() ? value : copy->second);
    }
    b_.op(OpKind::Yield, next);
    b_.setInsertionPointToEnd(comes.body(1));
    b_.op(OpKind::Yield, Values(state));
  }

  Op &loop_;
  Op &cell_;
  Builder b_;
  llvm::SmallVector<Type, 8> carried_;
  Value *zero_ = nullptr;
  Value *one_ = nullptr;
};

} // namespace

bool takeArrivals(Module &module, PassContext &context) {
  llvm::SmallVector<Op *> loops;
  walk(module.body(), [&](Op &op) {
    if (op.is(OpKind::For) && op.get(attr::arrivals))
      loops.push_back(&op);
  });
  bool changed = false;
  // Inner loops first: an outer one is copied with what has become of them.
  for (Op *loop : llvm::reverse(loops)) {
    Op *wait = ownWait(*loop);
    if (!wait) {
      context.remark(*loop,
                     "iterations run in the order of cells: their wait is not where they begin");
      continue;
    }
    context.remark(*loop, "iterations run as their notifies come");
    Rewriter(*loop, *wait).run();
    changed = true;
  }
  return changed;
}

} // namespace dtile::passes
