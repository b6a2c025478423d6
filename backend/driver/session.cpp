// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Loads files, collects messages and prints them once, in order of their places.
#include "backend/driver/session.h"

#include "backend/driver/command_line.h"
#include "backend/driver/execute/job.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"

namespace dtile::driver {

namespace {
// More errors than this in one run help nobody.
constexpr unsigned kErrorLimit = 200;

// All in one piece: what launchers of jobs and build tools collect from several streams then has no
// line in the middle of another.
void print(const Diagnostics &diagnostics, DiagnosticForm form, ColorMode color) {
  std::string text;
  llvm::raw_string_ostream os(text);
  printDiagnostics(diagnostics, form, color, os);
  llvm::errs() << text;
}
} // namespace

Session::Session(const Options &options) : options(options), diagnostics(sources) {
  diagnostics.setWarningsAsErrors(options.warningsAsErrors);
  diagnostics.setErrorLimit(kErrorLimit);
}

std::optional<FileId> Session::load(llvm::StringRef path) {
  if (path == "-") {
    auto buffer = llvm::MemoryBuffer::getSTDIN();
    if (!buffer) {
      reportFailure("cannot read standard input: " + buffer.getError().message());
      return std::nullopt;
    }
    if ((*buffer)->getBufferSize() > SourceManager::kMaxFileBytes) {
      reportFailure("standard input is too large; at most " +
                    std::to_string(SourceManager::kMaxFileBytes >> 20) + " MiB are accepted");
      return std::nullopt;
    }
    return sources.add("<stdin>", (*buffer)->getBuffer().str());
  }
  llvm::Expected<FileId> file = sources.load(path);
  if (!file) {
    reportFailure(file.takeError());
    return std::nullopt;
  }
  return *file;
}

void Session::reportFailure(llvm::Error error) { reportFailure(llvm::toString(std::move(error))); }

void Session::reportFailure(llvm::StringRef message) {
  diagnostics.report(SourceLoc{}, diag::cannot_read, message);
}

bool Session::flush() {
  failed_ |= diagnostics.hasErrors();
  diagnostics.removeIf([&](const Diagnostic &one) {
    return one.range.isValid() &&
           !printed_.insert({one.range.begin.offset, one.range.end.offset, one.id, one.message})
                .second;
  });
  if (diagnostics.all().empty()) {
    diagnostics.clear();
    return false;
  }
  diagnostics.sortAndUnique();
  print(diagnostics, options.diagnosticForm, colorMode(options.color));
  diagnostics.clear();
  return true;
}

void Session::forget() {
  failed_ |= diagnostics.hasErrors();
  diagnostics.clear();
}

ExitCode Session::finish() {
  // A tool that asked for JSON always gets one array.
  if (options.diagnosticForm == DiagnosticForm::Json && diagnostics.all().empty() && !failed_)
    print(diagnostics, options.diagnosticForm, ColorMode::Never);
  flush();
  return failed_ ? ExitCode::Failed : ExitCode::Ok;
}

ExitCode Session::finish(Job *job, llvm::function_ref<void()> last) {
  if (job && job->anyFailed(failed()) && !failed()) {
    diagnostics.report(SourceLoc{}, diag::other_process_failed);
    setFailed();
  }
  if (!job || job->rank() == 0) {
    finish();
    last();
    llvm::outs().flush();
  }
  if (job)
    job->leave();
  return failed() ? ExitCode::Failed : ExitCode::Ok;
}

void collectFiles(Session &session, const std::string &path, std::vector<std::string> &files) {
  if (!llvm::sys::fs::is_directory(path)) {
    files.push_back(path);
    return;
  }
  std::vector<std::string> found;
  std::error_code error;
  for (llvm::sys::fs::recursive_directory_iterator it(path, error), end; it != end && !error;
       it.increment(error))
    if (llvm::StringRef(it->path()).ends_with(".dtile") && !llvm::sys::fs::is_directory(it->path()))
      found.push_back(it->path());
  if (error)
    session.reportFailure("cannot read folder `" + path + "`: " + error.message());
  else if (found.empty())
    session.reportFailure("folder `" + path + "` has no .dtile file");
  llvm::sort(found);
  llvm::append_range(files, found);
}

} // namespace dtile::driver
