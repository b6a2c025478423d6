// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// defer-reductions: loops along rows combine tiles group by group, and the groups of a row once,
// after the loop.
//
// Expects: `for` loops of spaces before infer-layouts, without products.
// Produces: what a loop carries for each row, `top = max(top, max(x, axis: 1))`, is carried for
//   each group of neighbours of a tile, which one thread has, and reduced after the loop. So are
//   sums that follow a maximum, as those of an online softmax:
//   `total = total * exp(top - next) + sum(exp(x - next), axis: 1)`. Each group has a maximum of
//   its own there. After the loop the sums are brought to the largest maximum (Milakov and
//   Gimelshein, "Online normalizer calculation for softmax", 2018).
// Why: a reduction makes all threads of a program meet. An iteration would wait for the slowest of
//   its loads, and few loads would be on their way at once.
// Not the same: where a maximum begins at minus infinity, and the first blocks of a row have
//   nothing else, but later ones do, sums as written are NaN, and these are not.
// Leaves alone: rows that an iteration uses in another way; sums of narrow floats, which a
//   reduction accumulates in f32; a maximum that sums follow and whose first value is not known;
//   what would take too many registers.
#include "ir/analysis/loop_positions.h"
#include "ir/core/builder.h"
#include "ir/core/op_classes.h"
#include "ir/transform/pass.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallPtrSet.h"

#include <cmath>
#include <limits>
#include <optional>

namespace dtile::passes {
namespace {

using namespace dtile::ir;

/// Registers of a thread that groups in place of rows may take in one loop.
constexpr int64_t kMostDeferredRegisters = 64;
/// Neighbours of a row in a group: what one thread loads at once, of any type of up to 4 bytes.
constexpr int64_t kGroup = 4;

/// A value that a loop carries for each row, `next = combine(carried, reduction)`.
struct Row {
  unsigned number = 0;
  Op *next = nullptr, *reduction = nullptr;

  [[nodiscard]] Type tile() const { return reduction->operand(0)->type(); }
};

/// A sum that follows a maximum, `next = carried * factor + reduction`.
struct FollowingSum : Row {
  /// exp(old maximum - new maximum).
  Op *factor = nullptr, *scaled = nullptr;
};

/// A maximum with the sums that follow it.
struct Maximum : Row {
  llvm::SmallVector<FollowingSum, 2> sums;
};

/// The op that combines two results of a reduction, where one does.
std::optional<OpKind> combinerOf(const Op &reduction) {
  const llvm::StringRef kind = reduction.get(attr::kind);
  if (kind == "sum")
    return OpKind::Add;
  if (kind == "max")
    return OpKind::Max;
  if (kind == "min")
    return OpKind::Min;
  if (kind == "prod")
    return OpKind::Mul;
  return std::nullopt;
}

bool isExtreme(const Op &op) { return op.is(OpKind::Max) || op.is(OpKind::Min); }

/// The number that all elements of a value are, where it is known.
std::optional<double> numberOf(const Value &value) {
  const Op *op = value.definingOp();
  if (op && op->is(OpKind::Splat))
    op = op->operand(0)->definingOp();
  const Attr *attr = op && op->is(OpKind::Const) ? op->attr(attr::value.name) : nullptr;
  const auto *number = attr ? std::get_if<double>(attr) : nullptr;
  return number ? std::optional(*number) : std::nullopt;
}

/// Elements of a group of a row: as many as each thread has side by side.
int64_t groupOf(const Row &row, int64_t threads) {
  const Type tile = row.tile();
  const bool isLast = row.reduction->get(attr::axis) == int64_t(tile.rank()) - 1;
  const bool areSmall = dtypeBytes(tile.dtype()) <= 4;
  const bool fills = tile.shape().back() % kGroup == 0 && tile.elements() >= kGroup * threads;
  return isLast && areSmall && fills ? kGroup : 1;
}

// What there is to defer.

/// Looks at one loop.
class RowSearch {
public:
  explicit RowSearch(Op &loop) : loop_(loop), body_(loop.body()) {}

  llvm::SmallVector<Row, 4> rows;
  std::optional<Maximum> maximum;

  void run();
  [[nodiscard]] int64_t groups(int64_t threads) const;

private:
  [[nodiscard]] Value *carried(const Row &row) const { return body_.argument(row.number + 1); }
  [[nodiscard]] Op *nextOf(unsigned number) const;
  [[nodiscard]] bool isReduction(const Op *op) const;
  [[nodiscard]] std::optional<Row> rowOf(unsigned number) const;
  [[nodiscard]] std::optional<FollowingSum> sumOf(unsigned number, const Row &maximum) const;
  [[nodiscard]] bool isFactor(const Op *op, const Row &maximum) const;
  void findMaximum(const Row &row);
  [[nodiscard]] Op *repeatedRow(const Value &tile, const Row &maximum) const;
  bool followsMaximum(const Value &tile, const Maximum &maximum, OpKind function);
  void taint(const Value &value);

  Op &loop_;
  Block &body_;
  /// Ops of an iteration that need a maximum, old or new; and those of which it is known for what.
  llvm::SmallPtrSet<const Op *, 16> tainted_, known_;
};

/// The op of the body that gives the next of what is carried.
Op *RowSearch::nextOf(unsigned number) const {
  Op *op = body_.terminator()->operand(number)->definingOp();
  return op && op->parentBlock() == &body_ ? op : nullptr;
}

bool RowSearch::isReduction(const Op *op) const {
  return op && op->is(OpKind::Reduce) && op->parentBlock() == &body_ && op->result()->hasOneUse();
}

std::optional<Row> RowSearch::rowOf(unsigned number) const {
  Op *next = nextOf(number);
  if (!next || next->numOperands() != 2)
    return std::nullopt;
  for (const unsigned side : {0u, 1u}) {
    Op *reduction = next->operand(side)->definingOp();
    if (next->operand(1 - side) != body_.argument(number + 1) || !isReduction(reduction) ||
        combinerOf(*reduction) != next->kind())
      continue;
    const DType type = next->result()->type().elementOrIndex();
    const bool isOne =
        reduction->operand(0)->type().shape()[size_t(reduction->get(attr::axis))] == 1;
    if (!isOne && (isExtreme(*next) || !isFloat(type) || dtypeBytes(type) >= 4))
      return Row{number, next, reduction};
  }
  return std::nullopt;
}

bool RowSearch::isFactor(const Op *op, const Row &maximum) const {
  if (!op || op->parentBlock() != &body_ || (!op->is(OpKind::Exp) && !op->is(OpKind::Exp2)))
    return false;
  const Op *distance = op->operand(0)->definingOp();
  return distance && distance->is(OpKind::Sub) && distance->operand(0) == carried(maximum) &&
         distance->operand(1) == maximum.next->result();
}

std::optional<FollowingSum> RowSearch::sumOf(unsigned number, const Row &maximum) const {
  const Value *sum = body_.argument(number + 1);
  Op *next = nextOf(number);
  if (!next || !next->is(OpKind::Add) || !sum->hasOneUse() || !next->result()->hasOneUse() ||
      next->result()->type().elementOrIndex() != DType::F32)
    return std::nullopt;
  for (const unsigned side : {0u, 1u}) {
    Op *scaled = next->operand(side)->definingOp();
    Op *reduction = next->operand(1 - side)->definingOp();
    if (!scaled || !scaled->is(OpKind::Mul) || !scaled->result()->hasOneUse() ||
        !isReduction(reduction) || combinerOf(*reduction) != OpKind::Add ||
        reduction->operand(0)->type() != maximum.tile() ||
        reduction->get(attr::axis) != maximum.reduction->get(attr::axis))
      continue;
    for (const unsigned by : {0u, 1u})
      if (scaled->operand(1 - by) == sum && isFactor(scaled->operand(by)->definingOp(), maximum))
        return FollowingSum{{number, next, reduction}, scaled->operand(by)->definingOp(), scaled};
  }
  return std::nullopt;
}

/// The op that repeats the new maximum along a row for a tile, or null.
Op *RowSearch::repeatedRow(const Value &tile, const Row &maximum) const {
  Op *last = tile.definingOp();
  if (!last || last->parentBlock() != &body_ || tile.type() != maximum.tile())
    return nullptr;
  const Op *at = last;
  while (at && (at->is(OpKind::Broadcast) || at->is(OpKind::Reshape) || at->is(OpKind::Splat)))
    at = at->operand(0)->definingOp();
  return at == maximum.next ? last : nullptr;
}

/// Whether a tile is a multiple of exp(-maximum), so that a factor brings it to another maximum.
bool RowSearch::followsMaximum(const Value &tile, const Maximum &maximum, OpKind function) {
  const Op *op = tile.definingOp();
  if (!op || !tainted_.contains(op))
    return false;
  known_.insert(op);
  const auto isFree = [&](unsigned operand) {
    const Op *source = op->operand(operand)->definingOp();
    return op->operand(operand) != carried(maximum) && (!source || !tainted_.contains(source));
  };
  if (op->is(OpKind::Mul))
    return (isFree(0) && followsMaximum(*op->operand(1), maximum, function)) ||
           (isFree(1) && followsMaximum(*op->operand(0), maximum, function));
  if (op->is(OpKind::Select))
    return isFree(0) && numberOf(*op->operand(2)) == 0.0 &&
           followsMaximum(*op->operand(1), maximum, function);
  if (!op->is(function))
    return false;
  op = op->operand(0)->definingOp();
  if (!op || !op->is(OpKind::Sub) || !isFree(0))
    return false;
  known_.insert(op);
  for (const Op *repeats = repeatedRow(*op->operand(1), maximum); repeats != maximum.next;
       repeats = repeats->operand(0)->definingOp()) {
    if (!repeats)
      return false;
    known_.insert(repeats);
  }
  return true;
}

void RowSearch::taint(const Value &value) {
  for (const Use &use : value.uses()) {
    // What is nested in an op needs what it needs.
    const Op *user = use.user;
    while (user && user->parentBlock() != &body_)
      user = user->parentOp();
    if (user && tainted_.insert(user).second)
      for (const Value *result : user->results())
        taint(*result);
  }
}

/// Whether `row` is a maximum of which everything that needs it is a sum that follows it.
void RowSearch::findMaximum(const Row &row) {
  const std::optional<double> first = numberOf(*loop_.operand(row.number + 3));
  if (maximum || !row.next->is(OpKind::Max) || row.tile().dtype() != DType::F32 || !first ||
      !(*first < std::numeric_limits<double>::infinity()))
    return;
  Maximum found{row, {}};
  for (unsigned number = 0; number < loop_.numResults(); ++number)
    if (std::optional<FollowingSum> sum = sumOf(number, row))
      found.sums.push_back(*sum);
  tainted_.clear();
  known_ = {row.next, body_.terminator()};
  taint(*carried(row));
  for (const FollowingSum &sum : found.sums) {
    for (const Op *op :
         {sum.factor, sum.factor->operand(0)->definingOp(), sum.scaled, sum.next, sum.reduction})
      known_.insert(op);
    if (!followsMaximum(*sum.reduction->operand(0), found, sum.factor->kind()))
      return;
  }
  if (llvm::all_of(tainted_, [&](const Op *op) { return known_.contains(op); }))
    maximum = found;
}

void RowSearch::run() {
  for (unsigned number = 0; number < loop_.numResults(); ++number) {
    const std::optional<Row> row = rowOf(number);
    if (!row)
      continue;
    if (carried(*row)->hasOneUse() && row->next->result()->hasOneUse())
      rows.push_back(*row);
    else
      findMaximum(*row);
  }
}

/// How many groups are carried in place of rows.
int64_t RowSearch::groups(int64_t threads) const {
  const auto of = [&](const Row &row) { return row.tile().elements() / groupOf(row, threads); };
  int64_t count = maximum ? of(*maximum) * int64_t(1 + maximum->sums.size()) : 0;
  for (const Row &row : rows)
    count += of(row);
  return count;
}

// How it is done.

/// Changes one loop.
class Deferral {
public:
  Deferral(Op &loop, int64_t threads)
      : loop_(loop), body_(loop.body()), threads_(threads), builder_(loop.parentBlock()->module()) {
  }
  void defer(const Row &row);
  void defer(const Maximum &maximum);

private:
  [[nodiscard]] Value *carried(const Row &row) const { return body_.argument(row.number + 1); }
  [[nodiscard]] Value *start(const Row &row) const { return loop_.operand(row.number + 3); }
  void goBefore(Op *op) {
    builder_.setInsertionPoint(op);
    builder_.setLoc(op->loc());
  }
  void goBehind(Op *op) { builder_.setInsertionPoint(&*std::next(op->getIterator())); }
  [[nodiscard]] Type groups(const Row &row, DType dtype);
  Value *repeated(Value *row, const Row &like);
  Value *ofGroups(Value *tile, const Row &like);
  Value *ofElements(Value *groups, const Row &like);
  Value *reduced(Value *groups, const Row &like, int64_t axis, Type result);
  Value *reducedAll(Value *groups, const Row &like) {
    return reduced(groups, like, like.reduction->get(attr::axis), like.reduction->result()->type());
  }
  Value *filled(Type tile, double number);
  Value *atLeastFinite(Value *maximum);
  Value *factor(const FollowingSum &sum, Value *from, Value *to) {
    return builder_.value(sum.factor->kind(), {builder_.sub(from, to)});
  }
  Value *chosen(Value *condition, Value *then, Value *otherwise) {
    return builder_.value(OpKind::Select, {condition, then, otherwise}, then->type());
  }
  Value *lift(const Row &row, Value *begin);
  void finish(const Row &row, llvm::ArrayRef<Use> uses, Value *result);

  Op &loop_;
  Block &body_;
  int64_t threads_;
  Builder builder_;
};

/// What is carried for a row: an element for each group of its tile.
Type Deferral::groups(const Row &row, DType dtype) {
  llvm::SmallVector<int64_t, 4> shape(row.tile().shape());
  shape[size_t(row.reduction->get(attr::axis))] /= groupOf(row, threads_);
  return builder_.types().tile(shape, dtype);
}

/// A row, for each of its groups.
Value *Deferral::repeated(Value *row, const Row &like) {
  const Type all = groups(like, row->type().elementOrIndex());
  if (!row->type().isTile())
    return builder_.value(OpKind::Splat, {row}, all);
  llvm::SmallVector<int64_t, 4> shape(all.shape());
  shape[size_t(like.reduction->get(attr::axis))] = 1;
  const Type column = builder_.types().tile(shape, all.dtype());
  Value *reshaped = builder_.value(OpKind::Reshape, {row}, column);
  return column == all ? reshaped : builder_.value(OpKind::Broadcast, {reshaped}, all);
}

/// A tile reduced to its groups.
Value *Deferral::ofGroups(Value *tile, const Row &like) {
  const int64_t each = groupOf(like, threads_);
  if (each == 1)
    return tile;
  const Type all = groups(like, tile->type().dtype());
  llvm::SmallVector<int64_t, 4> shape(all.shape());
  shape.push_back(each);
  Value *apart = builder_.value(OpKind::Reshape, {tile}, builder_.types().tile(shape, all.dtype()));
  return reduced(apart, like, int64_t(all.rank()), all);
}

/// What groups hold, for each element of the tile.
Value *Deferral::ofElements(Value *groups, const Row &like) {
  const int64_t each = groupOf(like, threads_);
  if (each == 1)
    return groups;
  const DType dtype = groups->type().dtype();
  llvm::SmallVector<int64_t, 4> shape(groups->type().shape());
  shape.push_back(1);
  Value *column = builder_.value(OpKind::Reshape, {groups}, builder_.types().tile(shape, dtype));
  shape.back() = each;
  Value *wide = builder_.value(OpKind::Broadcast, {column}, builder_.types().tile(shape, dtype));
  return builder_.value(OpKind::Reshape, {wide}, builder_.types().tile(like.tile().shape(), dtype));
}

Value *Deferral::reduced(Value *groups, const Row &like, int64_t axis, Type result) {
  return builder_.value(OpKind::Reduce, {groups}, result,
                        {{attr::axis, axis}, {attr::kind, like.reduction->get(attr::kind).str()}});
}

Value *Deferral::filled(Type tile, double number) {
  const DType type = tile.dtype();
  Value *element =
      isFloat(type) ? builder_.constFloat(type, number) : builder_.constInt(type, int64_t(number));
  return tile.isTile() ? builder_.value(OpKind::Splat, {element}, tile) : element;
}

/// A maximum that elements are compared with: 0 where there was nothing but minus infinity, of
/// which a distance to itself is no number.
Value *Deferral::atLeastFinite(Value *maximum) {
  const Type type = maximum->type();
  Value *nothing = filled(type, -std::numeric_limits<double>::infinity());
  return chosen(builder_.cmp("eq", maximum, nothing), filled(type, 0), maximum);
}

/// The loop carries groups in place of a row. Gives what the loop gives.
Value *Deferral::lift(const Row &row, Value *begin) {
  loop_.setOperand(row.number + 3, begin);
  carried(row)->setType(begin->type());
  loop_.result(row.number)->setType(begin->type());
  return loop_.result(row.number);
}

void Deferral::finish(const Row &row, llvm::ArrayRef<Use> uses, Value *result) {
  for (const Use &use : uses)
    use.user->setOperand(use.index, result);
  row.next->erase();
  row.reduction->erase();
}

void Deferral::defer(const Row &row) {
  const OpKind combiner = row.next->kind();
  Value *const first = start(row);
  const llvm::SmallVector<Use, 2> uses(loop_.result(row.number)->uses());
  goBefore(&loop_);
  // What is the largest or smallest of a row remains that where each group begins with it.
  Value *begin = isExtreme(*row.next)
                     ? repeated(first, row)
                     : filled(groups(row, row.tile().dtype()), combiner == OpKind::Mul ? 1 : 0);
  Value *tile = lift(row, begin);
  goBefore(row.next);
  body_.terminator()->setOperand(
      row.number,
      builder_.value(combiner, {carried(row), ofGroups(row.reduction->operand(0), row)}));
  goBehind(&loop_);
  Value *all = reducedAll(tile, row);
  finish(row, uses, isExtreme(*row.next) ? all : builder_.value(combiner, {first, all}));
}

void Deferral::defer(const Maximum &maximum) {
  Value *const first = start(maximum);
  const bool isFinite = std::isfinite(*numberOf(*first));
  const llvm::SmallVector<Use, 2> uses(loop_.result(maximum.number)->uses());
  goBefore(&loop_);
  Value *tile = lift(maximum, repeated(first, maximum));
  goBefore(maximum.next);
  Value *next = builder_.max(carried(maximum), ofGroups(maximum.reduction->operand(0), maximum));
  body_.terminator()->setOperand(maximum.number, next);
  Value *const origin = isFinite ? next : atLeastFinite(next);
  Value *const originOfElements = ofElements(origin, maximum);
  goBehind(&loop_);
  Value *largest = reducedAll(tile, maximum);
  Value *const originOfAll = repeated(isFinite ? largest : atLeastFinite(largest), maximum);
  Op *last = originOfAll->definingOp();

  for (const FollowingSum &sum : maximum.sums) {
    Value *const before = start(sum);
    const llvm::SmallVector<Use, 2> usesOfSum(loop_.result(sum.number)->uses());
    goBefore(&loop_);
    Value *sums = lift(sum, filled(groups(sum, DType::F32), 0));
    goBefore(sum.next);
    Value *scaled = builder_.mul(carried(sum), factor(sum, carried(maximum), origin));
    body_.terminator()->setOperand(sum.number,
                                   builder_.add(scaled, ofGroups(sum.reduction->operand(0), sum)));
    goBehind(last);
    Value *all = reducedAll(builder_.mul(sums, factor(sum, tile, originOfAll)), sum);
    // Of a row of nothing but minus infinity that is no number.
    if (numberOf(*before) != 0.0 || !isFinite)
      all = builder_.add(builder_.mul(before, factor(sum, first, largest)), all);
    if (!isFinite) {
      Value *runs = builder_.cmp("lt", loop_.operand(0), loop_.operand(1));
      if (const Type row = all->type(); row.isTile())
        runs =
            builder_.value(OpKind::Splat, {runs}, builder_.types().tile(row.shape(), DType::Bool));
      all = chosen(runs, all, before);
    }
    last = all->definingOp();
    finish(sum, usesOfSum, all);
    sum.scaled->erase();
  }
  // Factors that no sum needs any more, and the maximum for each element where rows had one.
  for (const FollowingSum &sum : maximum.sums)
    if (!sum.factor->result()->hasUses()) {
      Op *distance = sum.factor->operand(0)->definingOp();
      sum.factor->erase();
      if (!distance->result()->hasUses())
        distance->erase();
    }
  llvm::SmallVector<Op *, 4> repeats;
  walk(body_, [&](Op &op) {
    const Op *source = op.numOperands() == 1 ? op.operand(0)->definingOp() : nullptr;
    if (source && (source == maximum.next || llvm::is_contained(repeats, source)))
      repeats.push_back(&op);
  });
  for (Op *op : llvm::reverse(repeats)) {
    if (op->result()->type() == maximum.tile())
      op->result()->replaceAllUsesWith(originOfElements);
    op->erase();
  }
  finish(maximum, uses, largest);
}

} // namespace

bool deferReductions(Module &module, PassContext &context) {
  bool changed = false;
  if (!context.facts)
    return changed;
  for (Op *loop : loopsOfSpaces(module)) {
    if (!loop->is(OpKind::For) || multiplies(*loop))
      continue;
    RowSearch search(*loop);
    search.run();
    const Op *kernel = loop->enclosing(OpKind::Kernel);
    const int64_t threads = kernel->getOr(attr::threads, 4 * context.facts->lanes);
    const int64_t groups = search.groups(threads);
    if (groups == 0)
      continue;
    if (groups > kMostDeferredRegisters * threads) {
      context.remark(*loop, "each iteration reduces rows: groups would take too many registers");
      continue;
    }
    Deferral deferral(*loop, threads);
    for (const Row &row : search.rows)
      deferral.defer(row);
    if (search.maximum)
      deferral.defer(*search.maximum);
    context.remark(*loop, "rows are reduced once, behind the loop");
    changed = true;
  }
  return changed;
}

} // namespace dtile::passes
