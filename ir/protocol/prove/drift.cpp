// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Whether ranks may begin a launch without meeting. What keeps launches apart otherwise:
//   a cell of a signal is notified by one rank only, in all launches with cells of such sizes and
//   axes of such sizes, so that its notifies come launch by launch;
//   a rank that ends a launch has waited for a notify that each other rank has sent in that launch,
//   so each has begun it, and has ended the one before: nobody is two launches ahead of anybody,
//   and two copies of scratch memory, taken in turn, are enough.
// The second matters only to launches in which the scratch memory has elements at all, and only
// between two ranks that touch an object on one rank: of a kernel along an axis of a mesh, those
// of one node. What is not
// proved of a launch by itself, in memory that no two launches share, matters to neither.
#include "ir/protocol/prove/prover.h"

#include "ir/analysis/agreed_arguments.h"
#include "ir/analysis/communication.h"
#include "ir/core/constants.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SetVector.h"

#include <map>
#include <set>

namespace dtile::protocol::prove {

namespace {

/// Whether the atom is the size of an axis that is an argument: the same in all launches that use
/// one scratch object or signal.
bool isAxisSize(const Polynomials::Atom &atom) {
  Op *op = atom.kind == Polynomials::AtomKind::Value ? atom.value->definingOp() : nullptr;
  const Op *kernel = op ? op->enclosing(OpKind::Kernel) : nullptr;
  return kernel && ir::isAxisSize(*kernel, *op);
}

/// Stands for the same polynomials in another launch: sizes and the epoch may differ.
class OtherLaunch {
public:
  explicit OtherLaunch(Scene &scene) : scene_(scene) {}
  Polynomial of(Polynomial p) {
    std::vector<AtomId> atoms;
    scene_.polys.collectAtoms(p, atoms);
    for (const AtomId id : atoms) {
      const auto kind = scene_.polys.atom(id).kind;
      if (kind != Polynomials::AtomKind::LaunchDim && kind != Polynomials::AtomKind::Epoch &&
          kind != Polynomials::AtomKind::Value)
        continue;
      if (isAxisSize(scene_.polys.atom(id)))
        continue;
      auto [it, isNew] = known_.try_emplace(id);
      if (isNew)
        it->second = var(scene_.polys.fresh());
      p = scene_.polys.substitute(p, id, it->second);
    }
    return p;
  }
  void addRanges(Facts &facts) const {
    for (const auto &[id, other] : known_)
      if (scene_.polys.atom(id).kind != Polynomials::AtomKind::Value)
        facts.push_back(other);
  }

private:
  Scene &scene_;
  std::map<AtomId, Polynomial> known_;
};

/// Whether two notifies of one cell are always of one rank.
bool areOfOneRank(Op *first, Op *second, ir::RefutationBudget &budget) {
  Scene scene(budget);
  Instance a = scene.instance(first), b = scene.instance(second);
  Facts facts, others;
  scene.assume(facts, a);
  scene.assume(others, b);
  Region cellsA = scene.region(cellsOf(first), a, facts);
  Region cellsB = scene.region(cellsOf(second), b, others);
  OtherLaunch other(scene);
  for (const Polynomial &fact : others)
    facts.push_back(other.of(fact));
  const auto put = [&](Polynomial &p) { p = other.of(p); };
  put(cellsB.rank);
  for (DimRegion &dim : cellsB.dims) {
    if (dim.at)
      put(*dim.at);
    for (Polynomial &low : dim.atLeast)
      put(low);
    for (Polynomial &high : dim.below)
      put(high);
  }
  other.addRanges(facts);
  scene.addEqualRanks(facts, cellsA.rank, cellsB.rank);
  llvm::SmallVector<Polynomial, 4> cell;
  for (size_t d = 0; d < cellsA.dims.size(); ++d) {
    cell.push_back(var(scene.polys.fresh()));
    // The first bound is the signal's size, which both launches have.
    ir::addEqual(facts, cellsA.dims[d].below.front(), cellsB.dims[d].below.front());
  }
  scene.assumeInside(facts, cellsA, cell);
  scene.assumeInside(facts, cellsB, cell);
  return scene.refuter.impliesEqual(facts, a.rank, b.rank);
}

} // namespace

/// Whether a rank cannot end a launch before each other rank has begun it, where these sizes are
/// not zero.
bool Prover::hearsFromAll(llvm::ArrayRef<Value *> notZero) {
  Scene scene(budget_);
  Facts facts;
  llvm::SmallVector<AtomId, 3> selfDigits, peerDigits;
  const Polynomial self = scene.unknownRank(kernel_, facts, selfDigits);
  const Polynomial peer = scene.unknownRank(kernel_, facts, peerDigits);
  return hears(scene, std::move(facts), self, peer, notZero);
}

/// Whether all launches that count for an object have the same values of what the polynomials are
/// made of: constants, W, and the object's own sizes and sizes of axes where those with other ones
/// do not count.
bool Prover::areSettledBy(Scene &scene, const Op &object, bool countsAll,
                          llvm::ArrayRef<Polynomial> made) {
  Polynomials::Environment environment = scene.environmentOf(kernel_, var(scene.polys.rank()));
  llvm::SmallVector<Polynomial, 4> sizes;
  if (!countsAll)
    for (Value *size : object.operands())
      sizes.push_back(scene.polys.of(size, environment));
  return llvm::all_of(made, [&](const Polynomial &p) {
    std::vector<AtomId> atoms;
    scene.polys.collectAtoms(p, atoms);
    return llvm::all_of(atoms, [&](AtomId id) {
      const auto kind = scene.polys.atom(id).kind;
      const bool isOfLaunch = kind == Polynomials::AtomKind::LaunchDim ||
                              kind == Polynomials::AtomKind::Epoch ||
                              kind == Polynomials::AtomKind::Value;
      return !isOfLaunch || llvm::is_contained(sizes, var(id)) ||
             (!countsAll && isAxisSize(scene.polys.atom(id)));
    });
  });
}

/// The same of ranks that may touch the object on one rank, one of which writes there. Which ranks
/// these are must not change while the object is used: ranks that meet in one launch would not hear
/// from each other in the next. So conditions around accesses count for nothing, nor does whether
/// their bodies have work at all.
bool Prover::hearsFromUsers(const Op &object, bool countsAll, llvm::ArrayRef<Value *> notZero) {
  for (const Access &mine : accesses_)
    for (const Access &other : accesses_) {
      const bool isConflict = mine.kind != Access::Kind::Read || other.kind != Access::Kind::Read;
      if (mine.object != &object || other.object != &object || !isConflict)
        continue;
      Scene scene(budget_);
      Instance here = scene.instance(mine.op), there = scene.instance(other.op);
      const Polynomial onHere = scene.region(mine.view, here, here.bounds).rank;
      const Polynomial onThere = scene.region(other.view, there, there.bounds).rank;
      const RankAxes &axes = scene.axesOf(kernel_);
      llvm::SmallVector<Polynomial, 8> made{onHere, onThere};
      for (const RankAxes::Axis &axis : axes.axes) {
        made.push_back(axis.stride);
        made.push_back(axis.extent.value_or(Polynomial()));
      }
      Facts facts;
      for (const Instance *at : {&here, &there}) {
        llvm::SmallVector<AtomId, 4> unused;
        for (const Instance::Coordinate &coordinate : at->coordinates)
          if (scene.polys.mentions(onHere, coordinate.number) ||
              scene.polys.mentions(onThere, coordinate.number))
            made.push_back(*scene.polys.atom(coordinate.number).extent);
          else
            unused.push_back(coordinate.number);
        llvm::copy_if(at->bounds, std::back_inserter(facts), [&](const Polynomial &bound) {
          return llvm::none_of(unused,
                               [&](AtomId number) { return scene.polys.mentions(bound, number); });
        });
      }
      if (!areSettledBy(scene, object, countsAll, made))
        return false;
      for (size_t axis = 0; axis < axes.axes.size(); ++axis)
        ir::addEqual(facts, axes.digitOf(scene.polys, onHere, axis),
                     axes.digitOf(scene.polys, onThere, axis));
      if (!hears(scene, std::move(facts), here.rank, there.rank, notZero))
        return false;
    }
  return true;
}

/// Whether `self` cannot end a launch before `peer` has begun it, where it is another rank.
bool Prover::hears(Scene &scene, Facts facts, const Polynomial &self, const Polynomial &peer,
                   llvm::ArrayRef<Value *> notZero) {
  Polynomials::Environment environment = scene.environmentOf(kernel_, self);
  for (Value *size : notZero)
    facts.push_back(scene.polys.of(size, environment) - Polynomial(1));
  for (const bool isAbove : {true, false}) {
    Facts apart = facts;
    isAbove ? ir::addLess(apart, self, peer) : ir::addLess(apart, peer, self);
    const bool isHeard = scene.refuter.isImpossible(apart) ||
                         hasPath(scene, apart, headsOfBegin(scene, peer), tailsOfEnd(scene, self));
    if (!isHeard)
      return false;
  }
  return true;
}

DriftBound Prover::boundDrift(llvm::ArrayRef<Op *> inTurn, bool needsNone) {
  DriftBound bound;
  const auto refuse = [&](std::string reason) {
    bound.reason = std::move(reason);
    return bound;
  };
  // A launch without elements of a scratch object counts for no copy of it; a part of a caller's
  // object that is its turn goes by all launches.
  llvm::SmallVector<std::pair<Op *, bool>, 8> objects;
  std::vector<Op *> sizes;
  for (Op *object : inTurn)
    objects.emplace_back(object, true);
  for (Op &op : kernel_.body().ops()) {
    if (op.is(OpKind::LaunchDim))
      sizes.push_back(&op);
    if (op.is(OpKind::Param) && op.get(ir::attr::mode) == ir::ParamMode::Scratch) {
      if (op.get(ir::attr::zero))
        return refuse(nameOf(op) + " is zeroed at each launch");
      const bool isReached = llvm::any_of(accesses_, [&](const Access &access) {
        return access.object == &op && ir::rankSelectionOf(access.view);
      });
      if (isReached)
        objects.emplace_back(&op, false);
    }
  }
  if (!barriers_.empty())
    return refuse("it has barriers");
  for (Op *notify : notifies_) {
    Op *signal = signalOf(notify);
    if (!signal || signal->body().empty())
      return refuse("not all counts are derived");
    for (Op *other : notifies_)
      if (signalOf(other) == signal && !areOfOneRank(notify, other, budget_))
        return refuse("several ranks notify a cell of " + nameOf(*signal));
  }
  std::vector<Op *> needed;
  // Objects mostly have the same sizes.
  std::map<std::set<Value *>, bool> known;
  for (const auto &[object, countsAll] : objects) {
    const auto hearsWith = [&, object = object,
                            countsAll = countsAll](llvm::ArrayRef<Op *> others) {
      llvm::SmallSetVector<Value *, 8> notZero;
      for (Value *size : object->operands())
        if (!countsAll && ir::constantOf(size).value_or(0) <= 0)
          notZero.insert(size);
      for (Op *size : others)
        notZero.insert(size->result());
      const auto [it, isNew] = known.try_emplace(std::set(notZero.begin(), notZero.end()));
      if (isNew)
        it->second = hearsFromAll(notZero.getArrayRef());
      return it->second || hearsFromUsers(*object, countsAll, notZero.getArrayRef());
    };
    if (!needsNone && !hearsWith(sizes))
      return refuse("a rank may end a launch that another has not begun, with respect to " +
                    nameOf(*object));
    if (hearsWith(needed))
      continue;
    if (needsNone)
      return refuse("some size is needed with respect to " + nameOf(*object));
    std::vector<Op *> some = sizes;
    for (Op *size : sizes) {
      std::vector<Op *> fewer = some;
      fewer.erase(llvm::find(fewer, size));
      if (hearsWith(fewer))
        some = std::move(fewer);
    }
    for (Op *size : some)
      if (!llvm::is_contained(needed, size))
        needed.push_back(size);
  }
  for (Op *size : needed)
    bound.needed.push_back(size->result());
  bound.isBounded = true;
  return bound;
}

} // namespace dtile::protocol::prove

namespace dtile::protocol {

namespace {

/// Work for the search for paths from all ranks; kernels that have them take a tenth of it.
constexpr uint64_t kDriftWork = 40'000;

} // namespace

DriftBound waitsBoundDrift(ir::Op &kernel) {
  const Proof proof = proveProtocol(kernel, {.isOrderAsked = true});
  DriftBound bound;
  for (const Unproved &unproved : proof.unproved)
    if (unproved.kind == Unproved::Kind::Course || unproved.kind == Unproved::Kind::AnyOrder) {
      bound.reason = "its order is not proved: " + unproved.text;
      return bound;
    }
  const auto unwritten = llvm::find_if(proof.unproved, [](const Unproved &unproved) {
    return unproved.kind == Unproved::Kind::Contents;
  });
  if (unwritten != proof.unproved.end() && prove::readsWrittenNumbers(kernel)) {
    bound.reason = "its order may rest on numbers of which it is not proved that they are there: " +
                   unwritten->text;
    return bound;
  }
  bound = prove::Prover(kernel, {.work = kDriftWork}).boundDrift(proof.inTurn.getArrayRef());
  bound.readsStale = llvm::any_of(proof.unproved, [](const Unproved &unproved) {
    return unproved.kind == Unproved::Kind::Contents;
  });
  bound.inTurn = proof.inTurn;
  return bound;
}

bool waitsBoundDriftOfAll(ir::Op &kernel, const DriftBound &before) {
  return prove::Prover(kernel, {.work = kDriftWork})
      .boundDrift(before.inTurn.getArrayRef(), /*needsNone=*/true)
      .isBounded;
}

} // namespace dtile::protocol
