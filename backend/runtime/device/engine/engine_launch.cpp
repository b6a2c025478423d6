// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Launches whose transfers the copy engine makes (docs/decisions/copy_engine.md). On the caller's
// stream stand a launch of one program, in which ranks meet and launch words move on, and the
// kernel; between the two a stream of the team's forks, on which the copies are, and joins after
// the kernel. Copies are queued before the kernel: where the driver has one queue for all streams,
// the kernel would otherwise wait for what stands after it.
#include "backend/runtime/device/device_team.h"

#include <algorithm>

namespace dtile::runtime {

// ---- The list ----

std::string DeviceTeam::whyNoEngine(const DeviceRank &rank) const {
  if (!rank.device->hasCopyEngine())
    return "this driver makes no copies beside kernels";
  if (rank.sharers > 1)
    return "ranks share a GPU";
  const int32_t far = provider_ ? provider_->firstUnmapped() : -1;
  return far < 0 ? "" : format("the memory of rank %d is not mapped", far);
}

uint32_t DeviceTeam::expectedEngine(const DeviceKernel &kernel, int32_t local,
                                    const LoadedImage &variant, const void *frame) const {
  const dtile_device_image &image = *variant.image;
  if (!image.engine || ranks_ == 1 || !whyNoEngine(*locals_[size_t(local)]).empty())
    return 0;
  uint32_t spaces = 0;
  size_t copies = 0;
  for (int32_t s = 0; s < kernel.state.desc->nspaces; ++s) {
    if (!image.engine[s])
      continue;
    // A body's data, and the word that follows it.
    copies += 2 * size_t(std::max<int64_t>(image.counts[s](frame), 0));
    spaces |= 1u << unsigned(s);
  }
  return copies <= EngineWork::kMostCopies ? spaces : 0;
}

Status DeviceTeam::listTransfers(DeviceKernel &kernel, int32_t local, const LoadedImage &variant,
                                 DeviceLaunch &device, PreparedLaunch &prepared) {
  const dtile_device_image &image = *variant.image;
  if (!image.engine)
    return {};
  DeviceRank &rank = *locals_[size_t(local)];
  EngineWork &work = prepared.engine;
  if (ranks_ == 1)
    return {};
  prepared.begins = true;
  if (std::string why = whyNoEngine(rank); !why.empty())
    work.refuse(std::move(why));
  const void *frame = prepared.frame.get();
  device.engine = &work;
  device.objects = prepared.objects;
  rank.launch.device = &device;
  uint32_t spaces = 0;
  for (int32_t s = 0; s < kernel.state.desc->nspaces; ++s) {
    const int64_t bodies = image.engine[s] ? image.counts[s](frame) : 0;
    spaces |= image.engine[s] ? 1u << unsigned(s) : 0;
    for (int64_t body = 0; body < bodies && work.refusal().empty(); ++body)
      image.engine[s](&rank.launch, frame, body);
  }
  rank.launch.device = nullptr;
  device.engine = nullptr;
  if (work.copies().empty())
    return {};
  prepared.launch.engine = spaces;
  for (EngineStream *stream : {&rank.engine, &rank.capturedEngine})
    if (Status status = openEngine(*rank.device, *stream); !status.ok())
      return status;
  return {};
}

void DeviceTeam::listPut(dtile_launch &launch, const dtile_region &source,
                         const dtile_region &destination, const dtile_site &site) {
  const DeviceRank &rank = *locals_[size_t(launch.local)];
  EngineWork &work = *launch.device->engine;
  const int32_t peer = destination.rank;
  if (peer == rank.rank)
    return;
  if (peer < 0 || peer >= ranks_)
    return work.refuse("a check of its bodies fails");
  const auto there = reinterpret_cast<DeviceAddress>(destination.data) - rank.heap;
  work.put(heapAt(rank, peer) + there, reinterpret_cast<DeviceAddress>(source.data),
           planRuns(source, destination), site);
}

void DeviceTeam::listNotify(dtile_launch &launch, const dtile_region &cells) {
  const DeviceRank &rank = *locals_[size_t(launch.local)];
  EngineWork &work = *launch.device->engine;
  const int32_t peer = cells.rank;
  if (peer == rank.rank || !work.refusal().empty())
    return;
  forEachElement(cells, cells.data, [&](const char *address) {
    const DeviceAddress there = reinterpret_cast<DeviceAddress>(address) - rank.heap;
    const auto &objects = launch.device->objects;
    const auto found = std::find_if(objects.begin(), objects.end(), [&](const DeviceObject *one) {
      return one->isSignal && int64_t(there) >= one->offset &&
             int64_t(there) < one->offset + 8 * one->cells;
    });
    if (peer < 0 || peer >= ranks_ || found == objects.end()) {
      work.refuse("a check of its bodies fails");
      return false;
    }
    const DeviceObject &signal = **found;
    const DeviceAddress word =
        signal.bases[size_t(launch.local)] + DTILE_DEVICE_LAUNCH_WORD * sizeof(uint64_t);
    work.notify(heapAt(rank, peer) + there, word,
                {.peer = peer, .signal = &signal, .cell = (there - uint64_t(signal.offset)) / 8});
    return work.refusal().empty();
  });
}

// ---- The launch ----

Status DeviceTeam::openEngine(Device &device, EngineStream &stream) {
  Status status;
  if (!stream.stream)
    status = device.createStream(&stream.stream);
  if (status.ok() && !stream.event)
    status = device.createEvent(&stream.event);
  return status;
}

void DeviceTeam::closeEngine(Device &device, EngineStream &stream) {
  if (stream.event)
    device.destroyEvent(stream.event);
  if (stream.stream)
    device.destroyStream(stream.stream);
  stream = {};
}

Status DeviceTeam::beginEngine(int32_t local, PreparedLaunch &prepared, const GridLaunch &grid,
                               StreamHandle stream, EngineStream **used) {
  DeviceRank &rank = *locals_[size_t(local)];
  dtile_device_launch words = prepared.launch;
  words.flags |= DTILE_KERNEL_ENTRY_BARRIER | DTILE_DEVICE_BEGINS;
  words.programs = 1;
  GridLaunch begin = grid;
  begin.programs = 1;
  begin.cooperative = false;
  begin.cluster = 1;
  begin.parameters[0] = &words;
  if (Status status = rank.device->launch(begin, stream); !status.ok())
    return status;
  if (prepared.engine.copies().empty())
    return {};
  bool isCaptured = false;
  if (Status status = rank.device->isCapturing(stream, &isCaptured); !status.ok())
    return status;
  EngineStream &engine = isCaptured ? rank.capturedEngine : rank.engine;
  *used = &engine;
  Status status = rank.device->follow(stream, engine.stream, engine.event);
  for (const DeviceCopy &copy : prepared.engine.copies())
    if (status.ok())
      status = rank.device->copyAcross(copy, engine.stream);
  return status;
}

// ---- Reports ----

std::string DeviceTeam::engineText(const DeviceKernel &kernel, const DeviceObject &signal,
                                   const dtile_device_report &report) const {
  // Of other processes' copies only those are known that this one makes in the same place.
  std::string alike;
  for (size_t local = 0; local < locals_.size(); ++local)
    for (const auto &prepared : kernel.loaded[local].prepared)
      for (const EngineWork::Arrival &one : prepared->engine.arrivals()) {
        if (one.signal != &signal || one.place < 0)
          continue;
        const EngineWork::Place &put = prepared->engine.places()[size_t(one.place)];
        const std::string place = format("%s:%d:%d", put.file.c_str(), put.line, put.column);
        if (one.peer == report.rank && one.cell == report.cell)
          return format(", which the copy engine of rank %d writes after the put at %s",
                        locals_[local]->rank, place.c_str());
        alike = format(", which a copy engine writes after a put at %s", place.c_str());
      }
  return alike;
}

} // namespace dtile::runtime
