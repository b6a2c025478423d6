// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// split-copies: gives the copies of few bodies to more bodies.
//
// Expects: derived counts (derive-counts); spaces as the source has them, or ordered (order-tiles).
// Produces: spaces with one more dimension `part`, innermost, whose bodies do what one body did,
//   but copy only their part of each view; counts of the signals that they notify times the parts.
//   The first part puts tiles and numbers. The last one waits, at the end of the body: programs
//   begin bodies in order, so all parts are on their way before.
// Why: a program moves a fraction of what a link carries, and a body is one program's. Where there
//   is one body for each peer, most of the device would wait for a few programs.
// Leaves alone: spaces of more bodies than a few; bodies that do something that must not be done
//   twice (stores, updates, barriers), that compute with large tiles, or that read what is copied;
//   bodies that go on after a wait, as what follows may need it in each part; signals with waits
//   for counts of their own, and the spaces that notify them; kernels that use the copy engine, as
//   that notifies a cell once.
#include "ir/analysis/communication.h"
#include "ir/analysis/engine_copies.h"
#include "ir/core/builder.h"
#include "ir/core/constants.h"
#include "ir/core/tile_order.h"
#include "ir/transform/pass.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/SmallPtrSet.h"

namespace dtile::passes {
namespace {

using namespace dtile::ir;

/// Bodies for one. The same on all devices of a kind: ranks count each other's notifies.
constexpr int64_t kParts = 8;
/// Bodies that are few, and as how many those count of which there is one a rank.
constexpr int64_t kFewBodies = 16;
constexpr int64_t kRanks = 8;
/// Elements of a tile that each part may compute again.
constexpr int64_t kSmallTile = 1024;
/// Elements that parts of one row are multiples of: then they are aligned as the row is.
constexpr int64_t kGrain = 256;

bool isCopy(const Op &op) {
  return (op.is(OpKind::Put) || op.is(OpKind::PutSignal) || op.is(OpKind::Get)) &&
         op.operand(0)->type().isView() && op.operand(0)->type().rank() > 0;
}

bool notifies(const Op &op) { return op.is(OpKind::Notify) || op.is(OpKind::PutSignal); }

/// Whether positions of a view begin at 0: it is no window.
bool beginsAtZero(const Value *view) {
  for (const Op *op = view->definingOp(); op; op = op->operand(0)->definingOp()) {
    if (op->is(OpKind::Param))
      return true;
    if (!op->is(OpKind::ViewSlice) && !op->is(OpKind::ViewAt))
      return false;
  }
  return false;
}

/// Whether an op may be done by each part, up to what it touches.
bool mayRepeat(const Op &op) {
  const auto isLarge = [](const Value *value) {
    return value->type().isTile() && value->type().elements() > kSmallTile;
  };
  if (llvm::any_of(op.results(), isLarge) || llvm::any_of(op.operands(), isLarge))
    return false;
  switch (op.kind()) {
  case OpKind::SigAt:
  case OpKind::SigSlice:
  case OpKind::Load:
  case OpKind::Gather:
  case OpKind::Notify:
  case OpKind::Await:
  case OpKind::Quiet:
  case OpKind::Fence:
  case OpKind::Assert:
  case OpKind::For:
  case OpKind::If:
  case OpKind::Yield:
    return true;
  case OpKind::Put:
  case OpKind::PutSignal:
  case OpKind::Get:
    return isCopy(op);
  default:
    return op.isPure() && op.numRegions() == 0;
  }
}

/// A put of a tile or number.
bool isSmallPut(const Op &op) { return op.is(OpKind::Put) && !op.operand(0)->type().isView(); }

/// A wait at the end of a body, which does nothing afterwards.
bool isLastWait(const Op &op) {
  if (!op.is(OpKind::Wait) || op.parentOp() == nullptr || !op.parentOp()->is(OpKind::Space))
    return false;
  bool isBehind = false;
  for (const Op &other : op.parentBlock()->ops()) {
    if (isBehind && !other.is(OpKind::Wait) && !other.is(OpKind::Await) &&
        !other.is(OpKind::Yield) && !other.is(OpKind::SigAt) && !other.is(OpKind::SigSlice) &&
        !(other.isPure() && other.numRegions() == 0))
      return false;
    isBehind |= &other == &op;
  }
  return llvm::all_of(op.result()->uses(),
                      [](const Use &use) { return use.user->is(OpKind::Await); });
}

/// Objects that a space touches; null for one that is not known.
using Objects = llvm::SmallPtrSet<const Op *, 8>;
void addObjects(Objects &objects, const Value *view) {
  for (const Op *object : objectsOf(view))
    objects.insert(object);
}

/// At least one copy of rows goes to parts, and everything else may be done by each of them.
bool hasPartsIn(Op &space) {
  bool mayAll = true, isWorth = false;
  Objects read, written;
  ir::walk(space.body(), [&](Op &op) {
    mayAll &= mayRepeat(op) || isSmallPut(op) || isLastWait(op);
    for (const Value *view : readViews(op))
      addObjects(read, view);
    if (const Value *view = writtenView(op))
      addObjects(written, view);
    if (!isCopy(op))
      return;
    mayAll &= beginsAtZero(op.operand(0)) && beginsAtZero(op.operand(1));
    isWorth |= op.operand(0)->type().rank() > 1;
  });
  return mayAll && isWorth && !read.contains(nullptr) && !written.contains(nullptr) &&
         llvm::none_of(written, [&](const Op *object) { return read.contains(object); });
}

/// Whether a space has few bodies on any number of ranks.
bool isFew(const Op &space) {
  int64_t bodies = 1;
  for (unsigned d = 0; d < spaceDims(space); ++d) {
    if (constantOf(space.operand(3 * d)) != 0 || constantOf(space.operand(3 * d + 2)) != 1)
      return false;
    const Value *end = space.operand(3 * d + 1);
    const bool isRanks = end->definingOp() && end->definingOp()->is(OpKind::NumRanks);
    const std::optional<int64_t> count = isRanks ? kRanks : constantOf(end);
    if (!count || *count <= 0 || *count > kFewBodies)
      return false;
    bodies *= *count;
  }
  return bodies <= kFewBodies;
}

bool isOpen(const Op &space) {
  return !space.get(attr::ordered) && !space.has(attr::programs) && !space.has(attr::after_all);
}

/// One kernel: which spaces can be split, by the signals that they notify.
class Splitter {
public:
  Splitter(Op &kernel, PassContext &context)
      : kernel_(kernel), context_(context), builder_(kernel.parentBlock()->module()) {}
  bool run();

private:
  void collect();
  void split(Op &space);
  void cut(Op &copy, Value *part);
  void putOnce(Op &put, Value *isFirst);
  void waitOnce(llvm::ArrayRef<Op *> waits, Value *part);
  void scaleCount(Op &signal);

  Op &kernel_;
  PassContext &context_;
  Builder builder_;
  llvm::SetVector<Op *> spaces_;
  /// Signals that a space of the kernel notifies, null for one that is not known.
  llvm::DenseMap<Op *, llvm::SetVector<Op *>> notified_;
  /// Whose count cannot be multiplied.
  llvm::SmallPtrSet<Op *, 4> fixed_;
};

void Splitter::collect() {
  for (Op &space : kernel_.body().ops()) {
    if (!space.is(OpKind::Space))
      continue;
    if (isOpen(space) && isFew(space) && hasPartsIn(space))
      spaces_.insert(&space);
    ir::walk(space.body(), [&](Op &op) {
      Value *cells = cellsOf(op);
      Op *signal = cells ? objectOf(cells) : nullptr;
      if (cells && notifies(op))
        notified_[&space].insert(signal);
      if (cells && op.is(OpKind::Wait) && op.numOperands() > 1)
        fixed_.insert(signal);
    });
  }
  for (Op &op : kernel_.body().ops())
    if (op.is(OpKind::SignalParam) && op.body().empty())
      fixed_.insert(&op);
}

bool Splitter::run() {
  collect();
  if (fixed_.contains(nullptr))
    return false;
  // A signal is multiplied where all who notify it are split, or none is.
  for (bool changed = true; changed;) {
    changed = false;
    for (auto &[space, signals] : notified_) {
      const bool isSplit = spaces_.contains(space);
      for (Op *signal : signals) {
        if (signal && isSplit && !fixed_.contains(signal))
          continue;
        changed |= !isSplit && fixed_.insert(signal).second;
        changed |= isSplit && spaces_.remove(space);
        if (!signal && !spaces_.empty()) {
          // It may be any.
          spaces_.clear();
          changed = true;
        }
      }
    }
  }
  llvm::SetVector<Op *> signals;
  for (Op *space : spaces_) {
    signals.insert(notified_[space].begin(), notified_[space].end());
    split(*space);
  }
  for (Op *signal : signals)
    scaleCount(*signal);
  return !spaces_.empty();
}

void Splitter::split(Op &space) {
  const unsigned dims = spaceDims(space);
  TileOrder order = TileOrder::fromSpace(space);
  order.order.push_back(dims);
  order.group.push_back(0);
  order.rotate.push_back(0);
  order.start.push_back(0);
  std::vector<std::string> names(space.get(attr::vars));
  names.push_back("part");
  builder_.setInsertionPoint(&space);
  builder_.setLoc(space.loc());
  llvm::SmallVector<Value *, 16> operands(space.operands());
  llvm::SmallVector<Value *, 3> bounds;
  for (int64_t bound : {int64_t(0), kParts, int64_t(1)})
    bounds.push_back(builder_.constIndex(bound));
  // Of a space whose dimensions have centers, the new one has one, too.
  if (operands.size() > 3 * dims)
    operands.push_back(bounds.front());
  operands.insert(operands.begin() + 3 * dims, bounds.begin(), bounds.end());
  space.setOperands(operands);
  space.set(attr::vars, names);
  order.toSpace(space);
  Value *part = space.body().addArgument(builder_.types().index(), "part");
  llvm::SmallVector<Op *, 8> copies, puts, waits;
  ir::walk(space.body(), [&](Op &op) {
    if (isCopy(op))
      copies.push_back(&op);
    else if (isSmallPut(op))
      puts.push_back(&op);
    else if (op.is(OpKind::Wait))
      waits.push_back(&op);
  });
  for (Op *copy : copies)
    cut(*copy, part);
  if (!puts.empty()) {
    builder_.setInsertionPointToStart(space.body());
    Value *isFirst = builder_.cmp("eq", part, builder_.constIndex(0));
    for (Op *put : puts)
      putOnce(*put, isFirst);
  }
  if (!waits.empty())
    waitOnce(waits, part);
  context_.remark(space, "each of these bodies is done by " + llvm::Twine(kParts) +
                             ", which copy a part each: a link takes more than a program moves");
}

/// Cuts the first dimension: rows, or the elements of one.
void Splitter::cut(Op &copy, Value *part) {
  builder_.setInsertionPoint(&copy);
  builder_.setLoc(copy.loc());
  const unsigned rank = copy.operand(0)->type().rank();
  Value *size = builder_.value(OpKind::ViewDim, {copy.operand(0)}, {}, {{attr::dim, int64_t(0)}});
  Value *each = builder_.ceilDiv(size, builder_.constIndex(kParts));
  if (rank == 1) {
    Value *grain = builder_.constIndex(kGrain);
    each = builder_.mul(builder_.ceilDiv(each, grain), grain);
  }
  Value *first = builder_.mul(part, each);
  Value *end = builder_.add(first, each);
  const std::string dims = "r" + std::string(rank - 1, 'a');
  for (unsigned i : {0u, 1u}) {
    Value *view = copy.operand(i);
    copy.setOperand(i, builder_.value(OpKind::ViewSlice, {view, first, end}, view->type(),
                                      {{attr::dims, dims}}));
  }
}

void Splitter::putOnce(Op &put, Value *isFirst) {
  builder_.setInsertionPoint(&put);
  builder_.setLoc(put.loc());
  const Type token = put.result()->type();
  Op *choice = builder_.op(OpKind::If, {isFirst}, {token});
  put.result()->replaceAllUsesWith(choice->result());
  put.moveToEnd(choice->body(0));
  builder_.setInsertionPointToEnd(choice->body(0));
  builder_.op(OpKind::Yield, {put.result()});
  builder_.setInsertionPointToEnd(choice->body(1));
  builder_.op(OpKind::Yield, {builder_.value(OpKind::TokenDone, {}, token)});
}

/// Moves the waits at the end of a body, and what awaits them, to the last part.
void Splitter::waitOnce(llvm::ArrayRef<Op *> waits, Value *part) {
  builder_.setInsertionPoint(waits.front()->parentBlock()->terminator());
  builder_.setLoc(waits.front()->loc());
  Value *isLast = builder_.cmp("eq", part, builder_.constIndex(kParts - 1));
  Op *choice = builder_.op(OpKind::If, {isLast});
  llvm::SmallVector<Op *, 4> awaits;
  for (Op *wait : waits) {
    for (const Use &use : wait->result()->uses())
      if (!llvm::is_contained(awaits, use.user))
        awaits.push_back(use.user);
    wait->moveToEnd(choice->body(0));
  }
  for (Op *await : awaits)
    await->moveToEnd(choice->body(0));
  for (unsigned i : {0u, 1u}) {
    builder_.setInsertionPointToEnd(choice->body(i));
    builder_.op(OpKind::Yield, {});
  }
}

void Splitter::scaleCount(Op &signal) {
  Op &yield = *signal.body().terminator();
  builder_.setInsertionPoint(&yield);
  builder_.setLoc(signal.loc());
  yield.setOperand(0, builder_.mul(yield.operand(0), builder_.constIndex(kParts)));
}

} // namespace

bool splitCopies(Module &module, PassContext &context) {
  bool changed = false;
  for (Op &kernel : module.body().ops())
    if (kernel.is(OpKind::Kernel) && !usesCopyEngine(kernel))
      changed |= Splitter(kernel, context).run();
  return changed;
}

} // namespace dtile::passes
