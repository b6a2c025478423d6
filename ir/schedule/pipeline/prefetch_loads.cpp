// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// prefetch-loads: reads what the next iteration needs, into registers.
//
// Expects: `for` loops of spaces behind infer-layouts, with products where no copies fill shared
//   memory, or that combine elements of a tile (sums and maxima of rows) on any GPU.
// Produces: tiles that an iteration loads, and rows that it gathers, at places that follow from its
//   position (and from numbers that inputs hold there), are carried: the first iteration's are
//   loaded before the loop, the next one's at the begin of an iteration.
// Why: a program would wait for memory, then multiply, or meet to combine what its threads have.
//   Here loads are under way meanwhile.
// Leaves alone: loops that write, wait or signal, since loads would move across that; tiles that
//   would take too many registers; loads whose places are themselves loaded from elsewhere; beside
//   sums, of anything but inputs. After the last iteration one more is loaded: views are safe at
//   any position.
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
/// The same where rows are combined: several programs share a processor there.
constexpr int64_t kBytesBesideSums = 512;

/// One loop.
class LoadPrefetch {
public:
  LoadPrefetch(Op &loop, PassContext &context)
      : loop_(loop), body_(loop.body()), context_(context) {}
  bool run();

private:
  [[nodiscard]] bool has(llvm::ArrayRef<OpKind> kinds) const;
  [[nodiscard]] bool onlyReads();
  [[nodiscard]] static int64_t registerBytes(Type tile) {
    return tile.elements() * std::max(4u, unsigned(dtypeBytes(tile.dtype())));
  }
  void choose();
  void transform();

  Op &loop_;
  Block &body_;
  PassContext &context_;
  llvm::SmallVector<Op *, 4> loads_;
  PositionChain needed_;
};

bool LoadPrefetch::has(llvm::ArrayRef<OpKind> kinds) const {
  return llvm::any_of(body_.ops(), [&](Op &op) { return llvm::is_contained(kinds, op.kind()); });
}

bool LoadPrefetch::onlyReads() {
  bool only = true;
  walk(body_, [&](Op &op) {
    if (op.hasEffect(Write | RemoteWrite | Signal | Wait | Order))
      only = false;
  });
  return only;
}

void LoadPrefetch::choose() {
  const Op *kernel = loop_.enclosing(OpKind::Kernel);
  const int64_t threads = kernel ? kernel->getOr(attr::threads, 0) : 0;
  const bool multiplies = has({OpKind::Dot});
  const int64_t most = (multiplies ? kBytesOfThread : kBytesBesideSums) * threads;
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

void LoadPrefetch::transform() {
  Builder builder(body_.module());
  Value *position = body_.arguments().front();
  auto clone = [&](Value *at) {
    ValueMap map;
    map[position] = at;
    for (Op *op : needed_) {
      builder.setLoc(op->loc());
      cloneOp(builder, *op, map);
    }
    return map;
  };
  builder.setInsertionPoint(&loop_);
  const ValueMap first = clone(loop_.operand(0));
  builder.setInsertionPointToStart(body_);
  builder.setLoc(loop_.loc());
  const ValueMap next = clone(builder.add(position, loop_.operand(2)));
  Op &yield = *body_.terminator();
  for (Op *load : loads_) {
    Value *tile = load->result();
    Value *carried = body_.addArgument(tile->type(), "ahead");
    loop_.addOperand(first.lookup(tile));
    loop_.addResult(tile->type(), "ahead");
    yield.addOperand(next.lookup(tile));
    tile->replaceAllUsesWith(carried);
    context_.remark(*load, "loaded an iteration ahead");
  }
  for (Op *op : llvm::reverse(needed_))
    if (llvm::none_of(op->results(), [](Value *result) { return result->hasUses(); }))
      op->erase();
}

bool LoadPrefetch::run() {
  const bool isCopiedAhead = context_.facts && context_.facts->asyncCopyBytes > 0;
  const bool waits =
      has({OpKind::Dot}) ? !isCopiedAhead : has({OpKind::Reduce, OpKind::ArgReduce, OpKind::Scan});
  if (!waits || !onlyReads())
    return false;
  choose();
  if (loads_.empty())
    return false;
  transform();
  return true;
}

} // namespace

bool prefetchLoads(Module &module, PassContext &context) {
  bool changed = false;
  for (Op *loop : loopsOfSpaces(module))
    changed |= LoadPrefetch(*loop, context).run();
  return changed;
}

} // namespace dtile::passes
