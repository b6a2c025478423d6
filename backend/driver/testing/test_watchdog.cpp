// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The thread reads the session's files, which nobody changes while a test runs.
#include "backend/driver/testing/test_watchdog.h"

#include "backend/driver/command_line.h"

#include "llvm/Support/Signals.h"

#include <unistd.h>

namespace dtile::driver {

TestWatchdog::~TestWatchdog() {
  {
    const std::lock_guard lock(mutex_);
    isOver_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable())
    thread_.join();
}

void TestWatchdog::begin(SourceRange place, std::string last) {
  if (seconds_ == 0)
    return;
  at(place);
  {
    const std::lock_guard lock(mutex_);
    isRunning_ = true;
    deadline_ = std::chrono::steady_clock::now() + std::chrono::seconds(seconds_);
    last_ = std::move(last);
    earlier_ = std::make_unique<Diagnostics>(session_.sources);
    earlier_->append(session_.diagnostics);
  }
  if (!thread_.joinable())
    thread_ = std::thread([this] { watch(); });
  changed_.notify_one();
}

void TestWatchdog::end() {
  const std::lock_guard lock(mutex_);
  isRunning_ = false;
}

void TestWatchdog::watch() {
  std::unique_lock lock(mutex_);
  while (!isOver_) {
    if (!isRunning_) {
      changed_.wait(lock);
      continue;
    }
    // Woken by the next test, too: that has a deadline of its own.
    const auto deadline = deadline_;
    changed_.wait_until(lock, deadline);
    if (isRunning_ && !isOver_ && std::chrono::steady_clock::now() >= deadline_)
      giveUp();
  }
}

void TestWatchdog::giveUp() {
  if (!isPrinting_)
    std::this_thread::sleep_for(std::chrono::seconds(2));
  const uint64_t place = place_.load(std::memory_order_relaxed);
  const SourceRange range{SourceLoc{uint32_t(place >> 32)}, SourceLoc{uint32_t(place)}};
  earlier_->report(range, diag::test_takes_too_long, seconds_);
  std::string text;
  llvm::raw_string_ostream os(text);
  printDiagnostics(*earlier_, session_.options.diagnosticForm, colorMode(session_.options.color),
                   os);
  const auto [summary, words] = trace_.abandon();
  text += words;
  last_ += summary;
  // The streams are the other thread's.
  if (isPrinting_)
    (void)!::write(STDOUT_FILENO, last_.data(), last_.size());
  (void)!::write(STDERR_FILENO, text.data(), text.size());
  llvm::sys::RunInterruptHandlers();
  ::_exit(int(ExitCode::Failed));
}

} // namespace dtile::driver
