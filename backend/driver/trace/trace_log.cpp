// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Joins the traces of teams to one.
#include "backend/driver/trace/trace_log.h"

#include "backend/driver/output/output_file.h"
#include "backend/driver/trace/trace_model.h"
#include "backend/driver/trace/trace_summary.h"

#include "backend/runtime/clock.h"
#include "backend/runtime/dtile.h"
#include "backend/runtime/trace/team_trace.h"

#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Signals.h"

#include <csignal>
#include <unistd.h>

namespace dtile::driver {

namespace {

/// Those that end this process; nohup, for one, has it ignore some.
sigset_t endingSignals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int one : {SIGINT, SIGTERM, SIGHUP})
    if (struct sigaction now; ::sigaction(one, nullptr, &now) == 0 && now.sa_handler != SIG_IGN)
      sigaddset(&set, one);
  return set;
}

void writeAll(int descriptor, llvm::StringRef text) {
  (void)!::write(descriptor, text.data(), text.size());
}

} // namespace

TraceLog::TraceLog(const Options &options)
    : options_(options), path_(options.trace), originNs_(runtime::nowNs()),
      room_(options.traceLimit) {
  if (!isOn())
    return;
  // Threads that are made from now on do not take them either.
  const sigset_t set = endingSignals();
  if (sigisemptyset(&set))
    return;
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  signals_ = std::thread([this] { awaitSignal(); });
}

TraceLog::~TraceLog() {
  if (!signals_.joinable())
    return;
  {
    const std::lock_guard lock(mutex_);
    isOver_ = true;
  }
  const sigset_t set = endingSignals();
  for (const int one : {SIGTERM, SIGINT, SIGHUP})
    if (sigismember(&set, one)) {
      pthread_kill(signals_.native_handle(), one);
      break;
    }
  signals_.join();
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

void TraceLog::awaitSignal() {
  const sigset_t set = endingSignals();
  int number = 0;
  if (sigwait(&set, &number) != 0)
    return;
  {
    const std::lock_guard lock(mutex_);
    if (isOver_)
      return;
  }
  const auto [out, err] = abandon();
  writeAll(STDOUT_FILENO, out);
  writeAll(STDERR_FILENO, err);
  llvm::sys::RunInterruptHandlers();
  // So that whoever waits for this process sees how it ended.
  ::signal(number, SIG_DFL);
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  ::raise(number);
}

bool TraceLog::joinJob(Session &session, int rank) {
  constexpr llvm::StringLiteral kRankHole = "@rank";
  const size_t hole = path_.find(kRankHole.str());
  if (!isOn())
    return true;
  if (hole == std::string::npos) {
    session.diagnostics.report(
        SourceLoc{}, diag::bad_command_line,
        "--trace: this is one process of several, and each writes its own file; put `@rank` into "
        "the name, as in out@rank.json, and join the files by `dtilec trace`",
        options_.command == Command::Run ? "dtilec run" : "dtilec test");
    return false;
  }
  path_.replace(hole, kRankHole.size(), std::to_string(rank));
  return true;
}

void TraceLog::name(std::string what) {
  const std::lock_guard lock(mutex_);
  name_ = std::move(what);
}

runtime::TracePlace TraceLog::place() const {
  return {.name = name_.empty() ? "" : name_ + ", ",
          .firstProcess = nextProcess_,
          .originNs = originNs_,
          .kernels = kernels_};
}

void TraceLog::nameKernel(llvm::StringRef launched, llvm::StringRef called) {
  const std::lock_guard lock(mutex_);
  kernels_[launched.str()] = called.str();
}

void TraceLog::add(const runtime::RecordedTrace &recorded) {
  if (!recorded.events.empty() && !events_.empty())
    events_ += ",\n";
  events_ += recorded.events;
  room_ -= recorded.kept;
  kept_ += recorded.kept;
  dropped_ += recorded.dropped;
}

llvm::Error TraceLog::begin(dtile_team *team) {
  const std::lock_guard lock(mutex_);
  // Where no room is left, what does not fit is still counted.
  const runtime::Status status = runtime::beginTrace(*team, std::max<int64_t>(room_, 1));
  if (!status.ok())
    return llvm::createStringError(status.message);
  team_ = team;
  part_ = runtime::tracePart(*team);
  hasBegun_ = true;
  return llvm::Error::success();
}

llvm::Error TraceLog::end(dtile_team *team) {
  const std::lock_guard lock(mutex_);
  team_ = nullptr;
  runtime::RecordedTrace recorded;
  const runtime::Status status = runtime::endTrace(*team, place(), recorded);
  if (!status.ok())
    return llvm::createStringError(status.message);
  add(recorded);
  nextProcess_ += dtile_team_size(team);
  return llvm::Error::success();
}

llvm::Expected<std::string> TraceLog::write() const {
  const std::string text = runtime::traceHead() + events_ + runtime::traceEnd(dropped_, part_);
  std::string summary;
  if (path_ != "-") {
    if (llvm::Error error = writeFile(path_, text))
      return error;
    return summary;
  }
  llvm::Expected<TraceModel> model = readTrace(text);
  if (!model)
    return model.takeError();
  llvm::raw_string_ostream os(summary);
  printSummary(*model, os);
  return summary;
}

std::string TraceLog::leftOut() const {
  if (dropped_ == 0)
    return "";
  return llvm::formatv(
      "the trace leaves out {0} of {1} slices: raise --trace-limit, which is {2}\n", dropped_,
      kept_ + dropped_, options_.traceLimit);
}

std::pair<std::string, std::string> TraceLog::abandon() {
  if (!isOn())
    return {};
  mutex_.lock();
  if (!hasBegun_)
    return {};
  runtime::RecordedTrace recorded;
  if (team_ && runtime::stopTrace(*team_, place(), recorded).ok())
    add(recorded);
  llvm::Expected<std::string> summary = write();
  if (!summary)
    return {"", "error: " + llvm::toString(summary.takeError()) + '\n'};
  return {*summary, leftOut()};
}

void TraceLog::finish(Session &session) {
  const std::lock_guard lock(mutex_);
  if (!isOn() || (!hasBegun_ && session.failed()))
    return;
  llvm::errs() << leftOut();
  llvm::Expected<std::string> summary = write();
  if (summary)
    llvm::outs() << *summary;
  else if (options_.trace == "-")
    session.reportFailure(summary.takeError());
  else
    session.diagnostics.report(SourceLoc{}, diag::cannot_write,
                               llvm::toString(summary.takeError()));
}

} // namespace dtile::driver
