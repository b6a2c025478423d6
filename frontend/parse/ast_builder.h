// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Private to frontend/parse: ANTLR's contexts to syntax tree, one typed function a rule. Where a
// rule did not parse (its context is null, or holds the exception), the tree gets an ErrorExpr, or
// an empty name; that was reported.
#pragma once

#include "frontend/ast/ast.h"
#include "frontend/parse/lex_file.h"

#include "grammar/DtileParser.h"

#include "llvm/ADT/SmallVector.h"

#include <optional>

namespace dtile::parse {

class AstBuilder {
public:
  using P = grammar::DtileParser;

  AstBuilder(const LexedFile &lexed, llvm::StringRef text, SourceLoc start, ast::Arena &arena,
             Diagnostics &diagnostics, const Limits &limits)
      : lexed_(lexed), text_(text), start_(start.offset), arena_(arena), diagnostics_(diagnostics),
        limits_(limits) {}

  /// Null where nothing of use is left of a declaration.
  ast::Decl *build(P::DeclarationContext *context);
  /// The `//!` lines at the top of the file.
  llvm::StringRef moduleDoc();

private:
  // An expression, and how deep it is.
  struct Tree {
    ast::Expr *expr = nullptr;
    unsigned height = 0;
    // With the parentheses around it, which are no node.
    std::optional<SourceRange> inParentheses = std::nullopt;

    [[nodiscard]] SourceRange written() const { return inParentheses.value_or(expr->range); }
  };

  // build_declarations.cpp
  ast::Decl *buildImport(P::ImportDeclarationContext *context);
  ast::Decl *buildConst(P::ConstDeclarationContext *context);
  ast::Decl *buildFn(P::FnDeclarationContext *context);
  ast::Instructions buildInstructions(P::InstructionTextContext *context);
  ast::Decl *buildKernel(P::KernelDeclarationContext *context);
  ast::Decl *buildPlan(P::PlanDeclarationContext *context);
  ast::Decl *buildOverlap(P::OverlapDeclarationContext *context);
  void buildGraph(P::OverlapDeclarationContext *context, ast::OverlapDecl &node);
  ast::OverlapJoin buildJoin(P::OverlapJoinContext *context);
  ast::Stmt *buildRequires(P::RequiresClauseContext *context);
  ast::Stmt *buildMesh(SourceRange written, P::MeshAxesContext *context);
  ast::ExpectStmt *buildEnsures(P::EnsuresContext *context);
  ast::Decl *buildTest(P::TestDeclarationContext *context);
  ast::Role *buildRole(P::RoleContext *context);
  ast::Role *buildWhenAll(P::WhenAllContext *context);
  ast::ExpectStmt *buildExpectation(P::ExpectationContext *context, SourceRange range);
  bool isOfLaunch(const ast::AssumeStmt &assumption, P::OverClauseContext *over) const;
  llvm::StringRef docBefore(const antlr4::Token *token);
  llvm::StringRef joinDoc(llvm::ArrayRef<llvm::StringRef> lines);

  // build_types.cpp
  llvm::ArrayRef<ast::GenericParam> buildGenerics(P::GenericParametersContext *context);
  llvm::ArrayRef<ast::Param> buildParameters(P::ParameterListContext *context);
  ast::ParamMode buildMode(P::ParameterModeContext *context);
  ast::TypeRef *buildType(P::TypeContext *context);
  /// Null when the annotation is absent.
  ast::TypeRef *buildAnnotation(P::TypeContext *context) {
    return context == nullptr ? nullptr : buildType(context);
  }
  ast::OverClause *buildOver(P::OverClauseContext *context);
  ast::IterDim buildIteration(P::IterationContext *context);

  // build_statements.cpp
  ast::Stmt *buildStatement(P::StatementContext *context);
  ast::BlockStmt *buildBlock(P::BlockContext *context);
  ast::Stmt *buildLet(P::LetStatementContext *context);
  ast::Stmt *buildVar(P::VarStatementContext *context);
  ast::Stmt *buildFor(P::ForStatementContext *context);
  ast::Stmt *buildWhile(P::WhileStatementContext *context);
  ast::Stmt *buildIf(P::IfStatementContext *context);
  ast::Stmt *buildMeantStore(const ast::BinaryExpr &compare, SourceRange place);
  ast::Stmt *buildSimple(P::SimpleStatementContext *context);
  llvm::ArrayRef<ast::Expr *> buildValues(llvm::ArrayRef<P::ExpressionContext *> contexts);

  // build_expressions.cpp
  ast::Expr *buildExpression(P::ExpressionContext *context) { return expression(context).expr; }
  ast::Expr *buildRange(P::RangeExpressionContext *context) {
    return rangeExpression(context).expr;
  }
  /// Null when the expression is absent.
  ast::Expr *buildOptional(P::ExpressionContext *context) {
    return context == nullptr ? nullptr : buildExpression(context);
  }
  llvm::ArrayRef<ast::Expr *> buildRankCounts(llvm::ArrayRef<P::RankCountContext *> contexts);
  llvm::ArrayRef<ast::Expr *> buildExpressions(llvm::ArrayRef<P::ExpressionContext *> contexts);
  ast::Expr *makeRange(SourceRange range, ast::Expr *lo, ast::Expr *hi);
  Tree expression(P::ExpressionContext *context);
  Tree rangeExpression(P::RangeExpressionContext *context);
  Tree operand(P::OperandContext *context);
  Tree postfix(P::PostfixContext *context);
  Tree atom(const SourceToken &token);
  Tree suffixed(Tree base, P::SuffixContext *context);
  /// Arguments of a call; the height becomes that of the highest.
  llvm::SmallVector<ast::Arg, 8> buildArguments(llvm::ArrayRef<P::ArgumentContext *> arguments,
                                                unsigned &height);
  Tree call(Tree base, P::CallContext *context);
  Tree generic(Tree base, P::GenericContext *context);
  ast::Expr *stepped(ast::Expr *whole, P::IndexContext *context, unsigned &height);
  Tree subscript(Tree base, P::SubscriptContext *context);
  Tree remote(Tree base, P::RemoteContext *context);
  ast::Arg labelled(ast::Expr *label, ast::Expr *value);
  Tree integer(SourceRange range, llvm::StringRef text);
  Tree floating(SourceRange range, llvm::StringRef text);
  llvm::StringRef unescape(const SourceToken &token);
  Tree checkHeight(Tree tree);
  Tree errorExpr(SourceRange range);

  // Places and names.
  SourceRange range(uint32_t begin, uint32_t end) const {
    return {{start_ + begin}, {start_ + end}};
  }
  SourceRange range(const SourceToken &token) const { return range(token.begin, token.end); }
  SourceRange range(const antlr4::ParserRuleContext *context) const;
  llvm::StringRef text(const SourceToken &token) const {
    return text_.slice(token.begin, token.end);
  }
  ast::Ident ident(const antlr4::Token *token) const;
  ast::Ident ident(P::NameContext *context) const;
  llvm::ArrayRef<ast::Ident> idents(llvm::ArrayRef<P::NameContext *> contexts);

  template <typename T> llvm::ArrayRef<T> keep(const llvm::SmallVectorImpl<T> &items) {
    return arena_.copy(llvm::ArrayRef<T>(items));
  }
  static bool failed(const antlr4::ParserRuleContext *context) {
    return context == nullptr || context->exception != nullptr;
  }

  const LexedFile &lexed_;
  llvm::StringRef text_;
  uint32_t start_;
  ast::Arena &arena_;
  Diagnostics &diagnostics_;
  const Limits &limits_;
  bool saidTooDeep_ = false;
};

} // namespace dtile::parse
