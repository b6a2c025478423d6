// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "backend/gpu/occupancy.h"

#include "ir/core/layout.h"
#include "ir/core/op_classes.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>

namespace dtile::backend::gpu {

using ir::Block;
using ir::Op;
using ir::OpKind;
using ir::Value;

namespace {

/// Registers of a thread that hold no tile: addresses, positions, the launch.
constexpr int64_t kBesideTiles = 56;
/// Fewer are not asked for, as code without tiles needs so many, too.
constexpr int64_t kLeastRegisters = 96;
/// How registers of a thread are given out, and how many threads a processor holds.
constexpr int64_t kRegisterStep = 8, kMostThreads = 2048;

/// Registers of a thread that a tile takes.
int64_t wordsOf(const Value &value) {
  const ir::Type type = value.type();
  if (!type.isTile() || !type.layout())
    return 0;
  const int64_t bytes = int64_t(type.layout()->registers()) * int64_t(dtypeBytes(type.dtype()));
  return llvm::divideCeil(bytes, 4);
}

/// Where a value is used last in a block, or in what is nested in it.
const Op *ancestorIn(const Block &block, Op *user) {
  while (user && user->parentBlock() != &block)
    user = user->parentOp();
  return user;
}

/// Whether an element of a value is made where it is used, so that not all of them need be there at
/// once: what one elementwise op or store takes.
bool isMadeWhereUsed(const Value &value) {
  const Op *op = value.definingOp();
  if (!op || !value.hasOneUse() || op->numRegions() > 0)
    return false;
  const Op &user = *value.uses()[0].user;
  const bool isSource = ir::isElementwise(op->kind()) || op->is(OpKind::Load) ||
                        op->is(OpKind::Broadcast) || op->is(OpKind::Splat) ||
                        op->is(OpKind::Iota) || op->is(OpKind::Const);
  return isSource && user.parentBlock() == op->parentBlock() &&
         (ir::isElementwise(user.kind()) || user.is(OpKind::Broadcast) || user.is(OpKind::Store) ||
          user.is(OpKind::Put));
}

/// The most words of tiles that a thread has at once in a block.
int64_t mostLive(Block &block) {
  llvm::DenseMap<const Op *, int64_t> place;
  int64_t count = 0;
  for (Op &op : block.ops())
    place[&op] = count++;
  // What is added at each op, and taken away behind it.
  llvm::SmallVector<int64_t, 64> born(size_t(count) + 1, 0), dead(size_t(count) + 1, 0);
  const auto lives = [&](const Value &value, int64_t from) {
    const int64_t words = isMadeWhereUsed(value) ? 0 : wordsOf(value);
    int64_t last = from;
    for (const ir::Use &use : value.uses())
      if (const Op *user = ancestorIn(block, use.user))
        last = std::max(last, place.lookup(user));
    born[size_t(from)] += words;
    dead[size_t(last)] += words;
  };
  if (count == 0)
    return 0;
  for (const Value *argument : block.arguments())
    lives(*argument, 0);
  for (Op &op : block.ops())
    for (const Value *result : op.results())
      lives(*result, place.lookup(&op));
  int64_t live = 0, most = 0;
  for (Op &op : block.ops()) {
    const auto at = size_t(place.lookup(&op));
    live += born[at];
    int64_t here = 0;
    for (const Value *result : op.results())
      if (isMadeWhereUsed(*result))
        here += wordsOf(*result);
    for (unsigned i = 0; i < op.numRegions(); ++i)
      here = std::max(here, mostLive(op.body(i)));
    most = std::max(most, live + here);
    live -= dead[at];
  }
  return most;
}

} // namespace

int64_t residentPrograms(Op &kernel, int64_t registers, int64_t threads) {
  int64_t most = 0;
  bool multiplies = false;
  for (Op &space : kernel.body().ops()) {
    if (!space.is(OpKind::Space))
      continue;
    ir::walk(space.body(), [&](Op &op) { multiplies |= op.is(OpKind::Dot); });
    most = std::max(most, mostLive(space.body()));
  }
  if (multiplies || most == 0)
    return 1;
  const int64_t each = int64_t(llvm::alignTo(
      uint64_t(std::max(kLeastRegisters, kBesideTiles + most * 5 / 4)), kRegisterStep));
  return std::clamp<int64_t>(registers / (each * threads), 1, kMostThreads / threads);
}

} // namespace dtile::backend::gpu
