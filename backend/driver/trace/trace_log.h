// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What `--trace` of run and test collects, team after team, and where it goes.
#pragma once

#include "backend/driver/session.h"

#include "backend/runtime/trace/team_trace.h"

#include "llvm/Support/Error.h"

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <thread>

struct dtile_team;

namespace dtile::driver {

/// The trace of one command. All teams in it share a clock.
class TraceLog {
public:
  explicit TraceLog(const Options &options);
  ~TraceLog();
  TraceLog(const TraceLog &) = delete;
  TraceLog &operator=(const TraceLog &) = delete;

  [[nodiscard]] bool isOn() const { return !options_.trace.empty(); }
  /// This process is one of several, and writes a part: `@rank` in the file's name becomes its
  /// first rank. False after reporting that there is none.
  bool joinJob(Session &session, int rank);
  /// Teams from now on belong to this test; "" where there is one only.
  void name(std::string what);
  /// A team has been made, or is about to be ended, with its kernels still there.
  llvm::Error begin(dtile_team *team);
  /// How the program calls a kernel that is launched by another name.
  void nameKernel(llvm::StringRef launched, llvm::StringRef called);
  llvm::Error end(dtile_team *team);
  /// Writes the file, or the summary for `-`. Reports what goes wrong; what was run stays as it is.
  /// Where nothing was to be traced, as of arguments that do not fit, an older file stays.
  void finish(Session &session);
  /// From another thread: the process is about to end in the midst of a launch. Writes what was
  /// recorded until now, and gives what belongs on standard output and on standard error. Whoever
  /// calls ends the process: the log is locked from then on.
  std::pair<std::string, std::string> abandon();

private:
  [[nodiscard]] runtime::TracePlace place() const;
  void add(const runtime::RecordedTrace &recorded);
  /// The file, or for `-` the summary as text.
  llvm::Expected<std::string> write() const;
  [[nodiscard]] std::string leftOut() const;
  void awaitSignal();

  const Options &options_;
  /// Where the trace goes.
  std::string path_;
  std::mutex mutex_;
  /// What follows is the mutex's.
  dtile_team *team_ = nullptr;
  bool hasBegun_ = false;
  bool isOver_ = false;
  std::string name_;
  std::string events_;
  std::map<std::string, std::string> kernels_;
  int64_t originNs_;
  int64_t room_;
  int64_t kept_ = 0;
  int64_t dropped_ = 0;
  int nextProcess_ = 1;
  /// What the file of one process of several says of itself.
  std::string part_;
  /// Waits for Ctrl-C and its like, which end a run that hangs.
  std::thread signals_;
};

} // namespace dtile::driver
