// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// slice-bodies: computes a tile that the registers cannot hold in slices of its rows.
//
// Expects: spaces that only read, compute elementwise and store, beside staged products, whose
//   kernel has few threads with a fixed share of the registers (stage-loads); before infer-layouts.
// Produces: a loop over slices of the rows around all that such a body does with tiles. Waits stay
//   before it. Of a loop that sends a tile to each rank and notifies it, the notifies follow after
//   it, in a loop of their own. A vector with an element a row, as of scales, is sliced as well;
//   what all rows share is loaded before the loop.
// Why: a reduction takes the tiles that products have left, as of 128 rows and 256 columns. With
//   256 threads its sums alone have 128 registers each, beside what is being loaded; the rest is
//   spilled. Measured: docs/decisions/sliced_bodies.md.
// Leaves alone: bodies with tiles of several shapes, or that wait or notify between what they do
//   with tiles; what a reduction, a gather or a transpose takes from other rows; what a body reads
//   and writes, or writes twice, at different places of one tensor.
#include "ir/analysis/communication.h"
#include "ir/core/builder.h"
#include "ir/core/op_classes.h"
#include "ir/core/view_dims.h"
#include "ir/schedule/beside_products.h"
#include "ir/transform/pass.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SetVector.h"

#include <optional>
#include <vector>

namespace dtile::passes {
namespace {

using namespace dtile::ir;

/// Elements that a thread computes at once: sums in f32, and half as many registers for each tile
/// that is on its way to them.
constexpr int64_t kElementsOfThread = 64;

bool touchesTiles(const Op &op) {
  const auto isTile = [](const Value *value) { return value->type().isTile(); };
  bool touches = false;
  walk(const_cast<Op &>(op), [&](const Op &inner) {
    touches |= llvm::any_of(inner.operands(), isTile) || llvm::any_of(inner.results(), isTile);
  });
  return touches;
}

/// Whether an op may stand before all that is done with tiles.
bool onlyWaits(Op &op) {
  bool only = true;
  walk(op,
       [&](const Op &inner) { only &= (inner.info().effects & ~(Wait | Trap | Control)) == 0; });
  return only;
}

/// The range that the rows of a window are, where they are one.
std::optional<ViewDim> rowsOf(const Op &window) {
  for (const ViewDim &dim : viewDims(window))
    if (!dim.isPosition())
      return dim.isRange() ? std::optional(dim) : std::nullopt;
  return std::nullopt;
}

/// The body of a space.
class BodySlices {
public:
  explicit BodySlices(Op &space) : space_(space) {}
  /// Whether it may be sliced.
  [[nodiscard]] bool find();
  [[nodiscard]] int64_t rows() const { return shape_[0]; }
  [[nodiscard]] int64_t elements() const { return shape_[0] * shape_[1]; }
  void slice(int64_t rows);

private:
  /// What a slice has of a tile: its rows, or all of it, where all rows share it.
  enum class Part : uint8_t { Rows, All, Unknown };
  [[nodiscard]] Part partOf(const Value *value) const;
  [[nodiscard]] Part partByUses(const Value *vector) const;
  [[nodiscard]] bool findShape();
  [[nodiscard]] bool areKnown(llvm::ArrayRef<Value *> values) const;
  [[nodiscard]] bool hasRows(const Op &op) const;
  [[nodiscard]] bool isShared(const Op &op) const;
  [[nodiscard]] bool takesRows(Op &op);
  [[nodiscard]] bool takesWindow(Value &view);
  [[nodiscard]] bool sends(Op &loop);
  [[nodiscard]] bool conflicts();
  [[nodiscard]] Value *sendSlice(Op &loop, Value *sent);

  Op &space_;
  /// Of the tiles that the body stores.
  llvm::SmallVector<int64_t, 2> shape_;
  /// Ops of the body itself that go into the loop.
  llvm::SetVector<Op *> moved_;
  /// Of these, loops that send a tile to ranks and notify them.
  llvm::SmallVector<Op *, 2> sends_;
  /// Windows of whole tiles, wherever they are.
  llvm::SetVector<Op *> windows_;
};

bool BodySlices::findShape() {
  walk(space_, [&](const Op &op) {
    if (!op.is(OpKind::Store) && !op.is(OpKind::Put))
      return;
    const Type tile = op.operand(0)->type();
    if (shape_.empty() && tile.isTile() && tile.rank() == 2)
      shape_.assign(tile.shape().begin(), tile.shape().end());
  });
  return !shape_.empty() && shape_[0] > 1;
}

/// Of a vector, by the tiles that it becomes.
BodySlices::Part BodySlices::partByUses(const Value *vector) const {
  std::optional<Part> part;
  for (const Use &use : vector->uses()) {
    const Op &user = *use.user;
    if (!user.is(OpKind::Reshape) && !isElementwise(user.kind()))
      return Part::Unknown;
    const Part its = partOf(user.result());
    if (part && *part != its)
      return Part::Unknown;
    part = its;
  }
  return part.value_or(Part::Unknown);
}

BodySlices::Part BodySlices::partOf(const Value *value) const {
  const llvm::ArrayRef<int64_t> shape = value->type().shape();
  if (shape.size() == 1)
    return partByUses(value);
  if (shape.size() != 2 || (shape[1] != shape_[1] && shape[1] != 1))
    return Part::Unknown;
  if (shape[0] == shape_[0])
    return Part::Rows;
  return shape[0] == 1 ? Part::All : Part::Unknown;
}

bool BodySlices::areKnown(llvm::ArrayRef<Value *> values) const {
  return llvm::all_of(values, [&](const Value *value) {
    return !value->type().isTile() || partOf(value) != Part::Unknown;
  });
}

/// Whether an op has tiles of which a slice has some rows.
bool BodySlices::hasRows(const Op &op) const {
  return llvm::any_of(
      llvm::concat<Value *const>(op.operands(), op.results()),
      [&](const Value *value) { return value->type().isTile() && partOf(value) == Part::Rows; });
}

/// Whether an op is about what all rows share, and may be done before them.
bool BodySlices::isShared(const Op &op) const {
  return op.numRegions() == 0 && (op.isPure() || isLoadOfInput(op)) && !hasRows(op) &&
         areKnown(op.operands()) && areKnown(op.results());
}

/// A window of a whole tile, whose first rows may be others.
bool BodySlices::takesWindow(Value &view) {
  Op *window = view.definingOp();
  if (!window || !window->is(OpKind::ViewTile) || !window->enclosing(OpKind::Space) ||
      !rowsOf(*window) || window->get(attr::lens).front() != shape_[0])
    return false;
  windows_.insert(window);
  if (window->parentBlock() == &space_.body())
    moved_.insert(window);
  return llvm::all_of(view.uses(), [](const Use &use) {
    return use.user->is(OpKind::Load) || use.user->is(OpKind::Store) || use.user->is(OpKind::Put);
  });
}

/// Whether an op computes each row from the same row of other tiles.
bool BodySlices::takesRows(Op &op) {
  if (!areKnown(op.operands()) || !areKnown(op.results()))
    return false;
  if (op.is(OpKind::For))
    return op.attrs().empty() && llvm::all_of(op.body().ops(), [&](Op &inner) {
             return touchesTiles(inner) ? isShared(inner) || takesRows(inner)
                                        : inner.isPure() || inner.is(OpKind::Yield);
           });
  if (op.is(OpKind::Load))
    return op.attrs().empty() && takesWindow(*op.operand(0));
  if (op.is(OpKind::Store))
    return op.parentBlock() == &space_.body() && takesWindow(*op.operand(1));
  // Not where an element a row becomes an element a column, or the reverse.
  if (op.is(OpKind::Reshape))
    return partOf(op.operand(0)) == Part::Rows && partOf(op.result()) == Part::Rows;
  // Each row of the result follows from that row of operands, and from what all rows share.
  return op.is(OpKind::Splat) || op.is(OpKind::Yield) || op.is(OpKind::Broadcast) ||
         (op.isPure() && isElementwise(op.kind()));
}

/// Whether a loop puts one tile of before it, and notifies each time when that has landed.
bool BodySlices::sends(Op &loop) {
  if (!loop.is(OpKind::For) || loop.numResults() > 0 || !loop.attrs().empty())
    return false;
  const Op *put = nullptr;
  for (Op &op : loop.body().ops()) {
    if (op.is(OpKind::Put)) {
      if (put || op.numOperands() != 2 || !op.operand(0)->type().isTile() ||
          partOf(op.operand(0)) != Part::Rows || !op.operand(0)->definingOp() ||
          op.operand(0)->definingOp()->parentBlock() == &loop.body() ||
          !takesWindow(*op.operand(1)))
        return false;
      put = &op;
    } else if (op.is(OpKind::Notify)) {
      if (!put || op.numOperands() != 2 || op.operand(1) != put->result())
        return false;
    } else if (touchesTiles(op) ||
               (!op.isPure() && !op.is(OpKind::SigSlice) && !op.is(OpKind::Yield))) {
      return false;
    }
  }
  return put != nullptr;
}

/// Whether a slice may read or write what another has written, as the body does so elsewhere, too.
bool BodySlices::conflicts() {
  llvm::SmallVector<Value *, 4> touched, written;
  walk(space_, [&](const Op &op) {
    if (op.is(OpKind::Load) && !isLoadOfInput(op))
      touched.push_back(op.operand(0));
    if (op.is(OpKind::Store) || op.is(OpKind::Put))
      written.push_back(op.operand(1));
  });
  llvm::append_range(touched, written);
  return llvm::any_of(written, [&](Value *to) {
    return llvm::any_of(touched, [&](Value *other) { return other != to && mayAlias(other, to); });
  });
}

bool BodySlices::find() {
  if (!findShape())
    return false;
  for (Op &op : space_.body().ops()) {
    if (touchesTiles(op)) {
      if (isShared(op))
        continue;
      if (sends(op))
        sends_.push_back(&op);
      else if (!takesRows(op))
        return false;
      moved_.insert(&op);
    } else if (!onlyWaits(op)) {
      return false;
    }
  }
  return !windows_.empty() && !conflicts();
}

/// Makes such a loop one that only puts, and says when those and `sent` have landed.
Value *BodySlices::sendSlice(Op &loop, Value *sent) {
  Builder builder(loop.parentBlock()->module());
  builder.setInsertionPoint(&loop);
  builder.setLoc(loop.loc());
  Type token = builder.types().token();
  llvm::SmallVector<Value *, 4> operands(loop.operands().begin(), loop.operands().end());
  operands.push_back(sent);
  Op *puts = builder.op(OpKind::For, operands, {token});
  Value *number = loop.body().argument(0);
  number->replaceAllUsesWith(puts->body().addArgument(builder.types().index(), number->nameHint()));
  Value *before = puts->body().addArgument(token, "sent");
  Value *after = nullptr;
  for (Op &op : llvm::make_early_inc_range(loop.body().ops())) {
    if (op.is(OpKind::Notify) || op.is(OpKind::Yield)) {
      op.erase();
      continue;
    }
    if (op.is(OpKind::Put))
      after = op.result();
    op.moveToEnd(puts->body());
  }
  for (Op &op : llvm::make_early_inc_range(llvm::reverse(puts->body().ops())))
    if (op.is(OpKind::SigSlice) && op.result()->uses().empty())
      op.erase();
  builder.setInsertionPointToEnd(puts->body());
  builder.op(OpKind::Yield, {builder.value(OpKind::TokenJoin, {before, after}, token)});
  loop.erase();
  return puts->result();
}

/// A copy of such a loop that only notifies.
void notifyAfter(Builder &builder, Op &loop) {
  ValueMap map;
  Op *notifies = cloneOp(builder, loop, map);
  for (Op &op : notifies->body().ops())
    if (op.is(OpKind::Notify))
      op.removeOperand(1);
  for (Op &op : llvm::make_early_inc_range(llvm::reverse(notifies->body().ops()))) {
    const bool isUnused = op.numResults() == 1 && op.result()->uses().empty();
    if (op.is(OpKind::Put) || (op.is(OpKind::ViewTile) && isUnused))
      op.erase();
  }
}

void BodySlices::slice(int64_t rows) {
  Builder builder(space_.parentBlock()->module());
  builder.setInsertionPoint(space_.body().terminator());
  builder.setLoc(space_.loc());
  llvm::SmallVector<Value *, 4> operands{builder.constIndex(0), builder.constIndex(shape_[0]),
                                         builder.constIndex(rows)};
  Type token = builder.types().token();
  for (size_t i = 0; i < sends_.size(); ++i)
    operands.push_back(builder.op(OpKind::TokenDone, {})->result());
  Op *loop = builder.op(OpKind::For, operands, llvm::SmallVector<Type, 2>(sends_.size(), token));
  Value *first = loop->body().addArgument(builder.types().index(), "row");
  for (auto [number, sends] : llvm::enumerate(sends_)) {
    builder.setLoc(sends->loc());
    builder.op(OpKind::Await, {loop->result(unsigned(number))});
    notifyAfter(builder, *sends);
  }
  // In the order of the body.
  for (Op &op : llvm::make_early_inc_range(space_.body().ops()))
    if (moved_.contains(&op))
      op.moveToEnd(loop->body());
  llvm::SmallVector<Value *, 2> sent;
  for (Op *sends : sends_)
    sent.push_back(sendSlice(*sends, loop->body().addArgument(token, "sent")));
  builder.setInsertionPointToEnd(loop->body());
  builder.setLoc(space_.loc());
  builder.op(OpKind::Yield, sent);
  for (Op *window : windows_) {
    const unsigned from = rowsOf(*window)->operand;
    builder.setInsertionPoint(window);
    window->setOperand(from, builder.add(window->operand(from), first));
    std::vector<int64_t> lens = window->get(attr::lens).vec();
    lens.front() = rows;
    window->set(attr::lens, std::move(lens));
  }
  // By their uses, before any of these has another shape.
  llvm::SmallVector<Value *, 16> sliced;
  const auto collect = [&](Value *value) {
    if (value->type().isTile() && partOf(value) == Part::Rows)
      sliced.push_back(value);
  };
  walk(*loop, [&](Op &op) {
    llvm::for_each(op.results(), collect);
    for (unsigned i = 0; i < op.numRegions(); ++i)
      llvm::for_each(op.body(i).arguments(), collect);
  });
  for (Value *value : sliced) {
    llvm::SmallVector<int64_t, 2> shape(value->type().shape());
    shape.front() = rows;
    value->setType(builder.types().tile(shape, value->type().dtype()));
  }
}

/// The largest part of so many rows whose elements the threads can hold.
int64_t rowsThatFit(int64_t rows, int64_t elements, int64_t threads) {
  while (rows % 2 == 0 && elements > kElementsOfThread * threads) {
    rows /= 2;
    elements /= 2;
  }
  return rows;
}

} // namespace

bool sliceBodies(Module &module, PassContext &context) {
  bool changed = false;
  for (Op *space : spacesBesideProducts(module)) {
    BodySlices body(*space);
    if (!body.find())
      continue;
    const int64_t threads = space->enclosing(OpKind::Kernel)->get(attr::threads);
    const int64_t rows = rowsThatFit(body.rows(), body.elements(), threads);
    if (rows == body.rows())
      continue;
    context.remark(*space, "its tiles are computed in slices of " + llvm::Twine(rows) +
                               " rows, which fit into registers");
    body.slice(rows);
    changed = true;
  }
  return changed;
}

} // namespace dtile::passes
