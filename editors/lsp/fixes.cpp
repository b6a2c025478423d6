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

/// Whether the two have a line in common.
bool areOnOneLine(const json::Object &range, llvm::lsp::Range asked) {
  const auto line = [&](llvm::StringRef end) {
    return range.getObject(end)->getInteger("line").value_or(0);
  };
  return line("start") <= asked.end.line && asked.start.line <= line("end");
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

json::Array fixesAt(const json::Array &fixes, llvm::StringRef uri, llvm::lsp::Range range) {
  json::Array result;
  for (const json::Value &each : fixes) {
    const json::Object &fix = *each.getAsObject();
    const json::Object &message = *fix.getArray("diagnostics")->front().getAsObject();
    const json::Array *edits = fix.getObject("edit")->getObject("changes")->getArray(uri);
    const auto isThere = [&](const json::Object &place) {
      return areOnOneLine(*place.getObject("range"), range);
    };
    if (isThere(message) || (edits && llvm::any_of(*edits, [&](const json::Value &edit) {
                               return isThere(*edit.getAsObject());
                             })))
      result.push_back(each);
  }
  return result;
}

} // namespace dtile::lsp
