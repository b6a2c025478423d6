// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Making and ending a team of devices, and its symmetric memory.
//
// In one process each rank's heap is plain device memory that all devices may access. Between
// processes each rank makes its heap of shareable memory and maps everybody else's, so a heap
// begins at other addresses in each process, and the table of peers says where.
#include "backend/runtime/device/device_team.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>

namespace dtile::runtime {

namespace {

constexpr int64_t kDefaultHeapBytes = int64_t(256) << 20;
constexpr int32_t kDefaultTimeoutMs = 60'000;
// The abort word has a line of its own, and so has each report.
constexpr int64_t kLine = 128;
constexpr int64_t kReportBytes = (int64_t(sizeof(dtile_device_report)) + kLine - 1) / kLine * kLine;

} // namespace

Status DeviceTeam::create(std::unique_ptr<DeviceDriver> driver, DeviceTeamConfig config,
                          std::unique_ptr<DeviceTeam> *out) {
  std::unique_ptr<DeviceTeam> team(new DeviceTeam());
  team->driver_ = std::move(driver);
  if (Status status = team->open(std::move(config)); !status.ok())
    return status;
  *out = std::move(team);
  return {};
}

Status DeviceTeam::open(DeviceTeamConfig config) {
  job_ = std::move(config.job);
  ranks_ = job_ ? job_->ranks() : int32_t(config.ordinals.size());
  timeoutMs_ = config.timeoutMs > 0 ? config.timeoutMs : kDefaultTimeoutMs;
  plainLaunches_ = config.plainLaunches;
  heapBytes_ = config.symmetricBytes > 0 ? config.symmetricBytes : kDefaultHeapBytes;
  if (const int64_t least = int64_t(ranks_) * 8 + SymmetricHeap::kAlignment; heapBytes_ < least)
    return {DTILE_OUT_OF_MEMORY,
            format("a symmetric heap of %lld bytes is too small for a team of %d ranks, which "
                   "needs %lld itself: raise symmetric_bytes",
                   static_cast<long long>(heapBytes_), ranks_, static_cast<long long>(least))};
  for (size_t i = 0; i < config.ordinals.size(); ++i) {
    if (Status status = openRank(int32_t(i), config.ordinals[i]); !status.ok())
      return status;
    locals_.back()->sharers =
        int32_t(std::count(config.ordinals.begin(), config.ordinals.end(), config.ordinals[i]));
  }
  for (auto &one : locals_)
    for (auto &other : locals_)
      if (Status status = one->device->reach(*other->device); !status.ok())
        return status;
  providerRow_ = config.provider;
  if (Status status = providerRow_ ? startProvider(config.providerHome) : openHeaps(); !status.ok())
    return status;
  if (Status status = openControl(); !status.ok())
    return status;
  heap_ = SymmetricHeap(0, heapBytes_);
  meetingOffset_ = heap_.allocate(int64_t(ranks_) * 8);
  for (auto &rank : locals_)
    if (Status status = uploadTeam(*rank); !status.ok())
      return status;
  if (Status status = beginTelemetry(); !status.ok())
    return status;
  // Nobody may write into a heap that is still being zeroed.
  Status met = job_ ? job_->meet("the creation of the team") : Status();
  isOpen_ = met.ok();
  return met;
}

Status DeviceTeam::openRank(int32_t local, int32_t ordinal) {
  if (ordinal < 0 || ordinal >= driver_->count())
    return {DTILE_UNAVAILABLE,
            format("rank %d wants GPU %d, but there %s %d: ask for fewer ranks, or let ranks share "
                   "GPUs",
                   firstLocal() + local, ordinal, driver_->count() == 1 ? "is only" : "are only",
                   driver_->count())};
  auto rank = std::make_unique<DeviceRank>();
  rank->rank = firstLocal() + local;
  if (Status status = driver_->open(ordinal, &rank->device); !status.ok())
    return status;
  if (Status status = rank->device->createStream(&rank->stream); !status.ok())
    return status;
  rank->arena.open(*rank->device, rank->stream);
  rank->launch.rank = rank->rank;
  rank->launch.local = local;
  locals_.push_back(std::move(rank));
  return {};
}

Status DeviceTeam::openHeaps() {
  if (job_ && job_->hasSeveralHosts())
    return reachesOneHost();
  if (job_)
    return openSharedHeap();
  for (auto &rank : locals_) {
    if (Status status = rank->device->allocate(heapBytes_, &rank->heap); !status.ok()) {
      if (status.code == DTILE_OUT_OF_MEMORY)
        status.message = format("GPU %d has no room for a symmetric heap of %lld bytes: lower "
                                "symmetric_bytes",
                                rank->device->facts().ordinal, static_cast<long long>(heapBytes_));
      return status;
    }
  }
  if (Status status = zeroHeaps(0, heapBytes_); !status.ok())
    return status;
  for (auto &rank : locals_)
    for (auto &peer : locals_) {
      (void)peer;
      rank->mapped.push_back(0);
    }
  return {};
}

Status DeviceTeam::reachesOneHost() const {
  int32_t other = 0;
  while (job_->isOnSameHost(other))
    ++other;
  const HeapProviderRow *further = providerBetweenHosts(driver_->target());
  return {DTILE_UNAVAILABLE,
          format("the job has ranks on several hosts (rank %d on `%s`, rank %d on `%s`), and the "
                 "shmem provider p2p reaches one host only",
                 job_->rank(), job_->member(job_->rank()).host, other, job_->member(other).host) +
              (further ? format(": use %s (shmem of the team's options, or DTILE_SHMEM=%s)",
                                further->name, further->name)
                       : std::string(": no provider for these GPUs reaches further"))};
}

Status DeviceTeam::openSharedHeap() {
  DeviceRank &own = *locals_.front();
  int descriptor = -1;
  Status status = own.device->allocateShared(&heapBytes_, &own.heap, &descriptor);
  if (status.ok())
    status = zeroHeaps(0, heapBytes_);
  // Whether all got so far is known before descriptors are passed.
  int64_t size = status.ok() ? heapBytes_ : -1;
  std::vector<int64_t> sizes(static_cast<size_t>(ranks_));
  if (Status met = job_->allGather(&size, sizeof size, sizes.data(), "the symmetric heaps");
      !met.ok())
    return status.ok() ? met : status;
  for (int32_t rank = 0; rank < ranks_ && status.ok(); ++rank)
    if (sizes[size_t(rank)] != heapBytes_)
      status = {DTILE_INVALID,
                sizes[size_t(rank)] < 0
                    ? format("rank %d could not make its symmetric heap", rank)
                    : format("ranks %d and %d ask for symmetric heaps of different sizes", own.rank,
                             rank)};
  std::vector<int> descriptors;
  if (status.ok())
    status = job_->exchange(descriptor, &descriptors, "the symmetric heaps");
  own.mapped.assign(size_t(ranks_), 0);
  for (int32_t rank = 0; rank < ranks_ && status.ok(); ++rank)
    if (rank != own.rank)
      status =
          own.device->mapShared(descriptors[size_t(rank)], heapBytes_, &own.mapped[size_t(rank)]);
  // As much after the heaps as all of them have free.
  windowBytes_ = status.ok() ? own.device->spareBehind(own.heap) : 0;
  for (int32_t rank = 0; rank < ranks_ && status.ok(); ++rank)
    if (rank != own.rank)
      windowBytes_ = std::min(windowBytes_, own.device->spareBehind(own.mapped[size_t(rank)]));
  window_ = SymmetricHeap(heapBytes_, heapBytes_ + windowBytes_);
  for (int each : descriptors)
    if (each >= 0)
      close(each);
  if (descriptor >= 0)
    close(descriptor);
  return status;
}

Status DeviceTeam::startProvider(const std::string &home) {
  DeviceRank &own = *locals_.front();
  if (Status status = providerRow_->start(home, *own.device, *job_, heapBytes_, &provider_);
      !status.ok())
    return status;
  own.heap = provider_->heap();
  return zeroHeaps(0, heapBytes_);
}

Status DeviceTeam::openControl() {
  controlBytes_ = kLine + kReportBytes * ranks_;
  if (!job_) {
    // One place for all: what is pinned for one device is for all others too.
    DeviceRank &first = *locals_.front();
    if (Status status = first.device->allocatePinned(controlBytes_, &first.control); !status.ok())
      return status;
    control_ = first.control.host;
    for (auto &rank : locals_)
      rank->control = first.control;
    return {};
  }
  // One a host; the watch hands on between them.
  controlBytes_ = (controlBytes_ + 4095) / 4096 * 4096;
  int file = memfd_create("dtile-control", MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, controlBytes_) != 0)
    return {DTILE_OUT_OF_MEMORY, "no memory for the control block of the job"};
  std::vector<int> files;
  Status status = job_->exchange(file, &files, "the control block");
  if (status.ok()) {
    // That of the host's first rank is everybody's.
    const int first = *std::find_if(files.begin(), files.end(), [](int each) { return each >= 0; });
    void *memory =
        mmap(nullptr, size_t(controlBytes_), PROT_READ | PROT_WRITE, MAP_SHARED, first, 0);
    if (memory == MAP_FAILED)
      status = {DTILE_OUT_OF_MEMORY, "cannot map the control block of the job"};
    else
      control_ = memory;
  }
  for (int each : files)
    if (each >= 0)
      close(each);
  close(file);
  if (!status.ok())
    return status;
  DeviceRank &own = *locals_.front();
  listener_ = std::make_unique<ControlListener>(control_, static_cast<char *>(control_) + kLine,
                                                kReportBytes, ranks_);
  job_->watch().attach(listener_.get(), job_->hasSeveralHosts());
  return own.device->pin(control_, controlBytes_, &own.control);
}

DeviceAddress DeviceTeam::heapAt(const DeviceRank &rank, int32_t peer) const {
  if (peer == rank.rank)
    return rank.heap;
  if (provider_)
    return provider_->peer(peer);
  return job_ ? rank.mapped[size_t(peer)] : locals_[size_t(peer)]->heap;
}

Status DeviceTeam::uploadTeam(DeviceRank &rank) {
  Device &device = *rank.device;
  if (rank.team == 0) {
    // Not of the arena, which is zeroed after failures.
    int64_t table = (int64_t(sizeof(dtile_device_team)) + 63) / 64 * 64;
    if (Status status = device.allocate(table + int64_t(ranks_) * 8, &rank.team); !status.ok())
      return status;
    rank.peers = rank.team + DeviceAddress(table);
  }
  std::vector<uint64_t> peers;
  for (int32_t peer = 0; peer < ranks_; ++peer)
    peers.push_back(heapAt(rank, peer));
  for (size_t peer = 0; peer < std::min(peers.size(), rank.shift.size()); ++peer)
    rank.shift[peer] = int64_t(peers[peer] - rank.heap);
  dtile_device_team &words = rank.words;
  words = {};
  words.rank = rank.rank;
  words.num_ranks = ranks_;
  words.peers = reinterpret_cast<const uint64_t *>(rank.peers);
  words.heap_bytes = uint64_t(heapBytes_);
  words.meeting = reinterpret_cast<uint64_t *>(rank.heap + DeviceAddress(meetingOffset_));
  words.abort = reinterpret_cast<uint32_t *>(rank.control.device);
  words.report = reinterpret_cast<dtile_device_report *>(
      rank.control.device + DeviceAddress(kLine + kReportBytes * rank.rank));
  words.wait_budget_ns = int64_t(timeoutMs_) * 1'000'000;
  words.prints = reinterpret_cast<dtile_device_prints *>(rank.printMemory.device);
  if (!rank.traces.empty())
    words.trace = reinterpret_cast<dtile_device_trace *>(rank.traces.back().address);
  Status status = device.copyIn(rank.peers, peers.data(), int64_t(peers.size()) * 8, rank.stream);
  if (status.ok())
    status = device.copyIn(rank.team, &words, sizeof words, rank.stream);
  return status.ok() ? device.synchronize(rank.stream) : status;
}

DeviceTeam::~DeviceTeam() {
  for (auto &rank : locals_)
    (void)rank->device->synchronizeAll();
  showPrints(/*areOver=*/true);
  tellLostPrints();
  // Peers may still access this heap. Where the team was never made, or has failed, they do not
  // come.
  if (isOpen_ && job_ && broken_.ok())
    (void)job_->meet("the end of the team");
  if (job_)
    job_->watch().attach(nullptr, false);
  unloadModules();
  for (auto &rank : locals_) {
    Device &device = *rank->device;
    rank->arena.close();
    if (rank->team)
      device.release(rank->team);
    closeHeap(*rank);
    if (rank->prints)
      device.releasePinned(rank->printMemory);
    releaseTrace(*rank);
    closeEngine(device, rank->engine);
    closeEngine(device, rank->capturedEngine);
    if (rank->stream)
      device.destroyStream(rank->stream);
  }
  if (control_ && job_) {
    locals_.front()->device->unpin(locals_.front()->control);
    munmap(control_, size_t(controlBytes_));
  } else if (control_) {
    locals_.front()->device->releasePinned(locals_.front()->control);
  }
}

void DeviceTeam::unloadModules() {
  for (auto &[image, module] : modules_)
    for (auto &rank : locals_)
      if (module.handle && rank->device->facts().ordinal == std::get<0>(image)) {
        if (module.isAttached)
          provider_->detach(module.handle);
        rank->device->unload(module.handle);
        break;
      }
}

void DeviceTeam::closeHeap(DeviceRank &rank) {
  Device &device = *rank.device;
  if (provider_) {
    if (isOpen_ && broken_.ok())
      provider_->finish();
    return;
  }
  unmapAllForeign();
  for (DeviceAddress peer : rank.mapped)
    if (peer)
      device.releaseShared(peer, heapBytes_);
  if (rank.heap && job_)
    device.releaseShared(rank.heap, heapBytes_);
  else if (rank.heap)
    device.release(rank.heap);
}

dtile_device_report *DeviceTeam::reportOf(int32_t rank) const {
  return reinterpret_cast<dtile_device_report *>(static_cast<char *>(control_) + kLine +
                                                 kReportBytes * rank);
}

Status DeviceTeam::checkLocal(int32_t local) const {
  if (local >= 0 && local < localCount())
    return {};
  return {DTILE_INVALID, format("local rank %d of %d", local, localCount())};
}

Status DeviceTeam::zeroHeaps(int64_t offset, int64_t bytes) {
  for (auto &rank : locals_)
    if (Status status = rank->device->zero(rank->heap + DeviceAddress(offset), bytes, rank->stream);
        !status.ok())
      return status;
  for (auto &rank : locals_)
    if (Status status = rank->device->synchronize(rank->stream); !status.ok())
      return status;
  return {};
}

Status DeviceTeam::agree(uint64_t value, const char *what) {
  return job_ ? job_->agree(value, what) : Status();
}

Status DeviceTeam::symmAlloc(int64_t bytes, void **out) {
  if (!broken_.ok())
    return broken_;
  if (!out)
    return {DTILE_INVALID, "the place for the address is null"};
  *out = nullptr;
  if (bytes < 0)
    return {DTILE_INVALID, format("cannot allocate %lld bytes", static_cast<long long>(bytes))};
  ++callNumber_;
  int64_t offset = -1;
  if (Status status = allocateEvicting(bytes, &offset); !status.ok())
    return status;
  if (offset < 0)
    return {DTILE_OUT_OF_MEMORY,
            format("no room for %lld bytes in the symmetric heap: %s; raise symmetric_bytes of the "
                   "team's options",
                   static_cast<long long>(bytes), roomText().c_str())};
  if (Status status = agree(uint64_t(bytes), "the sizes given to dtile_symm_alloc"); !status.ok())
    return status;
  callers_.add(offset, bytes);
  *out = reinterpret_cast<void *>(locals_.front()->heap + DeviceAddress(offset));
  return {};
}

Status DeviceTeam::symmFree(void *address) {
  if (!address)
    return {};
  if (!broken_.ok())
    return broken_;
  auto offset = int64_t(reinterpret_cast<DeviceAddress>(address) - locals_.front()->heap);
  if (Status status = agree(uint64_t(offset), "the objects given to dtile_symm_free"); !status.ok())
    return status;
  // What is after the heap was registered.
  if (callers_.bytesAt(offset) < 0 || offset >= heapBytes_)
    return {DTILE_INVALID, "dtile_symm_free: dtile_symm_alloc has not given this address (on the "
                           "first local rank), or it has been freed already"};
  const int64_t bytes = heap_.sizeAt(offset);
  // Whoever uses it, here or on a peer, has to be done.
  for (auto &rank : locals_)
    if (Status status = rank->device->synchronizeAll(); !status.ok())
      return status;
  if (Status status = barrier(); !status.ok())
    return status;
  if (Status status = zeroHeaps(offset, bytes); !status.ok())
    return status;
  forgetLaunchesOf(offset, bytes);
  callers_.remove(offset);
  for (auto &rank : locals_)
    rank->turned.release(offset, offset + bytes);
  heap_.release(offset);
  return barrier();
}

void *DeviceTeam::symmAddress(const void *address, int32_t local) const {
  if (local < 0 || local >= localCount())
    return nullptr;
  auto offset = int64_t(reinterpret_cast<DeviceAddress>(address) - locals_.front()->heap);
  if (offset < 0 || offset >= heapBytes_)
    return nullptr;
  return reinterpret_cast<void *>(locals_[size_t(local)]->heap + DeviceAddress(offset));
}

Status DeviceTeam::barrier() {
  if (!broken_.ok())
    return broken_;
  return job_ ? job_->meet("dtile_team_barrier") : Status();
}

Status DeviceTeam::allGather(const void *const *in, int64_t bytes, void *out) {
  if (!broken_.ok())
    return broken_;
  if (bytes < 0 || (bytes > 0 && (!in || !out)))
    return {DTILE_INVALID, "dtile_team_all_gather: null or negative arguments"};
  for (int32_t local = 0; bytes > 0 && local < localCount(); ++local)
    if (!in[local])
      return {DTILE_INVALID,
              format("dtile_team_all_gather: the data of rank %d is null", firstLocal() + local)};
  if (bytes == 0)
    return {};
  if (job_)
    return job_->allGather(in[0], bytes, out, "dtile_team_all_gather");
  for (int32_t local = 0; local < localCount(); ++local)
    std::memcpy(static_cast<char *>(out) + local * bytes, in[local], size_t(bytes));
  return {};
}

} // namespace dtile::runtime
