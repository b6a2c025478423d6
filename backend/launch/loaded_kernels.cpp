// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Object files in this process, through ORC.
#include "backend/launch/loaded_kernels.h"

#include "backend/runtime/trace/trace_abi.h"

#include "llvm/ExecutionEngine/Orc/AbsoluteSymbols.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include "llvm/Support/SmallVectorMemoryBuffer.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/TargetParser/Triple.h"

#include <cmath>
#include <cstring>
#include <type_traits>

namespace dtile::backend::launch {

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
      // What LLVM makes of the two of one value.
      {"sincosf", addressOf<void(float, float *, float *)>(&::sincosf)},
      {"sincos", addressOf<void(double, double *, double *)>(&::sincos)},
      {"fmodf", addressOf<float(float, float)>(&::fmodf)},
      {"fmod", addressOf<double(double, double)>(&::fmod)},
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

struct LoadedKernels::Impl {
  std::unique_ptr<llvm::orc::LLJIT> jit;
  llvm::StringMap<const dtile_kernel_desc *> kernels;
};

LoadedKernels::LoadedKernels(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
LoadedKernels::~LoadedKernels() = default;

const dtile_kernel_desc *LoadedKernels::find(llvm::StringRef name) const {
  return impl_->kernels.lookup(name);
}

llvm::Expected<std::unique_ptr<LoadedKernels>>
LoadedKernels::load(llvm::SmallVector<char, 0> object, llvm::ArrayRef<std::string> kernels) {
  auto impl = std::make_unique<Impl>();
  llvm::orc::LLJITBuilder builder;
  builder.setJITTargetMachineBuilder(
      llvm::orc::JITTargetMachineBuilder(llvm::Triple(llvm::sys::getProcessTriple())));
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
  for (const std::string &name : kernels) {
    auto address = impl->jit->lookup("dtile_kernel_" + name);
    if (!address)
      return address.takeError();
    impl->kernels[name] = address->toPtr<const dtile_kernel_desc *>();
  }
  return std::unique_ptr<LoadedKernels>(new LoadedKernels(std::move(impl)));
}

} // namespace dtile::backend::launch
