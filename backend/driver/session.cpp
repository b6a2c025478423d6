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

void Session::reportNotWritten(llvm::Error error) {
  diagnostics.report(SourceLoc{}, diag::cannot_write, llvm::toString(std::move(error)));
}

void Session::reportFailure(llvm::StringRef message) {
  diagnostics.report(SourceLoc{}, diag::cannot_read, message);
}

/// What no file could make right.
static bool isOfCommandLine(diag::Id id) {
  switch (id) {
  case diag::bad_command_line:
  case diag::bad_constant:
  case diag::repeated_constant:
  case diag::bad_ranks:
  case diag::unknown_target:
  case diag::unknown_arch:
  case diag::arch_of_other_target:
  case diag::cannot_emit:
  case diag::bad_mesh:
    return true;
  default:
    return false;
  }
}

void Session::noteErrors() {
  for (const Diagnostic &one : diagnostics.all()) {
    if (one.severity != Severity::Error)
      continue;
    failed_ = true;
    isInputWrong_ |= !isOfCommandLine(one.id);
  }
  // A file may have more errors than are kept.
  isInputWrong_ |= !failed_ && diagnostics.hasErrors();
  failed_ |= diagnostics.hasErrors();
}

bool Session::flush() {
  noteErrors();
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
  noteErrors();
  diagnostics.clear();
}

ExitCode Session::finish() {
  // A tool that asked for JSON always gets one array.
  if (options.diagnosticForm == DiagnosticForm::Json && diagnostics.all().empty() && !failed_)
    print(diagnostics, options.diagnosticForm, ColorMode::Never);
  flush();
  return exitCode();
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
  noteErrors();
  return exitCode();
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
