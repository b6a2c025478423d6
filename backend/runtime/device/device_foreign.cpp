// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Memory of others as symmetric objects. Kernels find a peer's memory at one distance from their
// own, that of the heaps. So the allocations that the memory is in are mapped a second time, each
// after its rank's heap, and all at the same offset there: then one distance serves them all.
// Tensors of launches that lie in registered memory are passed on as tensors there.
//
// The driver's memory lives as long as any mapping of it, so what an owner frees is no danger.
// Launches with a tensor at an address where other memory is mapped since are refused.
#include "backend/runtime/device/device_team.h"

#include <algorithm>

namespace dtile::runtime {

namespace {

/// Allocations of the driver are multiples of this, and begin at one.
constexpr int64_t kGranularity = int64_t(2) << 20;

/// What ranks tell each other of what they register.
struct Offer {
  int64_t isFine = 0;
  int64_t bytes = 0, inside = 0, mappedBytes = 0, offset = 0;
  bool operator==(const Offer &) const = default;
};

} // namespace

DeviceAddress DeviceTeam::heapOf(int32_t rank) const {
  const DeviceRank &own = *locals_.front();
  return rank == own.rank ? own.heap : own.mapped[size_t(rank)];
}

Status DeviceTeam::findForeign(void *const *pointers, int64_t bytes, RegisteredMemory *out,
                               std::vector<ForeignMemory> *memory) {
  DeviceRank &own = *locals_.front();
  memory->assign(size_t(ranks_), {});
  for (int32_t rank = 0; rank < ranks_; ++rank) {
    ForeignMemory &found = (*memory)[size_t(rank)];
    const auto at = reinterpret_cast<DeviceAddress>(pointers[rank]);
    Status status =
        at ? own.device->findForeign(at, &found) : Status{DTILE_INVALID, "the pointer is null"};
    if (status.ok() && found.bytes - int64_t(at - found.begin) < bytes)
      status = {DTILE_INVALID,
                format("%lld bytes go past the end of its allocation, which has "
                       "%lld behind the pointer",
                       static_cast<long long>(bytes),
                       static_cast<long long>(found.bytes - int64_t(at - found.begin)))};
    if (!status.ok()) {
      status.message =
          format("dtile_symm_register, rank %d's memory as rank %d has it: ", rank, own.rank) +
          status.message;
      return status;
    }
    const auto inside = int64_t(at - found.begin);
    if (rank == 0) {
      out->inside = inside;
      out->mappedBytes = found.bytes;
    }
    if (inside != out->inside || found.bytes != out->mappedBytes)
      return {
          DTILE_INVALID,
          format("dtile_symm_register: the memory of rank %d begins %lld bytes behind the begin "
                 "of an allocation of %lld bytes, that of rank 0 %lld behind one of %lld: "
                 "symmetric memory lies alike on all ranks",
                 rank, static_cast<long long>(inside), static_cast<long long>(found.bytes),
                 static_cast<long long>(out->inside), static_cast<long long>(out->mappedBytes))};
  }
  out->mapping = (*memory)[size_t(own.rank)].mapping;
  out->address = reinterpret_cast<DeviceAddress>(pointers[own.rank]);
  out->bytes = bytes;
  for (const RegisteredMemory &other : registered_)
    if (out->address < other.address + DeviceAddress(other.bytes) &&
        other.address < out->address + DeviceAddress(bytes))
      return {DTILE_INVALID, "dtile_symm_register: this memory, or a part of it, is registered "
                             "already"};
  return {};
}

Status DeviceTeam::mapForeign(const RegisteredMemory &registered,
                              const std::vector<ForeignMemory> &memory) {
  Device &device = *locals_.front()->device;
  for (int32_t rank = 0; rank < ranks_; ++rank)
    if (Status status = device.mapForeign(memory[size_t(rank)],
                                          heapOf(rank) + DeviceAddress(registered.offset));
        !status.ok()) {
      unmapForeign(registered, rank);
      status.message = format("dtile_symm_register, rank %d's memory: ", rank) + status.message;
      return status;
    }
  return {};
}

void DeviceTeam::unmapForeign(const RegisteredMemory &registered, int32_t ranks) {
  for (int32_t rank = 0; rank < ranks; ++rank)
    locals_.front()->device->unmapForeign(heapOf(rank) + DeviceAddress(registered.offset),
                                          registered.mappedBytes);
}

void DeviceTeam::unmapAllForeign() {
  for (const RegisteredMemory &registered : registered_)
    unmapForeign(registered, ranks_);
  registered_.clear();
}

Status DeviceTeam::symmRegister(void *const *pointers, int64_t bytes) {
  if (!broken_.ok())
    return broken_;
  if (!pointers || bytes <= 0)
    return {DTILE_INVALID, "dtile_symm_register: the pointers are null, or there are no bytes"};
  if (!job_ || provider_)
    return {DTILE_UNAVAILABLE, "dtile_symm_register wants a job of one process a GPU, and the "
                               "shmem provider p2p"};
  RegisteredMemory registered;
  std::vector<ForeignMemory> memory;
  Status status = findForeign(pointers, bytes, &registered, &memory);
  if (status.ok()) {
    const int64_t room = (registered.mappedBytes + kGranularity - 1) / kGranularity * kGranularity;
    registered.offset = window_.allocate(room);
    if (registered.offset < 0)
      status = {DTILE_OUT_OF_MEMORY,
                format("dtile_symm_register: no address space for %lld bytes behind the symmetric "
                       "heap, where there are %lld: unregister other memory",
                       static_cast<long long>(room), static_cast<long long>(windowBytes_))};
    else if (status = mapForeign(registered, memory); !status.ok())
      window_.release(registered.offset);
  }
  // Whether all got so far is known before anybody relies on it.
  const Offer own = {status.ok(), bytes, registered.inside, registered.mappedBytes,
                     registered.offset};
  std::vector<Offer> all(static_cast<size_t>(ranks_));
  Status met = job_->allGather(&own, sizeof own, all.data(), "dtile_symm_register");
  for (int32_t rank = 0; rank < ranks_ && met.ok() && status.ok(); ++rank)
    if (!(all[size_t(rank)] == own))
      met = {DTILE_INVALID,
             !all[size_t(rank)].isFine
                 ? format("dtile_symm_register: rank %d could not register its memory", rank)
                 : format("dtile_symm_register: rank %d registers %lld bytes, and rank %d %lld, or "
                          "they have registered something else before",
                          rank, static_cast<long long>(all[size_t(rank)].bytes),
                          locals_.front()->rank, static_cast<long long>(bytes))};
  if (status.ok() && !met.ok()) {
    unmapForeign(registered, ranks_);
    window_.release(registered.offset);
  }
  if (!status.ok() || !met.ok())
    return status.ok() ? met : status;
  callers_.add(registered.offset + registered.inside, bytes);
  registered_.push_back(registered);
  return {};
}

void DeviceTeam::forgetLaunchesOf(int64_t offset, int64_t bytes) {
  for (auto &[desc, kernel] : kernels_)
    for (LoadedKernel &loaded : kernel->loaded)
      std::erase_if(loaded.prepared, [&](const auto &prepared) {
        return std::any_of(prepared->arguments.begin(), prepared->arguments.end(),
                           [&](int64_t at) { return at >= offset && at < offset + bytes; });
      });
}

Status DeviceTeam::symmUnregister(void *address) {
  if (!broken_.ok())
    return broken_;
  const auto found = std::find_if(registered_.begin(), registered_.end(), [&](const auto &one) {
    return one.address == reinterpret_cast<DeviceAddress>(address);
  });
  Status unknown = {DTILE_INVALID, "dtile_symm_unregister: nothing was registered at this "
                                   "address, or it was unregistered already"};
  if (!job_)
    return unknown;
  struct Answer {
    /// Where the memory is behind the heap; -1: nowhere.
    int64_t offset = -1;
    int64_t isCaptured = 0;
  } own;
  if (found != registered_.end())
    own = {found->offset, found->isCaptured ? 1 : 0};
  // All ranks have captured alike, but only the answer of all is one.
  std::vector<Answer> all(static_cast<size_t>(ranks_));
  if (Status status = job_->allGather(&own, sizeof own, all.data(), "dtile_symm_unregister");
      !status.ok())
    return status;
  for (int32_t rank = 0; rank < ranks_; ++rank)
    if (all[size_t(rank)].offset != own.offset)
      return {DTILE_INVALID,
              format("dtile_symm_unregister: ranks %d and %d give memory that was not registered "
                     "together",
                     locals_.front()->rank, rank)};
  if (found == registered_.end())
    return unknown;
  const RegisteredMemory registered = *found;
  for (int32_t rank = 0; rank < ranks_; ++rank)
    if (all[size_t(rank)].isCaptured != 0)
      return {DTILE_INVALID,
              format("dtile_symm_unregister: rank %d has captured a launch with this memory: when "
                     "no graph that was captured before is replayed any more, call dtile_team_trim "
                     "with DTILE_TRIM_CAPTURED first",
                     rank)};
  // Whoever uses it, here or on a peer, has to be done.
  if (Status status = locals_.front()->device->synchronizeAll(); !status.ok())
    return status;
  if (Status status = barrier(); !status.ok())
    return status;
  forgetLaunchesOf(registered.offset, registered.mappedBytes);
  callers_.remove(registered.offset + registered.inside);
  locals_.front()->turned.release(registered.offset, registered.offset + registered.mappedBytes);
  registered_.erase(found);
  unmapForeign(registered, ranks_);
  window_.release(registered.offset);
  return barrier();
}

Status DeviceTeam::translate(int32_t local, const dtile_kernel_desc &desc,
                             const StreamHandle *stream, const dtile_arg **arguments,
                             int32_t nargs) {
  if (desc.abi_version != DTILE_ABI_VERSION || nargs <= 0 || !*arguments)
    return {};
  translated_.assign(*arguments, *arguments + nargs);
  translatedTensors_.clear();
  translatedTensors_.reserve(size_t(nargs));
  DeviceRank &rank = *locals_[size_t(local)];
  int32_t at = 0;
  for (int32_t i = 0; i < desc.nparams && at < nargs; ++i) {
    const dtile_param_desc &param = desc.params[i];
    if (param.kind == DTILE_PARAM_SIGNAL || isScratch(param))
      continue;
    const dtile_tensor *tensor =
        param.kind == DTILE_PARAM_TENSOR ? translated_[size_t(at)].tensor : nullptr;
    const auto data = tensor ? reinterpret_cast<DeviceAddress>(tensor->data) : 0;
    for (RegisteredMemory &registered : registered_) {
      if (!tensor || data < registered.address ||
          data >= registered.address + DeviceAddress(registered.bytes))
        continue;
      // The owner's memory is still there for kernels, but a tensor at its address is another one.
      if (registered.mapping != 0 && rank.device->mappingAt(data) != registered.mapping)
        return {
            DTILE_INVALID,
            format("kernel `%s`, argument `%s`, rank %d: its memory has been freed since it was "
                   "registered, or is other memory at the same address: unregister memory "
                   "before it is freed",
                   desc.name, param.name, rank.rank)};
      dtile_tensor &there = translatedTensors_.emplace_back(*tensor);
      there.data =
          reinterpret_cast<void *>(rank.heap + DeviceAddress(registered.offset) +
                                   DeviceAddress(registered.inside) + (data - registered.address));
      translated_[size_t(at)].tensor = &there;
      bool isCaptured = registered.isCaptured;
      if (stream && !isCaptured)
        if (Status status = rank.device->isCapturing(*stream, &isCaptured); !status.ok())
          return status;
      registered.isCaptured = isCaptured;
    }
    ++at;
  }
  if (!translatedTensors_.empty())
    *arguments = translated_.data();
  return {};
}

} // namespace dtile::runtime
