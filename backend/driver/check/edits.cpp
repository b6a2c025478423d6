// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "backend/driver/check/edits.h"

namespace dtile::driver {

SourceRange wholeStatement(const SourceManager &sources, SourceRange statement) {
  if (sources.text({statement.end, {statement.end.offset + 1}}) == ";")
    ++statement.end.offset;
  return statement;
}

namespace {

/// Where the line of a statement begins, if nothing stands before it.
std::optional<SourceLoc> ownLine(const SourceManager &sources, SourceLoc statement) {
  const uint32_t column = sources.presumed(statement).column - 1;
  // Spaces are one byte each, so that columns are bytes as far as they go.
  if (!sources.lineText(statement).take_front(column).trim(" \t").empty())
    return std::nullopt;
  return SourceLoc{statement.offset - column};
}

} // namespace

FixIt removal(const SourceManager &sources, SourceRange statement) {
  SourceRange whole = wholeStatement(sources, statement);
  const auto next = [&] { return sources.text({whole.end, {whole.end.offset + 1}}); };
  while (next() == " " || next() == "\t")
    ++whole.end.offset;
  const std::optional<SourceLoc> line = ownLine(sources, whole.begin);
  if (line && next() == "\n")
    whole = {*line, {whole.end.offset + 1}};
  return {whole, ""};
}

FixIt insertBefore(const SourceManager &sources, SourceLoc statement, llvm::StringRef text) {
  const std::optional<SourceLoc> line = ownLine(sources, statement);
  if (!line)
    return insertion(statement, text.str() + " ");
  return insertion(*line, sources.text({*line, statement}).str() + text.str() + "\n");
}

} // namespace dtile::driver
