// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Links the shmem device library: dtilec's own bitcode, then the provider's, which the user has.
#include "backend/gpu/device_library.h"

#include "frontend/base/check.h"
#include "stdlib/shmem/device_bitcode.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Bitcode/BitcodeReader.h"
#include "llvm/Demangle/Demangle.h"
#include "llvm/IR/AttributeMask.h"
#include "llvm/IR/DiagnosticInfo.h"
#include "llvm/IR/DiagnosticPrinter.h"
#include "llvm/Linker/Linker.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

namespace dtile::backend::gpu {

namespace {

/// One provider of one vendor.
struct ProviderRow {
  llvm::StringLiteral vendor;
  llvm::StringLiteral name;
};
constexpr ProviderRow kProviders[] = {
    {"nvptx", "p2p"},
    {"nvptx", "nvshmem"},
    {"amdgpu", "p2p"},
    {"amdgpu", "rocshmem"},
};

/// The number in `sm_90a` or, read as hexadecimal, in `gfx90a`.
int32_t archNumber(const Device &device) {
  llvm::StringRef name = device.arch();
  int32_t number = 0;
  if (name.consume_front("gfx"))
    name.getAsInteger(16, number);
  else if (name.consume_front("sm_"))
    name.take_while(llvm::isDigit).getAsInteger(10, number);
  return number;
}

/// Collects what the linker has to say; it reports through the context.
class LinkErrors : public llvm::DiagnosticHandler {
public:
  explicit LinkErrors(std::string &text) : text_(text) {}
  bool handleDiagnostics(const llvm::DiagnosticInfo &info) override {
    if (info.getSeverity() != llvm::DS_Error)
      return true;
    llvm::raw_string_ostream os(text_);
    llvm::DiagnosticPrinterRawOStream printer(os);
    info.print(printer);
    return true;
  }

private:
  std::string &text_;
};

/// Libraries to link, one after the other, into a module.
class LibraryLinker {
public:
  LibraryLinker(llvm::Module &module, const Device &device) : module_(module), device_(device) {
    for (const llvm::GlobalValue &value : module.global_values())
      if (!value.isDeclaration())
        own_.insert(value.getName());
  }

  /// Links what is called so far. `bytes` is bitcode.
  llvm::Error add(llvm::MemoryBufferRef bytes,
                  llvm::function_ref<void(llvm::Module &library)> prepare = nullptr) {
    llvm::Expected<std::unique_ptr<llvm::Module>> library =
        llvm::parseBitcodeFile(bytes, module_.getContext());
    if (!library)
      return library.takeError();
    adapt(**library);
    if (prepare)
      prepare(**library);
    llvm::LLVMContext &context = module_.getContext();
    std::string text;
    std::unique_ptr<llvm::DiagnosticHandler> before = context.getDiagnosticHandler();
    context.setDiagnosticHandler(std::make_unique<LinkErrors>(text));
    const bool failed =
        llvm::Linker::linkModules(module_, std::move(*library), llvm::Linker::LinkOnlyNeeded);
    context.setDiagnosticHandler(std::move(before));
    if (failed)
      return llvm::createStringError("cannot link " + bytes.getBufferIdentifier() + ": " + text);
    return llvm::Error::success();
  }

  /// Everything that was linked belongs to the module alone, but for what the host has to find.
  void finish(llvm::ArrayRef<llvm::StringRef> visible) {
    if (llvm::GlobalVariable *arch = module_.getNamedGlobal("dtile_dev_arch")) {
      arch->setInitializer(llvm::ConstantInt::get(arch->getValueType(), archNumber(device_)));
      arch->setConstant(true);
      arch->setLinkage(llvm::GlobalValue::InternalLinkage);
    }
    for (llvm::GlobalValue &value : module_.global_values())
      if (!value.isDeclaration() && !value.hasLocalLinkage() && !own_.contains(value.getName()) &&
          !llvm::is_contained(visible, value.getName()) && !value.getName().starts_with("llvm."))
        value.setLinkage(llvm::GlobalValue::InternalLinkage);
    inlineCalls();
  }

private:
  /// Functions take the processor of the module that they become part of.
  void adapt(llvm::Module &library) {
    library.setTargetTriple(module_.getTargetTriple());
    library.setDataLayout(module_.getDataLayout());
    for (llvm::StringRef name : {"llvm.module.flags", "llvm.ident", "llvm.errno.tbaa",
                                 "opencl.ocl.version", "nvvmir.version"})
      if (llvm::NamedMDNode *node = library.getNamedMetadata(name))
        node->eraseFromParent();
    for (llvm::Function &function : library) {
      llvm::AttributeMask mask;
      for (llvm::Attribute attribute : function.getAttributes().getFnAttrs())
        if (attribute.isStringAttribute() && attribute.getKindAsString() != "no-builtins")
          mask.addAttribute(attribute.getKindAsString());
      function.removeFnAttrs(mask);
    }
  }

  void inlineCalls() {
    llvm::PassBuilder passes;
    llvm::LoopAnalysisManager loops;
    llvm::FunctionAnalysisManager functions;
    llvm::CGSCCAnalysisManager components;
    llvm::ModuleAnalysisManager modules;
    passes.registerModuleAnalyses(modules);
    passes.registerCGSCCAnalyses(components);
    passes.registerFunctionAnalyses(functions);
    passes.registerLoopAnalyses(loops);
    passes.crossRegisterProxies(loops, functions, components, modules);
    llvm::ModulePassManager manager;
    llvm::cantFail(passes.parsePassPipeline(
        manager, "always-inline,globalopt,function(sroa,sccp,simplifycfg),globaldce"));
    manager.run(module_, modules);
  }

  llvm::Module &module_;
  const Device &device_;
  /// Names that the module had of its own.
  llvm::StringSet<> own_;
};

llvm::Error addPart(LibraryLinker &linker, const Device &device, llvm::StringRef part) {
  const std::string name = (device.vendor() + "." + part).str();
  const DeviceBitcode bitcode = findDeviceBitcode(name.c_str());
  DTILE_CHECK(bitcode.data != nullptr, "the device library has a part for each vendor");
  return linker.add(llvm::MemoryBufferRef(
      llvm::StringRef(reinterpret_cast<const char *>(bitcode.data), bitcode.bytes), name));
}

} // namespace

llvm::Error checkProvider(const Device &device, const ShmemProvider &provider) {
  std::string known;
  for (const ProviderRow &row : kProviders) {
    if (row.vendor != device.vendor())
      continue;
    if (row.name == provider.name)
      return llvm::Error::success();
    known += (known.empty() ? "`" : ", `") + row.name.str() + "`";
  }
  return llvm::createStringError("`" + provider.name + "` is no shmem provider of target `" +
                                 device.vendor() + "`, which has " + known);
}

llvm::Error linkDeviceLibrary(llvm::Module &module, const Device &device,
                              const ShmemProvider &provider) {
  if (llvm::Error error = checkProvider(device, provider))
    return error;
  LibraryLinker linker(module, device);
  if (llvm::Error error = addPart(linker, device, "device"))
    return error;
  if (llvm::Error error = addPart(linker, device, provider.name))
    return error;
  linker.finish({});
  return llvm::Error::success();
}

} // namespace dtile::backend::gpu
