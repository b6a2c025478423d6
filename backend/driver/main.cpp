// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// dtilec: reads the command line and hands over to one subcommand.
#include "backend/driver/command_line.h"
#include "backend/driver/session.h"

#include "frontend/base/check.h"

#include "llvm/Support/raw_ostream.h"

#include <csignal>
#include <unistd.h>

namespace dtile::driver {

namespace {

ExitCode dispatch(const Options &options) {
  switch (options.command) {
  case Command::None:
    break;
  case Command::Build:
    return runBuild(options);
  case Command::Run:
    return runRun(options);
  case Command::Test:
    return runTest(options);
  case Command::Check:
    return runCheck(options);
  case Command::Fmt:
    return runFmt(options);
  case Command::Ir:
    return runIr(options);
  case Command::Explain:
    return runExplain(options);
  }
  DTILE_UNREACHABLE("the command line names no subcommand");
}

// Whether everything that was printed arrived; a full disk must not look like success.
bool closeOutput() {
  llvm::raw_fd_ostream &out = llvm::outs();
  out.flush();
  if (!out.has_error())
    return true;
  const std::error_code error = out.error();
  out.clear_error();
  // `dtilec … | head` closes the pipe: nobody is left to be told.
  if (error != std::errc::broken_pipe)
    llvm::errs() << "error: cannot write standard output: " << error.message() << '\n';
  return false;
}

} // namespace

} // namespace dtile::driver

int main(int argc, char **argv) {
  using namespace dtile::driver;
  std::signal(SIGPIPE, SIG_IGN);
  Options options;
  ExitCode code = ExitCode::Ok;
  if (auto ended = readCommandLine(argc, argv, options, llvm::outs(), llvm::errs()))
    code = *ended;
  else
    code = dispatch(options);
  if (!closeOutput() && code == ExitCode::Ok)
    code = ExitCode::Failed;
  return int(code);
}
