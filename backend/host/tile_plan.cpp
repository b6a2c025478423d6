// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Decides which tiles are computed in place of their use, and lays the others out in the workspace.
//
// Ops are numbered in program order, a loop or branch a second time at its end. A buffer holds a
// tile from the op that writes it to the last that reads it; reads inside a loop of what was made
// outside last until the loop's end. Two tiles may share memory when no segments overlap, or when
// they only touch at an op that reads the one and writes the other element by element.
#include "backend/host/tile_plan.h"
#include "ir/core/op_classes.h"

#include "backend/llvm/lowering.h"
#include "frontend/base/check.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <numeric>

namespace dtile::backend::host {

using ir::Block;
using ir::Op;
using ir::OpKind;
using ir::Value;

int64_t tileBytes(ir::Type type) { return type.elements() * dtypeBytes(type.dtype()); }

bool isUnitReshape(const Op &op) {
  auto dropUnits = [](llvm::ArrayRef<int64_t> shape) {
    llvm::SmallVector<int64_t, 4> rest;
    llvm::copy_if(shape, std::back_inserter(rest), [](int64_t size) { return size != 1; });
    return rest;
  };
  return op.is(OpKind::Reshape) &&
         dropUnits(op.operand(0)->type().shape()) == dropUnits(op.result()->type().shape());
}

bool isAsynchronousSend(OpKind kind) {
  return kind == OpKind::Put || kind == OpKind::PutSignal || kind == OpKind::ReduceAdd;
}

namespace {

bool isTile(const Value *value) { return value->type().isTile(); }
bool isCheap(const Op &op) { return op.is(OpKind::Splat) || op.is(OpKind::Iota); }
bool isLoop(const Op &op) { return op.is(OpKind::For) || op.is(OpKind::While); }
bool isRearrangement(const Op &op) {
  return op.is(OpKind::Broadcast) || op.is(OpKind::Trans) || isUnitReshape(op);
}
bool isTileArithmetic(const Op &op) { return ir::isElementwise(op.kind()) && isTile(op.result()); }

/// The block that a value belongs to.
const Block *homeOf(const Value *value) {
  return value->definingOp() ? value->definingOp()->parentBlock() : value->argumentOf();
}

/// The user computes its operand element by element, wherever it needs one.
bool takesElements(const ir::Use &use) {
  const Op &user = *use.user;
  if (isTileArithmetic(user) || isRearrangement(user))
    return true;
  switch (user.kind()) {
  case OpKind::Store:
    return use.index == 0 && !user.operand(1)->type().isRemote();
  case OpKind::Dot:
    return use.index < 2;
  case OpKind::Take:
    return use.index == 1;
  case OpKind::Reduce:
  case OpKind::Scatter:
  case OpKind::AtomicScatter:
  case OpKind::ReduceAddScatter:
  case OpKind::Gather:
    return true;
  default:
    return false;
  }
}

/// The user takes a tile into a buffer of its own.
bool fillsItsOwnBuffer(const ir::Use &use) {
  switch (use.user->kind()) {
  case OpKind::For:
  case OpKind::While:
  case OpKind::Yield:
  case OpKind::Condition:
    return true;
  case OpKind::Dot:
    return use.index == 2;
  default:
    return false;
  }
}

/// The parameter that a view is a part of, or null when control decides.
const Value *object(const Value *view) {
  for (;;) {
    const Op *op = view->definingOp();
    if (!op)
      return nullptr;
    if (op->is(OpKind::Param))
      return view;
    if (!op->is(OpKind::ViewSlice) && !op->is(OpKind::ViewTile) && !op->is(OpKind::ViewAt) &&
        !op->is(OpKind::ViewReshape))
      return nullptr;
    view = op->operand(0);
  }
}

/// Something in the op may change what a load reads, or order it.
bool maybeWrites(Op &op) {
  constexpr uint16_t kHazards = ir::Write | ir::RemoteWrite | ir::Signal | ir::Wait | ir::Order;
  bool found = false;
  ir::walk(op, [&](Op &inner) { found |= inner.hasEffect(kHazards); });
  return found;
}

} // namespace

TilePlan::TilePlan(Block &body) {
  number(body, 0);
  end_ += 1;
  chooseInlined(body);
  addBuffers(body);
  findInPlace(body);
  coalesce();
  assignOffsets();
}

void TilePlan::number(Block &block, unsigned depth) {
  for (Op &op : block.ops()) {
    at_[&op] = ++end_;
    depth_[&op] = depth;
    for (unsigned i = 0; i < op.numRegions(); ++i)
      number(op.body(i), depth + (isLoop(op) ? 1 : 0));
    if (op.numRegions() > 0)
      endOf_[&op] = ++end_;
  }
}

// What is computed where it is used.

void TilePlan::chooseInlined(Block &block) {
  for (Op &op : llvm::reverse(block.ops())) {
    for (unsigned i = 0; i < op.numRegions(); ++i)
      chooseInlined(op.body(i));
    if (op.numResults() == 1 && isTile(op.result()))
      inlined_[op.result()] = canInline(op);
  }
}

bool TilePlan::canInline(Op &op) {
  const Value *tile = op.result();
  if (isCheap(op))
    return llvm::all_of(tile->uses(), [](const ir::Use &use) {
      return takesElements(use) || fillsItsOwnBuffer(use);
    });
  if (wanted_.lookup(tile) || !tile->hasUses() || !llvm::all_of(tile->uses(), takesElements))
    return false;
  Op &first = *tile->uses().front().user;
  const bool oneUser = llvm::all_of(tile->uses(), [&](const ir::Use &use) {
    return use.user == &first && first.parentBlock() == op.parentBlock();
  });
  if (isRearrangement(op)) {
    // A broadcast would compute its operand again for each copy.
    Op *source = op.operand(0)->definingOp();
    const bool again = op.is(OpKind::Broadcast) && !(source && source->is(OpKind::Load));
    if (again || !oneUser)
      wanted_[op.operand(0)] = true;
    return true;
  }
  if (!oneUser || (tile->uses().size() > 1 && !isTileArithmetic(first)))
    return false;
  if (op.is(OpKind::Load) || op.is(OpKind::Gather))
    return !op.operand(0)->type().isRemote() && loadStaysValid(op);
  return isTileArithmetic(op);
}

void TilePlan::collectRoots(const Value *tile, llvm::SmallVectorImpl<Op *> &roots) {
  for (const ir::Use &use : tile->uses()) {
    Op *user = use.user;
    if (user->numResults() == 1 && isTile(user->result()) && isInlined(user->result()))
      collectRoots(user->result(), roots);
    else
      roots.push_back(user);
  }
}

/// Reading as late as in the loops of its users gives the same elements.
bool TilePlan::loadStaysValid(Op &load) {
  llvm::SmallVector<Op *> roots;
  collectRoots(load.result(), roots);
  for (Op *root : roots) {
    if (root->parentBlock() != load.parentBlock())
      return false;
    for (auto it = std::next(load.getIterator()); &*it != root; ++it)
      if (maybeWrites(*it))
        return false;
    if (!root->hasEffect(ir::Write))
      continue;
    // The root writes while it reads: another object, or each element just after reading it.
    const Value *from = object(load.operand(0));
    const Value *to = object(root->operand(1));
    if (from && to && from != to)
      continue;
    const bool sameElements = load.is(OpKind::Load) && root->is(OpKind::Store) &&
                              load.operand(0) == root->operand(1) &&
                              readsInPlace(load.result(), *root);
    if (!sameElements)
      return false;
  }
  return true;
}

/// Every element of `root` needs at most the same element of `from`.
bool TilePlan::readsInPlace(const Value *from, Op &root) {
  struct Walker {
    const TilePlan &plan;
    const Value *from;
    bool visit(const Value *tile, bool same) const {
      if (plan.base(tile) == from)
        return same;
      const Op *op = tile->definingOp();
      if (!op || !plan.isInlined(tile))
        return true;
      const bool keeps = isTileArithmetic(*op) || isUnitReshape(*op);
      return llvm::all_of(op->operands(), [&](const Value *operand) {
        return !isTile(operand) || visit(operand, same && keeps);
      });
    }
  };
  Walker walker{*this, from};
  return llvm::all_of(root.operands(), [&](const Value *operand) {
    return !isTile(operand) || walker.visit(operand, true);
  });
}

// Buffers and their segments.

const Value *TilePlan::base(const Value *tile) const {
  for (auto it = aliases_.find(tile); it != aliases_.end(); it = aliases_.find(tile))
    tile = it->second;
  return tile;
}

unsigned TilePlan::readAt(const Op &user, const Value *tile) const {
  unsigned position = at_.lookup(&user);
  if (user.numResults() == 1 && isTile(user.result()) && isInlined(user.result()))
    for (const ir::Use &use : user.result()->uses())
      position = std::max(position, readAt(*use.user, tile));
  const Block *home = homeOf(tile);
  for (const Block *block = user.parentBlock(); block != home;) {
    const Op *parent = block->parentOp();
    if (isLoop(*parent))
      position = std::max(position, endOf_.lookup(parent));
    block = parent->parentBlock();
  }
  return position;
}

void TilePlan::addSegment(const Value *tile, unsigned begin, unsigned end) {
  tile = base(tile);
  buffers_[bufferOf_.lookup(tile)].segments.push_back({begin, std::max(begin, end), tile});
}

void TilePlan::addUses(const Value *tile, unsigned begin) {
  unsigned end = begin;
  bool isSent = false;
  for (const ir::Use &use : tile->uses()) {
    end = std::max(end, readAt(*use.user, base(tile)));
    isSent |= isAsynchronousSend(use.user->kind()) && use.index == 0;
  }
  if (isSent) {
    // In flight until the end, also into the next iterations of the loops around it.
    sends_ = true;
    buffers_[bufferOf_.lookup(base(tile))].inFlight = true;
    end = end_;
    for (const Op *op = homeOf(base(tile))->parentOp(); op && at_.count(op); op = op->parentOp())
      if (isLoop(*op))
        begin = std::min(begin, at_.lookup(op));
  }
  addSegment(tile, begin, end);
}

void TilePlan::addBuffer(const Value *tile, unsigned begin) {
  bufferOf_[tile] = buffers_.size();
  buffers_.push_back({{tile}, {}, tileBytes(tile->type()), 0, false});
  addUses(tile, begin);
}

void TilePlan::addLoopBuffers(Op &op) {
  if (op.is(OpKind::If)) {
    for (const Value *result : op.results()) {
      if (!isTile(result))
        continue;
      addBuffer(result, at_.lookup(op.body(1).terminator()));
      const unsigned yielded = at_.lookup(op.body(0).terminator());
      addSegment(result, yielded, yielded);
    }
    return;
  }
  const bool isFor = op.is(OpKind::For);
  Block &last = op.body(isFor ? 0 : 1);
  const unsigned yields = at_.lookup(last.terminator());
  // The state: what the loop starts with and what a yield replaces.
  for (const Value *argument : op.body(0).arguments()) {
    if (!isTile(argument))
      continue;
    addBuffer(argument, at_.lookup(&op));
    addSegment(argument, yields, yields);
  }
  if (!isFor)
    for (const Value *argument : last.arguments())
      if (isTile(argument))
        addBuffer(argument, at_.lookup(op.body(0).terminator()));
  for (const Value *result : op.results()) {
    if (!isTile(result))
      continue;
    const Value *held = last.argument(result->index() + (isFor ? 1 : 0));
    bufferOf_[result] = bufferOf_.lookup(held);
    addUses(result, endOf_.lookup(&op));
  }
}

void TilePlan::addBuffers(Block &block) {
  for (Op &op : block.ops()) {
    if (op.is(OpKind::For) || op.is(OpKind::While) || op.is(OpKind::If)) {
      addLoopBuffers(op);
      for (unsigned i = 0; i < op.numRegions(); ++i)
        addBuffers(op.body(i));
      continue;
    }
    if (op.numResults() != 1 || !isTile(op.result()) || isInlined(op.result()))
      continue;
    if (op.is(OpKind::Reshape) && !isInlined(op.operand(0))) {
      aliases_[op.result()] = op.operand(0);
      addUses(op.result(), at_.lookup(&op));
    } else {
      addBuffer(op.result(), at_.lookup(&op));
    }
  }
}

// Sharing.

void TilePlan::addInPlace(const Value *from, const Value *to, const Op &at) {
  if (!isTile(from) || isInlined(from))
    return;
  const int64_t weight = tileBytes(to->type()) << 3 * std::min(depth_.lookup(&at), 8u);
  inPlace_.push_back({base(from), to, at_.lookup(&at), weight});
}

/// The buffers that an element-by-element op may overwrite while it reads them.
void TilePlan::findReaders(const Value *tile, Op &root) {
  if (!isInlined(tile)) {
    if (dtypeBytes(tile->type().dtype()) == dtypeBytes(root.result()->type().dtype()) &&
        readsInPlace(base(tile), root))
      addInPlace(tile, root.result(), root);
    return;
  }
  const Op *op = tile->definingOp();
  if (!op || !at_.count(op))
    return;
  for (const Value *operand : op->operands())
    if (isTile(operand))
      findReaders(operand, root);
}

void TilePlan::findInPlace(Block &block) {
  auto pairs = [&](llvm::ArrayRef<Value *> from, llvm::ArrayRef<Value *> to, const Op &at) {
    for (auto [a, b] : llvm::zip_equal(from, to))
      addInPlace(a, b, at);
  };
  for (Op &op : block.ops()) {
    for (unsigned i = 0; i < op.numRegions(); ++i)
      findInPlace(op.body(i));
    if (op.is(OpKind::For)) {
      llvm::ArrayRef<Value *> carried = op.body().arguments().drop_front();
      pairs(op.operands().drop_front(3), carried, op);
      pairs(op.body().terminator()->operands(), carried, *op.body().terminator());
    } else if (op.is(OpKind::While)) {
      Op *condition = op.body(0).terminator();
      Op *yield = op.body(1).terminator();
      pairs(op.operands(), op.body(0).arguments(), op);
      pairs(condition->operands().drop_front(), op.body(1).arguments(), *condition);
      pairs(yield->operands(), op.body(0).arguments(), *yield);
    } else if (op.is(OpKind::If)) {
      for (unsigned i = 0; i < 2; ++i)
        pairs(op.body(i).terminator()->operands(), op.results(), *op.body(i).terminator());
    } else if (op.is(OpKind::Dot)) {
      const DType type = op.result()->type().dtype();
      if (accumulatorType(type) == type)
        addInPlace(op.operand(2), op.result(), op);
    } else if (op.is(OpKind::Scan) ||
               (op.numResults() == 1 && isTileArithmetic(op) && !isInlined(op.result()))) {
      for (const Value *operand : op.operands())
        if (isTile(operand))
          findReaders(operand, op);
    }
  }
}

bool TilePlan::isAllowedTouch(const Segment &from, const Segment &to) const {
  return from.end == to.begin && llvm::any_of(inPlace_, [&](const InPlace &pair) {
           return pair.from == from.owner && pair.to == to.owner && pair.at == from.end;
         });
}

bool TilePlan::conflict(unsigned a, unsigned b) const {
  for (const Segment &x : buffers_[a].segments)
    for (const Segment &y : buffers_[b].segments)
      if (std::max(x.begin, y.begin) <= std::min(x.end, y.end) && !isAllowedTouch(x, y) &&
          !isAllowedTouch(y, x))
        return true;
  return false;
}

void TilePlan::merge(unsigned a, unsigned b) {
  Buffer from = std::exchange(buffers_[b], {});
  llvm::append_range(buffers_[a].members, from.members);
  llvm::append_range(buffers_[a].segments, from.segments);
  buffers_[a].bytes = std::max(buffers_[a].bytes, from.bytes);
  buffers_[a].inFlight |= from.inFlight;
  for (auto &[tile, buffer] : bufferOf_)
    if (buffer == b)
      buffer = a;
}

void TilePlan::coalesce() {
  std::vector<unsigned> order(inPlace_.size());
  std::iota(order.begin(), order.end(), 0);
  llvm::sort(order, [&](unsigned x, unsigned y) {
    return std::pair(-inPlace_[x].weight, x) < std::pair(-inPlace_[y].weight, y);
  });
  for (unsigned i : order) {
    const InPlace &pair = inPlace_[i];
    const unsigned from = bufferOf_.lookup(pair.from);
    const unsigned to = bufferOf_.lookup(pair.to);
    if (from != to && !conflict(from, to))
      merge(from, to);
  }
}

void TilePlan::assignOffsets() {
  std::vector<unsigned> order;
  for (unsigned i = 0; i < buffers_.size(); ++i)
    if (!buffers_[i].members.empty())
      order.push_back(i);
  llvm::sort(order, [&](unsigned x, unsigned y) {
    return std::pair(-buffers_[x].bytes, x) < std::pair(-buffers_[y].bytes, y);
  });
  std::vector<unsigned> placed;
  for (unsigned i : order) {
    // The lowest gap between the buffers that are alive at the same time.
    llvm::SmallVector<std::pair<int64_t, int64_t>> taken;
    for (unsigned other : placed) {
      const bool together = llvm::any_of(buffers_[i].segments, [&](const Segment &x) {
        return llvm::any_of(buffers_[other].segments, [&](const Segment &y) {
          return std::max(x.begin, y.begin) <= std::min(x.end, y.end);
        });
      });
      if (together)
        taken.push_back(
            {buffers_[other].offset,
             buffers_[other].offset + int64_t(llvm::alignTo(buffers_[other].bytes, kBufferAlign))});
    }
    llvm::sort(taken);
    int64_t offset = 0;
    for (auto [begin, end] : taken) {
      if (offset + buffers_[i].bytes <= begin)
        break;
      offset = std::max(offset, end);
    }
    buffers_[i].offset = offset;
    bytes_ = std::max(bytes_, int64_t(llvm::alignTo(offset + buffers_[i].bytes, kBufferAlign)));
    placed.push_back(i);
  }
}

// Queries.

bool TilePlan::isInlined(const Value *tile) const {
  if (const Op *op = tile->definingOp(); op && !at_.count(op))
    return true;
  return inlined_.lookup(tile);
}

int64_t TilePlan::offset(const Value *tile) const {
  auto it = bufferOf_.find(base(tile));
  DTILE_CHECK(it != bufferOf_.end(), "a tile with a buffer");
  return buffers_[it->second].offset;
}

bool TilePlan::sameBuffer(const Value *a, const Value *b) const {
  if (isInlined(a) || isInlined(b))
    return false;
  return bufferOf_.lookup(base(a)) == bufferOf_.lookup(base(b));
}

bool TilePlan::mayBeInFlight(const Value *tile) const {
  return !isInlined(tile) && buffers_[bufferOf_.lookup(base(tile))].inFlight;
}

} // namespace dtile::backend::host
