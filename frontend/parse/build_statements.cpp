// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Statements to syntax tree.
#include "frontend/base/habits.h"
#include "frontend/parse/ast_builder.h"

namespace dtile::parse {

namespace {

using P = grammar::DtileParser;
using ast::BinaryOp;

BinaryOp compoundOperator(size_t type) {
  switch (type) {
  case P::PLUS_ASSIGN:
    return BinaryOp::Add;
  case P::MINUS_ASSIGN:
    return BinaryOp::Sub;
  case P::STAR_ASSIGN:
    return BinaryOp::Mul;
  case P::SLASH_ASSIGN:
    return BinaryOp::Div;
  case P::PERCENT_ASSIGN:
    return BinaryOp::Rem;
  case P::AMPERSAND_ASSIGN:
    return BinaryOp::BitAnd;
  case P::BAR_ASSIGN:
    return BinaryOp::BitOr;
  case P::CARET_ASSIGN:
    return BinaryOp::BitXor;
  case P::SHIFT_LEFT_ASSIGN:
    return BinaryOp::Shl;
  case P::SHIFT_RIGHT_ASSIGN:
    return BinaryOp::Shr;
  default:
    DTILE_UNREACHABLE("not a compound assignment");
  }
}

// The items of `(a, b)` standing alone, or none.
llvm::ArrayRef<P::RangeExpressionContext *> listedItems(P::ExpressionContext *context) {
  if (context->exception || context->operands.size() != 1 || context->whenTrue != nullptr)
    return {};
  const P::OperandContext *operand = context->operands.front();
  if (operand->exception || !operand->prefixes.empty() || !operand->tokens.empty())
    return {};
  const P::PostfixContext *postfix = operand->value;
  if (postfix == nullptr || postfix->exception || !postfix->suffixes.empty() ||
      postfix->items.size() < 2)
    return {};
  return postfix->items;
}

} // namespace

ast::Stmt *AstBuilder::buildStatement(P::StatementContext *context) {
  if (context == nullptr)
    return nullptr;
  // Without a tree of children, the alternative is known by what was kept of it.
  if (auto *one = context->let)
    return buildLet(one);
  if (auto *one = context->var)
    return buildVar(one);
  if (auto *one = context->loop)
    return buildFor(one);
  if (auto *one = context->whileLoop)
    return buildWhile(one);
  if (auto *one = context->branch)
    return buildIf(one);
  if (auto *one = context->returned) {
    auto *node = arena_.make<ast::ReturnStmt>(range(one));
    node->values = buildValues(one->values);
    return node;
  }
  if (auto *one = context->yielded) {
    auto *node = arena_.make<ast::YieldStmt>(range(one));
    node->values = buildValues(one->values);
    return node;
  }
  if (auto *one = context->awaited) {
    auto *node = arena_.make<ast::AwaitStmt>(range(one));
    node->token = buildExpression(one->value);
    return node;
  }
  if (auto *one = context->left) {
    auto *node = arena_.make<ast::BreakStmt>(range(one));
    node->isContinue = one->word != nullptr && one->word->getType() == P::CONTINUE;
    return node;
  }
  if (auto *one = context->expected)
    return buildExpectation(one->condition, range(one));
  if (auto *one = context->assumed) {
    auto *node = arena_.make<ast::AssumeStmt>(range(one));
    node->condition = buildExpression(one->condition);
    if (one->reason != nullptr)
      node->because = unescape(sourceToken(one->reason));
    return node;
  }
  if (auto *one = context->nested)
    return buildBlock(one);
  if (auto *one = context->simple)
    return buildSimple(one);
  return nullptr;
}

ast::BlockStmt *AstBuilder::buildBlock(P::BlockContext *context) {
  auto *node = arena_.make<ast::BlockStmt>(range(context));
  if (context == nullptr)
    return node;
  llvm::SmallVector<ast::Stmt *, 16> statements;
  for (P::StatementContext *one : context->statements)
    if (ast::Stmt *statement = buildStatement(one))
      statements.push_back(statement);
  node->statements = keep(statements);
  return node;
}

ast::Stmt *AstBuilder::buildLet(P::LetStatementContext *context) {
  auto *node = arena_.make<ast::LetStmt>(range(context));
  node->names = idents(context->names);
  node->type = buildAnnotation(context->annotation);
  node->value = buildRange(context->value);
  return node;
}

ast::Stmt *AstBuilder::buildVar(P::VarStatementContext *context) {
  auto *node = arena_.make<ast::VarStmt>(range(context));
  node->name = ident(context->id);
  node->type = buildAnnotation(context->annotation);
  node->value = buildRange(context->value);
  return node;
}

ast::Stmt *AstBuilder::buildFor(P::ForStatementContext *context) {
  auto *node = arena_.make<ast::ForStmt>(range(context));
  node->dim = buildIteration(context->head);
  node->isUnordered = context->unordered != nullptr;
  node->body = buildBlock(context->body);
  if (context->more.empty())
    return node;
  const SourceRange comma = range(sourceToken(context->commas.front()));
  diagnostics_.report(comma, diag::unexpected_token, "`{`", "`,`")
      .note(comma, diag::note_dtile_form,
            "a `for` has one variable: put one loop into the other, or let a space run over both, "
            "`over (m in M by BM, n in N by BN)`");
  // Read as one in the other, so that the names are known.
  for (P::IterationContext *one : llvm::reverse(context->more)) {
    auto *loop = arena_.make<ast::ForStmt>(range(context));
    loop->dim = buildIteration(one);
    loop->body = node->body;
    node->body = arena_.make<ast::BlockStmt>(range(context));
    ast::Stmt *const inner = loop;
    node->body->statements = arena_.copy(llvm::ArrayRef<ast::Stmt *>(inner));
  }
  return node;
}

ast::Stmt *AstBuilder::buildWhile(P::WhileStatementContext *context) {
  auto *node = arena_.make<ast::WhileStmt>(range(context));
  node->condition = buildExpression(context->condition);
  node->body = buildBlock(context->body);
  return node;
}

// The grammar lists the branches; the tree nests them, last one innermost.
ast::Stmt *AstBuilder::buildIf(P::IfStatementContext *context) {
  auto branches = llvm::ArrayRef<P::ElseBranchContext *>(context->branches);
  ast::Stmt *otherwise = nullptr;
  if (branches.size() > limits_.maxDepth) {
    diagnostics_.report(range(branches[limits_.maxDepth]), diag::nesting_too_deep,
                        limits_.maxDepth);
    branches = branches.take_front(limits_.maxDepth);
  }
  for (size_t i = branches.size(); i-- > 0;) {
    P::ElseBranchContext *branch = branches[i];
    ast::BlockStmt *body = buildBlock(branch->body);
    if (branch->condition == nullptr) {
      if (i + 1 < branches.size())
        diagnostics_.report(range(sourceToken(branches[i + 1]->start)), diag::unexpected_token,
                            "a statement", "keyword `else`");
      otherwise = body;
      continue;
    }
    SourceRange place = range(branch->condition);
    place.end = otherwise != nullptr ? otherwise->range.end : body->range.end;
    auto *nested = arena_.make<ast::IfStmt>(place);
    nested->condition = buildExpression(branch->condition);
    nested->then = body;
    nested->otherwise = otherwise;
    otherwise = nested;
  }
  auto *node = arena_.make<ast::IfStmt>(range(context));
  node->condition = buildExpression(context->condition);
  node->then = buildBlock(context->then);
  node->otherwise = otherwise;
  return node;
}

// `c[m, n] == v;` compares and forgets; it must mean a store.
ast::Stmt *AstBuilder::buildMeantStore(const ast::BinaryExpr &compare, SourceRange place) {
  const habits::FormInfo &row = habits::info(habits::Form::CompareAsStatement);
  diagnostics_.report(compare.opRange, diag::foreign_form, row.shown, row.advice)
      .fix(compare.opRange, "=");
  auto *node = arena_.make<ast::AssignStmt>(place);
  node->target = llvm::isa<ast::NameExpr, ast::IndexExpr>(compare.lhs)
                     ? compare.lhs
                     : errorExpr(compare.lhs->range).expr;
  node->opRange = compare.opRange;
  node->value = compare.rhs;
  return node;
}

ast::Stmt *AstBuilder::buildSimple(P::SimpleStatementContext *context) {
  ast::Expr *target = buildExpression(context->target);
  if (context->operator_ == nullptr) {
    if (const auto *compare = llvm::dyn_cast<ast::BinaryExpr>(target);
        compare != nullptr && compare->op == BinaryOp::Eq)
      return buildMeantStore(*compare, range(context));
    auto *node = arena_.make<ast::ExprStmt>(range(context));
    node->value = target;
    return node;
  }
  auto *node = arena_.make<ast::AssignStmt>(range(context));
  node->target = target;
  if (!llvm::isa<ast::NameExpr, ast::IndexExpr, ast::ErrorExpr>(target)) {
    diagnostics_.report(target->range, diag::invalid_target);
    node->target = errorExpr(target->range).expr;
  }
  const SourceToken &token = sourceToken(context->operator_);
  node->opRange = range(token);
  node->isCompound = token.type != P::ASSIGN;
  if (node->isCompound)
    node->op = compoundOperator(token.type);
  node->value = buildRange(context->value);
  return node;
}

// `return a, b;` and `return (a, b);` say the same.
llvm::ArrayRef<ast::Expr *>
AstBuilder::buildValues(llvm::ArrayRef<P::ExpressionContext *> contexts) {
  if (contexts.size() != 1 || contexts.front() == nullptr)
    return buildExpressions(contexts);
  const auto items = listedItems(contexts.front());
  if (items.empty())
    return buildExpressions(contexts);
  llvm::SmallVector<ast::Expr *, 8> values;
  for (P::RangeExpressionContext *item : items)
    values.push_back(buildRange(item));
  return keep(values);
}

} // namespace dtile::parse
