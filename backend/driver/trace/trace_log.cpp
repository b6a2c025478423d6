// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Joins the traces of teams to one.
#include "backend/driver/trace/trace_log.h"

#include "backend/driver/output/output_file.h"
#include "backend/driver/trace/trace_model.h"
#include "backend/driver/trace/trace_summary.h"

#include "backend/runtime/clock.h"
#include "backend/runtime/dtile.h"
#include "backend/runtime/trace/team_trace.h"

namespace dtile::driver {

TraceLog::TraceLog(const Options &options)
    : options_(options), originNs_(runtime::nowNs()), room_(options.traceLimit) {}

llvm::Error TraceLog::begin(dtile_team *team) {
  // Where no room is left, what does not fit is still counted.
  const runtime::Status status = runtime::beginTrace(*team, std::max<int64_t>(room_, 1));
  if (!status.ok())
    return llvm::createStringError(status.message);
  return llvm::Error::success();
}

llvm::Error TraceLog::end(dtile_team *team) {
  runtime::RecordedTrace recorded;
  const runtime::TracePlace place = {.name = name_.empty() ? "" : name_ + ", ",
                                     .firstProcess = nextProcess_,
                                     .originNs = originNs_};
  const runtime::Status status = runtime::endTrace(*team, place, recorded);
  if (!status.ok())
    return llvm::createStringError(status.message);
  if (!recorded.events.empty() && !events_.empty())
    events_ += ",\n";
  events_ += recorded.events;
  room_ -= recorded.kept;
  kept_ += recorded.kept;
  dropped_ += recorded.dropped;
  nextProcess_ += dtile_team_size(team);
  return llvm::Error::success();
}

void TraceLog::finish(Session &session) {
  if (!isOn())
    return;
  const std::string text = runtime::traceHead() + events_ + runtime::traceEnd(dropped_);
  if (dropped_ > 0)
    llvm::errs() << "the trace leaves out " << dropped_ << " of " << kept_ + dropped_
                 << " slices: raise --trace-limit, which is " << options_.traceLimit << '\n';
  if (options_.trace != "-") {
    if (llvm::Error error = writeFile(options_.trace, text))
      session.diagnostics.report(SourceLoc{}, diag::cannot_write, llvm::toString(std::move(error)));
    return;
  }
  llvm::Expected<TraceModel> model = readTrace(text);
  if (!model)
    return session.reportFailure(model.takeError());
  printSummary(*model, llvm::outs());
}

void reportTracedJob(Session &session) {
  session.diagnostics.report(SourceLoc{}, diag::bad_command_line,
                             "--trace is for ranks of one process, and this is one of several",
                             session.options.command == Command::Run ? "dtilec run"
                                                                     : "dtilec test");
}

} // namespace dtile::driver
