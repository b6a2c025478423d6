// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Launches on devices. Modules and objects are made for all local ranks before any of them starts:
// a rank that shares its device with one that waits for it could otherwise not be prepared.
#include "backend/runtime/arguments/launch_query.h"
#include "backend/runtime/arguments/tensor_span.h"
#include "backend/runtime/clock.h"
#include "backend/runtime/device/device_team.h"
#include "backend/runtime/device/packed_image.h"
#include "backend/runtime/processor.h"
#include "backend/runtime/text/report.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <sched.h>

namespace dtile::runtime {

namespace {

/// Launches kept ready a kernel and rank.
constexpr size_t kMostPrepared = 32;

uint64_t hashWords(const std::vector<uint64_t> &words) {
  uint64_t hash = 0x9e3779b97f4a7c15u;
  for (uint64_t word : words) {
    hash = (hash ^ word) * 0xbf58476d1ce4e5b9u;
    hash ^= hash >> 29;
  }
  return hash;
}

uint64_t idOf(const dtile_kernel_desc &desc) {
  return hashBytes(desc.name, int64_t(std::strlen(desc.name)),
                   hashBytes(desc.images[0].data, storedBytes(desc.images[0])));
}

/// Plain accesses reach the peers of any team.
bool isForPeers(const dtile_device_image &image) {
  return std::strcmp(image.shmem, kPeerToPeer) == 0;
}

Status cannotLoadInCapture(const dtile_kernel_desc &desc) {
  return {DTILE_INVALID, format("kernel `%s` cannot be loaded while a graph is captured; launch it "
                                "once before",
                                desc.name)};
}

} // namespace

// ---- Kernels ----

DeviceKernel *DeviceTeam::findKernel(const dtile_kernel_desc &desc) {
  if (&desc != lastDesc_) {
    auto found = kernels_.find(&desc);
    if (found == kernels_.end())
      return nullptr;
    lastDesc_ = &desc;
    lastKernel_ = found->second.get();
  }
  // Where a module was unloaded another kernel may be now.
  const dtile_device_image *image = desc.nimages > 0 ? &desc.images[0] : nullptr;
  if (image && image->data == lastKernel_->imageData && image->bytes == lastKernel_->imageBytes &&
      lastKernel_->state.name == desc.name)
    return lastKernel_;
  lastDesc_ = nullptr;
  return nullptr;
}

Status DeviceTeam::openKernel(const dtile_kernel_desc &desc, std::unique_ptr<DeviceKernel> *out) {
  if (desc.abi_version != DTILE_ABI_VERSION)
    return {DTILE_INVALID, format("the kernel was compiled for version %u of the runtime's ABI, "
                                  "but this library has version %d: compile it again",
                                  desc.abi_version, DTILE_ABI_VERSION)};
  if (desc.nimages == 0)
    return {DTILE_INVALID, format("kernel `%s` has no code for devices: compile it with "
                                  "--target %s",
                                  desc.name, driver_->target())};
  // The prologue runs on the processor.
  if (Status status = checkProcessor(desc, processorFeatures()); !status.ok())
    return status;
  if (desc.nspaces > DTILE_DEVICE_MAX_SPACES)
    return {DTILE_INVALID, format("kernel `%s` has %d roles; at most %d run on a device", desc.name,
                                  desc.nspaces, DTILE_DEVICE_MAX_SPACES)};
  auto kernel = std::make_unique<DeviceKernel>(desc);
  kernel->imageData = desc.images[0].data;
  kernel->imageBytes = desc.images[0].bytes;
  kernel->flags = desc.flags & DTILE_KERNEL_ENTRY_BARRIER;
  kernel->id = idOf(desc);
  for (const dtile_param_desc &param : kernel->state.params)
    if (isScratch(param) && (param.flags & DTILE_PARAM_ZERO) != 0)
      kernel->flags |= DTILE_KERNEL_ENTRY_BARRIER;
  kernel->writesCallersObjects = TurnedMemory::concerns(desc);
  kernel->isTraced = (desc.flags & DTILE_KERNEL_TRACED) != 0;
  kernel->waits = desc.nsignals > 0 || desc.nspaces > 1 || kernel->flags != 0;
  kernel->loaded.resize(locals_.size());
  for (int32_t local = 0; local < localCount(); ++local)
    if (Status status = loadVariants(*kernel, local); !status.ok())
      return status;
  *out = std::move(kernel);
  return {};
}

Status DeviceTeam::loadKernel(const dtile_kernel_desc &desc, DeviceKernel **out) {
  std::unique_ptr<DeviceKernel> kernel;
  if (Status status = openKernel(desc, &kernel); !status.ok())
    return status;
  if (Status status = agreeOnVariants(*kernel); !status.ok())
    return status;
  // Names are those of the kernel that was there before.
  showPrints();
  if ((desc.flags & DTILE_KERNEL_PRINTS) != 0)
    if (Status status = openPrints(); !status.ok())
      return status;
  for (int32_t local = 0; local < localCount(); ++local)
    if (Status status = locals_[size_t(local)]->arena.allocate(
            sizeof(dtile_device_kernel), &kernel->loaded[size_t(local)].counters);
        !status.ok())
      return status;
  for (const LoadedImage &variant : kernel->loaded.front().variants)
    kernel->names.emplace_back(desc, *variant.image);
  kernel->shownName = telemetry_->stringOf(kernel->state.name);
  // Objects of a kernel that was unloaded stay until there is need: peers may still reach them.
  std::unique_ptr<DeviceKernel> &slot = kernels_[&desc];
  lastDesc_ = nullptr;
  if (slot) {
    for (auto &rank : locals_)
      rank->turned.forget(slot->state);
    for (auto &[key, object] : slot->objects) {
      object->kernel = nullptr;
      orphans_.push_back(std::move(object));
    }
  }
  slot = std::move(kernel);
  *out = slot.get();
  return {};
}

Status DeviceTeam::checkProvider(const dtile_device_image &image) const {
  if (isForPeers(image))
    return {};
  const HeapProviderRow *row = findHeapProvider(image.shmem);
  if (!row)
    return {DTILE_UNAVAILABLE, ", but this library has no host side for it: compile it with "
                               "--shmem=p2p"};
  const char *own = providerRow_ ? providerRow_->name : kPeerToPeer;
  if (row != providerRow_)
    return {DTILE_UNAVAILABLE,
            format(", but this team's is `%s`: compile it with --shmem=%s, or make the team with "
                   "shmem = \"%s\" in its options (one process a GPU)",
                   own, own, row->name)};
  return provider_->accepts(image.shmem_version);
}

Status DeviceTeam::checkMapped(const dtile_kernel_desc &desc,
                               const dtile_device_image &image) const {
  const int32_t far = provider_ ? provider_->firstUnmapped() : -1;
  const bool meets = (desc.flags & DTILE_KERNEL_ENTRY_BARRIER) != 0;
  const bool isForAny = !isForPeers(image);
  if (far < 0 || (image.mapped_site < 0 && (isForAny || !meets)))
    return {};
  std::string text, object;
  if (image.mapped_site >= 0 && image.mapped_site < image.nsites) {
    const dtile_site &site = image.sites[image.mapped_site];
    text = siteText(site) + ": ";
    object = *site.what ? format("`%s` of ", site.what) : "";
  }
  text += isForAny ? format("kernel `%s` loads, stores or adds to %sother ranks in place",
                            desc.name, object.c_str())
                   : format("kernel `%s`, which was compiled for the shmem provider `p2p`, "
                            "accesses the memory of other ranks",
                            desc.name);
  return {DTILE_UNAVAILABLE,
          text +
              format(", but the memory of rank %d, on `%s`, is not mapped on rank %d, on `%s`: ",
                     far, job_->member(far).host, job_->rank(), job_->member(job_->rank()).host) +
              (isForAny ? std::string("put or get a region of memory instead, or run it within "
                                      "one host")
                        : format("compile it with --shmem=%s", providerRow_->name))};
}

Status DeviceTeam::lendArguments(const DeviceKernel &kernel, int32_t local,
                                 const dtile_arg *arguments) {
  const DeviceAddress heap = locals_[size_t(local)]->heap;
  for (size_t i = 0; provider_ && i < kernel.state.argumentOf.size(); ++i) {
    const int32_t position = kernel.state.argumentOf[i];
    const dtile_param_desc &param = kernel.state.params[i];
    TensorSpan span;
    if (position < 0 || param.kind != DTILE_PARAM_TENSOR ||
        !measureTensor(param, arguments[position].tensor, &span).ok() ||
        (span.begin >= heap && span.end <= heap + DeviceAddress(heapBytes_)))
      continue;
    if (Status status = provider_->lend(span.begin, span.end); !status.ok()) {
      status.message =
          format("kernel `%s`, `%s`: ", kernel.state.name.c_str(), param.name) + status.message;
      return status;
    }
  }
  return {};
}

// ---- One launch ----

Status DeviceTeam::prepare(DeviceKernel &kernel, int32_t local, const dtile_arg *arguments,
                           const StreamHandle *stream, PreparedLaunch **out) {
  LoadedKernel &loaded = kernel.loaded[size_t(local)];
  signArguments(kernel.state, arguments, signature_);
  uint64_t hash = hashWords(signature_);
  for (auto &prepared : loaded.prepared)
    if (prepared->hash == hash && prepared->signature == signature_) {
      prepared->lastUse = ++useNumber_;
      for (DeviceObject *object : prepared->objects)
        object->heldBy = callNumber_;
      *out = prepared.get();
      return {};
    }
  DeviceRank &rank = *locals_[size_t(local)];
  bool capturing = false;
  if (stream)
    if (Status status = rank.device->isCapturing(*stream, &capturing); !status.ok())
      return status;
  if (Status status = checkDeviceArguments(*rank.device, kernel.state, rank.rank, arguments,
                                           {rank.heap, heapBytes_ + windowBytes_, callers_});
      !status.ok())
    return status;
  if (Status status = lendArguments(kernel, local, arguments); !status.ok())
    return status;
  auto prepared = std::make_unique<PreparedLaunch>();
  prepared->signature = signature_;
  prepared->hash = hash;
  for (size_t i = 0; i < kernel.state.argumentOf.size(); ++i)
    if (const int32_t position = kernel.state.argumentOf[i];
        position >= 0 && kernel.state.params[i].kind == DTILE_PARAM_TENSOR) {
      const auto at = reinterpret_cast<DeviceAddress>(arguments[position].tensor->data);
      if (at >= rank.heap && at < rank.heap + DeviceAddress(heapBytes_ + windowBytes_))
        prepared->arguments.push_back(int64_t(at - rank.heap));
    }
  prepared->variant = chooseVariant(kernel, local, arguments);
  if (Status status = prepareVariant(kernel, local, arguments, capturing, *prepared); !status.ok())
    return status;
  if (loaded.prepared.size() >= kMostPrepared)
    loaded.prepared.erase(
        std::min_element(loaded.prepared.begin(), loaded.prepared.end(),
                         [](const auto &a, const auto &b) { return a->lastUse < b->lastUse; }));
  prepared->lastUse = ++useNumber_;
  *out = prepared.get();
  loaded.prepared.push_back(std::move(prepared));
  return {};
}

Status DeviceTeam::enterTurns(const DeviceKernel &kernel, int32_t local, const dtile_arg *arguments,
                              StreamHandle stream, PreparedLaunch &prepared, bool *entered) {
  *entered = false;
  const bool isResident = prepared.isCaptured || prepared.objects.empty();
  if (!kernel.writesCallersObjects && isResident)
    return {};
  DeviceRank &rank = *locals_[size_t(local)];
  bool isCaptured = false;
  if (Status status = rank.device->isCapturing(stream, &isCaptured); !status.ok())
    return status;
  if (isCaptured && !isResident) {
    for (DeviceObject *object : prepared.objects)
      object->isCaptured = true;
    prepared.isCaptured = true;
  }
  if (!kernel.writesCallersObjects)
    return {};
  prepared.launch.flags = kernel.flags;
  if (!isCaptured && prepared.turnedVersion == rank.turned.version())
    return {};
  TurnedMemory::Entry entry;
  if (Status status =
          rank.turned.enter(kernel.state, arguments, reinterpret_cast<const void *>(rank.heap),
                            rank.rank, isCaptured, &entry);
      !status.ok())
    return status;
  *entered = true;
  prepared.turnedVersion = entry.version;
  if (entry.meets)
    prepared.launch.flags |= DTILE_KERNEL_ENTRY_BARRIER;
  return {};
}

void DeviceTeam::leaveTurns(int32_t local, PreparedLaunch &prepared) {
  locals_[size_t(local)]->turned.leave();
  prepared.turnedVersion = 0;
}

Status DeviceTeam::start(DeviceKernel &kernel, int32_t local, PreparedLaunch &prepared,
                         StreamHandle stream) {
  DeviceRank &rank = *locals_[size_t(local)];
  const LoadedImage &loaded = kernel.loaded[size_t(local)].variants[prepared.variant];
  GridLaunch grid;
  grid.function = prepared.function;
  grid.programs = prepared.launch.programs;
  grid.threads = loaded.image->threads;
  grid.sharedBytes = loaded.image->shared_bytes;
  // Ranks that share a device have to start side by side.
  const bool waits = kernel.waits || prepared.launch.divided != 0;
  grid.cooperative =
      waits && !plainLaunches_ && rank.sharers == 1 && rank.device->facts().cooperative;
  grid.cluster = prepared.cluster;
  grid.parameters[0] = &prepared.launch;
  grid.parameters[1] = prepared.frame.get();
  const int64_t before = nowNs();
  EngineStream *engine = nullptr;
  dtile_device_launch words = prepared.launch;
  if (prepared.begins) {
    if (Status status = beginEngine(local, prepared, grid, stream, &engine); !status.ok())
      return status;
    // Ranks have met.
    words.flags &= ~DTILE_KERNEL_ENTRY_BARRIER;
    grid.parameters[0] = &words;
  }
  if (Status status = rank.device->launch(grid, stream); !status.ok())
    return status;
  if (engine)
    if (Status status = rank.device->follow(engine->stream, stream, engine->event); !status.ok())
      return status;
  if (trace_ && kernel.isTraced)
    trace_->queued(rank.rank, prepared.launch.kernel_id, before, nowNs());
  for (DeviceObject *object : prepared.objects)
    object->lastUse = callNumber_;
  showLaunch(local, kernel);
  return {};
}

Status DeviceTeam::launchOn(int32_t local, const dtile_kernel_desc *desc,
                            const dtile_arg *arguments, int32_t nargs, StreamHandle stream) {
  if (!broken_.ok())
    return broken_;
  if (!desc)
    return {DTILE_INVALID, "the kernel is null"};
  if (Status status = checkLocal(local); !status.ok())
    return status;
  if (aborted())
    return collectFailure({});
  showPrints();
  ++callNumber_;
  if (!registered_.empty())
    if (Status status = translate(local, *desc, &stream, &arguments, nargs); !status.ok())
      return status;
  if (Status status = resolveFamily(local, arguments, nargs, &stream, &desc); !status.ok())
    return status;
  Device &device = *locals_[size_t(local)]->device;
  DeviceKernel *kernel = findKernel(*desc);
  bool capturing = false;
  if (!kernel) {
    if (Status status = device.isCapturing(stream, &capturing); !status.ok())
      return status;
    if (capturing)
      return cannotLoadInCapture(*desc);
    if (Status status = loadKernel(*desc, &kernel); !status.ok())
      return status;
  }
  if (Status status = checkCount(kernel->state, arguments, nargs); !status.ok())
    return status;
  PreparedLaunch *prepared = nullptr;
  if (Status status = prepare(*kernel, local, arguments, &stream, &prepared); !status.ok())
    return status;
  if (Status status = prepareTrace(*kernel, local, prepared->launch.programs, &stream);
      !status.ok())
    return status;
  bool entered = false;
  if (Status status = enterTurns(*kernel, local, arguments, stream, *prepared, &entered);
      !status.ok())
    return status;
  Status status = start(*kernel, local, *prepared, stream);
  if (!status.ok() && entered)
    leaveTurns(local, *prepared);
  return status;
}

// ---- All local ranks ----

Status DeviceTeam::launch(const dtile_kernel_desc *desc, const dtile_arg *const *arguments,
                          int32_t nargs, int32_t count) {
  if (!broken_.ok())
    return broken_;
  if (!desc)
    return {DTILE_INVALID, "the kernel is null"};
  if (count < 0)
    return {DTILE_INVALID, format("%d launches", count)};
  if (nargs > 0 && !arguments)
    return {DTILE_INVALID, "the arguments are null"};
  if (aborted())
    return collectFailure({});
  ++callNumber_;
  // Where memory can be registered, there is one rank.
  const dtile_arg *first = nargs > 0 ? arguments[0] : nullptr;
  if (!registered_.empty() && first) {
    if (Status status = translate(0, *desc, /*stream=*/nullptr, &first, nargs); !status.ok())
      return status;
    arguments = &first;
  }
  if (Status status =
          resolveFamily(0, nargs > 0 ? arguments[0] : nullptr, nargs, /*stream=*/nullptr, &desc);
      !status.ok())
    return status;
  DeviceKernel *kernel = findKernel(*desc);
  if (!kernel)
    if (Status status = loadKernel(*desc, &kernel); !status.ok())
      return status;
  std::vector<PreparedLaunch *> prepared(locals_.size());
  for (int32_t local = 0; local < localCount(); ++local) {
    const dtile_arg *own = nargs > 0 ? arguments[local] : nullptr;
    if (Status status = checkCount(kernel->state, own, nargs); !status.ok())
      return status;
    if (Status status = prepare(*kernel, local, own, /*stream=*/nullptr, &prepared[size_t(local)]);
        !status.ok())
      return status;
    if (Status status = prepareTrace(*kernel, local, prepared[size_t(local)]->launch.programs,
                                     /*stream=*/nullptr);
        !status.ok())
      return status;
  }
  // A rank that cannot be started leaves the others waiting for it.
  for (int32_t i = 0; i < count; ++i) {
    std::vector<int32_t> entered;
    for (int32_t local = 0; local < localCount(); ++local) {
      bool isIn = false;
      Status status = enterTurns(*kernel, local, nargs > 0 ? arguments[local] : nullptr,
                                 locals_[size_t(local)]->stream, *prepared[size_t(local)], &isIn);
      if (isIn)
        entered.push_back(local);
      if (status.ok())
        continue;
      for (const int32_t earlier : entered)
        leaveTurns(earlier, *prepared[size_t(earlier)]);
      return status;
    }
    for (int32_t local = 0; local < localCount(); ++local)
      if (Status status =
              start(*kernel, local, *prepared[size_t(local)], locals_[size_t(local)]->stream);
          !status.ok())
        return collectFailure(std::move(status));
  }
  return waitForAll();
}

Status DeviceTeam::waitForAll() {
  for (bool allDone = false; !allDone;) {
    allDone = true;
    for (auto &rank : locals_) {
      bool done = false;
      if (Status status = rank->device->poll(rank->stream, &done); !status.ok())
        return collectFailure(std::move(status));
      allDone &= done;
    }
    showPrints();
    if (!allDone)
      sched_yield();
  }
  return haveEnded();
}

Status DeviceTeam::synchronize() {
  if (!broken_.ok())
    return broken_;
  for (auto &rank : locals_)
    if (Status status = rank->device->synchronizeAll(); !status.ok())
      return collectFailure(std::move(status));
  return haveEnded();
}

Status DeviceTeam::haveEnded() {
  if (aborted())
    return collectFailure({});
  readTraces();
  showPrints();
  tellLostPrints();
  telemetry_->queuesEnded();
  return {};
}

} // namespace dtile::runtime
