// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Completion and signatures.
#include "editors/lsp/complete.h"

#include "editors/lsp/call_site.h"
#include "frontend/base/dtype.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <set>

namespace dtile::lsp {

namespace {

namespace json = llvm::json;
using llvm::lsp::CompletionItemKind;
using sema::Definition;
using sema::NameKind;

constexpr llvm::StringLiteral kWords[] = {
#define KEYWORD(TEXT) TEXT,
#define CONTEXT_WORD(TEXT) TEXT,
#include "editors/lsp/keywords.def"
};

constexpr llvm::StringLiteral kElementTypes[] = {
#define DTYPE(ID, NAME, ...) NAME,
#include "frontend/base/dtypes.def"
};

CompletionItemKind kindOf(NameKind kind) {
  switch (kind) {
  case NameKind::Module:
    return CompletionItemKind::Module;
  case NameKind::Const:
    return CompletionItemKind::Constant;
  case NameKind::Fn:
    return CompletionItemKind::Function;
  case NameKind::Kernel:
  case NameKind::Overlap:
    return CompletionItemKind::Class;
  case NameKind::Plan:
    return CompletionItemKind::Interface;
  case NameKind::Role:
    return CompletionItemKind::Method;
  case NameKind::Generic:
  case NameKind::Size:
    return CompletionItemKind::TypeParameter;
  case NameKind::Param:
  case NameKind::Let:
  case NameKind::Var:
  case NameKind::Index:
    return CompletionItemKind::Variable;
  }
  return CompletionItemKind::Variable;
}

/// Collects items; the nearer a name is, the earlier it is offered.
class Items {
public:
  explicit Items(const Analysis &analysis) : analysis_(analysis) {}

  void add(llvm::StringRef label, CompletionItemKind kind, char group, llvm::StringRef detail = "",
           llvm::StringRef doc = "", llvm::StringRef insert = "") {
    if (label.empty() || !seen_.insert(label.str()).second)
      return;
    llvm::lsp::CompletionItem item(label, kind, (llvm::Twine(group) + label).str());
    item.detail = json::fixUTF8(detail);
    item.insertText = insert.str();
    if (!doc.empty())
      item.documentation = {llvm::lsp::MarkupKind::Markdown, json::fixUTF8(doc)};
    items_.push_back(std::move(item));
  }

  void add(const Definition &definition, char group) {
    if (definition.kind != NameKind::Role)
      add(definition.name, kindOf(definition.kind), group,
          llvm::StringRef(headOf(analysis_, definition)).split('\n').first,
          docOf(analysis_, definition));
  }

  json::Value finish() { return llvm::lsp::CompletionList{false, std::move(items_)}; }

private:
  const Analysis &analysis_;
  std::set<std::string> seen_;
  std::vector<llvm::lsp::CompletionItem> items_;
};

// `lo`, `T` …, by the type of what stands before the dot.
void addMembers(Items &items, sema::Type type) {
  const bool isRange = !type || type->kind == sema::TypeKind::Range;
  const bool isArray =
      !type || type->kind == sema::TypeKind::Region || type->kind == sema::TypeKind::Tile;
  if (isRange)
    for (llvm::StringRef name : {"lo", "hi", "len", "count", "index", "limit"})
      items.add(name, CompletionItemKind::Property, '0');
  if (isRange)
    items.add("blocks", CompletionItemKind::Method, '0', "(size) -> range");
  if (isArray)
    items.add("T", CompletionItemKind::Property, '0');
}

// Modules beside the document, in folders of imports and in the library, as imports name them.
void addModules(Items &items, const Analysis &analysis, const sema::Options &imports) {
  const auto add = [&](llvm::StringRef path) {
    if (!path.consume_back(".dtile") || path.empty())
      return;
    std::string name = path.str();
    llvm::replace(name, '/', '.');
    items.add(name, CompletionItemKind::Module, '0');
  };
  std::vector<std::string> folders = imports.importPaths;
  folders.push_back(llvm::sys::path::parent_path(analysis.sources.name(analysis.root)).str());
  unsigned left = 1000;
  for (const std::string &folder : folders) {
    std::error_code error;
    for (llvm::sys::fs::directory_iterator it(folder, error), end; it != end && !error && left > 0;
         it.increment(error), --left)
      if (it->path() != analysis.sources.name(analysis.root))
        add(llvm::sys::path::filename(it->path()));
  }
  for (const auto &file : imports.embeddedFiles)
    add(file.first);
}

void addLabels(Items &items, const Analysis &analysis, const CallSite &site) {
  if (!site.definition)
    return;
  for (const Definition &definition : analysis.names->definitions()) {
    if (definition.decl != site.definition->decl)
      continue;
    const bool isLabel =
        definition.kind == (site.isInGenerics ? NameKind::Generic : NameKind::Param);
    if (isLabel)
      items.add((definition.name + (site.isInGenerics ? " =" : ":")).str(),
                CompletionItemKind::Field, '0', headOf(analysis, definition),
                docOf(analysis, definition),
                (definition.name + (site.isInGenerics ? " = " : ": ")).str());
  }
}

void addAll(Items &items, const Analysis &analysis, SourceLoc loc) {
  analysis.names->forEachVisible(loc, [&](const Definition &d) { items.add(d, '1'); });
  analysis.names->forEachMember(analysis.root, [&](const Definition &d) { items.add(d, '2'); });
  for (const BuiltinFunction &each : isInTest(analysis, loc) ? testFunctions() : builtinFunctions())
    items.add(each.name, CompletionItemKind::Function, '3', (each.name + each.signature).str(),
              each.doc);
  items.add("W", CompletionItemKind::Constant, '3', "i64", "the number of ranks");
  for (llvm::StringRef each : kElementTypes)
    items.add(each, CompletionItemKind::Struct, '4');
  for (llvm::StringRef each : kWords)
    items.add(each, CompletionItemKind::Keyword, '5');
}

std::string signatureLabel(const Analysis &analysis, const CallSite &site) {
  if (site.builtin)
    return (site.builtin->name + site.builtin->signature).str();
  std::string head = headOf(analysis, *site.definition);
  // In one line, without comments.
  std::string result;
  llvm::SmallVector<llvm::StringRef> lines;
  llvm::StringRef(head).split(lines, '\n');
  for (llvm::StringRef line : lines)
    result += (result.empty() ? "" : " ") + line.split("//").first.trim().str();
  return result;
}

// Where each parameter stands in a label: what commas divide between the first bracket of this kind
// and its end.
std::vector<std::pair<unsigned, unsigned>> parametersOf(llvm::StringRef label, char open,
                                                        char close) {
  std::vector<std::pair<unsigned, unsigned>> result;
  const size_t first = label.find(open);
  if (first == llvm::StringRef::npos)
    return result;
  unsigned depth = 0;
  size_t begin = first + 1;
  const auto add = [&](size_t end) {
    while (begin < end && label[begin] == ' ')
      ++begin;
    if (begin < end)
      result.emplace_back(unsigned(begin), unsigned(end));
  };
  for (size_t i = first + 1; i < label.size(); ++i) {
    const char c = label[i];
    if (depth == 0 && c == close) {
      add(i);
      break;
    }
    if (c == '(' || c == '[')
      ++depth;
    else if ((c == ')' || c == ']') && depth > 0)
      --depth;
    else if (depth == 0 && c == ',') {
      add(i);
      begin = i + 1;
    }
  }
  return result;
}

} // namespace

json::Value completionsAt(const Analysis &analysis, llvm::lsp::Position position,
                          const sema::Options &imports) {
  Items items(analysis);
  if (!analysis.names)
    return items.finish();
  const SourceLoc loc = analysis.locAt(position);
  const SourceRange word = wordAt(analysis, loc);
  const llvm::StringRef before =
      analysis.sources.text({analysis.sources.start(analysis.root), word.begin});
  const llvm::StringRef line = before.substr(before.rfind('\n') + 1);
  if (line.contains("//"))
    return items.finish();
  if (line.ltrim().starts_with("import ") && !line.contains(" as ")) {
    addModules(items, analysis, imports);
    return items.finish();
  }
  if (before.ends_with(".") && !before.ends_with("..")) {
    const SourceLoc dot = SourceLoc{word.begin.offset - 1};
    const llvm::StringRef base = analysis.sources.text(wordAt(analysis, dot));
    const Definition *found = resolve(analysis, loc, "", base);
    if (found && found->kind == NameKind::Module) {
      if (found->file)
        analysis.names->forEachMember(*found->file, [&](const Definition &d) {
          if (d.kind != NameKind::Module)
            items.add(d, '0');
        });
    } else {
      addMembers(items, found ? typeOf(analysis, *found) : nullptr);
    }
    return items.finish();
  }
  if (const std::optional<CallSite> site = callAround(analysis, loc))
    if (site->label.empty())
      addLabels(items, analysis, *site);
  addAll(items, analysis, loc);
  return items.finish();
}

json::Value signatureAt(const Analysis &analysis, llvm::lsp::Position position) {
  if (!analysis.names)
    return nullptr;
  const std::optional<CallSite> site = callAround(analysis, analysis.locAt(position));
  if (!site)
    return nullptr;
  llvm::lsp::SignatureInformation signature;
  signature.label = json::fixUTF8(signatureLabel(analysis, *site));
  signature.documentation =
      json::fixUTF8(site->builtin ? site->builtin->doc.str() : docOf(analysis, *site->definition));
  int active = int(site->argument);
  const auto parameters = site->isInGenerics ? parametersOf(signature.label, '<', '>')
                                             : parametersOf(signature.label, '(', ')');
  for (auto [i, range] : llvm::enumerate(parameters)) {
    llvm::lsp::ParameterInformation parameter;
    const llvm::StringRef text = llvm::StringRef(signature.label).slice(range.first, range.second);
    parameter.labelString = text.str();
    signature.parameters.push_back(std::move(parameter));
    if (!site->label.empty() &&
        text.take_while([](char c) { return llvm::isAlnum(c) || c == '_'; }) == site->label)
      active = int(i);
  }
  llvm::lsp::SignatureHelp help;
  help.signatures.push_back(std::move(signature));
  help.activeParameter = active;
  return help;
}

} // namespace dtile::lsp
