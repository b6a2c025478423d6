// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Links the shmem device library: dtilec's own bitcode, then the provider's, which the user has.
#include "backend/gpu/device_library.h"

#include "frontend/base/check.h"
#include "stdlib/shmem/device_bitcode.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Bitcode/BitcodeReader.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/Demangle/Demangle.h"
#include "llvm/IR/AttributeMask.h"
#include "llvm/IR/DebugInfo.h"
#include "llvm/IR/DiagnosticInfo.h"
#include "llvm/IR/DiagnosticPrinter.h"
#include "llvm/Linker/Linker.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

#include <cstdlib>

namespace dtile::backend::gpu {

namespace {

/// One provider of one vendor, and the user's bitcode that it needs.
struct ProviderRow {
  llvm::StringLiteral vendor;
  llvm::StringLiteral name;
  /// What its functions begin with; empty for a provider that is built in.
  llvm::StringLiteral prefix;
  /// The bitcode below the path that the user gives; empty when the path is the file.
  llvm::StringLiteral file;
  llvm::StringLiteral option;
  llvm::StringLiteral hint;
};
constexpr ProviderRow kProviders[] = {
    {"nvptx", "p2p", "", "", "", ""},
    {"nvptx", "nvshmem", "nvshmem", "lib/libnvshmem_device.bc", "--nvshmem-home=DIR",
     "the folder of an NVSHMEM 3 installation, which holds lib/libnvshmem_device.bc"},
    {"amdgpu", "p2p", "", "", "", ""},
    {"amdgpu", "rocshmem", "rocshmem", "", "--rocshmem-bitcode=FILE",
     "rocSHMEM's device functions as LLVM bitcode"},
};

/// What NVSHMEM's host library looks up in a loaded module.
constexpr llvm::StringLiteral kNvshmemVersion = "nvshmemi_device_lib_version_d";
constexpr llvm::StringLiteral kNvshmemState[] = {"nvshmemi_device_state_d",
                                                 "nvshmemi_ibgda_device_state_d", kNvshmemVersion};
constexpr unsigned kNvshmemMajor = 3;

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
  llvm::Error
  add(llvm::MemoryBufferRef bytes,
      llvm::function_ref<void(llvm::Module &library, llvm::StringRef triple)> prepare = nullptr) {
    llvm::Expected<std::unique_ptr<llvm::Module>> library =
        llvm::parseBitcodeFile(bytes, module_.getContext());
    if (!library)
      return library.takeError();
    const std::string triple = (*library)->getTargetTriple().str();
    adapt(**library);
    if (prepare)
      prepare(**library, triple);
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
  void finish() {
    if (llvm::GlobalVariable *arch = module_.getNamedGlobal("dtile_dev_arch")) {
      arch->setInitializer(llvm::ConstantInt::get(arch->getValueType(), archNumber(device_)));
      arch->setConstant(true);
      arch->setLinkage(llvm::GlobalValue::InternalLinkage);
    }
    for (llvm::GlobalValue &value : module_.global_values())
      if (!value.isDeclaration() && !value.hasLocalLinkage() && !own_.contains(value.getName()) &&
          !llvm::is_contained(kNvshmemState, value.getName()) &&
          !value.getName().starts_with("llvm."))
        value.setLinkage(llvm::GlobalValue::InternalLinkage);
    inlineCalls();
  }

private:
  /// Functions take the processor of the module that they become part of.
  void adapt(llvm::Module &library) {
    library.setTargetTriple(module_.getTargetTriple());
    library.setDataLayout(module_.getDataLayout());
    // Nothing that these say is of use here, and what they name would have to be linked.
    llvm::StripDebugInfo(library);
    for (llvm::NamedMDNode &node : llvm::make_early_inc_range(library.named_metadata()))
      node.eraseFromParent();
    for (llvm::StringRef name : {"llvm.used", "llvm.compiler.used"})
      if (llvm::GlobalVariable *list = library.getGlobalVariable(name))
        list->eraseFromParent();
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

/// Gives functions that a library has under C++ names, in a namespace, the names by which the
/// module calls them.
void usePlainNames(const llvm::Module &module, llvm::Module &library, llvm::StringRef prefix) {
  for (const llvm::Function &wanted : module) {
    if (!wanted.isDeclaration() || !wanted.getName().starts_with(prefix) ||
        library.getFunction(wanted.getName()))
      continue;
    for (llvm::Function &function : library) {
      llvm::ItaniumPartialDemangler name;
      const std::string mangled = function.getName().str();
      if (function.isDeclaration() || function.getFunctionType() != wanted.getFunctionType() ||
          name.partialDemangle(mangled.c_str()))
        continue;
      char *base = name.getFunctionBaseName(nullptr, nullptr);
      const bool isIt = base && wanted.getName() == base;
      std::free(base);
      if (isIt) {
        function.setName(wanted.getName());
        break;
      }
    }
  }
}

/// `3.4.5`, of the numbers in an initializer; empty where there are none.
std::string versionOf(const llvm::GlobalVariable &variable) {
  std::string text;
  if (!variable.hasInitializer())
    return text;
  const llvm::Constant *value = variable.getInitializer();
  for (unsigned i = 0; const llvm::Constant *part = value->getAggregateElement(i); ++i)
    if (const auto *number = llvm::dyn_cast<llvm::ConstantInt>(part))
      text += (text.empty() ? "" : ".") + std::to_string(number->getZExtValue());
  return text;
}

/// The user's bitcode of a provider.
llvm::Error addProvider(LibraryLinker &linker, llvm::Module &module, const ProviderRow &row,
                        llvm::StringRef path) {
  if (path.empty())
    return llvm::createStringError("shmem provider `" + row.name + "` needs `" + row.option +
                                   "`: " + row.hint);
  llvm::SmallString<128> file(path);
  if (!row.file.empty())
    llvm::sys::path::append(file, row.file);
  auto bytes = llvm::MemoryBuffer::getFile(file);
  if (!bytes)
    return llvm::createStringError("cannot read `" + file.str() + "` (" +
                                   bytes.getError().message() + "): `" + row.option + "` is " +
                                   row.hint);
  std::string version;
  std::string otherMachine;
  llvm::Error error = linker.add(**bytes, [&](llvm::Module &library, llvm::StringRef triple) {
    if (llvm::Triple(triple).getArch() != module.getTargetTriple().getArch())
      otherMachine = triple.str();
    usePlainNames(module, library, row.prefix);
    if (llvm::GlobalVariable *known = library.getGlobalVariable(kNvshmemVersion)) {
      version = versionOf(*known);
      // Nothing on the device asks for it; the host does.
      new llvm::GlobalVariable(module, known->getValueType(), known->isConstant(),
                               llvm::GlobalValue::ExternalLinkage, nullptr, kNvshmemVersion,
                               nullptr, llvm::GlobalValue::NotThreadLocal,
                               known->getAddressSpace());
    }
  });
  if (error)
    return llvm::createStringError("`" + file.str() + "` is no bitcode that LLVM " +
                                   LLVM_VERSION_STRING +
                                   " can read: " + llvm::toString(std::move(error)));
  if (!otherMachine.empty())
    return llvm::createStringError("`" + file.str() + "` is code for `" + otherMachine +
                                   "`, not for `" + module.getTargetTriple().str() + "`");
  if (!version.empty() &&
      llvm::StringRef(version).split('.').first != llvm::StringRef(std::to_string(kNvshmemMajor)))
    return llvm::createStringError("`" + file.str() + "` is of NVSHMEM " + version +
                                   "; this compiler knows the device functions of NVSHMEM " +
                                   llvm::Twine(kNvshmemMajor));
  std::string missing;
  for (const llvm::Function &function : module)
    if (function.isDeclaration() && function.getName().starts_with(row.prefix))
      missing += (missing.empty() ? "`" : ", `") + function.getName().str() + "`";
  if (missing.empty())
    return llvm::Error::success();
  return llvm::createStringError(
      "`" + file.str() + "`" + (version.empty() ? "" : " (version " + version + ")") +
      " does not have " + missing + ", which code of provider `" + row.name + "` calls");
}

/// The row of a provider, or which ones there are.
llvm::Expected<const ProviderRow *> findProvider(const Device &device, llvm::StringRef name) {
  std::string known;
  for (const ProviderRow &row : kProviders) {
    if (row.vendor != device.vendor())
      continue;
    if (row.name == name)
      return &row;
    known += (known.empty() ? "`" : ", `") + row.name.str() + "`";
  }
  return llvm::createStringError("`" + name + "` is no shmem provider of target `" +
                                 device.vendor() + "`, which has " + known);
}

} // namespace

llvm::Error linkDeviceLibrary(llvm::Module &module, const Device &device,
                              const ShmemProvider &provider) {
  llvm::Expected<const ProviderRow *> row = findProvider(device, provider.name);
  if (!row)
    return row.takeError();
  LibraryLinker linker(module, device);
  // The provider calls what the first part has, too.
  for (llvm::StringRef part :
       {llvm::StringRef("device"), llvm::StringRef(provider.name), llvm::StringRef("device"),
        llvm::StringRef("math")})
    if (llvm::Error error = addPart(linker, device, part))
      return error;
  if (!(*row)->prefix.empty())
    if (llvm::Error error = addProvider(linker, module, **row, provider.path))
      return error;
  linker.finish();
  return llvm::Error::success();
}

} // namespace dtile::backend::gpu
