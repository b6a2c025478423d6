// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// ABI types, runtime calls, sites and constants.
#include "backend/launch/launch_module.h"

#include "backend/llvm/abi_calls.h"
#include "backend/runtime/kernel_abi.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/IR/Intrinsics.h"

#include <cstddef>

namespace dtile::backend::launch {

using ir::Op;
using ir::OpKind;

// The structs below follow kernel_abi.h field by field.
static_assert(offsetof(dtile_region, size) == 24 && sizeof(dtile_region) == 120);
static_assert(sizeof(dtile_site) == 24 && sizeof(dtile_param_desc) == 48);
static_assert(offsetof(dtile_space_desc, vars) == 24 && sizeof(dtile_space_desc) == 80);
static_assert(offsetof(dtile_notify_desc, site) == 16 && sizeof(dtile_notify_desc) == 40);
static_assert(sizeof(dtile_signal_desc) == 16);
static_assert(offsetof(dtile_device_space, waits) == 24 && sizeof(dtile_device_space) == 40);
static_assert(sizeof(dtile_device_scratch) == 16);
static_assert(offsetof(dtile_device_image, bytes) == 40 &&
              offsetof(dtile_device_image, sites) == 184 &&
              offsetof(dtile_device_image, constants) == 208 && sizeof(dtile_device_image) == 256);
static_assert(sizeof(dtile_tuned_size) == 8 && offsetof(dtile_tuned_row, sizes) == 32 &&
              sizeof(dtile_tuned_row) == 48);
static_assert(offsetof(dtile_kernel_desc, params) == 40 && sizeof(dtile_kernel_desc) == 144);

AbiTypes::AbiTypes(llvm::LLVMContext &context) {
  llvm::Type *p = llvm::PointerType::getUnqual(context);
  llvm::Type *i = llvm::Type::getInt32Ty(context);
  llvm::Type *l = llvm::Type::getInt64Ty(context);
  llvm::Type *dims = llvm::ArrayType::get(l, DTILE_MAX_RANK);
  auto make = [&](llvm::StringRef name, llvm::ArrayRef<llvm::Type *> fields) {
    llvm::StructType *known = llvm::StructType::getTypeByName(context, name);
    return known ? known : llvm::StructType::create(context, fields, name);
  };
  region = make("dtile_region", {p, i, i, i, i, dims, dims});
  site = make("dtile_site", {p, p, i, i});
  param = make("dtile_param_desc", {p, i, i, i, i, i, i, i, i, l});
  space = make("dtile_space_desc", {p, i, i, i, i, p, p, p, l, p, i, i, p});
  notify = make("dtile_notify_desc", {i, i, l, site});
  signal = make("dtile_signal_desc", {i, p});
  deviceSpace = make("dtile_device_space", {i, i, i, i, i, i, i, i, i, i});
  deviceScratch = make("dtile_device_scratch", {i, i, i, i});
  image = make("dtile_device_image", {i, i, p, p, p, p, l, p, p, p, p, i, i, l, p, p, p, p, p, p,
                                      p, p, p, p, i, i, p, i, i, i, i, p, i, i, l, i, i, p, p});
  kernel = make("dtile_kernel_desc",
                {i, i, p, p, i, i, i, i, p, p, p, l, p, i, i, p, l, l, p, i, i, p, p});
  tunedSize = make("dtile_tuned_size", {i, i});
  tunedRow = make("dtile_tuned_row", {p, p, i, i, i, i, p, p});
}

LaunchModule::LaunchModule(ir::Module &source, llvm::Module &module, VectorUnit vectors,
                           bool debugInfo)
    : ModuleLowering(source, module, debugInfo), abi(module.getContext()), vectors(vectors) {}

namespace {

struct RuntimeRow {
  llvm::StringLiteral name;
  llvm::StringLiteral signature;
};
constexpr RuntimeRow kRuntime[] = {
#define RT(NAME, SIGNATURE) {"dtile_rt_" #NAME, SIGNATURE},
#include "backend/runtime/runtime_abi.def"
};

} // namespace

llvm::FunctionCallee LaunchModule::runtime(Runtime call) {
  const RuntimeRow &row = kRuntime[size_t(call)];
  llvm::Function *function = declareAbiCall(module, row.name, row.signature);
  if (call == Runtime::fail)
    function->setDoesNotReturn();
  return function;
}

void storeRegion(LaunchModule &module, llvm::IRBuilder<> &b, ViewBuilder &views, llvm::Value *place,
                 const View &view) {
  auto field = [&](unsigned number) { return b.CreateStructGEP(module.abi.region, place, number); };
  llvm::Value *data = view.data;
  for (const ViewDimension &dim : view.dims)
    data = views.offset(view.type.dtype(), data, b.CreateMul(dim.low, dim.stride));
  b.CreateStore(data, field(0));
  llvm::Value *rank = view.rank ? b.CreateTrunc(view.rank, b.getInt32Ty()) : b.getInt32(-1);
  b.CreateStore(rank, field(1));
  b.CreateStore(b.getInt32(view.dims.size()), field(2));
  b.CreateStore(b.getInt32(unsigned(view.type.dtype())), field(3));
  b.CreateStore(b.getInt32(0), field(4));
  for (auto [d, dim] : llvm::enumerate(view.dims)) {
    b.CreateStore(b.CreateSub(dim.high, dim.low),
                  b.CreateConstGEP1_64(b.getInt64Ty(), field(5), d));
    b.CreateStore(dim.stride, b.CreateConstGEP1_64(b.getInt64Ty(), field(6), d));
  }
}

void storeCells(LaunchModule &module, llvm::IRBuilder<> &b, ViewBuilder &views, llvm::Value *place,
                const SignalCells &cells) {
  View view{module.source.types().view(DType::U64, cells.dims.size(), cells.rank != nullptr),
            cells.data,
            cells.rank,
            nullptr,
            {}};
  for (const SignalCells::Dimension &dim : cells.dims)
    view.dims.push_back({b.getInt64(0), dim.size, dim.size, dim.stride});
  storeRegion(module, b, views, place, view);
}

void cutToCommon(llvm::IRBuilder<> &b, View &x, View &y) {
  for (auto [p, q] : llvm::zip_equal(x.dims, y.dims)) {
    llvm::Value *low = b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, p.low, q.low);
    llvm::Value *high = b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, p.high, q.high);
    high = b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, low, high);
    p.low = q.low = low;
    p.high = q.high = high;
  }
}

llvm::Constant *LaunchModule::siteValue(const Op &op, llvm::StringRef what) {
  llvm::StringRef file;
  unsigned line = 0;
  unsigned column = 0;
  if (source.sources() && op.loc().isValid()) {
    PresumedLoc at = source.sources()->presumed(op.loc());
    file = at.file;
    line = at.line;
    column = at.column;
  }
  return llvm::ConstantStruct::get(abi.site, {string(file), string(what), i32(line), i32(column)});
}

llvm::Constant *LaunchModule::site(const Op &op, llvm::StringRef what) {
  auto *global = new llvm::GlobalVariable(module, abi.site, /*isConstant=*/true,
                                          llvm::GlobalValue::PrivateLinkage, siteValue(op, what),
                                          "dtile.site");
  global->setUnnamedAddr(llvm::GlobalValue::UnnamedAddr::Global);
  return global;
}

llvm::Function *LaunchModule::function(llvm::StringRef name, llvm::FunctionType *type) {
  llvm::Function *function =
      llvm::Function::Create(type, llvm::GlobalValue::InternalLinkage, name, module);
  function->setDoesNotThrow();
  function->addFnAttr("prefer-vector-width", std::to_string(vectors.bytes * 8));
  // Fibers have small stacks of their own: no probing, and frames that profilers can follow.
  function->addFnAttr("frame-pointer", "non-leaf");
  return function;
}

llvm::Function *LaunchModule::shared(llvm::IRBuilder<> &b, llvm::StringRef name,
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

llvm::Constant *LaunchModule::array(llvm::StringRef name, llvm::Type *element,
                                    llvm::ArrayRef<llvm::Constant *> values) {
  if (values.empty())
    return null();
  llvm::ArrayType *type = llvm::ArrayType::get(element, values.size());
  return new llvm::GlobalVariable(module, type, /*isConstant=*/true,
                                  llvm::GlobalValue::PrivateLinkage,
                                  llvm::ConstantArray::get(type, values), name);
}

llvm::Constant *LaunchModule::bytes(llvm::StringRef name, llvm::StringRef data) {
  llvm::Constant *value = llvm::ConstantDataArray::getString(context(), data, /*AddNull=*/false);
  auto *global = new llvm::GlobalVariable(module, value->getType(), /*isConstant=*/true,
                                          llvm::GlobalValue::PrivateLinkage, value, name);
  global->setAlignment(llvm::Align(64));
  return global;
}

llvm::Constant *LaunchModule::i32(int64_t value) {
  return llvm::ConstantInt::getSigned(llvm::Type::getInt32Ty(context()), value);
}

llvm::Constant *LaunchModule::i64(int64_t value) {
  return llvm::ConstantInt::getSigned(llvm::Type::getInt64Ty(context()), value);
}

llvm::Constant *LaunchModule::null() {
  return llvm::ConstantPointerNull::get(llvm::PointerType::getUnqual(context()));
}

llvm::StringRef objectName(const ir::Value *value) {
  while (const Op *op = value->definingOp()) {
    if (op->is(OpKind::Param) || op->is(OpKind::SignalParam))
      return op->get(ir::attr::name);
    if (op->numOperands() == 0)
      break;
    value = op->operand(0);
  }
  return "";
}

} // namespace dtile::backend::launch
