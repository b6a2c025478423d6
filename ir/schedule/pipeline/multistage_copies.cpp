// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// multistage-copies: what loops of products load is copied to shared memory some iterations ahead.
//
// Expects: `for` loops of spaces with products, after infer-layouts; facts of a machine whose
//   threads go on while what they copy to shared memory is on its way.
// Produces: attribute `slots` on a loop (of how many iterations shared memory holds copies) and
//   `copied` on its loads of tiles whose places follow from its position, and on its gathers of
//   rows whose numbers do. The back end starts the copies `slots` - 1 iterations ahead and reads
//   operands of products where they lie. Tiles that every iteration loads from the same place are
//   loaded before the loop.
// Why: where no TMA fills shared memory (stage-loads), or not for this loop, a program
//   would wait for memory, then multiply.
// Leaves alone: loops that write, wait or signal, since loads would move across that; spaces with
//   staged loads, which use all of shared memory; loads whose places are themselves loaded, but for
//   numbers that inputs hold (pages of keys, rows that are picked): the back end brings those
//   before.
#include "ir/analysis/loop_positions.h"
#include "ir/analysis/shared_memory_plan.h"
#include "ir/core/builder.h"
#include "ir/machine/target_facts.h"
#include "ir/transform/pass.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

namespace dtile::passes {
namespace {

using namespace dtile::ir;

/// Most slots of one loop, and the bytes that are worth having on their way.
constexpr int64_t kMostSlots = 6;
constexpr int64_t kBytesAhead = 64 * 1024;
/// Tiles below this size are loaded as they are.
constexpr int64_t kSmallCopyBytes = 512;
/// Threads whose registers may be all that a processor has.
constexpr int64_t kFullThreads = 256;
/// Of a tile that is kept in registers all through a loop, in one thread.
constexpr int64_t kKeptBytes = 256;

/// One loop.
class LoopCopies {
public:
  LoopCopies(Op &loop, PassContext &context) : loop_(loop), body_(loop.body()), context_(context) {}
  bool run();

private:
  [[nodiscard]] bool hasProduct() const;
  [[nodiscard]] bool onlyReads();
  bool keepInvariants();
  void choose();
  [[nodiscard]] bool canBeCopied(Op &load);
  [[nodiscard]] int64_t swizzleOf(const Op &load) const;
  [[nodiscard]] int64_t slotBytes() const;
  [[nodiscard]] int64_t scratchBytes();

  Op &loop_;
  Block &body_;
  PassContext &context_;
  llvm::SmallVector<Op *, 4> loads_;
  /// Loads of numbers that say where tiles are.
  llvm::SmallSetVector<Op *, 2> lookups_;
  /// Loads of index tiles that come to the ring ahead of the rows that they select.
  llvm::SmallSetVector<Op *, 2> tileLookups_;
};

bool LoopCopies::hasProduct() const {
  return llvm::any_of(body_.ops(), [](Op &op) { return op.is(OpKind::Dot); });
}

/// And no loop in it has copies of its own on their way, or is staged.
bool LoopCopies::onlyReads() {
  bool only = true;
  walk(body_, [&](Op &op) {
    if (op.hasEffect(Write | RemoteWrite | Signal | Wait | Order) || op.has(attr::async_stages) ||
        op.has(attr::stages))
      only = false;
  });
  return only;
}

/// What the elements of a tile take of one thread's registers.
int64_t threadBytes(Type tile) {
  return int64_t(tile.layout()->registers()) * int64_t(dtypeBytes(tile.dtype()));
}

/// Moves rearrangements of a tile before the loop as well: where it is wanted in other threads, it
/// goes there once.
void keepRearranged(Value *tile, Op &loop) {
  for (const Use &use : llvm::SmallVector<Use, 2>(tile->uses())) {
    Op &user = *use.user;
    const bool isMoved = (user.is(OpKind::Convert) || user.is(OpKind::Trans)) &&
                         user.parentBlock() == &loop.body() &&
                         threadBytes(user.result()->type()) <= kKeptBytes;
    if (!isMoved)
      continue;
    user.moveBefore(&loop);
    keepRearranged(user.result(), loop);
  }
}

/// Loads what does not change before the loop, as far as registers go.
bool LoopCopies::keepInvariants() {
  llvm::SmallVector<Op *, 4> loads;
  for (Op &op : body_.ops())
    if (op.is(OpKind::Load) && op.result()->type().isTile())
      loads.push_back(&op);
  bool changed = false;
  for (Op *load : loads) {
    PositionChain chain;
    bool isVarying = false;
    const Type type = load->result()->type();
    if (!followsFromPosition(*load, chain, isVarying) || isVarying || !type.layout() ||
        threadBytes(type) > kKeptBytes)
      continue;
    for (Op *op : chain)
      op->moveBefore(&loop_);
    keepRearranged(load->result(), loop_);
    context_.remark(*load, "loaded before the loop");
    changed = true;
  }
  return changed;
}

bool LoopCopies::canBeCopied(Op &load) {
  const bool isGather = gathersRows(load);
  if (!load.is(OpKind::Load) && !isGather)
    return false;
  const Value *tile = load.result();
  if (!tile->type().isTile() || tile->type().rank() != 2 || !tile->type().layout() ||
      load.operand(0)->type().isRemote())
    return false;
  for (Value *after : load.operands().drop_front(isGather ? 2 : 1))
    if (!after->type().isAcquire())
      return false;
  const int64_t bytes = dtypeBytes(tile->type().dtype());
  if (tile->type().shape()[1] * bytes % kSharedWordBytes != 0 ||
      tile->type().elements() * bytes < kSmallCopyBytes)
    return false;
  PositionChain chain;
  bool isVarying = false;
  const bool follows = isGather ? rowsFollowFromPosition(load, chain, isVarying)
                                : followsFromPosition(load, chain, isVarying);
  if (!follows || !isVarying)
    return false;
  if (isGather) {
    const auto lookups = tileLookups(load);
    if (!lookups)
      return false;
    tileLookups_.insert_range(*lookups);
  }
  for (Op *op : chain)
    if (isLookup(*op))
      lookups_.insert(op);
  return true;
}

/// Whether some product without matrix instructions has the tile as an operand, which it reads
/// element by element.
bool isMultipliedByElements(const Value *tile) {
  return llvm::any_of(tile->uses(), [](const Use &use) {
    if (use.user->is(OpKind::Dot))
      return use.index < 2 && !use.user->has(attr::matrix);
    return (use.user->is(OpKind::Trans) || use.user->is(OpKind::Convert)) &&
           isMultipliedByElements(use.user->result());
  });
}

/// Rows in which words change places: at least two words, and no more than all banks.
int64_t LoopCopies::swizzleOf(const Op &load) const {
  const Type type = load.result()->type();
  const int64_t row = type.shape()[1] * int64_t(dtypeBytes(type.dtype()));
  if (isMultipliedByElements(load.result()) || !llvm::isPowerOf2_64(uint64_t(row)) ||
      row < 2 * kSharedWordBytes)
    return 0;
  return std::min(row, kBankLineBytes);
}

int64_t LoopCopies::slotBytes() const {
  MultistageSlot slot;
  for (const Op *load : loads_)
    slot.addTile(load->result()->type(), swizzleOf(*load));
  slot.addNumbers(MultistageSlot::holdsNumbers(lookups_.size()) ? lookups_.size() : 0);
  for (const Op *lookup : tileLookups_)
    slot.addLookup(lookup->result()->type());
  return slot.bytes();
}

/// What else the loop's body needs at once, at most; products read from slots what is there.
int64_t LoopCopies::scratchBytes() {
  const auto isCopied = [&](const Value &tile) {
    const Op *source = tile.definingOp();
    while (source && (source->is(OpKind::Convert) || source->is(OpKind::Trans)))
      source = source->operand(0)->definingOp();
    return source && llvm::is_contained(loads_, source);
  };
  int64_t most = 0;
  walk(body_, [&](Op &op) { most = std::max(most, exchangeBytes(op, isCopied)); });
  return most;
}

void LoopCopies::choose() {
  for (Op &op : body_.ops())
    if (canBeCopied(op))
      loads_.push_back(&op);
}

bool LoopCopies::run() {
  if (!hasProduct() || !onlyReads())
    return false;
  const bool changed = keepInvariants();
  choose();
  if (loads_.empty())
    return changed;
  const int64_t scratch = scratchBytes();
  // Several programs of few threads share a processor where they can.
  const int64_t threads = loop_.enclosing(OpKind::Kernel)->getOr(attr::threads, kFullThreads);
  const int64_t programs = kFullThreads / std::clamp<int64_t>(threads, 1, kFullThreads);
  int64_t most = (sharedRoom(*context_.facts, programs) - scratch) / slotBytes();
  if (most < kFewestSlots)
    most = (sharedRoom(*context_.facts) - scratch) / slotBytes();
  const int64_t wanted = 1 + int64_t(llvm::divideCeil(kBytesAhead, slotBytes()));
  const int64_t slots = std::min({std::max<int64_t>(wanted, 3), kMostSlots, most});
  if (slots < kFewestSlots) {
    context_.remark(loop_, "not copied ahead: two iterations do not fit in shared memory");
    return changed;
  }
  loop_.set(attr::async_stages, slots);
  for (Op *load : loads_) {
    load->set(attr::via, LoadPath::Threads);
    load->set(attr::swizzle, swizzleOf(*load));
  }
  context_.remark(loop_, "what it loads is copied " + llvm::Twine(slots - 1) +
                             (slots == 2 ? " iteration ahead" : " iterations ahead"));
  return true;
}

} // namespace

bool multistageCopies(Module &module, PassContext &context) {
  if (!context.facts || context.facts->asyncCopyBytes < kSharedWordBytes)
    return false;
  llvm::SmallVector<Op *, 8> loops = loopsOfSpaces(module);
  llvm::erase_if(loops,
                 [](Op *loop) { return loop->enclosing(OpKind::Space)->has(attr::warpgroups); });
  bool changed = false;
  // Inner loops first.
  for (Op *loop : llvm::reverse(loops))
    changed |= LoopCopies(*loop, context).run();
  return changed;
}

} // namespace dtile::passes
