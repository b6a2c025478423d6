// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs jumps, moves and calls.
#include "ir/interpret/control_ops.h"

#include "llvm/Support/MathExtras.h"

namespace dtile::interpret {

namespace {

/// Calls of functions may nest this deep.
constexpr size_t kMaxCallDepth = 1000;

template <typename T> void moveOne(std::vector<T> &slots, Operand from, uint32_t to) {
  if (from.slot != to)
    slots[to] = slots[from.slot];
}

void moveOne(std::vector<TileRef> &slots, Operand from, uint32_t to) {
  if (from.slot == to)
    return;
  if (from.dies)
    slots[to] = std::move(slots[from.slot]);
  else
    slots[to] = slots[from.slot];
}

/// Reads every source of one bank before writing any target.
template <typename T> void moveAtOnce(std::vector<T> &slots, const MoveList &list, Bank bank) {
  llvm::SmallVector<T, 4> values;
  for (const MoveList::Move &move : list.moves)
    if (move.bank == bank)
      values.push_back(slots[move.from.slot]);
  size_t next = 0;
  for (const MoveList::Move &move : list.moves)
    if (move.bank == bank)
      slots[move.to] = std::move(values[next++]);
}

void apply(Frame &frame, const MoveList &list) {
  if (list.isParallel) {
    moveAtOnce(frame.scalars, list, Bank::Scalar);
    moveAtOnce(frame.tiles, list, Bank::Tile);
    moveAtOnce(frame.views, list, Bank::View);
    moveAtOnce(frame.signals, list, Bank::Signal);
    moveAtOnce(frame.tokens, list, Bank::Token);
    return;
  }
  for (const MoveList::Move &move : list.moves) {
    switch (move.bank) {
    case Bank::Scalar:
      moveOne(frame.scalars, move.from, move.to);
      break;
    case Bank::Tile:
      moveOne(frame.tiles, move.from, move.to);
      break;
    case Bank::View:
      moveOne(frame.views, move.from, move.to);
      break;
    case Bank::Signal:
      moveOne(frame.signals, move.from, move.to);
      break;
    case Bank::Token:
      moveOne(frame.tokens, move.from, move.to);
      break;
    }
  }
}

Step jump(Body &body, uint32_t target) {
  body.frame->pc = target;
  return Step::Jumped;
}

} // namespace

void copySlot(Frame &from, Slot source, Frame &to, uint32_t target) {
  switch (source.bank) {
  case Bank::Scalar:
    to.scalars[target] = from.scalars[source.index];
    break;
  case Bank::Tile:
    to.tiles[target] = from.tiles[source.index];
    break;
  case Bank::View:
    to.views[target] = from.views[source.index];
    break;
  case Bank::Signal:
    to.signals[target] = from.signals[source.index];
    break;
  case Bank::Token:
    to.tokens[target] = from.tokens[source.index];
    break;
  }
}

Step runMoves(Body &body, const Instr &instr) {
  apply(*body.frame, static_cast<const MovesInfo &>(*instr.info).list);
  return Step::Next;
}

Step runJump(Body &body, const Instr &instr) { return jump(body, instr.target); }

Step runBranch(Body &body, const Instr &instr) {
  const bool holds = (body.scalar(instr.operands[0]) & 0xFF) != 0;
  return holds ? Step::Next : jump(body, instr.target);
}

Step runLoopBegin(Body &body, const Instr &instr) {
  const auto &info = static_cast<const LoopInfo &>(*instr.info);
  std::vector<Scalar> &scalars = body.frame->scalars;
  const int64_t first = static_cast<int64_t>(scalars[info.first]);
  const int64_t step = static_cast<int64_t>(scalars[info.step]);
  if (step <= 0)
    return body.machine.trap(
        body, *instr.op, "a loop's step is " + std::to_string(step) + ", which is not positive");
  const int64_t last = static_cast<int64_t>(scalars[info.last]);
  apply(*body.frame, info.list);
  scalars[info.position] = static_cast<Scalar>(first);
  if (first >= last)
    return jump(body, instr.target);
  if (info.isArrivals && body.machine.isRandom()) {
    ArrivalOrder &order = body.arrivals[instr.op] = {};
    order.start = body.frame->pc + 1;
    order.position = info.position;
    for (int64_t position = first; position < last; position += step)
      order.left.push_back(position);
    for (size_t i = order.left.size(); i > 1; --i)
      std::swap(order.left[i - 1], order.left[body.machine.random() % i]);
    scalars[info.position] = static_cast<Scalar>(order.left.front());
    order.left.pop_front();
  }
  return Step::Next;
}

Step runLoopNext(Body &body, const Instr &instr) {
  const auto &info = static_cast<const LoopInfo &>(*instr.info);
  std::vector<Scalar> &scalars = body.frame->scalars;
  apply(*body.frame, info.list);
  if (const auto it = body.arrivals.find(instr.op); it != body.arrivals.end()) {
    std::deque<int64_t> &left = it->second.left;
    if (left.empty()) {
      body.arrivals.erase(it);
      return Step::Next;
    }
    scalars[info.position] = static_cast<Scalar>(left.front());
    left.pop_front();
    return jump(body, instr.target);
  }
  const int64_t position = static_cast<int64_t>(scalars[info.position]);
  const int64_t step = static_cast<int64_t>(scalars[info.step]);
  const int64_t last = static_cast<int64_t>(scalars[info.last]);
  // Not `position + step < last`, which may overflow.
  if (last - position <= step)
    return Step::Next;
  scalars[info.position] = static_cast<Scalar>(position + step);
  return jump(body, instr.target);
}

Step runWatchBegin(Body &body, const Instr &instr) {
  body.watches[instr.op] = {};
  return Step::Next;
}

/// Brent's search for a cycle: the state is kept at each power of two.
Step runWatchNext(Body &body, const Instr &instr) {
  const auto &info = static_cast<const WatchInfo &>(*instr.info);
  LoopWatch &watch = body.watches[instr.op];
  const std::vector<Scalar> &scalars = body.frame->scalars;
  ++watch.iterations;
  bool isSame = !watch.kept.empty() || info.slots.empty();
  for (size_t i = 0; isSame && i < info.slots.size(); ++i)
    isSame = watch.kept[i] == scalars[info.slots[i]];
  if (isSame)
    return body.machine.endless(body, *instr.op, watch.iterations);
  if (llvm::isPowerOf2_64(watch.iterations)) {
    watch.kept.clear();
    for (const uint32_t slot : info.slots)
      watch.kept.push_back(scalars[slot]);
  }
  return Step::Next;
}

Step runCall(Body &body, const Instr &instr) {
  const auto &info = static_cast<const CallInfo &>(*instr.info);
  if (body.frames.size() >= kMaxCallDepth)
    return body.machine.trap(body, *instr.op,
                             "calls nest deeper than " + std::to_string(kMaxCallDepth));
  Frame &caller = *body.frame;
  ++caller.pc;
  std::unique_ptr<Frame> callee = body.machine.frames.take(*info.callee);
  for (size_t i = 0; i < info.arguments.size(); ++i)
    copySlot(caller, Slot{info.arguments[i], instr.operands[i].slot}, *callee,
             info.callee->arguments[i].index);
  body.frame = callee.get();
  body.frames.push_back(std::move(callee));
  return Step::Jumped;
}

Step runReturn(Body &body, const Instr &instr) {
  std::unique_ptr<Frame> callee = std::move(body.frames.back());
  body.frames.pop_back();
  Frame &caller = *body.frames.back();
  body.frame = &caller;
  const Instr &call = caller.code->instrs[caller.pc - 1];
  const auto &info = static_cast<const CallInfo &>(*call.info);
  for (size_t i = 0; i < info.results.size(); ++i)
    copySlot(*callee, Slot{info.results[i].bank, instr.operands[i].slot}, caller,
             info.results[i].index);
  body.machine.frames.giveBack(std::move(callee));
  return Step::Jumped;
}

Step runEnd(Body &body, const Instr &instr) {
  const bool givesScalar =
      !instr.operands.empty() && bankOf(instr.op->operand(0)->type()) == Bank::Scalar;
  if (givesScalar) {
    body.result = body.scalar(instr.operands[0]);
  } else if (Observer *observer = body.machine.observer; observer && body.space) {
    TokenVal yielded;
    for (const Operand operand : instr.operands)
      yielded.append(body.token(operand));
    observer->yields(body.observedId(), yielded);
  }
  return Step::Ended;
}

} // namespace dtile::interpret
