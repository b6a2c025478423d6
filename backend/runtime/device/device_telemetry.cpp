// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a team of devices shows to other programs: what the host knows without asking a device.
// Launches are counted where they are queued; what a program waited for comes of the report that it
// leaves in host memory when it gives up.
#include "backend/runtime/clock.h"
#include "backend/runtime/device/device_team.h"
#include "backend/runtime/telemetry/wait_graph.h"
#include "backend/runtime/text/report.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <unistd.h>

namespace dtile::runtime {

Status DeviceTeam::beginTelemetry() {
  telemetry::TeamFacts facts = {.kind = telemetry::Kind::Gpus,
                                .ranks = ranks_,
                                .firstLocal = firstLocal(),
                                .localCount = localCount(),
                                .timeoutMs = timeoutMs_,
                                .isDirect = !job_ || !job_->hasSeveralHosts(),
                                .job = uint64_t(nowNs()) ^ (uint64_t(getpid()) << 40)};
  if (job_) {
    // Rank 0's number is the job's.
    std::vector<uint64_t> all(size_t(ranks_), facts.job);
    if (Status status = job_->allGather(&facts.job, sizeof facts.job, all.data(), "the telemetry");
        !status.ok())
      return status;
    facts.job = all.front();
  }
  telemetry_ = std::make_unique<telemetry::Writer>(facts);
  const char *graph = std::getenv("DTILE_WAIT_GRAPH");
  waitGraph_ = graph ? graph : "";
  const char *log = std::getenv("DTILE_LOG_LAUNCHES");
  logsLaunches_ = log && *log && std::strcmp(log, "0") != 0;
  return {};
}

void DeviceTeam::showLaunch(int32_t local, const DeviceKernel &kernel) {
  if (showsReports_)
    hideReports();
  telemetry_->launchQueued(local, kernel.shownName);
}

void DeviceTeam::showReports() {
  for (int32_t local = 0; local < localCount(); ++local) {
    dtile_device_report &report = *reportOf(firstLocal() + local);
    if (isComplete(report) && report.failure == DTILE_DEVICE_TIMEOUT)
      showReport(local, report);
  }
}

void DeviceTeam::showReport(int32_t local, const dtile_device_report &report) {
  telemetry::Writer &writer = *telemetry_;
  const DeviceKernel *kernel = kernelOf(report.kernel_id);
  telemetry::Wait *wait = writer.openWait(size_t(local));
  if (!wait)
    return writer.leaveOut();
  showsReports_ = true;
  const int32_t rank = firstLocal() + local;
  *wait = {.turn = wait->turn, .rank = rank, .fromRank = -1};
  // Its budget is used up.
  wait->sinceNs = nowNs() - int64_t(timeoutMs_) * 1'000'000;
  if (kernel)
    wait->kernel = kernel->shownName;
  if (report.site < 0) {
    wait->place = writer.stringOf("the entry of a launch");
    wait->from = telemetry::From::Rank;
    wait->fromRank = int32_t(std::min<uint64_t>(report.cell, uint64_t(ranks_)));
    return writer.closeWait(*wait, telemetry::WaitState::Meeting);
  }
  wait->wanted = report.wanted;
  wait->seen = report.seen;
  wait->dims = writer.stringOf("program");
  wait->ndims = 1;
  wait->body[0] = report.program;
  if (!kernel)
    return writer.closeWait(*wait, telemetry::WaitState::Cell);
  const ReportedNames &names = kernel->names[report.kernel_id - kernel->id];
  if (report.space >= 0 && size_t(report.space) < names.spaces.size())
    wait->role = writer.stringOf(names.spaces[size_t(report.space)]);
  if (size_t(report.site) < names.places.size()) {
    const ReportedNames::Place &place = names.places[size_t(report.site)];
    wait->place = writer.stringOf(siteText(place.site()));
    wait->signal = writer.stringOf(place.what);
    bool isOnly = false;
    const DeviceObject *object = waitedObject(*kernel, report, place.what, &isOnly);
    if (object && (object->isSignal || isOnly)) {
      wait->cellDims = object->key.ndim;
      placeIn(*object, report.cell, wait->cell);
      const telemetry::Senders &senders = names.senders[size_t(object->key.param)];
      wait->fromRoles = writer.stringOf(senders.roles);
      wait->fromPlace = writer.stringOf(senders.place);
      telemetry::findSender(senders.from, senders.value, rank, ranks_, *wait);
    }
  }
  writer.closeWait(*wait, telemetry::WaitState::Cell);
}

void DeviceTeam::hideReports() {
  for (int32_t local = 0; local < localCount(); ++local)
    if (telemetry::Wait *wait = telemetry_->openWait(size_t(local)))
      telemetry_->endWait(*wait);
  showsReports_ = false;
}

void DeviceTeam::showFailure(Status &failure) {
  telemetry_->fail(failure.code, failure.message);
  telemetry_->rest(/*hasFailed=*/true);
  if (Status status = telemetry::keepWaitGraph(waitGraph_, *telemetry_, job_ != nullptr);
      !status.ok())
    failure.message += "\n" + status.message;
  // Of a team that goes on, nothing runs any more.
  telemetry_->restart(0);
}

} // namespace dtile::runtime
