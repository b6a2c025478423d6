// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Queues: places are given out by a counter, and who has read how many were given knows that all
// before were.
#include "ir/protocol/prove/prover.h"

#include "ir/analysis/communication.h"
#include "ir/core/constants.h"

#include "llvm/ADT/STLExtras.h"

namespace dtile::protocol::prove {

namespace {

/// A read of how far a counter is.
struct CountRead {
  Polynomial value;
  Polynomial rank;
  llvm::SmallVector<Polynomial, 2> at;
};

/// Whether a counter begins each launch with zero, and all that the kernel does to it is that one
/// op adds one.
bool isCountedByOne(const Op &add, const Op &counter) {
  if (counter.get(ir::attr::mode) != ir::ParamMode::Scratch ||
      dtypeBytes(counter.result()->type().dtype()) < kLeastCounterBytes ||
      !counter.get(ir::attr::zero) || add.get(ir::attr::kind) != "add" ||
      ir::constantOf(add.operand(1)) != 1)
    return false;
  bool isOnly = true;
  ir::walk(*counter.parentOp(), [&](Op &op) {
    Value *view = ir::writtenView(op);
    if (!view || !view->type().isView() || &op == &add)
      return;
    const Op *object = ir::objectOf(view);
    isOnly &= object && object != &counter;
  });
  return isOnly;
}

/// The reads of a counter before an op, in blocks around it.
std::vector<CountRead> countsBefore(Scene &scene, Instance &instance, const Op &counter) {
  std::vector<CountRead> counts;
  for (Op *inner = instance.op; inner != instance.space; inner = inner->parentOp())
    for (Op &before : inner->parentBlock()->ops()) {
      if (&before == inner)
        break;
      if (!before.is(OpKind::Load) || before.result()->type().isTile() ||
          !Polynomials::isNumber(before.result()->type()) ||
          ir::objectOf(before.operand(0)) != &counter)
        continue;
      const Region region = scene.region(before.operand(0), instance, {});
      CountRead count{scene.polys.of(before.result(), instance.environment), region.rank, {}};
      for (const DimRegion &dim : region.dims)
        if (dim.at)
          count.at.push_back(*dim.at);
      if (count.at.size() == region.dims.size())
        counts.push_back(std::move(count));
    }
  return counts;
}

} // namespace

/// Goals for what is written at numbers of a counter. It begins with zero, and one op alone adds
/// one to it: so where somebody has read `n`, each number below it was got by an execution of that
/// op.
void Prover::addCounted(Scene &scene, Facts &facts, const Access &write, Instance &read,
                        const Region &region, llvm::ArrayRef<Polynomial> point,
                        std::vector<Goal> &goals) {
  for (Op *add : scene.instance(write.op).reads) {
    Op *counter = ir::objectOf(add->operand(0));
    if (!add->is(OpKind::Atomic) || !isCountedByOne(*add, *counter))
      continue;
    for (const CountRead &count : countsBefore(scene, read, *counter)) {
      // The execution that got the number of the point.
      Instance got = scene.instance(add);
      const Polynomial number = scene.polys.of(add->result(), got.environment);
      Instance writer = scene.instance(write.op, &got, Shares::Body);
      const Region to = scene.region(write.view, writer, facts);
      if (!to.isExact)
        return;
      for (size_t d = 0; d < to.dims.size(); ++d) {
        if (!to.dims[d].at || !(*to.dims[d].at == number) || !scene.implies(facts, point[d]) ||
            !scene.implies(facts, count.value - point[d] - Polynomial(1)))
          continue;
        Facts with = facts;
        scene.assume(with, got);
        ir::addEqual(with, number, point[d]);
        const Region added = scene.region(add->operand(0), got, with);
        bool isOne = added.isExact && added.dims.size() == count.at.size();
        scene.addEqualRanks(with, added.rank, count.rank);
        for (size_t c = 0; isOne && c < added.dims.size(); ++c) {
          isOne = added.dims[c].at.has_value();
          if (isOne)
            ir::addEqual(with, *added.dims[c].at, count.at[c]);
        }
        if (!isOne)
          continue;
        facts = std::move(with);
        Goal goal;
        goal.addExists(writer);
        goal.equal.push_back({to.rank, region.rank});
        for (const auto &[dim, p] : llvm::zip(to.dims, point)) {
          if (dim.at)
            goal.equal.push_back({*dim.at, p});
          for (const Polynomial &low : dim.atLeast)
            goal.addLessEqual(low, p);
          for (const Polynomial &high : dim.below)
            goal.addLess(p, high);
        }
        addOrders(scene, facts, write, writer, to, read, goal, goals);
        return;
      }
    }
  }
}

} // namespace dtile::protocol::prove
