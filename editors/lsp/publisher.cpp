// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Messages as the protocol has them. Notes are related places, so that both ends of a race can be
// jumped to.
#include "editors/lsp/publisher.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

namespace dtile::lsp {

namespace {

namespace json = llvm::json;

int severityOf(Severity severity) {
  switch (severity) {
  case Severity::Error:
    return int(llvm::lsp::DiagnosticSeverity::Error);
  case Severity::Warning:
    return int(llvm::lsp::DiagnosticSeverity::Warning);
  case Severity::Remark:
  case Severity::Note:
    return int(llvm::lsp::DiagnosticSeverity::Information);
  }
  return int(llvm::lsp::DiagnosticSeverity::Error);
}

std::optional<std::string> uriOf(const Analysis &analysis, SourceRange range) {
  return range.isValid() ? analysis.uriOf(analysis.sources.fileOf(range.begin)) : std::nullopt;
}

// Where a message is shown: its own place, or the nearest that a client can open.
SourceRange shownAt(const Analysis &analysis, const Diagnostic &diagnostic) {
  if (uriOf(analysis, diagnostic.range))
    return diagnostic.range;
  for (const DiagNote &note : diagnostic.notes)
    if (uriOf(analysis, note.range))
      return note.range;
  const SourceLoc top = analysis.sources.start(analysis.root);
  return {top, top};
}

// A range that an editor can underline: what is known to begin at a place is the word there.
llvm::lsp::Range visibleRange(const Analysis &analysis, SourceRange range) {
  if (range.isValid() && !(range.begin < range.end)) {
    const FileId file = analysis.sources.fileOf(range.begin);
    const uint32_t begin = analysis.sources.offsetInFile(range.begin);
    const llvm::StringRef rest = analysis.sources.text(file).substr(begin);
    const size_t word = rest.take_while([](char c) { return llvm::isAlnum(c) || c == '_'; }).size();
    const bool isPunctuation = word == 0 && !rest.empty() && llvm::isPunct(rest.front());
    range.end = analysis.sources.locAt(file, begin + uint32_t(isPunctuation ? 1 : word));
  }
  return analysis.range(range);
}

std::string placeText(const Analysis &analysis, SourceRange range) {
  if (!range.isValid())
    return "";
  const PresumedLoc place = analysis.sources.presumed(range.begin);
  return " (" + place.file.str() + ":" + std::to_string(place.line) + ")";
}

// One message, though two analyses may know different ways to its place.
bool isSame(const json::Value &a, const json::Value &b) {
  const json::Object &x = *a.getAsObject(), &y = *b.getAsObject();
  return *x.get("range") == *y.get("range") && *x.get("message") == *y.get("message");
}

} // namespace

json::Object messageOf(const Analysis &analysis, const Diagnostic &diagnostic) {
  const SourceRange place = shownAt(analysis, diagnostic);
  std::string text = diagnostic.message;
  if (place != diagnostic.range)
    text += placeText(analysis, diagnostic.range);
  json::Array related;
  for (const DiagNote &note : diagnostic.notes) {
    if (const auto uri = uriOf(analysis, note.range))
      related.push_back(json::Object{
          {"location", json::Object{{"uri", *uri}, {"range", visibleRange(analysis, note.range)}}},
          {"message", json::fixUTF8(note.message)}});
    else
      text += "\n" + note.message + placeText(analysis, note.range);
  }
  json::Object result{{"range", visibleRange(analysis, place)},
                      {"severity", severityOf(diagnostic.severity)},
                      {"source", "dtile"},
                      {"message", json::fixUTF8(text)}};
  if (const std::string_view code = diagInfo(diagnostic.id).code; !code.empty())
    result["code"] = llvm::StringRef(code);
  if (!related.empty())
    result["relatedInformation"] = std::move(related);
  return result;
}

FileMessages messagesOf(const Analysis &analysis, const Diagnostics &diagnostics) {
  FileMessages result;
  for (const Diagnostic &diagnostic : diagnostics.all()) {
    const SourceRange place = shownAt(analysis, diagnostic);
    const FileId file = analysis.sources.fileOf(place.begin);
    result[analysis.sources.name(file).str()].push_back(messageOf(analysis, diagnostic));
  }
  if (!analysis.program)
    result[analysis.sources.name(analysis.root).str()].push_back(json::Object{
        {"range", llvm::lsp::Range()},
        {"severity", int(llvm::lsp::DiagnosticSeverity::Error)},
        {"source", "dtile"},
        {"message", "internal error: this is a bug in dtile, not in your program; please report it "
                    "with this text"}});
  return result;
}

void Publisher::update(const std::string &document, FileMessages messages,
                       const Documents &documents) {
  std::set<std::string> files = {document};
  for (const FileMessages *known : {&found_[document], &messages})
    for (const auto &entry : *known)
      files.insert(entry.first);
  found_[document] = std::move(messages);
  for (const std::string &file : files)
    publish(file, documents);
}

void Publisher::forget(const std::string &document, const std::string &uri,
                       const Documents &documents) {
  const FileMessages known = std::move(found_[document]);
  found_.erase(document);
  send(document, uri, nullptr);
  for (const auto &entry : known)
    if (entry.first != document)
      publish(entry.first, documents);
}

void Publisher::publish(const std::string &file, const Documents &documents) {
  if (const auto open = documents.find(file); open != documents.end())
    return send(file, open->second.uri, &open->second);
  llvm::Expected<llvm::lsp::URIForFile> uri = llvm::lsp::URIForFile::fromFile(file);
  if (!uri)
    return llvm::consumeError(uri.takeError());
  send(file, uri->uri().str(), nullptr);
}

void Publisher::send(const std::string &file, const std::string &uri, const Document *open) {
  json::Object params{{"uri", uri}};
  if (open)
    params["version"] = open->version;
  json::Array all;
  const auto add = [&](const FileMessages &messages) {
    const auto known = messages.find(file);
    for (const json::Value &message : known == messages.end() ? json::Array() : known->second)
      if (llvm::none_of(all, [&](const json::Value &other) { return isSame(message, other); }))
        all.push_back(message);
  };
  if (open)
    add(found_[file]);
  for (const auto &entry : found_)
    if (entry.first != file)
      add(entry.second);
  params["diagnostics"] = std::move(all);
  send_(std::move(params));
}

} // namespace dtile::lsp
