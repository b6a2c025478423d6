// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Program order is the order of ops in the block that is around both. Tokens are followed through
// joins, results of `if` (what both arms have joined, and what runs only in one), sums of a loop,
// and from iteration to iteration; where they take another way, nothing is known.
#include "ir/protocol/prove/body_order.h"

#include "ir/analysis/ordering.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"

#include <map>

namespace dtile::protocol::prove {

namespace {

/// The op in the block around both that contains each.
std::pair<Op *, Op *> inCommonBlock(Op *a, Op *b) {
  for (Op *x = a; x; x = x->parentOp())
    for (Op *y = b; y; y = y->parentOp())
      if (x->parentBlock() == y->parentBlock())
        return {x, y};
  return {nullptr, nullptr};
}

bool comesFirst(const Op *a, const Op *b) {
  for (auto it = a->getIterator(); it != a->parentBlock()->ops().end(); ++it)
    if (&*it == b)
      return a != b;
  return false;
}

bool isSum(const Op &loop, unsigned k);

/// Whether a token has joined what `argument` stands for, whatever way was taken.
bool hasJoined(const Value *token, const Value *argument,
               llvm::SmallDenseMap<const Value *, bool, 8> &known) {
  if (token == argument)
    return true;
  const Op *op = token->definingOp();
  const auto [it, isNew] = known.try_emplace(token, false);
  if (!op || !isNew)
    return it->second;
  const auto has = [&](const Value *from) { return hasJoined(from, argument, known); };
  bool joined = false;
  if (op->is(OpKind::TokenJoin))
    joined = llvm::any_of(op->operands(), has);
  else if (op->is(OpKind::If))
    joined = has(op->body(0).terminator()->operand(token->index())) &&
             has(op->body(1).terminator()->operand(token->index()));
  else if (op->is(OpKind::For))
    joined = isSum(*op, token->index()) && has(op->operand(3 + token->index()));
  return known[token] = joined;
}

/// Whether a loop's variable only ever joins what the iterations yield for it.
bool isSum(const Op &loop, unsigned k) {
  llvm::SmallDenseMap<const Value *, bool, 8> known;
  return hasJoined(loop.body().terminator()->operand(k), loop.body().argument(1 + k), known);
}

/// Follows tokens to what they stand for, whatever way was taken.
class SourceWalk {
public:
  const TokenSources &of(Value *token) {
    const auto known = sources_.find(token);
    if (known != sources_.end())
      return known->second;
    TokenSources found = find(token);
    return sources_.try_emplace(token, std::move(found)).first->second;
  }

private:
  TokenSources find(Value *token);
  TokenSources ofAll(llvm::ArrayRef<Value *> tokens) {
    TokenSources all;
    for (Value *token : tokens)
      all.insert_range(of(token));
    return all;
  }
  /// What is among `others`, too, or runs only where the block does.
  static TokenSources sureOnes(const TokenSources &some, const TokenSources &others,
                               const ir::Block &block);

  std::map<const Value *, TokenSources> sources_;
};

TokenSources SourceWalk::sureOnes(const TokenSources &some, const TokenSources &others,
                                  const ir::Block &block) {
  TokenSources sure;
  for (Op *source : some) {
    bool isInside = false;
    for (const Op *at = source; at && !isInside; at = at->parentOp())
      isInside = at->parentBlock() == &block;
    if (isInside || others.contains(source))
      sure.insert(source);
  }
  return sure;
}

TokenSources SourceWalk::find(Value *token) {
  if (!token->type().isToken() && !token->type().isAcquire())
    return {};
  Op *op = token->definingOp();
  if (!op) {
    // What the bodies of an earlier space have yielded.
    Op *space = token->argumentOf()->parentOp();
    if (!space || !space->is(OpKind::Space) || !space->has(ir::attr::after_all))
      return {};
    const unsigned dims = space->get(ir::attr::vars).size();
    TokenSources all;
    for (Op &other : space->parentBlock()->ops())
      if (other.is(OpKind::Space) && other.get(ir::attr::name) == space->get(ir::attr::after_all) &&
          token->index() >= dims)
        all.insert_range(of(other.body().terminator()->operand(token->index() - dims)));
    return all;
  }
  const auto yielded = [&](unsigned region) -> const TokenSources & {
    return of(op->body(region).terminator()->operand(token->index()));
  };
  switch (op->kind()) {
  case OpKind::TokenJoin:
    return ofAll(op->operands());
  case OpKind::If: {
    TokenSources sure = sureOnes(yielded(0), yielded(1), op->body(0));
    sure.insert_range(sureOnes(yielded(1), yielded(0), op->body(1)));
    return sure;
  }
  case OpKind::For: {
    if (!isSum(*op, token->index()))
      return {};
    // There may be no iteration.
    TokenSources sure = of(op->operand(3 + token->index()));
    sure.insert_range(sureOnes(yielded(0), sure, op->body()));
    return sure;
  }
  default:
    break;
  }
  TokenSources all;
  if (ir::isTransfer(*op))
    all = ofAll(op->operands());
  if (op->is(OpKind::Wait) || ir::isTransfer(*op))
    all.insert(op);
  return all;
}

/// Which variables of a loop pass a token of an iteration on until an iteration awaits it. False
/// where it is used otherwise.
bool followInLoop(const Value *token, const ir::Block &body,
                  llvm::SmallDenseSet<unsigned, 4> &variables) {
  bool isUsed = false;
  for (const ir::Use &use : token->uses()) {
    isUsed = true;
    if (use.user->parentBlock() != &body)
      return false;
    if (use.user->is(OpKind::Await))
      continue;
    if (use.user->is(OpKind::TokenJoin)) {
      if (!followInLoop(use.user->result(), body, variables))
        return false;
      continue;
    }
    if (use.user != body.terminator())
      return false;
    if (variables.insert(use.index).second &&
        !followInLoop(body.argument(1 + use.index), body, variables))
      return false;
  }
  return isUsed;
}

/// Adds transfers of loops whose tokens go from iteration to iteration until one awaits them, where
/// the tokens stand for all that are left when the loop ends.
void addHandedOn(llvm::ArrayRef<Value *> tokens, TokenSources &sources) {
  llvm::SmallDenseMap<Op *, llvm::SmallDenseSet<unsigned, 4>, 2> results;
  llvm::SmallVector<Value *, 4> work(tokens.begin(), tokens.end());
  while (!work.empty()) {
    const Value *token = work.pop_back_val();
    Op *op = token->type().isToken() ? token->definingOp() : nullptr;
    if (op && op->is(OpKind::TokenJoin))
      llvm::append_range(work, op->operands());
    else if (op && op->is(OpKind::For))
      results[op].insert(token->index());
  }
  for (const auto &[loop, complete] : results)
    for (Op &op : loop->body().ops()) {
      llvm::SmallDenseSet<unsigned, 4> variables;
      if (ir::isTransfer(op) && followInLoop(op.result(), loop->body(), variables) &&
          !variables.empty() &&
          llvm::all_of(variables, [&](unsigned k) { return complete.contains(k); }))
        sources.insert(&op);
    }
}

template <typename Fn> void forEachInBody(Op *op, Fn &&fn) {
  if (Op *space = op->enclosing(OpKind::Space))
    ir::walk(*space, [&](Op &other) { fn(other); });
}

void addWaits(std::vector<WaitBefore> &waits, const TokenSources &sources, Op *by,
              Op *earlierOf = nullptr, bool isSameToo = false) {
  for (Op *source : sources)
    if (source->is(OpKind::Wait) && llvm::none_of(waits, [&](const WaitBefore &have) {
          return have.wait == source && have.by == by && have.earlierOf == earlierOf;
        }))
      waits.push_back({source, by, earlierOf, isSameToo});
}

/// The outermost loop around both of two ops, where there is one; a space whose bodies run in order
/// is one.
Op *outermostLoop(Op *a, Op *b) {
  Op *outermost = nullptr;
  for (Op *x = a->parentOp(); x && !x->is(OpKind::Space); x = x->parentOp())
    for (Op *y = b->parentOp(); y; y = y->parentOp())
      if (x == y && x->is(OpKind::For))
        outermost = x;
  Op *space = a->enclosing(OpKind::Space);
  return space && runsInOrder(*space) ? space : outermost;
}

/// How many loops are around both of two ops.
unsigned loopsAround(Op *a, Op *b) {
  unsigned loops = 0;
  for (Op *x = inCommonBlock(a, b).first; x && !x->is(OpKind::Space); x = x->parentOp())
    loops += x->parentOp()->is(OpKind::For) || x->parentOp()->is(OpKind::While);
  return loops;
}

bool isAtOnceAccess(const Op &op) {
  return !ir::isTransfer(op) && op.hasEffect(ir::Read | ir::Write);
}

/// The reads whose values an op uses. Of a read in a loop that the op is not in, that is each of
/// its executions: the loop's result sums them up.
class ValuesUsed {
public:
  explicit ValuesUsed(const Op &op) {
    for (Value *operand : op.operands())
      visit(operand);
  }
  llvm::SmallPtrSet<Op *, 4> reads;

private:
  void visit(Value *value);
  bool reaches(const Value *value, const Value *argument,
               llvm::SmallPtrSetImpl<const Value *> &seen) const;
  llvm::SmallPtrSet<const Value *, 16> seen_;
};

/// Whether a value of a loop's body is computed from its argument, in that body.
bool ValuesUsed::reaches(const Value *value, const Value *argument,
                         llvm::SmallPtrSetImpl<const Value *> &seen) const {
  if (value == argument)
    return true;
  const Op *op = value->definingOp();
  if (!op || !seen.insert(value).second)
    return false;
  const auto reach = [&](const Value *from) { return reaches(from, argument, seen); };
  if (op->is(OpKind::For))
    return reach(op->operand(3 + value->index()));
  if (op->is(OpKind::If))
    return reach(op->body(0).terminator()->operand(value->index())) &&
           reach(op->body(1).terminator()->operand(value->index()));
  return op->isPure() && llvm::any_of(op->operands(), reach);
}

void ValuesUsed::visit(Value *value) {
  if (value->type().isToken() || value->type().isAcquire() || !seen_.insert(value).second)
    return;
  Op *op = value->definingOp();
  // What a loop around carries comes from iterations before.
  if (!op)
    return;
  if (op->is(OpKind::Load) || op->is(OpKind::Gather) || ir::isAtomic(*op)) {
    reads.insert(op);
    return;
  }
  if (op->is(OpKind::For)) {
    visit(op->operand(3 + value->index()));
    Value *next = op->body().terminator()->operand(value->index());
    llvm::SmallPtrSet<const Value *, 16> seen;
    if (reaches(next, op->body().argument(1 + value->index()), seen))
      visit(next);
    return;
  }
  if (op->is(OpKind::If)) {
    for (unsigned arm = 0; arm < 2; ++arm)
      visit(op->body(arm).terminator()->operand(value->index()));
    return;
  }
  if (op->numRegions() == 0)
    for (Value *operand : op->operands())
      visit(operand);
}

/// Whether `op` lies in no loop or arm that is not around `other`.
bool hasNoOwnLoops(Op *op, Op *other) { return inCommonBlock(op, other).first == op; }

} // namespace

bool isBefore(Op *a, Op *b) {
  const auto [x, y] = inCommonBlock(a, b);
  return x && x != y && comesFirst(x, y);
}

Op *onlyLoopAround(Op *a, Op *b) {
  Op *common = inCommonBlock(a, b).first;
  if (!common || loopsAround(a, b) != 1)
    return nullptr;
  Op *loop = common->parentOp();
  while (loop->is(OpKind::If))
    loop = loop->parentOp();
  return loop->is(OpKind::For) ? loop : nullptr;
}

bool runsInOrder(const Op &space) {
  return space.get(ir::attr::ordered) && space.getOr(ir::attr::programs, 0) <= 1 &&
         space.get(ir::attr::vars).size() == 1;
}

bool areInArms(Op *a, Op *b) {
  const auto [x, y] = inCommonBlock(a, b);
  return x && x == y && x->is(OpKind::If);
}

bool runsWith(Op *op, Op *other) { return hasNoOwnLoops(op, other); }

TokenSources sourcesOf(llvm::ArrayRef<Value *> tokens) {
  TokenSources sources;
  SourceWalk walk;
  for (Value *token : tokens)
    sources.insert_range(walk.of(token));
  addHandedOn(tokens, sources);
  return sources;
}

TokenSources tokensOf(const Op &op) { return sourcesOf(op.operands()); }

std::vector<WaitBefore> waitsBefore(Op *op) {
  std::vector<WaitBefore> waits;
  addWaits(waits, tokensOf(*op), op);
  forEachInBody(op, [&](Op &other) {
    if (!other.is(OpKind::Await))
      return;
    const bool isFirst = isBefore(&other, op);
    if (isFirst)
      addWaits(waits, tokensOf(other), &other);
    if (Op *loop = outermostLoop(&other, op)) {
      // With no other loop around both, what comes first in the text does so in the iteration, too.
      const bool isOnly = loopsAround(&other, op) == (loop->is(OpKind::Space) ? 0 : 1);
      addWaits(waits, tokensOf(other), &other, loop, isFirst && isOnly);
    }
  });
  for (Op *read : ValuesUsed(*op).reads)
    if (isBefore(read, op))
      addWaits(waits, tokensOf(*read), read);
  return waits;
}

std::vector<WaitBefore> waitsReleased(Op *notify) {
  std::vector<WaitBefore> waits = waitsBefore(notify);
  forEachInBody(notify, [&](Op &other) {
    if (isAtOnceAccess(other) && isBefore(&other, notify))
      addWaits(waits, tokensOf(other), &other);
  });
  return waits;
}

std::vector<WaitBefore> waitsOfEnd(Op &space) {
  std::vector<WaitBefore> waits;
  ir::walk(space, [&](Op &op) {
    if (op.is(OpKind::Await) || isAtOnceAccess(op) || ir::isTransfer(op))
      addWaits(waits, tokensOf(op), &op);
  });
  return waits;
}

namespace {

/// Whether something between them waits until the transfer is over: an await of its token, quiet, a
/// barrier.
bool isOverBetween(Op *transfer, Op *later) {
  bool isOver = false;
  forEachInBody(transfer, [&](Op &op) {
    const bool completes = op.is(OpKind::Quiet) || op.is(OpKind::Barrier) ||
                           (op.is(OpKind::Await) && tokensOf(op).contains(transfer));
    // It runs whenever one of the two does.
    const bool isSure = runsWith(&op, transfer) || (later && runsWith(&op, later));
    isOver |= completes && isSure && isBefore(transfer, &op) && (!later || isBefore(&op, later));
  });
  return isOver;
}

bool isFencedBetween(Op *transfer, Op *later) {
  bool isFenced = false;
  forEachInBody(transfer, [&](Op &op) {
    isFenced |= op.is(OpKind::Fence) && (runsWith(&op, transfer) || runsWith(&op, later)) &&
                isBefore(transfer, &op) && isBefore(&op, later);
  });
  return isFenced;
}

} // namespace

bool isAfterYielded(Op *transfer, Op *later) {
  if (tokensOf(*later).contains(transfer))
    return true;
  bool isAwaited = false;
  forEachInBody(later, [&](Op &op) {
    isAwaited |= op.is(OpKind::Await) && runsWith(&op, later) && isBefore(&op, later) &&
                 tokensOf(op).contains(transfer);
  });
  return isAwaited;
}

Release releases(Op *notify, Op *access, Course course) {
  if (notify == access)
    return Release::Yes;
  const bool isOneSpace = notify->enclosing(OpKind::Space) == access->enclosing(OpKind::Space);
  if (course == Course::AtOnce)
    return isOneSpace && isBefore(access, notify) ? Release::Yes : Release::No;
  if (tokensOf(*notify).contains(access) || (!isOneSpace && isAfterYielded(access, notify)))
    return Release::Yes;
  if (!isOneSpace || !isBefore(access, notify))
    return Release::No;
  if (isOverBetween(access, notify))
    return Release::Yes;
  return course == Course::Sent && isFencedBetween(access, notify) ? Release::SameRank
                                                                   : Release::No;
}

bool isOrdered(Op *first, bool firstIsAsync, Op *second) {
  return !firstIsAsync || tokensOf(*second).contains(first) || isOverBetween(first, second);
}

bool isOverInIteration(Op *op, bool isAsync, Op *other) {
  if (!isAsync)
    return true;
  // An await in the innermost loop around both, after the op.
  Op *around = inCommonBlock(op, other).first->parentOp();
  bool isOver = false;
  forEachInBody(op, [&](Op &at) {
    const bool completes = at.is(OpKind::Quiet) || at.is(OpKind::Barrier) ||
                           (at.is(OpKind::Await) && tokensOf(at).contains(op));
    if (!completes || !runsWith(&at, op) || !isBefore(op, &at))
      return;
    for (Op *up = at.parentOp(); up; up = up->parentOp())
      isOver |= up == around;
  });
  return isOver;
}

namespace {

/// How many iterations ago the transfer has run whose token this one is, or has joined.
std::optional<unsigned> ageOf(const Value *token, const Op &loop, Op *transfer, unsigned most) {
  if (most == 0)
    return std::nullopt;
  std::optional<unsigned> age;
  const auto take = [&](const Value *from, unsigned more) {
    const std::optional<unsigned> found = ageOf(from, loop, transfer, most - 1);
    if (found && (!age || *found + more < *age))
      age = *found + more;
  };
  const Op *op = token->definingOp();
  if (op && op->is(OpKind::TokenJoin)) {
    for (const Value *part : op->operands())
      take(part, 0);
  } else if (!op && token->argumentOf() == &loop.body() && token->index() > 0) {
    Value *yielded = loop.body().terminator()->operand(token->index() - 1);
    if (sourcesOf({yielded}).contains(transfer))
      return 1;
    take(yielded, 1);
  }
  return age;
}

} // namespace

std::optional<unsigned> iterationsUntilOver(Op *transfer, Op *other) {
  constexpr unsigned kMost = 6;
  Op *loop = inCommonBlock(transfer, other).first->parentOp();
  if (!loop->is(OpKind::For) || loopsAround(transfer, other) != 1)
    return std::nullopt;
  std::optional<unsigned> least;
  for (Op &at : loop->body().ops()) {
    // It stands in the loop itself, so each iteration runs it: one after `other` has run in the
    // iteration before.
    if (!at.is(OpKind::Await))
      continue;
    const unsigned more = isBefore(&at, other) ? 0 : 1;
    for (const Value *token : at.operands())
      if (const auto age = ageOf(token, *loop, transfer, kMost);
          age && (!least || *age + more < *least))
        least = *age + more;
  }
  return least;
}

bool isOverInBody(Op *op, bool isAsync) { return !isAsync || isOverBetween(op, nullptr); }

} // namespace dtile::protocol::prove
