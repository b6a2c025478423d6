// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The ranks meet over the job's own sockets, pass rank 0's unique id, and start NVSHMEM with it, so
// that it needs no launcher of its own. Its calls ask CUDA for the current context, hence
// Device::within.
//
// Environment, of NVSHMEM's own variables, where the user has not set them:
//   NVSHMEM_DISABLE_NVLS=1         no multicast objects: a program that dies with one can put GPUs
//                                  out of service, and kernels do not use them
//   NVSHMEM_REMOTE_TRANSPORT=none  in a job of one host
//   NVSHMEM_BOOTSTRAP_UID_SOCK_IFNAME  the interface of DTILE_JOB_INTERFACE
//   NVSHMEM_SYMMETRIC_SIZE         where its heap cannot grow: what the team wants
//   NVSHMEM_BOOTSTRAP_UID_PLUGIN   the one beside the library
#include "backend/runtime/device/nvshmem.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <unistd.h>
#include <vector>

namespace dtile::runtime {

using namespace nvshmem;

namespace {

constexpr const char *kLibrary = "libnvshmem_host.so.3";
constexpr const char *kPlugin = "nvshmem_bootstrap_uid.so.3";
constexpr int32_t kMajor = 3;
constexpr size_t kHeapAlignment = 512;
/// What NVSHMEM's own objects may take of a heap that does not grow.
constexpr int64_t kOwnBytes = int64_t(64) << 20;

std::string versionText(int32_t version) {
  return format("%d.%d.%d", version / 10000, version / 100 % 100, version % 100);
}

/// What a rank tells the others before any of them starts.
struct Greeting {
  int32_t canStart = 0;
  int32_t version = 0;
  /// Somebody else in the process has started NVSHMEM.
  int32_t isRunning = 0;
  int32_t reserved = 0;
  int64_t heapBytes = 0;
  UniqueId id;
};

/// The own status; where only others have failed, that of the first one.
Status together(Rendezvous &job, const Status &own) {
  // Empty where all is well. Cut, as a job has thousands of ranks.
  using Words = std::array<char, 512>;
  Words words = {};
  std::memcpy(words.data(), own.message.data(), std::min(own.message.size(), words.size() - 1));
  std::vector<Words> all(static_cast<size_t>(job.ranks()));
  Status met = job.allGather(&words, sizeof words, all.data(), "the start of NVSHMEM");
  if (!own.ok() || !met.ok())
    return own.ok() ? met : own;
  const auto bad = std::find_if(all.begin(), all.end(), [](const Words &each) { return each[0]; });
  if (bad == all.end())
    return {};
  const auto rank = int32_t(bad - all.begin());
  return {DTILE_UNAVAILABLE,
          memberText(rank, job.member(rank)) + " cannot start NVSHMEM: " + bad->data()};
}

} // namespace

Status Nvshmem::start(const std::string &home, Device &device, Rendezvous &job, int64_t heapBytes,
                      std::unique_ptr<HeapProvider> *out) {
  std::unique_ptr<Nvshmem> made(new Nvshmem(device, job.rank(), job.ranks()));
  Status status = together(job, made->open(home));
  if (!status.ok())
    return status;
  made->prepareEnvironment(job, heapBytes);
  UniqueId id;
  status = together(job, made->exchangeId(job, heapBytes, &id));
  if (status.ok())
    status = together(job, made->tryRoom(heapBytes));
  // All have seen the same, so all go on or none does.
  if (status.ok())
    status = together(job, made->initialize(id));
  if (status.ok())
    status = together(job, made->allocate(job, heapBytes));
  if (status.ok())
    *out = std::move(made);
  return status;
}

Status Nvshmem::exchangeId(Rendezvous &job, int64_t heapBytes, UniqueId *out) {
  Greeting own;
  own.version = version_;
  own.isRunning = calls_.nvshmemx_init_status() >= kIsInitialized;
  own.heapBytes = heapBytes;
  Status status;
  if (rank_ == 0 && !own.isRunning && calls_.nvshmemx_get_uniqueid(&own.id) != 0)
    status = {DTILE_UNAVAILABLE,
              format("NVSHMEM %s (%s) cannot make a unique id: it needs %s beside its library, and "
                     "a network interface; set NVSHMEM_DEBUG=WARN to see why",
                     versionText(version_).c_str(), path_.c_str(), kPlugin)};
  std::vector<Greeting> all(static_cast<size_t>(ranks_));
  if (Status met = job.allGather(&own, sizeof own, all.data(), "the start of NVSHMEM");
      !met.ok() || !status.ok())
    return status.ok() ? met : status;
  *out = all[0].id;
  for (int32_t rank = 0; rank < ranks_; ++rank) {
    const Greeting &other = all[size_t(rank)];
    if (other.version != version_)
      return {DTILE_UNAVAILABLE,
              format("NVSHMEM's host library is %s on rank %d but %s on rank %d: all ranks need "
                     "the same; see DTILE_NVSHMEM_HOME and LD_LIBRARY_PATH of both",
                     versionText(version_).c_str(), rank_, versionText(other.version).c_str(),
                     rank)};
    if (other.isRunning != own.isRunning)
      return {DTILE_INVALID, format("NVSHMEM runs already on rank %d but not on rank %d",
                                    own.isRunning ? rank_ : rank, own.isRunning ? rank : rank_)};
    if (other.heapBytes != heapBytes)
      return {DTILE_INVALID,
              format("ranks %d and %d ask for symmetric heaps of different sizes", rank_, rank)};
  }
  return {};
}

Status Nvshmem::open(const std::string &home) {
  const char *variable = std::getenv("DTILE_NVSHMEM_HOME");
  const std::string folder = !home.empty() ? home : variable ? variable : "";
  const std::string path = folder.empty() ? kLibrary : folder + "/lib/" + kLibrary;
  // Kept open for good: it has threads and handlers of its own.
  void *library = dlopen(path.c_str(), RTLD_NOW);
  if (!library)
    return {DTILE_UNAVAILABLE,
            format("cannot open NVSHMEM's host library (%s): set nvshmem_home of the team's "
                   "options, or DTILE_NVSHMEM_HOME, to the folder of an NVSHMEM %d installation, "
                   "which holds lib/%s, or use p2p",
                   dlerror(), kMajor, kLibrary)};
  const char *missing = nullptr;
#define FN(RESULT, NAME, ARGUMENTS)                                                                \
  calls_.NAME = reinterpret_cast<RESULT(*) ARGUMENTS>(dlsym(library, #NAME));                      \
  if (!calls_.NAME)                                                                                \
    missing = #NAME;
  DTILE_NVSHMEM_FUNCTIONS
#undef FN
  Dl_info info;
  path_ = path;
  if (calls_.nvshmem_my_pe && dladdr(reinterpret_cast<void *>(calls_.nvshmem_my_pe), &info) &&
      info.dli_fname)
    path_ = info.dli_fname;
  if (missing)
    return {DTILE_UNAVAILABLE, format("%s has no %s: NVSHMEM %d, 3.0 or later, is needed",
                                      path_.c_str(), missing, kMajor)};
  int major = 0, minor = 0, patch = 0;
  calls_.nvshmemx_vendor_get_version_info(&major, &minor, &patch);
  version_ = major * 10000 + minor * 100 + patch;
  if (major != kMajor)
    return {DTILE_UNAVAILABLE, format("%s is NVSHMEM %s, but this library knows NVSHMEM %d",
                                      path_.c_str(), versionText(version_).c_str(), kMajor)};
  return {};
}

void Nvshmem::prepareEnvironment(const Rendezvous &job, int64_t heapBytes) const {
  constexpr int kUnlessSet = 0;
  setenv("NVSHMEM_DISABLE_NVLS", "1", kUnlessSet);
  if (!job.hasSeveralHosts())
    setenv("NVSHMEM_REMOTE_TRANSPORT", "none", kUnlessSet);
  if (const char *interface = std::getenv("DTILE_JOB_INTERFACE"); interface && *interface)
    setenv("NVSHMEM_BOOTSTRAP_UID_SOCK_IFNAME", interface, kUnlessSet);
  setenv("NVSHMEM_SYMMETRIC_SIZE", std::to_string(heapBytes + kOwnBytes).c_str(), kUnlessSet);
  size_t slash = path_.rfind('/');
  const std::string plugin = slash == std::string::npos ? "" : path_.substr(0, slash + 1) + kPlugin;
  if (!plugin.empty() && access(plugin.c_str(), R_OK) == 0)
    setenv("NVSHMEM_BOOTSTRAP_UID_PLUGIN", plugin.c_str(), kUnlessSet);
}

Status Nvshmem::tryRoom(int64_t bytes) const {
  DeviceAddress memory = 0;
  Status status = device_.allocate(bytes, &memory);
  if (status.ok())
    device_.release(memory);
  else if (status.code == DTILE_OUT_OF_MEMORY)
    status.message = format("GPU %d has no room for a symmetric heap of %lld bytes: lower "
                            "symmetric_bytes",
                            device_.facts().ordinal, static_cast<long long>(bytes));
  return status;
}

Status Nvshmem::initialize(UniqueId &id) {
  return device_.within([&]() -> Status {
    InitAttributes attributes;
    int error = calls_.nvshmemx_set_attr_uniqueid_args(rank_, ranks_, &id, &attributes);
    if (error == 0)
      error = calls_.nvshmemx_hostlib_init_attr(kInitWithUniqueId, &attributes);
    // A failure after the processes have met is told by the status only.
    const int state = error == 0 ? calls_.nvshmemx_init_status() : 0;
    if (state < kIsInitialized)
      return {DTILE_UNAVAILABLE,
              format("NVSHMEM %s (%s) does not start on rank %d, GPU %d (error %d, status %d); set "
                     "NVSHMEM_DEBUG=WARN to see why",
                     versionText(version_).c_str(), path_.c_str(), rank_, device_.facts().ordinal,
                     error, state)};
    if (state == kIsLimited)
      return {DTILE_UNAVAILABLE, "NVSHMEM finds several ranks on one GPU, where their kernels do "
                                 "not run side by side: give each process its own GPU, or use "
                                 "p2p in one process"};
    if (calls_.nvshmem_my_pe() != rank_ || calls_.nvshmem_n_pes() != ranks_)
      return {DTILE_INVALID,
              format("NVSHMEM was started before with this process as rank %d of %d, but here it "
                     "is rank %d of %d: the team must be of the same processes in the same order",
                     calls_.nvshmem_my_pe(), calls_.nvshmem_n_pes(), rank_, ranks_)};
    return {};
  });
}

int32_t Nvshmem::firstUnmapped() const {
  const auto found = std::find(peers_.begin(), peers_.end(), DeviceAddress(0));
  return found == peers_.end() ? -1 : int32_t(found - peers_.begin());
}

Status Nvshmem::allocate(const Rendezvous &job, int64_t bytes) {
  return device_.within([&]() -> Status {
    void *memory = calls_.nvshmem_align(kHeapAlignment, size_t(bytes));
    if (!memory)
      return {DTILE_OUT_OF_MEMORY,
              format("NVSHMEM has no room for a symmetric heap of %lld bytes on GPU %d: lower "
                     "symmetric_bytes, or see NVSHMEM_MAX_MEMORY_PER_GPU",
                     static_cast<long long>(bytes), device_.facts().ordinal)};
    heap_ = reinterpret_cast<DeviceAddress>(memory);
    for (int32_t rank = 0; rank < ranks_; ++rank) {
      peers_.push_back(reinterpret_cast<DeviceAddress>(calls_.nvshmem_ptr(memory, rank)));
      // Within one host there is no other way, as the network is off.
      if (!peers_.back() && !job.hasSeveralHosts())
        return {DTILE_UNAVAILABLE,
                format("rank %d cannot address the memory of rank %d: GPUs must be connected by "
                       "NVLink or a PCIe switch that allows it",
                       rank_, rank)};
    }
    return {};
  });
}

Status Nvshmem::lend(DeviceAddress begin, DeviceAddress end) {
  if (firstUnmapped() < 0 || begin >= end)
    return {};
  // One range for all that overlaps: NVSHMEM takes no byte twice.
  std::vector<DeviceAddress> within;
  for (const auto &[from, to] : lent_) {
    if (from <= begin && end <= to)
      return {};
    if (from < end && begin < to)
      within.push_back(from);
  }
  return device_.within([&]() -> Status {
    for (const DeviceAddress from : within) {
      begin = std::min(begin, from);
      end = std::max(end, lent_[from]);
      calls_.nvshmemx_buffer_unregister(reinterpret_cast<void *>(from));
      lent_.erase(from);
    }
    if (int error = calls_.nvshmemx_buffer_register(reinterpret_cast<void *>(begin), end - begin);
        error != 0)
      return {DTILE_UNAVAILABLE,
              format("NVSHMEM %s cannot let the network access %llu bytes of a tensor on GPU %d "
                     "(nvshmemx_buffer_register gave error %d): put them into the symmetric heap",
                     versionText(version_).c_str(), static_cast<unsigned long long>(end - begin),
                     device_.facts().ordinal, error)};
    lent_[begin] = end;
    return {};
  });
}

Status Nvshmem::accepts(int32_t deviceVersion) const {
  // NVSHMEM's own rule: hosts know older device code of their major version.
  if (deviceVersion / 10000 == version_ / 10000 && deviceVersion / 100 <= version_ / 100)
    return {};
  if (deviceVersion == 0)
    return {DTILE_INVALID, ", but does not say of which version: compile it again"};
  return {DTILE_UNAVAILABLE,
          format(": its device code is of NVSHMEM %s, but the host library of this process is "
                 "NVSHMEM %s (%s), which must be of the same major version and no older minor "
                 "one: compile the kernel with --nvshmem-home of that installation, or set "
                 "DTILE_NVSHMEM_HOME to the other one",
                 versionText(deviceVersion).c_str(), versionText(version_).c_str(), path_.c_str())};
}

Status Nvshmem::attach(ModuleHandle module) {
  return device_.within([&]() -> Status {
    int error = calls_.nvshmemx_cumodule_init(module);
    if (error == 0)
      return {};
    return {DTILE_UNAVAILABLE, format("nvshmemx_cumodule_init of NVSHMEM %s gave error %d",
                                      versionText(version_).c_str(), error)};
  });
}

void Nvshmem::detach(ModuleHandle module) {
  (void)device_.within([&]() -> Status {
    calls_.nvshmemx_cumodule_finalize(module);
    return {};
  });
}

void Nvshmem::finish() {
  (void)device_.within([&]() -> Status {
    for (const auto &[begin, end] : lent_)
      calls_.nvshmemx_buffer_unregister(reinterpret_cast<void *>(begin));
    calls_.nvshmem_free(reinterpret_cast<void *>(heap_));
    calls_.nvshmemx_hostlib_finalize();
    return {};
  });
}

} // namespace dtile::runtime
