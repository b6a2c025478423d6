// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Follows a name through the analyses of a workspace. Each has sources of its own, so a definition
// is known by its file and its place there.
#include "editors/lsp/names.h"

#include "editors/lsp/describe.h"
#include "frontend/base/dtype.h"
#include "frontend/parse/parser.h"

#include "llvm/ADT/STLExtras.h"

#include <set>

namespace dtile::lsp {

namespace {

namespace json = llvm::json;
using sema::Definition;
using sema::NameKind;
using sema::Occurrence;

const Occurrence *occurrenceAt(const Analysis &analysis, llvm::lsp::Position position) {
  return analysis.names ? analysis.names->at(analysis.locAt(position)) : nullptr;
}

const Definition &definitionOf(const Analysis &analysis, const Occurrence &occurrence) {
  return analysis.names->definitions()[occurrence.definition];
}

/// A definition, whichever analysis knows it.
struct Target {
  std::string file;
  uint32_t offset = 0;
  friend bool operator==(const Target &, const Target &) = default;
};

Target targetOf(const Analysis &analysis, const Definition &definition) {
  const SourceLoc place = definition.range.begin;
  return {analysis.sources.name(analysis.sources.fileOf(place)).str(),
          analysis.sources.offsetInFile(place)};
}

json::Object location(const std::string &uri, llvm::lsp::Range range) {
  return json::Object{{"uri", uri}, {"range", range}};
}

/// One place where a name stands.
struct Place {
  std::string uri;
  llvm::lsp::Range range;
  bool isDefinition = false;
  /// The alias of an import that is not written, but follows from its path.
  bool isImplied = false;
  friend bool operator<(const Place &a, const Place &b) {
    return std::tie(a.uri, a.range.start) < std::tie(b.uri, b.range.start);
  }
};

bool isImpliedAlias(const Definition &definition, SourceRange range) {
  const auto *import = llvm::dyn_cast_or_null<ast::ImportDecl>(definition.decl);
  return import && definition.kind == NameKind::Module && range == definition.range &&
         import->pathRange.begin <= range.begin && range.end <= import->pathRange.end;
}

void addPlaces(const Analysis &analysis, const Target &target, std::set<Place> &places) {
  if (!analysis.names)
    return;
  const llvm::ArrayRef<Definition> definitions = analysis.names->definitions();
  const auto *found = llvm::find_if(definitions, [&](const Definition &definition) {
    return targetOf(analysis, definition) == target;
  });
  if (found == definitions.end())
    return;
  const unsigned number = unsigned(found - definitions.begin());
  for (const Occurrence &occurrence : analysis.names->occurrences())
    if (occurrence.definition == number)
      if (const auto uri = analysis.uriOf(analysis.sources.fileOf(occurrence.range.begin)))
        places.insert({*uri, analysis.range(occurrence.range), occurrence.range == found->range,
                       isImpliedAlias(*found, occurrence.range)});
}

/// In every file of the workspace that could name it.
std::set<Place> placesOf(Workspace &workspace, const Analysis &analysis,
                         const Definition &definition) {
  const Target target = targetOf(analysis, definition);
  std::set<Place> places;
  addPlaces(analysis, target, places);
  // Locals have no other places.
  const bool isOfDeclaration = analysis.names->of(definition.decl) == &definition ||
                               definition.kind == NameKind::Generic ||
                               definition.kind == NameKind::Param;
  if (isOfDeclaration)
    workspace.forEachThatNames(definition.name,
                               [&](const Analysis &other) { addPlaces(other, target, places); });
  return places;
}

llvm::Error refusal(const llvm::Twine &why) {
  return llvm::make_error<llvm::lsp::LSPError>(why.str(), llvm::lsp::ErrorCode::RequestFailed);
}

llvm::Expected<const Occurrence *> renamable(const Analysis &analysis,
                                             llvm::lsp::Position position) {
  const Occurrence *occurrence = occurrenceAt(analysis, position);
  if (!occurrence)
    return refusal("there is no name here that can be changed");
  const Definition &definition = definitionOf(analysis, *occurrence);
  if (!analysis.uriOf(analysis.sources.fileOf(definition.range.begin)))
    return refusal("`" + definition.name + "` is of the standard library");
  return occurrence;
}

bool isName(llvm::StringRef text) {
  SourceManager sources;
  Diagnostics messages(sources);
  ast::Arena arena;
  const FileId file = sources.add("name", ("const " + text + " = 0;").str());
  const ast::Module *module = parse::parse(file, sources, arena, messages);
  if (messages.hasErrors() || module->decls.size() != 1)
    return false;
  const auto *constant = llvm::dyn_cast<ast::ConstDecl>(module->decls.front());
  return constant && constant->name.name == text;
}

/// Calls and types would no longer mean what the language has under the name.
bool isBuiltIn(llvm::StringRef name) {
  const auto has = [&](const BuiltinFunction &each) { return each.name == name; };
  return name == "W" || dtypeFromName(name) || llvm::any_of(builtinFunctions(), has) ||
         llvm::any_of(testFunctions(), has);
}

/// Another definition that the new name would meet; null where it is free.
const Definition *clashOf(const Analysis &analysis, const Definition &definition,
                          llvm::StringRef newName) {
  const FileId home = analysis.sources.fileOf(definition.range.begin);
  const auto overlaps = [](SourceRange a, SourceRange b) {
    return a.isValid() && b.isValid() && a.begin < b.end && b.begin < a.end;
  };
  for (const Definition &other : analysis.names->definitions()) {
    if (other.name != newName || analysis.sources.fileOf(other.range.begin) != home)
      continue;
    // What a file declares is visible in all of it.
    if (!other.visible.isValid() || !definition.visible.isValid() ||
        overlaps(other.visible, definition.visible))
      return &other;
  }
  return nullptr;
}

} // namespace

json::Value definitionAt(const Analysis &analysis, llvm::lsp::Position position) {
  const Occurrence *occurrence = occurrenceAt(analysis, position);
  if (!occurrence)
    return nullptr;
  const Definition &definition = definitionOf(analysis, *occurrence);
  SourceRange range = definition.range;
  if (definition.kind == NameKind::Module && occurrence->range == definition.range) {
    if (!definition.file)
      return nullptr;
    const SourceLoc top = analysis.sources.start(*definition.file);
    range = {top, top};
  }
  const auto uri = analysis.uriOf(analysis.sources.fileOf(range.begin));
  if (!uri)
    return nullptr;
  return location(*uri, analysis.range(range));
}

json::Value highlightsAt(const Analysis &analysis, llvm::lsp::Position position) {
  json::Array result;
  if (const Occurrence *found = occurrenceAt(analysis, position))
    for (const Occurrence &each : analysis.names->occurrences())
      if (each.definition == found->definition && analysis.isInRoot(each.range.begin))
        result.push_back(json::Object{{"range", analysis.range(each.range)}});
  return result;
}

json::Value referencesAt(Workspace &workspace, const Analysis &analysis,
                         llvm::lsp::Position position, bool includeDeclaration) {
  json::Array result;
  if (const Occurrence *found = occurrenceAt(analysis, position))
    for (const Place &place : placesOf(workspace, analysis, definitionOf(analysis, *found)))
      if (includeDeclaration || !place.isDefinition)
        result.push_back(location(place.uri, place.range));
  return result;
}

llvm::Expected<json::Value> prepareRename(const Analysis &analysis, llvm::lsp::Position position) {
  llvm::Expected<const Occurrence *> found = renamable(analysis, position);
  if (!found)
    return found.takeError();
  return json::Value(
      json::Object{{"range", analysis.range((*found)->range)},
                   {"placeholder", json::fixUTF8(analysis.sources.text((*found)->range))}});
}

llvm::Expected<json::Value> renameAt(Workspace &workspace, const Analysis &analysis,
                                     llvm::lsp::Position position, llvm::StringRef newName) {
  llvm::Expected<const Occurrence *> found = renamable(analysis, position);
  if (!found)
    return found.takeError();
  if (!isName(newName))
    return refusal("`" + newName + "` is no name");
  if (isBuiltIn(newName))
    return refusal("`" + newName + "` is built in, and would be hidden");
  const Definition &definition = definitionOf(analysis, **found);
  if (definition.name == newName)
    return json::Value(json::Object{{"changes", json::Object{}}});
  if (const Definition *clash = clashOf(analysis, definition, newName))
    return refusal("`" + newName + "` is declared in line " +
                   llvm::Twine(analysis.sources.presumed(clash->range.begin).line) +
                   " already, and is seen in the same places");
  std::map<std::string, json::Array> changes;
  for (const Place &place : placesOf(workspace, analysis, definition)) {
    json::Array &edits = changes[place.uri];
    if (place.isImplied)
      // `import a.b;` becomes `import a.b as c;`
      edits.push_back(
          llvm::lsp::TextEdit{llvm::lsp::Range(place.range.end), (" as " + newName).str()});
    else
      edits.push_back(llvm::lsp::TextEdit{place.range, newName.str()});
  }
  json::Object all;
  for (auto &[uri, edits] : changes)
    all[uri] = std::move(edits);
  return json::Value(json::Object{{"changes", std::move(all)}});
}

} // namespace dtile::lsp
