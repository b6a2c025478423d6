// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// licm: what is the same in each iteration is computed once, before the loop.
//
// Expects: any well-formed module.
// Produces: pure ops directly in the body of a `for`, whose operands come from outside of it, stand
//   before it; from inner loops first, so that an op leaves as many loops as it can.
// Why: index arithmetic and constants are written where they are used.
// Leaves alone: ops with effects or regions; view.at and view.reshape, which may stop the launch,
//   where the loop may run zero times; spaces, whose bodies run wherever the scheduler puts them.
#include "ir/transform/pass.h"
#include "ir/transform/ranges.h"

#include "llvm/ADT/STLExtras.h"

namespace dtile::passes {

using namespace dtile::ir;

namespace {

bool surelyRuns(const Op &loop) {
  const std::optional<Range> lo = rangeOf(loop.operand(0)), hi = rangeOf(loop.operand(1));
  return lo && hi && lo->hi < hi->lo;
}

Block *blockOf(const Value *value) {
  return value->definingOp() ? value->definingOp()->parentBlock() : value->argumentOf();
}

bool hoistFrom(Op &loop) {
  Block &body = loop.body();
  const bool runs = surelyRuns(loop);
  bool changed = false;
  for (auto it = body.ops().begin(); it != body.ops().end();) {
    Op &op = *it++;
    if (!op.isPure() || op.numRegions() != 0)
      continue;
    if ((op.is(OpKind::ViewAt) || op.is(OpKind::ViewReshape)) && !runs)
      continue;
    // A token made in each iteration is used in each.
    if (llvm::any_of(op.results(), [](const Value *v) { return v->type().isToken(); }))
      continue;
    // What a direct child uses is defined in this very block, or outside of the loop.
    if (llvm::any_of(op.operands(), [&](const Value *v) { return blockOf(v) == &body; }))
      continue;
    op.moveBefore(&loop);
    changed = true;
  }
  return changed;
}

bool visit(Block &block) {
  bool changed = false;
  for (auto it = block.ops().begin(); it != block.ops().end(); ++it) {
    for (unsigned i = 0; i < it->numRegions(); ++i)
      changed |= visit(it->body(i));
    if (it->is(OpKind::For))
      changed |= hoistFrom(*it);
  }
  return changed;
}

} // namespace

bool hoistInvariants(Module &module, PassContext &context) { return visit(module.body()); }

} // namespace dtile::passes
