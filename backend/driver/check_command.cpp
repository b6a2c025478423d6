// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `dtilec check`: every check that there is, nothing written.
#include "backend/driver/compile.h"
#include "backend/driver/promises.h"

#include "frontend/ast/ast_printer.h"
#include "frontend/parse/parser.h"
#include "ir/protocol/check_protocol.h"

namespace dtile::driver {

namespace {

void dumpAst(Session &session, llvm::StringRef path) {
  std::optional<FileId> file = session.load(path);
  if (!file)
    return;
  ast::Arena arena;
  const ast::Module *module = parse::parse(*file, session.sources, arena, session.diagnostics);
  ast::printAst(*module, llvm::outs());
}

void checkFile(Session &session, llvm::StringRef path) {
  const auto program = analyzeFile(session, path);
  if (!program || !checkConstants(session, *program))
    return;
  // Kernels that need values from their caller were checked with stand-ins.
  std::vector<const ast::KernelDecl *> kernels;
  for (const ast::KernelDecl *kernel : program->kernels())
    if (hasAllValues(session, *kernel))
      kernels.push_back(kernel);
  const auto instances = instantiateKernels(session, *program, kernels);
  if (instances.empty())
    return;
  LoweredModule lowered = lowerKernels(session, *program, instances);
  if (!optimize(session, lowered, OptLevel::O1))
    return;
  protocol::CheckOptions checks;
  if (!session.options.ranks.empty()) {
    checks.ranks = session.options.ranks;
    checks.seconds = 10;
  }
  checks.promises = promisesOf(instances);
  checks.machine = findMachine(session.options.machine);
  for (const protocol::Verdict &verdict :
       protocol::checkProtocol(*lowered.module, checks, session.diagnostics))
    llvm::outs() << protocol::verdictText(verdict, &session.sources);
}

} // namespace

ExitCode runCheck(const Options &options) {
  Session session(options);
  for (const std::string &path : options.inputs)
    options.dumpAst ? dumpAst(session, path) : checkFile(session, path);
  return session.finish();
}

} // namespace dtile::driver
