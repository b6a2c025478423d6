// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a proof consists of: nothing stops the launch, waits end, accesses are ordered, the kernel
// ends clean.
#include "ir/protocol/prove/prover.h"

#include "ir/analysis/clauses.h"
#include "ir/analysis/communication.h"
#include "ir/analysis/launch_values.h"
#include "ir/analysis/ordering.h"

#include "llvm/ADT/STLExtras.h"

namespace dtile::protocol::prove {

Prover::Prover(Op &kernel, const ProofOptions &options)
    : kernel_(kernel), isOrderAsked_(options.isOrderAsked) {
  budget_.left = work_ = options.work;
  collect();
}

void Prover::fail(const Op *op, std::string text, const Op *other, Unproved::Kind kind) {
  const bool isKnown = llvm::any_of(proof_.unproved, [&](const Unproved &known) {
    return known.op == op && known.text == text && known.other == other;
  });
  if (!isKnown)
    proof_.unproved.push_back({op, std::move(text), other, kind});
  isAnswered_ |=
      isOrderAsked_ && (kind == Unproved::Kind::Course || kind == Unproved::Kind::AnyOrder);
}

void Prover::collect() {
  for (Op &op : kernel_.body().ops())
    if (op.is(OpKind::Space))
      spaces_.push_back(&op);
  const auto access = [&](Op &op, Value *view, Access::Kind kind) {
    if (!view->type().isView())
      return;
    Op *object = ir::objectOf(view);
    if (!object || !object->is(OpKind::Param))
      fail(&op, "which memory is touched here");
    else if (object->get(ir::attr::mode) != ir::ParamMode::In)
      accesses_.push_back({kind, &op, view, object, ir::isTransfer(op)});
  };
  for (Op *space : spaces_)
    ir::walk(*space, [&](Op &op) {
      for (Value *view : ir::readViews(op))
        if (!ir::isAtomic(op))
          access(op, view, Access::Kind::Read);
      if (Value *view = ir::writtenView(op))
        access(op, view,
               ir::isAtomic(op) || op.is(OpKind::ReduceAdd) || op.is(OpKind::ReduceAddScatter)
                   ? Access::Kind::Atomic
                   : Access::Kind::Write);
      if (op.is(OpKind::Notify) || op.is(OpKind::PutSignal))
        notifies_.push_back(&op);
      else if (op.is(OpKind::Wait))
        waits_.push_back(&op);
      else if (op.is(OpKind::Barrier))
        barriers_.push_back(&op);
      else if (op.is(OpKind::Call))
        fail(&op, "what the function does");
      hasScalarInputs_ |= op.is(OpKind::Load) && !op.result()->type().isTile();
    });
  hasMetBarriers_ = areBarriersMet();
}

// An assertion of a program has a text without values; those with values are about transfers.
static std::string assertedText(const Op &op) {
  if (op.numOperands() == 1)
    return "that this assertion holds";
  return llvm::StringRef(op.get(ir::attr::message)).contains("past the end")
             ? "that this range ends within its dimension"
             : "that both sides of this transfer have one size";
}

/// Ranks, cells and asserted conditions.
void Prover::proveTraps(Op &op) {
  const bool selectsRank = op.is(OpKind::ViewAt) || op.is(OpKind::SigAt);
  const bool sends = ir::isTransfer(op);
  if (!selectsRank && !op.is(OpKind::SigSlice) && !op.is(OpKind::Assert) &&
      !op.is(OpKind::ViewReshape) && !sends)
    return;
  // Which launches there are is the caller's; those are shown to be right.
  if (ir::isPrecondition(op) || ir::isAssumption(op))
    return;
  ++proof_.obligations;
  Scene scene(budget_);
  Instance at = scene.instance(&op);
  Facts facts;
  scene.assume(facts, at);
  scene.assumeAsserted(facts, at);
  scene.assumeNarrow(facts, at, /*isWhole=*/false);
  const auto holds = [&](const Polynomial &p) {
    return scene.impliesInCases(facts, at, Formula::atLeastZero(p));
  };
  if (selectsRank) {
    const Polynomial rank = scene.polys.of(op.operand(1), at.environment);
    const auto isBelow = [&](const Polynomial &number, const Polynomial &limit) {
      return holds(number) && holds(limit - number - Polynomial(1));
    };
    // A numeral is a rank where its first digit is one: W is a multiple of that digit's stride.
    const RankAxes &axes = scene.axesOf(kernel_);
    const size_t last = axes.axes.size() - 1;
    const std::optional<Polynomial> &places = axes.axes[last].extent;
    const bool isRank =
        isBelow(rank, var(scene.polys.numRanks())) ||
        (last > 0 && places && isBelow(axes.digitOf(scene.polys, rank, last), *places));
    if (!isRank)
      fail(&op, "that this is the number of a rank");
    const Op *object = ir::objectOf(op.operand(0));
    const bool isSymmetric = object && (object->is(OpKind::SignalParam) ||
                                        object->get(ir::attr::mode) == ir::ParamMode::Symm ||
                                        object->get(ir::attr::mode) == ir::ParamMode::Scratch);
    if (!isSymmetric)
      fail(&op, "that this object is symmetric");
    return;
  }
  if (op.is(OpKind::Assert)) {
    const Formula asserted = scene.formula(op.operand(0), true, at);
    const auto isSoOfWhole = [&] {
      scene.assumeNarrow(facts, at, /*isWhole=*/true);
      return scene.impliesInCases(facts, at, asserted);
    };
    if (!scene.impliesInCases(facts, at, asserted) && !isSoOfWhole())
      fail(&op, assertedText(op), nullptr, Unproved::Kind::Stop);
    return;
  }
  if (op.is(OpKind::ViewReshape)) {
    // The same elements in another shape: of a whole parameter, with as many elements.
    Op *object = op.operand(0)->definingOp();
    while (object && object->is(OpKind::ViewAt))
      object = object->operand(0)->definingOp();
    Polynomial had(1), has(1);
    const bool isWhole = object && object->is(OpKind::Param);
    for (unsigned d = 0; isWhole && d < object->numOperands(); ++d)
      had = had * scene.polys.of(object->operand(d), at.environment);
    for (unsigned d = 1; d < op.numOperands(); ++d)
      has = has * scene.polys.of(op.operand(d), at.environment);
    if (!isWhole || !scene.refuter.impliesEqual(facts, had, has))
      fail(&op, "that this view has such a shape");
    return;
  }
  if (sends) {
    // What is sent to no position is lost.
    const Region to = scene.region(ir::writtenView(op), at, facts);
    for (const auto &[slice, condition] : to.inside)
      if (!holds(condition)) {
        fail(&op, "that " + (to.object ? nameOf(*to.object) : std::string("the object")) +
                      " has this position");
        return;
      }
    if (!op.operand(0)->type().isView())
      return;
    const Op *object = ir::objectOf(op.operand(0));
    const auto from = scene.shape(op.operand(0), at, facts);
    const bool isThere = from && llvm::all_of(from->inside, [&](const auto &inside) {
                           return holds(inside.second);
                         });
    if (!isThere)
      fail(&op,
           "that " + (object ? nameOf(*object) : std::string("the source")) + " has this position",
           nullptr, Unproved::Kind::OneLaunch);
    const auto sizes = scene.sizes(op.operand(0), at);
    const auto toSizes = scene.sizes(ir::writtenView(op), at);
    const bool areEqual = sizes && toSizes && sizes->size() == toSizes->size() &&
                          llvm::all_of(llvm::zip_equal(*sizes, *toSizes), [&](const auto &both) {
                            const auto &[a, b] = both;
                            return a == b || (holds(a - b) && holds(b - a));
                          });
    if (!areEqual)
      fail(&op, "that both sides of this copy have one size", nullptr, Unproved::Kind::Stop);
    return;
  }
  const Region cells = scene.region(op.result(), at, facts);
  for (const auto &[slice, condition] : cells.inside)
    if (slice == &op && !holds(condition)) {
      fail(&op, "that this is a cell of " +
                    (cells.object ? nameOf(*cells.object) : std::string("the signal")));
      return;
    }
  if (!cells.object)
    fail(&op, "which cells these are");
}

/// Polynomials divide by what is positive.
void Prover::provePositive(Op &op) {
  const bool divides = (op.is(OpKind::Div) || op.is(OpKind::Rem)) && op.result()->type().isIndex();
  if (!divides)
    return;
  Scene scene(budget_, Scene::Ranks::Plain);
  Facts facts;
  Instance at;
  if (spaceOf(&op)) {
    at = scene.instance(&op);
    scene.assume(facts, at);
  } else {
    at.environment.hasOwnValues = true;
    scene.assumeLaunch(facts, kernel_, at);
  }
  const Polynomial divisor = scene.polys.of(op.operand(1), at.environment);
  if (scene.implies(facts, divisor - Polynomial(1)))
    return;
  fail(&op, "that this divides by more than zero");
  const Op *scalar = op.operand(1)->definingOp();
  while (scalar && scalar->is(OpKind::Cast))
    scalar = scalar->operand(0)->definingOp();
  if (scalar && scalar->is(OpKind::ScalarParam))
    proof_.unproved.back().clause = scalar->get(ir::attr::name).str() + " > 0";
}

void Prover::proveRanges() {
  ir::walk(kernel_, [&](Op &op) {
    for (Op *at = op.parentOp(); at; at = at->parentOp())
      // Derived counts divide by what their kernels divide by.
      if (at->is(OpKind::SignalParam))
        return;
    provePositive(op);
    if (spaceOf(&op) && !isOutOfTime())
      proveTraps(op);
  });
}

Proof Prover::run() {
  proveRanges();
  proveWaits();
  proveRaces();
  proveSingleOps();
  proveArrivals();
  proveCallers();
  proveContents();
  if (isOutOfTime())
    fail(&kernel_, "everything, with the work that a proof may be");
  proof_.work = work_ - budget_.left;
  return std::move(proof_);
}

} // namespace dtile::protocol::prove

namespace dtile::protocol {

bool leavesNoLaunch(ir::Op &kernel) {
  using namespace prove;
  ir::RefutationBudget budget;
  Scene scene(budget);
  Instance launch;
  launch.environment.hasOwnValues = true;
  Facts facts;
  scene.assumeLaunch(facts, kernel, launch);
  for (Op &space : kernel.body().ops())
    // What stands directly in a body that each launch has.
    if (space.is(OpKind::Space) && space.numOperands() == 0)
      for (Op &op : space.body().ops())
        if (ir::isPrecondition(op))
          scene.assume(facts, scene.formula(op.operand(0), true, launch));
  return scene.refuter.isImpossible(facts);
}

Proof proveProtocol(ir::Op &kernel, const ProofOptions &options) {
  return prove::Prover(kernel, options).run();
}

} // namespace dtile::protocol
