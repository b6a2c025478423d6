// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The dispatch over ops, scalars, views and signal cells. Control is in lower_control.cpp.
#include "backend/llvm/lowering.h"

#include "backend/llvm/instructions.h"
#include "backend/lowering_error.h"
#include "frontend/base/check.h"

#include "llvm/Support/raw_ostream.h"

namespace dtile::backend {

using ir::Op;
using ir::OpKind;

std::string describe(const Op &op) {
  const llvm::StringRef kind = op.info().text;
  const llvm::StringRef name = op.is(OpKind::Kernel) ? op.get(ir::attr::name) : kind;
  return ("`" + name + "`").str();
}

// The module.

ModuleLowering::ModuleLowering(ir::Module &source, llvm::Module &module, bool debugInfo)
    : source(source), module(module), debug(module, debugInfo ? source.sources() : nullptr) {}

void ModuleLowering::unsupported(const Op &op, const llvm::Twine &why) {
  if (!error_.empty())
    return;
  error_ = describe(op) + " " + why.str();
  errorLoc_ = op.loc();
}

llvm::Error ModuleLowering::takeError() {
  if (error_.empty())
    return llvm::Error::success();
  return llvm::make_error<LoweringError>(errorLoc_, placeOf(errorLoc_), std::exchange(error_, {}));
}

std::string ModuleLowering::placeOf(SourceLoc loc) const {
  if (!source.sources() || !loc.isValid())
    return "";
  const PresumedLoc at = source.sources()->presumed(loc);
  return (at.file + ":" + llvm::Twine(at.line) + ":" + llvm::Twine(at.column) + ": ").str();
}

llvm::Constant *ModuleLowering::string(llvm::StringRef text) {
  llvm::Constant *&known = strings_[text];
  if (!known) {
    llvm::Constant *data = llvm::ConstantDataArray::getString(context(), text);
    auto *global = new llvm::GlobalVariable(module, data->getType(), /*isConstant=*/true,
                                            llvm::GlobalValue::PrivateLinkage, data, "dtile.str");
    global->setUnnamedAddr(llvm::GlobalValue::UnnamedAddr::Global);
    known = global;
  }
  return known;
}

// Values.

llvm::SmallVector<llvm::Type *, 4> FunctionLowering::partTypes(ir::Type type) {
  llvm::SmallVector<llvm::Type *, 4> types;
  switch (type.kind()) {
  case ir::TypeKind::Index:
    types.push_back(b.getInt64Ty());
    break;
  case ir::TypeKind::Scalar:
    types.push_back(computeType(context(), type.dtype()));
    break;
  case ir::TypeKind::View:
  case ir::TypeKind::Signal:
    types.push_back(b.getPtrTy());
    types.append((type.isRemote() ? 1 : 0) + type.rank() * (type.isView() ? 4 : 2), b.getInt64Ty());
    break;
  case ir::TypeKind::Tile:
    if (const ir::Layout *layout = type.layout())
      types.append(layout->inside(type.shape()).size(), computeType(context(), type.dtype()));
    break;
  case ir::TypeKind::Token:
  case ir::TypeKind::Acquire:
    break;
  }
  return types;
}

llvm::ArrayRef<llvm::Value *> FunctionLowering::parts(ir::Value *value) {
  auto it = parts_.find(value);
  if (it == parts_.end())
    it = parts_.try_emplace(value, outside(value)).first;
  return it->second;
}

llvm::Value *FunctionLowering::scalar(ir::Value *value) {
  llvm::ArrayRef<llvm::Value *> all = parts(value);
  DTILE_CHECK(all.size() == 1, "a value of one part");
  return all.front();
}

View FunctionLowering::view(ir::Value *value) {
  return View::fromParts(value->type(), parts(value));
}

SignalCells FunctionLowering::cells(ir::Value *value) {
  return SignalCells::fromParts(value->type(), parts(value));
}

llvm::SmallVector<llvm::Value *, 4> FunctionLowering::scalars(llvm::ArrayRef<ir::Value *> values) {
  llvm::SmallVector<llvm::Value *, 4> result;
  for (ir::Value *value : values)
    result.push_back(scalar(value));
  return result;
}

// Ops.

void FunctionLowering::giveUp(Op &op, const llvm::Twine &why) {
  module_.unsupported(op, why);
  for (ir::Value *result : op.results()) {
    Parts parts;
    for (llvm::Type *type : partTypes(result->type()))
      parts.push_back(llvm::PoisonValue::get(type));
    set(result, parts);
  }
}

void FunctionLowering::lowerBlock(ir::Block &block) {
  for (Op &op : block.ops()) {
    module_.debug.moveTo(b, op);
    lowerOp(op);
  }
}

void FunctionLowering::lowerOp(Op &op) {
  switch (op.kind()) {
#define ELEMENTWISE(KIND, TEXT, ARITY, TYPES, CALL, DOC) case OpKind::KIND:
#include "frontend/base/elementwise.def"
  case OpKind::Cmp:
  case OpKind::Select:
  case OpKind::Cast:
  case OpKind::Bitcast:
  case OpKind::Extern:
  case OpKind::Asm:
    return lowerElementwise(op);
  case OpKind::Const: {
    ir::Type type = op.result()->type();
    set(op.result(), {arith_.constant(type.elementOrIndex(), *op.attr("value"))});
    return;
  }
  case OpKind::Rank:
  case OpKind::NumRanks:
  case OpKind::Epoch:
    set(op.result(), {fact(op.kind())});
    return;
#define OP(KIND, TEXT, OPERANDS, RESULTS, REGIONS, EFFECTS, DOC) case OpKind::KIND:
#include "ir/core/view_ops.def"
#undef OP
    return lowerViewOp(op);
  case OpKind::SigSlice:
  case OpKind::SigAt:
  case OpKind::SigDim:
    return lowerSignalOp(op);
  case OpKind::For:
    return lowerFor(op);
  case OpKind::While:
    return lowerWhile(op);
  case OpKind::If:
    return lowerIf(op);
  case OpKind::Yield:
  case OpKind::Condition:
  case OpKind::Return:
    return;
  case OpKind::Call:
    return giveUp(op, "must be inlined before code is generated");
  case OpKind::TokenDone:
  case OpKind::TokenJoin:
#define OP(KIND, TEXT, OPERANDS, RESULTS, REGIONS, EFFECTS, DOC) case OpKind::KIND:
#include "ir/core/tile_ops.def"
#undef OP
  case OpKind::Load:
  case OpKind::Store:
  case OpKind::Gather:
  case OpKind::Scatter:
  case OpKind::Atomic:
  case OpKind::AtomicScatter:
  case OpKind::ReduceAddScatter:
  case OpKind::Put:
  case OpKind::PutSignal:
  case OpKind::Get:
  case OpKind::ReduceAdd:
  case OpKind::Notify:
  case OpKind::Wait:
  case OpKind::Poll:
  case OpKind::Await:
  case OpKind::Quiet:
  case OpKind::Fence:
  case OpKind::MemoryFence:
  case OpKind::Barrier:
  case OpKind::Assert:
  case OpKind::Print:
  case OpKind::Func:
  case OpKind::Kernel:
  case OpKind::LaunchDim:
  case OpKind::LaunchCheck:
  case OpKind::LaunchRequire:
  case OpKind::LaunchElements:
  case OpKind::Param:
  case OpKind::ScalarParam:
  case OpKind::SignalParam:
  case OpKind::Space:
    return lowerTargetOp(op);
  }
}

void FunctionLowering::lowerElementwise(Op &op) {
  if (op.result()->type().isTile())
    return lowerTargetOp(op);
  const DType type = op.operand(0)->type().elementOrIndex();
  llvm::SmallVector<llvm::Value *, 4> x = scalars(op.operands());
  llvm::Value *result = nullptr;
  if (op.is(OpKind::Cmp))
    result = arith_.compare(op.get(ir::attr::pred), type, x[0], x[1]);
  else if (op.is(OpKind::Select))
    result = b.CreateSelect(x[0], x[1], x[2]);
  else if (op.is(OpKind::Cast))
    result = arith_.cast(type, op.result()->type().elementOrIndex(), x[0]);
  else if (op.is(OpKind::Bitcast))
    result = arith_.bitcast(type, op.result()->type().elementOrIndex(), x[0]);
  else if (op.is(OpKind::Extern))
    result = x[0];
  else if (op.is(OpKind::Asm))
    result = emitInstructions(b, arith_, op, x, module_.placeOf(op.loc()));
  else if (x.size() == 2)
    result = arith_.binary(op.kind(), type, x[0], x[1]);
  else
    result = arith_.unary(op.kind(), type, x[0]);
  set(op.result(), {result});
}

void FunctionLowering::lowerViewOp(Op &op) {
  if (op.is(OpKind::ViewSelect)) {
    const View chosen =
        views_.select(scalar(op.operand(0)), view(op.operand(1)), view(op.operand(2)));
    set(op.result(), chosen.parts());
    return;
  }
  View source = view(op.operand(0));
  llvm::ArrayRef<ir::Value *> rest = op.operands().drop_front();
  if (op.is(OpKind::ViewDim)) {
    set(op.result(), {source.dims[op.get(ir::attr::dim)].extent});
  } else if (op.is(OpKind::ViewAt)) {
    llvm::Value *rank = scalar(rest.front());
    checkRank(op, rank);
    source.type = op.result()->type();
    source.rank = rank;
    set(op.result(), source.parts());
  } else if (op.is(OpKind::ViewReshape)) {
    set(op.result(), views_.reshape(source, op.result()->type(), scalars(rest)).parts());
  } else {
    set(op.result(), views_.slice(source, op, scalars(rest)).parts());
  }
}

void FunctionLowering::lowerSignalOp(Op &op) {
  SignalCells source = cells(op.operand(0));
  llvm::ArrayRef<ir::Value *> rest = op.operands().drop_front();
  if (op.is(OpKind::SigDim)) {
    set(op.result(), {source.dims[op.get(ir::attr::dim)].size});
  } else if (op.is(OpKind::SigAt)) {
    llvm::Value *rank = scalar(rest.front());
    checkRank(op, rank);
    source.type = op.result()->type();
    source.rank = rank;
    set(op.result(), source.parts());
  } else {
    auto check = [&](llvm::Value *position, llvm::Value *size) { checkCell(op, position, size); };
    set(op.result(), views_.slice(source, op, scalars(rest), check).parts());
  }
}

} // namespace dtile::backend
