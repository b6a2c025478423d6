// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Expressions: precedence climbing over the grammar's flat lists of operands, literals, suffixes.
#include "frontend/base/habits.h"
#include "frontend/parse/ast_builder.h"

#include "llvm/ADT/APFloat.h"
#include "llvm/ADT/APInt.h"

#include <algorithm>

namespace dtile::parse {

namespace {

using P = grammar::DtileParser;
using ast::BinaryOp;

struct OperatorRow {
  BinaryOp op;
  // Higher binds tighter; all are left-associative.
  unsigned precedence;
};

OperatorRow operatorOf(size_t type) {
  switch (type) {
  case P::OR_OR:
    return {BinaryOp::LogOr, 1};
  case P::AND_AND:
    return {BinaryOp::LogAnd, 2};
  case P::EQUAL:
    return {BinaryOp::Eq, 3};
  case P::NOT_EQUAL:
    return {BinaryOp::Ne, 3};
  case P::LESS:
    return {BinaryOp::Lt, 3};
  case P::LESS_EQUAL:
    return {BinaryOp::Le, 3};
  case P::GREATER:
    return {BinaryOp::Gt, 3};
  case P::GREATER_EQUAL:
    return {BinaryOp::Ge, 3};
  case P::BAR:
    return {BinaryOp::BitOr, 4};
  case P::CARET:
    return {BinaryOp::BitXor, 5};
  case P::AMPERSAND:
    return {BinaryOp::BitAnd, 6};
  case P::SHIFT_LEFT:
    return {BinaryOp::Shl, 7};
  case P::SHIFT_RIGHT:
    return {BinaryOp::Shr, 7};
  case P::PLUS:
    return {BinaryOp::Add, 8};
  case P::MINUS:
    return {BinaryOp::Sub, 8};
  case P::STAR:
    return {BinaryOp::Mul, 9};
  case P::SLASH:
    return {BinaryOp::Div, 9};
  case P::PERCENT:
    return {BinaryOp::Rem, 9};
  default:
    DTILE_UNREACHABLE("not a binary operator");
  }
}

// Folds `operands[0] operators[0] operands[1] …` by precedence. Recursion is as deep as there are
// precedences.
template <typename Tree, typename Join> class Climber {
public:
  Climber(llvm::ArrayRef<Tree> operands, llvm::ArrayRef<antlr4::Token *> operators, Join join)
      : operands_(operands), operators_(operators), join_(join) {}

  Tree climb(unsigned atLeast) {
    Tree lhs = operands_[next_];
    while (next_ < operators_.size()) {
      const antlr4::Token *token = operators_[next_];
      const OperatorRow row = operatorOf(token->getType());
      if (row.precedence < atLeast)
        break;
      ++next_;
      lhs = join_(lhs, row.op, token, climb(row.precedence + 1));
    }
    return lhs;
  }

private:
  llvm::ArrayRef<Tree> operands_;
  llvm::ArrayRef<antlr4::Token *> operators_;
  Join join_;
  size_t next_ = 0;
};

} // namespace

AstBuilder::Tree AstBuilder::errorExpr(SourceRange range) {
  return {arena_.make<ast::ErrorExpr>(range), 1};
}

// Keeps trees shallow enough for the recursions of all later phases.
AstBuilder::Tree AstBuilder::checkHeight(Tree tree) {
  const unsigned limit = 4 * limits_.maxDepth;
  if (tree.height <= limit)
    return tree;
  // Once a declaration: what is cut off grows again.
  if (!saidTooDeep_)
    diagnostics_.report(tree.expr->range, diag::nesting_too_deep, limit);
  saidTooDeep_ = true;
  return errorExpr(tree.expr->range);
}

AstBuilder::Tree AstBuilder::expression(P::ExpressionContext *context) {
  if (failed(context) || context->operands.size() != context->operators.size() + 1)
    return errorExpr(range(context));
  Tree tree;
  if (context->operators.empty()) {
    tree = operand(context->operands.front());
  } else {
    llvm::SmallVector<Tree, 8> operands;
    for (P::OperandContext *one : context->operands)
      operands.push_back(operand(one));
    auto join = [this](Tree lhs, BinaryOp op, const antlr4::Token *token, Tree rhs) {
      auto *binary = arena_.make<ast::BinaryExpr>({lhs.written().begin, rhs.written().end});
      binary->op = op;
      binary->opRange = range(sourceToken(token));
      binary->lhs = lhs.expr;
      binary->rhs = rhs.expr;
      return checkHeight({binary, std::max(lhs.height, rhs.height) + 1});
    };
    tree = Climber<Tree, decltype(join)>(operands, context->operators, join).climb(0);
  }
  if (context->whenTrue == nullptr)
    return tree;
  const Tree whenTrue = expression(context->whenTrue);
  const Tree whenFalse = expression(context->whenFalse);
  auto *conditional = arena_.make<ast::ConditionalExpr>(range(context));
  conditional->condition = tree.expr;
  conditional->whenTrue = whenTrue.expr;
  conditional->whenFalse = whenFalse.expr;
  return checkHeight({conditional, std::max({tree.height, whenTrue.height, whenFalse.height}) + 1});
}

ast::Expr *AstBuilder::makeRange(SourceRange range, ast::Expr *lo, ast::Expr *hi) {
  auto *result = arena_.make<ast::RangeExpr>(range);
  result->lo = lo;
  result->hi = hi;
  return result;
}

AstBuilder::Tree AstBuilder::rangeExpression(P::RangeExpressionContext *context) {
  if (failed(context))
    return errorExpr(range(context));
  const bool isRange =
      context->lo == nullptr || context->hi != nullptr || context->stop->getType() == P::DOT_DOT;
  if (!isRange)
    return expression(context->lo);
  const Tree lo = context->lo == nullptr ? Tree() : expression(context->lo);
  const Tree hi = context->hi == nullptr ? Tree() : expression(context->hi);
  return checkHeight(
      {makeRange(range(context), lo.expr, hi.expr), std::max(lo.height, hi.height) + 1});
}

AstBuilder::Tree AstBuilder::operand(P::OperandContext *context) {
  if (failed(context))
    return errorExpr(range(context));
  Tree tree = postfix(context->value);
  for (P::PostfixContext *token : context->tokens) {
    const Tree after = postfix(token);
    auto *node = arena_.make<ast::AfterExpr>({tree.written().begin, after.written().end});
    node->value = tree.expr;
    node->token = after.expr;
    tree = checkHeight({node, std::max(tree.height, after.height) + 1});
  }
  for (size_t i = context->prefixes.size(); i-- > 0;) {
    const SourceToken &prefix = sourceToken(context->prefixes[i]);
    auto *node = arena_.make<ast::UnaryExpr>({range(prefix).begin, tree.written().end});
    node->op = prefix.type == P::MINUS ? ast::UnaryOp::Neg
               : prefix.type == P::NOT ? ast::UnaryOp::Not
                                       : ast::UnaryOp::BitNot;
    node->operand = tree.expr;
    tree = checkHeight({node, tree.height + 1});
  }
  return tree;
}

AstBuilder::Tree AstBuilder::postfix(P::PostfixContext *context) {
  if (failed(context))
    return errorExpr(range(context));
  Tree tree;
  if (context->atom != nullptr) {
    tree = atom(sourceToken(context->atom));
  } else if (context->items.size() == 1) {
    tree = rangeExpression(context->items.front());
    tree.inParentheses = range(context);
  } else {
    if (!context->items.empty())
      diagnostics_.report(range(context), diag::misplaced_list);
    tree = errorExpr(range(context));
  }
  for (P::SuffixContext *suffix : context->suffixes)
    tree = checkHeight(suffixed(tree, suffix));
  return tree;
}

// ---- Literals and names ----

AstBuilder::Tree AstBuilder::atom(const SourceToken &token) {
  const SourceRange place = range(token);
  switch (token.type) {
  case P::INTEGER:
    return integer(place, text(token));
  case P::FLOAT:
    return floating(place, text(token));
  case P::STRING: {
    auto *node = arena_.make<ast::StringLit>(place);
    node->value = unescape(token);
    return {node, 1};
  }
  case P::TRUE:
  case P::FALSE: {
    auto *node = arena_.make<ast::BoolLit>(place);
    node->value = token.type == P::TRUE;
    return {node, 1};
  }
  default: {
    auto *node = arena_.make<ast::NameExpr>(place);
    node->name = text(token);
    return {node, 1};
  }
  }
}

AstBuilder::Tree AstBuilder::integer(SourceRange place, llvm::StringRef written) {
  std::string digits = written.str();
  std::erase(digits, '_');
  llvm::StringRef rest = digits;
  unsigned radix = 10;
  if (rest.consume_front_insensitive("0x"))
    radix = 16;
  else if (rest.consume_front_insensitive("0b"))
    radix = 2;
  auto *node = arena_.make<ast::IntLit>(place);
  if (!rest.getAsInteger(radix, node->value))
    return {node, 1};
  // A malformed number was reported by the lexer.
  llvm::APInt large;
  if (!rest.getAsInteger(radix, large))
    diagnostics_.report(place, diag::number_out_of_range, written, "64 bits");
  return errorExpr(place);
}

AstBuilder::Tree AstBuilder::floating(SourceRange place, llvm::StringRef written) {
  std::string digits = written.str();
  std::erase(digits, '_');
  llvm::APFloat value(0.0);
  auto status = value.convertFromString(digits, llvm::APFloat::rmNearestTiesToEven);
  if (!status) {
    llvm::consumeError(status.takeError());
    return errorExpr(place);
  }
  if (*status & llvm::APFloat::opOverflow)
    diagnostics_.report(place, diag::number_out_of_range, written, "f64");
  auto *node = arena_.make<ast::FloatLit>(place);
  node->value = value.convertToDouble();
  return {node, 1};
}

llvm::StringRef AstBuilder::unescape(const SourceToken &token) {
  llvm::StringRef rest = text(token);
  rest.consume_front("\"");
  rest.consume_back("\"");
  if (!rest.contains('\\'))
    return rest;
  std::string value;
  for (size_t i = 0; i < rest.size(); ++i) {
    if (rest[i] != '\\' || i + 1 == rest.size()) {
      value += rest[i];
      continue;
    }
    switch (rest[++i]) {
    case 'n':
      value += '\n';
      break;
    case 't':
      value += '\t';
      break;
    case 'r':
      value += '\r';
      break;
    case '0':
      value += '\0';
      break;
    case '\\':
      value += '\\';
      break;
    case '"':
      value += '"';
      break;
    default: {
      const auto at = uint32_t(rest.data() - text_.data() + i - 1);
      diagnostics_.report(range(at, at + 2), diag::invalid_escape, rest.substr(i - 1, 2));
      break;
    }
    }
  }
  return arena_.copy(llvm::StringRef(value));
}

// ---- Suffixes ----

AstBuilder::Tree AstBuilder::suffixed(Tree base, P::SuffixContext *context) {
  const SourceLoc begin = base.written().begin;
  const SourceRange whole{begin, range(context).end};
  if (failed(context))
    return errorExpr(whole);
  // The first token of a suffix tells the alternative, and so the class of its context.
  switch (context->start->getType()) {
  case P::LEFT_PAREN:
    return call(base, static_cast<P::CallContext *>(context));
  case P::LEFT_BRACKET:
    return subscript(base, static_cast<P::SubscriptContext *>(context));
  case P::GENERIC_OPEN:
    return generic(base, static_cast<P::GenericContext *>(context));
  case P::AT:
    return remote(base, static_cast<P::RemoteContext *>(context));
  case P::DOT: {
    auto *node = arena_.make<ast::MemberExpr>(whole);
    node->base = base.expr;
    node->member = ident(static_cast<P::MemberContext *>(context)->member);
    return {node, base.height + 1};
  }
  default:
    DTILE_UNREACHABLE("not a suffix");
  }
}

// `label: value` and `label = value`; the label parsed as an expression.
ast::Arg AstBuilder::labelled(ast::Expr *label, ast::Expr *value) {
  if (const auto *name = llvm::dyn_cast<ast::NameExpr>(label))
    return {{name->name, name->range}, value};
  if (!llvm::isa<ast::ErrorExpr>(label)) {
    const auto begin = label->range.begin.offset - start_;
    const auto end = label->range.end.offset - start_;
    diagnostics_.report(label->range, diag::unexpected_token, "a label",
                        ("`" + text_.slice(begin, end) + "`").str());
  }
  return {{}, value};
}

llvm::SmallVector<ast::Arg, 8>
AstBuilder::buildArguments(llvm::ArrayRef<P::ArgumentContext *> arguments, unsigned &height) {
  llvm::SmallVector<ast::Arg, 8> args;
  for (P::ArgumentContext *one : arguments) {
    if (failed(one)) {
      args.push_back({{}, errorExpr(range(one)).expr});
      continue;
    }
    const Tree value = rangeExpression(one->labelled != nullptr ? one->labelled : one->value);
    height = std::max(height, value.height);
    if (one->labelled == nullptr)
      args.push_back({{}, value.expr});
    else if (one->label != nullptr)
      args.push_back({ident(one->label), value.expr});
    else
      args.push_back(labelled(rangeExpression(one->value).expr, value.expr));
    if (one->wrong != nullptr) {
      const habits::FormInfo &row = habits::info(habits::Form::Label);
      const SourceRange sign = range(sourceToken(one->wrong));
      const uint32_t end = sourceToken(one->value->stop).end;
      diagnostics_.report(sign, diag::foreign_form, row.shown, row.advice)
          .fix(range(end, sourceToken(one->labelled->start).begin), ": ");
    }
  }
  return args;
}

AstBuilder::Tree AstBuilder::call(Tree base, P::CallContext *context) {
  unsigned height = base.height;
  const llvm::SmallVector<ast::Arg, 8> args = buildArguments(context->arguments, height);
  if (const auto *remote = llvm::dyn_cast<ast::RemoteExpr>(base.expr)) {
    // `x@rank()` takes `x@rank` for what is called, and nothing remote can be.
    const SourceRange written{remote->rank->range.begin, range(context).end};
    const uint32_t begin = written.begin.offset - start_;
    const uint32_t end = written.end.offset - start_;
    const std::string meant = ("(" + text_.slice(begin, end) + ")").str();
    diagnostics_
        .report(range(sourceToken(context->start)), diag::unexpected_token,
                "a rank in parentheses or a slice", "`(`")
        .note(range(sourceToken(context->start)), diag::note_did_you_mean, "@" + meant)
        .fix(written, meant);
    return errorExpr({base.written().begin, written.end});
  }
  auto *node = arena_.make<ast::CallExpr>({base.written().begin, range(context).end});
  node->callee = base.expr;
  node->args = keep(args);
  return {node, height + 1};
}

AstBuilder::Tree AstBuilder::generic(Tree base, P::GenericContext *context) {
  llvm::SmallVector<ast::Arg, 8> args;
  unsigned height = base.height;
  for (P::GenericArgumentContext *one : context->arguments) {
    if (failed(one)) {
      args.push_back({{}, errorExpr(range(one)).expr});
      continue;
    }
    const Tree value = expression(one->value);
    height = std::max(height, value.height);
    if (one->named == nullptr) {
      args.push_back({{}, value.expr});
      continue;
    }
    const Tree named = expression(one->named);
    height = std::max(height, named.height);
    args.push_back(labelled(value.expr, named.expr));
  }
  auto *node = arena_.make<ast::GenericExpr>({base.written().begin, range(context).end});
  node->base = base.expr;
  node->args = keep(args);
  return {node, height + 1};
}

// `lo..hi by step`
ast::Expr *AstBuilder::stepped(ast::Expr *whole, P::IndexContext *context, unsigned &height) {
  const Tree step = expression(context->step);
  height = std::max(height, step.height);
  auto *cut = llvm::dyn_cast<ast::RangeExpr>(whole);
  if (cut == nullptr) {
    const SourceRange place = range(sourceToken(context->step->start));
    diagnostics_.report(place, diag::unexpected_token, "`,` or `]`", "a step without a range");
    return errorExpr(whole->range).expr;
  }
  auto *node = arena_.make<ast::StepExpr>({whole->range.begin, step.written().end});
  node->whole = cut;
  node->step = step.expr;
  return node;
}

AstBuilder::Tree AstBuilder::subscript(Tree base, P::SubscriptContext *context) {
  llvm::SmallVector<ast::Expr *, 8> indices;
  unsigned height = base.height;
  for (P::IndexContext *one : context->indices) {
    const bool isWhole = !failed(one) && one->whole != nullptr;
    const Tree index = isWhole       ? Tree{makeRange(range(one), nullptr, nullptr), 1}
                       : failed(one) ? errorExpr(range(one))
                                     : rangeExpression(one->value);
    height = std::max(height, index.height);
    indices.push_back(failed(one) || one->step == nullptr ? index.expr
                                                          : stepped(index.expr, one, height));
  }
  auto *node = arena_.make<ast::IndexExpr>({base.written().begin, range(context).end});
  node->base = base.expr;
  node->indices = keep(indices);
  return {node, height + 1};
}

AstBuilder::Tree AstBuilder::remote(Tree base, P::RemoteContext *context) {
  Tree rank;
  if (context->number != nullptr) {
    rank = atom(sourceToken(context->number));
  } else if (context->rank != nullptr) {
    const ast::Ident name = ident(context->rank);
    auto *node = arena_.make<ast::NameExpr>(name.range);
    node->name = name.name;
    rank = {node, 1};
  } else {
    const llvm::SmallVector<ast::Arg, 8> args = buildArguments(context->arguments, rank.height);
    if (args.size() == 1 && args[0].label.name.empty()) {
      rank.expr = args[0].value;
    } else {
      // Coordinates.
      const SourceRange written{range(context->arguments.front()).begin, range(context).end};
      auto *callee = arena_.make<ast::NameExpr>(written);
      callee->name = "rank";
      auto *coordinates = arena_.make<ast::CallExpr>(written);
      coordinates->callee = callee;
      coordinates->args = keep(args);
      rank = {coordinates, rank.height + 1};
    }
  }
  auto *node = arena_.make<ast::RemoteExpr>({base.written().begin, range(context).end});
  node->base = base.expr;
  node->rank = rank.expr;
  return {node, std::max(base.height, rank.height) + 1};
}

llvm::ArrayRef<ast::Expr *>
AstBuilder::buildExpressions(llvm::ArrayRef<P::ExpressionContext *> contexts) {
  llvm::SmallVector<ast::Expr *, 8> result;
  for (P::ExpressionContext *one : contexts)
    result.push_back(buildExpression(one));
  return keep(result);
}

} // namespace dtile::parse
