// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Scratch objects and signals of kernels on devices: made at the first launch with their sizes, at
// the same offset on all ranks, zero (the heap is zero where nothing is), and kept with the team:
// a captured graph may hold their addresses.
#include "backend/runtime/device/device_team.h"
#include "backend/runtime/regions.h"

#include <algorithm>

namespace dtile::runtime {

namespace {

/// FNV-1a over what ranks must agree on.
uint64_t hashOf(const std::string &kernel, const ObjectKey &key) {
  uint64_t hash = 0xcbf29ce484222325u;
  auto add = [&](uint64_t word) { hash = (hash ^ word) * 0x100000001b3u; };
  for (char c : kernel)
    add(uint8_t(c));
  add(uint64_t(key.param));
  for (int32_t d = 0; d < key.ndim; ++d)
    add(uint64_t(key.size[size_t(d)]));
  return hash;
}

/// Product of the sizes times `bytes`, or -1 when it overflows.
int64_t bytesOf(const ObjectKey &key, int64_t bytes) {
  for (int32_t d = 0; d < key.ndim; ++d)
    if (__builtin_mul_overflow(bytes, key.size[size_t(d)], &bytes))
      return -1;
  return bytes;
}

} // namespace

DeviceObject *DeviceTeam::object(dtile_launch &launch, int32_t param, int32_t ndim,
                                 const int64_t *size) {
  if (!launch.error.ok())
    return nullptr;
  DeviceKernel &kernel = *launch.device->kernel;
  const dtile_param_desc &declared = kernel.state.desc->params[param];
  ObjectKey key{.param = param, .ndim = ndim};
  std::copy(size, size + ndim, key.size.begin());
  for (int32_t d = 0; d < ndim; ++d)
    if (size[d] < 0) {
      launch.error = {DTILE_INVALID, format("kernel `%s`, rank %d: `%s` would have the sizes %s",
                                            kernel.state.name.c_str(), launch.rank, declared.name,
                                            shapeText(ndim, size).c_str())};
      return nullptr;
    }
  auto found = kernel.objects.find(key);
  return found != kernel.objects.end() ? found->second.get()
                                       : allocateObject(launch, key, declared);
}

DeviceObject *DeviceTeam::allocateObject(dtile_launch &launch, const ObjectKey &key,
                                         const dtile_param_desc &param) {
  DeviceKernel &kernel = *launch.device->kernel;
  auto refuse = [&](Status status) {
    launch.error = std::move(status);
    return nullptr;
  };
  if (launch.device->capturing)
    return refuse({DTILE_INVALID, format("kernel `%s`, rank %d: `%s` needs memory that cannot be "
                                         "made while a graph is captured; launch once with these "
                                         "sizes before",
                                         kernel.state.name.c_str(), launch.rank, param.name)});
  auto object = std::make_unique<DeviceObject>();
  object->key = key;
  object->isSignal = param.kind == DTILE_PARAM_SIGNAL;
  int64_t bytes = bytesOf(key, object->isSignal ? 8 : elementBytes(param.dtype));
  // A launch makes the next one's zeros, so zeroed objects have a second copy.
  object->copies =
      object->isSignal ? 1 : std::max(param.copies, (param.flags & DTILE_PARAM_ZERO) != 0 ? 2 : 1);
  constexpr int64_t kAlign = SymmetricHeap::kAlignment;
  int64_t total = -1;
  if (bytes >= 0 && bytes <= heapBytes_) {
    object->copyBytes = (bytes + kAlign - 1) / kAlign * kAlign;
    if (__builtin_mul_overflow(object->copyBytes, int64_t(object->copies), &total))
      total = -1;
  }
  object->offset = total >= 0 ? heap_.allocate(total) : -1;
  if (object->offset < 0)
    return refuse(
        {DTILE_OUT_OF_MEMORY,
         format("kernel `%s`, rank %d: no room for %d %s of `%s`, %s %s, in the symmetric "
                "heap: %lld of its %lld bytes are in use on each rank; raise "
                "symmetric_bytes of the team's options",
                kernel.state.name.c_str(), launch.rank, object->copies,
                object->copies == 1 ? "copy" : "copies", param.name,
                object->isSignal ? "signal" : dtypeName(param.dtype),
                shapeText(key.ndim, key.size.data()).c_str(),
                static_cast<long long>(heap_.usedBytes()), static_cast<long long>(heapBytes_))});
  object->cells = object->isSignal ? bytes / 8 : 0;
  for (auto &rank : locals_) {
    DeviceAddress first = 0, second = 0;
    Status status =
        rank->arena.allocate(object->isSignal ? DeviceObject::kSinceBytes + 2 * bytes : 8, &first);
    if (status.ok() && object->isSignal)
      status = rank->arena.allocate(bytes, &second);
    if (!status.ok()) {
      heap_.release(object->offset);
      return refuse(std::move(status));
    }
    (object->isSignal ? object->bases : object->turn).push_back(first);
    object->asked.push_back(second);
  }
  // Peers have the object too before anything is sent to it.
  if (Status status = agree(hashOf(kernel.state.name, key),
                            "the sizes of a kernel's scratch objects and signals");
      !status.ok())
    return refuse(std::move(status));
  return (kernel.objects[key] = std::move(object)).get();
}

} // namespace dtile::runtime
