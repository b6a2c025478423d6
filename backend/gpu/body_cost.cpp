// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The domain of BodyTime whose numbers are LLVM values: where loops' rounds and views' sizes follow
// from the launch, they are computed there.
#include "backend/gpu/body_cost.h"

#include "backend/llvm/tile_order.h"
#include "ir/model/body_time.h"
#include "ir/model/promised_limit.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/IR/Intrinsics.h"

namespace dtile::backend::gpu {

using ir::Op;
using ir::OpKind;

namespace {

/// A body that does next to nothing takes as long, and none takes longer than that.
constexpr double kLeastNanoseconds = 16;
constexpr double kMostNanoseconds = 1e12;

class CostFunction : public launch::FrameFunction {
public:
  using Number = llvm::Value *;
  CostFunction(launch::LaunchModule &module, const launch::Frame &frame, const TargetFacts &machine)
      : FrameFunction(module, &frame), machine_(machine) {}

  /// What of a body the function gives, and at least.
  using Part = llvm::Value *(model::BodyTime<CostFunction>::*)(ir::Block & body);
  llvm::Function *lower(Op &space, llvm::StringRef name, Part part, double least,
                        bool isPaired = false);

  // ---- The domain ----
  [[nodiscard]] llvm::Value *real(double value) {
    return llvm::ConstantFP::get(b.getDoubleTy(), value);
  }
  [[nodiscard]] llvm::Value *add(llvm::Value *x, llvm::Value *y) { return b.CreateFAdd(x, y); }
  [[nodiscard]] llvm::Value *mul(llvm::Value *x, llvm::Value *y) { return b.CreateFMul(x, y); }
  [[nodiscard]] llvm::Value *larger(llvm::Value *x, llvm::Value *y) {
    return b.CreateSelect(b.CreateFCmpOGT(x, y), x, y);
  }
  [[nodiscard]] llvm::Value *smaller(llvm::Value *x, llvm::Value *y) {
    return b.CreateSelect(b.CreateFCmpOLT(x, y), x, y);
  }
  [[nodiscard]] llvm::Value *select(ir::Value &condition, llvm::Value *then,
                                    llvm::Value *otherwise) {
    return b.CreateSelect(scalar(&condition), then, otherwise);
  }
  [[nodiscard]] llvm::Value *byRowStart(Op &access, const model::ByRowStart &numbers);
  [[nodiscard]] llvm::Value *unlessOwn(ir::Value &peer, llvm::Value *bytes) {
    llvm::Value *isOwn = b.CreateICmpEQ(scalar(&peer), fact(OpKind::Rank));
    return b.CreateSelect(isOwn, real(0), bytes);
  }
  /// Whether the launch says what a value is; emits it then.
  [[nodiscard]] bool isKnown(ir::Value &value);
  [[nodiscard]] llvm::Value *rounds(Op &loop, int64_t together);
  [[nodiscard]] llvm::Value *bytesOfView(ir::Value &view);

private:
  [[nodiscard]] bool tryLower(ir::Value &value);
  /// What a number is taken as that follows from memory; or null.
  [[nodiscard]] ir::Value *limitOf(Op &op);
  [[nodiscard]] llvm::Value *toReal(llvm::Value *integer) {
    return b.CreateSIToFP(integer, b.getDoubleTy());
  }

  const TargetFacts &machine_;
  llvm::DenseMap<ir::Value *, bool> known_;
};

bool CostFunction::isKnown(ir::Value &value) {
  if (auto it = known_.find(&value); it != known_.end())
    return it->second;
  const bool isKnown = tryLower(value);
  known_[&value] = isKnown;
  return isKnown;
}

bool CostFunction::tryLower(ir::Value &value) {
  Op *op = value.definingOp();
  const ir::Type type = value.type();
  if (!op || (!type.isIndex() && !type.isScalar() && !type.isView()))
    return false;
  const auto areOperandsKnown = [&] {
    return llvm::all_of(op->operands(), [&](ir::Value *operand) { return isKnown(*operand); });
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
  if (model::isSizeArithmetic(*op) && areOperandsKnown()) {
    lowerOp(*op);
    return true;
  }
  // What memory decides is taken as what is more, as in model::Arithmetic.
  if (op->is(OpKind::Select) && model::endsLoops(*op) && isKnown(*op->operand(1)) &&
      isKnown(*op->operand(2))) {
    set(&value, {b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, scalar(op->operand(1)),
                                         scalar(op->operand(2)))});
    return true;
  }
  ir::Value *limit = limitOf(*op);
  if (!limit || !isKnown(*limit))
    return false;
  set(&value, {b.CreateIntCast(scalar(limit), partTypes(type)[0], /*isSigned=*/true)});
  return true;
}

ir::Value *CostFunction::limitOf(Op &op) {
  if (op.is(OpKind::Min) && !op.result()->type().isTile() &&
      !isFloat(op.result()->type().elementOrIndex()))
    for (ir::Value *operand : op.operands())
      if (isKnown(*operand))
        return operand;
  return model::promisedLimit(op);
}

llvm::Value *CostFunction::bytesOfView(ir::Value &view) {
  llvm::Value *bytes = real(dtypeBytes(view.type().dtype()));
  for (const ViewDimension &dim : this->view(&view).dims)
    bytes = b.CreateFMul(bytes, toReal(b.CreateSub(dim.high, dim.low)));
  return bytes;
}

llvm::Value *CostFunction::byRowStart(Op &access, const model::ByRowStart &numbers) {
  // What is not known is taken to be aligned: most tensors are.
  Op *object = model::objectOfRows(access);
  if (!object || !isKnown(*object->result()))
    return real(numbers.by128);
  const View from = view(object->result());
  llvm::Value *begins = b.getInt64(0);
  for (const ViewDimension &dim : llvm::ArrayRef(from.dims).drop_back())
    begins = b.CreateOr(begins, dim.stride);
  begins = b.CreateMul(begins, b.getInt64(dtypeBytes(from.type.dtype())));
  llvm::Value *number = real(numbers.by128);
  for (const auto &[bytes, otherwise] :
       {std::pair(128, numbers.by64), std::pair(64, numbers.by32), std::pair(32, numbers.by16),
        std::pair(16, numbers.anywhere)}) {
    llvm::Value *rest = b.CreateAnd(begins, b.getInt64(uint64_t(bytes) - 1));
    number = b.CreateSelect(b.CreateIsNull(rest), number, real(otherwise));
  }
  return number;
}

llvm::Value *CostFunction::rounds(Op &loop, int64_t together) {
  return toReal(emitBlockCount(b, scalar(loop.operand(0)), scalar(loop.operand(1)),
                               b.CreateSDiv(scalar(loop.operand(2)), b.getInt64(together))));
}

llvm::Function *CostFunction::lower(Op &space, llvm::StringRef name, Part part, double least,
                                    bool isPaired) {
  llvm::Type *i64 = b.getInt64Ty();
  auto *type = llvm::FunctionType::get(i64, {b.getPtrTy(), i64, i64, i64}, /*isVarArg=*/false);
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
  model::BodyTime<CostFunction> cost(*this, machine_, toReal(function->getArg(2)),
                                     toReal(function->getArg(3)), /*facts=*/nullptr, isPaired);
  llvm::Value *weight = larger((cost.*part)(space.body()), real(least));
  b.CreateRet(b.CreateFPToSI(smaller(weight, real(kMostNanoseconds)), i64));
  end();
  return function;
}

} // namespace

llvm::Function *lowerCost(launch::LaunchModule &module, const launch::Frame &frame, Op &space,
                          const TargetFacts &machine, llvm::StringRef name) {
  return CostFunction(module, frame, machine)
      .lower(space, name, &model::BodyTime<CostFunction>::bodyTime, kLeastNanoseconds);
}

llvm::Function *lowerPairedCost(launch::LaunchModule &module, const launch::Frame &frame, Op &space,
                                const TargetFacts &machine, llvm::StringRef name) {
  return CostFunction(module, frame, machine)
      .lower(space, name, &model::BodyTime<CostFunction>::bodyTime, kLeastNanoseconds,
             /*isPaired=*/true);
}

llvm::Function *lowerLatency(launch::LaunchModule &module, const launch::Frame &frame, Op &space,
                             const TargetFacts &machine, llvm::StringRef name) {
  return CostFunction(module, frame, machine)
      .lower(space, name, &model::BodyTime<CostFunction>::latency, 0);
}

llvm::Function *lowerSharedCost(launch::LaunchModule &module, const launch::Frame &frame, Op &space,
                                const TargetFacts &machine, llvm::StringRef name) {
  return CostFunction(module, frame, machine)
      .lower(space, name, &model::BodyTime<CostFunction>::sharedTime, 0);
}

llvm::Function *lowerRemoteBytes(launch::LaunchModule &module, const launch::Frame &frame,
                                 Op &space, const TargetFacts &machine, llvm::StringRef name) {
  return CostFunction(module, frame, machine)
      .lower(space, name, &model::BodyTime<CostFunction>::remoteBytes, 0);
}

} // namespace dtile::backend::gpu
