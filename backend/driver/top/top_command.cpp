// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `dtilec top`, also `dtile-top`: the jobs that run on this machine, as they are now.
#include "backend/driver/session.h"
#include "backend/driver/top/top_view.h"

#include "backend/runtime/telemetry/wait_graph.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Process.h"

#include <chrono>
#include <string>
#include <sys/ioctl.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace dtile::driver {

using namespace runtime::telemetry;

namespace {

/// Whether the text is the job's name or the number of one of its processes.
bool isMeant(const JobView &job, llvm::StringRef text) {
  uint64_t name = 0;
  int64_t pid = 0;
  return (!text.getAsInteger(16, name) && name == job.job) ||
         (!text.getAsInteger(10, pid) &&
          llvm::any_of(job.processes, [&](const ProcessView &each) { return each.pid == pid; }));
}

std::vector<JobView> findMeant(const Options &options, Notes &notes) {
  std::vector<JobView> jobs = findJobs(&notes);
  if (!options.inputs.empty())
    llvm::erase_if(jobs, [&](const JobView &job) { return !isMeant(job, options.inputs.front()); });
  return jobs;
}

/// As much of the text as the terminal shows.
std::string fitting(llvm::StringRef text) {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row < 2 || size.ws_col < 2)
    return text.str();
  std::string shown;
  llvm::SmallVector<llvm::StringRef> lines;
  text.split(lines, '\n');
  for (llvm::StringRef line : llvm::ArrayRef(lines).take_front(size.ws_row - 1u))
    shown += (line.take_front(size.ws_col) + "\n").str();
  return shown;
}

void waitFor(int64_t ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

void printOnce(const Options &options, llvm::ArrayRef<JobView> jobs, const Looks &earlier,
               llvm::raw_ostream &out) {
  switch (options.topForm) {
  case TopForm::Text:
    printTop(jobs, earlier, options.stragglers, out);
    if (jobs.empty())
      out << "no job of yours runs here\n";
    return;
  case TopForm::Json:
    return printTopJson(jobs, earlier, out);
  case TopForm::Prometheus:
    return printTopPrometheus(jobs, out);
  }
}

/// Until the job that was asked for has ended, or the user ends it.
void watch(const Options &options) {
  Looks earlier;
  for (bool wasThere = false;;) {
    Notes notes;
    std::vector<JobView> jobs = findMeant(options, notes);
    if (jobs.empty() && wasThere && !options.inputs.empty())
      return;
    wasThere |= !jobs.empty();
    std::string text;
    llvm::raw_string_ostream out(text);
    printOnce(options, jobs, earlier, out);
    for (const std::string &note : notes)
      out << note << '\n';
    // Home, the text, and nothing after it.
    llvm::outs() << "\x1b[H\x1b[2J" << fitting(text);
    llvm::outs().flush();
    if (llvm::outs().has_error())
      return;
    earlier.push_back(std::move(jobs));
    if (earlier.size() == kLooks)
      earlier.erase(earlier.begin());
    waitFor(options.intervalMs);
  }
}

} // namespace

ExitCode runTop(const Options &options) {
  Session session(options);
  Notes notes;
  std::vector<JobView> jobs = findMeant(options, notes);
  if (jobs.empty() && !options.inputs.empty()) {
    session.reportFailure("no job of yours runs here that `" + options.inputs.front() +
                          "` is the name or a process of");
    return session.finish();
  }
  if (!options.waitGraph.empty()) {
    if (jobs.size() != 1)
      session.reportFailure(std::to_string(jobs.size()) +
                            " jobs run here: say which one the wait-for graph is of");
    else if (runtime::Status status = writeWaitGraph(options.waitGraph, waitGraphOf(jobs.front()));
             !status.ok())
      session.reportFailure(status.message);
    return session.finish();
  }
  const bool isTerminal = llvm::sys::Process::StandardOutIsDisplayed();
  if (!options.once && isTerminal && options.topForm == TopForm::Text) {
    watch(options);
    return session.finish();
  }
  Looks earlier;
  for (size_t look = 1; options.stragglers && !jobs.empty() && look < kLooks; ++look) {
    earlier.push_back(std::move(jobs));
    waitFor(options.intervalMs / int64_t(kLooks - 1));
    notes.clear();
    jobs = findMeant(options, notes);
  }
  printOnce(options, jobs, earlier, llvm::outs());
  for (const std::string &note : notes)
    llvm::errs() << note << '\n';
  return session.finish();
}

} // namespace dtile::driver
