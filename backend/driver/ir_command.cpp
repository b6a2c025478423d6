// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `dtilec ir`: the IR of a program or of IR text, after the passes that were asked for.
#include "backend/driver/compile.h"

#include "ir/core/text_format.h"
#include "ir/transform/pipelines.h"

namespace dtile::driver {

namespace {

// IR text by its name; on standard input, by its first word: programs write no `@` there.
bool isIrText(const Session &session, llvm::StringRef path, FileId file) {
  if (path != "-")
    return path.ends_with(".dtir");
  llvm::StringRef text = session.sources.text(file).ltrim();
  while (text.consume_front("//"))
    text = text.drop_until([](char c) { return c == '\n'; }).ltrim();
  return (text.consume_front("kernel") || text.consume_front("func")) &&
         text.ltrim().starts_with("@");
}

// The module before passes; no module after reporting.
LoweredModule readModule(Session &session, llvm::StringRef path,
                         std::unique_ptr<sema::Program> &program) {
  std::optional<FileId> file = session.load(path);
  if (!file)
    return {};
  if (isIrText(session, path, *file)) {
    LoweredModule read;
    read.types = std::make_unique<ir::TypeContext>();
    read.module = ir::parseModule(*file, session.sources, *read.types, session.diagnostics);
    if (read.module && !ir::verify(*read.module, session.diagnostics))
      read.module = nullptr;
    return read;
  }
#ifndef DTILE_WITHOUT_SEMA
  program = analyzeFile(session, *file);
  if (!program || !checkConstants(session, *program))
    return {};
  const auto instances =
      instantiateKernels(session, *program, selectKernels(session, *program));
  return instances.empty() ? LoweredModule{} : lowerKernels(session, *program, instances);
#else
  session.reportFailure("programs cannot be lowered by this build yet");
  return {};
#endif
}

// The passes of `-O`, then those of `--pass`; false after reporting.
bool runPasses(Session &session, LoweredModule &lowered) {
#ifndef DTILE_WITHOUT_PASSES
  const Options &options = session.options;
  std::string text;
  if (options.runPipeline)
    text = passes::pipelineText(passLevel(options.optLevel)).str();
  if (!options.passes.empty())
    text += (text.empty() ? "" : ",") + options.passes;
  if (text.empty())
    return true;
  auto pipeline = passes::parsePipeline(text, passes::allPasses(), session.diagnostics);
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
  const bool fine =
      passes::PassManager(managerOptions).run(*lowered.module, *pipeline, context);
  lowered.remarks = std::move(context.remarks);
  return fine;
#else
  return true;
#endif
}

} // namespace

ExitCode runIr(const Options &options) {
  Session session(options);
  std::unique_ptr<sema::Program> program;
  LoweredModule lowered = readModule(session, options.inputs.front(), program);
  if (!lowered.module || !runPasses(session, lowered))
    return session.finish();
#ifndef DTILE_WITHOUT_PASSES
  if (options.remarks)
    printRemarks(session, lowered.remarks, llvm::errs());
#endif
  ir::print(*lowered.module, llvm::outs());
  return session.finish();
}

} // namespace dtile::driver
