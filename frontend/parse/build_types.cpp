// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What surrounds bodies: types, parameters, tile spaces; and names and places.
#include "frontend/parse/ast_builder.h"

#include <algorithm>

namespace dtile::parse {

// ---- Names and places ----

SourceRange AstBuilder::range(const antlr4::ParserRuleContext *context) const {
  if (context == nullptr || context->start == nullptr)
    return {};
  const uint32_t begin = sourceToken(context->start).begin;
  // A rule that matched nothing ends before it starts.
  const uint32_t end =
      context->stop == nullptr ? begin : std::max(begin, sourceToken(context->stop).end);
  return range(begin, end);
}

ast::Ident AstBuilder::ident(const antlr4::Token *token) const {
  if (token == nullptr)
    return {};
  return {text(sourceToken(token)), range(sourceToken(token))};
}

ast::Ident AstBuilder::ident(P::NameContext *context) const {
  return failed(context) ? ast::Ident{{}, range(context)} : ident(context->start);
}

llvm::ArrayRef<ast::Ident> AstBuilder::idents(llvm::ArrayRef<P::NameContext *> contexts) {
  llvm::SmallVector<ast::Ident, 4> names;
  for (P::NameContext *one : contexts)
    names.push_back(ident(one));
  return keep(names);
}

// ---- Types and parameters ----

ast::TypeRef *AstBuilder::buildType(P::TypeContext *context) {
  auto *type = arena_.makePlain<ast::TypeRef>();
  type->range = range(context);
  if (failed(context))
    return type;
  type->name = ident(context->id);
  type->hasShape = context->open != nullptr;
  type->shape = buildExpressions(context->sizes);
  return type;
}

llvm::ArrayRef<ast::GenericParam> AstBuilder::buildGenerics(P::GenericParametersContext *context) {
  if (context == nullptr)
    return {};
  llvm::SmallVector<ast::GenericParam, 8> params;
  for (P::GenericParameterContext *one : context->items) {
    ast::GenericParam param;
    param.range = range(one);
    param.name = ident(one->id);
    param.type = buildAnnotation(one->annotation);
    param.defaultValue = buildOptional(one->defaultValue);
    params.push_back(param);
  }
  return keep(params);
}

ast::ParamMode AstBuilder::buildMode(P::ParameterModeContext *context) {
  if (context == nullptr)
    return ast::ParamMode::Value;
  switch (context->start->getType()) {
  case P::IN:
    return ast::ParamMode::In;
  case P::OUT:
    return ast::ParamMode::Out;
  case P::INOUT:
    return ast::ParamMode::InOut;
  case P::SYMM:
    return ast::ParamMode::Symm;
  case P::SCRATCH:
    return ast::ParamMode::ScratchSymm;
  default:
    return ast::ParamMode::Value;
  }
}

llvm::ArrayRef<ast::Param> AstBuilder::buildParameters(P::ParameterListContext *context) {
  if (context == nullptr)
    return {};
  llvm::SmallVector<ast::Param, 8> params;
  for (P::ParameterContext *one : context->items) {
    ast::Param param;
    param.range = range(one);
    param.name = ident(one->id);
    param.mode = buildMode(one->passing);
    param.type = buildType(one->annotation);
    param.init = buildOptional(one->init);
    params.push_back(param);
  }
  return keep(params);
}

// ---- Tile spaces ----

ast::IterDim AstBuilder::buildIteration(P::IterationContext *context) {
  ast::IterDim dim;
  if (context == nullptr) {
    dim.domain = errorExpr({}).expr;
    return dim;
  }
  dim.name = ident(context->id);
  dim.domain = buildExpression(context->lo);
  if (context->hi != nullptr) {
    ast::Expr *hi = buildExpression(context->hi);
    dim.domain = makeRange({dim.domain->range.begin, hi->range.end}, dim.domain, hi);
  }
  dim.step = buildOptional(context->step);
  return dim;
}

ast::OverClause *AstBuilder::buildOver(P::OverClauseContext *context) {
  if (context == nullptr)
    return nullptr;
  auto *over = arena_.makePlain<ast::OverClause>();
  over->range = range(context);
  llvm::SmallVector<ast::IterDim, 4> dims;
  for (P::IterationContext *one : context->dims)
    dims.push_back(buildIteration(one));
  over->dims = keep(dims);
  for (P::OverOptionContext *option : context->options) {
    const SourceToken &word = sourceToken(option->start);
    const bool isOrdered = word.type == P::ORDERED;
    const bool isEngine = word.type == P::COPY_ENGINE;
    if (isOrdered ? over->ordered : isEngine ? over->copyEngine : over->programs != nullptr)
      diagnostics_.report(range(word), diag::repeated_clause, text(word));
    if (isOrdered) {
      over->ordered = true;
    } else if (isEngine) {
      over->copyEngine = true;
      over->copyEngineIf = buildOptional(option->copyEngine);
    } else {
      over->programs = buildExpression(option->programs);
    }
  }
  return over;
}

} // namespace dtile::parse
