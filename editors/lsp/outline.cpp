// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Symbols, folds and layout of one file.
#include "editors/lsp/outline.h"

#include "editors/lsp/guard.h"
#include "frontend/ast/ast_visitor.h"
#include "frontend/format/format.h"

#include <set>

namespace dtile::lsp {

namespace {

namespace json = llvm::json;
using llvm::lsp::SymbolKind;

/// The symbols of one declaration, and of what it holds.
class Outline {
public:
  explicit Outline(const Analysis &analysis) : analysis_(analysis) {}

  std::vector<llvm::lsp::DocumentSymbol> of(const ast::Module &module) {
    std::vector<llvm::lsp::DocumentSymbol> result;
    for (const ast::Decl *decl : module.decls)
      ast::visitDecl(*decl, [&](const auto &node) { add(result, node); });
    return result;
  }

private:
  using Symbols = std::vector<llvm::lsp::DocumentSymbol>;

  // A client refuses a symbol without a name, and one whose name stands outside it.
  llvm::lsp::DocumentSymbol *push(Symbols &into, llvm::StringRef name, SymbolKind kind,
                                  SourceRange whole, SourceRange nameRange) {
    if (name.trim().empty() || !whole.isValid())
      return nullptr;
    const llvm::lsp::Range range = analysis_.range(whole);
    llvm::lsp::Range selection = analysis_.range(nameRange.isValid() ? nameRange : whole);
    if (!range.contains(selection))
      selection = {range.start, range.start};
    return &into.emplace_back(json::fixUTF8(name), kind, range, selection);
  }

  std::string text(SourceRange range) const { return json::fixUTF8(analysis_.sources.text(range)); }

  void addParams(Symbols &into, llvm::ArrayRef<ast::GenericParam> generics,
                 llvm::ArrayRef<ast::Param> params) {
    for (const ast::GenericParam &generic : generics)
      push(into, generic.name.name, SymbolKind::TypeParameter, generic.range, generic.name.range);
    for (const ast::Param &param : params)
      if (auto *symbol =
              push(into, param.name.name, SymbolKind::Variable, param.range, param.name.range))
        if (param.type)
          symbol->detail =
              (ast::spelling(param.mode) + (param.mode == ast::ParamMode::Value ? "" : " ")).str() +
              text(param.type->range);
  }

  void addRoles(Symbols &into, llvm::ArrayRef<ast::Role *> roles) {
    for (const ast::Role *role : roles)
      push(into, role->name.name, SymbolKind::Method, role->range, role->name.range);
  }

  void add(Symbols &into, const ast::ImportDecl &d) {
    push(into, d.alias.name, SymbolKind::Module, d.range, d.alias.range);
  }
  void add(Symbols &into, const ast::ConstDecl &d) {
    push(into, d.name.name, SymbolKind::Constant, d.range, d.name.range);
  }
  void add(Symbols &into, const ast::FnDecl &d) {
    if (auto *symbol = push(into, d.name.name, SymbolKind::Function, d.range, d.name.range))
      addParams(symbol->children, d.generics, d.params);
  }
  void add(Symbols &into, const ast::KernelDecl &d) {
    if (auto *symbol = push(into, d.name.name, SymbolKind::Class, d.range, d.name.range)) {
      symbol->detail = "kernel";
      addParams(symbol->children, d.generics, d.params);
      addRoles(symbol->children, d.roles);
    }
  }
  void add(Symbols &into, const ast::PlanDecl &d) {
    if (auto *symbol = push(into, d.name.name, SymbolKind::Interface, d.range, d.name.range)) {
      symbol->detail = "plan";
      addParams(symbol->children, d.generics, d.params);
      addRoles(symbol->children, d.roles);
    }
  }
  void add(Symbols &into, const ast::OverlapDecl &d) {
    if (auto *symbol = push(into, d.name.name, SymbolKind::Class, d.range, d.name.range)) {
      symbol->detail = "overlap";
      addParams(symbol->children, d.generics, d.params);
    }
  }
  void add(Symbols &into, const ast::TestDecl &d) {
    if (auto *symbol = push(into, d.name, SymbolKind::Event, d.range, d.nameRange))
      symbol->detail = "test";
  }
  void add(Symbols &into, const ast::BenchDecl &d) {
    if (auto *symbol = push(into, d.name, SymbolKind::Event, d.range, d.nameRange))
      symbol->detail = "bench";
  }

  const Analysis &analysis_;
};

/// Collects folds; a line begins at most one, the longest.
class Folds : public ast::Walker<Folds> {
public:
  using ast::Walker<Folds>::visit;

  explicit Folds(const Analysis &analysis) : analysis_(analysis) {}

  bool visit(const ast::BlockStmt &s) { return add(s.range); }
  bool visit(const ast::KernelDecl &d) { return declaration(d, d.name, d.params); }
  bool visit(const ast::PlanDecl &d) { return declaration(d, d.name, d.params); }
  bool visit(const ast::FnDecl &d) { return declaration(d, d.name, d.params); }
  bool visit(const ast::OverlapDecl &d) { return add(d.range); }

  json::Value finish() {
    addRuns();
    json::Array result;
    for (const auto &[start, fold] : folds_) {
      json::Object object{{"startLine", start}, {"endLine", fold.end}};
      if (!fold.kind.empty())
        object["kind"] = fold.kind;
      result.push_back(std::move(object));
    }
    return result;
  }

private:
  struct Fold {
    int end = 0;
    llvm::StringRef kind;
  };

  // The last line, with what closes the fold, stays.
  bool add(SourceRange range) {
    if (range.isValid() && range.end > range.begin) {
      const llvm::lsp::Range lines = analysis_.range(range);
      addLines(lines.start.line, lines.end.line - 1, "");
    }
    return true;
  }

  bool declaration(const ast::Decl &d, const ast::Ident &name, llvm::ArrayRef<ast::Param> params) {
    if (!params.empty() && name.range.isValid())
      addLines(analysis_.range(name.range).start.line,
               analysis_.range(params.back().range).end.line, "");
    // The body of a kernel begins after its list of parameters.
    const SourceLoc from = params.empty() ? name.range.end : params.back().range.end;
    const size_t brace = from.isValid() && from <= d.range.end
                             ? analysis_.sources.text({from, d.range.end}).find('{')
                             : llvm::StringRef::npos;
    if (brace != llvm::StringRef::npos)
      return add({SourceLoc{from.offset + uint32_t(brace)}, d.range.end});
    return add(d.range);
  }

  void addLines(int start, int end, llvm::StringRef kind) {
    if (end <= start)
      return;
    Fold &fold = folds_[start];
    if (end > fold.end)
      fold = {end, kind};
  }

  // Lines in a row that are comments, and lines that are imports.
  void addRuns() {
    const LineTable &lines = analysis_.lines(analysis_.root);
    for (const auto &[word, kind] :
         {std::pair<llvm::StringRef, llvm::StringRef>{"//", "comment"}, {"import ", "imports"}}) {
      size_t first = 0;
      for (size_t i = 0; i <= lines.lineCount(); ++i)
        if (i == lines.lineCount() || !lines.line(i).ltrim().starts_with(word)) {
          if (i > first + 1)
            addLines(int(first), int(i) - 1, kind);
          first = i + 1;
        }
    }
  }

  const Analysis &analysis_;
  std::map<int, Fold> folds_;
};

} // namespace

json::Value documentSymbols(const Analysis &analysis) {
  if (!analysis.program)
    return json::Array{};
  return json::Array(Outline(analysis).of(*analysis.program->modules().front().tree));
}

json::Value foldingRanges(const Analysis &analysis) {
  Folds folds(analysis);
  if (analysis.program)
    folds.walk(*analysis.program->modules().front().tree);
  return folds.finish();
}

json::Value formattingEdits(const Analysis &analysis) {
  std::optional<std::string> formatted;
  auto messages = std::make_unique<Diagnostics>(analysis.sources);
  const bool isWhole = runGuarded(
      [&] { formatted = format::formatFile(analysis.root, analysis.sources, *messages); });
  if (!isWhole) {
    // Destroying what was left in the middle could fail.
    [[maybe_unused]] const auto *const left = messages.release();
    return nullptr;
  }
  if (!formatted)
    return nullptr;
  // One edit between the lines that stay at the top and at the bottom.
  const llvm::StringRef text = analysis.sources.text(analysis.root);
  const LineTable &before = analysis.lines(analysis.root);
  const LineTable after(*formatted);
  auto startOf = [](const LineTable &lines, size_t index, size_t size) {
    return index < lines.lineCount() ? lines.lineStart(index) : size;
  };
  // With its line break.
  auto oldLine = [&](size_t index) {
    return text.slice(before.lineStart(index), startOf(before, index + 1, text.size()));
  };
  auto newLine = [&](size_t index) {
    return llvm::StringRef(*formatted)
        .slice(after.lineStart(index), startOf(after, index + 1, formatted->size()));
  };
  const size_t fewest = std::min(before.lineCount(), after.lineCount());
  size_t top = 0;
  while (top < fewest && oldLine(top) == newLine(top))
    ++top;
  size_t bottom = 0;
  while (bottom < fewest - top &&
         oldLine(before.lineCount() - 1 - bottom) == newLine(after.lineCount() - 1 - bottom))
    ++bottom;
  const size_t end = startOf(before, before.lineCount() - bottom, text.size());
  const size_t newEnd = startOf(after, after.lineCount() - bottom, formatted->size());
  const size_t begin = startOf(before, top, text.size());
  const size_t newBegin = startOf(after, top, formatted->size());
  if (begin == end && newBegin == newEnd)
    return json::Array{};
  return json::Array{llvm::lsp::TextEdit{
      before.range(begin, end), llvm::StringRef(*formatted).slice(newBegin, newEnd).str()}};
}

} // namespace dtile::lsp
