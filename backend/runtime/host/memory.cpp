// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Symmetric objects: the caller's, and the scratch objects and signals of kernels, which stay until
// the heap is full and then go, least recently used first. Memory that is handed out is zero.
#include "backend/runtime/arguments/regions.h"
#include "backend/runtime/host/team.h"

#include <algorithm>
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

using namespace dtile::runtime;

namespace {

/// FNV-1a over the words of a key, to compare what ranks ask for.
uint64_t hashOf(const std::string &kernel, const ObjectKey &key) {
  uint64_t hash = 0xcbf29ce484222325u;
  auto add = [&](uint64_t word) {
    for (int i = 0; i < 8; ++i, word >>= 8)
      hash = (hash ^ (word & 0xff)) * 0x100000001b3u;
  };
  for (char letter : kernel)
    add(uint64_t(letter));
  add(uint64_t(key.param));
  add(uint64_t(key.protocol));
  for (int32_t d = 0; d < key.ndim; ++d)
    add(uint64_t(key.size[size_t(d)]));
  for (const uint64_t axis : key.axes)
    add(axis);
  return hash;
}

/// What the kernel says about its signal at a position of its parameters; null when nothing.
const dtile_signal_desc *signalOf(const dtile_kernel_desc &desc, int32_t param) {
  for (int32_t i = 0; i < desc.nsignals; ++i)
    if (desc.signals[i].param == param)
      return &desc.signals[i];
  return nullptr;
}

/// Product of the sizes times `bytes`, or -1 when it overflows or a size is negative.
int64_t bytesOf(int32_t ndim, const int64_t *size, int64_t bytes) {
  for (int32_t d = 0; d < ndim; ++d)
    if (size[d] < 0 || __builtin_mul_overflow(bytes, size[d], &bytes))
      return -1;
  return bytes;
}

} // namespace

void HostTeam::zeroHeap(int64_t offset, int64_t bytes, bool giveBack) {
  constexpr int64_t kLarge = int64_t(1) << 20;
  int64_t page = sysconf(_SC_PAGESIZE);
  for (int32_t local = 0; local < localCount(); ++local) {
    char *begin = heapOf(firstLocal() + local) + offset;
    if (!giveBack || bytes < kLarge) {
      std::memset(begin, 0, size_t(bytes));
      continue;
    }
    auto address = reinterpret_cast<uintptr_t>(begin);
    char *first = begin + (uintptr_t(page) - address % uintptr_t(page)) % uintptr_t(page);
    char *end = begin + bytes;
    char *last = end - reinterpret_cast<uintptr_t>(end) % uintptr_t(page);
    std::memset(begin, 0, size_t(first - begin));
    std::memset(last, 0, size_t(end - last));
    if (madvise(first, size_t(last - first), MADV_DONTNEED) != 0)
      std::memset(first, 0, size_t(last - first));
  }
}

bool HostTeam::evictOldest() {
  KernelState *owner = nullptr;
  const ObjectKey *oldest = nullptr;
  uint64_t lastUse = callNumber_;
  int64_t offset = 0;
  for (auto &[key, kernel] : kernels_)
    for (auto &[objectKey, object] : kernel->objects)
      // Equal only for objects of one call; the lower offset makes all processes choose alike.
      if (object->lastUse < lastUse ||
          (oldest && object->lastUse == lastUse && object->offset < offset)) {
        owner = kernel.get();
        oldest = &objectKey;
        lastUse = object->lastUse;
        offset = object->offset;
      }
  if (!oldest)
    return false;
  releaseHeap(offset);
  owner->objects.erase(ObjectKey(*oldest));
  return true;
}

void HostTeam::forget(KernelState &kernel) {
  std::lock_guard lock(memory_);
  for (TurnedMemory &turned : turned_)
    turned.forget(kernel);
  // Peers may still send to what goes; where that cannot be known, it stays.
  if (distributed() && !meet("the end of a kernel whose module was unloaded").ok())
    return;
  for (auto &[key, object] : kernel.objects)
    releaseHeap(object->offset);
}

void HostTeam::releaseHeap(int64_t offset) {
  if (!distributed())
    zeroHeap(offset, heap_.sizeAt(offset), /*giveBack=*/true);
  heap_.release(offset);
}

int64_t HostTeam::allocateEvicting(int64_t bytes) {
  int64_t offset = heap_.allocate(bytes);
  if (offset < 0 && distributed())
    // Peers may still send to what goes.
    if (!meet("room in the symmetric heap").ok())
      return -1;
  while (offset < 0 && evictOldest())
    offset = heap_.allocate(bytes);
  if (offset >= 0 && distributed())
    zeroHeap(offset, bytes, /*giveBack=*/false);
  return offset;
}

Status HostTeam::symmAlloc(int64_t bytes, void **out) {
  if (!broken_.ok())
    return brokenStatus();
  if (!out)
    return {DTILE_INVALID, "the place for the address is null"};
  *out = nullptr;
  if (bytes < 0)
    return {DTILE_INVALID, format("cannot allocate %lld bytes", static_cast<long long>(bytes))};
  std::lock_guard lock(memory_);
  // Objects of the call before are idle by now.
  ++callNumber_;
  int64_t offset = allocateEvicting(bytes);
  if (offset < 0)
    return {DTILE_OUT_OF_MEMORY,
            format("no room for %lld bytes in the symmetric heap: %lld of %lld bytes are in use on "
                   "each rank; raise symmetric_bytes of dtile_team_options",
                   static_cast<long long>(bytes), static_cast<long long>(heap_.usedBytes()),
                   static_cast<long long>(heapBytes()))};
  Status status = agree(uint64_t(bytes), "the sizes given to dtile_symm_alloc");
  if (!status.ok()) {
    // Others may not have come so far: what is left must be the same everywhere.
    heap_.release(offset);
    return status;
  }
  callers_.add(offset, bytes);
  *out = heapOf(firstLocal()) + offset;
  return {};
}

Status HostTeam::symmFree(void *address) {
  if (!address)
    return {};
  if (!broken_.ok())
    return brokenStatus();
  std::lock_guard lock(memory_);
  int64_t offset = static_cast<char *>(address) - heapOf(firstLocal());
  if (callers_.bytesAt(offset) < 0)
    return {DTILE_INVALID, "dtile_symm_free: dtile_symm_alloc has not given this address (on the "
                           "first local rank), or it has been freed already"};
  if (Status status = meet("dtile_symm_free"); !status.ok())
    return status;
  for (TurnedMemory &turned : turned_)
    turned.release(offset, offset + heap_.sizeAt(offset));
  callers_.remove(offset);
  releaseHeap(offset);
  return {};
}

void *HostTeam::symmAddress(const void *address, int32_t local) const {
  if (local < 0 || local >= localCount())
    return nullptr;
  if (char *there = registeredAt(address, firstLocal(), firstLocal() + local))
    return there;
  int64_t offset = static_cast<const char *>(address) - heapOf(firstLocal());
  return offset < 0 || offset >= heapBytes() ? nullptr : heapOf(firstLocal() + local) + offset;
}

KernelObject *HostTeam::allocateObject(dtile_launch &launch, const ObjectKey &key,
                                       const dtile_param_desc &param) {
  KernelState &kernel = *launch.kernel;
  auto object = std::make_unique<KernelObject>();
  object->key = key;
  bool isSignal = param.kind == DTILE_PARAM_SIGNAL;
  int64_t bytes = bytesOf(key.ndim, key.size.data(), isSignal ? 8 : elementBytes(param.dtype));
  object->zero = !isSignal && (param.flags & DTILE_PARAM_ZERO) != 0;
  // See the head of launch.cpp for the second copy of zeroed objects.
  object->copies = isSignal ? 1 : std::max(param.copies, object->zero ? 2 : 1);
  int64_t total = -1;
  constexpr int64_t kAlign = SymmetricHeap::kAlignment;
  if (bytes >= 0 && bytes <= heapBytes()) {
    object->copyBytes = (bytes + kAlign - 1) / kAlign * kAlign;
    if (__builtin_mul_overflow(object->copyBytes, int64_t(object->copies), &total))
      total = -1;
  }
  // Only the first launches of a call allocate: other launches of the kernel run by then.
  object->offset = total >= 0 && firstLaunches_ ? allocateEvicting(total) : -1;
  if (object->offset < 0) {
    launch.error = {DTILE_OUT_OF_MEMORY,
                    format("kernel `%s`, rank %d: no room for %d %s of `%s`, %s %s, in the "
                           "symmetric heap of %lld bytes a rank; raise symmetric_bytes of "
                           "dtile_team_options",
                           kernel.name.c_str(), launch.rank, object->copies,
                           object->copies == 1 ? "copy" : "copies", param.name,
                           isSignal ? "signal" : dtypeName(param.dtype),
                           shapeText(key.ndim, key.size.data()).c_str(),
                           static_cast<long long>(heapBytes()))};
    return nullptr;
  }
  const std::string launched =
      launchText(kernel.name, "the sizes of its axes, scratch objects and signals");
  if (Status status = agree(hashOf(kernel.name, key), launched.c_str()); !status.ok()) {
    heap_.release(object->offset);
    launch.error = status;
    return nullptr;
  }
  object->turn.assign(size_t(localCount()), 0);
  if (isSignal) {
    object->cells = bytes / 8;
    object->signal = signalOf(*launch.code, key.param);
    if (!object->signal) {
      launch.error = {DTILE_INVALID, format("kernel `%s` does not describe its signal `%s`",
                                            kernel.name.c_str(), param.name)};
      heap_.release(object->offset);
      return nullptr;
    }
    object->counts.resize(size_t(localCount()));
    for (CellCounts &counts : object->counts) {
      counts.base.assign(size_t(object->cells), 0);
      counts.want.assign(size_t(object->cells), 0);
      if (!object->signal->expected)
        counts.asked = std::make_unique<std::atomic<uint64_t>[]>(size_t(object->cells));
    }
  }
  return (kernel.objects[key] = std::move(object)).get();
}

void *HostTeam::object(dtile_launch &launch, int32_t param, int32_t ndim, const int64_t *size) {
  if (!launch.error.ok())
    return nullptr;
  KernelState &kernel = *launch.kernel;
  const dtile_param_desc &declared = kernel.desc->params[param];
  ObjectKey key = keyOf(kernel, launch.arguments, param, launch.protocol);
  key.ndim = ndim;
  std::copy(size, size + ndim, key.size.begin());
  for (int32_t d = 0; d < ndim; ++d)
    if (size[d] < 0) {
      launch.error = {DTILE_INVALID, format("kernel `%s`, rank %d: `%s` would have the sizes %s",
                                            kernel.name.c_str(), launch.rank, declared.name,
                                            shapeText(ndim, size).c_str())};
      return nullptr;
    }
  std::lock_guard lock(memory_);
  auto &[call, agreed] = kernel.agreed[param];
  if (call != callNumber_) {
    call = callNumber_;
    agreed = key;
  } else if (agreed.axes != key.axes) {
    launch.error = {DTILE_INVALID,
                    format("kernel `%s`: the axes of its mesh have other sizes on rank %d than on "
                           "another rank; pass the same sizes on all ranks",
                           kernel.name.c_str(), launch.rank)};
    return nullptr;
  } else if (agreed != key) {
    launch.error = {DTILE_INVALID,
                    format("kernel `%s`: `%s` has the sizes %s on rank %d, but %s on another rank; "
                           "symmetric objects need equal sizes on all ranks",
                           kernel.name.c_str(), declared.name, shapeText(ndim, size).c_str(),
                           launch.rank, shapeText(ndim, agreed.size.data()).c_str())};
    return nullptr;
  }
  auto found = kernel.objects.find(key);
  KernelObject *object =
      found != kernel.objects.end() ? found->second.get() : allocateObject(launch, key, declared);
  if (!object)
    return nullptr;
  object->lastUse = callNumber_;
  // The module may have been loaded again, or other code of the kernel uses it; later launches run
  // beside bodies, which read this.
  if (firstLaunches_)
    object->signal = signalOf(*launch.code, param);
  int64_t copy = object->turn[size_t(launch.local)] % object->copies;
  char *data = heapOf(launch.rank) + object->offset + copy * object->copyBytes;
  for (const LaunchObject &use : launch.objects)
    if (use.object == object)
      return data;
  launch.objects.push_back({object, data});
  return data;
}
