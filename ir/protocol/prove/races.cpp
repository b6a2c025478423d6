// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Races: each two accesses to one object of which one writes touch different elements, or come one
// after the other. What peers do to a caller's memory lies between the beginning and the end of
// the kernel there. What the kernel's own memory is read for has been written.
#include "ir/protocol/prove/prover.h"

#include "frontend/base/check.h"
#include "ir/analysis/communication.h"
#include "ir/analysis/ordering.h"

#include "llvm/ADT/STLExtras.h"

#include <array>

namespace dtile::protocol::prove {

bool conflict(const Access &a, const Access &b) {
  if (a.kind == Access::Kind::Read && b.kind == Access::Kind::Read)
    return false;
  return a.kind != Access::Kind::Atomic || b.kind != Access::Kind::Atomic;
}

/// Two accesses that meet: their executions, and where they meet.
struct Prover::Pair {
  Pair(const Access &first, const Access &second, ir::RefutationBudget &budget)
      : first(first), second(second), scene(budget) {}
  const Access &first;
  const Access &second;
  Scene scene;
  Instance a, b;
  Region regionA, regionB;
  /// An element that both touch.
  llvm::SmallVector<Polynomial, 4> point;
  /// Whether it is known which of them runs in the earlier iteration.
  bool hasOrderedLoops = false;
};

namespace {

llvm::SmallVector<Polynomial, 4> pointOf(Scene &scene, const Region &region) {
  llvm::SmallVector<Polynomial, 4> point;
  for (size_t d = 0; d < region.dims.size(); ++d)
    point.push_back(var(scene.polys.fresh()));
  return point;
}

llvm::StringRef verbOf(const Access &access) {
  switch (access.kind) {
  case Access::Kind::Read:
    return "read";
  case Access::Kind::Write:
    return "write";
  case Access::Kind::Atomic:
    return "update";
  }
  return "";
}

bool isCallers(const Op &object) { return object.get(ir::attr::mode) == ir::ParamMode::Symm; }

/// Loops around both of two ops, outermost first.
llvm::SmallVector<Op *, 4> commonLoops(Op *a, Op *b) {
  llvm::SmallVector<Op *, 4> loops;
  for (Op *x = a->parentOp(); x && !x->is(OpKind::Space); x = x->parentOp())
    for (Op *y = b->parentOp(); y; y = y->parentOp())
      if (x == y && !x->is(OpKind::If))
        loops.insert(loops.begin(), x);
  return loops;
}

/// The positions of an element of a kernel's input that is read: nobody writes it.
std::optional<llvm::ArrayRef<Value *>> positionsOfInput(const Op &load) {
  const Op *slice = load.is(OpKind::Load) ? load.operand(0)->definingOp() : nullptr;
  if (!slice || !slice->is(OpKind::ViewSlice) || load.operand(0)->type().rank() != 0)
    return std::nullopt;
  const Op *object = slice->operand(0)->definingOp();
  if (!object || !object->is(OpKind::Param) || object->get(ir::attr::mode) != ir::ParamMode::In)
    return std::nullopt;
  return slice->operands().drop_front();
}

/// The numbers of the iterations of a loop that both are in, or of the only loop that each is in.
std::optional<std::pair<AtomId, AtomId>> iterationsOf(const Instance &a, const Instance &b) {
  llvm::SmallVector<Instance::Coordinate, 4> loopsOfA, loopsOfB;
  const auto isLoop = [](const Instance::Coordinate &c) { return c.of->is(OpKind::For); };
  llvm::copy_if(a.coordinates, std::back_inserter(loopsOfA), isLoop);
  llvm::copy_if(b.coordinates, std::back_inserter(loopsOfB), isLoop);
  for (const Instance::Coordinate &x : loopsOfA)
    for (const Instance::Coordinate &y : loopsOfB)
      if (x.of == y.of && x.number != y.number)
        return std::pair(x.number, y.number);
  if (loopsOfA.size() == 1 && loopsOfB.size() == 1 &&
      loopsOfA.front().number != loopsOfB.front().number)
    return std::pair(loopsOfA.front().number, loopsOfB.front().number);
  return std::nullopt;
}

AtomId numberIn(const Instance &instance, const Op *of, unsigned dim) {
  for (const Instance::Coordinate &c : instance.coordinates)
    if (c.of == of && c.dim == dim)
      return c.number;
  DTILE_UNREACHABLE("a loop around an op is none of its coordinates");
}

} // namespace

/// No overlap, or a path.
bool Prover::proveCase(Pair &pair, const Facts &known) {
  Scene &scene = pair.scene;
  if (scene.refuter.isImpossible(known))
    return true;
  Facts facts = known;
  scene.relate(facts, pair.a, pair.b);
  scene.relateCounts(facts, pair.a, pair.b);
  if (facts.size() > known.size() && scene.refuter.isImpossible(facts))
    return true;
  if (isOutOfTime())
    return false;
  const auto path = [&](const Access &from, Instance &at, const Region &region, Instance &to) {
    return hasPath(scene, facts, headsOf(scene, from, at, region), tailsOf(scene, to, Reach::Near));
  };
  // Where it is known which iteration comes first, these are among what is looked for below.
  if (!pair.hasOrderedLoops && (path(pair.first, pair.a, pair.regionA, pair.b) ||
                                path(pair.second, pair.b, pair.regionB, pair.a)))
    return true;
  // Of ranks that go through one loop, each iteration may come after another one of the other
  // rank.
  const auto loops = iterationsOf(pair.a, pair.b);
  if (loops && !pair.hasOrderedLoops) {
    const auto [x, y] = *loops;
    Facts less = known, same = known, more = known;
    ir::addLess(less, var(x), var(y));
    ir::addEqual(same, var(x), var(y));
    ir::addLess(more, var(y), var(x));
    pair.hasOrderedLoops = true;
    const bool isShown = proveCase(pair, same) && proveCase(pair, less) && proveCase(pair, more);
    pair.hasOrderedLoops = false;
    return isShown;
  }
  // In some cases the one comes first, in some the other: as with an owner's own part, or with the
  // rounds of a buffer.
  // How far paths reach, and how many signals they have: what is found fast comes first.
  for (const auto &[reach, signals] :
       {std::pair(Reach::Near, 1U), std::pair(Reach::Farther, 1U), std::pair(Reach::Far, 1U),
        std::pair(Reach::Far, kMostSignals)}) {
    std::vector<Head> headsA = headsOf(scene, pair.first, pair.a, pair.regionA, reach);
    std::vector<Head> headsB = headsOf(scene, pair.second, pair.b, pair.regionB, reach);
    std::vector<Tail> tailsA = tailsOf(scene, pair.a, reach);
    std::vector<Tail> tailsB = tailsOf(scene, pair.b, reach);
    std::vector<Goal> goals;
    for (unsigned hops = 0; hops < signals && !isOutOfTime(); ++hops) {
      llvm::append_range(goals, join(scene, facts, headsA, tailsB, reach, hops));
      llvm::append_range(goals, join(scene, facts, headsB, tailsA, reach, hops));
      if (reachesOne(scene, facts, goals))
        return true;
    }
  }
  std::vector<Tail> behindA =
      tailsOfWritten(scene, facts, pair.first, pair.a, pair.regionA, pair.point);
  std::vector<Tail> behindB =
      tailsOfWritten(scene, facts, pair.second, pair.b, pair.regionB, pair.point);
  return hasPath(scene, facts, headsOf(scene, pair.first, pair.a, pair.regionA), behindB) ||
         hasPath(scene, facts, headsOf(scene, pair.second, pair.b, pair.regionB), behindA);
}

/// The waits before what the body has written at once at an element: a later access of the body to
/// that element is after them, too.
std::vector<Tail> Prover::tailsOfWritten(Scene &scene, const Facts &facts, const Access &access,
                                         Instance &at, const Region &region,
                                         llvm::ArrayRef<Polynomial> point) {
  std::vector<Tail> tails;
  for (const Access &write : accesses_) {
    if (write.kind != Access::Kind::Write || write.isAsync || write.op->is(OpKind::Scatter) ||
        write.object != access.object || spaceOf(write.op) != at.space ||
        !isBefore(write.op, access.op) || waitsBefore(write.op).empty())
      continue;
    Instance writer = scene.instance(write.op, &at, Shares::Body);
    const Region to = scene.region(write.view, writer, facts);
    const auto covered = covers(scene, facts, write, writer, to, region, point);
    if (!covered)
      continue;
    for (Tail &tail : tailsOf(scene, writer, Reach::Near)) {
      tail.goal.add(*covered);
      tails.push_back(std::move(tail));
    }
  }
  return tails;
}

/// Whether a value is one in two bodies of a rank: computed from positions that are equal, and from
/// elements of inputs there.
bool Prover::isOneValue(Pair &pair, const Facts &facts, Value *value) {
  if (value->type().isIndex() &&
      pair.scene.refuter.impliesEqual(facts, pair.scene.polys.of(value, pair.a.environment),
                                      pair.scene.polys.of(value, pair.b.environment)))
    return true;
  const Op *op = value->definingOp();
  if (!op)
    return false;
  const auto isOne = [&](Value *operand) { return isOneValue(pair, facts, operand); };
  if (const auto positions = positionsOfInput(*op))
    return llvm::all_of(*positions, isOne);
  // What is made of indices is in their polynomials.
  return value->type().isScalar() && op->isPure() && llvm::all_of(op->operands(), isOne);
}

/// Adds that numbers are equal in both bodies, where they are one value.
void Prover::addEqualInputs(Pair &pair, Facts &facts) {
  const auto &a = pair.a.environment.values, &b = pair.b.environment.values;
  ir::walk(*pair.a.space, [&](Op &op) {
    for (Value *value : op.results())
      if ((!value->type().isIndex() || positionsOfInput(op)) && a.contains(value) &&
          b.contains(value) && isOneValue(pair, facts, value))
        ir::addEqual(facts, a.lookup(value), b.lookup(value));
  });
}

/// Shows what is to be shown where two coordinates differ; then they are equal. Of coordinates that
/// are so far apart, or farther, the smaller one's execution is over before the other begins.
bool Prover::isSplit(Pair &pair, Facts &facts, AtomId x, AtomId y, Distance isOver,
                     Distance isOverBack) {
  if (x == y)
    return true;
  const auto isShown = [&](AtomId low, AtomId high, Distance distance) {
    if (distance == 1)
      return true;
    Facts apart = facts;
    ir::addLess(apart, var(low), var(high));
    if (distance)
      ir::addLess(apart, var(high), var(low) + Polynomial(*distance));
    return proveCase(pair, apart);
  };
  // Two executions of one access may be taken either way around.
  const bool isSame = &pair.first == &pair.second;
  const bool areShown = isShown(x, y, isOver) && (isSame || isShown(y, x, isOverBack));
  ir::addEqual(facts, var(x), var(y));
  return areShown;
}

/// The same of the ranks, axis by axis.
bool Prover::isSplitByRank(Pair &pair, Facts &facts) {
  return llvm::all_of(llvm::reverse(llvm::zip_equal(pair.a.digits, pair.b.digits)), [&](auto both) {
    return isSplit(pair, facts, std::get<0>(both), std::get<1>(both), std::nullopt, std::nullopt);
  });
}

/// Two accesses of one body.
bool Prover::proveOneBody(Pair &pair, Facts facts) {
  Op *a = pair.first.op, *b = pair.second.op;
  const bool isOverA = isOverInIteration(a, pair.first.isAsync, b);
  const bool isOverB = isOverInIteration(b, pair.second.isAsync, a);
  const llvm::SmallVector<Op *, 4> loops = commonLoops(a, b);
  // Tokens that go through the only loop around both: some iterations later all is over.
  const auto untilOver = [&](const Access &access, Op *later) {
    return access.isAsync && loops.size() == 1 ? iterationsUntilOver(access.op, later)
                                               : std::nullopt;
  };
  for (Op *loop : loops)
    if (!isSplit(pair, facts, numberIn(pair.a, loop, 0), numberIn(pair.b, loop, 0),
                 isOverA ? 1 : untilOver(pair.first, b), isOverB ? 1 : untilOver(pair.second, a)))
      return false;
  // One execution of one op is one thing.
  if (a == b)
    return true;
  const bool isFirst = isBefore(a, b);
  if (!isFirst && !isBefore(b, a)) {
    // Arms of one condition: only one of them runs. Of other regions both may.
    const bool isSafe = areInArms(a, b) || (!pair.first.isAsync && !pair.second.isAsync);
    return isSafe || proveCase(pair, facts);
  }
  const bool isDone =
      isFirst ? isOrdered(a, pair.first.isAsync, b) : isOrdered(b, pair.second.isAsync, a);
  return isDone || proveCase(pair, facts);
}

bool Prover::provePair(const Access &first, const Access &second) {
  return provePair(first, second, Uses::Positions) ||
         (hasScalarInputs_ && provePair(first, second, Uses::Inputs)) ||
         provePair(first, second, Uses::Cases);
}

bool Prover::provePair(const Access &first, const Access &second, Uses uses) {
  Pair pair(first, second, budget_);
  Scene &scene = pair.scene;
  pair.a = scene.instance(first.op);
  pair.b = scene.instance(second.op);
  Facts facts;
  for (Instance *instance : {&pair.a, &pair.b}) {
    scene.assume(facts, *instance);
    if (uses != Uses::Positions)
      scene.assumeAsserted(facts, *instance);
  }
  if (uses != Uses::Cases)
    return provePair(pair, std::move(facts), uses);
  const auto cases = scene.casesOf(facts, {&pair.a, &pair.b});
  return cases && llvm::all_of(*cases, [&](const Facts &one) {
           return !isOutOfTime() && provePair(pair, one, uses);
         });
}

bool Prover::provePair(Pair &pair, Facts facts, Uses uses) {
  Scene &scene = pair.scene;
  const Access &first = pair.first, &second = pair.second;
  pair.regionA = scene.region(first.view, pair.a, facts);
  pair.regionB = scene.region(second.view, pair.b, facts);
  pair.point = scene.assumeMeeting(facts, pair.regionA, pair.regionB);
  if (isMetBetween(first.op, second.op) || isMetBetween(second.op, first.op))
    return true;
  const std::vector<Rounds> ahead = roundsOf(first.op, second.op);
  if (ahead.empty())
    return proveUnmet(pair, std::move(facts), uses);
  // Rounds so near to each other that ranks do not meet between them.
  const std::vector<Rounds> back = roundsOf(second.op, first.op);
  const bool isSameMet = ahead.front().isSameMet || back.front().isSameMet;
  for (int64_t later = 1 - int64_t(back.front().untilMet); later < int64_t(ahead.front().untilMet);
       ++later) {
    if (later == 0 && isSameMet)
      continue;
    Facts near = facts;
    ir::addEqual(near, var(numberIn(pair.b, back.front().loop, 0)),
                 var(numberIn(pair.a, back.front().loop, 0)) + Polynomial(later));
    if (!proveUnmet(pair, std::move(near), uses))
      return false;
  }
  return true;
}

/// Where ranks do not meet between both.
bool Prover::proveUnmet(Pair &pair, Facts facts, Uses uses) {
  Scene &scene = pair.scene;
  const Access &first = pair.first, &second = pair.second;
  if (scene.refuter.isImpossible(facts))
    return true;
  if (pair.a.space != pair.b.space) {
    const bool isBehind = isAfterSpace(pair.a.space, pair.b.space);
    const bool isAhead = isAfterSpace(pair.b.space, pair.a.space);
    const bool isOver =
        (isBehind &&
         (isOverInBody(first.op, first.isAsync) || isAfterYielded(first.op, second.op))) ||
        (isAhead &&
         (isOverInBody(second.op, second.isAsync) || isAfterYielded(second.op, first.op)));
    if (!isOver)
      return proveCase(pair, facts);
    return isSplitByRank(pair, facts);
  }
  if (!isSplitByRank(pair, facts))
    return false;
  if (uses != Uses::Positions && hasScalarInputs_)
    addEqualInputs(pair, facts);
  // Bodies of one rank: one after the other where the author has said so.
  const bool isOneByOne =
      pair.a.space->get(ir::attr::ordered) && pair.a.space->getOr(ir::attr::programs, 0) <= 1;
  const bool isOver = isOneByOne && isOverInBody(first.op, first.isAsync) &&
                      isOverInBody(second.op, second.isAsync);
  const Distance whenOver = isOver ? Distance(1) : std::nullopt;
  for (unsigned d = 0; d < pair.a.coordinates.size(); ++d)
    if (pair.a.coordinates[d].of == pair.a.space &&
        !isSplit(pair, facts, pair.a.coordinates[d].number, pair.b.coordinates[d].number, whenOver,
                 whenOver))
      return false;
  return proveOneBody(pair, std::move(facts));
}

void Prover::proveRaces() {
  for (size_t i = 0; i < accesses_.size(); ++i)
    for (size_t j = i; j < accesses_.size(); ++j) {
      const Access &a = accesses_[i], &b = accesses_[j];
      if (a.object != b.object || !conflict(a, b))
        continue;
      ++proof_.obligations;
      const BudgetShare share(budget_);
      if (isOutOfTime() || !provePair(a, b))
        fail(a.op,
             i == j
                 ? "that this " + verbOf(a).str() + " of " + nameOf(*a.object) +
                       " never meets itself in another body"
                 : "that this " + verbOf(a).str() + " of " + nameOf(*a.object) + " and another " +
                       verbOf(b).str() + " come in an order, or touch different elements",
             i == j ? nullptr : b.op,
             isCallers(*a.object) ? Unproved::Kind::OneLaunch : Unproved::Kind::Course);
    }
}

/// Whether launches take parts of the caller's object in turn, and each waits for all ranks: who
/// writes a part again has ended the launch between, which the peer then has begun; so the peer has
/// ended the launch before that, and its caller is done with what the part held. What a rank itself
/// reads of a part it has read when its launch ends. Launches of any sizes must wait, as all count:
/// where some sizes leave a launch without waits, `bound-drift` keeps ranks together.
bool Prover::isOfTheEpochsPart(const Access &access) {
  std::optional<std::pair<size_t, Polynomial>> part;
  for (const Access &other : accesses_) {
    if (other.object != access.object)
      continue;
    Scene scene(budget_);
    Instance at = scene.instance(other.op);
    const Region region = scene.region(other.view, at, {});
    std::optional<std::pair<size_t, Polynomial>> its;
    for (size_t d = 0; d < region.dims.size() && !its; ++d)
      if (const auto id = region.dims[d].at ? region.dims[d].at->asAtom() : std::nullopt) {
        const Polynomials::Atom &atom = scene.polys.atom(*id);
        const auto parts = atom.rhs.constant();
        const auto number = atom.lhs.asAtom();
        if (atom.kind == Polynomials::AtomKind::Rem && parts && *parts >= 2 && number &&
            scene.polys.atom(*number).kind == Polynomials::AtomKind::Epoch)
          its = {d, atom.rhs};
      }
    const bool isOwnRead = other.kind == Access::Kind::Read && !ir::rankSelectionOf(other.view) &&
                           isOverInBody(other.op, other.isAsync);
    if ((other.kind != Access::Kind::Write && !isOwnRead) || !its || (part && part != its))
      return false;
    part = its;
  }
  llvm::SmallVector<Value *, 8> sizes;
  for (Op &op : kernel_.body().ops())
    if (op.is(OpKind::LaunchDim))
      sizes.push_back(op.result());
  return part && hearsFromAll(sizes);
}

/// A peer's access to what belongs to a rank's caller: after the rank's kernel has begun, and over
/// before it ends.
void Prover::proveCallers() {
  for (const Access &access : accesses_) {
    if (!isCallers(*access.object) || !ir::rankSelectionOf(access.view))
      continue;
    const BudgetShare share(budget_);
    Scene scene(budget_);
    Instance at = scene.instance(access.op);
    Facts facts;
    scene.assume(facts, at);
    const Region region = scene.region(access.view, at, facts);
    scene.assumeInside(facts, region, pointOf(scene, region));
    bool isAfterBegin = true, isBeforeEnd = true;
    for (const bool isAbove : {true, false}) {
      Facts remote = facts;
      isAbove ? ir::addLess(remote, at.rank, region.rank)
              : ir::addLess(remote, region.rank, at.rank);
      if (scene.refuter.isImpossible(remote))
        continue;
      const auto isShown = [&](const auto &hasOne) {
        if (hasOne(remote))
          return true;
        const auto cases = scene.casesOf(remote, {&at});
        return cases && llvm::all_of(*cases, hasOne);
      };
      isAfterBegin &= meetsBefore(access.op) || isShown([&](const Facts &known) {
                        return hasPath(scene, known, headsOfBegin(scene, region.rank),
                                       tailsOf(scene, at, Reach::Near));
                      });
      isBeforeEnd &= meetsAfter(access.op) || isShown([&](const Facts &known) {
                       return hasPath(scene, known, headsOf(scene, access, at, region),
                                      tailsOfEnd(scene, region.rank));
                     });
    }
    proof_.obligations += 2;
    const std::string what =
        "that this " + verbOf(access).str() + " of a peer's " + nameOf(*access.object);
    if (!isAfterBegin) {
      if (isOfTheEpochsPart(access))
        proof_.inTurn.insert(access.object);
      else
        fail(access.op, what + " comes after the peer has begun");
    }
    if (!isBeforeEnd)
      fail(access.op, what + " is over when the peer's kernel ends");
  }
}

/// The ways in which a write that covers an element may come before the read of it, each as a goal.
void Prover::addOrders(Scene &scene, const Facts &facts, const Access &write, Instance &writer,
                       const Region &region, Instance &read, const Goal &covers,
                       std::vector<Goal> &goals) {
  if (writer.space == read.space && isBefore(write.op, read.op) &&
      isOrdered(write.op, write.isAsync, read.op)) {
    // The same body, and the same iterations of common loops.
    Goal goal = covers;
    goal.equal.push_back({writer.rank, read.rank});
    for (const Instance::Coordinate &c : writer.coordinates)
      for (const Instance::Coordinate &other : read.coordinates)
        if (c.of == other.of && c.dim == other.dim)
          goal.equal.push_back({var(c.number), var(other.number)});
    goals.push_back(std::move(goal));
  }
  const bool isBehind =
      isAfterSpace(writer.space, read.space) &&
      (isOverInBody(write.op, write.isAsync) || isAfterYielded(write.op, read.op));
  if (isBehind) {
    Goal goal = covers;
    goal.equal.push_back({writer.rank, read.rank});
    goals.push_back(std::move(goal));
  }
  if (isMetBetween(write.op, read.op))
    goals.push_back(covers);
  for (const Rounds &rounds : roundsOf(write.op, read.op)) {
    Goal goal = covers;
    goal.addLessEqual(var(numberIn(writer, rounds.loop, 0)) +
                          Polynomial(rounds.isSameMet ? 0 : rounds.untilMet),
                      var(numberIn(read, rounds.loop, 0)));
    goals.push_back(std::move(goal));
  }
  std::vector<Head> heads = headsOf(scene, write, writer, region);
  std::vector<Tail> tails = tailsOf(scene, read, Reach::Near);
  for (const unsigned hops : {0u, 1u})
    for (Goal &path : join(scene, facts, heads, tails, Reach::Near, hops)) {
      Goal goal = covers;
      goal.add(path);
      goals.push_back(std::move(goal));
    }
}

/// That a point of what a copy writes is one that it reads exists for; nothing where that is not
/// known.
std::optional<Formula> Prover::isCopied(Scene &scene, Op &copy, Instance &at, const Facts &facts,
                                        llvm::ArrayRef<Polynomial> point) {
  Value *source = copy.operand(0);
  if (!ir::isTransfer(copy) || !source->type().isView())
    return Formula();
  const auto from = scene.shape(source, at, facts);
  const auto to = scene.shape(copy.operand(1), at, facts);
  const auto position = to ? positionIn(*to, point) : std::nullopt;
  if (!from || !position)
    return std::nullopt;
  return existsAt(*from, *position);
}

/// Adds that a point of what an op reads is an element that matters: a copy reads what it has a
/// place for, and of a tile only what is kept is looked at.
void Prover::addMatters(Scene &scene, const Access &read, const ir::KeptBy *kept, Instance &at,
                        Facts &facts, llvm::ArrayRef<Polynomial> point) {
  Value *target = kept ? kept->view() : ir::isTransfer(*read.op) ? read.op->operand(1) : nullptr;
  const auto from = target ? scene.shape(read.view, at, facts) : std::nullopt;
  const auto to = target ? scene.shape(target, at, facts) : std::nullopt;
  const auto position = from ? positionIn(*from, point) : std::nullopt;
  if (!to || !position)
    return;
  if (!kept)
    return scene.assume(facts, existsAt(*to, *position));
  for (const auto &[d, of] : llvm::enumerate(kept->dims)) {
    if (!of)
      continue;
    for (const Polynomial &low : to->dims[*of].atLeast)
      ir::addLessEqual(facts, low, (*position)[d]);
    for (const Polynomial &high : to->dims[*of].below)
      ir::addLess(facts, (*position)[d], high);
  }
}

/// Whether each element that is read, and matters, has been written before by the launch. Where a
/// dimension numbers ranks, only of the part of the rank whose memory it is.
bool Prover::isWritten(const Access &read, std::optional<OwnPart> part) {
  const auto kept = ir::keptElements(*read.op);
  if (!kept)
    return isWritten(read, nullptr, part);
  return llvm::all_of(*kept, [&](const ir::KeptBy &by) { return isWritten(read, &by, part); });
}

bool Prover::isWritten(const Access &read, const ir::KeptBy *kept, std::optional<OwnPart> part) {
  return llvm::any_of(std::array{Uses::Positions, Uses::Inputs, Uses::Cases},
                      [&](Uses uses) { return isWritten(read, kept, part, uses); });
}

bool Prover::isWritten(const Access &read, const ir::KeptBy *kept, std::optional<OwnPart> part,
                       Uses uses) {
  Scene scene(budget_);
  Instance at = scene.instance(read.op);
  if (uses == Uses::Inputs && at.asserted.empty())
    return false;
  Facts facts;
  scene.assume(facts, at);
  if (uses != Uses::Positions)
    scene.assumeAsserted(facts, at);
  const Region region = scene.region(read.view, at, facts);
  const auto point = pointOf(scene, region);
  scene.assumeInside(facts, region, point);
  if (part)
    ir::addEqual(facts, point[part->dim], scene.ownPlace(kernel_, region.rank, part->axis));
  addMatters(scene, read, kept, at, facts, point);
  if (uses != Uses::Cases)
    return isWritten(scene, read, at, region, point, std::move(facts));
  const auto cases = scene.casesOf(facts, {&at});
  return cases && llvm::all_of(*cases, [&](const Facts &one) {
           return !isOutOfTime() && isWritten(scene, read, at, region, point, one);
         });
}

std::optional<Goal> Prover::covers(Scene &scene, const Facts &facts, const Access &write,
                                   Instance &writer, const Region &to, const Region &region,
                                   llvm::ArrayRef<Polynomial> point) {
  const auto copied = to.isExact ? isCopied(scene, *write.op, writer, facts, point) : std::nullopt;
  if (!copied)
    return std::nullopt;
  Goal goal;
  goal.addExists(writer);
  goal.further = copied->parts;
  goal.given = writer.asserted;
  for (Op *read : writer.reads)
    if (read->is(OpKind::Load))
      if (auto place = scene.placeOf(*read, writer, facts))
        goal.reads.push_back(std::move(*place));
  goal.equal.push_back({to.rank, region.rank});
  for (const auto &[dim, p] : llvm::zip(to.dims, point)) {
    if (dim.at)
      goal.equal.push_back({*dim.at, p});
    for (const Polynomial &low : dim.atLeast) {
      goal.addLessEqual(low, p);
      goal.members.push_back({p, low});
    }
    for (const Polynomial &high : dim.below)
      goal.addLess(p, high);
  }
  return goal;
}

bool Prover::isWritten(Scene &scene, const Access &read, Instance &at, const Region &region,
                       llvm::ArrayRef<Polynomial> point, Facts facts) {
  std::vector<Goal> goals;
  for (const Access &write : accesses_) {
    if (write.object != read.object || write.kind != Access::Kind::Write ||
        write.op->is(OpKind::Scatter))
      continue;
    Instance writer = scene.instance(write.op);
    const Region to = scene.region(write.view, writer, facts);
    auto goal = covers(scene, facts, write, writer, to, region, point);
    if (!goal)
      continue;
    goal->known = at.picked;
    addOrders(scene, facts, write, writer, to, at, *goal, goals);
    addCounted(scene, facts, write, at, region, point, goals);
    addNumbered(scene, facts, write, at, region, point, goals);
  }
  return reachesOne(scene, facts, goals, Guesses::Late) ||
         reachesOne(scene, facts, goals, Guesses::Early) ||
         reachesOneByLength(scene, facts, goals) || scene.refuter.isImpossible(facts);
}

bool Prover::isOwnPartWritten(const Op &object, const OwnPart &part) {
  return llvm::all_of(accesses_, [&](const Access &access) {
    const BudgetShare share(budget_);
    return access.object != &object || access.kind == Access::Kind::Write ||
           isWritten(access, part);
  });
}

void Prover::proveContents() {
  for (const Access &access : accesses_) {
    if (access.object->get(ir::attr::mode) != ir::ParamMode::Scratch ||
        access.object->get(ir::attr::zero) || access.kind == Access::Kind::Write)
      continue;
    ++proof_.obligations;
    const BudgetShare share(budget_);
    if (isOutOfTime() || !isWritten(access))
      fail(access.op, "that all of " + nameOf(*access.object) + " that is touched here was written",
           nullptr, Unproved::Kind::Contents);
  }
}

} // namespace dtile::protocol::prove
