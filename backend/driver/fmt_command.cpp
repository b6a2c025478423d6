// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `dtilec fmt`: formats programs to standard output, in place, or only checks.
#include "backend/driver/output/output_file.h"
#include "backend/driver/session.h"

#include "frontend/format/format.h"

#include "llvm/Support/FileSystem.h"

namespace dtile::driver {

namespace {

void formatOne(Session &session, const std::string &path) {
  const Options &options = session.options;
  std::optional<FileId> file = session.load(path);
  if (!file)
    return;
  const std::optional<std::string> text =
      format::formatFile(*file, session.sources, session.diagnostics);
  if (!text)
    return;
  const bool isFormatted = session.sources.text(*file) == *text;
  if (options.formatCheck) {
    if (!isFormatted)
      session.diagnostics.report(SourceLoc{}, diag::not_formatted, session.sources.name(*file));
    return;
  }
  // Standard input has no place: it goes to standard output.
  if (!options.formatInPlace || path == "-") {
    llvm::outs() << *text;
    return;
  }
  // A file that need not change keeps its time of change.
  if (isFormatted)
    return;
  if (llvm::Error error = writeFile(path, *text))
    session.diagnostics.report(SourceLoc{}, diag::cannot_write, llvm::toString(std::move(error)));
}

} // namespace

ExitCode runFmt(const Options &options) {
  Session session(options);
  std::vector<std::string> files;
  for (const std::string &path : options.inputs)
    if (llvm::sys::fs::is_directory(path) && !options.formatInPlace && !options.formatCheck)
      session.diagnostics.report(SourceLoc{}, diag::bad_command_line,
                                 "`" + path +
                                     "` is a folder: its files are formatted in place by `-i`, or "
                                     "checked by `--check`",
                                 "dtilec fmt");
    else
      collectFiles(session, path, files);
  for (const std::string &path : files)
    formatOne(session, path);
  return session.finish();
}

} // namespace dtile::driver
