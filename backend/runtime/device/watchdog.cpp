// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What devices say of a launch that was given up. The first program of a rank to find out writes
// the rank's report and sets the abort word, both in host memory; every program that waits looks at
// the word and leaves. So kernels end, and the host puts the counters back where they began.
#include "backend/runtime/device/device_team.h"
#include "backend/runtime/text/report.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <optional>
#include <thread>

namespace dtile::runtime {

namespace {

int64_t elementsOf(const ObjectKey &key) {
  int64_t elements = 1;
  for (int32_t d = 0; d < key.ndim; ++d)
    elements *= key.size[size_t(d)];
  return elements;
}

} // namespace

ReportedNames::ReportedNames(const dtile_kernel_desc &desc, const dtile_device_image &image)
    : file(desc.file), constants(image.constants ? image.constants : "") {
  for (int32_t i = 0; i < desc.nspaces; ++i) {
    const dtile_space_desc &space = desc.spaces[i];
    spaces.emplace_back(space.name);
    vars.emplace_back(space.vars, space.vars + (space.vars ? space.ndims : 0));
  }
  for (int32_t i = 0; i < desc.nparams; ++i)
    params.emplace_back(desc.params[i].name);
  for (int32_t i = 0; i < desc.nparams; ++i)
    senders.push_back(telemetry::sendersOf(desc, i));
  for (int32_t i = 0; i < image.nsites; ++i) {
    const dtile_site &site = image.sites[i];
    places.push_back({site.file, site.what, site.line, site.column});
  }
}

bool DeviceTeam::aborted() const {
  return std::atomic_ref(*static_cast<uint32_t *>(control_)).load(std::memory_order_acquire) != 0;
}

const DeviceKernel *DeviceTeam::kernelOf(uint64_t kernelId) const {
  for (const auto &[desc, kernel] : kernels_)
    if (kernelId - kernel->id < kernel->names.size())
      return kernel.get();
  return nullptr;
}

const DeviceObject *DeviceTeam::waitedObject(const DeviceKernel &kernel,
                                             const dtile_device_report &report,
                                             const std::string &name, bool *isOnly) const {
  const DeviceObject *object = nullptr;
  int candidates = 0;
  for (const auto &[key, each] : kernel.objects) {
    const int64_t places = each->isSignal ? each->cells : elementsOf(key) / 2;
    if (name != kernel.names.front().params[size_t(key.param)] || report.cell >= uint64_t(places))
      continue;
    object = each.get();
    ++candidates;
  }
  *isOnly = candidates == 1;
  return object;
}

void placeIn(const DeviceObject &object, uint64_t cell, int64_t *position) {
  auto number = int64_t(cell);
  for (int32_t d = object.key.ndim - 1; d >= 0; --d) {
    // Of a scratch object the rows have their flags beside them.
    const bool isRow = !object.isSignal && d == object.key.ndim - 1;
    const int64_t size = std::max<int64_t>(object.key.size[size_t(d)] / (isRow ? 2 : 1), 1);
    position[d] = number % size;
    number /= size;
  }
}

std::string DeviceTeam::waitText(const DeviceKernel *kernel, const dtile_device_report &report,
                                 const dtile_site *site) {
  std::string name = site ? site->what : "a signal";
  std::string writer;
  bool isOnly = false;
  if (const DeviceObject *object =
          kernel ? waitedObject(*kernel, report, name, &isOnly) : nullptr) {
    const bool isSignal = object->isSignal;
    int64_t position[DTILE_MAX_RANK];
    placeIn(*object, report.cell, position);
    writer = isSignal ? engineText(*kernel, *object, report) : "";
    // Which of several objects it was, for launches with other sizes, is not known.
    if (object->key.ndim > 0 && (isSignal || isOnly))
      name += shapeText(object->key.ndim, position);
    if (!isSignal) {
      const auto decimal = [](uint64_t launch) { return static_cast<unsigned long long>(launch); };
      return format("`%s`: wants what launch %llu with these sizes puts there, has seen %s",
                    name.c_str(), decimal(report.wanted),
                    report.seen == 0 ? "nothing"
                                     : format("launch %llu's", decimal(report.seen)).c_str());
    }
  }
  return format("`%s`%s: wants %llu, has seen %llu", name.c_str(), writer.c_str(),
                static_cast<unsigned long long>(report.wanted),
                static_cast<unsigned long long>(report.seen));
}

std::string DeviceTeam::reportText(const dtile_device_report &report) {
  const DeviceKernel *kernel = kernelOf(report.kernel_id);
  std::optional<dtile_site> known;
  const ReportedNames *names = kernel ? &kernel->names[report.kernel_id - kernel->id] : nullptr;
  if (names && report.site >= 0 && size_t(report.site) < names->places.size())
    known = names->places[size_t(report.site)].site();
  const dtile_site *site = known ? &*known : nullptr;
  std::string text = site ? siteText(*site) + ": " : std::string();
  text += format("rank %d", report.rank);
  if (kernel) {
    const std::vector<std::string> &spaces = names->spaces;
    text += format(", kernel `%s`", kernel->state.name.c_str());
    if (report.space >= 0 && size_t(report.space) < spaces.size() &&
        !spaces[size_t(report.space)].empty())
      text += format(", role `%s`", spaces[size_t(report.space)].c_str());
  }
  text += format(", program %u", report.program);
  if (report.failure == DTILE_DEVICE_TRAP)
    return text + ": " +
           fillHoles(site ? site->what : "a check failed",
                     std::clamp(report.nargs, 0, DTILE_DEVICE_REPORT_ARGS), report.args);
  if (report.site < 0)
    return text + format(" waits for rank %llu at the entry of a launch",
                         static_cast<unsigned long long>(report.cell));
  return text + " waits for " + waitText(kernel, report, site);
}

Status DeviceTeam::collectFailure(Status driverError) {
  Status failure = sayFailure(std::move(driverError));
  showFailure(failure);
  return failure;
}

Status DeviceTeam::sayFailure(Status driverError) {
  std::atomic_ref(*static_cast<uint32_t *>(control_)).store(1, std::memory_order_release);
  for (auto &rank : locals_)
    if (Status status = rank->device->synchronizeAll(); !status.ok() && driverError.ok())
      driverError = std::move(status);
  // They are emptied below.
  showReports();
  showPrints(/*areOver=*/true);
  tellLostPrints();
  readTraces();
  if (trace_)
    trace_->failed();
  Status failure;
  for (int32_t rank = 0; rank < ranks_; ++rank) {
    dtile_device_report *report = reportOf(rank);
    if (!isComplete(*report))
      continue;
    // A failed check is the cause of others' waits.
    bool isTrap = report->failure == DTILE_DEVICE_TRAP;
    std::string text = reportText(*report);
    if (failure.ok() || (isTrap && failure.code == DTILE_TIMEOUT)) {
      std::string others = failure.ok() ? std::string() : "\n  " + failure.message;
      failure = {isTrap ? DTILE_TRAP : DTILE_TIMEOUT, text + others};
    } else {
      failure.message += "\n  " + text;
    }
  }
  if (failure.code == DTILE_TIMEOUT)
    failure.message =
        format("timeout: a wait took more than %d ms\n  ", timeoutMs_) + failure.message;
  if (job_)
    addWhatTheWatchKnows(failure);
  if (!driverError.ok()) {
    // A fault ends the device's context: nothing can be launched there any more.
    failure = {driverError.code,
               driverError.message + (failure.ok() ? "" : "\n  " + failure.message)};
    if (!resetCounters().ok())
      broken_ = {failure.code, "the team has failed before and cannot be used any more (a fault "
                               "ends the process's use of a GPU; start another process): " +
                                   failure.message};
    if (job_)
      job_->watch().fail({failure.code, format("rank %d: ", job_->rank()) + failure.message});
    return failure;
  }
  if (failure.ok())
    failure = {DTILE_TIMEOUT, "another rank gave its launch up"};
  if (job_) {
    // Others are somewhere in the middle.
    broken_ = {failure.code,
               "the team has failed before and cannot be used any more: " + failure.message};
    return failure;
  }
  if (Status status = resetCounters(); !status.ok())
    broken_ = status;
  return failure;
}

void DeviceTeam::addWhatTheWatchKnows(Status &failure) const {
  // A process of this host may have been told first, and have given the launch up for all.
  constexpr int kMostMs = 500;
  for (int ms = 0; ms < kMostMs && failure.ok() && job_->watch().failure().ok(); ++ms)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  if (Status lost = job_->watch().failure(); !lost.ok()) {
    // Waits for who is gone are what follows from it.
    const std::string waits = failure.ok() ? "" : "\n  " + failure.message;
    failure = {lost.code, lost.message + waits};
  } else if (failure.code == DTILE_TIMEOUT) {
    if (const std::string silent = job_->watch().silentRanks(); !silent.empty())
      failure.message += "\n  " + silent;
  }
}

Status DeviceTeam::resetCounters() {
  for (auto &rank : locals_) {
    if (Status status = rank->arena.zeroAll(); !status.ok())
      return status;
    rank->turned.restart();
  }
  for (const DeviceObject *object : allObjects())
    if (Status status = zeroHeaps(object->offset, object->copyBytes * object->copies); !status.ok())
      return status;
  if (Status status = zeroHeaps(meetingOffset_, int64_t(ranks_) * 8); !status.ok())
    return status;
  for (auto &rank : locals_)
    if (Status status = uploadTeam(*rank); !status.ok())
      return status;
  for (int32_t rank = 0; rank < ranks_; ++rank)
    std::memset(static_cast<void *>(reportOf(rank)), 0, sizeof(dtile_device_report));
  std::atomic_ref(*static_cast<uint32_t *>(control_)).store(0, std::memory_order_release);
  return {};
}

} // namespace dtile::runtime
