// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The emulated device, and the little of a runtime that its launches need.
#include "host_support.h"

#include "backend/gpu/gpu_module.h"
#include "backend/launch/frame.h"
#include "backend/llvm/emit.h"
#include "ir/analysis/target_facts.h"
#include "ir/transform/pass.h"

#include "llvm/ADT/ScopeExit.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/TargetSelect.h"

#include <algorithm>
#include <ucontext.h>

namespace dtile::backend::gpu::testing {

using host::testing::Tensor;

namespace {

constexpr TargetFacts kFacts = {
    "emulator", "an emulated GPU", 2, 1, 232448, 0, 0, {}, 32, 16, kMmaSm89};

// Threads.

enum class State : uint8_t { Ready, AtBarrier, InWarp, Done };
struct Fiber {
  ucontext_t context;
  std::vector<char> stack;
  State state = State::Ready;
  /// Of an op of the warp: its kind and operands.
  int op = 0;
  uint32_t word = 0, mask = 0;
  int product = 0;
  uint32_t *a = nullptr, *b = nullptr, *sums = nullptr;
  void *address = nullptr;
  bool transposed = false;
  int count = 0;
};

struct Emulation {
  std::vector<Fiber> fibers;
  ucontext_t scheduler;
  unsigned current = 0;
  int32_t program = 0;
  std::string problem;
  std::function<void()> body;
};
Emulation *emulation = nullptr;
alignas(1024) uint8_t sharedMemory[1 << 18];

Fiber &self() { return emulation->fibers[emulation->current]; }
void meet(State state) {
  Fiber &fiber = self();
  fiber.state = state;
  swapcontext(&fiber.context, &emulation->scheduler);
}
void startFiber() {
  emulation->body();
  meet(State::Done);
}

enum { kShuffle, kMultiply, kSquares };

int32_t emuThread() { return int32_t(emulation->current); }
int32_t emuProgram() { return emulation->program; }
void emuBarrier() { meet(State::AtBarrier); }
int32_t emuShuffle(int32_t value, int32_t mask) {
  self().op = kShuffle;
  self().word = uint32_t(value);
  self().mask = uint32_t(mask);
  meet(State::InWarp);
  return int32_t(self().word);
}
void emuMultiply(int32_t product, uint32_t *a, uint32_t *b, uint32_t *sums) {
  Fiber &fiber = self();
  fiber.op = kMultiply;
  fiber.product = product;
  fiber.a = a;
  fiber.b = b;
  fiber.sums = sums;
  meet(State::InWarp);
}
void emuSquares(void *address, int32_t count, int32_t transposed, uint32_t *out) {
  Fiber &fiber = self();
  fiber.op = kSquares;
  fiber.address = address;
  fiber.count = count;
  fiber.transposed = transposed != 0;
  fiber.sums = out;
  meet(State::InWarp);
}

void doShuffle(llvm::MutableArrayRef<Fiber> warp) {
  std::vector<uint32_t> words;
  for (Fiber &lane : warp)
    words.push_back(lane.word);
  for (auto [i, lane] : llvm::enumerate(warp))
    lane.word = words[i ^ lane.mask];
}

/// The element of a fragment's register in a lane's words.
double elementOf(DType dtype, const uint32_t *words, unsigned index) {
  const unsigned bytes = dtypeBytes(dtype);
  return loadAsDouble(dtype, reinterpret_cast<const uint8_t *>(words) + index * bytes);
}

void doMultiply(llvm::MutableArrayRef<Fiber> warp) {
  const MatrixProduct &product = kFacts.products[warp[0].product];
  const auto fragment = [](llvm::StringRef text) { return *ir::Layout::parse(text, 2); };
  std::map<std::pair<int, int>, double> a, b;
  const ir::Layout layoutA = fragment(product.fragmentA), layoutB = fragment(product.fragmentB);
  for (auto [lane, fiber] : llvm::enumerate(warp)) {
    for (unsigned i = 0; i < layoutA.registers(); ++i) {
      const auto at = layoutA.at(i, uint32_t(lane));
      a[{at[0], at[1]}] = elementOf(product.a, fiber.a, i);
    }
    for (unsigned i = 0; i < layoutB.registers(); ++i) {
      const auto at = layoutB.at(i, uint32_t(lane));
      b[{at[0], at[1]}] = elementOf(product.b, fiber.b, i);
    }
  }
  const ir::Layout layout = fragment(product.fragmentSum);
  for (auto [lane, fiber] : llvm::enumerate(warp))
    for (unsigned i = 0; i < layout.registers(); ++i) {
      const auto at = layout.at(i, uint32_t(lane));
      double sum = loadAsDouble(product.sum, &fiber.sums[i]);
      for (int k = 0; k < product.depth; ++k)
        sum += a[{at[0], k}] * b[{k, at[1]}];
      storeFromDouble(product.sum, &fiber.sums[i], sum);
    }
}

void doSquares(llvm::MutableArrayRef<Fiber> warp) {
  for (auto [lane, fiber] : llvm::enumerate(warp))
    for (int square = 0; square < fiber.count; ++square) {
      uint16_t pair[2];
      for (unsigned i = 0; i < 2; ++i) {
        const unsigned line = unsigned(lane) / 4, at = 2 * (unsigned(lane) % 4) + i;
        const unsigned row = fiber.transposed ? at : line, column = fiber.transposed ? line : at;
        const auto *from = static_cast<const uint16_t *>(warp[8 * square + row].address);
        if (reinterpret_cast<uintptr_t>(from) % 16 != 0)
          emulation->problem = "a row of a square is not aligned";
        pair[i] = from[column];
      }
      std::memcpy(&fiber.sums[square], pair, 4);
    }
}

/// Lets threads that have met go on; false when there are none.
bool release() {
  auto &fibers = emulation->fibers;
  bool any = false;
  for (size_t first = 0; first < fibers.size(); first += 32) {
    llvm::MutableArrayRef<Fiber> warp(&fibers[first], 32);
    if (!llvm::all_of(warp, [&](Fiber &lane) {
          return lane.state == State::InWarp && lane.op == warp[0].op;
        }))
      continue;
    if (warp[0].op == kShuffle)
      doShuffle(warp);
    else if (warp[0].op == kMultiply)
      doMultiply(warp);
    else
      doSquares(warp);
    for (Fiber &lane : warp)
      lane.state = State::Ready;
    any = true;
  }
  if (any)
    return true;
  if (!llvm::all_of(fibers, [](Fiber &fiber) { return fiber.state == State::AtBarrier; }))
    return false;
  for (Fiber &fiber : fibers)
    fiber.state = State::Ready;
  return true;
}

std::string runProgram(unsigned threads, std::function<void()> body, int32_t program) {
  Emulation state;
  emulation = &state;
  state.program = program;
  state.body = std::move(body);
  state.fibers.resize(threads);
  std::fill(std::begin(sharedMemory), std::end(sharedMemory), 0xcd);
  for (Fiber &fiber : state.fibers) {
    fiber.stack.resize(1 << 18);
    getcontext(&fiber.context);
    fiber.context.uc_stack = {fiber.stack.data(), 0, fiber.stack.size()};
    makecontext(&fiber.context, startFiber, 0);
  }
  for (;;) {
    for (unsigned i = 0; i < threads; ++i) {
      state.current = i;
      if (self().state == State::Ready)
        swapcontext(&state.scheduler, &self().context);
    }
    if (llvm::all_of(state.fibers, [](Fiber &fiber) { return fiber.state == State::Done; }))
      return state.problem;
    if (!release())
      return "threads wait for each other in different places";
  }
}

// The device.

class EmulatedDevice : public Device {
public:
  [[nodiscard]] llvm::StringRef vendor() const override { return "emulator"; }
  [[nodiscard]] llvm::StringRef arch() const override { return "x86-64-v3"; }
  [[nodiscard]] llvm::StringRef triple() const override { return "x86_64-pc-linux-gnu"; }
  [[nodiscard]] llvm::StringRef features() const override { return ""; }
  [[nodiscard]] const TargetFacts &facts() const override { return kFacts; }
  void makeKernel(llvm::Function &, unsigned) const override {}
  [[nodiscard]] llvm::Value *threadIndex(llvm::IRBuilder<> &b) const override {
    return call(b, "emu_thread", b.getInt32Ty(), {});
  }
  [[nodiscard]] llvm::Value *programIndex(llvm::IRBuilder<> &b) const override {
    return call(b, "emu_program", b.getInt32Ty(), {});
  }
  void barrier(llvm::IRBuilder<> &b) const override { call(b, "emu_barrier", b.getVoidTy(), {}); }
  void barrier(llvm::IRBuilder<> &b, unsigned, unsigned) const override { barrier(b); }
  [[nodiscard]] llvm::Value *shuffleXor(llvm::IRBuilder<> &b, llvm::Value *value,
                                        unsigned mask) const override {
    return call(b, "emu_shuffle", b.getInt32Ty(), {value, b.getInt32(mask)});
  }
  void multiply(llvm::IRBuilder<> &b, const MatrixProduct &product,
                llvm::ArrayRef<llvm::Value *> a, llvm::ArrayRef<llvm::Value *> bWords,
                llvm::MutableArrayRef<llvm::Value *> sums) const override {
    llvm::Value *places[] = {put(b, a), put(b, bWords), put(b, sums)};
    const auto number = uint32_t(&product - kFacts.products.data());
    call(b, "emu_multiply", b.getVoidTy(),
         {b.getInt32(number), places[0], places[1], places[2]});
    for (auto [i, sum] : llvm::enumerate(sums))
      sum = b.CreateLoad(sum->getType(), b.CreateConstGEP1_64(b.getInt32Ty(), places[2], i));
  }
  [[nodiscard]] bool loadsMatrices() const override { return true; }
  [[nodiscard]] llvm::SmallVector<llvm::Value *, 4> loadMatrices(llvm::IRBuilder<> &b,
                                                                 llvm::Value *address,
                                                                 unsigned count,
                                                                 bool transposed) const override {
    llvm::SmallVector<llvm::Value *, 4> words(count, b.getInt32(0));
    llvm::Value *out = put(b, words);
    call(b, "emu_squares", b.getVoidTy(),
         {b.CreateAddrSpaceCast(address, b.getPtrTy()), b.getInt32(count), b.getInt32(transposed),
          out});
    for (auto [i, word] : llvm::enumerate(words))
      word = b.CreateLoad(b.getInt32Ty(), b.CreateConstGEP1_64(b.getInt32Ty(), out, i));
    return words;
  }

private:
  static llvm::Value *call(llvm::IRBuilder<> &b, llvm::StringRef name, llvm::Type *result,
                           llvm::ArrayRef<llvm::Value *> arguments) {
    llvm::SmallVector<llvm::Type *, 4> types;
    for (llvm::Value *argument : arguments)
      types.push_back(argument->getType());
    return b.CreateCall(b.GetInsertBlock()->getModule()->getOrInsertFunction(
                            name, llvm::FunctionType::get(result, types, false)),
                        arguments);
  }
  static llvm::Value *put(llvm::IRBuilder<> &b, llvm::ArrayRef<llvm::Value *> values) {
    llvm::BasicBlock &entry = b.GetInsertBlock()->getParent()->getEntryBlock();
    llvm::IRBuilder<> at(&entry, entry.begin());
    llvm::Value *place =
        at.CreateAlloca(llvm::ArrayType::get(b.getInt32Ty(), values.size()), nullptr, "words");
    for (auto [i, value] : llvm::enumerate(values))
      b.CreateStore(value, b.CreateConstGEP1_64(b.getInt32Ty(), place, i));
    return place;
  }
};
const EmulatedDevice device;

// The runtime and the device library.

struct Launch {
  std::vector<Tensor> *tensors;
  const std::vector<uint64_t> *scalars;
};
int32_t rtZero(Launch *) { return 0; }
int64_t rtEpoch(Launch *) { return 0; }
int32_t rtOne(Launch *) { return 1; }
int64_t rtArgDim(Launch *launch, int32_t param, int32_t dim) {
  return (*launch->tensors)[param].sizes[dim];
}
int64_t rtArgStride(Launch *launch, int32_t param, int32_t dim) {
  return host::testing::denseStrides((*launch->tensors)[param].sizes)[dim];
}
void *rtArgData(Launch *launch, int32_t param) { return (*launch->tensors)[param].bytes.data(); }
void rtArgScalar(Launch *launch, int32_t param, void *out) {
  std::memcpy(out, &(*launch->scalars)[param - launch->tensors->size()], 8);
}
int32_t rtCheckDim(Launch *, int32_t, int32_t, int64_t x, int64_t y) { return x != y; }

void devNothing(void *) {}
int32_t devLeave(void *) { return 1; }
void devSync(int32_t failed, int32_t, int32_t) {
  if (failed)
    emulation->problem = "the kernel failed";
  meet(State::AtBarrier);
}
void devFail(void *, int32_t site, int32_t, int64_t *) {
  emulation->problem = "the kernel failed at site " + std::to_string(site);
}
void devAddI32(uint32_t *place, int32_t bits, int32_t) { *place += uint32_t(bits); }
void devAddF32(float *place, int32_t bits, int32_t) { *place += llvm::bit_cast<float>(bits); }
int32_t devSwap32(int32_t *place, int32_t expected, int32_t desired, int32_t) {
  return std::exchange(*place, *place == expected ? desired : *place);
}
int64_t devSwap64(int64_t *place, int64_t expected, int64_t desired, int32_t) {
  return std::exchange(*place, *place == expected ? desired : *place);
}
__bf16 toBf16(float value) { return llvm::bit_cast<__bf16>(f32ToBf16(value)); }

llvm::orc::SymbolMap symbols(llvm::orc::LLJIT &jit) {
  struct Row {
    const char *name;
    void *address;
  };
#define FUNCTION(name, function) {name, reinterpret_cast<void *>(function)}
  static const Row kRows[] = {
      FUNCTION("emu_thread", emuThread),
      FUNCTION("emu_program", emuProgram),
      FUNCTION("emu_barrier", emuBarrier),
      FUNCTION("emu_shuffle", emuShuffle),
      FUNCTION("emu_multiply", emuMultiply),
      FUNCTION("emu_squares", emuSquares),
      FUNCTION("dtile_rt_rank", rtZero),
      FUNCTION("dtile_rt_num_ranks", rtOne),
      FUNCTION("dtile_rt_epoch", rtEpoch),
      FUNCTION("dtile_rt_arg_dim", rtArgDim),
      FUNCTION("dtile_rt_arg_stride", rtArgStride),
      FUNCTION("dtile_rt_arg_data", rtArgData),
      FUNCTION("dtile_rt_arg_scalar", rtArgScalar),
      FUNCTION("dtile_rt_check_dim", rtCheckDim),
      FUNCTION("dtile_dev_start", devNothing),
      FUNCTION("dtile_dev_enter", devNothing),
      FUNCTION("dtile_dev_leave", devLeave),
      FUNCTION("dtile_dev_sync", devSync),
      FUNCTION("dtile_dev_fail", devFail),
      FUNCTION("dtile_dev_add_i32", devAddI32),
      FUNCTION("dtile_dev_add_f32", devAddF32),
      FUNCTION("dtile_dev_swap_i32", devSwap32),
      FUNCTION("dtile_dev_swap_i64", devSwap64),
      FUNCTION("__truncsfbf2", toBf16),
      FUNCTION("dtile_shared", sharedMemory),
  };
#undef FUNCTION
  llvm::orc::SymbolMap map;
  for (const Row &row : kRows)
    map[jit.mangleAndIntern(row.name)] = {llvm::orc::ExecutorAddr::fromPtr(row.address),
                                          llvm::JITSymbolFlags::Exported};
  return map;
}

struct FrameBytes {
  alignas(64) uint8_t bytes[DTILE_DEVICE_FRAME_BYTES];
};
using KernelFunctionPointer = void (*)(dtile_device_launch, FrameBytes);

/// As for the emulated device; "" or what is wrong with the result.
std::string inferLayouts(ir::Module &module) {
  SourceManager sources;
  Diagnostics diagnostics(sources);
  passes::PassContext context(diagnostics);
  context.facts = &kFacts;
  passes::inferLayouts(module, context);
  std::string problems;
  for (const std::string &problem : ir::verify(module))
    problems += problem + "\n";
  return problems;
}

/// Runs a kernel in which all tiles have layouts.
std::string runEmulated(ir::Module &module, std::vector<Tensor> &tensors,
                        const std::vector<uint64_t> &scalars) {
  llvm::InitializeNativeTarget();
  llvm::InitializeNativeTargetAsmPrinter();
  auto context = std::make_unique<llvm::LLVMContext>();
  auto hostCode = std::make_unique<llvm::Module>("host", *context);
  auto deviceCode = std::make_unique<llvm::Module>("device", *context);
  auto machine = createMachine({.triple = device.triple().str(), .cpu = "x86-64-v3", .features = ""});
  if (!machine)
    return llvm::toString(machine.takeError());
  for (llvm::Module *code : {hostCode.get(), deviceCode.get()}) {
    code->setTargetTriple((*machine)->getTargetTriple());
    code->setDataLayout((*machine)->createDataLayout());
  }
  ir::Op *kernel = module.lookup("k");
  launch::LaunchModule hostModule(module, *hostCode, {}, false);
  GpuModule gpuModule(module, *deviceCode, device, false);
  launch::Frame frame(*kernel, launch::FrameKind::Device);
  launch::lowerPrologue(hostModule, frame, "prologue")
      ->setLinkage(llvm::GlobalValue::ExternalLinkage);
  lowerKernel(gpuModule, *kernel, frame, "entry");
  for (ModuleLowering *lowered : {static_cast<ModuleLowering *>(&hostModule),
                                  static_cast<ModuleLowering *>(&gpuModule)})
    if (llvm::Error error = lowered->takeError())
      return llvm::toString(std::move(error));
  for (llvm::Module *code : {hostCode.get(), deviceCode.get()}) {
    if (llvm::Error error = verifyModule(*code))
      return llvm::toString(std::move(error));
    optimize(*code, **machine, 1);
  }

  auto jit = llvm::orc::LLJITBuilder().create();
  if (!jit)
    return llvm::toString(jit.takeError());
  llvm::cantFail((*jit)->getMainJITDylib().define(llvm::orc::absoluteSymbols(symbols(**jit))));
  llvm::orc::ThreadSafeContext shared(std::move(context));
  for (auto *code : {&hostCode, &deviceCode})
    llvm::cantFail((*jit)->addIRModule(llvm::orc::ThreadSafeModule(std::move(*code), shared)));
  auto prologue = (*jit)->lookup("prologue");
  auto entry = (*jit)->lookup("entry");
  if (!prologue || !entry) {
    std::string text = prologue ? "" : llvm::toString(prologue.takeError());
    return text + (entry ? "" : llvm::toString(entry.takeError()));
  }

  Launch arguments{&tensors, &scalars};
  auto frameData = std::make_unique<FrameBytes>();
  if (prologue->toPtr<int32_t (*)(Launch *, void *)>()(&arguments, frameData->bytes) != 0)
    return "the launch is refused";
  dtile_device_kernel counters = {};
  dtile_device_launch launch = {};
  launch.kernel = &counters;
  launch.num_ranks = 1;
  // Two programs for each space.
  int32_t programs = 0;
  for (ir::Op &op : kernel->body().ops())
    if (op.is(ir::OpKind::Space)) {
      programs += 2;
      launch.first_program[programs / 2] = programs;
    }
  launch.programs = programs;
  for (int32_t program = 0; program < programs; ++program) {
    auto body = [&] { entry->toPtr<KernelFunctionPointer>()(launch, *frameData); };
    std::string problem = runProgram(unsigned(kernel->intAttr("threads")), body, program);
    if (!problem.empty())
      return problem;
  }
  return "";
}

} // namespace
} // namespace dtile::backend::gpu::testing

namespace dtile::backend::host::testing {

std::string runEmulated(ir::Module &module, std::vector<Tensor> &tensors,
                        const std::vector<uint64_t> &scalars) {
  std::vector<Tensor> wanted = tensors, again = tensors;
  std::string problem = runInterpreted(module, 1, wanted, 1, scalars);
  if (problem.empty())
    problem = gpu::testing::inferLayouts(module);
  if (problem.empty())
    problem = runInterpreted(module, 1, again, 1, scalars);
  for (size_t i = 0; i < tensors.size() && problem.empty(); ++i)
    if (again[i].bytes != wanted[i].bytes)
      problem = "layouts change what argument " + std::to_string(i) + " becomes";
  return problem.empty() ? gpu::testing::runEmulated(module, tensors, scalars) : problem;
}

} // namespace dtile::backend::host::testing
