// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Fix-its as quick fixes. All edits of a message belong together.
#include "editors/lsp/fixes.h"

#include "editors/lsp/publisher.h"

#include "llvm/ADT/STLExtras.h"

namespace dtile::lsp {

namespace {

namespace json = llvm::json;

// One line of code in a title.
std::string shortened(llvm::StringRef code) {
  constexpr size_t kMaxLength = 50;
  const llvm::StringRef line = code.trim().split('\n').first;
  const bool isWhole = line.size() == code.trim().size() && line.size() <= kMaxLength;
  return "`" + line.take_front(kMaxLength).str() + (isWhole ? "`" : "…`");
}

std::string titleOf(const Analysis &analysis, const Diagnostic &diagnostic) {
  if (diagnostic.fixes.size() > 1)
    return "fix: " + diagnostic.message;
  const FixIt &fix = diagnostic.fixes.front();
  const llvm::StringRef old = analysis.sources.text(fix.range);
  if (old.empty())
    return "insert " + shortened(fix.text);
  if (fix.text.empty())
    return "remove " + shortened(old);
  return "replace " + shortened(old) + " by " + shortened(fix.text);
}

bool isBefore(const json::Object &a, const json::Object &b) {
  const auto line = [](const json::Object &p) { return p.getInteger("line").value_or(0); };
  const auto column = [](const json::Object &p) { return p.getInteger("character").value_or(0); };
  return std::pair(line(a), column(a)) < std::pair(line(b), column(b));
}

} // namespace

json::Array fixesOf(const Analysis &analysis, const Diagnostics &diagnostics) {
  json::Array result;
  for (const Diagnostic &diagnostic : diagnostics.all()) {
    if (diagnostic.fixes.empty() || !analysis.isInRoot(diagnostic.range.begin))
      continue;
    std::map<std::string, json::Array> edits;
    bool isPossible = true;
    for (const FixIt &fix : diagnostic.fixes) {
      const auto uri = fix.range.isValid()
                           ? analysis.uriOf(analysis.sources.fileOf(fix.range.begin))
                           : std::nullopt;
      isPossible &= uri.has_value();
      if (uri)
        edits[*uri].push_back(json::Object{{"range", analysis.range(fix.range)},
                                           {"newText", json::fixUTF8(fix.text)}});
    }
    if (!isPossible)
      continue;
    json::Object changes;
    for (auto &[uri, list] : edits)
      changes[uri] = std::move(list);
    result.push_back(json::Object{{"title", json::fixUTF8(titleOf(analysis, diagnostic))},
                                  {"kind", "quickfix"},
                                  {"isPreferred", true},
                                  {"diagnostics", json::Array{messageOf(analysis, diagnostic)}},
                                  {"edit", json::Object{{"changes", std::move(changes)}}}});
  }
  return result;
}

json::Array fixesAt(const json::Array &fixes, llvm::lsp::Range range) {
  const json::Value wanted = range;
  json::Array result;
  for (const json::Value &fix : fixes) {
    const json::Object &message =
        *fix.getAsObject()->getArray("diagnostics")->front().getAsObject();
    const json::Object &place = *message.getObject("range");
    if (!isBefore(*place.getObject("end"), *wanted.getAsObject()->getObject("start")) &&
        !isBefore(*wanted.getAsObject()->getObject("end"), *place.getObject("start")))
      result.push_back(fix);
  }
  return result;
}

} // namespace dtile::lsp
