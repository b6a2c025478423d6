// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Costs of operations by the machine's row.
#include "ir/model/op_cost.h"

#include "ir/analysis/rounding.h"
#include "ir/analysis/shared_memory_plan.h"
#include "ir/core/constants.h"
#include "ir/core/op_classes.h"
#include "ir/model/streams.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"

namespace dtile::model {

using ir::Op;
using ir::OpKind;

namespace {

/// A dimension of a view whose size is not known.
constexpr double kExtent = 1024;

/// Bytes of a memory transaction: shorter rows waste the rest.
constexpr int64_t kLineBytes = 128;

bool isMatrixProduct(const Op &dot) {
  const unsigned bytes = dtypeBytes(dot.operand(0)->type().dtype());
  return bytes <= 2 || (dot.has(ir::attr::precision) && bytes == 4);
}

/// Columns of the sum that one warpgroup or program computes.
double columnsOf(const Op &dot) {
  const int64_t columns = dot.result()->type().shape().back() / ir::columnSharers(dot);
  return double(columns);
}

/// Rows (0) or columns (1) of a tile in the part of its first thread, which has most of them: the
/// parts of other warps may be past the end of a tile whose size is no power of two.
double linesOfFirst(const ir::Type &tile, unsigned dim) {
  llvm::SmallVector<int64_t, 64> offsets = {0};
  for (const ir::Layout::Position &way : tile.layout()->bits(ir::LayoutBits::Register)) {
    const size_t count = way[dim] == 0 ? 0 : offsets.size();
    for (size_t i = 0; i < count; ++i)
      offsets.push_back(offsets[i] + way[dim]);
  }
  return double(
      llvm::count_if(offsets, [&](int64_t offset) { return offset < tile.shape()[dim]; }));
}

/// What a product by elements takes over one multiplication for each element and step of the sum.
/// A thread reads a row or column of an operand for each row and column of its part of the sum,
/// beside a multiplication for each element of it, and all wait for the thread with the largest
/// part. Fitted to 90 times of f32 products on an H200: 15 tiles, 3 layouts, 2 shapes
/// (docs/measurements/products.md).
double readsOfElements(const Op &dot) {
  const ir::Type sum = dot.result()->type();
  if (!sum.layout())
    return 1;
  constexpr double kMultiplied = 0.85, kRead = 2.1;
  const double rows = linesOfFirst(sum, 0), columns = linesOfFirst(sum, 1);
  double threads = 1;
  for (const ir::LayoutBits which : {ir::LayoutBits::Lane, ir::LayoutBits::Warp})
    for (const ir::Layout::Position &way : sum.layout()->bits(which))
      threads *= way[0] != 0 || way[1] != 0 ? 2 : 1;
  const double unequal = std::max(rows * columns * threads / double(sum.elements()), 1.0);
  return unequal * (kMultiplied + kRead * (1 / rows + 1 / columns));
}

double productTime(const Op &dot, const TargetFacts &machine) {
  const ir::Type type = dot.operand(0)->type();
  const double products = double(dot.result()->type().elements()) * double(type.shape().back());
  if (!isMatrixProduct(dot))
    return products / machine.timing.elementRate * readsOfElements(dot);
  const bool isGroup = dot.has(ir::attr::warpgroups);
  const Timing &timing = machine.timing;
  const double rate = isGroup ? timing.groupRate : timing.warpRate;
  const double half = isGroup ? timing.groupHalfColumns : timing.warpHalfColumns;
  // Narrow products wait for the operand that does not get shorter.
  const double columns = columnsOf(dot);
  return products * dtypeBytes(type.dtype()) / (2 * rate) * (columns + half) / columns;
}

bool isAhead(const Op &op) {
  return (op.is(OpKind::Load) || op.is(OpKind::Gather)) &&
         (ir::isStagedLoad(op) || ir::comesVia(op, ir::LoadPath::Threads));
}

} // namespace

bool computes(const Op &op) {
  switch (op.kind()) {
  case OpKind::Dot:
  case OpKind::Reduce:
  case OpKind::ArgReduce:
  case OpKind::Scan:
    return true;
  case OpKind::Cast:
  case OpKind::Const:
  case OpKind::Iota:
  case OpKind::Splat:
    return false;
  default:
    return op.isPure() && op.numResults() == 1 && op.result()->type().isTile();
  }
}

double arithmeticTime(const Op &op, const TargetFacts &machine) {
  switch (op.kind()) {
  case OpKind::Dot:
    return productTime(op, machine);
  case OpKind::Reduce:
  case OpKind::ArgReduce:
  case OpKind::Scan:
    return double(op.operand(0)->type().elements()) / machine.timing.elementRate;
  case OpKind::Broadcast:
  case OpKind::Reshape:
  case OpKind::Trans:
  case OpKind::Convert:
    return 0;
  default:
    return computes(op) ? double(op.result()->type().elements()) / machine.timing.elementRate : 0;
  }
}

namespace {

/// Instructions at full rate that an element takes: conversions, and functions by special units,
/// are an eighth as fast (CUDA C++ Programming Guide, "Throughput of native arithmetic
/// instructions").
double instructionsOf(const Op &op) {
  if (op.numOperands() == 0)
    return 1;
  const DType from = op.operand(0)->type().elementOrIndex();
  switch (op.kind()) {
  case OpKind::Div:
  case OpKind::Rem:
    return isFloat(from) && ir::isRoundedToNarrow(*op.result()) ? 2 : 20;
  case OpKind::Pow:
    return 40;
  case OpKind::Cast: {
    const DType to = op.result()->type().elementOrIndex();
    if (isFloat(from) != isFloat(to))
      return isFloat(from) ? 10 : 4;
    return isFloat(to) ? 2 : 1;
  }
  case OpKind::Exp:
    return ir::isRoundedToNarrow(*op.result()) ? 3 : 10;
  default:
    return op.kind() >= OpKind::Exp && op.kind() <= OpKind::Ceil ? 10 : 1;
  }
}

} // namespace

ArithmeticCost::ArithmeticCost(Op &inside)
    : multiplies_(ir::multiplies(*inside.enclosing(OpKind::Kernel))) {}

double ArithmeticCost::of(const Op &op, const TargetFacts &machine) const {
  const double time = arithmeticTime(op, machine);
  return multiplies_ || time == 0 ? time : time * instructionsOf(op);
}

double rowFactor(ir::Type tile) {
  if (!tile.isTile() || tile.rank() == 0)
    return 1;
  /// Addresses of a row, in bytes of what is moved.
  constexpr double kRow = 16;
  const double row = double(tile.shape().back()) * dtypeBytes(tile.dtype());
  return row < double(kLineBytes) ? 1 + kRow / row : 1;
}

double pieceFactor(Op &op, ir::Type tile) {
  if (!tile.isTile() || tile.rank() < 2 || ir::multiplies(*op.enclosing(OpKind::Kernel)))
    return 1;
  /// What opens a piece, in bytes of what is moved.
  constexpr double kPiece = 24;
  return 1 + kPiece / (double(tile.shape().back()) * dtypeBytes(tile.dtype()));
}

double copiedRowFactor(const ir::Value &view) {
  const Op *op = view.definingOp();
  if (!op || !op->is(OpKind::ViewTile) || !op->get(ir::attr::dims).ends_with("r") ||
      view.type().rank() < 2)
    return 1;
  constexpr double kRow = 64;
  return 1 + kRow / (double(op->get(ir::attr::lens).back()) * dtypeBytes(view.type().dtype()));
}

double bytesOf(ir::Type type) {
  if (type.isTile() || type.isScalar() || type.isIndex())
    return double(type.elements()) * dtypeBytes(type.elementOrIndex());
  return 0;
}

double guessBytes(const ir::Value &view) {
  llvm::ArrayRef<int64_t> lengths;
  llvm::StringRef dims;
  if (const Op *op = view.definingOp(); op && op->is(OpKind::ViewTile)) {
    lengths = op->get(ir::attr::lens);
    dims = op->get(ir::attr::dims);
  }
  double bytes = dtypeBytes(view.type().dtype());
  unsigned named = 0;
  for (char letter : dims) {
    if (letter == 'i')
      continue;
    ++named;
    bytes *= letter == 'r' ? double(lengths.consume_front()) : kExtent;
  }
  for (; named < view.type().rank(); ++named)
    bytes *= kExtent;
  return bytes;
}

bool isBulkCopy(const Op &op, const TargetFacts &machine) {
  const ir::Value &source = *op.operand(0);
  return machine.copyBytes > 0 && source.type().isView() && !op.is(OpKind::ReduceAdd) &&
         guessBytes(source) >= TargetFacts::leastBulkBytes(
                                   ir::multiplies(*const_cast<Op &>(op).enclosing(OpKind::Kernel)));
}

RemoteAccess remoteAccess(Op &op) {
  RemoteAccess access;
  switch (op.kind()) {
  case OpKind::Load:
  case OpKind::Gather:
    access = {op.operand(0), op.result()};
    break;
  case OpKind::Get:
    access = {op.operand(0), op.operand(1)};
    break;
  case OpKind::Store:
  case OpKind::Scatter:
  case OpKind::Put:
  case OpKind::PutSignal:
  case OpKind::ReduceAdd:
  case OpKind::ReduceAddScatter:
    access = {op.operand(1), op.operand(0)};
    break;
  default:
    return access;
  }
  if (!access.place->type().isRemote())
    return {};
  for (const Op *view = access.place->definingOp(); view; view = view->operand(0)->definingOp()) {
    if (view->is(OpKind::ViewAt))
      access.peer = view->operand(1);
    if (!view->is(OpKind::ViewSlice) && !view->is(OpKind::ViewTile) &&
        !view->is(OpKind::ViewReshape))
      break;
  }
  return access;
}

Sends sendsOfProducts(ir::Block &body) {
  bool multiplies = false, sends = false, waitsBehind = false;
  ir::walk(body, [&](Op &op) {
    multiplies |= op.is(OpKind::Dot);
    sends |= op.is(OpKind::Put) && remoteAccess(op).place;
    waitsBehind |= sends && op.hasEffect(ir::Wait);
  });
  if (!multiplies || !sends)
    return Sends::No;
  return waitsBehind ? Sends::InTurn : Sends::Beside;
}

bool goesRound(const Op &loop) {
  const Op *end = loop.is(OpKind::For) ? loop.operand(1)->definingOp() : nullptr;
  return end && end->is(OpKind::NumRanks) && ir::constantOf(loop.operand(0)) == 0;
}

bool isSizeArithmetic(const Op &op) {
  switch (op.kind()) {
  case OpKind::Const:
  case OpKind::Rank:
  case OpKind::NumRanks:
    return true;
  default:
    // Nothing that asks for a library of mathematics.
    return ir::isViewOp(op.kind()) ||
           (ir::isElementwise(op.kind()) && !op.result()->type().isTile() &&
            !isFloat(op.result()->type().elementOrIndex()));
  }
}

Ahead loadsAhead(const Op &loop) {
  if (loop.has(ir::attr::stages))
    return Ahead::Tma;
  return loop.has(ir::attr::async_stages) ? Ahead::Threads : Ahead::No;
}

Op *objectOfRows(Op &access) {
  Op *object = access.operand(access.is(OpKind::Store) ? 1 : 0)->definingOp();
  while (object && !object->is(OpKind::Param))
    object = object->numOperands() > 0 ? object->operand(0)->definingOp() : nullptr;
  return object && object->numOperands() > 1 ? object : nullptr;
}

ir::Value *rowElements(Op &access) {
  Op *object = objectOfRows(access);
  return object ? object->operand(object->numOperands() - 1) : nullptr;
}

double bytesAhead(const Op &op, const TargetFacts &machine) {
  if (!isAhead(op))
    return 0;
  const ir::Type type = op.result()->type();
  const int64_t row = type.shape().back() * dtypeBytes(type.dtype());
  return bytesOf(type) * (row < kLineBytes ? machine.timing.shortRowFactor : 1.0);
}

double tmaBytesAhead(const Op &op) {
  constexpr int64_t kLeastRowBytes = 104;
  if (!isAhead(op))
    return 0;
  const int64_t row = op.getOr(ir::attr::swizzle, 0);
  if (!ir::comesVia(op, ir::LoadPath::Tma) || row == 0)
    return bytesOf(op.result()->type());
  return bytesOf(op.result()->type()) / double(row) * double(std::max(row, kLeastRowBytes));
}

ByRowStart cacheBytesAhead(const Op &op, const TargetFacts &machine) {
  const double bytes = bytesAhead(op, machine);
  const Timing &timing = machine.timing;
  return {.by128 = bytes,
          .by64 = bytes * timing.cacheRows64,
          .by32 = bytes * timing.cacheRows32,
          .by16 = bytes * timing.cacheRows16,
          .anywhere = bytes * timing.cacheRows16};
}

bool hasUnstagedBody(Op &space) {
  bool gathers = false;
  ir::walk(space, [&](const Op &op) { gathers |= ir::comesVia(op, ir::LoadPath::Rows); });
  return gathers;
}

double streamedAhead(Op &loop) {
  double bytes = 0;
  for (Op &op : loop.body().ops())
    if (isAhead(op))
      bytes += bytesOf(op.result()->type()) * streamOf(op).share;
  return bytes;
}

bool readsMemory(const Op &op) {
  return (op.is(OpKind::Load) && !op.get(ir::attr::ll) && !isAhead(op)) ||
         (op.is(OpKind::Gather) && !isAhead(op));
}

bool isKept(const Op &op) {
  return op.is(OpKind::Load) && op.has(ir::attr::row_buffer) && op.get(ir::attr::from_buffer);
}

int64_t keptTiles(const Op &loop) {
  int64_t tiles = 0;
  for (unsigned i = 0; i < loop.numRegions(); ++i)
    ir::walk(const_cast<Op &>(loop).body(i), [&](const Op &op) {
      if (isKept(op))
        tiles = std::max(tiles, op.get(ir::attr::row_buffer)[2]);
    });
  return tiles;
}

int64_t keptBytes(Op &space) {
  const int64_t threads = space.enclosing(OpKind::Kernel)->getOr(ir::attr::threads, 1);
  llvm::SmallDenseMap<int64_t, int64_t> buffers;
  ir::walk(space, [&](const Op &op) {
    if (op.is(OpKind::Load) && op.has(ir::attr::row_buffer))
      buffers[op.get(ir::attr::row_buffer)[0]] =
          ir::rowBufferBytes(op.result()->type(), threads) * op.get(ir::attr::row_buffer)[2];
  });
  int64_t bytes = 0;
  for (const auto &[number, each] : buffers)
    bytes += each;
  return bytes;
}

double latencyOfReads(const Op &loop, const TargetFacts &machine, bool takesKept) {
  // Pass prefetch-loads: only the next round uses it.
  const auto isForNext = [](const Op &op) {
    return llvm::all_of(op.results(), [](const ir::Value *result) {
      return llvm::all_of(result->uses(),
                          [](const ir::Use &use) { return use.user->is(OpKind::Yield); });
    });
  };
  // Beside products, loops that only read were fitted without it.
  bool waits = !ir::multiplies(*const_cast<Op &>(loop).enclosing(OpKind::Kernel));
  bool reads = false, readsNow = false;
  for (Op &op : const_cast<Op &>(loop).body().ops()) {
    waits |= op.is(OpKind::Dot) || op.is(OpKind::Reduce) || op.is(OpKind::ArgReduce) ||
             op.is(OpKind::Scan);
    const auto reaches = [&](const Op &read) {
      return readsMemory(read) && !(takesKept && isKept(read));
    };
    bool isRead = reaches(op);
    if (op.is(OpKind::If))
      ir::walk(op, [&](const Op &inner) { isRead |= reaches(inner); });
    reads |= isRead;
    readsNow |= isRead && !isForNext(op);
  }
  if (!reads || !waits || loadsAhead(loop) != Ahead::No)
    return 0;
  return readsNow ? machine.timing.memoryLatency : machine.timing.memoryLatency / 2;
}

double latencyOf(const Op &op, const TargetFacts &machine) {
  switch (op.kind()) {
  case OpKind::Put:
  case OpKind::Get:
    return op.operand(0)->type().isView() ? machine.timing.memoryLatency : 0;
  case OpKind::PutSignal:
    return machine.timing.notifyLatency +
           (op.operand(0)->type().isView() ? machine.timing.memoryLatency : 0);
  case OpKind::Notify:
  case OpKind::Fence:
  case OpKind::MemoryFence:
  case OpKind::Quiet:
    return machine.timing.notifyLatency;
  case OpKind::Barrier:
    return 2 * machine.timing.notifyLatency;
  case OpKind::Load:
    // There and back.
    if (op.operand(0)->type().isRemote())
      return 2 * machine.timing.notifyLatency;
    return op.get(ir::attr::ll) ? machine.timing.memoryLatency : 0;
  default:
    return op.hasEffect(ir::Wait) ? machine.timing.memoryLatency : 0;
  }
}

bool onlyNotifies(Op &loop) {
  bool only = true, any = false;
  ir::walk(loop.body(0), [&](Op &op) {
    any |= op.is(OpKind::Notify);
    only &=
        op.is(OpKind::Notify) || !op.hasEffect(ir::Read | ir::Write | ir::RemoteRead |
                                               ir::RemoteWrite | ir::Wait | ir::Order | ir::Signal);
  });
  return only && any;
}

double exchangeTime(const Op &loop, const TargetFacts &machine) {
  if (!loop.is(OpKind::For) || !loop.get(ir::attr::split_sums))
    return 0;
  double bytes = 0;
  for (const ir::Value *sum : loop.results())
    bytes += bytesOf(sum->type());
  // All write theirs; each adds up its part of all; one reads the sums.
  constexpr double kBarriers = 2;
  return kBarriers * machine.timing.clusterBarrier + 2 * bytes / machine.timing.clusterRate;
}

double roundOverhead(Op &loop, const TargetFacts &machine) {
  const Timing &timing = machine.timing;
  if (loadsAhead(loop) == Ahead::Threads)
    return timing.asyncRound;
  // The instructions of a product that a warpgroup issues one after the other, 32 bytes of its
  // rows each.
  double instructions = 0;
  for (const Op &op : loop.body().ops())
    if (op.is(OpKind::Dot)) {
      const ir::Type type = op.operand(0)->type();
      instructions += double(type.shape().back()) * dtypeBytes(type.dtype()) / 32;
    }
  return timing.tmaRound + instructions * timing.groupIssue;
}

} // namespace dtile::model
