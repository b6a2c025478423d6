// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// NVIDIA's target: PTX by LLVM, and cubins by ptxas where it is found. ptxas is never needed: the
// driver compiles PTX as well.
#include "backend/gpu/gpu_target.h"
#include "backend/llvm/emit.h"
#include "backend/nvptx/cubin.h"
#include "backend/nvptx/devices.h"
#include "backend/nvptx/ptxas.h"
#include "frontend/base/check.h"

#include "llvm-c/Target.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallString.h"

#include <mutex>

namespace dtile::backend::nvptx {

namespace {

llvm::Expected<std::string> ptx(llvm::Module &module, llvm::TargetMachine &machine) {
  llvm::SmallString<0> text;
  llvm::raw_svector_ostream os(text);
  if (llvm::Error error = emitModule(module, machine, EmitKind::Asm, os, gpu::kPassesLeftOut))
    return error;
  return text.str().str();
}

class NvidiaVendor : public gpu::Vendor {
public:
  llvm::ArrayRef<const gpu::Device *> devices() const override { return nvptx::devices(); }

  void initializeLlvm() const override {
    static std::once_flag once;
    std::call_once(once, [] {
      LLVMInitializeNVPTXTargetInfo();
      LLVMInitializeNVPTXTarget();
      LLVMInitializeNVPTXTargetMC();
      LLVMInitializeNVPTXAsmPrinter();
    });
  }

  bool canEmit(EmitKind kind) const override {
    return kind == EmitKind::Asm || kind == EmitKind::Ptx || kind == EmitKind::Cubin ||
           kind == EmitKind::Stats;
  }

  llvm::Expected<std::vector<gpu::Image>> images(llvm::Module &module, llvm::TargetMachine &machine,
                                                 const gpu::Device &device,
                                                 bool assemble) const override {
    auto text = ptx(module, machine);
    if (!text)
      return text.takeError();
    std::vector<gpu::Image> images;
    if (assemble && !findPtxas().empty()) {
      auto assembled = assembleEntries(*text, device.arch());
      if (!assembled)
        return assembled.takeError();
      for (AssembledEntry &one : *assembled)
        images.push_back({.format = DTILE_IMAGE_CUBIN,
                          .bytes = withoutPtxText(one.made.cubin),
                          .entry = std::move(one.entry),
                          .tooLong = std::move(one.whyNot),
                          .stats = parseStats(one.made.messages)});
    }
    // The driver wants a zero after it.
    text->push_back('\0');
    images.push_back({.format = DTILE_IMAGE_PTX, .bytes = std::move(*text)});
    return images;
  }

  llvm::Expected<std::string> file(llvm::Module &module, llvm::TargetMachine &machine,
                                   const gpu::Device &device, EmitKind kind) const override {
    auto text = ptx(module, machine);
    if (!text || kind != EmitKind::Cubin)
      return text;
    auto assembled = runPtxas(*text, device.arch());
    if (!assembled)
      return assembled.takeError();
    return std::move(assembled->cubin);
  }

  llvm::Expected<std::vector<gpu::KernelStats>> stats(llvm::Module &module,
                                                      llvm::TargetMachine &machine,
                                                      const gpu::Device &device) const override {
    auto text = ptx(module, machine);
    if (!text)
      return text.takeError();
    auto assembled = assembleEntries(*text, device.arch());
    if (!assembled)
      return assembled.takeError();
    std::vector<gpu::KernelStats> all;
    for (const AssembledEntry &one : *assembled) {
      if (!one.whyNot.empty())
        return llvm::createStringError(one.whyNot);
      llvm::append_range(all, parseStats(one.made.messages));
    }
    return all;
  }
};

} // namespace

} // namespace dtile::backend::nvptx

namespace dtile::backend {

const Target &nvptxTarget() {
  static const nvptx::NvidiaVendor kVendor;
  static const gpu::GpuTarget kTarget("nvptx", "NVIDIA GPUs, through LLVM and PTX", kVendor);
  return kTarget;
}

} // namespace dtile::backend
