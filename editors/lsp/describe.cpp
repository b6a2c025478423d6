// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Declarations are told in the user's own text, locals by their checked types.
#include "editors/lsp/describe.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

namespace dtile::lsp {

namespace {

namespace json = llvm::json;
using sema::Definition;
using sema::NameKind;

constexpr BuiltinFunction kCalls[] = {
#define CALL(HANDLER, NAME, SIGNATURE, DOC) {NAME, SIGNATURE, DOC},
#include "sema/calls/calls.def"
};

constexpr BuiltinFunction kTestFunctions[] = {
#define TEST_BUILTIN(ID, NAME, SIGNATURE, DOC) {NAME, SIGNATURE, DOC},
#include "sema/declarations/test_builtins.def"
};

/// Members of ranges, regions and tiles.
constexpr BuiltinFunction kMembers[] = {
    {"lo", "i64", "the first position"},
    {"hi", "i64", "the position behind the last"},
    {"len", "i64", "the length of a block, which is static"},
    {"count", "i64", "how many positions there are, past the limit or not"},
    {"index", "i64", "the number of the block"},
    {"limit", "i64", "the position at which the whole range ends"},
    {"T", "", "with dimensions 0 and 1 exchanged"},
};

bool isWordByte(char c) { return llvm::isAlnum(c) || c == '_'; }

// The declaration as far as its body.
llvm::StringRef withoutBody(llvm::StringRef text) {
  const size_t body = text.find_first_of("{;");
  return text.take_front(body).rtrim();
}

llvm::StringRef wordFor(NameKind kind) {
  switch (kind) {
  case NameKind::Let:
    return "let ";
  case NameKind::Var:
    return "var ";
  case NameKind::Index:
    return "in ";
  case NameKind::Role:
    return "role ";
  case NameKind::Module:
    return "module ";
  case NameKind::Size:
    return "size ";
  case NameKind::Const:
  case NameKind::Fn:
  case NameKind::Kernel:
  case NameKind::Plan:
  case NameKind::Overlap:
  case NameKind::Generic:
  case NameKind::Param:
    return "";
  }
  return "";
}

json::Value hover(const Analysis &analysis, SourceRange range, llvm::StringRef head,
                  llvm::StringRef doc) {
  std::string text = ("```dtile\n" + head + "\n```").str();
  if (!doc.empty())
    text += ("\n\n" + doc).str();
  return json::Object{
      {"contents", json::Object{{"kind", "markdown"}, {"value", json::fixUTF8(text)}}},
      {"range", analysis.range(range)}};
}

json::Value hoverOfBuiltin(const Analysis &analysis, SourceRange word) {
  const llvm::StringRef name = analysis.sources.text(word);
  if (name.empty())
    return nullptr;
  const llvm::StringRef before =
      analysis.sources.text({analysis.sources.start(analysis.root), word.begin}).rtrim();
  if (before.ends_with(".") && !before.ends_with("..")) {
    const auto *member = llvm::find_if(kMembers, [&](const auto &m) { return m.name == name; });
    if (member != std::end(kMembers))
      return hover(analysis, word,
                   (name + (member->signature.empty() ? "" : ": ") + member->signature).str(),
                   member->doc);
    return nullptr;
  }
  if (const BuiltinFunction *found = findBuiltin(name, isInTest(analysis, word.begin)))
    return hover(analysis, word, (name + found->signature).str(), found->doc);
  if (name == "W")
    return hover(analysis, word, "W: i64", "the number of ranks");
  return nullptr;
}

} // namespace

llvm::ArrayRef<BuiltinFunction> builtinFunctions() { return kCalls; }
llvm::ArrayRef<BuiltinFunction> testFunctions() { return kTestFunctions; }

const BuiltinFunction *findBuiltin(llvm::StringRef name, bool isInTest) {
  for (const BuiltinFunction &each : isInTest ? testFunctions() : builtinFunctions())
    if (each.name == name)
      return &each;
  return nullptr;
}

bool isInTest(const Analysis &analysis, SourceLoc loc) {
  if (!analysis.program)
    return false;
  for (const ast::Decl *decl : analysis.program->modules().front().tree->decls)
    if (decl->range.begin <= loc && loc <= decl->range.end)
      return llvm::isa<ast::TestDecl, ast::BenchDecl>(decl);
  return false;
}

SourceRange wordAt(const Analysis &analysis, SourceLoc loc) {
  const llvm::StringRef text = analysis.sources.text(analysis.root);
  const uint32_t at = analysis.sources.offsetInFile(loc);
  uint32_t begin = at, end = at;
  while (begin > 0 && isWordByte(text[begin - 1]))
    --begin;
  while (end < text.size() && isWordByte(text[end]))
    ++end;
  return {analysis.sources.locAt(analysis.root, begin), analysis.sources.locAt(analysis.root, end)};
}

sema::Type typeOf(const Analysis &analysis, const Definition &definition) {
  for (const sema::Variable *variable : analysis.program->variables())
    if (variable->range == definition.range && variable->type &&
        variable->type->kind != sema::TypeKind::Error)
      return variable->type;
  return nullptr;
}

std::string headOf(const Analysis &analysis, const Definition &definition) {
  const llvm::StringRef written = analysis.sources.text(definition.whole);
  switch (definition.kind) {
  case NameKind::Fn:
  case NameKind::Kernel:
  case NameKind::Plan:
  case NameKind::Overlap:
    return withoutBody(written).str();
  case NameKind::Const:
    return written.rtrim(";").str();
  case NameKind::Generic:
  case NameKind::Param:
    return written.rtrim(",").rtrim().str();
  case NameKind::Module:
    return ("module " + definition.name).str();
  case NameKind::Role:
  case NameKind::Size:
    return (wordFor(definition.kind) + definition.name).str();
  case NameKind::Let:
  case NameKind::Var:
  case NameKind::Index: {
    const sema::Type type = typeOf(analysis, definition);
    const llvm::StringRef word =
        definition.kind == NameKind::Index ? llvm::StringRef() : wordFor(definition.kind);
    return (word + definition.name + (type ? ": " + type->str() : "")).str();
  }
  }
  return definition.name.str();
}

std::string docOf(const Analysis &analysis, const Definition &definition) {
  if (definition.kind == NameKind::Module && definition.file) {
    for (const sema::Program::ModuleFile &module : analysis.program->modules())
      if (module.file == *definition.file)
        return module.tree->doc.str();
    return "";
  }
  if (!definition.doc.empty())
    return definition.doc.str();
  if (definition.kind != NameKind::Param && definition.kind != NameKind::Generic)
    return "";
  // `shard: in T[S, K],    // S rows a rank`
  const FileId file = analysis.sources.fileOf(definition.whole.end);
  llvm::StringRef rest = analysis.sources.text(file)
                             .substr(analysis.sources.offsetInFile(definition.whole.end))
                             .split('\n')
                             .first.ltrim(" \t,");
  return rest.consume_front("//") ? rest.trim("/ \t\r").str() : "";
}

json::Value hoverAt(const Analysis &analysis, llvm::lsp::Position position) {
  if (!analysis.names)
    return nullptr;
  const SourceLoc loc = analysis.locAt(position);
  const sema::Occurrence *occurrence = analysis.names->at(loc);
  if (!occurrence)
    return hoverOfBuiltin(analysis, wordAt(analysis, loc));
  const Definition &definition = analysis.names->definitions()[occurrence->definition];
  std::string doc = docOf(analysis, definition);
  // What instances have in place of compile-time parameters decides the sizes of types.
  if (definition.kind == NameKind::Param || definition.kind == NameKind::Generic)
    if (const Definition *home = analysis.names->of(definition.decl))
      doc += ((doc.empty() ? "" : "\n\n") + llvm::Twine("of `") + home->name + "`").str();
  return hover(analysis, occurrence->range, headOf(analysis, definition), doc);
}

} // namespace dtile::lsp
