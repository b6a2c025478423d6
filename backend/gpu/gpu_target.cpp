// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Device code of a module, its prologues, and the images that hold it.
#include "backend/gpu/gpu_target.h"

#include "backend/gpu/body_cost.h"
#include "backend/gpu/device_library.h"
#include "backend/gpu/divided_bodies.h"
#include "backend/gpu/engine_copies.h"
#include "backend/gpu/gpu_module.h"
#include "backend/gpu/launch_estimate.h"
#include "backend/gpu/paired_bodies.h"
#include "backend/gpu/space_facts.h"
#include "backend/gpu/staged/lower_staged.h"
#include "backend/launch/pack_image.h"
#include "backend/launch/package.h"
#include "backend/llvm/emit.h"
#include "frontend/base/check.h"
#include "frontend/base/parallel.h"
#include "ir/analysis/engine_copies.h"
#include "ir/machine/timing_fields.h"
#include "ir/model/promised_limit.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Bitcode/BitcodeReader.h"
#include "llvm/Bitcode/BitcodeWriter.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/MemoryBuffer.h"

#include <cmath>

namespace dtile::backend::gpu {

using ir::Op;
using ir::OpKind;

namespace {

/// One kernel's code and what its image says of it.
struct Compiled {
  std::string kernel;
  /// Its function, or that of other launches than those of a kind (launch_kinds.h).
  std::string entry;
  ir::Op *source = nullptr;
  launch::DeviceImage image;
  llvm::SmallVector<LaunchFact, 8> facts;
  WholeWords words;
  KernelFunctions functions;
};

/// What estimates of times need (lowerCost), and bodies may not.
void captureLimits(Op &kernel, launch::Frame &frame) {
  for (Op &space : kernel.body().ops())
    if (space.is(OpKind::Space))
      ir::walk(space.body(), [&](Op &op) {
        if (ir::Value *limit = model::promisedLimit(op))
          frame.capture(limit);
      });
}

/// A module's code for one device, and its host side in another LLVM module.
class DeviceCompiler {
public:
  DeviceCompiler(const Device &device, const TargetOptions &options, ir::Module &source,
                 llvm::Module &host, launch::VectorUnit vectors)
      : device_(device), options_(options), source_(source),
        host_(source, host, vectors, /*debugInfo=*/false),
        code_(std::make_unique<llvm::Module>("dtile", host.getContext())) {}

  /// Makes the code, not yet optimized.
  llvm::Error run();
  /// Optimizes all of it at once.
  void optimizeAll();
  /// Images of each kernel, which are optimized and assembled side by side. In the kernels' order,
  /// and of each the best first.
  llvm::Expected<std::vector<Image>> images(const Vendor &vendor);
  [[nodiscard]] llvm::Module &code() { return *code_; }
  [[nodiscard]] llvm::TargetMachine &machine() { return *machine_; }
  [[nodiscard]] launch::LaunchModule &host() { return host_; }
  [[nodiscard]] std::vector<Compiled> &kernels() { return kernels_; }

private:
  void lowerKernel(GpuModule &module, Op &kernel);
  /// For kernels whose frames have at most so many bytes.
  [[nodiscard]] llvm::Expected<std::unique_ptr<llvm::TargetMachine>>
  newMachine(int64_t frameBytes) const;
  /// Of one kernel, in the bitcode of all.
  llvm::Expected<std::vector<Image>> imagesOf(const Vendor &vendor, llvm::StringRef bitcode,
                                              const Compiled &kernel) const;

  const Device &device_;
  const TargetOptions &options_;
  ir::Module &source_;
  launch::LaunchModule host_;
  std::unique_ptr<llvm::Module> code_;
  std::unique_ptr<llvm::TargetMachine> machine_;
  std::vector<Compiled> kernels_;
};

void DeviceCompiler::lowerKernel(GpuModule &module, Op &kernel) {
  const std::string name = kernel.get(ir::attr::name).str();
  const std::string prefix = "dtile." + name + "." + device_.arch().str();
  launch::Frame frame(kernel, launch::FrameKind::Device, frameRoom(device_));
  requestTensorMaps(kernel, frame);
  captureLimits(kernel, frame);

  Compiled &compiled = kernels_.emplace_back();
  compiled.kernel = launch::entryOf(kernel).str();
  compiled.source = &kernel;
  launch::DeviceImage &image = compiled.image;
  image.prologue = launch::lowerPrologue(host_, frame, prefix + ".prologue");
  compiled.entry = name;
  image.threads = int32_t(launchedThreads(kernel));
  image.variant = int32_t(kernel.getOr(ir::attr::variant, 0));
  image.protocol = int32_t(kernel.getOr(ir::attr::protocol, 0));
  if (kernel.has(ir::attr::constants))
    image.constants = kernel.get(ir::attr::constants).str();
  const TargetFacts &machine = options_.machine ? *options_.machine : device_.facts();
  image.machine = differences(machine.timing, device_.facts().timing);
  image.launchTime = launchTime(kernel, machine);
  image.pairTime = int32_t(machine.timing.pairStart);
  image.linkRate = std::max(int32_t(std::lround(machine.timing.linkRate)), 1);
  LoweredKernel lowered = gpu::lowerKernel(module, kernel, frame, name);
  compiled.facts = std::move(lowered.facts);
  compiled.words = std::move(lowered.words);
  const auto isLarge = [&] {
    const auto count = [&](OpKind kind) {
      return llvm::count_if(kernel.body().ops(), [&](const Op &op) { return op.is(kind); });
    };
    return count(OpKind::SignalParam) > 0 || count(OpKind::Space) > 1;
  };
  if (frame.tensorMaps().empty())
    compiled.functions.own = OwnFunctions::WholeWords;
  else if (isLarge())
    compiled.functions.own = OwnFunctions::Plain;
  compiled.functions.wholeWords = kernel.get(ir::attr::whole_words);
  for (auto [row, entry] :
       llvm::zip_equal(image.entries, entriesOf(name, compiled.facts, compiled.functions)))
    row = entry;
  image.target = device_.vendor().str();
  image.arch = device_.arch().str();
  image.shmem = options_.shmem;
  image.frameBytes = int64_t(llvm::alignTo(uint64_t(frame.bytes()), DTILE_DEVICE_FRAME_ALIGN));
  image.sharedBytes = int32_t(module.takeSharedBytes());
  for (const Op &op : kernel.body().ops())
    if (op.is(OpKind::Param) && op.get(ir::attr::mode) == ir::ParamMode::Scratch)
      image.scratch.push_back({.param = int32_t(op.get(ir::attr::param)),
                               .copies = int32_t(launch::scratchCopies(op)),
                               .flagged = op.get(ir::attr::ll) ? 1 : 0,
                               .reserved = 0});
  for (Op &op : kernel.body().ops()) {
    if (!op.is(OpKind::Space))
      continue;
    llvm::StringRef space = op.get(ir::attr::name);
    const std::string part = prefix + "." + (space.empty() ? "body" : space.str());
    image.counts.push_back(launch::lowerCount(host_, frame, op, part + ".count"));
    image.weights.push_back(lowerCost(host_, frame, op, machine, part + ".weight"));
    image.latencies.push_back(lowerLatency(host_, frame, op, machine, part + ".latency"));
    image.shared.push_back(lowerSharedCost(host_, frame, op, machine, part + ".shared"));
    image.remoteBytes.push_back(lowerRemoteBytes(host_, frame, op, machine, part + ".remote"));
    image.spaces.push_back(spaceFacts(op, machine));
    if (ir::usesCopyEngine(kernel))
      image.engine.push_back(op.get(ir::attr::engine_copies)
                                 ? lowerEngineCopies(host_, frame, op, part + ".engine")
                                 : host_.null());
    if (mayPairBodies(op)) {
      image.paired = lowerPairedCount(host_, frame, op, part + ".paired");
      image.pairedWeight = lowerPairedCost(host_, frame, op, machine, part + ".paired_weight");
    }
  }
  image.partialBytes = partialBytes(kernel, bodyThreads(kernel));
  if (!frame.tensorMaps().empty())
    image.loading = lowerByTma(host_, frame, prefix + ".loading");
  else if (!compiled.facts.empty())
    image.loading = lowerInWholeWords(host_, frame, compiled.words, prefix + ".loading");
  image.mappedSite = module.takeMappedSite();
  for (const GpuModule::Site &site : module.takeSites())
    image.sites.push_back(host_.siteValue(*site.op, site.what));
}

llvm::Expected<std::unique_ptr<llvm::TargetMachine>>
DeviceCompiler::newMachine(int64_t frameBytes) const {
  return createMachine(
      {.triple = device_.triple().str(),
       .cpu = device_.arch().str(),
       .features = device_.features(dtile_device_parameter_bytes(frameBytes)).str(),
       .optLevel = options_.optLevel});
}

llvm::Error DeviceCompiler::run() {
  auto machine = newMachine(/*frameBytes=*/0);
  if (!machine)
    return machine.takeError();
  machine_ = std::move(*machine);
  code_->setTargetTriple(machine_->getTargetTriple());
  code_->setDataLayout(machine_->createDataLayout());
  {
    PhaseScope phase("generating device code");
    GpuModule module(source_, *code_, device_,
                     {.debugInfo = options_.debugInfo,
                      .areMapped = options_.shmem == "p2p",
                      .isBatchInvariant = options_.isBatchInvariant,
                      .prints = options_.prints,
                      .isTraced = options_.isTraced});
    for (Op &op : source_.body().ops())
      if (op.is(OpKind::Kernel))
        lowerKernel(module, op);
    module.debug.finish();
    if (llvm::Error error = module.takeError())
      return error;
    for (const Compiled &kernel : kernels_)
      splitByLaunchKind(*code_->getFunction(kernel.entry), kernel.facts, kernel.functions);
  }
  if (llvm::Error error = host_.takeError())
    return error;
  // Frames are known now.
  int64_t frameBytes = 0;
  for (const Compiled &kernel : kernels_)
    frameBytes = std::max(frameBytes, kernel.image.frameBytes);
  if (auto forAll = newMachine(frameBytes))
    machine_ = std::move(*forAll);
  else
    return forAll.takeError();
  if (llvm::Error error = verifyModule(*code_))
    return error;
  PhaseScope phase("linking device code");
  llvm::Expected<int32_t> version =
      linkDeviceLibrary(*code_, device_, {.name = options_.shmem, .path = options_.shmemPath});
  if (!version)
    return version.takeError();
  for (Compiled &kernel : kernels_)
    kernel.image.shmemVersion = *version;
  return llvm::Error::success();
}

void DeviceCompiler::optimizeAll() {
  PhaseScope phase("optimizing device code");
  optimize(*code_, *machine_, options_.optLevel);
}

llvm::Expected<std::vector<Image>> DeviceCompiler::imagesOf(const Vendor &vendor,
                                                            llvm::StringRef bitcode,
                                                            const Compiled &kernel) const {
  PhaseScope phase("optimizing device code");
  // Contexts are not shared by threads.
  llvm::LLVMContext context;
  auto module = llvm::getLazyBitcodeModule(llvm::MemoryBufferRef(bitcode, "dtile"), context);
  if (!module)
    return module.takeError();
  for (const Compiled &other : kernels_)
    for (const std::string &entry : other.image.entries)
      if (llvm::Function *function = (*module)->getFunction(entry);
          function && other.entry != kernel.entry)
        function->eraseFromParent();
  if (llvm::Error error = (*module)->materializeAll())
    return error;
  auto machine = newMachine(kernel.image.frameBytes);
  if (!machine)
    return machine.takeError();
  optimize(**module, **machine, options_.optLevel);
  auto images = vendor.images(**module, **machine, device_, options_.assemble);
  if (images)
    for (Image &image : *images)
      image.entry = kernel.entry;
  return images;
}

llvm::Expected<std::vector<Image>> DeviceCompiler::images(const Vendor &vendor) {
  llvm::SmallString<0> bitcode;
  {
    llvm::raw_svector_ostream os(bitcode);
    llvm::WriteBitcodeToFile(*code_, os);
  }
  std::vector<std::vector<Image>> made(kernels_.size());
  std::vector<llvm::Error> errors;
  for (size_t i = 0; i < made.size(); ++i)
    errors.push_back(llvm::Error::success());
  inParallel(made.size(), [&](size_t i) {
    llvm::cantFail(std::move(errors[i]));
    auto images = imagesOf(vendor, bitcode, kernels_[i]);
    errors[i] = images ? llvm::Error::success() : images.takeError();
    if (images)
      made[i] = std::move(*images);
  });
  std::vector<Image> all;
  // The first error is told, whichever came first.
  llvm::Error error = llvm::Error::success();
  for (llvm::Error &one : errors)
    if (error)
      llvm::consumeError(std::move(one));
    else
      error = std::move(one);
  if (error)
    return error;
  for (std::vector<Image> &images : made)
    llvm::move(images, std::back_inserter(all));
  for (Image &image : all)
    if (llvm::Error failure = vendor.finish(image))
      return failure;
  if (options_.packImages)
    inParallel(all.size(), [&](size_t i) { all[i].packed = launch::packImage(all[i].bytes); });
  return all;
}

/// Does without variants whose code would take too long to make, where their kernel has others.
llvm::Error leaveOut(llvm::ArrayRef<Compiled> kernels, const llvm::StringMap<std::string> &tooLong,
                     launch::Package &package) {
  // What an image of all kernels would hold.
  if (const auto all = tooLong.find(""); all != tooLong.end())
    return llvm::createStringError(all->second);
  for (const Compiled &kernel : kernels) {
    const auto missing = tooLong.find(kernel.entry);
    if (missing == tooLong.end())
      continue;
    const bool hasOther = llvm::any_of(kernels, [&](const Compiled &other) {
      return other.kernel == kernel.kernel && !tooLong.contains(other.entry);
    });
    if (!hasOther)
      return llvm::createStringError("`" + kernel.kernel + "`: " + missing->second);
    package.leaveOut("the variant of `" + kernel.kernel + "` with " + kernel.image.constants,
                     missing->second);
  }
  return llvm::Error::success();
}

/// Bytes of a thread that are stored and loaded where no main loop is: what roles that copy hold,
/// or what is kept for the end. ag_gemm of 128x256 has 2084 of them, none in its main loop;
/// products of 256x256, whose sums do not fit, have 4000 (f32) to 6400.
constexpr int64_t kFewSpilledBytes = 3000;

/// What the assembler has found that a user sees as time; empty where it is nothing.
std::string whySlow(const KernelStats &stats) {
  std::string why;
  const auto add = [&](const std::string &words) { why += (why.empty() ? "" : "; ") + words; };
  if (const int64_t bytes = stats.spillStores + stats.spillLoads; bytes > kFewSpilledBytes)
    add("each thread stores " + std::to_string(stats.spillStores) +
        " bytes of registers to memory, and loads " + std::to_string(stats.spillLoads) +
        ", as its tiles do not fit: smaller ones do");
  if (!stats.loss.empty())
    add(stats.loss);
  return why;
}

/// Tells of the code of each kernel what makes it slow.
void warnOfSlow(llvm::ArrayRef<Compiled> kernels, const Image &image, llvm::StringRef arch,
                launch::Package &package) {
  for (const Compiled &kernel : kernels)
    for (const KernelStats &stats : image.stats)
      if (const std::string why = stats.entry == kernel.entry ? whySlow(stats) : ""; !why.empty()) {
        const std::string &constants = kernel.image.constants;
        package.warn(kernel.source->loc(), "`" + kernel.kernel + "`" +
                                               (constants.empty() ? "" : " with " + constants) +
                                               " on " + arch.str() + ": " + why);
      }
}

/// A table of a line a kernel.
void writeStats(llvm::ArrayRef<KernelStats> stats, llvm::ArrayRef<Compiled> kernels,
                llvm::raw_ostream &os) {
  size_t width = std::size("kernel") - 1;
  for (const Compiled &kernel : kernels)
    width = std::max(width, kernel.kernel.size());
  os << llvm::left_justify("kernel", width)
     << "  threads  registers  spill-stores  spill-loads  stack  shared\n";
  for (const Compiled &kernel : kernels) {
    const auto *found =
        llvm::find_if(stats, [&](const KernelStats &stat) { return stat.entry == kernel.entry; });
    const KernelStats none;
    const KernelStats &stat = found == stats.end() ? none : *found;
    os << llvm::left_justify(kernel.kernel, width)
       << llvm::format("  %7d  %9d  %12d  %11d  %5d  %6d\n", kernel.image.threads,
                       int(stat.registers), int(stat.spillStores), int(stat.spillLoads),
                       int(stat.stack), int(stat.shared + kernel.image.sharedBytes));
    if (!stat.loss.empty())
      os << "  " << kernel.kernel << ": " << stat.loss << '\n';
  }
}

} // namespace

GpuTarget::GpuTarget(llvm::StringLiteral name, llvm::StringLiteral summary, const Vendor &vendor)
    : Target(name, summary), vendor_(vendor) {
  for (const Device *device : vendor.devices())
    archs_.push_back(device->arch());
}

const Device *GpuTarget::find(llvm::StringRef arch) const {
  llvm::ArrayRef<const Device *> devices = vendor_.devices();
  if (arch.empty())
    return devices.front();
  const auto *found =
      llvm::find_if(devices, [&](const Device *device) { return device->arch() == arch; });
  return found == devices.end() ? nullptr : *found;
}

llvm::Expected<const Device *> GpuTarget::require(llvm::StringRef arch) const {
  if (const Device *device = find(arch))
    return device;
  return llvm::createStringError("`" + arch + "` is no architecture of target `" + name() +
                                 "`, which has " + llvm::join(archs_, ", "));
}

const TargetFacts *GpuTarget::facts(llvm::StringRef arch) const {
  const Device *device = find(arch);
  return device ? &device->facts() : nullptr;
}

std::unique_ptr<LaunchEstimate> GpuTarget::estimate(Op &kernel, const TargetFacts *machine) const {
  return machine ? std::make_unique<GpuLaunchEstimate>(kernel, *machine) : nullptr;
}

bool GpuTarget::canEmit(EmitKind kind) const {
  return kind == EmitKind::Obj || kind == EmitKind::LlvmIr || kind == EmitKind::Bitcode ||
         vendor_.canEmit(kind);
}

llvm::Error GpuTarget::addTo(launch::Package &package, ir::Module &module,
                             const TargetOptions &options) const {
  auto device = require(options.arch);
  if (!device)
    return device.takeError();
  vendor_.initializeLlvm();
  DeviceCompiler compiler(**device, options, module, package.module(), package.vectors());
  if (llvm::Error error = compiler.run())
    return error;
  auto images = compiler.images(vendor_);
  if (!images)
    return images.takeError();
  llvm::StringMap<std::string> tooLong;
  for (const Image &image : *images)
    if (!image.tooLong.empty())
      tooLong[image.entry] = image.tooLong;
  if (llvm::Error error = leaveOut(compiler.kernels(), tooLong, package))
    return error;
  for (const Image &image : *images) {
    if (!image.tooLong.empty())
      continue;
    warnOfSlow(compiler.kernels(), image, (*device)->arch(), package);
    std::string name = ("dtile." + (*device)->arch() + ".image").str();
    name += image.entry.empty() ? "" : "." + image.entry;
    llvm::Constant *data =
        compiler.host().bytes(name, image.packed.empty() ? image.bytes : image.packed);
    for (const Compiled &kernel : compiler.kernels()) {
      const std::string &entry = kernel.entry;
      if (tooLong.contains(entry) || (!image.entry.empty() && image.entry != entry))
        continue;
      launch::DeviceImage row = kernel.image;
      row.format = image.format;
      row.data = data;
      row.bytes = int64_t(image.bytes.size());
      row.packedBytes = int64_t(image.packed.size());
      launch::KernelCode &code = package.code(kernel.kernel);
      code.include(*kernel.source, /*isForDevice=*/true);
      code.flags |= options.isTraced ? DTILE_KERNEL_TRACED : 0;
      code.images.push_back(std::move(row));
    }
  }
  return llvm::Error::success();
}

llvm::Error GpuTarget::emit(ir::Module &module, const TargetOptions &options, EmitKind kind,
                            llvm::raw_pwrite_stream &os) const {
  auto package = launch::Package::create({.optLevel = options.optLevel});
  if (!package)
    return package.takeError();
  if (kind == EmitKind::Obj) {
    if (llvm::Error error = addTo(**package, module, options))
      return error;
    if (llvm::Error error = (*package)->finish(module))
      return error;
    return (*package)->emit(kind, os);
  }
  auto device = require(options.arch);
  if (!device)
    return device.takeError();
  vendor_.initializeLlvm();
  DeviceCompiler compiler(**device, options, module, (*package)->module(), (*package)->vectors());
  if (llvm::Error error = compiler.run())
    return error;
  compiler.optimizeAll();
  switch (kind) {
  case EmitKind::Obj:
  case EmitKind::LlvmIr:
  case EmitKind::Bitcode:
    return emitModule(compiler.code(), compiler.machine(), kind, os);
  case EmitKind::Asm:
  case EmitKind::Ptx:
  case EmitKind::Cubin:
  case EmitKind::Hsaco: {
    auto text = vendor_.file(compiler.code(), compiler.machine(), **device, kind);
    if (!text)
      return text.takeError();
    os << *text;
    return llvm::Error::success();
  }
  case EmitKind::Stats: {
    auto stats = vendor_.stats(compiler.code(), compiler.machine(), **device);
    if (!stats)
      return stats.takeError();
    writeStats(*stats, compiler.kernels(), os);
    return llvm::Error::success();
  }
  }
  DTILE_UNREACHABLE("unknown kind of output");
}

} // namespace dtile::backend::gpu
