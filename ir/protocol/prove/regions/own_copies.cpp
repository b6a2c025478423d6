// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Own copies. Of a scratch object `a` and a dimension of it that numbers the ranks, or the places
// on an axis of them, it is shown that
//   all that is ever written to a rank's own part is put there by the rank itself, and is a copy of
//   one input at positions that do not depend on which transfer it is;
//   whoever reads that part is the rank itself;
//   each element of it that is read was written before, by the launch.
//   there are transfers which do nothing else where their peer is the rank itself.
// Then what is read is what the input holds there: nobody writes inputs.
#include "ir/protocol/prove/regions/own_copies.h"

#include "ir/analysis/communication.h"
#include "ir/protocol/prove/prover.h"

#include "llvm/ADT/STLExtras.h"

namespace dtile::protocol::prove {

/// An execution of an access, and what it touches.
struct OwnCopies::Place {
  Place(Scene &scene, const Access &access) : at(scene.instance(access.op)) {
    scene.assume(facts, at);
    region = scene.region(access.view, at, facts);
  }
  Instance at;
  Facts facts;
  Region region;

  /// What holds where the part is that of the rank whose memory it is.
  [[nodiscard]] Facts own(Scene &scene, Op &kernel, const OwnCopy &copy) const {
    Facts both = facts;
    ir::addEqual(both, *region.dims[copy.ranks].at, scene.ownPlace(kernel, region.rank, copy.axis));
    return both;
  }
};

bool OwnCopies::refuse(const llvm::Twine &why) {
  reason_ = why.str();
  return false;
}

/// All accesses to the object; false where not all are known.
bool OwnCopies::collect(Op &object) {
  accesses_.clear();
  bool areKnown = true;
  const auto add = [&](Op &op, Value *view, bool writes) {
    if (!view->type().isView())
      return;
    const auto objects = ir::objectsOf(view);
    areKnown &= !llvm::is_contained(objects, nullptr);
    if (!llvm::is_contained(objects, &object))
      return;
    areKnown &= objects.size() == 1;
    accesses_.push_back({&op, view, writes});
  };
  for (Op &space : kernel_.body().ops())
    if (space.is(OpKind::Space))
      ir::walk(space, [&](Op &op) {
        areKnown &= !op.is(OpKind::Call);
        if (Value *view = ir::writtenView(op))
          add(op, view, true);
        for (Value *view : ir::readViews(op))
          if (!ir::isAtomic(op))
            add(op, view, false);
      });
  return areKnown;
}

/// A position without the transfer that it was found in: with this rank's number for the peer.
std::optional<Polynomial> OwnCopies::normal(Place &place, const Facts &own, Polynomial p) {
  ir::Polynomials &polys = scene_.polys;
  const Polynomial &self = place.at.rank;
  for (const Instance::Coordinate &coordinate : place.at.coordinates) {
    if (!polys.mentions(p, coordinate.number))
      continue;
    // What the solution needs is shown below.
    std::vector<Polynomial> conditions;
    const auto answer = polys.solve(place.region.rank, self, coordinate.number, conditions);
    if (answer && scene_.refuter.impliesEqual(own, var(coordinate.number), *answer))
      p = polys.substitute(p, coordinate.number, *answer);
  }
  const RankAxes &axes = scene_.axesOf(kernel_);
  for (const auto [axis, digit] : llvm::enumerate(place.at.digits))
    p = polys.substitute(p, digit, axes.digitOf(polys, var(polys.rank()), axis));
  std::vector<AtomId> atoms;
  polys.collectAtoms(p, atoms);
  const bool isOfLaunch = llvm::none_of(atoms, [&](AtomId id) {
    const auto kind = polys.atom(id).kind;
    return kind == ir::Polynomials::AtomKind::Value || kind == ir::Polynomials::AtomKind::Variable;
  });
  return isOfLaunch ? std::optional(p) : std::nullopt;
}

/// Which element of the source each element of the own part is.
bool OwnCopies::addMap(OwnCopy &copy, Op &put, Place &place, const Facts &own) {
  const Region &to = place.region;
  Region from = scene_.region(put.operand(0), place.at, place.facts);
  Op *source = ir::objectOf(put.operand(0));
  const bool isInput =
      source && source->is(OpKind::Param) && source->get(ir::attr::mode) == ir::ParamMode::In;
  if (!isInput)
    return refuse("it is not only a copy of an input");
  isCandidate_ = true;
  if (!to.isExact || !from.isExact)
    return refuse("what is put there is not a simple part");
  // The dimension of the view that a dimension of the object is; none where it has one position.
  const auto viewDim = [](const Region &region, unsigned dim) -> std::optional<unsigned> {
    for (auto [i, live] : llvm::enumerate(region.live))
      if (live.first == dim)
        return i;
    return std::nullopt;
  };
  llvm::SmallVector<OwnCopy::Dim, 4> dims;
  unsigned next = 0;
  for (unsigned e = 0; e < from.dims.size(); ++e) {
    next += next == copy.ranks;
    const auto fromDim = viewDim(from, e);
    const auto toDim = next < to.dims.size() ? viewDim(to, next) : std::nullopt;
    Polynomial at;
    bool isPosition = false;
    if (fromDim) {
      if (toDim != fromDim)
        return refuse("its dimensions come in another order than those of the input");
      const Polynomial &first = from.live[*fromDim].second, &there = to.live[*toDim].second;
      // A range that begins below 0 is cut.
      if (!scene_.implies(own, first) || !scene_.implies(own, there))
        return refuse("what is put there may begin before its object");
      at = first - there;
    } else {
      isPosition = next >= to.dims.size() || toDim;
      at = *from.dims[e].at - (isPosition ? Polynomial() : *to.dims[next].at);
    }
    if (!scene_.implies(own, at))
      return refuse("it lies further ahead there than in the input");
    const auto found = normal(place, own, at);
    if (!found)
      return refuse("where it lies depends on the transfer");
    OwnCopy::Dim dim{isPosition, *found};
    if (!isPosition) {
      const auto size = [&](Op *object, unsigned d) {
        return scene_.polys.of(object->operand(d), place.at.environment);
      };
      dim.isLonger = !scene_.implies(own, size(copy.object, next) - (size(source, e) - at));
      ++next;
    }
    dims.push_back(std::move(dim));
  }
  next += next == copy.ranks;
  if (next != to.dims.size())
    return refuse("it has dimensions that the input has not");
  const bool isFirst = !copy.source;
  const auto isSame = [](const OwnCopy::Dim &a, const OwnCopy::Dim &b) {
    return a.isPosition == b.isPosition && a.at == b.at && a.isLonger == b.isLonger;
  };
  if (!isFirst && (copy.source != source || !llvm::equal(copy.dims, dims, isSame)))
    return refuse("several things are put there");
  copy.source = source;
  copy.dims = std::move(dims);
  return true;
}

bool OwnCopies::addWrite(OwnCopy &copy, const Access &access) {
  Place place(scene_, access);
  const Polynomial &self = place.at.rank;
  if (!place.region.dims[copy.ranks].at)
    return refuse("parts of several ranks are written at once");
  const Facts own = place.own(scene_, kernel_, copy);
  if (scene_.refuter.isImpossible(own))
    return true;
  const bool isCopy = access.op->is(OpKind::Put) && access.op->operand(0)->type().isView() &&
                      !access.op->operand(0)->type().isRemote();
  if (!isCopy || !scene_.refuter.impliesEqual(own, place.region.rank, self))
    return refuse("it is not only a copy of an input");
  if (!addMap(copy, *access.op, place, own))
    return false;
  // What it does where its peer is this rank: nothing but that, and in order with nothing.
  Facts here = place.facts;
  scene_.addEqualRanks(here, place.region.rank, self);
  const bool isNeedless = access.op->numOperands() == 2 &&
                          scene_.refuter.impliesEqual(here, *place.region.dims[copy.ranks].at,
                                                      scene_.ownPlace(kernel_, self, copy.axis));
  if (isNeedless)
    copy.puts.push_back(
        {access.op, scene_.refuter.impliesEqual(place.facts, place.region.rank, self)});
  return true;
}

bool OwnCopies::addRead(OwnCopy &copy, const Access &access) {
  Place place(scene_, access);
  if (!place.region.dims[copy.ranks].at)
    return refuse("parts of several ranks are read at once");
  if (scene_.refuter.isImpossible(place.own(scene_, kernel_, copy)))
    return true;
  Op &op = *access.op;
  const bool isPlain = op.is(OpKind::Load) || op.is(OpKind::Gather) || op.is(OpKind::Put) ||
                       op.is(OpKind::PutSignal);
  if (access.view->type().isRemote() || !isPlain)
    return refuse("another rank may read it");
  OwnCopy::Read read{.op = &op, .cuts = {}, .ownerAt = 0, .isAlways = false};
  for (Op *cut = access.view->definingOp(); cut != copy.object;
       cut = cut->operand(0)->definingOp()) {
    if (!cut->is(OpKind::ViewSlice) && !cut->is(OpKind::ViewTile))
      return refuse("it is read in another shape");
    read.cuts.insert(read.cuts.begin(), cut);
  }
  const llvm::StringRef letters = read.cuts.empty() ? "" : read.cuts.front()->get(ir::attr::dims);
  if (letters.empty() || letters[copy.ranks] != 'i')
    return refuse("parts of several ranks are read at once");
  const llvm::StringRef before = letters.take_front(copy.ranks);
  read.ownerAt = 1 + before.count('i') + 2 * before.count('r');
  read.isAlways =
      scene_.refuter.impliesEqual(place.facts, *place.region.dims[copy.ranks].at,
                                  scene_.ownPlace(kernel_, place.region.rank, copy.axis));
  copy.reads.push_back(std::move(read));
  return true;
}

bool OwnCopies::find(OwnCopy &copy) {
  // Whether it is about a dimension that numbers ranks at all is seen first.
  for (const Access &access : accesses_)
    if (access.writes && !addWrite(copy, access))
      return false;
  if (copy.puts.empty())
    return refuse("no transfer could be left out");
  for (const Access &access : accesses_)
    if (!access.writes && !addRead(copy, access))
      return false;
  if (copy.reads.empty())
    return false;
  if (!Prover(kernel_, {}).isOwnPartWritten(*copy.object, {copy.ranks, copy.axis}))
    return refuse("it is not shown that all of it that is read was written");
  return true;
}

std::optional<OwnCopy> OwnCopies::find(Op &object) {
  reason_.clear();
  if (object.get(ir::attr::mode) != ir::ParamMode::Scratch || object.get(ir::attr::zero) ||
      !collect(object))
    return std::nullopt;
  // Numbers of ranks, and places on the axes of a kernel that divides them.
  llvm::SmallVector<std::optional<size_t>, 4> axes{std::nullopt};
  if (const size_t count = scene_.axesOf(kernel_).axes.size(); count > 1)
    axes.append(llvm::seq<size_t>(0, count).begin(), llvm::seq<size_t>(0, count).end());
  std::string reason;
  for (unsigned ranks = 0; ranks < object.numOperands(); ++ranks)
    for (const std::optional<size_t> axis : axes) {
      OwnCopy copy;
      copy.object = &object;
      copy.ranks = ranks;
      copy.axis = axis;
      copy.place = scene_.ownPlace(kernel_, var(scene_.polys.rank()), axis);
      isCandidate_ = false;
      if (find(copy))
        return copy;
      // Of interest only where an input is copied to an own part.
      if (isCandidate_)
        reason = reason_;
    }
  reason_ = reason;
  return std::nullopt;
}

} // namespace dtile::protocol::prove
