// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// AMD's target: code objects (HSACO) by LLVM and lld, both in this process.
#include "backend/amdgpu/code_object.h"
#include "backend/amdgpu/devices.h"
#include "backend/gpu/gpu_target.h"
#include "backend/llvm/emit.h"
#include "frontend/base/check.h"

#include "llvm-c/Target.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/IR/IntrinsicsAMDGPU.h"

#include <mutex>

namespace dtile::backend::amdgpu {

namespace {

/// What LLVM's code generator expects to have run: sizes of groups become constants, and functions
/// say what they do not need of a launch, so that nobody has to pass it.
constexpr llvm::StringLiteral kPipeline =
    "function(amdgpu-lower-kernel-attributes,instcombine<no-verify-fixpoint>,adce),"
    "amdgpu-attributor";

void prepare(llvm::Module &module, llvm::TargetMachine &machine) {
  runPasses(module, &machine, kPipeline);
  const llvm::Function *hidden =
      llvm::Intrinsic::getDeclarationIfExists(&module, llvm::Intrinsic::amdgcn_implicitarg_ptr);
  for (llvm::Function &function : module) {
    if (function.isDeclaration())
      continue;
    // Calls lead from the kernel down into the device library, nowhere back. Without this, stacks
    // would have to be of any size.
    function.setDoesNotRecurse();
    if (!hidden || hidden->use_empty())
      function.addFnAttr("amdgpu-no-implicitarg-ptr");
  }
}

llvm::Expected<std::string> emit(llvm::Module &module, llvm::TargetMachine &machine,
                                 EmitKind kind) {
  prepare(module, machine);
  llvm::SmallString<0> bytes;
  llvm::raw_svector_ostream os(bytes);
  if (llvm::Error error = emitModule(module, machine, kind, os, gpu::kPassesLeftOut))
    return error;
  return bytes.str().str();
}

llvm::Expected<std::string> codeObject(llvm::Module &module, llvm::TargetMachine &machine) {
  auto object = emit(module, machine, EmitKind::Obj);
  if (!object)
    return object;
  return linkCodeObject(*object);
}

class AmdVendor : public gpu::Vendor {
public:
  llvm::ArrayRef<const gpu::Device *> devices() const override { return amdgpu::devices(); }

  void initializeLlvm() const override {
    static std::once_flag once;
    std::call_once(once, [] {
      LLVMInitializeAMDGPUTargetInfo();
      LLVMInitializeAMDGPUTarget();
      LLVMInitializeAMDGPUTargetMC();
      LLVMInitializeAMDGPUAsmPrinter();
      // Reads the instructions of programs.
      LLVMInitializeAMDGPUAsmParser();
    });
  }

  bool canEmit(EmitKind kind) const override {
    return kind == EmitKind::Asm || kind == EmitKind::Hsaco || kind == EmitKind::Stats;
  }

  llvm::Expected<std::vector<gpu::Image>> images(llvm::Module &module, llvm::TargetMachine &machine,
                                                 const gpu::Device &device,
                                                 bool assemble) const override {
    auto object = emit(module, machine, EmitKind::Obj);
    if (!object)
      return object.takeError();
    std::vector<gpu::Image> images;
    images.push_back({.format = DTILE_IMAGE_HSACO, .bytes = std::move(*object)});
    return images;
  }

  /// lld has globals.
  llvm::Error finish(gpu::Image &image) const override {
    auto linked = linkCodeObject(image.bytes);
    if (!linked)
      return linked.takeError();
    auto stats = readStats(*linked);
    if (!stats)
      return stats.takeError();
    image.bytes = std::move(*linked);
    image.stats = std::move(*stats);
    return llvm::Error::success();
  }

  llvm::Expected<std::string> file(llvm::Module &module, llvm::TargetMachine &machine,
                                   const gpu::Device &device, EmitKind kind) const override {
    DTILE_CHECK(kind == EmitKind::Asm || kind == EmitKind::Hsaco, "what canEmit says");
    return kind == EmitKind::Asm ? emit(module, machine, kind) : codeObject(module, machine);
  }

  llvm::Expected<std::vector<gpu::KernelStats>> stats(llvm::Module &module,
                                                      llvm::TargetMachine &machine,
                                                      const gpu::Device &device) const override {
    auto object = emit(module, machine, EmitKind::Obj);
    if (!object)
      return object.takeError();
    return readStats(*object);
  }
};

} // namespace

} // namespace dtile::backend::amdgpu

namespace dtile::backend {

const Target &amdgpuTarget() {
  static const amdgpu::AmdVendor kVendor;
  static const gpu::GpuTarget kTarget("amdgpu", "AMD GPUs, through LLVM and lld", kVendor);
  return kTarget;
}

} // namespace dtile::backend
