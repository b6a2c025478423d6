// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Traces of teams of devices. Ranks get memory to record in when the first kernel is launched that
// does, and more when one has more programs; the team reads it when it has waited for launches.
#include "backend/runtime/clock.h"
#include "backend/runtime/device/device_team.h"

#include <algorithm>
#include <cstddef>

namespace dtile::runtime {

void DeviceTeam::beginTrace(int64_t mostEvents) {
  (void)endTrace();
  trace_ = std::make_unique<DeviceTrace>(mostEvents);
  // Graphs replay launches that were prepared before. Where there is no room, the next launch that
  // is no replay says so.
  int32_t programs = 0;
  for (const auto &[desc, kernel] : kernels_)
    for (const LoadedKernel &loaded : kernel->loaded)
      for (const auto &prepared : loaded.prepared)
        programs = std::max(programs, kernel->isTraced ? prepared->launch.programs : 0);
  for (auto &rank : locals_)
    if (programs > 0)
      (void)addTraceMemory(*rank, programs);
}

std::unique_ptr<DeviceTrace> DeviceTeam::endTrace() {
  if (!trace_)
    return nullptr;
  for (auto &rank : locals_)
    (void)rank->device->synchronizeAll();
  readTraces();
  for (auto &rank : locals_) {
    (void)leadToTrace(*rank, 0);
    releaseTrace(*rank);
  }
  return std::move(trace_);
}

void DeviceTeam::releaseTrace(DeviceRank &rank) {
  for (const TraceMemory &memory : rank.traces)
    rank.device->release(memory.address);
  rank.traces.clear();
}

Status DeviceTeam::leadToTrace(DeviceRank &rank, DeviceAddress address) {
  rank.words.trace = reinterpret_cast<dtile_device_trace *>(address);
  Status status = rank.device->copyIn(rank.team + DeviceAddress(offsetof(dtile_device_team, trace)),
                                      static_cast<const void *>(&rank.words.trace), sizeof(void *),
                                      rank.stream);
  return status.ok() ? rank.device->synchronize(rank.stream) : status;
}

Status DeviceTeam::prepareTrace(const DeviceKernel &kernel, int32_t local, int32_t programs,
                                const StreamHandle *stream) {
  if (!trace_ || !kernel.isTraced)
    return {};
  const auto has = [](const DeviceRank &rank) {
    return rank.traces.empty() ? 0 : rank.traces.back().regions.programs();
  };
  if (has(*locals_[size_t(local)]) >= programs)
    return {};
  bool isCapturing = false;
  if (stream)
    if (Status status = locals_[size_t(local)]->device->isCapturing(*stream, &isCapturing);
        !status.ok() || isCapturing)
      return status;
  // Of all ranks at once: later a launch of one may wait for that of another. What they have
  // recorded stays where it is.
  for (auto &rank : locals_)
    if (has(*rank) < programs)
      if (Status status = addTraceMemory(*rank, programs); !status.ok())
        return status;
  return {};
}

Status DeviceTeam::addTraceMemory(DeviceRank &rank, int32_t programs) {
  Device &device = *rank.device;
  TraceMemory memory;
  memory.regions = TraceRegions(programs, trace_->mostEvents() / localCount());
  if (Status status = device.allocate(memory.regions.bytes(), &memory.address); !status.ok())
    return {status.code,
            format("no memory for the trace of rank %d (trace fewer slices): ", rank.rank) +
                status.message};
  rank.traces.push_back(memory);
  const std::vector<char> head = memory.regions.head(memory.address);
  Status status = device.copyIn(memory.address, head.data(), int64_t(head.size()), rank.stream);
  return status.ok() ? leadToTrace(rank, memory.address) : status;
}

std::shared_ptr<const TracedKernel> DeviceTeam::tracedKernel(uint64_t kernelId) {
  std::shared_ptr<const TracedKernel> &known = tracedKernels_[kernelId];
  const DeviceKernel *kernel = known ? nullptr : kernelOf(kernelId);
  if (!kernel)
    return known;
  const ReportedNames &names = kernel->names[kernelId - kernel->id];
  std::vector<TracedKernel::Space> spaces;
  for (size_t i = 0; i < names.spaces.size(); ++i)
    spaces.push_back({names.spaces[i], names.vars[i]});
  std::vector<TracedSite> sites;
  for (const ReportedNames::Place &place : names.places)
    sites.push_back({place.file, place.what, place.line, place.column});
  known = std::make_shared<TracedKernel>(kernel->state.name, names.file, names.constants,
                                         std::move(spaces), std::move(sites));
  return known;
}

TracedCell DeviceTeam::tracedCell(const DeviceRank &rank, int64_t address) const {
  TracedCell cell;
  cell.offset = address - int64_t(rank.heap);
  for (const DeviceObject *object : allObjects()) {
    const int64_t number = (cell.offset - object->offset) / int64_t(sizeof(uint64_t));
    if (!object->isSignal || cell.offset < object->offset || number >= object->cells)
      continue;
    cell.number = number;
    cell.ndim = object->key.ndim;
    for (int32_t d = 0; d < cell.ndim; ++d)
      cell.size[d] = int32_t(object->key.size[size_t(d)]);
  }
  return cell;
}

Status DeviceTeam::readTrace(DeviceRank &rank, const TraceMemory &memory,
                             std::vector<TracedEvent> &events, int64_t *dropped) {
  Device &device = *rank.device;
  const auto copy = [&](void *to, int64_t at, int64_t bytes) -> Status {
    return device.copyOut(to, memory.address + DeviceAddress(at), bytes, rank.stream);
  };
  std::vector<char> head(static_cast<size_t>(memory.regions.headBytes()));
  Status status = copy(head.data(), 0, int64_t(head.size()));
  if (status.ok())
    status = device.synchronize(rank.stream);
  if (!status.ok())
    return status;
  std::vector<dtile_device_event> own;
  bool isEmpty = true;
  for (const TraceRegions::Recorded &region : memory.regions.recorded(head, dropped)) {
    own.resize(region.count);
    status = copy(own.data(), region.at, int64_t(region.count * sizeof(dtile_device_event)));
    if (status.ok())
      status = device.synchronize(rank.stream);
    if (!status.ok())
      return status;
    isEmpty = false;
    for (const dtile_device_event &event : own) {
      TracedEvent &traced = events.emplace_back();
      traced.event = event;
      traced.kernel = tracedKernel(event.kernel_id);
      traced.program = region.program;
      traced.recorder = region.recorder;
      if (DeviceTrace::isOfCell(event))
        traced.cell = tracedCell(rank, event.words[0]);
    }
  }
  if (isEmpty)
    return {};
  head = memory.regions.head(memory.address);
  status = device.copyIn(memory.address, head.data(), int64_t(head.size()), rank.stream);
  return status.ok() ? device.synchronize(rank.stream) : status;
}

void DeviceTeam::readTraces() {
  if (!trace_)
    return;
  const int64_t now = nowNs();
  for (auto &rank : locals_) {
    std::vector<TracedEvent> events;
    int64_t dropped = 0;
    for (const TraceMemory &memory : rank->traces)
      // What cannot be read any more, of a device that has failed, is missing.
      if (!readTrace(*rank, memory, events, &dropped).ok())
        break;
    trace_->add(rank->rank, rank->device->facts().ordinal, now, std::move(events), dropped);
  }
}

} // namespace dtile::runtime
