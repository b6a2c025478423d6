// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A body: its run loop, and the list of what it has sent.
#include "ir/interpret/state.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

namespace dtile::interpret {

Observer::~Observer() = default;

Frame::Frame(const Code &code)
    : code(&code), scalars(code.slots[size_t(Bank::Scalar)]), tiles(code.slots[size_t(Bank::Tile)]),
      views(code.slots[size_t(Bank::View)]), signals(code.slots[size_t(Bank::Signal)]),
      tokens(code.slots[size_t(Bank::Token)]) {}

std::unique_ptr<Frame> FramePool::take(const Code &code) {
  std::vector<std::unique_ptr<Frame>> &ended = ended_[&code];
  if (ended.empty())
    return std::make_unique<Frame>(code);
  std::unique_ptr<Frame> frame = std::move(ended.back());
  ended.pop_back();
  return frame;
}

void FramePool::giveBack(std::unique_ptr<Frame> frame) {
  frame->pc = 0;
  llvm::fill(frame->scalars, 0);
  // These hold memory.
  for (TileRef &tile : frame->tiles)
    tile = {};
  for (TokenVal &token : frame->tokens)
    token.clear();
  ended_[frame->code].push_back(std::move(frame));
}

Body::Body(MachineState &machine, RankRun &rank, SpaceRun *space, const Code &code)
    : machine(machine), rank(rank), space(space) {
  frames.push_back(machine.frames.take(code));
  frame = frames.back().get();
}

Body::~Body() {
  for (std::unique_ptr<Frame> &frame : frames)
    machine.frames.giveBack(std::move(frame));
}

Step Body::run() {
  const uint64_t limit = machine.schedule.maxSteps;
  const bool *stop = machine.schedule.stop;
  const bool isRandom = machine.isRandom();
  for (;;) {
    const Instr &instr = frame->code->instrs[frame->pc];
    const bool maySwitch = isRandom && instr.isCommunication;
    if (maySwitch && !hasSwitched) {
      hasSwitched = true;
      return Step::Next;
    }
    if ((limit != 0 && machine.steps >= limit) || (stop && *stop))
      return machine.fail(RunError::Kind::StepLimit, machine.place(*instr.op) + describe() +
                                                         ": the run was stopped here after " +
                                                         std::to_string(machine.steps) + " steps");
    ++machine.steps;
    switch (const Step step = instr.run(*this, instr)) {
    case Step::Next:
      ++frame->pc;
      if (!maySwitch)
        break;
      hasSwitched = false;
      return Step::Next;
    case Step::Jumped:
      break;
    case Step::Blocked:
    case Step::Failed:
    case Step::Ended:
      return step;
    }
  }
}

// Asynchronous operations.

uint64_t Body::issue(AsyncOp op, llvm::ArrayRef<uint64_t> after) {
  const uint64_t number = async.next();
  const ir::Op *source = async.add(std::move(op)).op;
  ++machine.unlanded;
  if (machine.observer)
    machine.observer->issues(observedId(), *source, number, after);
  heldBack += machine.heldBack == source ? 1 : 0;
  if (machine.landsAtIssue(source))
    land(number);
  async.forgetLanded();
  return number;
}

uint64_t Body::issueAcquire() {
  const uint64_t number = async.next();
  async.add({}).hasLanded = true;
  async.forgetLanded();
  return number;
}

namespace {

/// Copies between views that have been cut to what exists in both.
void copyView(TilePool &pool, const ViewVal &from, const ViewVal &to) {
  if (from.isEmpty() || to.isEmpty())
    return;
  llvm::SmallVector<int64_t, kMaxViewRank> sizes;
  size_t bytes = dtypeBytes(to.dtype);
  for (unsigned d = 0; d < to.dims; ++d) {
    sizes.push_back(to.dim[d].hi);
    bytes *= sizes.back();
  }
  // Through a dense copy, as the two may overlap.
  TileRef dense = pool.allocate(bytes);
  readView(from, sizes, dense.data());
  writeView(to, sizes, dense.data());
}

/// One element of an object.
ViewVal elementAt(const ViewVal &view, char *place) {
  ViewVal element = view;
  element.dims = 0;
  element.data = place;
  return element;
}

void addElements(TermTable *terms, const AsyncOp &op) {
  const auto *values = static_cast<const char *>(op.values.data());
  for (const AsyncOp::Element &element : *op.elements) {
    const ViewVal to = elementAt(*op.destination, element.place);
    if (terms)
      addTerms(*terms, to, {}, values + element.byte);
    else
      addToView(to, {}, values + element.byte);
  }
}

/// Moves or adds the elements of a transfer.
void copyData(MachineState &machine, const AsyncOp &op) {
  TilePool &pool = machine.tiles;
  const ViewVal &to = *op.destination;
  TermTable *terms = to.dtype == DType::F64 ? machine.schedule.terms : nullptr;
  if (op.elements)
    addElements(terms, op);
  else if (op.kind == AsyncOp::Kind::ReduceAdd && terms)
    addTerms(*terms, to, op.valueSizes, op.values.data());
  else if (op.kind == AsyncOp::Kind::ReduceAdd)
    addToView(to, op.valueSizes, op.values.data());
  else if (op.source)
    copyView(pool, *op.source, to);
  else
    writeView(to, op.valueSizes, op.values.data());
}

} // namespace

void Body::land(uint64_t number) {
  AsyncOp *op = async.find(number);
  if (!op || op->hasLanded)
    return;
  // Landing others moves nothing: places change when something is added or forgotten.
  landFenced(op->toRank, op->fence);
  op->hasLanded = true;
  --machine.unlanded;
  heldBack -= machine.heldBack && machine.heldBack == op->op ? 1 : 0;
  Observer *observer = machine.observer;
  const ViewVal &to = *op->destination;
  if (observer) {
    if (op->source)
      observer->access(observedId(), *op->op, AccessKind::Read, *op->source, {}, number);
    const bool adds = op->kind == AsyncOp::Kind::ReduceAdd;
    if (op->elements)
      for (const AsyncOp::Element &element : *op->elements)
        observer->access(observedId(), *op->op, AccessKind::Atomic, elementAt(to, element.place),
                         {}, number);
    // What is copied from a position that is not there arrives nowhere.
    else if (!op->source || !op->source->isOutside)
      observer->access(observedId(), *op->op, adds ? AccessKind::Atomic : AccessKind::Write, to, {},
                       number);
  }
  if (op->movesData)
    copyData(machine, *op);
  if (op->notifies) {
    if (observer)
      observer->notifies(observedId(), *op->op, *op->notifies, {}, number);
    machine.notify(*op->notifies);
  }
  // The memory goes now; the entry stays until those before it have landed.
  const bool landed = op->hasLanded;
  *op = AsyncOp();
  op->hasLanded = landed;
}

void Body::landFenced(int32_t toRank, uint32_t fence) {
  if (fence == 0 || toRank < 0)
    return;
  for (const auto &[i, op] : llvm::enumerate(async.all()))
    if (!op.hasLanded && op.toRank == toRank && op.fence < fence)
      land(async.oldest() + i);
}

void Body::landAll() {
  publish();
  for (uint64_t number = async.oldest(); number < async.next(); ++number)
    land(number);
  async.forgetLanded();
}

bool Body::landOne(const ir::Op *but) {
  llvm::SmallVector<uint64_t, 16> late;
  for (const auto &[i, op] : llvm::enumerate(async.all()))
    if (!op.hasLanded && (!but || op.op != but))
      late.push_back(async.oldest() + i);
  if (late.empty())
    return false;
  land(late[machine.isRandom() ? machine.random() % late.size() : 0]);
  async.forgetLanded();
  return true;
}

// Stores.

namespace {

/// The bytes from the first to past the last position that exists.
std::pair<const char *, const char *> spanOf(const ViewVal &view) {
  const auto bytes = int64_t(dtypeBytes(view.dtype));
  int64_t first = 0;
  int64_t last = 0;
  for (unsigned d = 0; d < view.dims; ++d) {
    first += view.dim[d].lo * view.dim[d].stride;
    last += (view.dim[d].hi - 1) * view.dim[d].stride;
  }
  return {view.data + first * bytes, view.data + (last + 1) * bytes};
}

bool overlap(const ViewVal &a, const ViewVal &b) {
  if (a.isEmpty() || b.isEmpty())
    return false;
  const auto [first, end] = spanOf(a);
  const auto [from, to] = spanOf(b);
  return from < end && first < to;
}

void write(const HeldStore &store) {
  if (store.tile)
    writeView(store.view, store.sizes, store.tile.data());
  else
    writeView(store.view, {}, &store.scalar);
}

/// Held stores of one body; older ones become visible then.
constexpr size_t kMostHeld = 64;

} // namespace

bool Body::isInFlight(const ViewVal &view) const {
  return llvm::any_of(async.all(), [&](const AsyncOp &op) {
    return !op.hasLanded &&
           ((op.source && overlap(*op.source, view)) || overlap(*op.destination, view));
  });
}

void Body::store(HeldStore store) {
  // What changes a transfer that is still on its way shows most when it does so at once.
  if (isInFlight(store.view)) {
    publish();
    return write(store);
  }
  if (!machine.holdsStores() && held.empty())
    return write(store);
  // Behind older ones, so that a place keeps the last.
  if (held.size() >= kMostHeld)
    publish();
  held.push_back(std::move(store));
}

void Body::publish() {
  for (const HeldStore &store : held)
    write(store);
  held.clear();
}

void Body::publishFor(const ViewVal &view) {
  if (llvm::any_of(held, [&](const HeldStore &store) { return overlap(store.view, view); }))
    publish();
}

TokenVal Body::tokensOf(const Instr &instr) {
  TokenVal all;
  for (size_t i = instr.firstToken; i < instr.operands.size(); ++i)
    all.append(token(instr.operands[i]));
  return all;
}

void Body::completeTokens(const Instr &instr) {
  for (size_t i = instr.firstToken; i < instr.operands.size(); ++i)
    for (const uint64_t number : token(instr.operands[i])) {
      land(number);
      if (machine.observer)
        machine.observer->completes(observedId(), number);
    }
  async.forgetLanded();
}

BodyId Body::observedId() const {
  return {.number = id,
          .rank = rank.rank,
          .launch = machine.kernel->epoch[rank.rank],
          .space = space ? space->code->op : nullptr,
          .positions = positions};
}

std::string Body::describe() const {
  std::string text =
      "rank " + std::to_string(rank.rank) + ", kernel `" + machine.kernel->code->name + "`";
  if (!space)
    return text;
  if (!space->code->name.empty())
    text += ", role `" + space->code->name + "`";
  if (positions.empty())
    return text;
  text += " (";
  for (size_t d = 0; d < positions.size(); ++d) {
    const std::vector<std::string> &vars = space->code->vars;
    text += (d ? ", " : "") + (d < vars.size() ? vars[d] + " = " : std::string()) +
            std::to_string(positions[d]);
  }
  return text + ")";
}

} // namespace dtile::interpret
