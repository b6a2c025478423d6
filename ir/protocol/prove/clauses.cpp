// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What clauses say, in polynomials: of sizes, W and scalars directly; of elements of inputs where
// an execution has read them. An input is written by nobody, so its elements are what they were at
// the start; each rank has its own unless the input is replicated. Of a counter that is only added
// to, two executions never get the same number.
#include "ir/analysis/clauses.h"
#include "ir/analysis/communication.h"
#include "ir/core/constants.h"
#include "ir/protocol/prove/model.h"

#include "llvm/ADT/STLExtras.h"

namespace dtile::protocol::prove {

namespace {

/// Elements that are related to each other; more are left out.
constexpr size_t kMostPicked = 24;

/// Whether all that the kernel does to an object is to add positive numbers to elements.
bool isOnlyAddedTo(Op &kernel, const Op &object) {
  bool isOnly = (object.get(ir::attr::mode) == ir::ParamMode::Scratch ||
                 object.get(ir::attr::mode) == ir::ParamMode::Symm) &&
                dtypeBytes(object.result()->type().dtype()) >= kLeastCounterBytes;
  ir::walk(kernel, [&](Op &op) {
    Value *view = ir::writtenView(op);
    if (!view || !view->type().isView())
      return;
    const Op *written = ir::objectOf(view);
    if (written && written != &object)
      return;
    const auto added = op.is(OpKind::Atomic) && op.get(ir::attr::kind) == "add"
                           ? ir::constantOf(op.operand(1))
                           : std::nullopt;
    isOnly &= written && added && *added > 0;
  });
  return isOnly;
}

/// How many ops an op is in.
unsigned depthOf(const Op &op) {
  unsigned depth = 0;
  for (const Op *outer = op.parentOp(); outer; outer = outer->parentOp())
    ++depth;
  return depth;
}

} // namespace

void Scene::findClauses(Op *op) {
  if (kernel_)
    return;
  kernel_ = op->is(OpKind::Kernel) ? op : op->enclosing(OpKind::Kernel);
  if (!kernel_)
    return;
  for (Op *clause : ir::clausesOf(*kernel_)) {
    if (clause->is(OpKind::LaunchRequire))
      launch_.push_back(clause);
    else
      elements_[clause->operand(0)->definingOp()].push_back(clause);
    if (clause->is(OpKind::LaunchElements) && clause->get(ir::attr::kind) == "each_once")
      elements_[clause->operand(1)->definingOp()].push_back(clause);
    if (clause->is(OpKind::LaunchElements) && clause->has(ir::attr::at))
      compared_.insert(clause->operand(1)->definingOp());
  }
}

/// What is said of an object; nothing where nothing is.
llvm::ArrayRef<Op *> Scene::clausesOf(const Op *object) const {
  const auto it = elements_.find(object);
  return it == elements_.end() ? llvm::ArrayRef<Op *>() : llvm::ArrayRef<Op *>(it->second);
}

bool Scene::isSaid(const Op *object, llvm::StringRef kind) const {
  return llvm::any_of(clausesOf(object),
                      [&](const Op *clause) { return clause->get(ir::attr::kind) == kind; });
}

bool Scene::isCounter(const Op *object) {
  const auto [it, isNew] = counters_.try_emplace(object, false);
  if (isNew)
    it->second = isOnlyAddedTo(*kernel_, *object);
  return counters_.lookup(object);
}

/// The reads before an op, in blocks around it, of which something is known.
void Scene::findReads(Instance &instance, Op *before) {
  if ((before->is(OpKind::Add) || before->is(OpKind::Sub)) && !elements_.empty() &&
      Polynomials::isNumber(before->result()->type()) && !before->result()->type().isIndex() &&
      instance.narrow.size() < kMostPicked) {
    instance.narrow.push_back(before);
    (void)polys.of(before->result(), instance.environment);
    return;
  }
  if (before->is(OpKind::Reduce) && Polynomials::isNumber(before->result()->type()) &&
      instance.reductions.size() < kMostPicked) {
    instance.reductions.push_back(before);
    (void)polys.of(before->result(), instance.environment);
    return;
  }
  if (before->is(OpKind::Load) && before->result()->type().isTile())
    return;
  if (!before->is(OpKind::Load) && !before->is(OpKind::Atomic))
    return;
  const Op *object = ir::objectOf(before->operand(0));
  if (!object || !Polynomials::isNumber(before->result()->type()))
    return;
  const bool isKnown = before->is(OpKind::Load)
                           ? !clausesOf(object).empty() || compared_.contains(object) ||
                                 writerOf(*kernel_, object) != nullptr
                           : before->get(ir::attr::kind) == "add" && isCounter(object);
  if (!isKnown || instance.reads.size() == kMostPicked)
    return;
  instance.reads.push_back(before);
  // The number is one variable from now on.
  (void)polys.of(before->result(), instance.environment);
}

/// What the clauses about single elements say of one, for as long as the environment holds.
void Scene::addBounds(Facts &facts, const Op *object, const Polynomial &value, Instance &instance) {
  const Polynomial one(1);
  bool isNatural = false;
  for (Op *clause : clausesOf(object)) {
    if (clause->get(ir::attr::kind) == "each_once" && clause->operand(1)->definingOp() == object)
      addListBounds(facts, *clause, value, instance);
    if (clause->get(ir::attr::kind) != "all" || clause->has(ir::attr::at))
      continue;
    const Polynomial bound = polys.of(clause->operand(1), instance.environment);
    addComparison(facts, clause->get(ir::attr::pred), value, bound);
    const auto least = bound.constant();
    isNatural |= least && ((clause->get(ir::attr::pred) == "ge" && *least >= 0) ||
                           (clause->get(ir::attr::pred) == "gt" && *least >= -1));
  }
  // Of numbers that are not negative none is larger than their sum.
  for (Op *clause : clausesOf(object)) {
    if (!isNatural || clause->get(ir::attr::kind) != "sum")
      continue;
    const llvm::StringRef pred = clause->get(ir::attr::pred);
    if (pred != "eq" && pred != "le" && pred != "lt")
      continue;
    const Polynomial bound = polys.of(clause->operand(1), instance.environment);
    facts.push_back(bound - value - (pred == "lt" ? one : Polynomial()));
  }
}

/// What clauses say of an element beside one of another input, which stands beside it.
void Scene::addBetween(Facts &facts, const Picked &element, Instance &instance) {
  for (Op *clause : clausesOf(element.object)) {
    if (!clause->has(ir::attr::at) || instance.picked.size() >= kMostPicked)
      continue;
    Op *other = clause->operand(1)->definingOp();
    const auto at = [&](int64_t dim) { return dim < 0 ? element.rank : element.at[size_t(dim)]; };
    Picked picked{other, clause, at(clause->getOr(ir::attr::peer, -1)), {}, var(polys.fresh())};
    for (const int64_t dim : clause->get(ir::attr::at))
      picked.at.push_back(at(dim));
    addComparison(facts, clause->get(ir::attr::pred), element.value, picked.value);
    addBounds(facts, other, picked.value, instance);
    instance.picked.push_back(std::move(picked));
  }
}

/// Where an execution reads an element of which something is said; nothing where it may be none, or
/// where that is not known.
std::optional<Picked> Scene::placeOf(Op &read, Instance &instance, const Facts &facts) {
  const Region region = this->region(read.operand(0), instance, facts);
  if (!region.object || !region.isExact)
    return std::nullopt;
  Picked picked{
      region.object, &read, region.rank, {}, polys.of(read.result(), instance.environment)};
  for (const DimRegion &dim : region.dims) {
    if (!dim.at)
      return std::nullopt;
    picked.at.push_back(*dim.at);
  }
  return picked;
}

/// An element of an input at some position that a loaded window has: what an index tile picks by.
/// Nothing where elements of the tile may be none of the input.
std::optional<Picked> Scene::elementOf(const Op &load, Instance &instance, const Facts &known,
                                       const std::optional<Polynomial> &limit, Facts &facts) {
  const Region region = this->region(load.operand(0), instance, known);
  if (!region.object || clausesOf(region.object).empty())
    return std::nullopt;
  bool isElement = llvm::all_of(
      region.inside, [&](const auto &condition) { return implies(known, condition.second); });
  Picked picked{region.object, &load, region.rank, {}, var(polys.fresh())};
  const Op *window = load.operand(0)->definingOp();
  const bool isWindow = window && window->is(OpKind::ViewTile);
  for (const DimRegion &dim : region.dims) {
    if (dim.at) {
      picked.at.push_back(*dim.at);
      continue;
    }
    // What lies past the end, or past a limit that the tile is not cut at, reads as zero: then the
    // whole window must be there.
    const Polynomial at = var(polys.fresh());
    Facts in = known;
    if (isWindow && dim.below.size() == 3 && dim.atLeast.size() == 2) {
      ir::addLessEqual(in, dim.atLeast[1], at);
      ir::addLess(in, at, dim.below[2]);
      if (limit)
        ir::addLess(in, at, *limit);
      isElement &= implies(in, at);
      for (const Polynomial &high : dim.below)
        isElement &= implies(in, high - at - Polynomial(1));
    } else {
      isElement &= dim.below.size() == 1 && dim.atLeast.size() == 1;
    }
    picked.at.push_back(at);
    for (const Polynomial &low : dim.atLeast)
      ir::addLessEqual(facts, low, at);
    for (const Polynomial &high : dim.below)
      ir::addLess(facts, at, high);
  }
  if (!isElement)
    return std::nullopt;
  addBounds(facts, region.object, picked.value, instance);
  return picked;
}

void Scene::addComparison(Facts &facts, llvm::StringRef pred, const Polynomial &a,
                          const Polynomial &b) {
  if (pred == "lt")
    ir::addLess(facts, a, b);
  else if (pred == "le")
    ir::addLessEqual(facts, a, b);
  else if (pred == "gt")
    ir::addLess(facts, b, a);
  else if (pred == "ge")
    ir::addLessEqual(facts, b, a);
  else if (pred == "eq")
    ir::addEqual(facts, a, b);
}

/// What is said of launches; of kernels without clauses nothing.
void Scene::assumeLaunch(Facts &facts, Op &kernel, Instance &instance) {
  findClauses(&kernel);
  for (Op *clause : launch_)
    assume(facts, formula(clause->operand(0), true, instance));
}

void Scene::assumeClauses(Facts &facts, Instance &instance) {
  instance.required.clear();
  for (Op *clause : launch_)
    instance.required.push_back(formula(clause->operand(0), true, instance));
  for (const Formula &clause : instance.required)
    assume(facts, clause);
  for (const Formula &assumption : instance.assumed)
    assume(facts, assumption);
  assumeCounts(facts, instance);
  instance.picked.clear();
  if (elements_.empty() && instance.reads.empty())
    return;
  // How long lists are says which of their elements there are, and bounds of loops say where others
  // are read within these.
  llvm::SmallVector<Op *, 4> reads = instance.reads;
  llvm::stable_sort(reads, [&](Op *a, Op *b) {
    const auto isNumber = [&](Op *read) {
      return eachOnceOf(ir::objectOf(read->operand(0))) != nullptr;
    };
    return std::pair(isNumber(a), depthOf(*a)) < std::pair(isNumber(b), depthOf(*b));
  });
  for (Op *read : reads) {
    const Polynomial value = polys.of(read->result(), instance.environment);
    Region region = this->region(read->operand(0), instance, facts);
    Picked picked{region.object, read, region.rank, {}, value};
    bool isElement = region.object && region.isExact;
    for (const DimRegion &dim : region.dims) {
      isElement &= dim.at.has_value();
      if (dim.at)
        picked.at.push_back(*dim.at);
    }
    isElement &= llvm::all_of(
        region.inside, [&](const auto &condition) { return implies(facts, condition.second); });
    if (isElement) {
      addBounds(facts, region.object, value, instance);
      if (read->is(OpKind::Atomic) && region.object->get(ir::attr::zero))
        facts.push_back(value);
      instance.picked.push_back(picked);
      addBetween(facts, picked, instance);
      assumeWritten(facts, instance, picked);
    } else if (region.object && read->is(OpKind::Load)) {
      // Past the edge it is zero.
      Facts bounds;
      addBounds(bounds, region.object, value, instance);
      Formula within{Formula::Kind::And, {}, {}};
      for (const Polynomial &bound : bounds)
        within.parts.push_back(Formula::atLeastZero(bound));
      const Formula zero{Formula::Kind::And,
                         {},
                         {Formula::atLeastZero(value), Formula::atLeastZero(Polynomial() - value)}};
      if (!bounds.empty()) {
        // What both say is so.
        for (const Polynomial &bound : bounds) {
          Facts isZero = facts;
          ir::addEqual(isZero, value, Polynomial());
          if (implies(isZero, bound))
            facts.push_back(bound);
        }
        assume(facts, Formula{Formula::Kind::Or, {}, {within, zero}});
      }
    }
  }
  // Elements that clauses name stand beside those that were read.
  for (const Op *read : instance.reads) {
    const Op *object = ir::objectOf(read->operand(0));
    for (Op *clause : clausesOf(object)) {
      const bool isListed = llvm::any_of(
          instance.picked, [&](const Picked &picked) { return picked.read == clause; });
      if (clause->get(ir::attr::kind) != "element" || isListed)
        continue;
      Picked picked{const_cast<Op *>(object), clause, instance.rank, {}, var(polys.fresh())};
      const unsigned last = clause->numOperands() - 1;
      for (unsigned i = 1; i < last; ++i)
        picked.at.push_back(polys.of(clause->operand(i), instance.environment));
      addComparison(facts, clause->get(ir::attr::pred), picked.value,
                    polys.of(clause->operand(last), instance.environment));
      instance.picked.push_back(std::move(picked));
    }
  }
  assumeNumbers(facts, instance);
  relate(facts, instance, instance);
}

/// Sums and differences of few bits are what they are of whole numbers where these fit.
void Scene::assumeNarrow(Facts &facts, Instance &instance, bool isWhole) {
  for (Op *op : instance.narrow) {
    const DType type = op->result()->type().dtype();
    const unsigned bits = dtypeBits(type) - (dtypeClass(type) == DTypeClass::Int ? 1 : 0);
    const Polynomial most((int64_t(1) << bits) - 1);
    const Polynomial least(dtypeClass(type) == DTypeClass::Int ? -(int64_t(1) << bits) : 0);
    const Polynomial a = polys.of(op->operand(0), instance.environment);
    const Polynomial b = polys.of(op->operand(1), instance.environment);
    const Polynomial whole = op->is(OpKind::Add) ? a + b : a - b;
    Facts known = facts;
    for (const Polynomial &operand : {a, b}) {
      ir::addLessEqual(known, least, operand);
      ir::addLessEqual(known, operand, most);
    }
    if (!implies(known, whole - least) || !implies(known, most - whole))
      continue;
    const Polynomial value = polys.of(op->result(), instance.environment);
    if (isWhole)
      ir::addEqual(facts, value, whole);
    else if (implies(known, whole))
      facts.push_back(value);
  }
}

namespace {

/// Whether two executions of one op are known to be different ones.
bool areDifferent(Scene &scene, const Facts &facts, const Op &op, const Instance &a,
                  const Instance &b) {
  const auto differ = [&](const Polynomial &x, const Polynomial &y) {
    return !(x == y) && (scene.implies(facts, x - y - Polynomial(1)) ||
                         scene.implies(facts, y - x - Polynomial(1)));
  };
  if (differ(a.rank, b.rank))
    return true;
  for (const Instance::Coordinate &x : a.coordinates)
    for (const Instance::Coordinate &y : b.coordinates) {
      bool isAround = false;
      for (const Op *at = op.parentOp(); at; at = at->parentOp())
        isAround |= at == x.of;
      if (x.of == y.of && x.dim == y.dim && isAround && differ(var(x.number), var(y.number)))
        return true;
    }
  return false;
}

} // namespace

void Scene::relate(Facts &facts, const Instance &a, const Instance &b) {
  const bool isOne = &a == &b;
  for (size_t i = 0; i < a.picked.size(); ++i)
    for (size_t j = isOne ? i + 1 : 0; j < b.picked.size(); ++j)
      relate(facts, a, a.picked[i], b, b.picked[j]);
}

bool Scene::areOne(const Facts &facts, const Picked &a, const Picked &b) {
  if (a.object != b.object || a.object->get(ir::attr::mode) != ir::ParamMode::In ||
      (!isSaid(a.object, "replicated") && !refuter.impliesEqual(facts, a.rank, b.rank)))
    return false;
  return llvm::all_of(llvm::zip_equal(a.at, b.at), [&](const auto &both) {
    return refuter.impliesEqual(facts, std::get<0>(both), std::get<1>(both));
  });
}

void Scene::relate(Facts &facts, const Instance &a, const Picked &p, const Instance &b,
                   const Picked &q) {
  if (p.object != q.object || p.at.size() != q.at.size())
    return;
  const Op *object = p.object;
  const auto isEqual = [&](const Polynomial &x, const Polynomial &y) {
    return x == y || refuter.impliesEqual(facts, x, y);
  };
  if (p.read->is(OpKind::Atomic) || q.read->is(OpKind::Atomic)) {
    if (!p.read->is(OpKind::Atomic) || !q.read->is(OpKind::Atomic) || !isEqual(p.rank, q.rank))
      return;
    for (const auto &[x, y] : llvm::zip(p.at, q.at))
      if (!isEqual(x, y))
        return;
    if (p.read == q.read && !areDifferent(*this, facts, *p.read, a, b))
      return;
    const Polynomial one(1);
    if (isEqual(p.value, q.value)) {
      facts.push_back(Polynomial(-1));
      return;
    }
    assume(facts, Formula{Formula::Kind::Or,
                          {},
                          {Formula::atLeastZero(p.value - q.value - one),
                           Formula::atLeastZero(q.value - p.value - one)}});
    return;
  }
  // Numbers that are there once say where they are.
  if (p.isCounted && q.isCounted && isEqual(p.value, q.value)) {
    addEqualRanks(facts, p.rank, q.rank);
    for (const auto &[x, y] : llvm::zip_equal(p.at, q.at))
      ir::addEqual(facts, x, y);
    return;
  }
  if (!isSaid(object, "replicated") && !isEqual(p.rank, q.rank))
    return;
  bool isSamePlace = true;
  for (const auto &[x, y] : llvm::zip(p.at, q.at))
    isSamePlace = isSamePlace && isEqual(x, y);
  if (isSamePlace) {
    if (!(p.value == q.value))
      ir::addEqual(facts, p.value, q.value);
    return;
  }
  if (isSaid(object, "sorted")) {
    if (implies(facts, q.at.front() - p.at.front()))
      ir::addLessEqual(facts, p.value, q.value);
    else if (implies(facts, p.at.front() - q.at.front()))
      ir::addLessEqual(facts, q.value, p.value);
  }
  if (isSaid(object, "distinct") && isEqual(p.value, q.value))
    for (const auto &[x, y] : llvm::zip(p.at, q.at))
      ir::addEqual(facts, x, y);
}

} // namespace dtile::protocol::prove
