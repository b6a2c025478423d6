// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Five numbers a token: lines and columns since the one before, length, type, modifiers.
#include "editors/lsp/semantic_tokens.h"

#include "editors/lsp/describe.h"
#include "frontend/ast/ast_visitor.h"

#include "llvm/ADT/STLExtras.h"

namespace dtile::lsp {

namespace {

namespace json = llvm::json;
using sema::NameKind;

// In the order of the legend.
enum class TokenType : uint8_t {
  Namespace,
  Type,
  Interface,
  TypeParameter,
  Parameter,
  Variable,
  Function,
  Method
};
constexpr llvm::StringLiteral kTypes[] = {"namespace", "type",     "interface", "typeParameter",
                                          "parameter", "variable", "function",  "method"};
constexpr unsigned kDeclaration = 1, kReadonly = 2, kDefaultLibrary = 4;
constexpr llvm::StringLiteral kModifiers[] = {"declaration", "readonly", "defaultLibrary"};

struct Token {
  SourceRange range;
  TokenType type = TokenType::Variable;
  unsigned modifiers = 0;
};

Token tokenOf(NameKind kind, SourceRange range) {
  switch (kind) {
  case NameKind::Module:
    return {range, TokenType::Namespace};
  case NameKind::Const:
    return {range, TokenType::Variable, kReadonly};
  case NameKind::Fn:
  case NameKind::Kernel:
  case NameKind::Overlap:
    return {range, TokenType::Function};
  case NameKind::Plan:
    return {range, TokenType::Interface};
  case NameKind::Role:
    return {range, TokenType::Method};
  case NameKind::Generic:
  case NameKind::Size:
    return {range, TokenType::TypeParameter};
  case NameKind::Param:
    return {range, TokenType::Parameter};
  case NameKind::Let:
  case NameKind::Index:
    return {range, TokenType::Variable, kReadonly};
  case NameKind::Var:
    return {range, TokenType::Variable};
  }
  return {range};
}

/// Calls of what the language has, and element types where they stand as values.
struct BuiltinNames : ast::Walker<BuiltinNames> {
  using ast::Walker<BuiltinNames>::visit;
  explicit BuiltinNames(std::vector<Token> &tokens) : tokens(tokens) {}

  bool visit(const ast::CallExpr &e) {
    callee(e.callee);
    return true;
  }
  bool visit(const ast::GenericExpr &e) {
    callee(e.base);
    return true;
  }
  bool visit(const ast::TestDecl &) { return inTest = true; }
  bool visit(const ast::BenchDecl &) { return inTest = true; }
  bool visit(const ast::KernelDecl &) { return !(inTest = false); }
  bool visit(const ast::PlanDecl &) { return !(inTest = false); }
  bool visit(const ast::FnDecl &) { return !(inTest = false); }
  bool visit(const ast::ConstDecl &) { return !(inTest = false); }

  void callee(const ast::Expr *e) {
    const auto *name = llvm::dyn_cast_or_null<ast::NameExpr>(e);
    if (name && findBuiltin(name->name, inTest))
      tokens.push_back({name->range, TokenType::Function, kDefaultLibrary});
  }

  std::vector<Token> &tokens;
  bool inTest = false;
};

} // namespace

json::Value semanticLegend() {
  json::Array types, modifiers;
  for (llvm::StringRef each : kTypes)
    types.push_back(each);
  for (llvm::StringRef each : kModifiers)
    modifiers.push_back(each);
  return json::Object{{"tokenTypes", std::move(types)}, {"tokenModifiers", std::move(modifiers)}};
}

json::Value semanticTokens(const Analysis &analysis) {
  std::vector<Token> tokens;
  if (analysis.names) {
    for (const sema::Occurrence &each : analysis.names->occurrences()) {
      if (!analysis.isInRoot(each.range.begin))
        continue;
      const sema::Definition &definition = analysis.names->definitions()[each.definition];
      Token token = tokenOf(definition.kind, each.range);
      if (each.range == definition.range)
        token.modifiers |= kDeclaration;
      tokens.push_back(token);
    }
    BuiltinNames(tokens).walk(*analysis.program->modules().front().tree);
  }
  llvm::stable_sort(tokens,
                    [](const Token &a, const Token &b) { return a.range.begin < b.range.begin; });
  json::Array data;
  llvm::lsp::Position last;
  SourceLoc end;
  for (const Token &token : tokens) {
    const llvm::lsp::Range range = analysis.range(token.range);
    // A name of one's own hides that of the language; tokens stand in one line and do not overlap.
    if (token.range.begin < end || range.start.line != range.end.line || range.start == range.end)
      continue;
    const bool isSameLine = range.start.line == last.line;
    data.push_back(range.start.line - last.line);
    data.push_back(range.start.character - (isSameLine ? last.character : 0));
    data.push_back(range.end.character - range.start.character);
    data.push_back(int(token.type));
    data.push_back(int(token.modifiers));
    last = range.start;
    end = token.range.end;
  }
  return json::Object{{"data", std::move(data)}};
}

} // namespace dtile::lsp
