// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// batch-loads: what several iterations of a loop read is on its way at once.
//
// Expects: `for` loops of spaces after infer-layouts, whose iterations only read and compute.
// Produces: loops of which an iteration does the work of several: first it loads what all of them
//   read (numbers of rows before the rows), then it computes what they compute, in the same order.
//   All but the first of them exist only below the loop's end: an `if` around their loads, and one
//   around what they compute. Where their number is known and divides the loop's, all exist.
// Why: a loop that sums what lies on all ranks would wait for one rank after the other, one that
//   sums a token's rows for one row after the other.
// Leaves alone: loops with products, whose operands are read ahead otherwise; loads of which other
//   passes have said how they are done (words that carry flags, tiles that another warp brings);
//   places that the loop carries; steps that are not known; tiles of which only one fits into
//   registers; in kernels without products tiles of more than one dimension, as of loops along
//   rows: more programs at once, of fewer registers each, hide more there (measured:
//   docs/performance.md).
#include "ir/analysis/loop_positions.h"
#include "ir/core/builder.h"
#include "ir/core/constants.h"
#include "ir/transform/pass.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallPtrSet.h"

#include <algorithm>
#include <optional>

namespace dtile::passes {
namespace {

using namespace dtile::ir;

/// Most iterations that read together: with the own part, the ranks of one machine; where the
/// number is known, the experts of a token.
constexpr int64_t kMostTogether = 7;
constexpr int64_t kMostKnownTogether = 8;
/// What is on its way and what is carried, in one thread; and of loops of known length where the
/// kernel multiplies, so that threads are few.
constexpr int64_t kBytesOfThread = 384;
constexpr int64_t kBytesOfKnown = 512;
constexpr int64_t kAddressBytes = 8;
/// Ops of an iteration, which there will be several times.
constexpr unsigned kMostOps = 48;
/// Loads one of which says where the next one reads.
constexpr unsigned kMostSteps = 2;

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

/// One loop.
class LoadBatch {
public:
  LoadBatch(Op &loop, PassContext &context) : loop_(loop), body_(loop.body()), context_(context) {}
  bool run();

private:
  using Values = llvm::SmallVector<Value *, 4>;

  /// One of the iterations that read together.
  struct Iteration {
    Value *position = nullptr;
    /// Null where it exists for certain.
    Value *exists = nullptr;
    /// What its loads have read so far.
    ValueMap tiles;
  };

  [[nodiscard]] bool onlyReads() const;
  void findLoads();
  [[nodiscard]] bool isBesideProducts() const;
  [[nodiscard]] int64_t fitting() const;
  void transform(int64_t count);
  [[nodiscard]] Op *emitLoop(Builder &builder, int64_t count);
  [[nodiscard]] Values emitLoads(Builder &builder, const Iteration &iteration, unsigned step) const;
  [[nodiscard]] Values emitRest(Builder &builder, const Iteration &iteration,
                                const Values &carried) const;

  Op &loop_;
  Block &body_;
  PassContext &context_;
  /// In steps: those of one read where those of earlier ones say.
  llvm::SmallVector<llvm::SmallVector<Op *, 4>, 2> steps_;
  llvm::SmallVector<Op *, 4> loads_;
};

/// Whether an op reads a tile in a way of which no other pass has said more.
bool reads(const Op &op) {
  if (op.is(OpKind::Gather))
    return !isStagedLoad(op);
  return op.is(OpKind::Load) && op.attrs().empty();
}

bool LoadBatch::onlyReads() const {
  unsigned count = 0;
  for (const Op &op : body_.ops()) {
    if (++count > kMostOps || op.numRegions() > 0 || op.is(OpKind::Dot))
      return false;
    if (!op.isPure() && !reads(op) && &op != body_.terminator())
      return false;
  }
  return true;
}

/// Loads of tiles at places that follow from the position, and from what such loads read.
void LoadBatch::findLoads() {
  // The step of the loads that a value needs, from 1 on; 0 where it needs none.
  llvm::DenseMap<const Value *, unsigned> stepOf;
  llvm::SmallPtrSet<const Value *, 16> later(body_.arguments().drop_front().begin(),
                                             body_.arguments().end());
  for (Op &op : body_.ops()) {
    unsigned step = 0;
    bool isLater = false;
    for (const Value *operand : op.operands()) {
      isLater |= later.contains(operand);
      step = std::max(step, stepOf.lookup(operand));
    }
    const bool isLoad = reads(op) && op.result()->type().isTile() && step < kMostSteps;
    if (isLater || (reads(op) && !isLoad && step > 0)) {
      later.insert_range(op.results());
      continue;
    }
    if (isLoad) {
      if (step == steps_.size())
        steps_.emplace_back();
      steps_[step++].push_back(&op);
      loads_.push_back(&op);
    }
    for (const Value *result : op.results())
      stepOf[result] = step;
  }
}

/// Whether the kernel multiplies: then few of its programs run at once, with many registers each.
bool LoadBatch::isBesideProducts() const {
  bool multiplies = false;
  walk(*loop_.enclosing(OpKind::Kernel), [&](Op &op) { multiplies |= op.is(OpKind::Dot); });
  return multiplies;
}

/// The loop's iterations, where their number is known.
std::optional<int64_t> iterationsOf(const Op &loop) {
  const std::optional<int64_t> begin = constantOf(loop.operand(0)),
                               end = constantOf(loop.operand(1)),
                               step = constantOf(loop.operand(2));
  if (!begin || !end || !step || *step <= 0 || *end <= *begin)
    return std::nullopt;
  return (*end - *begin - 1) / *step + 1;
}

/// Iterations whose tiles fit.
int64_t LoadBatch::fitting() const {
  const Op *kernel = loop_.enclosing(OpKind::Kernel);
  const int64_t threads = kernel->getOr(attr::threads, 1);
  const auto bytes = [&](const Value *value) -> int64_t {
    const Type type = value->type();
    if (!type.isTile())
      return 0;
    const int64_t elements = type.layout() ? int64_t(type.layout()->registers())
                                           : (type.elements() + threads - 1) / threads;
    return elements * dtypeBytes(type.dtype());
  };
  // What only says where the last ones read is no longer wanted when they have arrived.
  llvm::SmallVector<Op *, 16> rest = sliceOf(body_, {body_.terminator()}, loads_);
  int64_t loaded = 0, carried = 0;
  for (const Op *load : loads_) {
    if (llvm::any_of(load->result()->uses(),
                     [&](const Use &use) { return llvm::is_contained(rest, use.user); }))
      loaded += bytes(load->result());
    // Each row has an address.
    if (gathersRows(*load))
      loaded +=
          bytes(load->operand(1)) * kAddressBytes / dtypeBytes(load->operand(1)->type().dtype());
  }
  for (const Value *result : loop_.results())
    carried += bytes(result);
  loaded = std::max<int64_t>(loaded, 1);
  const std::optional<int64_t> iterations = iterationsOf(loop_);
  if (!iterations)
    return std::min(kMostTogether, (kBytesOfThread - carried) / loaded);
  const int64_t room = isBesideProducts() ? kBytesOfKnown : kBytesOfThread;
  // Of all iterations at once the first one's tiles are gone when the sum is there.
  if (*iterations <= std::min(kMostKnownTogether, 1 + (room - carried) / loaded))
    return *iterations;
  return std::min(kMostKnownTogether, (room - carried) / loaded);
}

/// What an iteration reads in a step.
LoadBatch::Values LoadBatch::emitLoads(Builder &builder, const Iteration &iteration,
                                       unsigned step) const {
  ValueMap map = iteration.tiles;
  map[body_.argument(0)] = iteration.position;
  llvm::SmallVector<Op *, 8> before;
  for (unsigned s = 0; s < step; ++s)
    llvm::append_range(before, steps_[s]);
  for (Op *op : sliceOf(body_, steps_[step], before)) {
    builder.setLoc(op->loc());
    cloneOp(builder, *op, map);
  }
  Values tiles;
  for (const Op *load : steps_[step])
    tiles.push_back(map.lookup(load->result()));
  return tiles;
}

/// What an iteration computes of its tiles: what is carried to the next one.
LoadBatch::Values LoadBatch::emitRest(Builder &builder, const Iteration &iteration,
                                      const Values &carried) const {
  ValueMap map = iteration.tiles;
  map[body_.argument(0)] = iteration.position;
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

/// The loop of fewer iterations, still empty.
Op *LoadBatch::emitLoop(Builder &builder, int64_t count) {
  Values operands(loop_.operands().begin(), loop_.operands().end());
  operands[2] = builder.mul(operands[2], builder.constIndex(count));
  llvm::SmallVector<Type, 4> types;
  for (const Value *result : loop_.results())
    types.push_back(result->type());
  Op *loop = builder.op(OpKind::For, operands, types);
  for (const NamedAttr &attr : loop_.attrs())
    loop->setAttr(attr.name, attr.value);
  loop->set(attr::batch, count);
  for (const Value *argument : body_.arguments())
    loop->body().addArgument(argument->type(), argument->nameHint());
  return loop;
}

/// The results of `then`, or of `otherwise` where `exists` does not hold.
template <typename Then, typename Otherwise>
llvm::SmallVector<Value *, 4> emitWhen(Builder &builder, Value *exists,
                                       llvm::ArrayRef<Type> results, Then then,
                                       Otherwise otherwise) {
  if (!exists)
    return then();
  Op *choice = builder.op(OpKind::If, {exists}, results);
  const InsertionGuard guard(builder);
  builder.setInsertionPointToEnd(choice->body(0));
  builder.op(OpKind::Yield, then());
  builder.setInsertionPointToEnd(choice->body(1));
  builder.op(OpKind::Yield, otherwise());
  return {choice->results().begin(), choice->results().end()};
}

void LoadBatch::transform(int64_t count) {
  Builder builder(body_.module());
  builder.setInsertionPoint(&loop_);
  builder.setLoc(loop_.loc());
  const std::optional<int64_t> iterations = iterationsOf(loop_);
  const bool allExist = iterations && *iterations % count == 0;
  Op *loop = emitLoop(builder, count);
  builder.setInsertionPointToEnd(loop->body());

  llvm::SmallVector<Iteration, 8> together(count);
  together[0].position = loop->body().argument(0);
  for (int64_t i = 1; i < count; ++i) {
    together[i].position = builder.add(together[i - 1].position, loop_.operand(2));
    if (!allExist)
      together[i].exists = builder.cmp("lt", together[i].position, loop_.operand(1));
  }
  for (unsigned step = 0; step < steps_.size(); ++step) {
    llvm::SmallVector<Type, 4> types;
    for (const Op *load : steps_[step])
      types.push_back(load->result()->type());
    const auto zeros = [&] {
      Values tiles;
      for (Type type : types)
        tiles.push_back(builder.zeros(type));
      return tiles;
    };
    for (Iteration &iteration : together) {
      builder.setLoc(loop_.loc());
      const Values tiles = emitWhen(
          builder, iteration.exists, types, [&] { return emitLoads(builder, iteration, step); },
          zeros);
      for (auto [load, tile] : llvm::zip_equal(steps_[step], tiles))
        iteration.tiles[load->result()] = tile;
    }
  }
  llvm::SmallVector<Type, 4> types;
  for (const Value *result : loop_.results())
    types.push_back(result->type());
  Values carried(llvm::drop_begin(loop->body().arguments()));
  for (const Iteration &iteration : together)
    carried = emitWhen(
        builder, iteration.exists, types, [&] { return emitRest(builder, iteration, carried); },
        [&] { return carried; });
  builder.setLoc(loop_.loc());
  builder.op(OpKind::Yield, carried);
  for (auto [from, to] : llvm::zip_equal(loop_.results(), loop->results()))
    from->replaceAllUsesWith(to);
  context_.remark(*loop, "what " + llvm::Twine(count) + " iterations read is loaded together");
  loop_.erase();
}

bool LoadBatch::run() {
  // So many steps at once are a number.
  const std::optional<int64_t> step = constantOf(loop_.operand(2));
  const bool isPlain = !loop_.has(attr::batch) && step && *step > 0 && *step <= INT32_MAX;
  if (loop_.numResults() == 0 || !isPlain || !onlyReads())
    return false;
  findLoads();
  if (loads_.empty())
    return false;
  if (!isBesideProducts() && !llvm::all_of(loads_, [](const Op *load) {
        return load->result()->type().shape().size() == 1;
      }))
    return false;
  int64_t count = fitting();
  if (const std::optional<int64_t> iterations = iterationsOf(loop_)) {
    count = std::min(count, *iterations);
    // As many as divide them, unless that is few.
    for (int64_t fewer = count; 2 * fewer > count && fewer > 1; --fewer)
      if (*iterations % fewer == 0) {
        count = fewer;
        break;
      }
    if (*iterations == 1)
      return false;
  }
  if (count < 2) {
    context_.remark(loop_, "not loaded together: only one iteration's tiles fit into registers");
    return false;
  }
  transform(count);
  return true;
}

} // namespace

bool batchLoads(Module &module, PassContext &context) {
  bool changed = false;
  for (Op *loop : loopsOfSpaces(module))
    changed |= LoadBatch(*loop, context).run();
  return changed;
}

} // namespace dtile::passes
