// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What `dtilec test` prints while it runs.
#include "backend/driver/testing/test_progress.h"

#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/raw_ostream.h"

namespace dtile::driver {

TestProgress::TestProgress(const Job *job)
    : isTerminal_(!job && llvm::sys::Process::StandardOutIsDisplayed()),
      isPrinting_(!job || job->rank() == 0) {}

void TestProgress::clear() {
  if (isTerminal_ && isPrinting_)
    llvm::outs() << "\r\x1b[K";
  llvm::outs().flush();
}

void TestProgress::running(const std::string &what) {
  if (!isTerminal_ || !isPrinting_)
    return;
  const unsigned columns = llvm::sys::Process::StandardOutColumns();
  std::string line = "[" + std::to_string(done_ + 1) + "] " + what;
  if (columns > 1 && line.size() >= columns)
    line.resize(columns - 1);
  clear();
  llvm::outs() << line;
  llvm::outs().flush();
}

bool TestProgress::messages(Session &session) {
  if (session.options.diagnosticForm == DiagnosticForm::Json)
    return true;
  clear();
  if (isPrinting_)
    return session.flush();
  session.forget();
  return true;
}

void TestProgress::done(bool passed, const std::string &what, double seconds) {
  ++done_;
  if (!isPrinting_)
    return;
  if (isTerminal_ && passed)
    return;
  clear();
  llvm::outs() << (passed ? "PASS " : "FAIL ") << what;
  if (seconds > 0)
    llvm::outs() << llvm::formatv(" {0:f2} s", seconds).str();
  llvm::outs() << '\n';
  llvm::outs().flush();
}

void TestProgress::line(const std::string &text) {
  if (!isPrinting_)
    return;
  clear();
  llvm::outs() << text << '\n';
}

} // namespace dtile::driver
