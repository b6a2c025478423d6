// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ends a run of tests that hangs.
#pragma once

#include "backend/driver/session.h"
#include "backend/driver/trace/trace_log.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace dtile::driver {

/// A thread that looks at the clock while a test runs. A test that takes too long cannot be left:
/// its kernels run in this process. So the process ends, with a message about the statement that
/// was being run, and exit code 1.
class TestWatchdog {
public:
  /// 0 seconds: never. Where this process prints nothing, another of its job speaks first.
  TestWatchdog(const Session &session, TraceLog &trace, unsigned seconds, bool isPrinting)
      : session_(session), trace_(trace), seconds_(seconds), isPrinting_(isPrinting) {}
  ~TestWatchdog();
  TestWatchdog(const TestWatchdog &) = delete;
  TestWatchdog &operator=(const TestWatchdog &) = delete;

  /// A test begins. `last` is what standard output ends with where it does not end.
  void begin(SourceRange place, std::string last);
  /// What is run now.
  void at(SourceRange place) {
    place_.store(uint64_t(place.begin.offset) << 32 | place.end.offset, std::memory_order_relaxed);
  }
  /// It has ended.
  void end();

private:
  void watch();
  [[noreturn]] void giveUp();

  const Session &session_;
  TraceLog &trace_;
  unsigned seconds_;
  bool isPrinting_;
  std::atomic<uint64_t> place_ = 0;

  std::mutex mutex_;
  std::condition_variable changed_;
  /// What follows is the mutex's.
  bool isRunning_ = false;
  bool isOver_ = false;
  std::chrono::steady_clock::time_point deadline_;
  std::string last_;
  /// Messages of tests before it that were not printed: JSON is one array.
  std::unique_ptr<Diagnostics> earlier_;
  std::thread thread_;
};

} // namespace dtile::driver
