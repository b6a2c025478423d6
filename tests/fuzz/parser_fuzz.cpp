// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Any bytes go through the front end: no crash, no hang, places inside the file, and what parses
// can be printed and formatted, to text that formats to itself.
#include "frontend/ast/ast_printer.h"
#include "frontend/base/check.h"
#include "frontend/format/format.h"
#include "frontend/parse/parser.h"

#include <cstddef>
#include <cstdint>

using namespace dtile;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  SourceManager sources;
  Diagnostics diagnostics(sources);
  const FileId file =
      sources.add("fuzz.dtile", std::string(reinterpret_cast<const char *>(data), size));
  ast::Arena arena;
  const ast::Module *module = parse::parse(file, sources, arena, diagnostics);
  std::string text;
  llvm::raw_string_ostream os(text);
  ast::printAst(*module, os);
  diagnostics.sortAndUnique();
  printDiagnostics(diagnostics, DiagnosticForm::Text, ColorMode::Always, os);
  printDiagnostics(diagnostics, DiagnosticForm::Json, ColorMode::Never, os);
  if (diagnostics.hasErrors())
    return 0;
  const std::optional<std::string> once = format::formatFile(file, sources, diagnostics);
  DTILE_CHECK(once.has_value(), "what parses can be formatted");
  const std::optional<std::string> twice =
      format::formatFile(sources.add("again.dtile", *once), sources, diagnostics);
  DTILE_CHECK(twice == once, "formatting again changes nothing");
  return 0;
}
