// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ir/transform/access_layout.h"

#include "ir/analysis/shared_memory_plan.h"
#include "ir/core/op_classes.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

namespace dtile::passes {

using namespace dtile::ir;

namespace {

/// Tiles below this size are loaded and stored in any layout.
constexpr int64_t kSmallAccessBytes = 2048;
/// Neighbours that the lanes of a warp should move together, in bytes; and on their way to other
/// ranks.
constexpr int64_t kSegmentBytes = 32;
constexpr int64_t kRemoteSegmentBytes = 128;

/// Neighbours that lanes should move together, in bytes, where a tile is accessed.
int64_t segmentBytes(const Value &tile) {
  const bool isRemote = llvm::any_of(tile.uses(), [](const Use &use) {
    return use.user->hasEffect(RemoteWrite) ||
           (use.user->is(OpKind::Store) && use.user->operand(1)->type().isRemote());
  });
  return isRemote ? kRemoteSegmentBytes : kSegmentBytes;
}

/// Whether accesses of memory in this layout use it well: lanes next to each other move neighbours.
bool streams(const Layout &layout, const Value &tile) {
  const Type type = tile.type();
  const int64_t bytes = dtypeBytes(type.dtype());
  if (type.elements() * bytes < kSmallAccessBytes)
    return true;
  const unsigned dim = type.rank() - 1;
  int64_t run = layout.contiguous(dim);
  for (const Layout::Position &way : layout.bits(LayoutBits::Lane)) {
    if (way[dim] != run)
      break;
    run *= 2;
  }
  return run * bytes >= std::min(segmentBytes(tile), type.shape()[dim] * bytes);
}

/// Whether several warps have the same elements of a large tile.
bool isRepeated(const Layout &layout, Type type) {
  return type.elements() * int64_t(dtypeBytes(type.dtype())) >= kSmallAccessBytes &&
         llvm::any_of(layout.bits(LayoutBits::Warp), [](const Layout::Position &way) {
           return llvm::all_of(way, [](int64_t step) { return step == 0; });
         });
}

/// Whether a tile is an operand of a product that is used at once. Staged, it is in shared memory;
/// else it gets there from rows, as there are no registers for all of its fragments.
bool isForAwaited(const Value &tile) {
  return llvm::any_of(tile.uses(), [](const Use &use) {
    const Op &user = *use.user;
    return user.is(OpKind::Dot) ? use.index == 1 && user.get(attr::awaited)
                                : (user.is(OpKind::Convert) || user.is(OpKind::Trans)) &&
                                      isForAwaited(*user.result());
  });
}

/// Whether elements can change warps between what is accessed and what is computed: through shared
/// memory, which staged operands fill.
bool canExchange(const Value &tile, const TargetFacts *facts) {
  Op *space = tile.definingOp()->enclosing(OpKind::Space);
  if (space && space->has(attr::warpgroups) && !isForAwaited(tile))
    return false;
  if (!facts || facts->sharedBytes == 0)
    return true;
  return paddedTileBytes(tile.type().shape(), dtypeBytes(tile.type().dtype())) <=
         sharedRoom(*facts);
}

/// Whether the threads that use the tile of a load also load it. What the epilogue warp stores of a
/// tile is not converted at all (infer-layouts).
bool isPlainAccess(const Op &op) { return !op.has(attr::via); }

} // namespace

unsigned accessElements(const TargetFacts *facts, unsigned bytes) {
  constexpr unsigned kUsualAccessBytes = 16;
  return std::max(1u, (facts ? unsigned(facts->accessBytes) : kUsualAccessBytes) / bytes);
}

bool isRowMajor(const Value &tile) {
  const Op *op = tile.definingOp();
  if (!op)
    return true;
  if (op->is(OpKind::Trans) && op->get(attr::perm).back() + 1 != int64_t(tile.type().rank()))
    return !isRowMajor(*op->operand(0));
  const bool passes = op->is(OpKind::Convert) || op->is(OpKind::Trans) || isElementwise(op->kind());
  return !passes || op->numOperands() == 0 || !op->operand(0)->type().isTile() ||
         isRowMajor(*op->operand(0));
}

std::optional<Layout> accessLayout(const Value &tile, const Layout &computed,
                                   const TargetFacts *facts) {
  const bool isStream = streams(computed, tile);
  if (isStream && !isRepeated(computed, tile.type()))
    return computed;
  if (canExchange(tile, facts))
    return std::nullopt;
  if (isStream || !isPlainAccess(*tile.definingOp()))
    return computed;
  const unsigned bytes = dtypeBytes(tile.type().dtype());
  const unsigned dim = tile.type().rank() - 1;
  const unsigned run = accessElements(facts, bytes);
  // To lengthen segments alone, each word would take two shuffles.
  if (bytes == 8 && computed.contiguous(dim) >= run)
    return computed;
  return computed.withRuns(dim, run, segmentBytes(tile) / bytes);
}

} // namespace dtile::passes
