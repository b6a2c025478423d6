// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What every subcommand shares: the loaded files, the messages, and how both reach the user.
#pragma once

#include "backend/driver/options.h"
#include "frontend/base/diagnostics.h"
#include "frontend/base/source_manager.h"
#include "ir/transform/drift_answer.h"

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/Error.h"

#include <optional>
#include <set>
#include <tuple>

namespace dtile::driver {

class Job;

/// One run of dtilec. Messages are collected and printed at the end, or earlier by flush().
class Session {
public:
  explicit Session(const Options &options);
  Session(const Session &) = delete;
  Session &operator=(const Session &) = delete;

  const Options &options;
  SourceManager sources;
  Diagnostics diagnostics;
  /// Of kernels whose passes were run.
  passes::DriftMemory driftMemory;

  /// Loads a file, or standard input for `-`; nothing after reporting.
  std::optional<FileId> load(llvm::StringRef path);
  /// Reports an error of the environment that names its file itself.
  void reportFailure(llvm::Error error);
  void reportFailure(llvm::StringRef message);
  /// What could not be written (E0703).
  void reportNotWritten(llvm::Error error);
  /// Prints those messages so far that were not printed before, and forgets all; remembers whether
  /// one was an error. False where nothing was printed.
  bool flush();
  /// Forgets them unprinted, but for whether one was an error.
  void forget();
  /// Prints the messages and gives the exit code.
  ExitCode finish();
  /// The same for one process of a job (null: there is none): rank 0 prints what it knows and runs
  /// `last`, and every process gives the same code.
  ExitCode finish(Job *job, llvm::function_ref<void()> last = [] {});
  /// Whether an error was reported, flushed or not.
  [[nodiscard]] bool failed() const { return failed_ || diagnostics.hasErrors(); }
  /// The run fails although nothing was reported as a diagnostic (a failed test).
  void setFailed() { failed_ = isInputWrong_ = true; }

private:
  /// Keeps in mind what the messages say of the exit code.
  void noteErrors();
  [[nodiscard]] ExitCode exitCode() const {
    return !failed_ ? ExitCode::Ok : isInputWrong_ ? ExitCode::Failed : ExitCode::Usage;
  }

  bool failed_ = false;
  /// Something else than the command line is wrong.
  bool isInputWrong_ = false;
  /// Place, code and text of what was printed.
  std::set<std::tuple<uint32_t, uint32_t, diag::Id, std::string>> printed_;
};

/// Appends the files that a path of the command line stands for: itself, or every .dtile file below
/// a folder, in order of their names.
void collectFiles(Session &session, const std::string &path, std::vector<std::string> &files);

// The subcommands, one file each.
#define COMMAND(command, name, about, examples) ExitCode run##command(const Options &options);
#include "backend/driver/commands.def"

} // namespace dtile::driver
