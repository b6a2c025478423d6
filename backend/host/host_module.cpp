// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The module's shared parts: ABI types, runtime calls, sites, helpers for partial rows, and
// functions that read the frame.
#include "backend/host/host_module.h"

#include "backend/runtime/kernel_abi.h"
#include "frontend/base/check.h"

#include "llvm/IR/Intrinsics.h"
#include "llvm/IR/MDBuilder.h"

#include <cstddef>

namespace dtile::backend::host {

using ir::Op;
using ir::OpKind;

// The structs below follow kernel_abi.h field by field.
static_assert(offsetof(dtile_region, size) == 24 && sizeof(dtile_region) == 120);
static_assert(sizeof(dtile_site) == 24 && sizeof(dtile_param_desc) == 32);
static_assert(offsetof(dtile_space_desc, vars) == 24 && sizeof(dtile_space_desc) == 64);
static_assert(sizeof(dtile_signal_desc) == 16);
static_assert(offsetof(dtile_kernel_desc, params) == 40 && sizeof(dtile_kernel_desc) == 96);

AbiTypes::AbiTypes(llvm::LLVMContext &context) {
  llvm::Type *p = llvm::PointerType::getUnqual(context);
  llvm::Type *i = llvm::Type::getInt32Ty(context);
  llvm::Type *l = llvm::Type::getInt64Ty(context);
  llvm::Type *dims = llvm::ArrayType::get(l, DTILE_MAX_RANK);
  region = llvm::StructType::create(context, {p, i, i, i, i, dims, dims}, "dtile_region");
  site = llvm::StructType::create(context, {p, p, i, i}, "dtile_site");
  param = llvm::StructType::create(context, {p, i, i, i, i, i, i}, "dtile_param_desc");
  space = llvm::StructType::create(context, {p, i, i, i, i, p, p, p, l, p}, "dtile_space_desc");
  signal = llvm::StructType::create(context, {i, p}, "dtile_signal_desc");
  kernel = llvm::StructType::create(context, {i, i, p, p, i, i, i, i, p, p, p, l, p, i, i, p},
                                    "dtile_kernel_desc");
}

HostModule::HostModule(ir::Module &source, llvm::Module &module, VectorUnit vectors, bool debugInfo)
    : ModuleLowering(source, module, debugInfo), abi(module.getContext()), vectors(vectors) {}

namespace {

llvm::Type *abiType(llvm::LLVMContext &context, char code) {
  switch (code) {
  case 'v':
    return llvm::Type::getVoidTy(context);
  case 'p':
    return llvm::PointerType::getUnqual(context);
  case 'i':
    return llvm::Type::getInt32Ty(context);
  case 'l':
    return llvm::Type::getInt64Ty(context);
  default:
    DTILE_UNREACHABLE("a code that runtime_abi.def does not explain");
  }
}

struct RuntimeRow {
  llvm::StringLiteral name;
  llvm::StringLiteral signature;
};
constexpr RuntimeRow kRuntime[] = {
#define RT(NAME, SIGNATURE) {"dtile_rt_" #NAME, SIGNATURE},
#include "backend/runtime/runtime_abi.def"
};

} // namespace

llvm::FunctionCallee HostModule::runtime(Runtime call) {
  const RuntimeRow &row = kRuntime[size_t(call)];
  llvm::SmallVector<llvm::Type *> parameters;
  for (char code : row.signature.drop_front(2))
    parameters.push_back(abiType(context(), code));
  llvm::FunctionCallee callee = module.getOrInsertFunction(
      row.name, llvm::FunctionType::get(abiType(context(), row.signature[0]), parameters, false));
  auto *function = llvm::cast<llvm::Function>(callee.getCallee());
  function->setDoesNotThrow();
  if (call == Runtime::fail)
    function->setDoesNotReturn();
  return callee;
}

llvm::Constant *HostModule::site(const Op &op, llvm::StringRef what) {
  llvm::StringRef file;
  unsigned line = 0;
  unsigned column = 0;
  if (source.sources() && op.loc().isValid()) {
    PresumedLoc at = source.sources()->presumed(op.loc());
    file = at.file;
    line = at.line;
    column = at.column;
  }
  llvm::Type *i32 = llvm::Type::getInt32Ty(context());
  llvm::Constant *value = llvm::ConstantStruct::get(
      abi.site, {string(file), string(what), llvm::ConstantInt::get(i32, line),
                 llvm::ConstantInt::get(i32, column)});
  auto *global = new llvm::GlobalVariable(module, abi.site, /*isConstant=*/true,
                                          llvm::GlobalValue::PrivateLinkage, value, "dtile.site");
  global->setUnnamedAddr(llvm::GlobalValue::UnnamedAddr::Global);
  return global;
}

llvm::Constant *HostModule::zeros() {
  if (!zeros_) {
    llvm::Type *type = llvm::ArrayType::get(llvm::Type::getInt8Ty(context()), 64);
    zeros_ = new llvm::GlobalVariable(module, type, /*isConstant=*/true,
                                      llvm::GlobalValue::PrivateLinkage,
                                      llvm::Constant::getNullValue(type), "dtile.zeros");
    zeros_->setAlignment(llvm::Align(64));
  }
  return zeros_;
}

llvm::Function *HostModule::function(llvm::StringRef name, llvm::FunctionType *type) {
  llvm::Function *function =
      llvm::Function::Create(type, llvm::GlobalValue::InternalLinkage, name, module);
  function->setDoesNotThrow();
  function->addFnAttr("prefer-vector-width", std::to_string(vectors.bytes * 8));
  // Fibers have small stacks of their own: no probing, and frames that profilers can follow.
  function->addFnAttr("frame-pointer", "non-leaf");
  return function;
}

llvm::Function *HostModule::shared(llvm::IRBuilder<> &b, llvm::StringRef name,
                                   llvm::FunctionType *type,
                                   llvm::function_ref<void(llvm::Function *)> emit) {
  if (llvm::Function *known = module.getFunction(name))
    return known;
  llvm::Function *made = function(name, type);
  made->addFnAttr(llvm::Attribute::NoInline);
  llvm::IRBuilder<>::InsertPointGuard guard(b);
  b.SetInsertPoint(llvm::BasicBlock::Create(context(), "entry", made));
  b.SetCurrentDebugLocation({});
  emit(made);
  b.CreateRetVoid();
  return made;
}

llvm::Constant *HostModule::array(llvm::StringRef name, llvm::Type *element,
                                  llvm::ArrayRef<llvm::Constant *> values) {
  if (values.empty())
    return llvm::ConstantPointerNull::get(llvm::PointerType::getUnqual(context()));
  llvm::ArrayType *type = llvm::ArrayType::get(element, values.size());
  return new llvm::GlobalVariable(module, type, /*isConstant=*/true,
                                  llvm::GlobalValue::PrivateLinkage,
                                  llvm::ConstantArray::get(type, values), name);
}

namespace {

/// Emits `for (i = low; i < high; ++i) body(i)`.
void countedLoop(llvm::IRBuilder<> &b, llvm::Value *low, llvm::Value *high,
                 llvm::function_ref<void(llvm::Value *)> body) {
  llvm::Function *function = b.GetInsertBlock()->getParent();
  llvm::BasicBlock *before = b.GetInsertBlock();
  auto *header = llvm::BasicBlock::Create(b.getContext(), "loop", function);
  auto *inside = llvm::BasicBlock::Create(b.getContext(), "loop.body", function);
  auto *after = llvm::BasicBlock::Create(b.getContext(), "loop.end", function);
  b.CreateBr(header);
  b.SetInsertPoint(header);
  llvm::PHINode *i = b.CreatePHI(b.getInt64Ty(), 2);
  i->addIncoming(low, before);
  b.CreateCondBr(b.CreateICmpSLT(i, high), inside, after);
  b.SetInsertPoint(inside);
  body(i);
  i->addIncoming(b.CreateNSWAdd(i, b.getInt64(1)), inside);
  b.CreateBr(header);
  b.SetInsertPoint(after);
}

} // namespace

llvm::Function *HostModule::fillRow(unsigned bytes) {
  llvm::Function *&helper = fillRows_[bytes];
  if (helper)
    return helper;
  llvm::IRBuilder<> b(context());
  llvm::Type *p = b.getPtrTy();
  llvm::Type *l = b.getInt64Ty();
  auto *type = llvm::FunctionType::get(b.getVoidTy(), {p, p, l, l, l, l}, false);
  helper = function("dtile.fill_row." + std::to_string(bytes), type);
  helper->addFnAttr(llvm::Attribute::NoInline);
  llvm::Value *temp = helper->getArg(0), *source = helper->getArg(1), *size = helper->getArg(2);
  llvm::Value *stride = helper->getArg(3), *low = helper->getArg(4), *high = helper->getArg(5);
  llvm::Type *element = b.getIntNTy(bytes * 8);
  auto *entry = llvm::BasicBlock::Create(context(), "entry", helper);
  auto *copy = llvm::BasicBlock::Create(context(), "copy", helper);
  auto *dense = llvm::BasicBlock::Create(context(), "dense", helper);
  auto *strided = llvm::BasicBlock::Create(context(), "strided", helper);
  auto *done = llvm::BasicBlock::Create(context(), "done", helper);
  b.SetInsertPoint(entry);
  b.CreateMemSet(temp, b.getInt8(0), size, llvm::Align(1));
  b.CreateCondBr(b.CreateICmpSLT(low, high), copy, done);
  b.SetInsertPoint(copy);
  b.CreateCondBr(b.CreateICmpEQ(stride, b.getInt64(1)), dense, strided);
  b.SetInsertPoint(dense);
  llvm::Value *count = b.CreateMul(b.CreateSub(high, low), b.getInt64(bytes));
  b.CreateMemCpy(b.CreateGEP(element, temp, low), llvm::Align(bytes),
                 b.CreateGEP(element, source, low), llvm::Align(bytes), count);
  b.CreateBr(done);
  b.SetInsertPoint(strided);
  countedLoop(b, low, high, [&](llvm::Value *i) {
    llvm::Value *value =
        b.CreateLoad(element, b.CreateGEP(element, source, b.CreateMul(i, stride)));
    b.CreateStore(value, b.CreateGEP(element, temp, i));
  });
  b.CreateBr(done);
  b.SetInsertPoint(done);
  b.CreateRetVoid();
  return helper;
}

llvm::Function *HostModule::spillRow(unsigned bytes) {
  llvm::Function *&helper = spillRows_[bytes];
  if (helper)
    return helper;
  llvm::IRBuilder<> b(context());
  llvm::Type *p = b.getPtrTy();
  llvm::Type *l = b.getInt64Ty();
  helper = function("dtile.spill_row." + std::to_string(bytes),
                    llvm::FunctionType::get(b.getVoidTy(), {p, p, l, l, l}, false));
  helper->addFnAttr(llvm::Attribute::NoInline);
  llvm::Value *destination = helper->getArg(0), *temp = helper->getArg(1);
  llvm::Value *stride = helper->getArg(2), *low = helper->getArg(3), *high = helper->getArg(4);
  llvm::Type *element = b.getIntNTy(bytes * 8);
  b.SetInsertPoint(llvm::BasicBlock::Create(context(), "entry", helper));
  countedLoop(b, low, high, [&](llvm::Value *i) {
    llvm::Value *value = b.CreateLoad(element, b.CreateGEP(element, temp, i));
    b.CreateStore(value, b.CreateGEP(element, destination, b.CreateMul(i, stride)));
  });
  b.CreateRetVoid();
  return helper;
}

llvm::StringRef objectName(const ir::Value *value) {
  while (const Op *op = value->definingOp()) {
    if (op->is(OpKind::Param) || op->is(OpKind::SignalParam))
      return op->strAttr("name");
    if (op->numOperands() == 0)
      break;
    value = op->operand(0);
  }
  return "";
}

// The frame.

Frame::Frame(Op &kernel) : kernel_(kernel) {
  for (Op &op : kernel.body().ops()) {
    if (!op.is(OpKind::Space) && !op.is(OpKind::SignalParam))
      continue;
    if (op.is(OpKind::Space))
      for (ir::Value *operand : op.operands())
        capture(operand);
    // The sizes of a signal place its cells.
    if (op.is(OpKind::SignalParam))
      capture(op.result());
    ir::walk(op.body(), [&](Op &inner) {
      for (ir::Value *operand : inner.operands())
        capture(operand);
    });
  }
}

void Frame::capture(ir::Value *value) {
  const Op *op = value->definingOp();
  if (!op || op->parentBlock() != &kernel_.body())
    return;
  // Tiles are computed again where they are used.
  if (value->type().isTile())
    for (ir::Value *operand : op->operands())
      capture(operand);
  else
    captured_.insert(value);
}

llvm::ArrayRef<Frame::Part> Frame::parts(ir::Value *value) const {
  auto it = places_.find(value);
  DTILE_CHECK(it != places_.end(), "a captured value");
  return it->second;
}

// Functions that read it.

void FrameFunction::begin(llvm::Function *function, unsigned frameArgument) {
  function_ = function;
  frame_ = function->getArg(frameArgument);
  entry_ = llvm::BasicBlock::Create(context(), "entry", function);
  start_ = llvm::BasicBlock::Create(context(), "start", function);
  b.SetInsertPoint(start_);
}

void FrameFunction::end() {
  llvm::IRBuilder<> entry(entry_);
  entry.CreateBr(start_);
}

llvm::Value *FrameFunction::loadFrame(int64_t offset, llvm::Type *type) {
  llvm::Value *&known = loaded_[offset];
  if (!known) {
    llvm::IRBuilder<> entry(entry_);
    llvm::Value *address = entry.CreateConstGEP1_64(entry.getInt8Ty(), frame_, offset);
    llvm::LoadInst *load = entry.CreateAlignedLoad(type, address, llvm::Align(8));
    // Nothing writes the frame once the prologue is done.
    load->setMetadata(llvm::LLVMContext::MD_invariant_load,
                      llvm::MDNode::get(entry.getContext(), {}));
    known = load;
  }
  return known;
}

llvm::Value *FrameFunction::stackSlot(llvm::Type *type, llvm::StringRef name) {
  llvm::IRBuilder<> entry(entry_, entry_->begin());
  return entry.CreateAlloca(type, nullptr, name);
}

Parts FrameFunction::outside(ir::Value *value) {
  const Op *op = value->definingOp();
  DTILE_CHECK(op != nullptr, "block arguments are set by whoever lowers the block");
  Parts parts;
  for (auto [part, type] : llvm::zip_equal(layout_->parts(value), partTypes(value->type())))
    parts.push_back(part.constant ? part.constant : loadFrame(part.offset, type));
  return parts;
}

llvm::Value *FrameFunction::fact(OpKind kind) {
  const int64_t offset = kind == OpKind::Rank       ? Frame::kRank
                         : kind == OpKind::NumRanks ? Frame::kNumRanks
                                                    : Frame::kEpoch;
  return loadFrame(offset, b.getInt64Ty());
}

void FrameFunction::lowerTargetOp(Op &op) {
  giveUp(op, "cannot be used where only sizes and counts are computed");
}

} // namespace dtile::backend::host
