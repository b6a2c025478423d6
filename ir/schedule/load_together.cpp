// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// load-together: what several iterations of a loop read is on its way at once.
//
// Expects: `for` loops of spaces behind infer-layouts, whose iterations only read and compute.
// Produces: loops of which an iteration does the work of several: first it loads what all of them
//   read, then it computes what they compute, in the same order. All but the first of them exist
//   only below the loop's end: an `if` around their loads, and one around what they compute.
// Why: a loop that sums what lies on all ranks would wait for one rank after the other.
// Leaves alone: loops with products, whose operands are read ahead otherwise; loads of which other
//   passes have said how they are done (words that carry flags, tiles that another warp brings);
//   places that the loop carries; tiles of which only one fits into registers; tiles of more than
//   one dimension, as of loops along rows: more programs at once, of fewer registers each, hide
//   more there (measured: docs/performance.md).
#include "ir/analysis/loop_positions.h"
#include "ir/core/builder.h"
#include "ir/transform/pass.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallPtrSet.h"

#include <algorithm>

namespace dtile::passes {
namespace {

using namespace dtile::ir;

/// Most iterations that read together: with the own part, the ranks of one machine.
constexpr int64_t kMostTogether = 7;
/// What is on its way and what is carried, in one thread.
constexpr int64_t kBytesOfThread = 384;
/// Ops of an iteration, which there will be several times.
constexpr unsigned kMostOps = 48;

/// Ops of a block that `ends` need, in order; of what comes from `behind`, nothing.
llvm::SmallVector<Op *, 16> sliceOf(Block &block, llvm::ArrayRef<Op *> ends,
                                    llvm::ArrayRef<Op *> behind = {}) {
  llvm::SmallPtrSet<const Op *, 16> wanted(ends.begin(), ends.end());
  llvm::SmallVector<Op *, 16> slice;
  for (Op &op : llvm::reverse(block.ops())) {
    if (!wanted.contains(&op) || llvm::is_contained(behind, &op))
      continue;
    slice.push_back(&op);
    for (const Value *operand : op.operands())
      if (const Op *source = operand->definingOp())
        wanted.insert(source);
  }
  std::reverse(slice.begin(), slice.end());
  return slice;
}

Value *mapped(const ValueMap &map, Value *value) {
  const auto found = map.find(value);
  return found == map.end() ? value : found->second;
}

/// A tile of zeros.
Value *emitZeros(Builder &builder, Type tile) {
  const DType type = tile.dtype();
  Value *zero = type == DType::Bool ? builder.constBool(false)
                : isFloat(type)     ? builder.constFloat(type, 0.0)
                                    : builder.constInt(type, 0);
  return builder.value(OpKind::Splat, {zero}, tile);
}

/// One loop.
class LoadsTogether {
public:
  LoadsTogether(Op &loop, PassContext &context)
      : loop_(loop), body_(loop.body()), context_(context) {}
  bool run();

private:
  using Values = llvm::SmallVector<Value *, 4>;

  [[nodiscard]] bool onlyReads() const;
  [[nodiscard]] bool isCarried(const Value *value) const {
    return value->argumentOf() == &body_ && value != body_.argument(0);
  }
  void findLoads();
  [[nodiscard]] int64_t fitting() const;
  void transform(int64_t count);
  [[nodiscard]] Values emitLoads(Builder &builder, Value *position) const;
  [[nodiscard]] Values emitRest(Builder &builder, Value *position, const Values &tiles,
                                const Values &carried) const;

  Op &loop_;
  Block &body_;
  PassContext &context_;
  llvm::SmallVector<Op *, 4> loads_;
};

bool LoadsTogether::onlyReads() const {
  unsigned count = 0;
  for (const Op &op : body_.ops()) {
    if (++count > kMostOps || op.numRegions() > 0 || op.is(OpKind::Dot))
      return false;
    // Other passes have said how theirs are done.
    const bool reads = op.is(OpKind::Load) && op.attrs().empty();
    if (!op.isPure() && !reads && &op != body_.terminator())
      return false;
  }
  return true;
}

/// Loads of tiles at places that follow from the position.
void LoadsTogether::findLoads() {
  llvm::SmallPtrSet<const Value *, 16> later;
  for (Op &op : body_.ops()) {
    if (llvm::any_of(op.operands(), [&](const Value *operand) {
          return isCarried(operand) || later.contains(operand);
        })) {
      later.insert_range(op.results());
    } else if (op.is(OpKind::Load) && op.result()->type().isTile()) {
      loads_.push_back(&op);
      later.insert(op.result());
    }
  }
}

/// Iterations whose tiles fit.
int64_t LoadsTogether::fitting() const {
  const Op *kernel = loop_.enclosing(OpKind::Kernel);
  const int64_t threads = kernel ? kernel->intAttrOr("threads", 1) : 1;
  const auto bytes = [](const Value *value) {
    const Type type = value->type();
    return type.isTile() ? type.elements() * int64_t(dtypeBytes(type.dtype())) : 0;
  };
  int64_t loaded = 0, carried = 0;
  for (const Op *load : loads_)
    loaded += bytes(load->result());
  for (const Value *result : loop_.results())
    carried += bytes(result);
  return std::min(kMostTogether, (kBytesOfThread * threads - carried) / loaded);
}

LoadsTogether::Values LoadsTogether::emitLoads(Builder &builder, Value *position) const {
  ValueMap map;
  map[body_.argument(0)] = position;
  for (Op *op : sliceOf(body_, loads_)) {
    builder.setLoc(op->loc());
    cloneOp(builder, *op, map);
  }
  Values tiles;
  for (const Op *load : loads_)
    tiles.push_back(map.lookup(load->result()));
  return tiles;
}

/// What an iteration computes of its tiles: what is carried to the next one.
LoadsTogether::Values LoadsTogether::emitRest(Builder &builder, Value *position,
                                              const Values &tiles, const Values &carried) const {
  ValueMap map;
  map[body_.argument(0)] = position;
  for (auto [load, tile] : llvm::zip_equal(loads_, tiles))
    map[load->result()] = tile;
  for (auto [argument, value] : llvm::zip_equal(body_.arguments().drop_front(), carried))
    map[argument] = value;
  Op *yield = body_.terminator();
  for (Op *op : sliceOf(body_, {yield}, loads_)) {
    builder.setLoc(op->loc());
    if (op != yield)
      cloneOp(builder, *op, map);
  }
  Values next;
  for (Value *value : yield->operands())
    next.push_back(mapped(map, value));
  return next;
}

void LoadsTogether::transform(int64_t count) {
  Builder builder(body_.module());
  builder.setInsertionPoint(&loop_);
  builder.setLoc(loop_.loc());
  Value *end = loop_.operand(1), *step = loop_.operand(2);
  Values operands(loop_.operands().begin(), loop_.operands().end());
  operands[2] = builder.mul(step, builder.constIndex(count));
  llvm::SmallVector<Type, 4> types;
  for (const Value *result : loop_.results())
    types.push_back(result->type());
  Op *loop = builder.op(OpKind::For, operands, types);
  for (const NamedAttr &attr : loop_.attrs())
    loop->setAttr(attr.name, attr.value);
  loop->setAttr("together", count);
  for (const Value *argument : body_.arguments())
    loop->body().addArgument(argument->type(), argument->nameHint());
  builder.setInsertionPointToEnd(loop->body());

  // An `if` around what only some iterations do.
  const auto when = [&](Value *exists, llvm::ArrayRef<Type> results, auto then, auto otherwise) {
    Op *choice = builder.op(OpKind::If, {exists}, results);
    const InsertionGuard guard(builder);
    for (unsigned i : {0u, 1u}) {
      builder.setInsertionPointToEnd(choice->body(i));
      const Values yielded = i == 0 ? then() : otherwise();
      builder.op(OpKind::Yield, yielded);
    }
    return Values(choice->results().begin(), choice->results().end());
  };
  llvm::SmallVector<Type, 4> loaded;
  for (const Op *load : loads_)
    loaded.push_back(load->result()->type());
  const auto zeros = [&] {
    Values tiles;
    for (Type type : loaded)
      tiles.push_back(emitZeros(builder, type));
    return tiles;
  };

  Values positions = {loop->body().argument(0)}, exists = {nullptr};
  llvm::SmallVector<Values, 8> tiles = {emitLoads(builder, positions[0])};
  for (int64_t i = 1; i < count; ++i) {
    builder.setLoc(loop_.loc());
    positions.push_back(builder.add(positions.back(), step));
    exists.push_back(builder.cmp("lt", positions[i], end));
    tiles.push_back(
        when(exists[i], loaded, [&] { return emitLoads(builder, positions[i]); }, zeros));
  }
  Values carried(llvm::drop_begin(loop->body().arguments()));
  carried = emitRest(builder, positions[0], tiles[0], carried);
  for (int64_t i = 1; i < count; ++i)
    carried = when(
        exists[i], types, [&] { return emitRest(builder, positions[i], tiles[i], carried); },
        [&] { return carried; });
  builder.setLoc(loop_.loc());
  builder.op(OpKind::Yield, carried);
  for (auto [from, to] : llvm::zip_equal(loop_.results(), loop->results()))
    from->replaceAllUsesWith(to);
  context_.remark(*loop, "what " + llvm::Twine(count) + " iterations read is loaded together");
  loop_.erase();
}

bool LoadsTogether::run() {
  if (loop_.numResults() == 0 || !onlyReads())
    return false;
  findLoads();
  if (loads_.empty() || !llvm::all_of(loads_, [](const Op *load) {
        return load->result()->type().shape().size() == 1;
      }))
    return false;
  const int64_t count = fitting();
  if (count < 2) {
    context_.remark(loop_, "not loaded together: only one iteration's tiles fit into registers");
    return false;
  }
  transform(count);
  return true;
}

} // namespace

bool loadTogether(Module &module, PassContext &context) {
  bool changed = false;
  for (Op *loop : loopsOfSpaces(module))
    changed |= LoadsTogether(*loop, context).run();
  return changed;
}

} // namespace dtile::passes
