// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The first and the last position of a window lie in what it is cut from, for all ranks, bodies and
// iterations that there are.
#include "ir/protocol/prove/regions/window_ends.h"
#include "ir/protocol/prove/model.h"

#include "llvm/ADT/STLExtras.h"

namespace dtile::protocol {

using namespace prove;

namespace {

/// Few loads need more than a hundredth of it.
constexpr uint64_t kWork = 100'000;

} // namespace

bool hasKnownEnd(ir::Op &load, unsigned dim) {
  const Op *window = load.operand(0)->definingOp();
  if (!window || !window->is(OpKind::ViewTile))
    return false;
  unsigned kept = 0;
  for (const char letter : window->get(ir::attr::dims))
    if (letter != 'i' && kept++ == dim)
      return letter == 'r';
  return false;
}

bool isWhole(ir::Op &load, unsigned dim) {
  ir::RefutationBudget budget{kWork};
  Scene scene(budget);
  Instance at = scene.instance(&load);
  Facts facts;
  scene.assume(facts, at);
  scene.assumeAsserted(facts, at);
  const std::optional<ViewShape> shape = scene.shape(load.operand(0), at, facts);
  if (!shape)
    return false;
  const ViewShape::Dim &along = shape->dims[dim];
  const Polynomial last(load.result()->type().shape()[dim] - 1);
  Formula all;
  for (const Polynomial &low : along.atLeast)
    all.parts.push_back(Formula::atLeastZero(Polynomial(0) - low));
  for (const Polynomial &high : along.below)
    all.parts.push_back(Formula::atLeastZero(high - last - Polynomial(1)));
  return scene.impliesInCases(facts, at, all);
}

} // namespace dtile::protocol
