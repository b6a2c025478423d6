// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Object files: this machine's code generator, and the module that targets fill.
#include "backend/launch/package.h"

#include "backend/llvm/emit.h"
#include "frontend/base/check.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/TargetParser/SubtargetFeature.h"

#include <mutex>

namespace dtile::backend::launch {

namespace {

void initializeLlvm() {
  static std::once_flag once;
  std::call_once(once, [] {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
    // Reads the instructions of programs.
    llvm::InitializeNativeTargetAsmParser();
  });
}

/// What code for processors is made for where nothing else is said: any server of the last years.
std::string portableProcessor(const llvm::Triple &triple) {
  return triple.getArch() == llvm::Triple::x86_64 ? "x86-64-v3" : "generic";
}

/// The rows of processor_features.def that code for this machine may use.
uint64_t processorFeatures(const llvm::TargetMachine &machine) {
  if (machine.getTargetTriple().getArch() != llvm::Triple::x86_64)
    return 0;
  constexpr llvm::StringLiteral kNames[] = {
#define FEATURE(NAME, ...) NAME,
#include "backend/runtime/processor_features.def"
  };
  const llvm::MCSubtargetInfo &info = *machine.getMCSubtargetInfo();
  uint64_t found = 0;
  for (auto [row, name] : llvm::enumerate(kNames))
    if (info.checkFeatures(("+" + name).str()))
      found |= uint64_t(1) << row;
  return found;
}

llvm::Expected<std::unique_ptr<llvm::TargetMachine>> hostMachine(const PackageOptions &options) {
  initializeLlvm();
  const std::string triple = llvm::sys::getProcessTriple();
  MachineOptions machine{.triple = triple,
                         .cpu = options.cpu.empty() ? portableProcessor(llvm::Triple(triple))
                                                    : options.cpu,
                         .features = "",
                         .optLevel = options.optLevel,
                         .jit = options.jit};
  if (options.cpu == "native") {
    // Features are listed one by one: a virtual machine may lack some of its processor's.
    machine.cpu = llvm::sys::getHostCPUName().str();
    llvm::SubtargetFeatures features;
    llvm::StringMap<bool> known = llvm::sys::getHostCPUFeatures();
    std::vector<llvm::StringRef> names;
    for (const auto &feature : known)
      names.push_back(feature.getKey());
    llvm::sort(names);
    for (llvm::StringRef name : names)
      features.AddFeature(name, known.lookup(name));
    machine.features = features.getString();
  }
  return createMachine(machine);
}

/// A kernel by TVM FFI's calling convention: its descriptor goes before the arguments.
void exportToTvmFfi(llvm::Module &module, const std::string &kernel) {
  llvm::LLVMContext &context = module.getContext();
  llvm::Type *pointer = llvm::PointerType::get(context, 0);
  llvm::Type *number = llvm::Type::getInt32Ty(context);
  const llvm::FunctionCallee call = module.getOrInsertFunction(
      "dtile_tvm_ffi_call", llvm::FunctionType::get(number, {pointer, pointer, number, pointer},
                                                    /*isVarArg=*/false));
  // handle, arguments, their number, result
  auto *function = llvm::Function::Create(
      llvm::FunctionType::get(number, {pointer, pointer, number, pointer}, /*isVarArg=*/false),
      llvm::Function::ExternalLinkage, "__tvm_ffi_" + kernel, module);
  llvm::IRBuilder<> b(llvm::BasicBlock::Create(context, "", function));
  llvm::GlobalVariable *descriptor = module.getNamedGlobal("dtile_kernel_" + kernel);
  DTILE_CHECK(descriptor, "a kernel has a descriptor");
  b.CreateRet(b.CreateCall(
      call, {descriptor, function->getArg(1), function->getArg(2), function->getArg(3)}));
}

} // namespace

Package::Package(std::unique_ptr<llvm::TargetMachine> machine, unsigned optLevel)
    : machine_(std::move(machine)), optLevel_(optLevel), module_("dtile", context_) {
  module_.setTargetTriple(machine_->getTargetTriple());
  module_.setDataLayout(machine_->createDataLayout());
  module_.setPICLevel(llvm::PICLevel::BigPIC);
}

llvm::Expected<std::unique_ptr<Package>> Package::create(const PackageOptions &options) {
  auto machine = hostMachine(options);
  if (!machine)
    return machine.takeError();
  return std::unique_ptr<Package>(new Package(std::move(*machine), options.optLevel));
}

VectorUnit Package::vectors() const {
  const llvm::MCSubtargetInfo &info = *machine_->getMCSubtargetInfo();
  if (info.checkFeatures("+avx512f"))
    return {.bytes = 64, .registers = 32};
  return {.bytes = info.checkFeatures("+avx") ? 32u : 16u, .registers = 16};
}

llvm::Error Package::finish(ir::Module &source) {
  PhaseScope phase("writing descriptors");
  LaunchModule lowering(source, module_, vectors(), /*debugInfo=*/false);
  for (ir::Op &op : source.body().ops()) {
    if (!op.is(ir::OpKind::Kernel))
      continue;
    // One variant speaks for all.
    if (op.getOr(ir::attr::variant, 0) != 0)
      continue;
    names_.push_back(entryOf(op).str());
    KernelCode &made = code(names_.back());
    made.include(op, !made.images.empty());
    made.processorFeatures = processorFeatures(*machine_);
    lowerDescriptor(lowering, op, made);
  }
  for (const auto &[name, alternatives] : familiesOf(source)) {
    names_.push_back(name);
    lowerFamily(lowering, name, alternatives, code(entryOf(*alternatives.front())), code(name));
  }
  if (llvm::Error error = lowering.takeError())
    return error;
  for (const std::string &name : names_)
    if (exportsTvmFfi_)
      exportToTvmFfi(module_, name);
  for (llvm::Function &function : module_) {
    if (function.isDeclaration())
      continue;
    function.addFnAttr("target-cpu", machine_->getTargetCPU());
    function.addFnAttr("target-features", machine_->getTargetFeatureString());
  }
  if (llvm::Error error = verifyModule(module_))
    return error;
  optimize(module_, *machine_, optLevel_);
  return llvm::Error::success();
}

llvm::Error Package::emit(EmitKind kind, llvm::raw_pwrite_stream &os) {
  return emitModule(module_, *machine_, kind, os);
}

llvm::Expected<std::unique_ptr<LoadedKernels>> Package::load() {
  llvm::SmallVector<char, 0> object;
  llvm::raw_svector_ostream os(object);
  if (llvm::Error error = emit(EmitKind::Obj, os))
    return error;
  return LoadedKernels::load(std::move(object), names_);
}

llvm::Expected<std::unique_ptr<LoadedKernels>> load(const Target &target, ir::Module &module,
                                                    const TargetOptions &options) {
  auto package = Package::create({.cpu = options.cpu.empty() ? "native" : options.cpu,
                                  .optLevel = options.optLevel,
                                  .jit = true});
  if (!package)
    return package.takeError();
  if (llvm::Error error = target.addTo(**package, module, options))
    return error;
  if (llvm::Error error = (*package)->finish(module))
    return error;
  return (*package)->load();
}

} // namespace dtile::backend::launch
