// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Estimates how long a body takes, as code for the host: where its loops' rounds and its views'
// sizes follow from the launch, they are computed there.
#include "backend/gpu/body_cost.h"
#include "ir/core/elementwise.h"

#include "backend/llvm/tile_order.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/IR/Intrinsics.h"

namespace dtile::backend::gpu {

using ir::Op;
using ir::OpKind;

namespace {

/// Rounds of a loop whose length is not known.
constexpr double kRounds = 32;
/// A dimension of a view whose size is not known.
constexpr double kExtent = 1024;
/// A body that does next to nothing takes as long, and none takes longer than that.
constexpr double kLeastNanoseconds = 16;
constexpr double kMostNanoseconds = 1e12;

double bytesOf(ir::Type type) {
  if (type.isTile() || type.isScalar() || type.isIndex())
    return double(type.elements()) * dtypeBytes(type.elementOrIndex());
  return 0;
}

/// What a view may have, as far as the IR says it.
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

/// Nanoseconds of a product on one program.
double productTime(const Op &dot, const TargetFacts &machine) {
  const ir::Type type = dot.operand(0)->type();
  const double products = double(dot.result()->type().elements()) * double(type.shape().back());
  const unsigned bytes = dtypeBytes(type.dtype());
  const bool isMatrix = bytes <= 2 || (dot.has(ir::attr::precision) && bytes == 4);
  return products / (isMatrix ? 2.0 * machine.productRate / bytes : TargetFacts::kElementRate);
}

/// Nanoseconds of an op's arithmetic on one program.
double arithmeticTime(const Op &op, const TargetFacts &machine) {
  switch (op.kind()) {
  case OpKind::Dot:
    return productTime(op, machine);
  case OpKind::Reduce:
  case OpKind::ArgReduce:
  case OpKind::Scan:
    return double(op.operand(0)->type().elements()) / TargetFacts::kElementRate;
  // These only say where elements are.
  case OpKind::Broadcast:
  case OpKind::Reshape:
  case OpKind::Trans:
  case OpKind::Convert:
    return 0;
  default:
    return computes(op) ? double(op.result()->type().elements()) / TargetFacts::kElementRate : 0;
  }
}

/// Whether an op gives a number or a view from numbers and views, without looking at memory.
bool isSizeArithmetic(const Op &op) {
  switch (op.kind()) {
  case OpKind::Const:
  case OpKind::Rank:
  case OpKind::NumRanks:
  case OpKind::ViewSlice:
  case OpKind::ViewTile:
  case OpKind::ViewSelect:
  case OpKind::ViewAt:
  case OpKind::ViewDim:
  case OpKind::ViewReshape:
    return true;
  default:
    // Nothing that asks for a library of mathematics.
    return ir::isElementwise(op.kind()) && !op.result()->type().isTile() &&
           !isFloat(op.result()->type().elementOrIndex());
  }
}

class CostFunction : public launch::FrameFunction {
public:
  CostFunction(launch::LaunchModule &module, const launch::Frame &frame, const TargetFacts &machine)
      : FrameFunction(module, &frame), machine_(machine) {}

  llvm::Function *lower(Op &space, llvm::StringRef name);

private:
  /// Whether the launch says what a value is; emits it then.
  [[nodiscard]] bool isKnown(ir::Value *value);
  [[nodiscard]] bool tryLower(ir::Value &value);
  // All of these are f64.
  [[nodiscard]] llvm::Value *time(ir::Block &block);
  [[nodiscard]] llvm::Value *loopTime(Op &loop);
  [[nodiscard]] llvm::Value *branchTime(Op &branch);
  [[nodiscard]] llvm::Value *moveTime(Op &op);
  [[nodiscard]] llvm::Value *bytesOfCopy(ir::Value &from, ir::Value &to);
  /// Of a view that is known.
  [[nodiscard]] llvm::Value *bytesOfView(ir::Value &view);
  [[nodiscard]] llvm::Value *real(double value) {
    return llvm::ConstantFP::get(b.getDoubleTy(), value);
  }
  [[nodiscard]] llvm::Value *toReal(llvm::Value *integer) {
    return b.CreateSIToFP(integer, b.getDoubleTy());
  }
  [[nodiscard]] llvm::Value *larger(llvm::Value *x, llvm::Value *y) {
    return b.CreateSelect(b.CreateFCmpOGT(x, y), x, y);
  }

  const TargetFacts &machine_;
  llvm::DenseMap<ir::Value *, bool> known_;
};

bool CostFunction::isKnown(ir::Value *value) {
  if (auto it = known_.find(value); it != known_.end())
    return it->second;
  const bool isKnown = tryLower(*value);
  known_[value] = isKnown;
  return isKnown;
}

bool CostFunction::tryLower(ir::Value &value) {
  Op *op = value.definingOp();
  const ir::Type type = value.type();
  if (!op || (!type.isIndex() && !type.isScalar() && !type.isView()))
    return false;
  const auto areOperandsKnown = [&] {
    return llvm::all_of(op->operands(), [&](ir::Value *operand) { return isKnown(operand); });
  };
  if (op->parentBlock() == &layout_->kernel().body()) {
    if (!layout_->isVarying(&value))
      return layout_->isPlaced(&value);
    // Where a scratch object is differs between replays, its sizes do not.
    if (!op->is(OpKind::Param) || !areOperandsKnown())
      return false;
    llvm::SmallVector<llvm::Value *, 4> sizes;
    for (ir::Value *size : op->operands())
      sizes.push_back(scalar(size));
    set(&value, views_.contiguous(type, launch_.null(), sizes).parts());
    return true;
  }
  if (!isSizeArithmetic(*op) || !areOperandsKnown())
    return false;
  lowerOp(*op);
  return true;
}

llvm::Value *CostFunction::bytesOfView(ir::Value &view) {
  llvm::Value *bytes = real(dtypeBytes(view.type().dtype()));
  for (const ViewDimension &dim : this->view(&view).dims)
    bytes = b.CreateFMul(bytes, toReal(b.CreateSub(dim.high, dim.low)));
  return bytes;
}

llvm::Value *CostFunction::bytesOfCopy(ir::Value &from, ir::Value &to) {
  if (!from.type().isView())
    return real(bytesOf(from.type()));
  // What is inside both is copied.
  if (isKnown(&from) && isKnown(&to)) {
    llvm::Value *read = bytesOfView(from);
    llvm::Value *written = bytesOfView(to);
    return b.CreateSelect(b.CreateFCmpOLT(read, written), read, written);
  }
  if (isKnown(&from) || isKnown(&to))
    return bytesOfView(isKnown(&from) ? from : to);
  return real(guessBytes(from));
}

llvm::Value *CostFunction::moveTime(Op &op) {
  // Within own memory there is one way to read and one to write.
  const auto tileTime = [&](ir::Type tile, ir::Type place) {
    return real(bytesOf(tile) /
                (place.isRemote() ? TargetFacts::kThreadsRate : 2 * TargetFacts::kLocalRate));
  };
  switch (op.kind()) {
  case OpKind::Load:
  case OpKind::Gather:
    return tileTime(op.result()->type(), op.operand(0)->type());
  case OpKind::Store:
  case OpKind::Scatter:
    return tileTime(op.operand(0)->type(), op.operand(1)->type());
  case OpKind::Put:
  case OpKind::PutSignal:
  case OpKind::Get:
  case OpKind::ReduceAdd: {
    const int32_t rate =
        isBulkCopy(op, machine_) ? TargetFacts::kBulkRate : TargetFacts::kThreadsRate;
    return b.CreateFMul(bytesOfCopy(*op.operand(0), *op.operand(1)), real(1.0 / rate));
  }
  default:
    return real(0.0);
  }
}

llvm::Value *CostFunction::loopTime(Op &loop) {
  llvm::Value *rounds = real(kRounds);
  // One iteration may do what several of those did that were written; not all of them exist.
  const int64_t together = loop.getOr(ir::attr::batch, 1);
  if (loop.is(OpKind::For) &&
      llvm::all_of(loop.operands().take_front(3), [&](ir::Value *x) { return isKnown(x); }))
    rounds = toReal(emitBlockCount(b, scalar(loop.operand(0)), scalar(loop.operand(1)),
                                   b.CreateSDiv(scalar(loop.operand(2)), b.getInt64(together))));
  llvm::Value *round = real(0.0);
  for (unsigned i = 0; i < loop.numRegions(); ++i)
    round = b.CreateFAdd(round, time(loop.body(i)));
  return b.CreateFMul(rounds, b.CreateFMul(round, real(1.0 / double(together))));
}

llvm::Value *CostFunction::branchTime(Op &branch) {
  llvm::Value *then = time(branch.body(0));
  llvm::Value *otherwise = branch.numRegions() > 1 ? time(branch.body(1)) : real(0.0);
  if (isKnown(branch.operand(0)))
    return b.CreateSelect(scalar(branch.operand(0)), then, otherwise);
  return larger(then, otherwise);
}

llvm::Value *CostFunction::time(ir::Block &block) {
  llvm::Value *inner = real(0.0), *moved = real(0.0);
  double computed = 0;
  for (Op &op : block.ops()) {
    if (op.is(OpKind::For) || op.is(OpKind::While))
      inner = b.CreateFAdd(inner, loopTime(op));
    else if (op.is(OpKind::If))
      inner = b.CreateFAdd(inner, branchTime(op));
    moved = b.CreateFAdd(moved, moveTime(op));
    computed += arithmeticTime(op, machine_);
  }
  return b.CreateFAdd(inner, larger(moved, real(computed)));
}

llvm::Function *CostFunction::lower(Op &space, llvm::StringRef name) {
  auto *type =
      llvm::FunctionType::get(b.getInt64Ty(), {b.getPtrTy(), b.getInt64Ty()}, /*isVarArg=*/false);
  llvm::Function *function = launch_.function(name, type);
  begin(function, 0);
  llvm::FastMathFlags flags;
  flags.setFast();
  b.setFastMathFlags(flags);
  // Bounds that vary may say that there are no bodies, which have no positions then.
  if (llvm::none_of(space.operands(), [&](ir::Value *bound) { return layout_->isVarying(bound); }))
    for (auto [argument, position] :
         llvm::zip(space.body().arguments(),
                   launch::positions(*this, b, space, fact(OpKind::Rank), function->getArg(1)))) {
      set(argument, {position});
      known_[argument] = true;
    }
  llvm::Value *weight = time(space.body());
  weight = larger(weight, real(kLeastNanoseconds));
  weight = b.CreateSelect(b.CreateFCmpOLT(weight, real(kMostNanoseconds)), weight,
                          real(kMostNanoseconds));
  b.CreateRet(b.CreateFPToSI(weight, b.getInt64Ty()));
  end();
  return function;
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

bool isBulkCopy(const Op &op, const TargetFacts &machine) {
  const ir::Value &source = *op.operand(0);
  return machine.copyBytes > 0 && source.type().isView() && !op.is(OpKind::ReduceAdd) &&
         guessBytes(source) >= TargetFacts::kLeastBulkBytes;
}

llvm::Function *lowerCost(launch::LaunchModule &module, const launch::Frame &frame, Op &space,
                          const TargetFacts &machine, llvm::StringRef name) {
  return CostFunction(module, frame, machine).lower(space, name);
}

} // namespace dtile::backend::gpu
