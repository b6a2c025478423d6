// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A block is an open file of its process: /proc/PID/fd/N. Blocks are read, not mapped, so that a
// process which ends or cuts its file costs a short read and no signal.
#include "backend/runtime/telemetry/processes.h"

#include "backend/runtime/clock.h"
#include "backend/runtime/errors.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <fstream>
#include <memory>
#include <sys/stat.h>
#include <unistd.h>

namespace dtile::runtime::telemetry {

namespace {

struct CloseFolder {
  void operator()(DIR *folder) const { closedir(folder); }
};
using Folder = std::unique_ptr<DIR, CloseFolder>;

bool isNumber(const char *text) {
  return *text && std::strspn(text, "0123456789") == std::strlen(text);
}

bool isBlock(const std::string &link) {
  char target[128];
  const ssize_t length = readlink(link.c_str(), target, sizeof target - 1);
  if (length <= 0)
    return false;
  target[length] = 0;
  const std::string name = std::string("/memfd:") + kName;
  return target == name || target == name + " (deleted)";
}

/// Whether the system has stopped the process (T, or t under a debugger).
bool isStopped(int64_t pid) {
  std::ifstream file(format("/proc/%lld/stat", static_cast<long long>(pid)));
  std::string facts;
  std::getline(file, facts);
  // The name in parentheses may hold anything.
  const size_t end = facts.rfind(") ");
  return end != std::string::npos && end + 2 < facts.size() &&
         (facts[end + 2] == 'T' || facts[end + 2] == 't');
}

/// How long its threads have run, and were ready and had no processor.
void readProcessorTimes(int64_t pid, ProcessView &process) {
  const std::string folder = format("/proc/%lld/task/", static_cast<long long>(pid));
  const Folder threads(opendir(folder.c_str()));
  while (const dirent *thread = threads ? readdir(threads.get()) : nullptr) {
    if (!isNumber(thread->d_name))
      continue;
    std::ifstream file(folder + thread->d_name + "/schedstat");
    int64_t ran = 0, starved = 0;
    if (file >> ran >> starved) {
      process.ranNs += ran;
      process.starvedNs += starved;
    }
  }
}

struct Found {
  ino_t file;
  ProcessView process;
};

/// A forked child has its parent's block open, too.
void add(std::vector<Found> &all, ino_t file, ProcessView process, int64_t pid) {
  const bool isWriter = process.pid == pid;
  // Its own number may be another one, where it runs in a namespace of its own.
  process.pid = pid;
  process.isStopped = isStopped(pid);
  readProcessorTimes(pid, process);
  const auto known =
      std::find_if(all.begin(), all.end(), [&](const Found &each) { return each.file == file; });
  if (known == all.end())
    all.push_back({file, std::move(process)});
  else if (isWriter)
    known->process = std::move(process);
}

/// None and no note where the process has ended meanwhile.
void readFile(const std::string &path, int64_t pid, std::vector<Found> &found, Notes *notes) {
  const auto note = [&](const std::string &why) {
    if (notes)
      notes->push_back(
          format("process %lld: its telemetry is left out: ", static_cast<long long>(pid)) + why);
  };
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (file < 0) {
    if (errno != ENOENT && errno != ESRCH)
      note(std::strerror(errno));
    return;
  }
  struct stat facts{};
  std::string bytes;
  if (fstat(file, &facts) == 0 && S_ISREG(facts.st_mode) && facts.st_size > 0 &&
      uint64_t(facts.st_size) <= kMostBytes) {
    bytes.resize(size_t(facts.st_size));
    size_t have = 0;
    while (have < bytes.size()) {
      const ssize_t got = pread(file, bytes.data() + have, bytes.size() - have, off_t(have));
      if (got <= 0)
        break;
      have += size_t(got);
    }
    bytes.resize(have);
  }
  close(file);
  // It is being made: its process writes the greeting last.
  if (bytes.size() < sizeof(uint64_t) || bytes.find_first_not_of('\0') >= sizeof(uint64_t))
    return;
  std::string why;
  std::optional<ProcessView> view = readBlock(bytes, &why);
  if (!view)
    return note(why);
  add(found, facts.st_ino, std::move(*view), pid);
}

} // namespace

const ProcessView *JobView::processOf(int32_t rank) const {
  for (const ProcessView &process : processes)
    if (rank >= process.firstLocal && rank < process.firstLocal + int32_t(process.local.size()))
      return &process;
  return nullptr;
}

const RankView *JobView::rank(int32_t rank) const {
  const ProcessView *process = processOf(rank);
  return process ? &process->local[size_t(rank - process->firstLocal)] : nullptr;
}

std::vector<JobView> joinJobs(std::vector<ProcessView> processes, Notes *notes) {
  std::sort(processes.begin(), processes.end(), [](const ProcessView &a, const ProcessView &b) {
    return std::pair(a.createdNs, a.pid) < std::pair(b.createdNs, b.pid);
  });
  std::vector<JobView> jobs;
  for (ProcessView &process : processes) {
    auto job = std::find_if(jobs.begin(), jobs.end(), [&](const JobView &each) {
      return each.job == process.job && each.ranks() == process.ranks;
    });
    if (job == jobs.end()) {
      job = jobs.emplace(jobs.end());
      job->job = process.job;
      job->nowNs = nowNs();
    } else if (std::any_of(process.local.begin(), process.local.end(),
                           [&](const RankView &rank) { return job->rank(rank.rank); })) {
      if (notes)
        notes->push_back(format("process %lld: it says that it has a rank of another process",
                                static_cast<long long>(process.pid)));
      continue;
    }
    job->processes.push_back(std::move(process));
  }
  for (JobView &job : jobs)
    std::sort(
        job.processes.begin(), job.processes.end(),
        [](const ProcessView &a, const ProcessView &b) { return a.firstLocal < b.firstLocal; });
  return jobs;
}

std::vector<JobView> findJobs(Notes *notes) {
  std::vector<Found> found;
  const Folder all(opendir("/proc"));
  if (!all && notes)
    notes->push_back(std::string("/proc cannot be read: ") + std::strerror(errno));
  while (const dirent *entry = all ? readdir(all.get()) : nullptr) {
    if (!isNumber(entry->d_name))
      continue;
    const std::string folder = std::string("/proc/") + entry->d_name + "/fd/";
    const Folder files(opendir(folder.c_str()));
    while (const dirent *file = files ? readdir(files.get()) : nullptr)
      if (isNumber(file->d_name) && isBlock(folder + file->d_name))
        readFile(folder + file->d_name, std::atoll(entry->d_name), found, notes);
  }
  std::vector<ProcessView> processes;
  for (Found &each : found)
    processes.push_back(std::move(each.process));
  return joinJobs(std::move(processes), notes);
}

} // namespace dtile::runtime::telemetry
