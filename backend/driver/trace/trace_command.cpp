// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `dtilec trace`: a trace that was written before, in a few tables or as a page.
#include "backend/driver/output/output_file.h"
#include "backend/driver/session.h"
#include "backend/driver/trace/trace_model.h"
#include "backend/driver/trace/trace_page.h"
#include "backend/driver/trace/trace_summary.h"

#include "llvm/Support/MemoryBuffer.h"

namespace dtile::driver {

ExitCode runTrace(const Options &options) {
  Session session(options);
  const std::string &path = options.inputs.front();
  // Traces may be larger than programs may be.
  const auto buffer = llvm::MemoryBuffer::getFileOrSTDIN(path, /*IsText=*/false,
                                                         /*RequiresNullTerminator=*/false);
  if (!buffer) {
    session.reportFailure("cannot read `" + path + "`: " + buffer.getError().message());
    return session.finish();
  }
  llvm::Expected<TraceModel> trace = readTrace((*buffer)->getBuffer());
  if (!trace) {
    session.reportFailure("cannot read the trace `" + path +
                          "`: " + llvm::toString(trace.takeError()));
    return session.finish();
  }
  if (options.page.empty())
    printSummary(*trace, llvm::outs());
  else if (llvm::Error error = writeFile(options.page, tracePage(*trace)))
    session.diagnostics.report(SourceLoc{}, diag::cannot_write, llvm::toString(std::move(error)));
  return session.finish();
}

} // namespace dtile::driver
