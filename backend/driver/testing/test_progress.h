// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What `dtilec test` prints while it runs.
#pragma once

#include "backend/driver/execute/job.h"
#include "backend/driver/session.h"

namespace dtile::driver {

/// On a terminal one line that changes, and lines for failures; elsewhere a PASS or FAIL line a
/// test.
class TestProgress {
public:
  /// Null where this process is in no job. A job's terminal is its launcher's, whose lines are
  /// several processes'.
  explicit TestProgress(const Job *job);

  /// In a job only the process of rank 0 prints.
  [[nodiscard]] bool isPrinting() const { return isPrinting_; }

  void running(const std::string &what);
  /// Prints the messages so far, in text form; JSON waits for the end, since it is one array.
  /// False where they all were printed before.
  bool messages(Session &session);
  void done(bool passed, const std::string &what, double seconds);
  void line(const std::string &text);
  /// Removes the line that changes.
  void clear();

private:
  bool isTerminal_;
  bool isPrinting_;
  unsigned done_ = 0;
};

} // namespace dtile::driver
