// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// dtilec: reads the command line and hands over to one subcommand.
#include "backend/driver/command_line.h"
#include "backend/driver/machine_option.h"
#include "backend/driver/session.h"

#include "frontend/base/check.h"
#include "frontend/base/process.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

namespace dtile::driver {

namespace {

ExitCode dispatch(const Options &options) {
  switch (options.command) {
  case Command::None:
    break;
#define COMMAND(command, name, about, examples)                                                    \
  case Command::command:                                                                           \
    return run##command(options);
#include "backend/driver/commands.def"
  }
  DTILE_UNREACHABLE("the command line names no subcommand");
}

} // namespace

} // namespace dtile::driver

int main(int argc, char **argv) {
  using namespace dtile::driver;
  dtile::setUpProcess();
  Options options;
  ExitCode code = ExitCode::Ok;
  llvm::SmallVector<const char *> words(argv, argv + argc);
  // The same program under another name is one subcommand.
  if (argc > 0 && llvm::sys::path::filename(argv[0]) == "dtile-top")
    words.insert(words.begin() + 1, "top");
  if (auto ended =
          readCommandLine(int(words.size()), words.data(), options, llvm::outs(), llvm::errs())) {
    code = *ended;
  } else {
    dtile::setLastWords(options.diagnosticForm);
    code = findMachineOfOptions(options) ? dispatch(options) : ExitCode::Failed;
  }
  // A full disk must not look like success.
  if (!dtile::closeStreams() && code == ExitCode::Ok)
    code = ExitCode::Failed;
  return int(code);
}
