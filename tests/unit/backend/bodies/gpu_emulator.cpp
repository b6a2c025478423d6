// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The emulated device, and the little of a runtime that its launches need. Threads of all programs
// of all ranks are fibers; the shmem device library is the real one, on these threads
// (device_threads.h).
#include "host_support.h"

#include "backend/device_library/device.h"
#include "backend/gpu/gpu_module.h"
#include "backend/launch/frame.h"
#include "backend/llvm/emit.h"
#include "ir/transform/pass.h"
#include "tests/unit/backend/bodies/emulated_device.h"
#include "tests/unit/backend/bodies/emulated_engine.h"
#include "tests/unit/backend/bodies/emulated_facts.h"
#include "tests/unit/backend/bodies/emulated_hosts.h"
#include "tests/unit/backend/bodies/emulated_prints.h"
#include "tests/unit/backend/bodies/emulated_traces.h"

#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/TargetSelect.h"

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <numeric>
#include <ucontext.h>

namespace dtile::backend::gpu::testing {

using host::testing::Tensor;

namespace {

// Threads.

enum class State : uint8_t { Ready, AtBarrier, InWarp, Done };
struct Fiber {
  ucontext_t context;
  std::unique_ptr<char[]> stack;
  State state = State::Ready;
  /// What it brings to a barrier, and what all have brought.
  int32_t answer = 0;
  /// Of an op of the warp: its kind and operands.
  int op = 0;
  uint32_t word = 0, mask = 0;
  int product = 0;
  uint32_t *a = nullptr, *b = nullptr, *sums = nullptr;
  void *address = nullptr;
  bool transposed = false;
  int count = 0;
  /// Copies that it has started: what was there is lost at once, and what comes comes as late as it
  /// may.
  struct Copy {
    void *shared;
    const void *global;
    int32_t bytes, valid;
  };
  std::vector<Copy> started;
  std::deque<std::vector<Copy>> groups;
};
constexpr size_t kStackBytes = 1 << 17;

/// One block of threads.
struct EmulatedProgram {
  std::vector<Fiber> fibers;
  int32_t number = 0;
  std::function<void()> body;
  /// What it has in shared memory while others run.
  std::vector<uint8_t> shared;
};

struct Emulation {
  ucontext_t scheduler;
  EmulatedProgram *program = nullptr;
  unsigned current = 0;
  std::string problem;
};
Emulation *emulation = nullptr;
alignas(1024) uint8_t sharedMemory[1 << 18];

Fiber &self() { return emulation->program->fibers[emulation->current]; }
void meet(State state) {
  Fiber &fiber = self();
  fiber.state = state;
  swapcontext(&fiber.context, &emulation->scheduler);
}
void startFiber() {
  emulation->program->body();
  meet(State::Done);
}

enum { kShuffle, kMultiply, kSquares };

int32_t emuThread() { return int32_t(emulation->current); }
int32_t emuProgram() { return emulation->program->number; }
int32_t emuMeet(int32_t answer) {
  self().answer = answer;
  meet(State::AtBarrier);
  return self().answer;
}
void emuBarrier() { (void)emuMeet(0); }
int32_t emuShuffle(int32_t value, int32_t mask) {
  self().op = kShuffle;
  self().word = uint32_t(value);
  self().mask = uint32_t(mask);
  meet(State::InWarp);
  return int32_t(self().word);
}
/// Of the lane before, which differs in the lowest bit that is set, and in all below.
int32_t emuShuffleUp(int32_t value) {
  const auto lane = unsigned(emulation->current);
  int32_t before = 0;
  for (unsigned mask = 1; mask < DTILE_EMULATED_LANES; mask = 2 * mask + 1)
    if (const int32_t other = emuShuffle(value, int32_t(mask)); (lane ^ (lane - 1)) == mask)
      before = other;
  return before;
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

void emuCopy(void *shared, const void *global, int32_t bytes, int32_t valid) {
  const auto isAligned = [&](const void *address) {
    return reinterpret_cast<uintptr_t>(address) % size_t(bytes) == 0;
  };
  if (!isAligned(shared) || (valid > 0 && !isAligned(global)))
    emulation->problem = "a copy is not aligned";
  if (valid < 0 || valid > bytes)
    emulation->problem = "a copy of more bytes than there are";
  std::memset(shared, 0xcd, size_t(bytes));
  self().started.push_back({shared, global, bytes, valid});
}
void emuCommit() { self().groups.push_back(std::exchange(self().started, {})); }
void emuAwait(int32_t pending) {
  for (Fiber &fiber = self(); fiber.groups.size() > size_t(pending); fiber.groups.pop_front())
    for (const Fiber::Copy &copy : fiber.groups.front()) {
      std::memset(copy.shared, 0, size_t(copy.bytes));
      if (copy.valid > 0)
        std::memcpy(copy.shared, copy.global, size_t(copy.valid));
    }
}

void doShuffle(llvm::MutableArrayRef<Fiber> warp) {
  std::vector<uint32_t> words;
  for (Fiber &lane : warp)
    words.push_back(lane.word);
  for (auto [i, lane] : llvm::enumerate(warp))
    lane.word = words[i ^ lane.mask];
}

/// The element of a fragment's register in a lane's words.
double elementOf(const MatrixProduct &product, DType dtype, const uint32_t *words, unsigned index) {
  const unsigned bytes = dtypeBytes(dtype);
  const uint8_t *element = reinterpret_cast<const uint8_t *>(words) + index * bytes;
  // As the hardware: who wants another rounding has to do it.
  const uint32_t cut = words[index * bytes / 4] & ~uint32_t(0) << 13;
  return loadAsDouble(dtype, product.isTf32 ? reinterpret_cast<const uint8_t *>(&cut) : element);
}

void doMultiply(llvm::MutableArrayRef<Fiber> warp) {
  const MatrixProduct &product = kFacts.products[warp[0].product];
  const auto fragment = [](llvm::StringRef text) { return *ir::Layout::parse(text, 2); };
  std::map<std::pair<int, int>, double> a, b;
  const ir::Layout layoutA = fragment(product.fragmentA), layoutB = fragment(product.fragmentB);
  for (auto [lane, fiber] : llvm::enumerate(warp)) {
    for (unsigned i = 0; i < layoutA.registers(); ++i) {
      const auto at = layoutA.at(i, uint32_t(lane));
      a[{at[0], at[1]}] = elementOf(product, product.a, fiber.a, i);
    }
    for (unsigned i = 0; i < layoutB.registers(); ++i) {
      const auto at = layoutB.at(i, uint32_t(lane));
      b[{at[0], at[1]}] = elementOf(product, product.b, fiber.b, i);
    }
  }
  const ir::Layout layout = fragment(product.fragmentSum);
  for (auto [lane, fiber] : llvm::enumerate(warp))
    for (unsigned i = 0; i < layout.registers(); ++i) {
      const auto at = layout.at(i, uint32_t(lane));
      uint8_t *place =
          reinterpret_cast<uint8_t *>(fiber.sums) + size_t(i) * dtypeBytes(product.sum);
      double sum = loadAsDouble(product.sum, place);
      for (int k = 0; k < product.depth; ++k)
        sum += a[{at[0], k}] * b[{k, at[1]}];
      storeFromDouble(product.sum, place, sum);
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

/// Lets threads of the current program that have met go on; false when there are none.
bool release() {
  auto &fibers = emulation->program->fibers;
  bool any = false;
  for (size_t first = 0; first < fibers.size(); first += kFacts.lanes) {
    llvm::MutableArrayRef<Fiber> warp(&fibers[first], kFacts.lanes);
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
  int32_t all = 0;
  for (Fiber &fiber : fibers)
    all |= fiber.answer;
  for (Fiber &fiber : fibers) {
    fiber.answer = all;
    fiber.state = State::Ready;
  }
  return true;
}

/// Runs each thread of a program until it meets others or waits for another program; whether the
/// program has ended.
bool advance(EmulatedProgram &program) {
  emulation->program = &program;
  std::copy(program.shared.begin(), program.shared.end(), sharedMemory);
  auto isReady = [](Fiber &fiber) { return fiber.state == State::Ready; };
  for (unsigned i = 0; i < program.fibers.size(); ++i) {
    emulation->current = i;
    if (isReady(self()))
      swapcontext(&emulation->scheduler, &self().context);
  }
  std::copy_n(sharedMemory, program.shared.size(), program.shared.begin());
  if (llvm::all_of(program.fibers, [](Fiber &fiber) { return fiber.state == State::Done; }))
    return true;
  if (!llvm::any_of(program.fibers, isReady) && !release() && emulation->problem.empty())
    emulation->problem = "threads wait for each other in different places";
  return false;
}

/// Runs programs side by side; "" or what went wrong.
std::string runPrograms(std::vector<std::unique_ptr<EmulatedProgram>> programs, unsigned threads,
                        size_t sharedBytes) {
  Emulation state;
  emulation = &state;
  for (auto &program : programs) {
    program->fibers.resize(threads);
    program->shared.assign(sharedBytes, 0xcd);
    for (Fiber &fiber : program->fibers) {
      fiber.stack.reset(new char[kStackBytes]);
      getcontext(&fiber.context);
      fiber.context.uc_stack = {fiber.stack.get(), 0, kStackBytes};
      makecontext(&fiber.context, startFiber, 0);
    }
  }
  while (!programs.empty() && state.problem.empty())
    llvm::erase_if(programs, [](auto &program) { return advance(*program); });
  return state.problem;
}

} // namespace
} // namespace dtile::backend::gpu::testing

// What the device library asks of its machine.
namespace emulated = dtile::backend::gpu::testing;
extern "C" {
int32_t dtile_test_thread() { return emulated::emuThread(); }
int32_t dtile_test_threads() { return int32_t(emulated::emulation->program->fibers.size()); }
int32_t dtile_test_program() { return emulated::emuProgram(); }
int32_t dtile_test_any(int32_t x, int32_t, int32_t) { return emulated::emuMeet(x); }
void dtile_test_meet_warp() { (void)emulated::emuShuffle(0, 0); }
void dtile_test_leave() { emulated::meet(emulated::State::Done); }
void dtile_test_yield() {
  emulated::Hosts::step();
  emulated::meet(emulated::State::Ready);
}
}
namespace dtile::test {
const void *farThread() { return &emulated::self(); }
} // namespace dtile::test

namespace dtile::backend::gpu::testing {
namespace {

const EmulatedDevice device;

// The runtime.

EmulatedTraces traces;
EmulatedEngine engine;

/// What a rank keeps between launches.
struct Rank {
  int32_t number = 0;
  std::vector<uint64_t> heap;
  std::vector<uint64_t> peers;
  dtile_device_team team = {};
  dtile_device_kernel kernel = {};
  dtile_device_report report = {};
  EmulatedPrints prints;
  /// Of scratch objects and signals, by parameter; lists keep their addresses.
  std::map<int32_t, uint64_t> turns;
  std::map<int32_t, std::vector<uint64_t>> bases, asked;
};

/// All ranks, and the objects that are at the same place of each heap.
struct Team {
  static constexpr size_t kHeapWords = 1 << 17;
  ir::Op *kernel = nullptr;
  std::vector<Tensor> *tensors = nullptr;
  const std::vector<uint64_t> *scalars = nullptr;
  std::vector<Rank> ranks;
  std::map<int32_t, size_t> places;
  /// Arguments by parameter.
  std::map<int32_t, size_t> arguments;
  size_t usedWords = 0;
  uint32_t abort = 0;
  int64_t epoch = 0;

  explicit Team(int count) : ranks(size_t(count)) {
    usedWords = ranks.size();
    for (auto [number, rank] : llvm::enumerate(ranks)) {
      rank.number = int32_t(number);
      rank.heap.resize(kHeapWords);
      for (Rank &peer : ranks)
        peer.heap.resize(kHeapWords);
      for (Rank &peer : ranks)
        rank.peers.push_back(reinterpret_cast<uint64_t>(peer.heap.data()));
      rank.team.rank = rank.number;
      rank.team.num_ranks = count;
      rank.team.peers = rank.peers.data();
      rank.team.meeting = rank.heap.data();
      rank.team.abort = &abort;
      rank.team.report = &rank.report;
      rank.team.wait_budget_ns = 20'000'000'000;
      rank.team.prints = rank.prints.memory();
    }
  }
  /// The place of an object in the heaps.
  size_t place(int32_t param, size_t bytes) {
    auto [known, isNew] = places.try_emplace(param, usedWords);
    if (isNew) {
      // Aligned to 16 bytes.
      known->second = usedWords = (usedWords + 1) / 2 * 2;
      usedWords += (bytes + 7) / 8;
    }
    return known->second;
  }
  ir::Op &param(int32_t number) {
    for (ir::Op &op : kernel->body().ops())
      if ((op.is(ir::OpKind::Param) || op.is(ir::OpKind::SignalParam)) &&
          op.get(ir::attr::param) == number)
        return op;
    llvm_unreachable("a parameter");
  }
};

struct Launch {
  Team *team;
  Rank *rank;
  [[nodiscard]] Tensor &tensor(int32_t param) const {
    return (*team->tensors)[team->arguments.at(param)];
  }
};
int32_t rtRank(Launch *launch) { return launch->rank->number; }
int32_t rtNumRanks(Launch *launch) { return int32_t(launch->team->ranks.size()); }
int64_t rtEpoch(Launch *launch) { return launch->team->epoch; }
int64_t rtArgDim(Launch *launch, int32_t param, int32_t dim) {
  return launch->tensor(param).sizes[dim];
}
int64_t rtArgStride(Launch *launch, int32_t param, int32_t dim) {
  return host::testing::denseStrides(launch->tensor(param).sizes)[dim];
}
void *rtArgData(Launch *launch, int32_t param) {
  Tensor &tensor = launch->tensor(param);
  if (tensor.isSymmetric)
    return launch->rank->heap.data() + launch->team->place(param, tensor.rankBytes());
  return tensor.bytes.data() + size_t(launch->rank->number) * tensor.rankBytes();
}
void rtArgScalar(Launch *launch, int32_t param, void *out) {
  const size_t number = launch->team->arguments.at(param) - launch->team->tensors->size();
  std::memcpy(out, &(*launch->team->scalars)[number], 8);
}
int32_t rtCheckDim(Launch *, int32_t, int32_t, int64_t x, int64_t y) { return x != y; }
int64_t volume(int32_t ndim, const int64_t *size) {
  return std::accumulate(size, size + ndim, int64_t(1), std::multiplies<int64_t>());
}
int32_t rtScratch(Launch *launch, int32_t param, int32_t ndim, const int64_t *size,
                  dtile_device_object *out) {
  ir::Op &op = launch->team->param(param);
  const int64_t copies = launch::scratchCopies(op);
  out->copy_bytes = volume(ndim, size) * int64_t(dtypeBytes(op.result()->type().dtype()));
  out->copy_bytes = int64_t(llvm::alignTo(uint64_t(out->copy_bytes), 16));
  const size_t place = launch->team->place(param, size_t(out->copy_bytes * copies));
  out->data = launch->rank->heap.data() + place;
  out->turn = &launch->rank->turns[param];
  return 0;
}
int32_t rtSignal(Launch *launch, int32_t param, int32_t ndim, const int64_t *size,
                 dtile_device_cells *out) {
  const auto cells = size_t(volume(ndim, size));
  out->cells = launch->rank->heap.data() + launch->team->place(param, 8 * cells);
  launch->rank->bases[param].resize(DTILE_DEVICE_SINCE_WORDS + 2 * cells);
  launch->rank->asked[param].resize(cells);
  out->since = launch->rank->bases[param].data();
  out->bases = out->since + DTILE_DEVICE_SINCE_WORDS;
  out->asked = launch->rank->asked[param].data();
  traces.addSignal(out->cells, ndim, size);
  engine.addSignal(out->cells, cells, out->since + DTILE_DEVICE_LAUNCH_WORD);
  return 0;
}
void rtEnginePut(Launch *, const dtile_region *source, const dtile_region *target,
                 const dtile_site *) {
  engine.put(*source, *target);
}
void rtEngineNotify(Launch *, const dtile_region *cells) { engine.notify(*cells); }
void rtEngineLeave(Launch *) { engine.problem = "a check fails in a list of transfers"; }
// GCC 12 has no __bf16; it is returned where its _Float16 is.
#if defined(__clang__)
using ReturnedBf16 = __bf16;
#else
using ReturnedBf16 = _Float16;
#endif
ReturnedBf16 toBf16(float value) { return llvm::bit_cast<ReturnedBf16>(f32ToBf16(value)); }

llvm::orc::SymbolMap symbols(llvm::orc::LLJIT &jit) {
  struct Row {
    const char *name;
    void *address;
  };
#define FUNCTION(name, function)                                                                   \
  {                                                                                                \
    name, reinterpret_cast<void *>(function)                                                       \
  }
  static const Row kRows[] = {
      FUNCTION("emu_thread", emuThread),
      FUNCTION("emu_program", emuProgram),
      FUNCTION("emu_barrier", emuBarrier),
      FUNCTION("emu_shuffle", emuShuffle),
      FUNCTION("emu_shuffle_up", emuShuffleUp),
      FUNCTION("emu_multiply", emuMultiply),
      FUNCTION("emu_squares", emuSquares),
      FUNCTION("emu_copy", emuCopy),
      FUNCTION("emu_commit", emuCommit),
      FUNCTION("emu_await", emuAwait),
      FUNCTION("dtile_rt_rank", rtRank),
      FUNCTION("dtile_rt_num_ranks", rtNumRanks),
      FUNCTION("dtile_rt_epoch", rtEpoch),
      FUNCTION("dtile_rt_arg_dim", rtArgDim),
      FUNCTION("dtile_rt_arg_stride", rtArgStride),
      FUNCTION("dtile_rt_arg_data", rtArgData),
      FUNCTION("dtile_rt_arg_scalar", rtArgScalar),
      FUNCTION("dtile_rt_check_dim", rtCheckDim),
      FUNCTION("dtile_rt_device_scratch", rtScratch),
      FUNCTION("dtile_rt_device_signal", rtSignal),
      FUNCTION("dtile_rt_engine_put", rtEnginePut),
      FUNCTION("dtile_rt_engine_notify", rtEngineNotify),
      FUNCTION("dtile_rt_engine_leave", rtEngineLeave),
#define CALL(NAME, SIGNATURE) FUNCTION("dtile_dev_" #NAME, dtile_dev_##NAME),
#include "backend/gpu/device_calls.def"
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

/// A frame stands on the stack of each thread.
constexpr int64_t kFrameRoom = 8 << 10;
struct FrameBytes {
  alignas(DTILE_DEVICE_FRAME_ALIGN) uint8_t bytes[kFrameRoom];
};
using KernelFunctionPointer = void (*)(dtile_device_launch, FrameBytes);

/// As for the emulated device; "" or what is wrong with the result. `isReordered` is set where sums
/// are added up in another order.
std::string inferLayouts(ir::Module &module, bool &isReordered) {
  SourceManager sources;
  Diagnostics diagnostics(sources);
  passes::PassContext context(diagnostics);
  context.facts = &kFacts;
  passes::gatherRows(module, context);
  isReordered = passes::deferReductions(module, context);
  passes::inferLayouts(module, context);
  if (!kIsWide)
    passes::multistageCopies(module, context);
  passes::prefetchLoads(module, context);
  passes::keepRows(module, context);
  if (!kAreMapped)
    passes::sinkNotifies(module, context);
  passes::batchLoads(module, context);
  std::string problems;
  for (const std::string &problem : ir::verify(module))
    problems += problem + "\n";
  return problems;
}

/// What the bodies of the last run have printed.
std::string printed;

/// In which order messages of another host land.
unsigned seed = 0;

/// Runs a kernel in which all tiles have layouts.
std::string runEmulated(ir::Module &module, int ranks, std::vector<Tensor> &tensors, int launches,
                        const std::vector<uint64_t> &scalars) {
  llvm::InitializeNativeTarget();
  llvm::InitializeNativeTargetAsmPrinter();
  auto context = std::make_unique<llvm::LLVMContext>();
  auto hostCode = std::make_unique<llvm::Module>("host", *context);
  auto deviceCode = std::make_unique<llvm::Module>("device", *context);
  auto machine =
      createMachine({.triple = device.triple().str(), .cpu = "x86-64-v3", .features = ""});
  if (!machine)
    return llvm::toString(machine.takeError());
  for (llvm::Module *code : {hostCode.get(), deviceCode.get()}) {
    code->setTargetTriple((*machine)->getTargetTriple());
    code->setDataLayout((*machine)->createDataLayout());
  }
  ir::Op *kernel = module.lookup("k");
  launch::LaunchModule hostModule(module, *hostCode, {}, false);
  GpuModule gpuModule(module, *deviceCode, device,
                      {.areMapped = kAreMapped, .prints = true, .isTraced = traces.isOn()});
  launch::Frame frame(*kernel, launch::FrameKind::Device, kFrameRoom);
  launch::lowerPrologue(hostModule, frame, "prologue")
      ->setLinkage(llvm::GlobalValue::ExternalLinkage);
  const EmulatedEngine::Lists lists = EmulatedEngine::lower(hostModule, frame, *kernel);
  const LoweredKernel lowered = lowerKernel(gpuModule, *kernel, frame, "entry");
  const bool hasWholeWords = frame.tensorMaps().empty() && !lowered.facts.empty();
  if (hasWholeWords) {
    lowerInWholeWords(hostModule, frame, lowered.words, "loading")
        ->setLinkage(llvm::GlobalValue::ExternalLinkage);
    splitByLaunchKind(*deviceCode->getFunction("entry"), lowered.facts,
                      {.own = OwnFunctions::WholeWords});
  }
  Hosts hosts(*kernel, gpuModule.takeMappedSite() >= 0);
  const std::vector<GpuModule::Site> sites = gpuModule.takeSites();
  printed.clear();
  for (ModuleLowering *lowered :
       {static_cast<ModuleLowering *>(&hostModule), static_cast<ModuleLowering *>(&gpuModule)})
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
  // Of launches in whole words; else there are no such functions.
  auto plain = (*jit)->lookup(hasWholeWords ? "entry$plain" : "entry");
  auto loading = (*jit)->lookup(hasWholeWords ? "loading" : "prologue");
  if (!prologue || !entry || !plain || !loading) {
    std::string text = prologue ? "" : llvm::toString(prologue.takeError());
    for (auto *function : {&entry, &plain, &loading})
      text += *function ? "" : llvm::toString(function->takeError());
    return text;
  }

  Team team(ranks);
  std::vector<void *> heaps;
  for (Rank &rank : team.ranks)
    heaps.push_back(rank.heap.data());
  hosts.open(heaps, Team::kHeapWords * 8, seed);
  team.kernel = kernel;
  team.tensors = &tensors;
  team.scalars = &scalars;
  std::map<int32_t, bool> parameters;
  for (ir::Op &op : kernel->body().ops())
    if (op.is(ir::OpKind::ScalarParam) ||
        (op.is(ir::OpKind::Param) && op.get(ir::attr::mode) != ir::ParamMode::Scratch))
      parameters[int32_t(op.get(ir::attr::param))] = true;
  for (const auto &[param, isArgument] : parameters)
    team.arguments.try_emplace(param, team.arguments.size());
  auto copySymmetric = [&](bool in) {
    for (const auto &[param, argument] : team.arguments)
      for (Rank &rank : team.ranks) {
        if (argument >= tensors.size() || !tensors[argument].isSymmetric)
          continue;
        Tensor &tensor = tensors[argument];
        uint8_t *bytes = tensor.bytes.data() + size_t(rank.number) * tensor.rankBytes();
        void *heap = rank.heap.data() + team.place(param, tensor.rankBytes());
        std::memcpy(in ? heap : bytes, in ? bytes : heap, tensor.rankBytes());
      }
  };
  copySymmetric(true);

  // Two programs for each space.
  dtile_device_launch launch = {};
  for (ir::Op &op : kernel->body().ops()) {
    if (op.is(ir::OpKind::Space))
      launch.first_program[launch.programs / 2] = launch.programs, launch.programs += 2;
    if (op.is(ir::OpKind::Param) && op.get(ir::attr::zero))
      launch.flags |= DTILE_KERNEL_ENTRY_BARRIER;
  }
  for (int32_t space = launch.programs / 2; space <= DTILE_DEVICE_MAX_SPACES; ++space)
    launch.first_program[space] = launch.programs;
  if (kernel->get(ir::attr::entry_barrier))
    launch.flags |= DTILE_KERNEL_ENTRY_BARRIER;
  launch.num_ranks = ranks;
  launch.kernel_id = EmulatedTraces::kKernelId;
  const auto sharedBytes = size_t(gpuModule.takeSharedBytes());
  const auto threads = unsigned(kernel->get(ir::attr::threads));
  engine.open(**jit, lists, heaps, Team::kHeapWords * 8);
  launch.engine = engine.spaces();
  for (team.epoch = 0; team.epoch < launches; ++team.epoch) {
    std::vector<std::unique_ptr<FrameBytes>> frames;
    std::vector<std::unique_ptr<EmulatedProgram>> programs, beginnings;
    // Every second launch is sent by programs: both ways leave the same behind.
    const bool isByEngine = team.epoch % 2 == 0;
    for (Rank &rank : team.ranks) {
      Launch arguments{&team, &rank};
      auto &frame = *frames.emplace_back(std::make_unique<FrameBytes>());
      if (prologue->toPtr<int32_t (*)(Launch *, void *)>()(&arguments, frame.bytes) != 0)
        return "the launch is refused";
      const bool isWhole = hasWholeWords && loading->toPtr<int64_t (*)(const void *)>()(
                                                frame.bytes) == DTILE_WHOLE_WORDS;
      const auto run = (isWhole ? plain : entry)->toPtr<KernelFunctionPointer>();
      rank.team.trace = traces.queue(rank.number, launch.programs, rank.heap.data());
      launch.team = &rank.team;
      launch.kernel = &rank.kernel;
      launch.rank = rank.number;
      for (size_t peer = 0; peer < team.ranks.size() && peer < DTILE_DEVICE_NEAR_RANKS; ++peer)
        launch.shift[peer] = int64_t(rank.peers[peer] - rank.peers[size_t(rank.number)]);
      dtile_device_launch words = launch;
      words.engine = isByEngine ? launch.engine : 0;
      if (engine.isUsed()) {
        words.flags |= DTILE_DEVICE_BEGINS;
        auto &program = *beginnings.emplace_back(std::make_unique<EmulatedProgram>());
        program.body = [run, words, &frame] { run(words, frame); };
        words.flags &= ~(DTILE_DEVICE_BEGINS | DTILE_KERNEL_ENTRY_BARRIER);
        if (isByEngine)
          engine.list(&arguments, frame.bytes);
      }
      for (int32_t number = 0; number < launch.programs; ++number) {
        auto &program = *programs.emplace_back(std::make_unique<EmulatedProgram>());
        program.number = number;
        program.body = [run, words, &frame] { run(words, frame); };
      }
    }
    std::string problem = std::exchange(engine.problem, {});
    if (problem.empty() && !beginnings.empty())
      problem = runPrograms(std::move(beginnings), threads, sharedBytes);
    // Side by side with the programs of all ranks.
    for (const auto &list : engine.take())
      programs.emplace_back(std::make_unique<EmulatedProgram>())->body = [list] {
        for (const EmulatedEngine::Copy &copy : list) {
          if (emuThread() == 0)
            std::memcpy(copy.to, copy.from, copy.bytes);
          meet(State::Ready);
        }
      };
    if (problem.empty())
      problem = runPrograms(std::move(programs), threads, sharedBytes);
    traces.read(*kernel, sites);
    for (Rank &rank : team.ranks)
      printed += rank.prints.take(rank.number, *kernel, sites);
    for (const Rank &rank : team.ranks)
      if (problem.empty() && rank.report.state != 0)
        problem = "rank " + std::to_string(rank.number) + " fails at site " +
                  std::to_string(rank.report.site);
    if (problem.empty())
      problem = Hosts::leftBehind();
    if (!problem.empty())
      return problem;
  }
  copySymmetric(false);
  return hosts.problem();
}

} // namespace
} // namespace dtile::backend::gpu::testing

namespace dtile::backend::host::testing {

static bool isNear(const Tensor &seen, const Tensor &wanted, int ranks) {
  for (int64_t i = 0; i < seen.elements() * ranks; ++i)
    if (std::abs(seen.at(i) - wanted.at(i)) > 1e-3 * (1 + std::abs(wanted.at(i))))
      return false;
  return true;
}

std::string takePrinted() { return std::move(gpu::testing::printed); }
void traceEmulated(int64_t events) { gpu::testing::traces.begin(events); }
const runtime::DeviceTrace &emulatedTrace() { return gpu::testing::traces.trace(); }

std::string runEmulated(ir::Module &module, int ranks, std::vector<Tensor> &tensors, int launches,
                        const std::vector<uint64_t> &scalars) {
  std::vector<Tensor> wanted = tensors, again = tensors;
  std::string problem = runInterpreted(module, ranks, wanted, launches, scalars);
  bool isReordered = false;
  if (problem.empty())
    problem = gpu::testing::inferLayouts(module, isReordered);
  if (problem.empty())
    problem = runInterpreted(module, ranks, again, launches, scalars);
  for (size_t i = 0; i < tensors.size() && problem.empty(); ++i)
    if (again[i].bytes != wanted[i].bytes && !(isReordered && isNear(again[i], wanted[i], ranks)))
      problem = "layouts change what argument " + std::to_string(i) + " becomes";
  // With other orders of messages first.
  constexpr unsigned kSeeds = gpu::testing::kAreMapped ? 0 : 2;
  for (gpu::testing::seed = 0; gpu::testing::seed < kSeeds && problem.empty();
       ++gpu::testing::seed) {
    again = tensors;
    problem = gpu::testing::runEmulated(module, ranks, again, launches, scalars);
    for (size_t i = 0; i < tensors.size() && problem.empty(); ++i)
      if (!isNear(again[i], wanted[i], ranks))
        problem = "argument " + std::to_string(i) + " differs with seed " +
                  std::to_string(gpu::testing::seed);
  }
  return problem.empty() ? gpu::testing::runEmulated(module, ranks, tensors, launches, scalars)
                         : problem;
}

} // namespace dtile::backend::host::testing
