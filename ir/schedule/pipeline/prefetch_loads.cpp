// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// prefetch-loads: reads what the next iteration needs, into registers.
//
// Expects: `for` loops of spaces after infer-layouts, for GPUs without cp.async.
// Produces: tiles that an iteration loads, and rows that it gathers, at places that follow from its
//   position (and from numbers that inputs hold there), are carried: the first iteration's are
//   loaded before the loop, the next one's at the begin of an iteration.
// Why: a program would wait for memory, then multiply, or compute. Here loads are under way
//   meanwhile, and twice as many at once.
// Leaves alone: GPUs with cp.async, where copies fill shared memory ahead of products, and loops
//   without products have the other programs of their processor to cover latency
//   (docs/decisions/programs_cover_latency.md); loops that wait or signal, and loops with products
//   that write, since loads would move across that; tiles that would take too many registers; loads
//   whose places are themselves loaded from elsewhere; without products, of anything but inputs.
//   After the last iteration one more is loaded: views are safe at any position.
#include "ir/analysis/communication.h"
#include "ir/analysis/loop_positions.h"
#include "ir/analysis/row_gathers.h"
#include "ir/core/builder.h"
#include "ir/machine/target_facts.h"
#include "ir/transform/pass.h"

#include "llvm/ADT/STLExtras.h"

namespace dtile::passes {
namespace {

using namespace dtile::ir;

/// What sums and carried tiles may take of a thread's registers, in bytes. Elements have a register
/// each where something is computed with them, and exist twice for a moment.
constexpr int64_t kBytesOfThread = 1536;
/// The same without products: several programs share a processor there, and wide tiles are many
/// loads at once by themselves.
constexpr int64_t kBytesOfPrograms = 256;

/// What a thread keeps of the first tile of a row for the next loop along it.
constexpr int64_t kBytesKept = 64;

/// One loop.
class LoadPrefetch {
public:
  LoadPrefetch(Op &loop, PassContext &context)
      : loop_(loop), body_(loop.body()), context_(context) {}
  bool run();

private:
  [[nodiscard]] bool has(llvm::ArrayRef<OpKind> kinds) const;
  [[nodiscard]] bool hasEffects(uint16_t effects);
  [[nodiscard]] static int64_t registerBytes(Type tile) {
    return tile.elements() * std::max(4u, unsigned(dtypeBytes(tile.dtype())));
  }
  void choose();
  [[nodiscard]] Value *firstOf(Value *tile);
  void transform(bool isGuarded);

  Op &loop_;
  Block &body_;
  PassContext &context_;
  llvm::SmallVector<Op *, 4> loads_;
  PositionChain needed_;
};

bool LoadPrefetch::has(llvm::ArrayRef<OpKind> kinds) const {
  return llvm::any_of(body_.ops(), [&](Op &op) { return llvm::is_contained(kinds, op.kind()); });
}

bool LoadPrefetch::hasEffects(uint16_t effects) {
  bool any = false;
  walk(body_, [&](Op &op) { any |= op.hasEffect(effects); });
  return any;
}

void LoadPrefetch::choose() {
  const Op *kernel = loop_.enclosing(OpKind::Kernel);
  const int64_t threads = kernel ? kernel->getOr(attr::threads, 0) : 0;
  const bool multiplies = has({OpKind::Dot});
  const int64_t most = (multiplies ? kBytesOfThread : kBytesOfPrograms) * threads;
  int64_t bytes = 0;
  for (Op &op : body_.ops())
    if (op.is(OpKind::Dot))
      bytes += registerBytes(op.result()->type());
  for (Op &op : body_.ops()) {
    const bool areRows = gathersRows(op);
    if ((!op.is(OpKind::Load) && !areRows) || !op.result()->type().isTile() || isForRows(op))
      continue;
    PositionChain chain;
    bool isVarying = false;
    const Ahead ahead = areRows ? Ahead::Tiles : Ahead::Numbers;
    if (!followsFromPosition(op, chain, isVarying, ahead) || !isVarying)
      continue;
    // What peers send may come in words that carry flags (pass ll-messages).
    if (!multiplies && !isLoadOfInput(op))
      continue;
    bytes += 2 * registerBytes(op.result()->type());
    if (bytes > most) {
      context_.remark(op, "not loaded ahead: it would take too many registers");
      break;
    }
    loads_.push_back(&op);
    needed_.insert(chain.begin(), chain.end());
  }
}

/// Whether two values are computed alike from the same values, and from inputs, as far as `ops`
/// one after the other show.
bool isSame(const Value &a, const Value &b, unsigned ops = 6) {
  if (&a == &b)
    return true;
  if (ops == 0)
    return false;
  const Op *x = a.definingOp(), *y = b.definingOp();
  const auto isRepeatable = [](const Op &op) {
    return op.numRegions() == 0 && (op.isPure() || isLoadOfInput(op));
  };
  return x && y && x->kind() == y->kind() && a.type() == b.type() && a.index() == b.index() &&
         isRepeatable(*x) && x->numOperands() == y->numOperands() &&
         llvm::equal(x->attrs(), y->attrs(),
                     [](const NamedAttr &one, const NamedAttr &other) {
                       return one.name == other.name && one.value == other.value;
                     }) &&
         llvm::all_of(llvm::zip_equal(x->operands(), y->operands()), [&](const auto &pair) {
           return isSame(*std::get<0>(pair), *std::get<1>(pair), ops - 1);
         });
}

/// The tile of a load before a loop, or that of an earlier load of the same: the first tile of a
/// row that several loops read stays in registers.
Value *LoadPrefetch::firstOf(Value *tile) {
  const Op *kernel = loop_.enclosing(OpKind::Kernel);
  const int64_t threads = std::max<int64_t>(kernel->getOr(attr::threads, 0), 1);
  const Type type = tile->type();
  if (type.elements() * dtypeBytes(type.dtype()) > kBytesKept * threads)
    return tile;
  for (Op &op : loop_.parentBlock()->ops()) {
    if (&op == tile->definingOp())
      break;
    if (op.is(OpKind::Load) && isSame(*op.result(), *tile))
      return op.result();
  }
  return tile;
}

void LoadPrefetch::transform(bool isGuarded) {
  Builder builder(body_.module());
  Value *position = body_.arguments().front();
  auto clone = [&](Value *at) {
    ValueMap map;
    map[position] = at;
    for (Op *op : needed_) {
      builder.setLoc(op->loc());
      cloneOp(builder, *op, map);
    }
    llvm::SmallVector<Value *, 4> tiles;
    for (const Op *load : loads_)
      tiles.push_back(map.lookup(load->result()));
    return tiles;
  };
  builder.setInsertionPoint(&loop_);
  llvm::SmallVector<Value *, 4> first = clone(loop_.operand(0));
  builder.setInsertionPointToStart(body_);
  builder.setLoc(loop_.loc());
  Value *ahead = builder.add(position, loop_.operand(2));
  llvm::SmallVector<Value *, 4> next;
  if (isGuarded) {
    // Loops along rows have few iterations: after the last one there is nothing to wait for.
    llvm::SmallVector<Type, 4> types;
    for (const Op *load : loads_)
      types.push_back(load->result()->type());
    Op *choice = builder.op(OpKind::If, {builder.cmp("lt", ahead, loop_.operand(1))}, types);
    next.assign(choice->results().begin(), choice->results().end());
    builder.setInsertionPointToEnd(choice->body(0));
    builder.op(OpKind::Yield, clone(ahead));
    builder.setInsertionPointToEnd(choice->body(1));
    llvm::SmallVector<Value *, 4> none;
    for (const Type type : types)
      none.push_back(builder.zeros(type));
    builder.op(OpKind::Yield, none);
  } else {
    next = clone(ahead);
  }
  Op &yield = *body_.terminator();
  for (auto [load, begin, following] : llvm::zip_equal(loads_, first, next)) {
    Value *tile = load->result();
    Value *carried = body_.addArgument(tile->type(), "ahead");
    loop_.addOperand(firstOf(begin));
    loop_.addResult(tile->type(), "ahead");
    yield.addOperand(following);
    tile->replaceAllUsesWith(carried);
    context_.remark(*load, "loaded an iteration ahead");
  }
  for (Op *op : llvm::reverse(needed_))
    if (llvm::none_of(op->results(), [](Value *result) { return result->hasUses(); }))
      op->erase();
}

bool LoadPrefetch::run() {
  const bool multiplies = has({OpKind::Dot});
  // Inputs stay what they are, whatever the loop writes.
  if (hasEffects(Signal | Wait | Order) || (multiplies && hasEffects(Write | RemoteWrite)))
    return false;
  choose();
  if (loads_.empty())
    return false;
  transform(/*isGuarded=*/!multiplies);
  return true;
}

} // namespace

bool prefetchLoads(Module &module, PassContext &context) {
  if (context.facts && context.facts->asyncCopyBytes > 0)
    return false;
  bool changed = false;
  for (Op *loop : loopsOfSpaces(module))
    changed |= LoadPrefetch(*loop, context).run();
  return changed;
}

} // namespace dtile::passes
