// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Loops over the elements of tiles, with the tiles that are not in memory computed inside.
#include "backend/host/tile_loops.h"

#include "backend/llvm/instructions.h"
#include "ir/core/op_classes.h"

#include "frontend/base/check.h"

#include "llvm/IR/Intrinsics.h"

namespace dtile::backend::host {

using ir::Op;
using ir::OpKind;
using ir::Value;

namespace {

constexpr unsigned kMaxLanes = 16;
/// Where each lane has code of its own.
constexpr unsigned kMaxScalarLanes = 4;

bool callsLibrary(const Op &op) {
  const DType type = op.result()->type().dtype();
  switch (op.kind()) {
  case OpKind::Pow:
  case OpKind::Sin:
  case OpKind::Cos:
  case OpKind::Asm:
    return true;
  case OpKind::Exp:
  case OpKind::Exp2:
  case OpKind::Log:
  case OpKind::Log2:
  case OpKind::Tanh:
  case OpKind::Erf:
    return type == DType::F64;
  default:
    return false;
  }
}

} // namespace

TileLoops::TileLoops(BodyLowering &body, llvm::ArrayRef<int64_t> extents, int inner,
                     llvm::ArrayRef<Value *> trees, const Value *root)
    : body_(body), b(body.builder()), extents_(extents), positions_(extents.size(), b.getInt64(0)),
      inner_(inner), root_(root) {
  if (inner_ < 0)
    return;
  unsigned limit = kMaxLanes;
  for (const Value *tile : trees)
    limit = std::min(limit, laneLimit(tile));
  while (lanes_ < limit && extents_[inner_] % (2 * lanes_) == 0)
    lanes_ *= 2;
}

int TileLoops::lastLongDim(llvm::ArrayRef<int64_t> extents) {
  for (size_t d = extents.size(); d-- > 0;)
    if (extents[d] != 1)
      return int(d);
  return -1;
}

unsigned TileLoops::laneLimit(const Value *tile) const {
  const Op *op = tile->definingOp();
  if (!isComputed(tile) || !op)
    return kMaxLanes;
  unsigned limit = op->is(OpKind::Gather) || callsLibrary(*op) ? kMaxScalarLanes : kMaxLanes;
  for (const Value *operand : op->operands())
    if (operand->type().isTile())
      limit = std::min(limit, laneLimit(operand));
  return limit;
}

bool TileLoops::onlyMoves(const Value *tile) const {
  const Op *op = tile->definingOp();
  if (!isComputed(tile) || (op && op->is(OpKind::Load)))
    return true;
  const bool moves =
      op && (op->is(OpKind::Broadcast) || op->is(OpKind::Trans) || op->is(OpKind::Reshape));
  return moves && onlyMoves(op->operand(0));
}

TileRef TileLoops::whole(Value *tile) const {
  TileRef ref{tile, {}};
  for (size_t d = 0; d < extents_.size(); ++d)
    ref.map.push_back(extents_[d] == 1 ? -1 : int(d));
  return ref;
}

llvm::Value *TileLoops::position(int dim) const {
  return dim < 0 ? b.getInt64(0) : positions_[dim];
}

// Loops.

void TileLoops::over(llvm::ArrayRef<unsigned> dims, llvm::function_ref<void()> body) {
  if (dims.empty())
    return body();
  if (extents_[dims.front()] == 1)
    return over(dims.drop_front(), body);
  body_.loop(b.getInt64(extents_[dims.front()]), "rows", [&](llvm::Value *i) {
    positions_[dims.front()] = i;
    over(dims.drop_front(), body);
    positions_[dims.front()] = b.getInt64(0);
  });
}

void TileLoops::overRows(llvm::function_ref<void()> body, int skip) {
  llvm::SmallVector<unsigned, 4> dims;
  for (size_t d = 0; d < extents_.size(); ++d)
    if (int(d) != inner_ && int(d) != skip)
      dims.push_back(d);
  over(dims, body);
}

void TileLoops::beginRow(llvm::ArrayRef<TileRef> trees) {
  prepared_.clear();
  rowPointers_.clear();
  rowValues_.clear();
  stepValues_.clear();
  for (const TileRef &tree : trees)
    prepare(tree);
}

void TileLoops::alongRow(llvm::function_ref<void()> body) {
  (void)alongRow(nullptr, [&](llvm::Value *) {
    body();
    return nullptr;
  });
}

llvm::Value *TileLoops::alongRow(llvm::Value *first,
                                 llvm::function_ref<llvm::Value *(llvm::Value *)> body) {
  stepValues_.clear();
  if (inner_ < 0)
    return body(first);
  llvm::BasicBlock *before = b.GetInsertBlock();
  llvm::BasicBlock *step = body_.block("row");
  llvm::BasicBlock *after = body_.block("row.end");
  b.CreateBr(step);
  b.SetInsertPoint(step);
  llvm::PHINode *i = b.CreatePHI(b.getInt64Ty(), 2);
  i->addIncoming(b.getInt64(0), before);
  llvm::PHINode *state = nullptr;
  if (first) {
    state = b.CreatePHI(first->getType(), 2);
    state->addIncoming(first, before);
  }
  positions_[inner_] = i;
  llvm::Value *last = body(state);
  positions_[inner_] = b.getInt64(0);
  llvm::Value *next = b.CreateNSWAdd(i, b.getInt64(lanes_));
  i->addIncoming(next, b.GetInsertBlock());
  if (state)
    state->addIncoming(last, b.GetInsertBlock());
  // Rows have at least one step: tiles are not empty.
  b.CreateCondBr(b.CreateICmpSLT(next, b.getInt64(extents_[inner_])), step, after);
  b.SetInsertPoint(after);
  stepValues_.clear();
  return last;
}

// Elements.

bool TileLoops::varies(const LoopMap &map) const {
  return inner_ >= 0 && llvm::is_contained(map, inner_);
}

LoopMap TileLoops::operandMap(const Op &op, unsigned operand, const LoopMap &map) const {
  llvm::ArrayRef<int64_t> from = op.operand(operand)->type().shape();
  LoopMap result(from.size(), -1);
  if (op.is(OpKind::Trans)) {
    for (auto [d, source] : llvm::enumerate(op.get(ir::attr::perm)))
      result[source] = map[d];
  } else if (op.is(OpKind::Reshape)) {
    // Dimensions of size 1 come and go; the others keep their order.
    size_t d = 0;
    llvm::ArrayRef<int64_t> to = op.result()->type().shape();
    for (size_t k = 0; k < from.size(); ++k) {
      if (from[k] == 1)
        continue;
      while (to[d] == 1)
        ++d;
      result[k] = map[d++];
    }
  } else {
    for (size_t d = 0; d < from.size(); ++d)
      result[d] = from[d] == 1 ? -1 : map[d];
  }
  return result;
}

void TileLoops::prepare(const TileRef &tree) {
  if (!prepared_.insert(tree).second)
    return;
  if (!varies(tree.map)) {
    (void)value(tree);
    return;
  }
  if (!isComputed(tree.tile))
    return;
  Op &op = *tree.tile->definingOp();
  if (op.is(OpKind::Load)) {
    ViewRow row = viewRow(body_.view(op.operand(0)), tree.map);
    const unsigned bytes = dtypeBytes(tree.tile->type().dtype());
    llvm::Value *size = b.getInt64(extents_[inner_] * bytes);
    llvm::Value *temp = body_.scratch(extents_[inner_] * bytes);
    llvm::BasicBlock *fill = body_.block("fill");
    llvm::BasicBlock *join = body_.block("row.begin");
    llvm::BasicBlock *here = b.GetInsertBlock();
    b.CreateCondBr(row.direct, join, fill);
    b.SetInsertPoint(fill);
    b.CreateCall(body_.host().fillRow(bytes),
                 {temp, row.address, size, row.stride, row.low, row.high});
    b.CreateBr(join);
    b.SetInsertPoint(join);
    llvm::PHINode *pointer = b.CreatePHI(b.getPtrTy(), 2);
    pointer->addIncoming(row.address, here);
    pointer->addIncoming(temp, fill);
    rowPointers_[tree] = pointer;
    return;
  }
  for (auto [i, operand] : llvm::enumerate(op.operands()))
    if (operand->type().isTile())
      prepare({operand, operandMap(op, i, tree.map)});
}

llvm::Value *TileLoops::elements(const TileRef &tree) {
  return body_.arith().broadcast(value(tree), lanes_);
}

llvm::Value *TileLoops::value(const TileRef &tree) {
  auto &known = varies(tree.map) ? stepValues_ : rowValues_;
  if (auto it = known.find(tree); it != known.end())
    return it->second;
  llvm::Value *result = compute(tree);
  known[tree] = result;
  return result;
}

llvm::Value *TileLoops::number(DType type, llvm::Value *memory) {
  return raw_ ? memory : body_.arith().fromMemory(type, memory);
}

llvm::Value *TileLoops::compute(const TileRef &tree) {
  if (!isComputed(tree.tile))
    return fromBuffer(tree, body_.buffer(tree.tile));
  Op *op = tree.tile->definingOp();
  DTILE_CHECK(op != nullptr, "a tile that is computed in place has an op");
  switch (op->kind()) {
  case OpKind::Splat:
    return body_.scalar(op->operand(0));
  case OpKind::Iota:
    return iota(tree);
  case OpKind::Broadcast:
  case OpKind::Trans:
    return value({op->operand(0), operandMap(*op, 0, tree.map)});
  case OpKind::Reshape:
    if (isUnitReshape(*op))
      return value({op->operand(0), operandMap(*op, 0, tree.map)});
    break;
  case OpKind::Load:
    return fromView(tree, *op);
  case OpKind::Gather:
    return gather(tree, *op);
  default:
    if (ir::isElementwise(op->kind()))
      return arithmetic(tree, *op);
    break;
  }
  body_.host().unsupported(*op, "cannot be computed element by element");
  return llvm::PoisonValue::get(computeType(b.getContext(), tree.tile->type().dtype()));
}

llvm::Value *TileLoops::arithmetic(const TileRef &tree, Op &op) {
  Arith &arith = body_.arith();
  llvm::SmallVector<llvm::Value *, 3> x;
  bool isVector = false;
  for (auto [i, operand] : llvm::enumerate(op.operands())) {
    x.push_back(operand->type().isTile() ? value({operand, operandMap(op, i, tree.map)})
                                         : body_.scalar(operand));
    isVector |= x.back()->getType()->isVectorTy();
  }
  if (isVector)
    for (llvm::Value *&each : x)
      each = arith.broadcast(each, lanes_);
  const DType type = op.operand(0)->type().elementOrIndex();
  if (op.is(OpKind::Cmp))
    return arith.compare(op.get(ir::attr::pred), type, x[0], x[1]);
  if (op.is(OpKind::Select))
    return b.CreateSelect(x[0], x[1], x[2]);
  if (op.is(OpKind::Cast))
    return arith.cast(type, op.result()->type().dtype(), x[0]);
  if (op.is(OpKind::Bitcast))
    return arith.bitcast(type, op.result()->type().dtype(), x[0]);
  if (op.is(OpKind::Extern))
    return x[0];
  if (op.is(OpKind::Asm))
    return emitInstructions(b, arith, op, x, body_.host().placeOf(op.loc()));
  if (x.size() == 2)
    return arith.binary(op.kind(), type, x[0], x[1]);
  return arith.unary(op.kind(), type, x[0]);
}

llvm::Value *TileLoops::lanePositions(int dim) {
  llvm::Value *first = position(dim);
  if (!varies({dim}) || lanes_ == 1)
    return first;
  auto *type = llvm::FixedVectorType::get(b.getInt64Ty(), lanes_);
  return b.CreateAdd(b.CreateVectorSplat(lanes_, first), b.CreateStepVector(type));
}

llvm::Value *TileLoops::iota(const TileRef &tree) {
  return body_.arith().cast(DType::I64, tree.tile->type().dtype(), lanePositions(tree.map[0]));
}

llvm::SmallVector<llvm::Value *, 4> TileLoops::positions(const LoopMap &map) {
  llvm::SmallVector<llvm::Value *, 4> result;
  for (int dim : map)
    result.push_back(position(dim));
  return result;
}

llvm::Value *TileLoops::fromBuffer(const TileRef &tree, llvm::Value *base) {
  const DType type = tree.tile->type().dtype();
  llvm::Type *element = memoryType(b.getContext(), type);
  llvm::ArrayRef<int64_t> shape = tree.tile->type().shape();
  llvm::Value *offset = b.getInt64(0);
  int64_t stride = 1;
  int64_t rowStride = 0;
  for (size_t d = shape.size(); d-- > 0;) {
    if (tree.map[d] >= 0) {
      offset = b.CreateAdd(offset, b.CreateMul(position(tree.map[d]), b.getInt64(stride)));
      if (tree.map[d] == inner_)
        rowStride = stride;
    }
    stride *= shape[d];
  }
  llvm::Value *address = b.CreateGEP(element, base, offset);
  const llvm::Align align(dtypeBytes(type));
  if (rowStride == 0 || lanes_ == 1)
    return number(type, b.CreateAlignedLoad(element, address, align));
  auto *vector = llvm::FixedVectorType::get(element, lanes_);
  if (rowStride == 1)
    return number(type, b.CreateAlignedLoad(vector, address, align));
  llvm::Value *result = llvm::PoisonValue::get(vector);
  for (unsigned lane = 0; lane < lanes_; ++lane) {
    llvm::Value *at = b.CreateConstGEP1_64(element, address, int64_t(lane) * rowStride);
    result = b.CreateInsertElement(result, b.CreateAlignedLoad(element, at, align), lane);
  }
  return number(type, result);
}

TileLoops::ViewRow TileLoops::viewRow(const View &view, const LoopMap &map) {
  DTILE_CHECK(view.dims.size() == map.size(), "a tile and its view have the same dimensions");
  llvm::Value *exists = b.getTrue();
  const ViewDimension *along = nullptr;
  llvm::SmallVector<llvm::Value *, 4> first;
  for (size_t d = 0; d < map.size(); ++d) {
    const ViewDimension &dim = view.dims[d];
    first.push_back(map[d] == inner_ ? b.getInt64(0) : position(map[d]));
    if (map[d] == inner_ && inner_ >= 0) {
      along = &dim;
      continue;
    }
    exists = b.CreateAnd(exists, b.CreateAnd(b.CreateICmpSGE(first[d], dim.low),
                                             b.CreateICmpSLT(first[d], dim.high)));
  }
  DTILE_CHECK(along != nullptr, "a row of a view runs along one of its dimensions");
  llvm::Value *length = b.getInt64(extents_[inner_]);
  llvm::Value *none = b.getInt64(0);
  ViewRow row;
  row.address = body_.views().address(view, first);
  row.stride = along->stride;
  row.low = along->low;
  llvm::Value *high = b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, along->high, length);
  row.high = b.CreateSelect(exists, high, none);
  row.direct =
      b.CreateAnd(b.CreateAnd(b.CreateICmpSLE(row.low, none), b.CreateICmpEQ(row.high, length)),
                  b.CreateICmpEQ(row.stride, b.getInt64(1)));
  return row;
}

llvm::Value *TileLoops::fromView(const TileRef &tree, const Op &load) {
  const DType type = tree.tile->type().dtype();
  llvm::Type *element = memoryType(b.getContext(), type);
  const llvm::Align align(dtypeBytes(type));
  if (varies(tree.map)) {
    llvm::Value *address = b.CreateGEP(element, rowPointers_.at(tree), position(inner_));
    return number(type, b.CreateAlignedLoad(laneType(element, lanes_), address, align));
  }
  View view = body_.view(load.operand(0));
  llvm::SmallVector<llvm::Value *, 4> at = positions(tree.map);
  llvm::Value *address = b.CreateSelect(body_.views().contains(view, at),
                                        body_.views().address(view, at), body_.host().zeros());
  return number(type, b.CreateAlignedLoad(element, address, align));
}

llvm::Value *TileLoops::gather(const TileRef &tree, Op &op) {
  const DType type = tree.tile->type().dtype();
  llvm::Type *element = memoryType(b.getContext(), type);
  View view = body_.view(op.operand(0));
  const unsigned lanes = varies(tree.map) ? lanes_ : 1;
  llvm::SmallVector<llvm::Value *, 4> indices;
  for (unsigned d = 0; d < view.dims.size(); ++d) {
    llvm::Value *numbers = nullptr;
    if (d > 0 && gathersRows(op)) {
      numbers = lanePositions(tree.map[d]);
    } else {
      Value *index = op.operand(1 + d);
      numbers = value({index, operandMap(op, 1 + d, tree.map)});
      numbers = body_.arith().cast(index->type().dtype(), DType::I64, numbers);
    }
    indices.push_back(body_.arith().broadcast(numbers, lanes));
  }
  llvm::Value *result = llvm::PoisonValue::get(laneType(element, lanes));
  for (unsigned lane = 0; lane < lanes; ++lane) {
    llvm::SmallVector<llvm::Value *, 4> at;
    for (llvm::Value *index : indices)
      at.push_back(lanes == 1 ? index : b.CreateExtractElement(index, lane));
    llvm::Value *address = b.CreateSelect(body_.views().contains(view, at),
                                          body_.views().address(view, at), body_.host().zeros());
    llvm::Value *loaded = b.CreateAlignedLoad(element, address, llvm::Align(dtypeBytes(type)));
    result = lanes == 1 ? loaded : b.CreateInsertElement(result, loaded, lane);
  }
  return number(type, result);
}

llvm::Value *TileLoops::denseAddress(llvm::Value *base, llvm::Type *element, int skip) {
  llvm::Value *offset = b.getInt64(0);
  int64_t stride = 1;
  for (size_t d = extents_.size(); d-- > 0;) {
    if (int(d) == skip)
      continue;
    offset = b.CreateAdd(offset, b.CreateMul(positions_[d], b.getInt64(stride)));
    stride *= extents_[d];
  }
  return b.CreateGEP(element, base, offset);
}

} // namespace dtile::backend::host
