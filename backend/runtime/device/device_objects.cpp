// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Scratch objects and signals of kernels on devices: made at the first launch with their sizes, at
// the same offset on all ranks, zero (the heap is zero where nothing is). They stay until room is
// needed, and then go, least recently used first.
//
// What goes is used by nobody: the devices of all ranks are idle, and all processes have met since;
// its memory is zero again before they meet once more, which is before anything is sent to what is
// made there. Graphs are launched by others whenever they like: what a captured launch uses stays.
// All processes choose alike, as they launch, capture and allocate the same in the same order; they
// compare what they have chosen, and differences are an error.
//
// Launches with other sizes do not share memory before that, though smaller ones would fit in what
// larger ones have. Between two launches nobody need have waited for anybody: peers may be a launch
// after, and read what the earlier one has left in a copy, so that a copy in turn is free again
// only as the launches with its own sizes go (a launch with sizes for which nothing is sent does
// not keep ranks together). A launch makes the next one's zeros, of its own sizes. Messages with
// flags (ll-messages) rely on what is left in a copy being two launches old, and counts of a signal
// go with its cells. A meeting at each change of sizes would cost what an eviction does, each time.
#include "backend/runtime/arguments/regions.h"
#include "backend/runtime/device/device_team.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace dtile::runtime {

namespace {

/// FNV-1a over what ranks must agree on. `places`: where symmetric arguments lie.
uint64_t hashOf(const std::string &kernel, const ObjectKey &key,
                const std::vector<int64_t> &places) {
  uint64_t hash = 0xcbf29ce484222325u;
  auto add = [&](uint64_t word) { hash = (hash ^ word) * 0x100000001b3u; };
  for (char c : kernel)
    add(uint8_t(c));
  add(uint64_t(key.param));
  add(uint64_t(key.protocol));
  for (int32_t d = 0; d < key.ndim; ++d)
    add(uint64_t(key.size[size_t(d)]));
  for (const uint64_t axis : key.axes)
    add(axis);
  for (const int64_t place : places)
    add(uint64_t(place));
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
  ObjectKey key = keyOf(kernel.state, launch.arguments, param, launch.device->protocol);
  key.ndim = ndim;
  std::copy(size, size + ndim, key.size.begin());
  for (int32_t d = 0; d < ndim; ++d)
    if (size[d] < 0) {
      launch.error = {DTILE_INVALID, format("kernel `%s`, rank %d: `%s` would have the sizes %s",
                                            kernel.state.name.c_str(), launch.rank, declared.name,
                                            shapeText(ndim, size).c_str())};
      return nullptr;
    }
  auto found = kernel.objects.find(key);
  DeviceObject *object =
      found != kernel.objects.end() ? found->second.get() : allocateObject(launch, key, declared);
  if (!object)
    return nullptr;
  object->heldBy = callNumber_;
  launch.device->objects.push_back(object);
  return object;
}

std::vector<int64_t> DeviceTeam::symmetricPlaces(const dtile_launch &launch) const {
  const KernelState &state = launch.device->kernel->state;
  const DeviceAddress heap = locals_[size_t(launch.rank - firstLocal())]->heap;
  std::vector<int64_t> places;
  for (int32_t i = 0; i < state.desc->nparams; ++i) {
    const int32_t at = state.argumentOf[size_t(i)];
    if (at < 0 || state.desc->params[i].mode != DTILE_MODE_SYMM)
      continue;
    const dtile_tensor &tensor = *launch.arguments[at].tensor;
    // What has no elements lies nowhere.
    if (std::find(tensor.size, tensor.size + tensor.ndim, 0) == tensor.size + tensor.ndim)
      places.push_back(int64_t(reinterpret_cast<DeviceAddress>(tensor.data) - heap));
  }
  return places;
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
  object->kernel = &kernel;
  object->lastUse = callNumber_;
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
  object->offset = -1;
  if (total >= 0)
    if (Status status = allocateEvicting(total, &object->offset); !status.ok())
      return refuse(std::move(status));
  if (object->offset < 0)
    return refuse({DTILE_OUT_OF_MEMORY,
                   format("kernel `%s`, rank %d: no room for %d %s of `%s`, %s %s, in the "
                          "symmetric heap: %s; raise symmetric_bytes of the team's options",
                          kernel.state.name.c_str(), launch.rank, object->copies,
                          object->copies == 1 ? "copy" : "copies", param.name,
                          object->isSignal ? "signal" : dtypeName(param.dtype),
                          shapeText(key.ndim, key.size.data()).c_str(), roomText().c_str())});
  object->cells = object->isSignal ? bytes / 8 : 0;
  object->baseBytes = object->isSignal ? DeviceObject::kSinceBytes + 2 * bytes : 8;
  object->askedBytes = object->isSignal ? bytes : 0;
  for (auto &rank : locals_) {
    DeviceAddress first = 0, second = 0;
    Status status = rank->arena.allocate(object->baseBytes, &first);
    if (status.ok() && object->isSignal)
      status = rank->arena.allocate(object->askedBytes, &second);
    if (!status.ok()) {
      heap_.release(object->offset);
      return refuse(std::move(status));
    }
    (object->isSignal ? object->bases : object->turn).push_back(first);
    object->asked.push_back(second);
  }
  // Peers have the object too before anything is sent to it.
  const std::string launched =
      launchText(kernel.state.name, "the sizes of its axes, scratch objects and signals, or in "
                                    "where its symmetric arguments lie");
  const auto places = symmetricPlaces(launch);
  if (Status status = agree(hashOf(kernel.state.name, key, places), launched.c_str()); !status.ok())
    return refuse(std::move(status));
  return (kernel.objects[key] = std::move(object)).get();
}

// ---- Room ----

std::string DeviceTeam::roomText() const {
  int64_t captured = 0;
  for (const DeviceObject *object : allObjects())
    captured += object->isCaptured ? heap_.sizeAt(object->offset) : 0;
  std::string text =
      format("%lld of its %lld bytes are in use on each rank",
             static_cast<long long>(heap_.usedBytes()), static_cast<long long>(heapBytes_));
  if (captured > 0)
    text += format(", %lld of them by captured graphs (see dtile_team_trim)",
                   static_cast<long long>(captured));
  return text;
}

std::vector<DeviceObject *> DeviceTeam::allObjects() const {
  std::vector<DeviceObject *> all;
  for (const auto &[desc, kernel] : kernels_)
    for (const auto &[key, object] : kernel->objects)
      all.push_back(object.get());
  for (const auto &object : orphans_)
    all.push_back(object.get());
  return all;
}

std::vector<DeviceObject *> DeviceTeam::idleObjects() const {
  std::vector<DeviceObject *> idle = allObjects();
  std::erase_if(idle, [&](const DeviceObject *object) {
    return object->isCaptured || object->heldBy == callNumber_;
  });
  // Those of one call by their place, which is the same in all processes.
  std::sort(idle.begin(), idle.end(), [](const DeviceObject *a, const DeviceObject *b) {
    return std::tie(a->lastUse, a->offset) < std::tie(b->lastUse, b->offset);
  });
  return idle;
}

Status DeviceTeam::allocateEvicting(int64_t bytes, int64_t *offset) {
  *offset = heap_.allocate(bytes);
  if (*offset >= 0)
    return {};
  // Nothing goes for what would not fit in spite of it.
  SymmetricHeap trial = heap_;
  std::vector<DeviceObject *> leaving;
  bool fits = false;
  for (DeviceObject *object : idleObjects()) {
    trial.release(object->offset);
    leaving.push_back(object);
    fits = trial.allocate(bytes) >= 0;
    if (fits)
      break;
  }
  if (!fits)
    return {};
  if (Status status = evict(leaving); !status.ok())
    return status;
  *offset = heap_.allocate(bytes);
  return {};
}

Status DeviceTeam::evict(const std::vector<DeviceObject *> &leaving) {
  // Every process says what it would give back, or that it cannot: then nobody does.
  Status idle = synchronize();
  uint64_t chosen = 0xcbf29ce484222325u;
  for (const DeviceObject *object : leaving)
    chosen = (chosen ^ uint64_t(object->offset)) * 0x100000001b3u;
  Status agreed = agree(idle.ok() ? chosen : 0, "which scratch objects and signals of kernels make "
                                                "room, as launches and captures are");
  if (!idle.ok() || !agreed.ok())
    return idle.ok() ? agreed : idle;
  for (DeviceObject *object : leaving)
    if (Status status = giveBack(object); !status.ok())
      return status;
  return {};
}

Status DeviceTeam::giveBack(DeviceObject *object) {
  for (auto &[desc, kernel] : kernels_)
    for (LoadedKernel &loaded : kernel->loaded)
      std::erase_if(loaded.prepared, [&](const auto &prepared) {
        return std::find(prepared->objects.begin(), prepared->objects.end(), object) !=
               prepared->objects.end();
      });
  const int64_t offset = object->offset;
  for (size_t local = 0; local < locals_.size(); ++local) {
    DeviceArena &arena = locals_[local]->arena;
    arena.release((object->isSignal ? object->bases : object->turn)[local], object->baseBytes);
    if (object->isSignal)
      arena.release(object->asked[local], object->askedBytes);
  }
  if (object->kernel)
    object->kernel->objects.erase(ObjectKey(object->key));
  else
    std::erase_if(orphans_, [&](const auto &orphan) { return orphan.get() == object; });
  if (Status status = zeroHeaps(offset, heap_.sizeAt(offset)); !status.ok())
    return status;
  heap_.release(offset);
  return {};
}

Status DeviceTeam::trim(uint32_t flags) {
  if (!broken_.ok())
    return broken_;
  ++callNumber_;
  if ((flags & DTILE_TRIM_CAPTURED) != 0) {
    for (DeviceObject *object : allObjects())
      object->isCaptured = false;
    for (auto &rank : locals_)
      rank->turned.forgetGraphs();
    for (RegisteredMemory &registered : registered_)
      registered.isCaptured = false;
  }
  if (Status status = evict(idleObjects()); !status.ok())
    return status;
  return barrier();
}

} // namespace dtile::runtime
