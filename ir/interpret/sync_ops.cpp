// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Communication, tokens, signals and order. Asynchronous operations go through the body's list,
// which lands them at once or as late as their tokens allow.
#include "ir/interpret/state.h"

#include "frontend/base/check.h"

#include <algorithm>

namespace dtile::interpret {

using ir::OpKind;

namespace {

struct SendInfo : InstrInfo {
  AsyncOp::Kind kind = AsyncOp::Kind::Put;
  /// Bank of operand 0.
  Bank source = Bank::View;
  TileDesc desc;
};

/// Whether a copy between the views is one of equal shapes: in each dimension the lengths agree, or
/// what exists does.
bool haveEqualShapes(const ViewVal &from, const ViewVal &to) {
  bool equal = from.dims == to.dims;
  for (unsigned d = 0; equal && d < from.dims; ++d) {
    const ViewVal::Dim &a = from.dim[d];
    const ViewVal::Dim &b = to.dim[d];
    equal = a.extent == b.extent || a.hi - a.lo == b.hi - b.lo;
  }
  return equal;
}

} // namespace

Step issueSend(Body &body, const Instr &instr, AsyncOp op) {
  const TokenVal after = body.tokensOf(instr);
  body.completeTokens(instr);
  if (op.notifies)
    body.publish();
  if (op.source)
    body.publishFor(*op.source);
  body.publishFor(*op.destination);
  op.op = instr.op;
  op.fence = body.fences;
  // A fence orders what is sent, and a get is not.
  op.toRank = instr.op->is(OpKind::Get) ? -1 : op.destination->rank;
  op.movesData = instr.movesData;
  const uint64_t number = body.issue(std::move(op), after);
  body.frame->tokens[instr.result] = TokenVal{number};
  return Step::Next;
}

namespace {

/// put, put_signal and reduce_add.
Step runSend(Body &body, const Instr &instr) {
  const auto &info = static_cast<const SendInfo &>(*instr.info);
  AsyncOp op;
  op.kind = info.kind;
  const ViewVal &to = body.view(instr.operands[1]);
  op.destination = std::make_unique<ViewVal>(to);
  switch (info.source) {
  case Bank::View: {
    const ViewVal &from = body.view(instr.operands[0]);
    if (!haveEqualShapes(from, to))
      return body.machine.trap(body, *instr.op,
                               "a put of " + from.sizesText() + " does not fit " + to.sizesText() +
                                   " on rank " + std::to_string(to.rank));
    op.source = std::make_unique<ViewVal>(from);
    cutToCommon(*op.source, *op.destination);
    break;
  }
  case Bank::Tile:
    cutToBox(*op.destination, info.desc.sizes());
    op.values = body.tile(instr.operands[0]);
    op.valueSizes.assign(info.desc.sizes().begin(), info.desc.sizes().end());
    break;
  default:
    if (!instr.movesData)
      break;
    op.values = body.machine.tiles.allocate(sizeof(Scalar));
    std::memcpy(op.values.data(), &body.scalar(instr.operands[0]), sizeof(Scalar));
    break;
  }
  if (instr.op->is(OpKind::PutSignal))
    op.notifies = std::make_unique<SignalVal>(body.signal(instr.operands[2]));
  return issueSend(body, instr, std::move(op));
}

Step runGet(Body &body, const Instr &instr) {
  AsyncOp op;
  op.kind = AsyncOp::Kind::Get;
  op.source = std::make_unique<ViewVal>(body.view(instr.operands[0]));
  op.destination = std::make_unique<ViewVal>(body.view(instr.operands[1]));
  if (!haveEqualShapes(*op.source, *op.destination))
    return body.machine.trap(body, *instr.op,
                             "a get of " + op.source->sizesText() + " from rank " +
                                 std::to_string(op.source->rank) + " does not fit " +
                                 op.destination->sizesText());
  cutToCommon(*op.source, *op.destination);
  return issueSend(body, instr, std::move(op));
}

Step runNotify(Body &body, const Instr &instr) {
  const TokenVal after = body.tokensOf(instr);
  body.completeTokens(instr);
  const SignalVal &cells = body.signal(instr.operands[0]);
  body.landFenced(cells.rank, body.fences);
  body.publish();
  if (Observer *observer = body.machine.observer)
    observer->notifies(body.observedId(), *instr.op, cells, after, 0);
  body.machine.notify(cells);
  return Step::Next;
}

namespace {

/// The next of the iterations that are left, in place of the one at hand: its cell is not complete.
Step takeAnother(Body &body, ArrivalOrder &order) {
  ++order.tries;
  Scalar &position = body.frame->scalars[order.position];
  order.left.push_back(static_cast<int64_t>(position));
  position = static_cast<Scalar>(order.left.front());
  order.left.pop_front();
  body.frame->pc = order.start;
  return Step::Jumped;
}

} // namespace

Step runWait(Body &body, const Instr &instr) {
  const SignalVal &cells = body.signal(instr.operands[0]);
  SignalState &signal = *cells.signal;
  MachineState &machine = body.machine;
  if (cells.rank != body.rank.rank)
    return machine.trap(body, *instr.op,
                        "a wait on signal `" + signal.name + "` of another rank, " +
                            std::to_string(cells.rank));
  const bool isCounted = instr.operands.size() > 1;
  if (!isCounted && !signal.hasCount)
    return machine.trap(body, *instr.op,
                        "a wait without a count on signal `" + signal.name +
                            "`, whose count has not been derived");
  SignalState::PerRank &rank = signal.ranks[cells.rank];
  const uint64_t count =
      isCounted ? std::max<int64_t>(0, body.index(instr.operands[1])) : uint64_t(0);
  if (const auto order = body.arrivals.find(instr.op->parentOp()); order != body.arrivals.end()) {
    const bool isComplete = isCounted || cells.forEachCell([&](int64_t cell) {
      return rank.value[cell] >= rank.base[cell] + rank.expected[cell];
    });
    if (!isComplete && order->second.tries < order->second.left.size())
      return takeAnother(body, order->second);
    order->second.tries = 0;
    if (!isComplete) {
      cells.forEachCell([&](int64_t cell) {
        body.waitCell = cell;
        body.waitTarget = rank.base[cell] + rank.expected[cell];
        return rank.value[cell] >= body.waitTarget;
      });
      body.waiting = Body::Waiting::Signal;
      body.waitInstr = &instr;
      body.waitSignal = &signal;
      machine.atArrivals.push_back(&body);
      return Step::Blocked;
    }
  }
  const bool isSatisfied = cells.forEachCell([&](int64_t cell) {
    const uint64_t wanted = isCounted ? count : rank.expected[cell];
    if (isCounted)
      rank.asked[cell] = std::max(rank.asked[cell], count);
    if (rank.value[cell] >= rank.base[cell] + wanted)
      return true;
    body.waiting = Body::Waiting::Signal;
    body.waitInstr = &instr;
    body.waitSignal = &signal;
    body.waitCell = cell;
    body.waitTarget = rank.base[cell] + wanted;
    signal.waiters[{cells.rank, cell}].push_back(&body);
    return false;
  });
  if (!isSatisfied)
    return Step::Blocked;
  const uint64_t number = body.issueAcquire();
  if (Observer *observer = machine.observer)
    observer->waits(body.observedId(), *instr.op, cells, number,
                    isCounted ? std::optional(count) : std::nullopt);
  body.frame->tokens[instr.result] = TokenVal{number};
  return Step::Next;
}

Step runPoll(Body &body, const Instr &instr) {
  const SignalVal &cells = body.signal(instr.operands[0]);
  const SignalState &signal = *cells.signal;
  const SignalState::PerRank &rank = signal.ranks[cells.rank];
  body.frame->scalars[instr.result] = cells.forEachCell(
      [&](int64_t cell) { return rank.value[cell] >= rank.base[cell] + rank.expected[cell]; });
  return Step::Next;
}

Step runTokenDone(Body &body, const Instr &instr) {
  body.frame->tokens[instr.result].clear();
  return Step::Next;
}

Step runTokenJoin(Body &body, const Instr &instr) {
  TokenVal joined;
  for (const Operand operand : instr.operands)
    for (const uint64_t number : body.token(operand))
      // Without an observer, what has landed need not be remembered.
      if (body.machine.observer || number >= body.async.oldest())
        joined.push_back(number);
  // A loop that gathers tokens joins more each time: long lists count as the steps that they take.
  constexpr size_t kNumbersInStep = 16;
  body.machine.steps += joined.size() / kNumbersInStep;
  body.frame->tokens[instr.result] = std::move(joined);
  return Step::Next;
}

Step runAwait(Body &body, const Instr &instr) {
  if (Observer *observer = body.machine.observer)
    observer->awaits(body.observedId(), *instr.op, body.tokensOf(instr));
  body.completeTokens(instr);
  return Step::Next;
}

Step runQuiet(Body &body, const Instr &instr) {
  body.landAll();
  if (Observer *observer = body.machine.observer)
    observer->quiet(body.observedId(), *instr.op);
  return Step::Next;
}

Step runFence(Body &body, const Instr &instr) {
  ++body.fences;
  body.publish();
  if (Observer *observer = body.machine.observer)
    observer->fence(body.observedId(), *instr.op);
  return Step::Next;
}

Step runMemoryFence(Body &body, const Instr &instr) {
  body.publish();
  if (Observer *observer = body.machine.observer)
    observer->memoryFence(body.observedId(), *instr.op);
  return Step::Next;
}

Step runBarrier(Body &body, const Instr &instr) {
  MachineState &machine = body.machine;
  Observer *observer = machine.observer;
  if (body.barrierNumber == 0) {
    body.landAll();
    body.barrierNumber = ++body.rank.barriers[instr.op];
    if (observer)
      observer->arrives(body.observedId(), *instr.op, body.barrierNumber);
    machine.wakeBarrier();
  }
  if (!machine.isBarrierOpen(*instr.op, body.barrierNumber)) {
    body.waiting = Body::Waiting::Barrier;
    body.waitCell = 0;
    body.waitInstr = &instr;
    machine.atBarrier.push_back(&body);
    return Step::Blocked;
  }
  if (observer)
    observer->leaves(body.observedId(), *instr.op, body.barrierNumber);
  body.barrierNumber = 0;
  return Step::Next;
}

void bindSend(Instr &instr, AsyncOp::Kind kind, unsigned firstToken) {
  auto info = std::make_unique<SendInfo>();
  info->kind = kind;
  const ir::Type from = instr.op->operand(0)->type();
  info->source = bankOf(from);
  if (!from.isView())
    info->desc = TileDesc(from);
  instr.info = std::move(info);
  instr.firstToken = static_cast<uint16_t>(firstToken);
  instr.run = runSend;
}

} // namespace

void bindSync(Instr &instr) {
  switch (instr.op->kind()) {
  case OpKind::Put:
    return bindSend(instr, AsyncOp::Kind::Put, 2);
  case OpKind::PutSignal:
    return bindSend(instr, AsyncOp::Kind::Put, 3);
  case OpKind::ReduceAdd:
    return bindSend(instr, AsyncOp::Kind::ReduceAdd, 2);
  case OpKind::Get:
    instr.firstToken = 2;
    instr.run = runGet;
    return;
  case OpKind::Notify:
    instr.firstToken = 1;
    instr.run = runNotify;
    return;
  case OpKind::Wait:
    instr.run = runWait;
    return;
  case OpKind::Poll:
    instr.run = runPoll;
    return;
  case OpKind::TokenDone:
    instr.run = runTokenDone;
    return;
  case OpKind::TokenJoin:
    instr.run = runTokenJoin;
    return;
  case OpKind::Await:
    instr.firstToken = 0;
    instr.run = runAwait;
    return;
  case OpKind::Quiet:
    instr.run = runQuiet;
    return;
  case OpKind::Fence:
    instr.run = runFence;
    return;
  case OpKind::MemoryFence:
    instr.run = runMemoryFence;
    return;
  case OpKind::Barrier:
    instr.run = runBarrier;
    return;
  default:
    DTILE_UNREACHABLE("not an operation of communication or order");
  }
}

} // namespace dtile::interpret
