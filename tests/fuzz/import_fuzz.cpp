// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Any bytes are an algorithm or located errors; what an algorithm becomes is a program that parses.
#include "frontend/base/check.h"
#include "frontend/format/format.h"
#include "frontend/import/import.h"

using namespace dtile;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  SourceManager sources;
  Diagnostics diagnostics(sources);
  const FileId file =
      sources.add("algorithm", std::string(reinterpret_cast<const char *>(data), size));
  const std::optional<std::string> program = imported::importProgram(file, sources, diagnostics);
  DTILE_CHECK(program.has_value() != diagnostics.hasErrors(), "a refusal without a reason");
  for (const Diagnostic &diagnostic : diagnostics.all())
    DTILE_CHECK(diagnostic.range.isValid(), "a message without a place");
  if (program) {
    const FileId written = sources.add("program", *program);
    DTILE_CHECK(format::formatFile(written, sources, diagnostics), "a program that does not parse");
  }
  return 0;
}
