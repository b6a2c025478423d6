// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `dtilec trace`: a trace that was written before, by one process or by several, in a few tables,
// as a page, or as one file.
#include "backend/driver/output/output_file.h"
#include "backend/driver/session.h"
#include "backend/driver/trace/merge_traces.h"
#include "backend/driver/trace/trace_model.h"
#include "backend/driver/trace/trace_page.h"
#include "backend/driver/trace/trace_summary.h"

#include "llvm/Support/MemoryBuffer.h"

#include <memory>
#include <optional>

namespace dtile::driver {

namespace {

/// The text of the one file, or of the several made one; nothing after reporting why not.
std::optional<std::string> readTraces(Session &session) {
  std::vector<std::unique_ptr<llvm::MemoryBuffer>> buffers;
  std::vector<TracePart> parts;
  for (const std::string &path : session.options.inputs) {
    // Traces may be larger than programs may be.
    auto buffer = llvm::MemoryBuffer::getFileOrSTDIN(path, /*IsText=*/false,
                                                     /*RequiresNullTerminator=*/false);
    if (!buffer) {
      session.reportFailure("cannot read `" + path + "`: " + buffer.getError().message());
      return std::nullopt;
    }
    buffers.push_back(std::move(*buffer));
    parts.push_back({path, buffers.back()->getBuffer()});
  }
  if (parts.size() == 1 && session.options.merged.empty())
    return parts.front().text.str();
  llvm::Expected<MergedTrace> merged = mergeTraces(parts);
  if (!merged) {
    session.reportFailure("cannot join these traces: " + llvm::toString(merged.takeError()));
    return std::nullopt;
  }
  for (const std::string &note : merged->notes)
    llvm::errs() << "note: " << note << '\n';
  return std::move(merged->text);
}

} // namespace

ExitCode runTrace(const Options &options) {
  Session session(options);
  const std::optional<std::string> text = readTraces(session);
  if (!text)
    return session.finish();
  llvm::Expected<TraceModel> trace = readTrace(*text);
  if (!trace) {
    session.reportFailure("cannot read the trace `" + options.inputs.front() +
                          "`: " + llvm::toString(trace.takeError()));
    return session.finish();
  }
  const auto write = [&](const std::string &path, llvm::StringRef bytes) {
    if (llvm::Error error = writeFile(path, bytes))
      session.diagnostics.report(SourceLoc{}, diag::cannot_write, llvm::toString(std::move(error)));
  };
  if (!options.merged.empty())
    write(options.merged, *text);
  else if (!options.page.empty())
    write(options.page, tracePage(*trace));
  else
    printSummary(*trace, llvm::outs());
  return session.finish();
}

} // namespace dtile::driver
