// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The device library's functions, sites, and shared memory.
#include "backend/gpu/gpu_module.h"

#include "backend/llvm/abi_calls.h"
#include "frontend/base/check.h"
#include "ir/analysis/shared_memory_plan.h"

#include <limits>

namespace dtile::backend::gpu {

namespace {

struct CallRow {
  llvm::StringLiteral name;
  llvm::StringLiteral signature;
};
constexpr CallRow kCalls[] = {
#define CALL(NAME, SIGNATURE) {"dtile_dev_" #NAME, SIGNATURE},
#include "backend/gpu/device_calls.def"
};

/// A launch's own; how much there is, is said when it is launched.
constexpr llvm::StringLiteral kSharedName = "dtile_shared";

} // namespace

int64_t frameRoom(const Device &device) {
  const int64_t room = device.parameterBytes() - dtile_device_parameter_bytes(0);
  return room / DTILE_DEVICE_FRAME_ALIGN * DTILE_DEVICE_FRAME_ALIGN;
}

llvm::FunctionCallee GpuModule::call(DeviceCall call) {
  const CallRow &row = kCalls[size_t(call)];
  llvm::Function *function = declareAbiCall(module, row.name, row.signature);
  // What all threads do together must not become conditional.
  function->addFnAttr(llvm::Attribute::Convergent);
  return function;
}

const llvm::Function *GpuModule::declared(DeviceCall call) const {
  return module.getFunction(kCalls[size_t(call)].name);
}

void GpuModule::needsMapped(const ir::Op &op, llvm::StringRef object) {
  if (mappedSite_ < 0)
    mappedSite_ = site(op, object);
}

int32_t GpuModule::site(const ir::Op &op, llvm::StringRef what) {
  for (auto [number, site] : llvm::enumerate(sites_))
    if (site.op == &op && site.what == what)
      return int32_t(number);
  sites_.push_back({&op, what.str()});
  return int32_t(sites_.size()) - 1;
}

llvm::Value *GpuModule::shared(llvm::IRBuilder<> &b, int64_t bytes, int64_t align) {
  DTILE_CHECK(align <= ir::kBoxAlignBytes, "shared memory is aligned as boxes are");
  llvm::GlobalVariable *memory = module.getGlobalVariable(kSharedName);
  if (!memory) {
    memory = new llvm::GlobalVariable(module, llvm::ArrayType::get(b.getInt8Ty(), 0),
                                      /*isConstant=*/false, llvm::GlobalValue::ExternalLinkage,
                                      nullptr, kSharedName, nullptr,
                                      llvm::GlobalValue::NotThreadLocal, Device::kShared);
    memory->setAlignment(llvm::Align(ir::kBoxAlignBytes));
  }
  const auto offset = int64_t(llvm::alignTo(uint64_t(sharedUsed_), uint64_t(align)));
  sharedUsed_ = offset + bytes;
  if (sharedUsed_ > sharedPeak_.bytes)
    sharedPeak_ = {.bytes = sharedUsed_, .standing = offset, .user = op_};
  return b.CreateConstInBoundsGEP1_64(b.getInt8Ty(), memory, offset);
}

int64_t GpuModule::sharedRoom() const {
  if (!sharedLimit_)
    return std::numeric_limits<int64_t>::max();
  return *sharedLimit_ - int64_t(llvm::alignTo(uint64_t(sharedUsed_), ir::kScratchAlignBytes));
}

llvm::Function *GpuModule::function(llvm::StringRef name, llvm::FunctionType *type) {
  llvm::Function *function =
      llvm::Function::Create(type, llvm::GlobalValue::InternalLinkage, name, module);
  function->setDoesNotThrow();
  function->addFnAttr(llvm::Attribute::AlwaysInline);
  return function;
}

} // namespace dtile::backend::gpu
