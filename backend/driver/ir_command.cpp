// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `dtilec ir`: the IR of a program or of IR text, after the passes that were asked for.
#include "backend/driver/compile.h"
#include "backend/driver/target_code.h"

#include "ir/core/text_format.h"
#include "ir/transform/pipelines.h"

namespace dtile::driver {

namespace {

// The passes of `-O`, then those of `--pass`; false after reporting.
bool runPasses(Session &session, LoweredModule &lowered) {
  const Options &options = session.options;
  std::string text;
  if (options.runPipeline)
    text = passes::pipelineText(passLevel(options.optLevel)).str();
  if (!options.passes.empty())
    text += (text.empty() ? "" : ",") + options.passes;
  if (text.empty() && options.printAfter.empty() && options.printBefore.empty())
    return true;
  auto pipeline = text.empty()
                      ? std::optional(passes::Pipeline())
                      : passes::parsePipeline(text, passes::allPasses(), session.diagnostics);
  if (!pipeline)
    return false;
  passes::PassManagerOptions managerOptions;
  managerOptions.printAfter = options.printAfter;
  managerOptions.printBefore = options.printBefore;
  managerOptions.verifyEach = options.verifyEach;
  managerOptions.timePasses = options.timePasses;
  if (options.bisect >= 0)
    managerOptions.bisect = unsigned(options.bisect);
  passes::PassContext context(session.diagnostics);
  context.facts = options.machine.get();
  context.assembly = assemblyOfMachine(options.machine->name);
  const bool fine = passes::PassManager(managerOptions).run(*lowered.module, *pipeline, context);
  lowered.remarks = std::move(context.remarks);
  return fine;
}

} // namespace

ExitCode runIr(const Options &options) {
  Session session(options);
  std::unique_ptr<sema::Program> program;
  LoweredModule lowered = readModule(session, options.inputs.front(), program);
  if (!lowered.module || !runPasses(session, lowered))
    return session.finish();
  if (options.remarks)
    printRemarks(session, lowered.remarks, llvm::errs());
  ir::print(*lowered.module, llvm::outs());
  return session.finish();
}

} // namespace dtile::driver
