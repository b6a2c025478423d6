// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The host target's entry points: from an IR module to a file, or to code of this process.
#include "backend/host/host.h"

#include "backend/host/host_module.h"
#include "backend/llvm/emit.h"
#include "frontend/base/check.h"

#include "llvm-c/Target.h"
#include "llvm/ExecutionEngine/Orc/AbsoluteSymbols.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/Support/SmallVectorMemoryBuffer.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/TargetParser/SubtargetFeature.h"

#include <cmath>
#include <cstring>
#include <mutex>
#include <type_traits>

namespace dtile::backend::host {

namespace {

void initializeLlvm() {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
  });
}

llvm::Expected<std::unique_ptr<llvm::TargetMachine>> hostMachine(const HostOptions &options,
                                                                 bool jit) {
  initializeLlvm();
  MachineOptions machine{.triple = "x86_64-unknown-linux-gnu",
                         .cpu = options.cpu,
                         .features = "",
                         .optLevel = options.optLevel,
                         .jit = jit};
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

VectorUnit vectorUnit(const llvm::TargetMachine &machine) {
  const llvm::MCSubtargetInfo &info = *machine.getMCSubtargetInfo();
  if (info.checkFeatures("+avx512f"))
    return {.bytes = 64, .registers = 32};
  return {.bytes = info.checkFeatures("+avx") ? 32u : 16u, .registers = 16};
}

/// Lowers and optimizes.
llvm::Error lower(ir::Module &source, const HostOptions &options, llvm::TargetMachine &machine,
                  llvm::Module &module) {
  PhaseScope phase("generating host code");
  module.setTargetTriple(machine.getTargetTriple());
  module.setDataLayout(machine.createDataLayout());
  module.setPICLevel(llvm::PICLevel::BigPIC);
  HostModule lowering(source, module, vectorUnit(machine), options.debugInfo);
  for (ir::Op &op : source.body().ops())
    if (op.is(ir::OpKind::Kernel))
      lowerKernel(lowering, op);
  lowering.debug.finish();
  if (llvm::Error error = lowering.takeError())
    return error;
  for (llvm::Function &function : module) {
    if (function.isDeclaration())
      continue;
    function.addFnAttr("target-cpu", machine.getTargetCPU());
    function.addFnAttr("target-features", machine.getTargetFeatureString());
  }
  if (llvm::Error error = verifyModule(module))
    return error;
  optimize(module, machine, options.optLevel);
  return llvm::Error::success();
}

} // namespace

llvm::Error emit(ir::Module &source, const HostOptions &options, EmitKind kind,
                 llvm::raw_pwrite_stream &os) {
  auto machine = hostMachine(options, /*jit=*/false);
  if (!machine)
    return machine.takeError();
  llvm::LLVMContext context;
  llvm::Module module("dtile", context);
  if (llvm::Error error = lower(source, options, **machine, module))
    return error;
  return emitModule(module, **machine, kind, os);
}

// The JIT.

namespace {

/// The code of runtime_abi.def for a type.
template <typename T> constexpr char abiCode() {
  if constexpr (std::is_void_v<T>)
    return 'v';
  else if constexpr (std::is_pointer_v<T>)
    return 'p';
  else
    return sizeof(T) == 8 ? 'l' : 'i';
}

template <typename Result, typename... Arguments>
constexpr bool hasSignature(Result (*)(Arguments...), std::string_view signature) {
  const char codes[] = {abiCode<Result>(), ':', abiCode<Arguments>()...};
  return std::string_view(codes, sizeof(codes)) == signature;
}

#define RT(NAME, SIGNATURE)                                                                        \
  static_assert(hasSignature(&dtile_rt_##NAME, SIGNATURE), "runtime_abi.def and kernel_abi.h");
#include "backend/runtime/runtime_abi.def"

struct Symbol {
  llvm::StringLiteral name;
  void *address;
};

template <typename Function> void *addressOf(Function *function) {
  return reinterpret_cast<void *>(function);
}

/// Everything that generated code may call.
std::vector<Symbol> processSymbols() {
  using Unary = float(float);
  using Unary64 = double(double);
  return {
#define RT(NAME, SIGNATURE) {"dtile_rt_" #NAME, addressOf(&dtile_rt_##NAME)},
#include "backend/runtime/runtime_abi.def"
      {"memcpy", addressOf<void *(void *, const void *, size_t)>(&std::memcpy)},
      {"memmove", addressOf<void *(void *, const void *, size_t)>(&std::memmove)},
      {"memset", addressOf<void *(void *, int, size_t)>(&std::memset)},
      {"sinf", addressOf<Unary>(&::sinf)},
      {"cosf", addressOf<Unary>(&::cosf)},
      {"powf", addressOf<float(float, float)>(&::powf)},
      {"sin", addressOf<Unary64>(&::sin)},
      {"cos", addressOf<Unary64>(&::cos)},
      {"exp", addressOf<Unary64>(&::exp)},
      {"exp2", addressOf<Unary64>(&::exp2)},
      {"log", addressOf<Unary64>(&::log)},
      {"log2", addressOf<Unary64>(&::log2)},
      {"tanh", addressOf<Unary64>(&::tanh)},
      {"erf", addressOf<Unary64>(&::erf)},
      {"pow", addressOf<double(double, double)>(&::pow)},
      // What processors without SSE 4.1 lack.
      {"floorf", addressOf<Unary>(&::floorf)},
      {"ceilf", addressOf<Unary>(&::ceilf)},
      {"floor", addressOf<Unary64>(&::floor)},
      {"ceil", addressOf<Unary64>(&::ceil)},
      {"fminf", addressOf<float(float, float)>(&::fminf)},
      {"fmaxf", addressOf<float(float, float)>(&::fmaxf)},
      {"fmin", addressOf<double(double, double)>(&::fmin)},
      {"fmax", addressOf<double(double, double)>(&::fmax)},
  };
}

llvm::Error defineProcessSymbols(llvm::orc::LLJIT &jit) {
  llvm::orc::SymbolMap symbols;
  for (const Symbol &symbol : processSymbols())
    symbols[jit.mangleAndIntern(symbol.name)] = {llvm::orc::ExecutorAddr::fromPtr(symbol.address),
                                                 llvm::JITSymbolFlags::Exported};
  return jit.getMainJITDylib().define(llvm::orc::absoluteSymbols(std::move(symbols)));
}

} // namespace

struct JitModule::Impl {
  std::unique_ptr<llvm::orc::LLJIT> jit;
  llvm::StringMap<const dtile_kernel_desc *> kernels;
};

JitModule::JitModule(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
JitModule::~JitModule() = default;

const dtile_kernel_desc *JitModule::find(llvm::StringRef name) const {
  return impl_->kernels.lookup(name);
}

llvm::Expected<std::unique_ptr<JitModule>> jit(ir::Module &source, const HostOptions &options) {
  auto machine = hostMachine(options, /*jit=*/true);
  if (!machine)
    return machine.takeError();
  llvm::SmallVector<char, 0> object;
  {
    llvm::LLVMContext context;
    llvm::Module module("dtile", context);
    if (llvm::Error error = lower(source, options, **machine, module))
      return error;
    llvm::raw_svector_ostream os(object);
    if (llvm::Error error = emitModule(module, **machine, EmitKind::Obj, os))
      return error;
  }

  auto impl = std::make_unique<JitModule::Impl>();
  llvm::orc::LLJITBuilder builder;
  builder.setJITTargetMachineBuilder(
      llvm::orc::JITTargetMachineBuilder((*machine)->getTargetTriple()));
  builder.setPlatformSetUp(llvm::orc::setUpInactivePlatform);
  builder.setLinkProcessSymbolsByDefault(false);
  auto made = builder.create();
  if (!made)
    return made.takeError();
  impl->jit = std::move(*made);
  if (llvm::Error error = defineProcessSymbols(*impl->jit))
    return error;
  if (llvm::Error error = impl->jit->addObjectFile(
          std::make_unique<llvm::SmallVectorMemoryBuffer>(std::move(object), "dtile")))
    return error;
  for (ir::Op &op : source.body().ops()) {
    if (!op.is(ir::OpKind::Kernel))
      continue;
    llvm::StringRef name = op.strAttr("name");
    auto address = impl->jit->lookup(("dtile_kernel_" + name).str());
    if (!address)
      return address.takeError();
    impl->kernels[name] = address->toPtr<const dtile_kernel_desc *>();
  }
  return std::unique_ptr<JitModule>(new JitModule(std::move(impl)));
}

// The target's row.

namespace {

class HostTarget : public Target {
public:
  HostTarget() : Target("host", "this machine and others of its kind, through LLVM") {}
  llvm::Error emit(ir::Module &module, const TargetOptions &options, EmitKind kind,
                   llvm::raw_pwrite_stream &os) const override {
    return host::emit(module,
                      {.cpu = options.cpu.empty() ? "x86-64-v3" : options.cpu,
                       .optLevel = options.optLevel,
                       .debugInfo = options.debugInfo},
                      kind, os);
  }
};

} // namespace

} // namespace dtile::backend::host

namespace dtile::backend {

const Target &hostTarget() {
  static const host::HostTarget kTarget;
  return kTarget;
}

} // namespace dtile::backend
