// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tiles in memory: filling buffers, loads and stores, reductions along an axis and running ones.
#include "backend/host/lower_body.h"
#include "backend/host/tile_loops.h"
#include "backend/llvm/reductions.h"
#include "frontend/base/check.h"

namespace dtile::backend::host {

using ir::Op;
using ir::OpKind;
using ir::Value;

// Filling buffers.

llvm::Value *BodyLowering::address(Value *tile) {
  if (!plan_.isInlined(tile))
    return buffer(tile);
  llvm::Value *place = scratch(tileBytes(tile->type()));
  materialize(tile, place);
  return place;
}

void BodyLowering::materialize(Value *tile, llvm::Value *destination, DType dtype) {
  if (!plan_.isInlined(tile) && dtype == tile->type().dtype())
    return copyBytes(destination, buffer(tile), tileBytes(tile->type()));
  fill(tile, destination, dtype, nullptr);
}

void BodyLowering::fill(Value *tile, llvm::Value *destination, DType dtype, const Value *root) {
  const DType from = tile->type().dtype();
  llvm::ArrayRef<int64_t> shape = tile->type().shape();
  TileLoops loops(*this, shape, TileLoops::lastLongDim(shape), {tile}, root);
  const bool raw = from == dtype && loops.onlyMoves(tile);
  if (raw)
    loops.setRaw();
  llvm::Type *element = memoryType(context(), dtype);
  TileRef whole = loops.whole(tile);
  loops.overRows([&] {
    loops.beginRow({whole});
    loops.alongRow([&] {
      llvm::Value *value = loops.elements(whole);
      if (!raw)
        value = arith_.toMemory(dtype, arith_.cast(from, dtype, value));
      b.CreateAlignedStore(value, loops.denseAddress(destination, element),
                           llvm::Align(dtypeBytes(dtype)));
    });
  });
}

// Loads and stores.

void BodyLowering::lowerLoad(Op &op) {
  Value *result = op.result();
  if (op.operand(0)->type().isRemote()) {
    awaitTokens(op, 1);
    return lowerRemoteLoad(op);
  }
  awaitTokens(op, 1);
  if (result->type().isTile()) {
    if (plan_.isInlined(result))
      return;
    beforeWrite(result);
    return fill(result, buffer(result), result->type().dtype(), result);
  }
  const DType type = result->type().elementOrIndex();
  View source = view(op.operand(0));
  llvm::Value *place = b.CreateSelect(b.CreateIsNotNull(source.data), source.data, host_.zeros());
  llvm::Value *loaded =
      b.CreateAlignedLoad(memoryType(context(), type), place, llvm::Align(dtypeBytes(type)));
  set(result, {arith_.fromMemory(type, loaded)});
}

void BodyLowering::lowerStore(Op &op) {
  awaitTokens(op, 2);
  if (op.operand(1)->type().isRemote())
    return lowerRemoteStore(op);
  Value *value = op.operand(0);
  View target = view(op.operand(1));
  if (value->type().isTile())
    return storeElements(value, target);
  const DType type = value->type().elementOrIndex();
  llvm::Value *number = scalar(value);
  when(b.CreateIsNotNull(target.data), "store", [&] {
    b.CreateAlignedStore(arith_.toMemory(type, number), target.data, llvm::Align(dtypeBytes(type)));
  });
}

/// Rows that lie wholly inside are computed into their place, others in scratch memory and copied.
void BodyLowering::storeElements(Value *tile, const View &view) {
  const DType type = tile->type().dtype();
  const unsigned bytes = dtypeBytes(type);
  const llvm::Align align(bytes);
  llvm::Type *element = memoryType(context(), type);
  llvm::ArrayRef<int64_t> shape = tile->type().shape();
  TileLoops loops(*this, shape, TileLoops::lastLongDim(shape), {tile});
  const bool raw = loops.onlyMoves(tile);
  if (raw)
    loops.setRaw();
  TileRef whole = loops.whole(tile);
  auto elements = [&] {
    llvm::Value *value = loops.elements(whole);
    return raw ? value : arith_.toMemory(type, value);
  };
  if (loops.inner() < 0) {
    loops.beginRow({whole});
    llvm::SmallVector<llvm::Value *, 4> origin(shape.size(), b.getInt64(0));
    when(views_.contains(view, origin), "store",
         [&] { b.CreateAlignedStore(elements(), views_.address(view, origin), align); });
    return;
  }
  llvm::Value *temp = scratch(shape[loops.inner()] * bytes);
  loops.overRows([&] {
    TileLoops::ViewRow row = loops.viewRow(view, whole.map);
    when(b.CreateICmpSLT(row.low, row.high), "store", [&] {
      llvm::Value *place = b.CreateSelect(row.direct, row.address, temp);
      loops.beginRow({whole});
      loops.alongRow([&] {
        llvm::Value *at = b.CreateGEP(element, place, loops.position(loops.inner()));
        b.CreateAlignedStore(elements(), at, align);
      });
      when(b.CreateNot(row.direct), "spill", [&] {
        b.CreateCall(host_.spillRow(bytes), {row.address, temp, row.stride, row.low, row.high});
      });
    });
  });
}

void BodyLowering::lowerGather(Op &op) {
  awaitTokens(op, op.numOperands() - op.getOr(ir::attr::ntok, 0));
  Value *result = op.result();
  if (op.operand(0)->type().isRemote())
    return lowerRemoteGather(op);
  if (plan_.isInlined(result))
    return;
  beforeWrite(result);
  fill(result, buffer(result), result->type().dtype(), result);
}

void BodyLowering::lowerScatter(Op &op) {
  awaitTokens(op, op.numOperands() - op.getOr(ir::attr::ntok, 0));
  if (op.operand(1)->type().isRemote())
    return lowerRemoteScatter(op);
  View target = view(op.operand(1));
  const DType type = target.type.dtype();
  eachIndexed(
      op, target.dims.size(), {op.operand(0)},
      [&](TileLoops &, llvm::ArrayRef<llvm::Value *> numbers, llvm::ArrayRef<llvm::Value *> at) {
        when(views_.contains(target, at), "scatter", [&] {
          b.CreateAlignedStore(arith_.toMemory(type, numbers[0]), views_.address(target, at),
                               llvm::Align(dtypeBytes(type)));
        });
      });
}

/// One element after the other: where two go to one place, the last stays.
void BodyLowering::eachIndexed(Op &op, unsigned dims, llvm::ArrayRef<Value *> values,
                               IndexedBody body) {
  const unsigned first = ir::firstIndexTile(op);
  // Without an inner dimension all loops run element by element.
  TileLoops loops(*this, op.operand(first)->type().shape(), -1, {});
  llvm::SmallVector<TileRef, 4> trees;
  for (unsigned d = 0; d < dims; ++d)
    trees.push_back(loops.whole(op.operand(first + d)));
  for (Value *value : values)
    if (value->type().isTile())
      trees.push_back(loops.whole(value));
  loops.overRows([&] {
    loops.beginRow(trees);
    llvm::SmallVector<llvm::Value *, 4> at;
    for (unsigned d = 0; d < dims; ++d)
      at.push_back(
          arith_.cast(op.operand(first + d)->type().dtype(), DType::I64, loops.elements(trees[d])));
    llvm::SmallVector<llvm::Value *, 2> elements;
    size_t tree = dims;
    for (Value *value : values)
      elements.push_back(value->type().isTile() ? loops.elements(trees[tree++]) : scalar(value));
    body(loops, elements, at);
  });
}

// Reductions.

void BodyLowering::lowerReduce(Op &op) {
  llvm::ArrayRef<int64_t> shape = op.operand(0)->type().shape();
  const int axis = int(op.get(ir::attr::axis));
  if (op.result()->type().isTile())
    beforeWrite(op.result());
  if (axis == TileLoops::lastLongDim(shape) || shape.size() == 1)
    return reduceAlongRows(op, axis);
  reduceAcrossRows(op, axis);
}

void BodyLowering::reduceAlongRows(Op &op, int axis) {
  Value *source = op.operand(0);
  const DType type = source->type().dtype();
  const DType sumType = accumulatorType(type);
  const OpKind kind = combinerOf(op.get(ir::attr::kind));
  llvm::ArrayRef<int64_t> shape = source->type().shape();
  TileLoops loops(*this, shape, shape[axis] == 1 ? -1 : axis, {source});
  TileRef whole = loops.whole(source);
  loops.overRows([&] {
    loops.beginRow({whole});
    llvm::Constant *first = neutralOf(context(), kind, sumType);
    llvm::Value *sums =
        loops.alongRow(arith_.broadcast(first, loops.lanes()), [&](llvm::Value *sum) {
          return arith_.binary(kind, sumType, sum, loops.elements(whole));
        });
    // Halves are combined until one lane is left.
    for (unsigned lanes = loops.lanes(); lanes > 1; lanes /= 2) {
      llvm::SmallVector<int, 16> low, high;
      for (unsigned lane = 0; lane < lanes / 2; ++lane) {
        low.push_back(int(lane));
        high.push_back(int(lane + lanes / 2));
      }
      llvm::Value *x = b.CreateShuffleVector(sums, low);
      llvm::Value *y = b.CreateShuffleVector(sums, high);
      if (lanes == 2) {
        x = b.CreateExtractElement(sums, uint64_t(0));
        y = b.CreateExtractElement(sums, uint64_t(1));
      }
      sums = arith_.binary(kind, sumType, x, y);
    }
    llvm::Value *result = arith_.round(type, sums);
    if (!op.result()->type().isTile())
      return set(op.result(), {result});
    llvm::Value *place = loops.denseAddress(buffer(op.result()), memoryType(context(), type), axis);
    b.CreateAlignedStore(arith_.toMemory(type, result), place, llvm::Align(dtypeBytes(type)));
  });
}

/// Sums a row's length of results at a time, in scratch memory.
void BodyLowering::reduceAcrossRows(Op &op, int axis) {
  Value *source = op.operand(0);
  const DType type = source->type().dtype();
  const DType sumType = accumulatorType(type);
  const OpKind kind = combinerOf(op.get(ir::attr::kind));
  llvm::ArrayRef<int64_t> shape = source->type().shape();
  const int inner = TileLoops::lastLongDim(shape);
  TileLoops loops(*this, shape, inner, {source});
  TileRef whole = loops.whole(source);
  llvm::Type *sumMemory = memoryType(context(), sumType);
  const llvm::Align align(dtypeBytes(sumType));
  llvm::Value *row = scratch((inner < 0 ? 1 : shape[inner]) * dtypeBytes(sumType));
  auto place = [&] { return b.CreateGEP(sumMemory, row, loops.position(inner)); };
  auto sums = [&] {
    llvm::Type *vector = laneType(sumMemory, loops.lanes());
    return arith_.fromMemory(sumType, b.CreateAlignedLoad(vector, place(), align));
  };
  auto store = [&](llvm::Value *value) {
    b.CreateAlignedStore(arith_.toMemory(sumType, value), place(), align);
  };
  loops.overRows(
      [&] {
        loops.alongRow(
            [&] { store(arith_.broadcast(neutralOf(context(), kind, sumType), loops.lanes())); });
        loops.over({unsigned(axis)}, [&] {
          loops.beginRow({whole});
          loops.alongRow(
              [&] { store(arith_.binary(kind, sumType, sums(), loops.elements(whole))); });
        });
        loops.alongRow([&] {
          llvm::Value *at =
              loops.denseAddress(buffer(op.result()), memoryType(context(), type), axis);
          b.CreateAlignedStore(arith_.toMemory(type, arith_.round(type, sums())), at,
                               llvm::Align(dtypeBytes(type)));
        });
      },
      axis);
}

void BodyLowering::lowerArgReduce(Op &op) {
  Value *source = op.operand(0);
  const DType type = source->type().dtype();
  const int axis = int(op.get(ir::attr::axis));
  const bool isMax = op.get(ir::attr::kind) == "max";
  llvm::ArrayRef<int64_t> shape = source->type().shape();
  if (op.result()->type().isTile())
    beforeWrite(op.result());
  TileLoops loops(*this, shape, -1, {});
  TileRef whole = loops.whole(source);
  llvm::Type *element = computeType(context(), type);
  llvm::Value *best = stackSlot(element, "best");
  llvm::Value *where = stackSlot(b.getInt32Ty(), "where");
  loops.overRows(
      [&] {
        b.CreateStore(b.getInt32(0), where);
        loops.over({unsigned(axis)}, [&] {
          loops.beginRow({whole});
          llvm::Value *value = loops.elements(whole);
          llvm::Value *known = b.CreateLoad(element, best);
          llvm::Value *better = arith_.compare(isMax ? "gt" : "lt", type, value, known);
          // A NaN gives way to any number, as in max and min.
          if (isFloat(type))
            better = b.CreateOr(
                better, b.CreateAnd(b.CreateFCmpUNO(known, known), b.CreateFCmpORD(value, value)));
          llvm::Value *at = loops.position(axis);
          better = b.CreateOr(better, b.CreateICmpEQ(at, b.getInt64(0)));
          b.CreateStore(b.CreateSelect(better, value, known), best);
          llvm::Value *index = b.CreateTrunc(at, b.getInt32Ty());
          b.CreateStore(b.CreateSelect(better, index, b.CreateLoad(b.getInt32Ty(), where)), where);
        });
        llvm::Value *result = b.CreateLoad(b.getInt32Ty(), where);
        if (!op.result()->type().isTile())
          return set(op.result(), {result});
        b.CreateAlignedStore(result, loops.denseAddress(buffer(op.result()), b.getInt32Ty(), axis),
                             llvm::Align(4));
      },
      axis);
}

void BodyLowering::lowerScan(Op &op) {
  Value *source = op.operand(0);
  const DType type = source->type().dtype();
  const DType sumType = accumulatorType(type);
  const OpKind kind = combinerOf(op.get(ir::attr::kind));
  const int axis = int(op.get(ir::attr::axis));
  llvm::ArrayRef<int64_t> shape = source->type().shape();
  beforeWrite(op.result());
  TileLoops loops(*this, shape, -1, {});
  TileRef whole = loops.whole(source);
  llvm::Value *sum = stackSlot(computeType(context(), sumType), "sum");
  loops.overRows(
      [&] {
        b.CreateStore(neutralOf(context(), kind, sumType), sum);
        loops.over({unsigned(axis)}, [&] {
          loops.beginRow({whole});
          llvm::Value *next =
              arith_.binary(kind, sumType, b.CreateLoad(computeType(context(), sumType), sum),
                            loops.elements(whole));
          b.CreateStore(next, sum);
          llvm::Value *at = loops.denseAddress(buffer(op.result()), memoryType(context(), type));
          b.CreateAlignedStore(arith_.toMemory(type, arith_.round(type, next)), at,
                               llvm::Align(dtypeBytes(type)));
        });
      },
      axis);
}

void BodyLowering::lowerTake(Op &op) {
  Value *source = op.operand(0), *index = op.operand(1);
  const DType type = source->type().dtype();
  const auto axis = unsigned(op.get(ir::attr::axis));
  llvm::ArrayRef<int64_t> from = source->type().shape();
  llvm::Type *memory = memoryType(context(), type);
  const llvm::Align align(dtypeBytes(type));
  beforeWrite(op.result());
  TileLoops loops(*this, index->type().shape(), -1, {});
  TileRef positions = loops.whole(index);
  llvm::SmallVector<unsigned, 4> dims;
  for (unsigned d = 0; d < from.size(); ++d)
    dims.push_back(d);
  loops.over(dims, [&] {
    loops.beginRow({positions});
    llvm::Value *wanted = b.CreateSExtOrTrunc(loops.elements(positions), b.getInt64Ty());
    llvm::Value *isThere = b.CreateICmpULT(wanted, b.getInt64(uint64_t(from[axis])));
    llvm::Value *place = b.getInt64(0);
    for (unsigned d = 0; d < from.size(); ++d) {
      llvm::Value *at =
          d == axis ? b.CreateSelect(isThere, wanted, b.getInt64(0)) : loops.position(int(d));
      place = b.CreateAdd(b.CreateMul(place, b.getInt64(uint64_t(from[d]))), at);
    }
    llvm::Value *element =
        b.CreateAlignedLoad(memory, b.CreateGEP(memory, buffer(source), place), align);
    b.CreateAlignedStore(b.CreateSelect(isThere, element, llvm::Constant::getNullValue(memory)),
                         loops.denseAddress(buffer(op.result()), memory), align);
  });
}

} // namespace dtile::backend::host
