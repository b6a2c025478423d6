// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// bound-drift: keeps back-to-back launches apart where ranks may run ahead of each other.
//
// Expects: inlined kernels with derived counts.
// Produces: on each scratch object of a kernel that reaches other ranks at least two `copies`; and,
// where the kernel's own waits do not keep ranks together, attribute `entry_barrier` (ranks meet
// before the bodies of a launch start); where they do, `reads_stale` unless all that a launch reads
// is proved to be written in it, and `in_turn` on callers' objects that peers may not be done with
// but for the part that a launch writes: the runtime gives them to no second kernel that does so.
// Why: a rank that has ended a launch may already notify and write for its next one while a peer
// still reads, or still counts notifies of several ranks in one cell. A rank that cannot end a
// launch before all others have begun it is never two launches ahead, and two copies keep it from
// what its peers still use; a meeting does the same for every kernel, and costs a round trip.
// Waits of bodies that some size leaves without work keep nobody: for launches in which such a size
// is zero the kernel gets one more space, `together`, which waits for all notifies. It has no body
// otherwise.
// Leaves alone: kernels that stay on their rank.
#include "ir/core/builder.h"
#include "ir/core/text_format.h"
#include "ir/protocol/prove/prove_protocol.h"
#include "ir/transform/pass.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <algorithm>
#include <optional>

namespace dtile::passes {

using namespace dtile::ir;

namespace {

/// A kernel with so many spaces gets no more: devices run sixteen.
constexpr int64_t kMostSpaces = 15;

/// One body that waits for all that its rank is notified of, in launches where one of the sizes is
/// zero.
Op *addTogether(Op &kernel, llvm::ArrayRef<Value *> sizes) {
  Builder builder(kernel.body().module());
  builder.setInsertionPoint(kernel.body().terminator());
  Value *zero = builder.constIndex(0), *one = builder.constIndex(1);
  Value *bodies = zero;
  for (Value *size : sizes)
    bodies = builder.max(bodies, builder.sub(one, size));
  std::string name = "together";
  for (Op &op : kernel.body().ops())
    while (op.is(OpKind::Space) && op.get(attr::name) == name)
      name += '_';
  Op *space = builder.op(OpKind::Space, {zero, bodies, one});
  space->set(attr::name, name);
  space->set(attr::vars, std::vector<std::string>{"once"});
  space->setLoc(kernel.loc());
  space->body().addArgument(builder.types().index(), "once");
  builder.setInsertionPointToEnd(space->body());
  llvm::SmallVector<Value *, 4> acquires;
  for (Op &op : kernel.body().ops())
    if (op.is(OpKind::SignalParam))
      acquires.push_back(
          builder.op(OpKind::Wait, {op.result()}, builder.types().acquire())->result());
  builder.op(OpKind::Await, acquires);
  builder.op(OpKind::Yield, {});
  return space;
}

DriftAnswer answerOf(const protocol::DriftBound &bound) {
  DriftAnswer answer{.isBounded = bound.isBounded,
                     .isBoundedTogether = false,
                     .readsStale = bound.readsStale,
                     .reason = bound.reason,
                     .needed = {},
                     .inTurn = {}};
  for (const Value *size : bound.needed) {
    const Op &dim = *size->definingOp();
    answer.needed.emplace_back(dim.get(attr::param), dim.get(attr::dim));
  }
  for (const Op *object : bound.inTurn)
    answer.inTurn.push_back(object->get(attr::param));
  return answer;
}

/// The same of a kernel; nothing where it has not what the answer speaks of.
std::optional<protocol::DriftBound> boundOf(Op &kernel, const DriftAnswer &answer) {
  protocol::DriftBound bound;
  bound.isBounded = answer.isBounded;
  bound.readsStale = answer.readsStale;
  bound.reason = answer.reason;
  for (const auto &[param, dim] : answer.needed)
    for (Op &op : kernel.body().ops())
      if (op.is(OpKind::LaunchDim) && op.get(attr::param) == param && op.get(attr::dim) == dim) {
        bound.needed.push_back(op.result());
        break;
      }
  for (Op &op : kernel.body().ops())
    if (op.is(OpKind::Param) && llvm::is_contained(answer.inTurn, op.get(attr::param)))
      bound.inTurn.insert(&op);
  if (bound.needed.size() != answer.needed.size() || bound.inTurn.size() != answer.inTurn.size())
    return std::nullopt;
  return bound;
}

/// Whether ranks keep together without a meeting; gives the kernel what it needs for that. `known`:
/// what is proved or assumed of it; may be null.
bool keepsTogether(Op &kernel, PassContext &context, const DriftAnswer *known) {
  const std::string name = "`" + kernel.get(attr::name).str() + "`";
  const auto assumed = known ? boundOf(kernel, *known) : std::nullopt;
  protocol::DriftBound bound = assumed ? *assumed : protocol::waitsBoundDrift(kernel);
  DriftAnswer &found = context.drift.emplace(answerOf(bound));
  const auto spaces =
      llvm::count_if(kernel.body().ops(), [](const Op &op) { return op.is(OpKind::Space); });
  if (bound.isBounded && !bound.needed.empty() && spaces >= kMostSpaces) {
    bound.isBounded = false;
    bound.reason = "bodies that some size leaves without work keep nobody, and it has many roles";
  }
  if (bound.isBounded && !bound.needed.empty()) {
    Op *together = addTogether(kernel, bound.needed);
    bound.isBounded =
        assumed ? known->isBoundedTogether : protocol::waitsBoundDriftOfAll(kernel, bound);
    found.isBoundedTogether = bound.isBounded;
    if (!bound.isBounded) {
      bound.reason = "bodies that some size leaves without work keep nobody";
      together->erase();
    }
  }
  if (bound.isBounded && bound.readsStale)
    kernel.set(attr::reads_stale, true);
  if (bound.isBounded)
    for (Op *object : bound.inTurn)
      object->set(attr::by_epoch, true);
  if (bound.isBounded)
    context.remark(kernel, "ranks need not meet before each launch of " + name +
                               ": none ends a launch that another has not begun");
  else
    context.remark(kernel, "ranks meet before each launch of " + name + ": " + bound.reason);
  return bound.isBounded;
}

/// A kernel without its first line: neither its name nor which variant it is decides anything.
std::string textOf(const Op &kernel) {
  std::string text;
  llvm::raw_string_ostream os(text);
  print(kernel, os);
  text.erase(0, text.find('\n'));
  return kernel.has(attr::mesh) ? llvm::join(kernel.get(attr::mesh), ", ") + text : text;
}

/// The same, with what was proved before.
bool keepsTogether(Op &kernel, PassContext &context) {
  if (context.assumedDrift || !context.driftMemory)
    return keepsTogether(kernel, context, context.assumedDrift);
  const std::string text = textOf(kernel);
  const std::optional<DriftAnswer> proved = context.driftMemory->find(text);
  const bool isBounded = keepsTogether(kernel, context, proved ? &*proved : nullptr);
  if (!proved)
    context.driftMemory->add(text, *context.drift);
  return isBounded;
}

} // namespace

bool boundDrift(Module &module, PassContext &context) {
  bool changed = false;
  for (Op &kernel : module.body().ops()) {
    if (!kernel.is(OpKind::Kernel))
      continue;
    bool reachesOthers = false;
    walk(kernel, [&](Op &op) {
      reachesOthers |= op.is(OpKind::ViewAt) || op.is(OpKind::SigAt) || op.is(OpKind::Barrier);
    });
    if (!reachesOthers || kernel.get(attr::entry_barrier))
      continue;
    changed = true;
    if (!keepsTogether(kernel, context))
      kernel.set(attr::entry_barrier, true);
    for (Op &op : kernel.body().ops())
      if (op.is(OpKind::Param) && op.get(attr::mode) == ParamMode::Scratch)
        op.set(attr::copies, std::max<int64_t>(2, op.getOr(attr::copies, 1)));
  }
  return changed;
}

} // namespace dtile::passes
