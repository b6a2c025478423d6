// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Numbers that all ranks together have once each, as a clause says: what goes where these say is
// apart, and each place that is numbered gets something. So rows come back from where they went.
#include "ir/protocol/prove/prover.h"

#include "ir/analysis/clauses.h"
#include "ir/analysis/communication.h"

#include "llvm/ADT/STLExtras.h"

namespace dtile::protocol::prove {

namespace {

Op *numbersOf(const Op &clause) { return clause.operand(0)->definingOp(); }
Op *countsOf(const Op &clause) { return clause.operand(1)->definingOp(); }

} // namespace

/// The clause that the numbers of an input are those of all ranks, each once; null where none is.
Op *Scene::eachOnceOf(const Op *object) const {
  const auto clauses = clausesOf(object);
  const auto *found = llvm::find_if(clauses, [&](const Op *clause) {
    return clause->get(ir::attr::kind) == "each_once" && numbersOf(*clause) == object;
  });
  return found == clauses.end() ? nullptr : *found;
}

/// How many elements of a list count is neither negative nor more than it has.
void Scene::addListBounds(Facts &facts, const Op &clause, const Polynomial &count,
                          Instance &instance) {
  const Op &numbers = *numbersOf(clause);
  const Polynomial length =
      polys.of(numbers.operand(numbers.numOperands() - 1), instance.environment);
  facts.push_back(count);
  ir::addLessEqual(facts, count, length);
}

/// Finds which of the elements that were read count: then they are numbers below the clause's.
void Scene::assumeNumbers(Facts &facts, Instance &instance) {
  for (size_t i = 0; i < instance.picked.size(); ++i) {
    const Op *clause = eachOnceOf(instance.picked[i].object);
    if (!clause)
      continue;
    Picked &number = instance.picked[i];
    Picked list = number;
    const Polynomial at = list.at.pop_back_val();
    list.object = countsOf(*clause);
    number.isCounted =
        implies(facts, at) && llvm::any_of(instance.picked, [&](const Picked &count) {
          return count.object == list.object && areOne(facts, count, list) &&
                 implies(facts, count.value - at - Polynomial(1));
        });
    if (!number.isCounted)
      continue;
    const Polynomial value = number.value;
    const Polynomial end = polys.of(clause->operand(2), instance.environment);
    facts.push_back(value);
    ir::addLess(facts, value, end);
    addFactors(facts, end);
  }
}

/// Of a product that is at least one each factor is, where none is negative: divisions rest on it.
void Scene::addFactors(Facts &facts, const Polynomial &product) {
  if (product.terms().size() != 1)
    return;
  for (const AtomId factor : product.terms().front().first)
    if (const Polynomial least = var(factor) - Polynomial(1); implies(facts, least))
      facts.push_back(least);
}

/// Goals for what is written where numbers of all ranks say: some rank has the number of the point
/// among its own, and an execution there has read it.
void Prover::addNumbered(Scene &scene, Facts &facts, const Access &write, Instance &read,
                         const Region &region, llvm::ArrayRef<Polynomial> point,
                         std::vector<Goal> &goals) {
  Instance writer = scene.instance(write.op);
  const Region to = scene.region(write.view, writer, facts);
  if (!to.isExact)
    return;
  const Polynomial one(1);
  for (Op *load : writer.reads) {
    const Op *object = ir::objectOf(load->operand(0));
    const Op *clause = load->is(OpKind::Load) ? scene.eachOnceOf(object) : nullptr;
    const auto place = clause ? scene.placeOf(*load, writer, facts) : std::nullopt;
    const auto id = place ? place->value.asAtom() : std::nullopt;
    if (!id)
      continue;
    // Which number says the point: it is solved for like an unknown.
    Goal which;
    which.unknowns.push_back(*id);
    which.equal.push_back({to.rank, region.rank});
    for (const auto &[dim, p] : llvm::zip(to.dims, point))
      if (dim.at)
        which.equal.push_back({*dim.at, p});
    llvm::erase_if(which.equal, [&](const auto &equation) {
      return !scene.polys.mentions(equation.first, *id);
    });
    which.further.push_back(Formula::atLeastZero(var(*id)));
    Facts known = facts;
    solve(scene, known, which, Guesses::Late);
    const Polynomial number = which.further.front().p;
    auto &environment = read.environment;
    const Polynomial end = scene.polys.of(clause->operand(2), environment);
    if (!scene.implies(facts, number) || !scene.implies(facts, end - number - one))
      continue;
    // Who has it, and where.
    facts.push_back(end - one);
    scene.addFactors(facts, end);
    llvm::SmallVector<AtomId, 3> digits;
    Picked has{
        const_cast<Op *>(object), clause, scene.unknownRank(kernel_, facts, digits), {}, number};
    for (const Value *size : object->operands().drop_back()) {
      const Polynomial extent = scene.polys.of(const_cast<Value *>(size), environment);
      has.at.push_back(var(scene.polys.fresh(extent)));
      facts.push_back(has.at.back());
      ir::addLess(facts, has.at.back(), extent);
    }
    Picked counts{countsOf(*clause), clause, has.rank, has.at, var(scene.polys.fresh())};
    scene.addBounds(facts, counts.object, counts.value, read);
    has.at.push_back(var(scene.polys.fresh()));
    facts.push_back(has.at.back());
    ir::addLess(facts, has.at.back(), counts.value);
    auto goal = covers(scene, facts, write, writer, to, region, point);
    if (!goal)
      return;
    goal->equal.push_back({place->rank, has.rank});
    for (const auto &[its, wanted] : llvm::zip_equal(place->at, has.at))
      goal->equal.push_back({its, wanted});
    goal->known = read.picked;
    goal->known.push_back(std::move(has));
    goal->known.push_back(std::move(counts));
    addOrders(scene, facts, write, writer, to, read, *goal, goals);
    return;
  }
}

} // namespace dtile::protocol::prove
