// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs the pipeline of an optimization level, and prints remarks.
#include "backend/driver/optimize.h"

#include "backend/driver/check/determinism.h"

#include "frontend/base/check.h"

#include "llvm/ADT/STLExtras.h"

namespace dtile::driver {

passes::OptLevel passLevel(OptLevel level) {
  switch (level) {
  case OptLevel::O0:
    return passes::OptLevel::O0;
  case OptLevel::O1:
    return passes::OptLevel::O1;
  case OptLevel::O2:
    return passes::OptLevel::O2;
  }
  DTILE_UNREACHABLE("unknown level");
}

void printRemarks(const Session &session, llvm::ArrayRef<passes::Remark> remarks,
                  llvm::raw_ostream &os) {
  for (const passes::Remark &remark : remarks) {
    if (remark.loc.isValid()) {
      const PresumedLoc at = session.sources.presumed(remark.loc);
      os << at.file << ':' << at.line << ':' << at.column << ": ";
    }
    os << "remark: " << remark.text << " [" << remark.pass << "]\n";
  }
}

bool runPipeline(ir::Module &module, OptLevel level, passes::PassContext &context) {
  PhaseScope phase("running passes");
  auto pipeline = passes::parsePipeline(passes::pipelineText(passLevel(level)), passes::allPasses(),
                                        context.diagnostics);
  passes::PassManager manager({});
  return pipeline && manager.run(module, *pipeline, context);
}

bool optimize(Session &session, LoweredModule &lowered, OptLevel level) {
  if (session.options.deterministic && !checkDeterminism(session, *lowered.module))
    return false;
  if (session.options.batchInvariant && !checkBatchInvariance(session, *lowered.module))
    return false;
  passes::PassContext context(session.diagnostics);
  context.driftMemory = &session.driftMemory;
  const bool fine = runPipeline(*lowered.module, level, context);
  llvm::append_range(lowered.remarks, context.remarks);
  return fine;
}

} // namespace dtile::driver
