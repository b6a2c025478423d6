// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads the body of a space: what lies between two operations that talk to other ranks is one step,
// whose time is the model's.
#include "ir/simulate/steps.h"

#include "ir/analysis/communication.h"
#include "ir/core/tile_order.h"
#include "ir/model/body_time.h"

#include "llvm/ADT/STLExtras.h"

namespace dtile::simulate {

using ir::Block;
using ir::Op;
using ir::OpKind;
using ir::Value;

namespace {

/// Bytes of a word that is read or changed at another rank.
constexpr double kWordBytes = 8;

bool isAtPeer(const Op &op) {
  return llvm::any_of(op.operands(),
                      [](const Value *x) { return x->type().isView() && x->type().isRemote(); });
}

/// Whether an operation is a step of its own.
bool talks(const Op &op) {
  if (op.hasEffect(ir::Signal | ir::Wait | ir::Order) || op.is(OpKind::Put) || op.is(OpKind::Get))
    return true;
  return op.hasEffect(ir::Read | ir::Write | ir::RemoteRead | ir::RemoteWrite) && isAtPeer(op);
}

bool talksInside(Op &op) {
  bool found = false;
  ir::walk(op, [&](Op &inner) { found |= talks(inner); });
  return found;
}

bool reads(Op &op) {
  bool found = false;
  ir::walk(op, [&](Op &inner) { found |= model::readsMemory(inner); });
  return found;
}

class SpaceReader {
public:
  SpaceReader(const TargetFacts &machine, double together, double running, SpaceSteps &made,
              const std::vector<Op *> &signals)
      : machine_(machine), made_(made), a_(made.arithmetic), domain_(a_),
        time_(domain_, machine, a_.real(together), a_.real(running)), signals_(signals) {}

  std::vector<Step> block(Block &block);
  [[nodiscard]] std::optional<Obstacle> &obstacle() { return obstacle_; }

private:
  /// The slot of what a step cannot do without.
  Slot needed(const Op &op, Value &value, const char *what);
  Slot refuse(const Op &op, const std::string &why);
  void work(Op &owner, Slot time, std::vector<Step> &steps);
  void talk(Op &op, std::vector<Step> &steps);
  void copy(Op &op, Step step, std::vector<Step> &steps);
  void notify(Op &op, std::vector<Step> &steps);
  void wait(Op &op, std::vector<Step> &steps);
  void loop(Op &op, std::vector<Step> &steps);
  void branch(Op &op, std::vector<Step> &steps);
  bool cells(const Op &op, Value &cells, Step &step);
  Slot peerOf(const Op &op, Value &place);

  const TargetFacts &machine_;
  SpaceSteps &made_;
  Arithmetic &a_;
  model::TimeDomain domain_;
  model::BodyTime<model::TimeDomain> time_;
  const std::vector<Op *> &signals_;
  std::optional<Obstacle> obstacle_;
  bool hasRead_ = false;
};

Slot SpaceReader::refuse(const Op &op, const std::string &why) {
  if (!obstacle_)
    obstacle_ = Obstacle{op.loc(), why};
  return a_.integer(0);
}

Slot SpaceReader::needed(const Op &op, Value &value, const char *what) {
  const auto known = a_.number(value);
  return known ? *known : refuse(op, std::string(what) + " follows from data");
}

void SpaceReader::work(Op &owner, Slot time, std::vector<Step> &steps) {
  if (time == a_.real(0))
    return;
  Step &step = steps.emplace_back();
  step.loc = owner.loc();
  step.time = time;
}

std::vector<Step> SpaceReader::block(Block &block) {
  std::vector<Step> steps;
  auto first = block.ops().begin();
  const auto isApart = [](Op &op) { return talks(op) || (op.numRegions() > 0 && talksInside(op)); };
  while (first != block.ops().end()) {
    const auto last = std::find_if(first, block.ops().end(), isApart);
    if (last != first) {
      Slot time = time_.time(first, last);
      if (!hasRead_ && std::any_of(first, last, [](Op &op) { return reads(op); })) {
        hasRead_ = true;
        time = domain_.add(time, a_.real(machine_.timing.memoryLatency));
      }
      work(*first, time, steps);
    }
    first = last;
    if (first == block.ops().end())
      break;
    if (first->is(OpKind::For))
      loop(*first, steps);
    else if (first->is(OpKind::If))
      branch(*first, steps);
    else if (first->numRegions() > 0)
      refuse(*first, "how often this loop goes round follows from data");
    else
      talk(*first, steps);
    ++first;
  }
  return steps;
}

void SpaceReader::loop(Op &op, std::vector<Step> &steps) {
  Step step;
  step.kind = StepKind::Loop;
  step.loc = op.loc();
  step.first = needed(op, *op.operand(0), "the start of this loop");
  step.end = needed(op, *op.operand(1), "the end of this loop");
  step.step = needed(op, *op.operand(2), "the step of this loop");
  step.isTogether = model::onlyNotifies(op);
  step.level = a_.beginLevel();
  step.position = a_.input(*op.body().argument(0), step.level);
  step.steps = block(op.body());
  // Operands that come ahead are counted by the round, whose arithmetic goes on meanwhile.
  if (model::loadsAhead(op) != model::Ahead::No) {
    Slot inside = a_.real(0);
    for (const Step &one : step.steps)
      if (one.kind == StepKind::Work)
        inside = domain_.add(inside, one.time);
    llvm::erase_if(step.steps, [](const Step &one) { return one.kind == StepKind::Work; });
    work(op, time_.roundTime(op, inside), step.steps);
  }
  steps.push_back(std::move(step));
}

void SpaceReader::branch(Op &op, std::vector<Step> &steps) {
  Step step;
  step.kind = StepKind::Branch;
  step.loc = op.loc();
  step.condition = needed(op, *op.operand(0), "whether this is done");
  step.steps = block(op.body(0));
  if (op.numRegions() > 1)
    step.otherwise = block(op.body(1));
  steps.push_back(std::move(step));
}

Slot SpaceReader::peerOf(const Op &op, Value &place) {
  Op *at = ir::rankSelectionOf(&place);
  return at ? needed(op, *at->operand(1), "which rank this goes to") : a_.rank();
}

bool SpaceReader::cells(const Op &op, Value &value, Step &step) {
  // Slices from the outermost to this one.
  llvm::SmallVector<Op *, 3> slices;
  Value *whole = &value;
  while (Op *made = whole->definingOp()) {
    if (made->is(OpKind::SigSlice))
      slices.push_back(made);
    else if (!made->is(OpKind::SigAt))
      break;
    whole = made->operand(0);
  }
  const auto it = llvm::find(signals_, whole->definingOp());
  if (it == signals_.end()) {
    refuse(op, "which signal this is follows from data");
    return false;
  }
  step.signal = int32_t(it - signals_.begin());
  /// Of those dimensions that are left, and where they are among all.
  llvm::SmallVector<unsigned, 3> left;
  for (Value *size : (*it)->operands()) {
    left.push_back(unsigned(step.cells.size()));
    step.cells.push_back({a_.integer(0), needed(op, *size, "how many cells there are")});
  }
  for (Op *slice : llvm::reverse(slices)) {
    unsigned next = 1;
    llvm::SmallVector<unsigned, 3> kept;
    for (auto [d, letter] : llvm::enumerate(slice->get(ir::attr::dims))) {
      CellRange &range = step.cells[left[d]];
      if (letter == 'a') {
        kept.push_back(left[d]);
        continue;
      }
      const Slot first = needed(op, *slice->operand(next++), "which cells these are");
      Slot count = a_.integer(1);
      if (letter == 'r') {
        const Slot end = needed(op, *slice->operand(next++), "which cells these are");
        count = a_.emit(Code::Cut, first, end, range.count, a_.integer(INT64_MAX));
        kept.push_back(left[d]);
      }
      range = {a_.emit(Code::Add, range.first, first), count};
    }
    left = kept;
  }
  return true;
}

/// A copy with a known peer; its arithmetic counts for nothing beside it.
void SpaceReader::copy(Op &op, Step step, std::vector<Step> &steps) {
  const model::RemoteAccess access = model::remoteAccess(op);
  step.loc = op.loc();
  step.time = domain_.add(time_.moveTime(op), a_.real(model::latencyOf(op, machine_)));
  if (access.place) {
    step.peer = peerOf(op, *access.place);
    step.bytes =
        access.other ? time_.bytesOfCopy(*access.other, *access.place) : a_.real(kWordBytes);
    if (op.is(OpKind::Gather) || op.is(OpKind::Scatter) || op.is(OpKind::ReduceAddScatter))
      step.bytes = a_.real(model::bytesOf(access.other->type()));
  } else if (isAtPeer(op)) {
    for (Value *x : op.operands())
      if (x->type().isView() && x->type().isRemote())
        step.peer = peerOf(op, *x);
    step.bytes = a_.real(kWordBytes);
  } else {
    step.peer = a_.rank();
    step.bytes = a_.real(0);
  }
  steps.push_back(std::move(step));
}

void SpaceReader::notify(Op &op, std::vector<Step> &steps) {
  Value &target = *ir::cellsOf(op);
  Step step;
  step.kind = StepKind::Notify;
  step.loc = op.loc();
  step.isEpilogue = op.is(OpKind::Notify) && op.get(ir::attr::epilogue);
  step.isBehind = op.is(OpKind::PutSignal) ||
                  llvm::any_of(op.operands(), [](const Value *x) { return x->type().isToken(); });
  Op *at = ir::rankSelectionOf(&target);
  step.peer = at ? needed(op, *at->operand(1), "which rank this tells") : a_.rank();
  if (!cells(op, target, step))
    return;
  made_.hasNotifies = true;
  steps.push_back(std::move(step));
}

void SpaceReader::wait(Op &op, std::vector<Step> &steps) {
  Step step;
  step.kind = StepKind::Wait;
  step.loc = op.loc();
  if (op.numOperands() > 1)
    step.count = needed(op, *op.operand(1), "how many notifies this waits for");
  if (cells(op, *op.operand(0), step))
    steps.push_back(std::move(step));
}

void SpaceReader::talk(Op &op, std::vector<Step> &steps) {
  Step step;
  step.loc = op.loc();
  switch (op.kind()) {
  case OpKind::Notify:
    return notify(op, steps);
  case OpKind::Wait:
    return wait(op, steps);
  case OpKind::Poll:
    refuse(op, "what a poll finds is known when it runs");
    return;
  case OpKind::Barrier:
    step.kind = StepKind::Barrier;
    steps.push_back(std::move(step));
    return;
  case OpKind::MemoryFence:
    // Nobody waits for it.
    return;
  case OpKind::Await:
    // Of acquires there is nothing left to wait for.
    if (llvm::none_of(op.operands(), [](const Value *x) { return x->type().isToken(); }))
      return;
    step.isEpilogue = op.get(ir::attr::epilogue);
    [[fallthrough]];
  case OpKind::Quiet:
  case OpKind::Fence:
    step.kind = StepKind::Land;
    steps.push_back(std::move(step));
    return;
  case OpKind::Put:
    step.isEpilogue = op.get(ir::attr::epilogue);
    [[fallthrough]];
  case OpKind::PutSignal:
  case OpKind::Store:
  case OpKind::Scatter:
  case OpKind::ReduceAdd:
  case OpKind::ReduceAddScatter:
    step.kind = StepKind::Put;
    copy(op, std::move(step), steps);
    if (op.is(OpKind::PutSignal))
      notify(op, steps);
    return;
  default:
    step.kind = StepKind::Get;
    copy(op, std::move(step), steps);
  }
}

} // namespace

std::optional<Obstacle> readSpace(Op &space, const TargetFacts &machine, const KnownSizes &sizes,
                                  double together, double running, SpaceSteps &made,
                                  std::vector<SignalShape> &signals) {
  Arithmetic &a = made.arithmetic;
  made.name = space.get(ir::attr::name).str();
  for (const auto &[value, number] : sizes)
    a.set(*value, number);
  std::vector<Op *> signalOps;
  for (Op &op : space.parentBlock()->ops())
    if (op.is(OpKind::SignalParam))
      signalOps.push_back(&op);
  for (Op *op : signalOps) {
    SignalShape &shape = signals.emplace_back();
    shape.name = op->get(ir::attr::name).str();
    for (Value *size : op->operands()) {
      const auto known = a.number(*size);
      if (!known)
        return Obstacle{op->loc(), "how many cells `" + shape.name + "` has follows from data"};
      shape.sizes.push_back(*known);
    }
  }
  const ir::TileOrder order = ir::TileOrder::fromSpace(space);
  const unsigned dims = ir::spaceDims(space);
  made.position.resize(dims);
  for (unsigned d = 0; d < dims; ++d) {
    const auto first = a.number(*space.operand(3 * d)), end = a.number(*space.operand(3 * d + 1)),
               step = a.number(*space.operand(3 * d + 2));
    if (!first || !end || !step)
      return Obstacle{space.loc(),
                      "how many bodies `" + made.name + "` has is not known from sizes"};
    made.first.push_back(*first);
    made.end.push_back(*end);
    made.step.push_back(*step);
    Value *center = ir::rotationCenter(space, d);
    made.center.push_back(center ? a.number(*center).value_or(a.rank()) : a.rank());
  }
  // Levels are begun outermost first, as bodies follow each other.
  for (const unsigned d : order.order) {
    const int32_t level = a.beginLevel();
    made.position[d] = a.input(*space.body().argument(d), level);
  }
  SpaceReader reader(machine, together, running, made, signalOps);
  made.steps = reader.block(space.body());
  return reader.obstacle();
}

} // namespace dtile::simulate
