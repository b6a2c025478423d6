// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// gather-rows: rows of a tensor that are picked by number are read as rows.
//
// Expects: inlined kernels, before stage-loads.
// Produces: of a `gather` from a tensor of this rank of which an index tile has a number a row, and
//   whose last one has the neighbours of a window in each of them (`x[pick[m], k]`), with one
//   position of all other dimensions: a `gather` of `rows` from that window. Where several index
//   tiles say together which row it is (`x[page[m], slot[m], :]`), the tensor, if that is a whole
//   parameter, is read as one of rows that follow each other. Numbers of rows that are the same in
//   each iteration of a loop are found before it.
// Why: a row is a run of bytes. Index tiles hide that, and a thread would compute two numbers for
//   each element.
// Leaves alone: all other index tiles.
#include "ir/analysis/communication.h"
#include "ir/core/builder.h"
#include "ir/core/constants.h"
#include "ir/transform/pass.h"

#include "llvm/ADT/SetVector.h"

#include <map>
#include <optional>
#include <vector>

namespace dtile::passes {
namespace {

using namespace dtile::ir;

/// The number of elements that do not exist.
constexpr int64_t kNone = -1;

/// The op of such a kind that gives a value, or null.
Op *definedBy(Value *value, OpKind kind) {
  Op *op = value->definingOp();
  return op && op->is(kind) ? op : nullptr;
}

/// The tile of one dimension that a tile of two has along `dim`, the same at each position of the
/// other one; null where it is none.
Value *along(Value *tile, unsigned dim) {
  Op *broadcast = definedBy(tile, OpKind::Broadcast);
  Op *reshape = broadcast ? definedBy(broadcast->operand(0), OpKind::Reshape) : nullptr;
  if (!reshape || broadcast->operand(0)->type().shape()[1 - dim] != 1)
    return nullptr;
  Value *line = reshape->operand(0);
  const bool isLine =
      line->type().rank() == 1 && line->type().shape()[0] == tile->type().shape()[dim];
  return isLine ? line : nullptr;
}

/// The number that all elements of a tile are.
Value *splatted(Value *tile) {
  Op *splat = definedBy(tile, OpKind::Splat);
  return splat && splat->operand(0)->type().isIndex() ? splat->operand(0) : nullptr;
}

bool isCounting(Value *tile) {
  if (Op *cast = definedBy(tile, OpKind::Cast))
    tile = cast->operand(0);
  return definedBy(tile, OpKind::Iota) != nullptr;
}

/// Neighbours from one position on: none below the limit are left out.
struct Window {
  /// Null: from 0 on.
  Value *first = nullptr;
  Value *limit = nullptr;
};

/// `select(first + iota < limit, first + iota, -1)`, as slices by ranges are lowered where an index
/// tile stands beside them.
std::optional<Window> windowOf(Value *positions) {
  Op *select = definedBy(positions, OpKind::Select);
  Op *compare = select ? definedBy(select->operand(0), OpKind::Cmp) : nullptr;
  Op *outside = select ? definedBy(select->operand(2), OpKind::Splat) : nullptr;
  if (!compare || compare->get(attr::pred) != "lt" || !outside ||
      constantOf(outside->operand(0)) != kNone || compare->operand(0) != select->operand(1))
    return std::nullopt;
  Window window;
  window.limit = splatted(compare->operand(1));
  Value *counted = select->operand(1);
  if (Op *sum = definedBy(counted, OpKind::Add)) {
    const unsigned first = splatted(sum->operand(0)) ? 0 : 1;
    window.first = splatted(sum->operand(first));
    if (!window.first)
      return std::nullopt;
    counted = sum->operand(1 - first);
  }
  if (!window.limit || !isCounting(counted))
    return std::nullopt;
  return window;
}

/// What the index tiles of a gather pick: one position, rows and a window.
struct Picked {
  /// Of the view's other dimensions, outermost first.
  llvm::SmallVector<Value *, 2> positions;
  /// A letter for each dimension of the view, as of view.slice.
  std::string dims;
  Value *rows = nullptr;
  std::optional<Window> window;
};

std::optional<Picked> pickedBy(const Op &gather) {
  Picked picked;
  const unsigned rank = gather.operand(0)->type().rank();
  for (Value *tile : gather.operands().slice(1, rank)) {
    if (Value *position = splatted(tile)) {
      picked.positions.push_back(position);
      picked.dims += 'i';
      continue;
    }
    picked.dims += 'a';
    if (!picked.rows) {
      picked.rows = along(tile, 0);
      if (!picked.rows)
        return std::nullopt;
      continue;
    }
    Value *columns = along(tile, 1);
    if (picked.window || !columns || !(picked.window = windowOf(columns)))
      return std::nullopt;
  }
  return picked.window ? std::optional(picked) : std::nullopt;
}

/// The first op, from this one up, around which there is no loop that these values do not follow
/// from.
Op *beforeLoops(Op &op, llvm::ArrayRef<Value *> values) {
  const auto isInside = [](const Value *value, const Op &loop) {
    const Block *block =
        value->definingOp() ? value->definingOp()->parentBlock() : value->argumentOf();
    for (; block && block->parentOp(); block = block->parentOp()->parentBlock())
      if (block->parentOp() == &loop)
        return true;
    return false;
  };
  Op *place = &op;
  for (Op *loop = op.parentOp(); loop && loop->is(OpKind::For); loop = loop->parentOp()) {
    if (llvm::any_of(values, [&](const Value *value) { return isInside(value, *loop); }))
      break;
    place = loop;
  }
  return place;
}

/// What a body computes of what is there before it, and of inputs: appended with what that needs of
/// the body, itself last. False where it follows from the loop's position or what the loop carries.
bool isInvariant(Op &op, const Block &body, llvm::SmallSetVector<Op *, 8> &chain) {
  if ((!op.isPure() && !isLoadOfInput(op)) || op.numRegions() > 0 || op.is(OpKind::ViewAt))
    return false;
  for (Value *operand : op.operands()) {
    Op *source = operand->definingOp();
    if (operand->argumentOf() == &body ||
        (source && source->parentBlock() == &body && !chain.contains(source) &&
         !isInvariant(*source, body, chain)))
      return false;
  }
  chain.insert(&op);
  return true;
}

/// Moves numbers of rows, or a view of them, before the loops in which they are the same in each
/// iteration.
void hoist(Value &value) {
  Op *op = value.definingOp();
  while (op && op->parentOp()->is(OpKind::For)) {
    Op *loop = op->parentOp();
    llvm::SmallSetVector<Op *, 8> chain;
    if (!isInvariant(*op, *op->parentBlock(), chain))
      return;
    for (Op *each : chain)
      each->moveBefore(loop);
  }
}

/// Erases a pure op that nothing uses, and then those that nothing else used: later passes count
/// what bodies compute.
void eraseUnused(Op *op) {
  if (!op || !op->isPure() || op->numRegions() > 0 || op->numResults() != 1 ||
      op->result()->hasUses())
    return;
  const llvm::SmallVector<Value *, 4> operands(op->operands());
  op->erase();
  for (Value *operand : operands)
    eraseUnused(operand->definingOp());
}

/// A view of two dimensions, numbers of its rows, and what is read of each.
struct Rows {
  Value *view = nullptr;
  Value *numbers = nullptr;
  Window window;
};

/// Rows of one dimension, with one position of the others.
std::optional<Rows> rowsOfOne(Op &gather, Builder &builder) {
  const std::optional<Picked> picked = pickedBy(gather);
  if (!picked)
    return std::nullopt;
  Value *view = gather.operand(0);
  hoist(*picked->rows);
  hoist(*view);
  if (!picked->positions.empty()) {
    llvm::SmallVector<Value *, 4> operands{view};
    llvm::append_range(operands, picked->positions);
    builder.setInsertionPoint(beforeLoops(gather, operands));
    view = builder.value(OpKind::ViewSlice, operands,
                         builder.types().view(gather.result()->type().dtype(), 2, /*remote=*/false),
                         {{attr::dims, picked->dims}});
  }
  return Rows{view, picked->rows, *picked->window};
}

/// Numbers of rows of a tensor whose dimensions but the last are counted as one.
class RowNumbers {
public:
  RowNumbers(Builder &builder, int64_t rows)
      : builder_(builder), wide_(builder.types().tile({rows}, DType::I64)),
        flags_(builder.types().tile({rows}, DType::Bool)) {}

  /// The next dimension, of a size: a tile of positions, or one for all rows.
  void add(Value *positions, Value *size) {
    if (!positions->type().isTile())
      positions = splat(positions);
    else if (positions->type().dtype() != DType::I64)
      positions = builder_.value(OpKind::Cast, {positions}, wide_);
    if (!isBelow(positions, size)) {
      require(positions, "ge", builder_.constIndex(0));
      require(positions, "lt", size);
    }
    if (numbers_)
      positions = builder_.value(
          OpKind::Add, {builder_.value(OpKind::Mul, {numbers_, splat(size)}, wide_), positions},
          wide_);
    numbers_ = positions;
  }

  /// Those of which a position does not exist are none.
  [[nodiscard]] Value *finish() {
    if (!exist_)
      return numbers_;
    return builder_.value(OpKind::Select, {exist_, numbers_, splat(builder_.constIndex(kNone))},
                          wide_);
  }

private:
  Value *splat(Value *number) { return builder_.value(OpKind::Splat, {number}, wide_); }

  /// Whether they are remainders of divisions by a size.
  static bool isBelow(Value *positions, const Value *size) {
    Op *rest = definedBy(positions, OpKind::Rem);
    const std::optional<int64_t> divisor =
        rest && splatted(rest->operand(1)) ? constantOf(splatted(rest->operand(1))) : std::nullopt;
    return divisor && *divisor > 0 && constantOf(size) == divisor;
  }

  void require(Value *positions, llvm::StringRef predicate, Value *bound) {
    Value *holds = builder_.value(OpKind::Cmp, {positions, splat(bound)}, flags_,
                                  {{attr::pred, predicate.str()}});
    exist_ = exist_ ? builder_.value(OpKind::And, {exist_, holds}, flags_) : holds;
  }

  Builder &builder_;
  Type wide_, flags_;
  Value *numbers_ = nullptr, *exist_ = nullptr;
};

/// Numbers of so many rows, by what they were computed from.
using KnownNumbers = std::map<std::pair<int64_t, std::vector<Value *>>, Value *>;

/// Whether a value that an earlier gather has got is there for this one.
bool isSeenBy(const Op &gather, const Value *value) {
  for (const Block *block = gather.parentBlock(); block;
       block = block->parentOp() ? block->parentOp()->parentBlock() : nullptr)
    if (block == value->definingOp()->parentBlock())
      return true;
  return false;
}

/// Rows of all dimensions but the last, of a parameter: its elements follow each other.
std::optional<Rows> rowsOfSeveral(Op &gather, KnownNumbers &known, Builder &builder) {
  Op *param = definedBy(gather.operand(0), OpKind::Param);
  const unsigned rank = gather.operand(0)->type().rank();
  if (!param || rank < 3)
    return std::nullopt;
  Value *columns = along(gather.operand(rank), 1);
  const std::optional<Window> window = columns ? windowOf(columns) : std::nullopt;
  if (!window)
    return std::nullopt;
  llvm::SmallVector<Value *, 4> positions;
  for (Value *tile : gather.operands().slice(1, rank - 1)) {
    Value *position = splatted(tile);
    positions.push_back(position ? position : along(tile, 0));
    if (!positions.back())
      return std::nullopt;
  }
  const llvm::ArrayRef<Value *> sizes = param->operands();
  std::vector<Value *> from(positions.begin(), positions.end());
  llvm::append_range(from, sizes.drop_back());
  const int64_t count = gather.result()->type().shape()[0];
  Value *&rows = known[{count, from}];
  if (!rows || !isSeenBy(gather, rows)) {
    builder.setInsertionPoint(&gather);
    RowNumbers numbers(builder, count);
    for (auto [position, size] : llvm::zip(positions, sizes))
      numbers.add(position, size);
    rows = numbers.finish();
    hoist(*rows);
  }
  builder.setInsertionPoint(beforeLoops(gather, sizes));
  Value *all = sizes[0];
  for (Value *size : sizes.slice(1, rank - 2))
    all = builder.value(OpKind::Mul, {all, size}, builder.types().index());
  Value *view =
      builder.value(OpKind::ViewReshape, {param->result(), all, sizes.back()},
                    builder.types().view(gather.result()->type().dtype(), 2, /*remote=*/false));
  return Rows{view, rows, *window};
}

bool readRows(Op &gather, KnownNumbers &known, Builder &builder) {
  const Type tile = gather.result()->type();
  if (gathersRows(gather) || gather.operand(0)->type().isRemote() || !tile.isTile() ||
      tile.rank() != 2)
    return false;
  const unsigned rank = gather.operand(0)->type().rank();
  builder.setLoc(gather.loc());
  std::optional<Rows> rows = rowsOfOne(gather, builder);
  if (!rows)
    rows = rowsOfSeveral(gather, known, builder);
  if (!rows)
    return false;
  builder.setInsertionPoint(&gather);
  const Window &window = rows->window;
  Value *first = window.first ? window.first : builder.constIndex(0);
  llvm::SmallVector<Value *, 4> operands{
      builder.value(
          OpKind::ViewTile, {rows->view, first, window.limit}, rows->view->type(),
          {{attr::dims, std::string("ar")}, {attr::lens, std::vector<int64_t>{tile.shape()[1]}}}),
      rows->numbers};
  llvm::append_range(operands, gather.operands().drop_front(1 + rank));
  Value *read = builder.value(OpKind::Gather, operands, tile,
                              {{attr::ntok, int64_t(operands.size() - 2)}, {attr::rows, true}});
  gather.result()->replaceAllUsesWith(read);
  const llvm::SmallVector<Value *, 4> tiles(gather.operands().slice(1, rank));
  gather.erase();
  for (Value *tile : tiles)
    eraseUnused(tile->definingOp());
  return true;
}

} // namespace

bool gatherRows(Module &module, PassContext &) {
  llvm::SmallVector<Op *> gathers;
  for (Op &kernel : module.body().ops())
    if (kernel.is(OpKind::Kernel))
      walk(kernel, [&](Op &op) {
        if (op.is(OpKind::Gather))
          gathers.push_back(&op);
      });
  Builder builder(module);
  KnownNumbers known;
  bool changed = false;
  for (Op *gather : gathers)
    changed |= readRows(*gather, known, builder);
  return changed;
}

} // namespace dtile::passes
