// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// dtilec: reads the command line and hands over to one subcommand.
#include "backend/driver/command_line.h"
#include "backend/driver/session.h"

#include "frontend/base/check.h"
#include "frontend/base/process.h"

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
  if (auto ended = readCommandLine(argc, argv, options, llvm::outs(), llvm::errs())) {
    code = *ended;
  } else {
    dtile::setLastWords(options.diagnosticForm);
    code = dispatch(options);
  }
  // A full disk must not look like success.
  if (!dtile::closeStreams() && code == ExitCode::Ok)
    code = ExitCode::Failed;
  return int(code);
}
