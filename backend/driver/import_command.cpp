// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `dtilec import`: a collective algorithm of another system, as a program in canonical layout.
#include "backend/driver/output/output_file.h"
#include "backend/driver/session.h"

#include "frontend/base/check.h"
#include "frontend/format/format.h"
#include "frontend/import/import.h"

namespace dtile::driver {

ExitCode runImport(const Options &options) {
  Session session(options);
  const std::optional<FileId> file = session.load(options.inputs.front());
  if (!file)
    return session.finish();
  const std::optional<std::string> program =
      imported::importProgram(*file, session.sources, session.diagnostics);
  if (!program)
    return session.finish();
  const FileId written = session.sources.add("imported program", *program);
  const std::optional<std::string> text =
      format::formatFile(written, session.sources, session.diagnostics);
  DTILE_CHECK(text, "an imported program has syntax errors");
  if (llvm::Error error = writeFile(options.output.empty() ? "-" : options.output, *text))
    session.diagnostics.report(SourceLoc{}, diag::cannot_write, llvm::toString(std::move(error)));
  return session.finish();
}

} // namespace dtile::driver
