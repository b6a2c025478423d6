// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What bodies on devices print. A rank gets its ring when the first kernel is loaded that needs it;
// the team reads it whenever it has something to do, above all while it waits for launches.
#include "backend/runtime/device/device_team.h"
#include "backend/runtime/text/print_text.h"

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>

namespace dtile::runtime {

namespace {

constexpr const char *kVariable = "DTILE_PRINT_BYTES";
/// Of a rank's ring: by default, and what can be asked for.
constexpr int64_t kRoom = 1 << 20, kLeastRoom = 1 << 12, kMostRoom = int64_t(1) << 30;

/// A power of two.
Status roomOfRings(int64_t *room) {
  const char *text = std::getenv(kVariable);
  *room = kRoom;
  if (!text || !*text)
    return {};
  char *end = nullptr;
  errno = 0;
  const long long asked = std::strtoll(text, &end, 10);
  if (*end || errno != 0 || asked < kLeastRoom || asked > kMostRoom)
    return {DTILE_INVALID,
            format("%s is `%s`: it is the bytes for what kernels print, from %lld to %lld",
                   kVariable, text, static_cast<long long>(kLeastRoom),
                   static_cast<long long>(kMostRoom))};
  for (*room = kLeastRoom; *room < asked;)
    *room *= 2;
  return {};
}

} // namespace

Status DeviceTeam::openPrints() {
  int64_t room = 0;
  if (Status status = roomOfRings(&room); !status.ok())
    return status;
  for (auto &rank : locals_) {
    if (rank->prints)
      continue;
    Device &device = *rank->device;
    if (Status status = device.allocatePinned(PrintRing::sizeFor(room), &rank->printMemory);
        !status.ok())
      return {status.code, format("no memory for what kernels print on rank %d (lower %s): ",
                                  rank->rank, kVariable) +
                               status.message};
    rank->prints.emplace(rank->printMemory.host, room);
    rank->words.prints = reinterpret_cast<dtile_device_prints *>(rank->printMemory.device);
    Status status =
        device.copyIn(rank->team + DeviceAddress(offsetof(dtile_device_team, prints)),
                      static_cast<const void *>(&rank->words.prints), sizeof(void *), rank->stream);
    if (status.ok())
      status = device.synchronize(rank->stream);
    if (!status.ok())
      return status;
  }
  return {};
}

std::string DeviceTeam::printText(int32_t rank, const dtile_device_print &print) const {
  BodyPlace place{rank, "?", "", {}, positionOf(print)};
  std::string name = "?";
  if (const DeviceKernel *kernel = kernelOf(print.kernel_id)) {
    const ReportedNames &names = kernel->names[print.kernel_id - kernel->id];
    place.kernel = kernel->state.name;
    if (print.space >= 0 && size_t(print.space) < names.spaces.size()) {
      place.role = names.spaces[size_t(print.space)];
      place.vars = names.vars[size_t(print.space)];
    }
    if (print.site >= 0 && size_t(print.site) < names.places.size())
      name = names.places[size_t(print.site)].what;
  }
  return place.text() + ": " + name + valueText(print) + "\n";
}

void DeviceTeam::showPrints(bool areOver) {
  for (auto &rank : locals_)
    if (rank->prints)
      rank->prints->read(areOver, [&](const dtile_device_print &print) {
        // One write a line, so that lines of processes do not mix.
        std::fputs(printText(rank->rank, print).c_str(), stderr);
      });
}

void DeviceTeam::tellLostPrints() {
  for (auto &rank : locals_) {
    if (!rank->prints)
      continue;
    const LostPrints lost = rank->prints->takeLost();
    if (lost.records == 0)
      continue;
    const std::string text = format(
        "dtile: rank %d: %llu %s lost (%llu bytes; there are %lld): print less at once, or raise "
        "%s\n",
        rank->rank, static_cast<unsigned long long>(lost.records),
        lost.records == 1 ? "value that a kernel printed is" : "values that kernels printed are",
        static_cast<unsigned long long>(lost.bytes), static_cast<long long>(rank->prints->room()),
        kVariable);
    std::fputs(text.c_str(), stderr);
  }
}

} // namespace dtile::runtime
