// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Links the shmem device library: dtilec's own bitcode, then the provider's, which the user has.
#include "backend/gpu/device_library.h"

#include "backend/device_library/device_bitcode.h"
#include "backend/llvm/emit.h"
#include "frontend/base/check.h"

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
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

#include <cstdlib>

namespace dtile::backend::gpu {

namespace {

/// One provider of one vendor: providers.def.
struct ProviderRow {
  llvm::StringLiteral vendor, name, prefix, file, option, hint;
  bool hasHostState;
};
constexpr ProviderRow kProviders[] = {
#define PROVIDER(VENDOR, NAME, PREFIX, FILE, OPTION, HINT, HAS_HOST_STATE)                         \
  {VENDOR, NAME, PREFIX, FILE, OPTION, HINT, HAS_HOST_STATE},
#include "backend/device_library/providers.def"
#undef PROVIDER
};

/// What NVSHMEM's host library looks up in a loaded module: the first two must be there, the last
/// one may.
constexpr llvm::StringLiteral kNvshmemVersion = "nvshmemi_device_lib_version_d";
constexpr llvm::StringLiteral kNvshmemState[] = {kNvshmemVersion, "nvshmemi_device_state_d",
                                                 "nvshmemi_ibgda_device_state_d"};
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

  /// Links what is called so far. `bytes` is bitcode, of which only that much is read.
  llvm::Error
  add(llvm::MemoryBufferRef bytes,
      llvm::function_ref<void(llvm::Module &library, llvm::StringRef triple)> prepare = nullptr) {
    llvm::Expected<std::unique_ptr<llvm::Module>> library =
        llvm::getLazyBitcodeModule(bytes, module_.getContext(), /*ShouldLazyLoadMetadata=*/true);
    if (!library)
      return library.takeError();
    // What adapt() takes away has to be there.
    if (llvm::Error error = (*library)->materializeMetadata())
      return error;
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
    runPasses(module_, /*machine=*/nullptr,
              "always-inline,globalopt,function(sroa,sccp,simplifycfg),globaldce");
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

/// 30405, of the numbers 3, 4, 5 in an initializer; 0 where there are none.
int32_t versionOf(const llvm::GlobalVariable &variable) {
  int32_t version = 0;
  for (unsigned i = 0; i < 3 && variable.hasInitializer(); ++i) {
    const llvm::Constant *part = variable.getInitializer()->getAggregateElement(i);
    const auto *number = llvm::dyn_cast_or_null<llvm::ConstantInt>(part);
    version = version * 100 + (number ? int32_t(number->getZExtValue()) : 0);
  }
  return version;
}

/// `3.4.5`.
std::string versionText(int32_t version) {
  return llvm::formatv("{0}.{1}.{2}", version / 10000, version / 100 % 100, version % 100).str();
}

/// Makes the linker take a variable that nothing on the device asks for, and gives it.
const llvm::GlobalVariable *request(llvm::Module &module, const llvm::Module &library,
                                    llvm::StringRef name) {
  const llvm::GlobalVariable *known = library.getGlobalVariable(name);
  if (known && !module.getGlobalVariable(name))
    new llvm::GlobalVariable(module, known->getValueType(), known->isConstant(),
                             llvm::GlobalValue::ExternalLinkage, nullptr, name, nullptr,
                             llvm::GlobalValue::NotThreadLocal, known->getAddressSpace());
  return known;
}

/// The user's bitcode of a provider; gives its version.
llvm::Expected<int32_t> addProvider(LibraryLinker &linker, llvm::Module &module,
                                    const ProviderRow &row, llvm::StringRef path) {
  if (path.empty())
    return llvm::createStringError("shmem provider `" + row.name + "` needs `" + row.option +
                                   "=PATH`: " + row.hint);
  llvm::SmallString<128> file(path);
  if (!row.file.empty())
    llvm::sys::path::append(file, row.file);
  auto bytes = llvm::MemoryBuffer::getFile(file);
  if (!bytes)
    return llvm::createStringError("cannot read `" + file.str() + "` (" +
                                   bytes.getError().message() + "): `" + row.option + "=PATH` is " +
                                   row.hint);
  int32_t version = 0;
  std::string otherMachine;
  llvm::Error error = linker.add(**bytes, [&](llvm::Module &library, llvm::StringRef triple) {
    if (llvm::Triple(triple).getArch() != module.getTargetTriple().getArch())
      otherMachine = triple.str();
    usePlainNames(module, library, row.prefix);
    if (row.hasHostState)
      for (llvm::StringRef name : kNvshmemState) {
        const llvm::GlobalVariable *known = request(module, library, name);
        if (known && name == kNvshmemVersion)
          version = versionOf(*known);
      }
  });
  if (error)
    return llvm::createStringError("`" + file.str() + "` is no bitcode that LLVM " +
                                   LLVM_VERSION_STRING +
                                   " can read: " + llvm::toString(std::move(error)));
  if (!otherMachine.empty())
    return llvm::createStringError("`" + file.str() + "` is code for `" + otherMachine +
                                   "`, not for `" + module.getTargetTriple().str() + "`");
  if (version != 0 && version / 10000 != kNvshmemMajor)
    return llvm::createStringError("`" + file.str() + "` is of NVSHMEM " + versionText(version) +
                                   "; this compiler knows the device functions of NVSHMEM " +
                                   llvm::Twine(kNvshmemMajor));
  std::string missing;
  for (const llvm::Function &function : module)
    if (function.isDeclaration() && function.getName().starts_with(row.prefix))
      missing += (missing.empty() ? "`" : ", `") + function.getName().str() + "`";
  for (llvm::StringRef name : row.hasHostState ? llvm::ArrayRef(kNvshmemState).take_front(2)
                                               : llvm::ArrayRef<llvm::StringLiteral>())
    if (!module.getGlobalVariable(name))
      missing += (missing.empty() ? "`" : ", `") + name.str() + "`";
  if (missing.empty())
    return version;
  return llvm::createStringError(
      "`" + file.str() + "`" + (version == 0 ? "" : " (version " + versionText(version) + ")") +
      " does not have " + missing + ", which code of provider `" + row.name + "` needs");
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

std::string providerNames() {
  llvm::SmallVector<llvm::StringRef, 4> names;
  for (const ProviderRow &row : kProviders)
    if (!llvm::is_contained(names, row.name))
      names.push_back(row.name);
  return llvm::join(names, ", ");
}

std::vector<std::string> providerOptions() {
  std::vector<std::string> options;
  for (const ProviderRow &row : kProviders)
    if (!row.option.empty())
      options.push_back(row.option.str());
  return options;
}

llvm::Expected<int32_t> linkDeviceLibrary(llvm::Module &module, const Device &device,
                                          const ShmemProvider &provider) {
  llvm::Expected<const ProviderRow *> row = findProvider(device, provider.name);
  if (!row)
    return row.takeError();
  LibraryLinker linker(module, device);
  // The provider calls what the first part has, too.
  for (llvm::StringRef part : {llvm::StringRef("device"), llvm::StringRef(provider.name),
                               llvm::StringRef("device"), llvm::StringRef("math")})
    if (llvm::Error error = addPart(linker, device, part))
      return error;
  int32_t version = 0;
  if (!(*row)->prefix.empty()) {
    llvm::Expected<int32_t> found = addProvider(linker, module, **row, provider.path);
    if (!found)
      return found.takeError();
    version = *found;
  }
  linker.finish();
  return version;
}

} // namespace dtile::backend::gpu
