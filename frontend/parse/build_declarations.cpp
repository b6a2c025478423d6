// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Declarations to syntax tree, with the comments that document them.
#include "frontend/parse/ast_builder.h"

#include "frontend/ast/ast_visitor.h"
#include "frontend/ast/mesh.h"
#include "grammar/DtileLexer.h"

#include "llvm/ADT/StringSet.h"

namespace dtile::parse {

namespace {
using P = grammar::DtileParser;
using grammar::DtileLexer;
} // namespace

ast::Decl *AstBuilder::build(P::DeclarationContext *context) {
  saidTooDeep_ = false;
  if (context == nullptr)
    return nullptr;
  if (auto *one = context->imported)
    return buildImport(one);
  if (auto *one = context->constant)
    return buildConst(one);
  if (auto *one = context->function)
    return buildFn(one);
  if (auto *one = context->kernel)
    return buildKernel(one);
  if (auto *one = context->plan)
    return buildPlan(one);
  if (auto *one = context->overlap)
    return buildOverlap(one);
  if (auto *one = context->test)
    return buildTest(one);
  return nullptr;
}

// ---- Comments ----

// Lines of comment without their markers, as one text.
llvm::StringRef AstBuilder::joinDoc(llvm::ArrayRef<llvm::StringRef> lines) {
  std::string doc;
  for (size_t i = 0; i < lines.size(); ++i) {
    llvm::StringRef line = lines[i].drop_front(3);
    line.consume_front(" ");
    doc += i > 0 ? "\n" : "";
    doc += line.rtrim();
  }
  return doc.empty() ? llvm::StringRef() : arena_.copy(llvm::StringRef(doc));
}

llvm::StringRef AstBuilder::docBefore(const antlr4::Token *token) {
  llvm::SmallVector<llvm::StringRef, 8> lines;
  for (size_t i = sourceToken(token).lexedIndex; i-- > 0;) {
    const LexedToken &before = lexed_.all[i];
    if (before.type == DtileLexer::DOC_COMMENT)
      lines.push_back(text_.slice(before.begin, before.end));
    else if (before.type != DtileLexer::LINE_COMMENT && before.type != DtileLexer::BLOCK_COMMENT)
      break;
  }
  std::reverse(lines.begin(), lines.end());
  return joinDoc(lines);
}

llvm::StringRef AstBuilder::moduleDoc() {
  llvm::SmallVector<llvm::StringRef, 8> lines;
  const size_t end = lexed_.visible.front().lexedIndex;
  for (size_t i = 0; i < end; ++i)
    if (lexed_.all[i].type == DtileLexer::MODULE_COMMENT)
      lines.push_back(text_.slice(lexed_.all[i].begin, lexed_.all[i].end));
  return joinDoc(lines);
}

// ---- Declarations ----

ast::Decl *AstBuilder::buildImport(P::ImportDeclarationContext *context) {
  if (context->file == nullptr && context->parts.empty())
    return nullptr;
  auto *node = arena_.make<ast::ImportDecl>(range(context));
  if (context->file != nullptr) {
    const SourceToken &file = sourceToken(context->file);
    node->isString = true;
    node->path = unescape(file);
    node->pathRange = range(file);
    // `"lib/rings.dtile"` is `rings` here.
    const llvm::StringRef base = node->path.rsplit('/').second;
    node->alias = {(base.empty() ? node->path : base).split('.').first, node->pathRange};
  } else {
    std::string path;
    for (P::NameContext *part : context->parts)
      path += (path.empty() ? "" : "/") + ident(part).name.str();
    node->path = arena_.copy(llvm::StringRef(path));
    node->pathRange = {range(context->parts.front()).begin, range(context->parts.back()).end};
    node->alias = ident(context->parts.back());
  }
  if (context->alias != nullptr)
    node->alias = ident(context->alias);
  return node;
}

ast::Decl *AstBuilder::buildConst(P::ConstDeclarationContext *context) {
  auto *node = arena_.make<ast::ConstDecl>(range(context));
  node->doc = docBefore(context->start);
  node->name = ident(context->id);
  node->type = buildAnnotation(context->annotation);
  node->value = buildExpression(context->value);
  return node;
}

ast::Decl *AstBuilder::buildFn(P::FnDeclarationContext *context) {
  auto *node = arena_.make<ast::FnDecl>(range(context));
  node->doc = docBefore(context->start);
  node->name = ident(context->id);
  node->generics = buildGenerics(context->generics);
  node->params = buildParameters(context->parameters);
  llvm::SmallVector<ast::TypeRef *, 4> results;
  if (context->result != nullptr)
    results.push_back(buildType(context->result));
  for (P::TypeContext *one : context->results)
    results.push_back(buildType(one));
  node->results = keep(results);
  node->isExtern = context->external != nullptr;
  llvm::SmallVector<ast::Instructions, 2> instructions;
  for (P::InstructionTextContext *one : context->instructions)
    instructions.push_back(buildInstructions(one));
  node->instructions = keep(instructions);
  if (context->body != nullptr)
    node->body = buildBlock(context->body);
  return node;
}

ast::Instructions AstBuilder::buildInstructions(P::InstructionTextContext *context) {
  ast::Instructions one;
  one.range = range(context);
  one.target = ident(context->target);
  std::string text;
  for (antlr4::Token *line : context->lines)
    text += (text.empty() ? "" : "\n") + unescape(sourceToken(line)).str();
  one.text = arena_.copy(llvm::StringRef(text));
  if (!context->lines.empty())
    one.textRange = {range(sourceToken(context->lines.front())).begin,
                     range(sourceToken(context->lines.back())).end};
  return one;
}

// Whether what is assumed at the head of a kernel is about the launch, not about its bodies.
bool AstBuilder::isOfLaunch(const ast::AssumeStmt &assumption, P::OverClauseContext *over) const {
  struct Names : ast::Walker<Names> {
    using Walker::visit;
    bool visit(const ast::NameExpr &e) {
      found.insert(e.name);
      return true;
    }
    llvm::StringSet<> found;
  } names;
  names.walk(static_cast<const ast::Expr *>(assumption.condition));
  if (names.found.contains("rank") || names.found.contains("epoch"))
    return false;
  return over == nullptr || llvm::none_of(over->dims, [&](P::IterationContext *dim) {
           return dim != nullptr && dim->id != nullptr && names.found.contains(ident(dim->id).name);
         });
}

ast::Decl *AstBuilder::buildKernel(P::KernelDeclarationContext *context) {
  auto *node = arena_.make<ast::KernelDecl>(range(context));
  node->doc = docBefore(context->start);
  node->name = ident(context->id);
  node->generics = buildGenerics(context->generics);
  node->params = buildParameters(context->parameters);
  llvm::SmallVector<ast::Ident, 4> alternatives;
  for (P::NameContext *one : context->alternatives)
    alternatives.push_back(ident(one));
  node->alternatives = keep(alternatives);
  if (context->ASSIGN() != nullptr)
    return node;
  llvm::SmallVector<ast::Stmt *, 16> statements;
  llvm::SmallVector<ast::Role *, 4> roles;
  llvm::SmallVector<ast::ExpectStmt *, 4> ensures;
  llvm::SmallVector<ast::Stmt *, 4> clauses;
  // Statements that may not stand in a kernel with roles, should it turn out to have some.
  llvm::SmallVector<SourceRange, 4> misplaced;
  for (P::KernelItemContext *item : context->items) {
    if (item->roleItem != nullptr) {
      roles.push_back(buildRole(item->roleItem));
    } else if (item->ensuresItem != nullptr) {
      ensures.push_back(buildEnsures(item->ensuresItem));
    } else if (item->requiresItem != nullptr) {
      if (!statements.empty() || !roles.empty())
        diagnostics_.report(range(item->requiresItem), diag::misplaced_clause, "requires");
      clauses.push_back(buildRequires(item->requiresItem));
    } else if (item->meshItem != nullptr) {
      if (!statements.empty() || !roles.empty())
        diagnostics_.report(range(item->meshItem), diag::misplaced_clause, "mesh");
      clauses.push_back(buildMesh(range(item->meshItem), item->meshItem->mesh));
    } else if (ast::Stmt *statement = buildStatement(item->statementItem)) {
      const auto *assumption = llvm::dyn_cast<ast::AssumeStmt>(statement);
      if (assumption && statements.empty() && roles.empty() &&
          isOfLaunch(*assumption, context->over)) {
        clauses.push_back(statement);
        continue;
      }
      if (!roles.empty() || !llvm::isa<ast::LetStmt>(statement))
        misplaced.push_back(statement->range);
      statements.push_back(statement);
    }
  }
  node->ensures = keep(ensures);
  node->clauses = keep(clauses);
  ast::OverClause *over = buildOver(context->over);
  if (!roles.empty()) {
    for (SourceRange place : misplaced) {
      const bool isFirst = place.begin < roles.front()->range.begin;
      const llvm::StringRef text = text_.substr(place.begin.offset - start_);
      diagnostics_.report(place, diag::misplaced_statement)
          .note(place, diag::note_dtile_form,
                isFirst && text.starts_with("assert(")
                    ? "what callers owe stands at the head: `requires N <= M;`"
                : isFirst
                    ? "what acts stands in a role: `role first { … }` runs once a rank"
                    : "roles run side by side; what comes when all bodies of one have ended is its "
                      "`when all`: `role a over (…) { … yield done; } when all (ended) { await "
                      "ended; … }`");
    }
    if (over != nullptr)
      diagnostics_.report(over->range, diag::misplaced_over);
    node->prologue = keep(statements);
    node->roles = keep(roles);
    return node;
  }
  SourceRange place = range(context);
  if (context->open != nullptr)
    place.begin = range(sourceToken(context->open)).begin;
  auto *role = arena_.makePlain<ast::Role>();
  role->range = place;
  role->over = over;
  role->body = arena_.make<ast::BlockStmt>(place);
  role->body->statements = keep(statements);
  roles.push_back(role);
  node->roles = keep(roles);
  return node;
}

ast::ExpectStmt *AstBuilder::buildEnsures(P::EnsuresContext *context) {
  ast::ExpectStmt *one = buildExpectation(context->condition, range(context));
  one->isEnsures = true;
  return one;
}

ast::Stmt *AstBuilder::buildRequires(P::RequiresClauseContext *context) {
  auto *one = arena_.make<ast::RequiresStmt>(range(context));
  one->conditions = buildExpressions(context->conditions);
  return one;
}

ast::Stmt *AstBuilder::buildMesh(SourceRange written, P::MeshAxesContext *context) {
  auto *mesh = arena_.make<ast::MeshStmt>(written);
  llvm::SmallVector<ast::MeshAxis, 3> axes;
  for (P::MeshAxisContext *axis : context->axes)
    axes.push_back({ident(axis->id), buildExpression(axis->extent)});
  mesh->axes = keep(axes);
  return mesh;
}

ast::Decl *AstBuilder::buildPlan(P::PlanDeclarationContext *context) {
  auto *node = arena_.make<ast::PlanDecl>(range(context));
  node->doc = docBefore(context->start);
  node->name = ident(context->id);
  node->generics = buildGenerics(context->generics);
  node->params = buildParameters(context->parameters);
  llvm::SmallVector<ast::Stmt *, 2> clauses;
  llvm::SmallVector<ast::Stmt *, 4> prologue;
  llvm::SmallVector<ast::Role *, 4> roles;
  llvm::SmallVector<ast::ExpectStmt *, 2> ensures;
  for (P::PlanItemContext *item : context->items) {
    if (item->roleItem != nullptr) {
      roles.push_back(buildRole(item->roleItem));
    } else if (item->space != nullptr) {
      auto *role = arena_.makePlain<ast::Role>();
      role->range = range(item->space);
      role->over = buildOver(item->space->over);
      role->body = buildBlock(item->space->body);
      roles.push_back(role);
    } else if (item->ensuresItem != nullptr) {
      ensures.push_back(buildEnsures(item->ensuresItem));
    } else if (item->requiresItem != nullptr) {
      if (!prologue.empty() || !roles.empty())
        diagnostics_.report(range(item->requiresItem), diag::misplaced_clause, "requires");
      clauses.push_back(buildRequires(item->requiresItem));
    } else if (item->meshItem != nullptr) {
      if (!prologue.empty() || !roles.empty())
        diagnostics_.report(range(item->meshItem), diag::misplaced_clause, "mesh");
      clauses.push_back(buildMesh(range(item->meshItem), item->meshItem->mesh));
    } else if (item->letItem != nullptr) {
      if (!roles.empty())
        diagnostics_.report(range(item->letItem), diag::misplaced_statement);
      prologue.push_back(buildLet(item->letItem));
    }
  }
  node->clauses = keep(clauses);
  node->prologue = keep(prologue);
  node->roles = keep(roles);
  node->ensures = keep(ensures);
  llvm::SmallVector<ast::Expr *, 4> alternatives;
  for (P::PostfixContext *one : context->alternatives)
    alternatives.push_back(postfix(one).expr);
  node->alternatives = keep(alternatives);
  return node;
}

ast::OverlapJoin AstBuilder::buildJoin(P::OverlapJoinContext *context) {
  ast::OverlapJoin join;
  join.range = range(context);
  join.tensor = ident(context->tensor);
  join.isProducer = context->produces != nullptr;
  join.plan = postfix(context->plan).expr;
  return join;
}

ast::Decl *AstBuilder::buildOverlap(P::OverlapDeclarationContext *context) {
  auto *node = arena_.make<ast::OverlapDecl>(range(context));
  node->doc = docBefore(context->start);
  node->name = ident(context->id);
  if (context->parameters != nullptr) {
    buildGraph(context, *node);
    return node;
  }
  node->kernel = postfix(context->kernel).expr;
  if (context->mesh != nullptr) {
    const SourceRange written{range(sourceToken(context->word)).begin, range(context->mesh).end};
    node->clauses = arena_.copy(llvm::ArrayRef<ast::Stmt *>(buildMesh(written, context->mesh)));
  }
  llvm::SmallVector<ast::OverlapJoin, 2> joins;
  for (P::OverlapJoinContext *one : context->joins)
    if (one != nullptr)
      joins.push_back(buildJoin(one));
  node->joins = keep(joins);
  return node;
}

void AstBuilder::buildGraph(P::OverlapDeclarationContext *context, ast::OverlapDecl &node) {
  node.generics = buildGenerics(context->generics);
  node.params = buildParameters(context->parameters);
  llvm::SmallVector<ast::Stmt *, 2> clauses;
  llvm::SmallVector<ast::OverlapStep, 4> steps;
  llvm::SmallVector<ast::ExpectStmt *, 2> ensures;
  for (P::OverlapItemContext *item : context->items) {
    if (item->ensuresItem != nullptr) {
      ensures.push_back(buildEnsures(item->ensuresItem));
    } else if (item->requiresItem != nullptr) {
      if (!steps.empty())
        diagnostics_.report(range(item->requiresItem), diag::misplaced_clause, "requires");
      clauses.push_back(buildRequires(item->requiresItem));
    } else if (item->meshItem != nullptr) {
      if (!steps.empty())
        diagnostics_.report(range(item->meshItem), diag::misplaced_clause, "mesh");
      clauses.push_back(buildMesh(range(item->meshItem), item->meshItem->mesh));
    } else if (item->step != nullptr) {
      ast::OverlapStep step;
      step.range = range(item->step);
      step.isLet = item->step->let != nullptr;
      step.names = idents(item->step->names);
      step.value = buildExpression(item->step->value);
      steps.push_back(step);
    }
  }
  node.clauses = keep(clauses);
  node.steps = keep(steps);
  node.ensures = keep(ensures);
}

ast::Role *AstBuilder::buildRole(P::RoleContext *context) {
  auto *role = arena_.makePlain<ast::Role>();
  role->range = range(context);
  role->name = ident(context->id);
  role->over = buildOver(context->over);
  role->body = buildBlock(context->body);
  role->whenAll = context->join == nullptr ? nullptr : buildWhenAll(context->join);
  return role;
}

ast::Role *AstBuilder::buildWhenAll(P::WhenAllContext *context) {
  auto *role = arena_.makePlain<ast::Role>();
  role->range = range(context);
  role->joined = idents(context->names);
  role->over = buildOver(context->over);
  role->body = buildBlock(context->body);
  if (context->names.empty() && !failed(context))
    diagnostics_
        .report(role->over != nullptr ? role->over->range : role->body->range,
                diag::unexpected_token, "`(`", role->over != nullptr ? "keyword `over`" : "`{`")
        .note(range(context), diag::note_dtile_form,
              "`when all (t) over (…) { … }` names what the bodies yield; those that have nothing "
              "to wait for say `yield done;`");
  return role;
}

ast::ExpectStmt *AstBuilder::buildExpectation(P::ExpectationContext *context, SourceRange place) {
  auto *node = arena_.make<ast::ExpectStmt>(place);
  if (failed(context)) {
    node->condition = errorExpr(place).expr;
    return node;
  }
  node->condition = buildExpression(context->lhs);
  if (context->approximately != nullptr) {
    ast::Expr *rhs = buildExpression(context->rhs);
    auto *binary = arena_.make<ast::BinaryExpr>({node->condition->range.begin, rhs->range.end});
    binary->op = ast::BinaryOp::Approx;
    binary->opRange = range(sourceToken(context->approximately));
    binary->lhs = node->condition;
    binary->rhs = rhs;
    node->condition = binary;
  }
  for (P::ToleranceContext *one : context->tolerances) {
    const SourceToken &word = sourceToken(one->start);
    ast::Expr *&slot = word.type == P::RTOL ? node->rtol : node->atol;
    if (slot != nullptr)
      diagnostics_.report(range(word), diag::repeated_clause, text(word));
    slot = buildExpression(one->value);
  }
  return node;
}

llvm::ArrayRef<ast::Expr *>
AstBuilder::buildRankCounts(llvm::ArrayRef<P::RankCountContext *> contexts) {
  llvm::SmallVector<ast::Expr *, 4> counts;
  for (P::RankCountContext *context : contexts) {
    if (context == nullptr)
      continue;
    if (context->number != nullptr) {
      counts.push_back(buildExpression(context->number));
      continue;
    }
    // A mesh is a call of its sizes, as coordinates are one of `rank`.
    auto *callee = arena_.make<ast::NameExpr>(range(context));
    callee->name = ast::kMeshOfTest;
    auto *mesh = arena_.make<ast::CallExpr>(range(context));
    mesh->callee = callee;
    llvm::SmallVector<ast::Arg, 4> axes;
    for (P::ExpressionContext *axis : context->axes) {
      ast::Arg arg;
      arg.value = buildExpression(axis);
      axes.push_back(arg);
    }
    mesh->args = keep(axes);
    counts.push_back(mesh);
  }
  return keep(counts);
}

ast::Decl *AstBuilder::buildTest(P::TestDeclarationContext *context) {
  auto fill = [&](auto *node) {
    if (context->title != nullptr) {
      node->name = unescape(sourceToken(context->title));
      node->nameRange = range(sourceToken(context->title));
    }
    node->ranks = buildRankCounts(context->ranks);
    node->body = buildBlock(context->body);
    return node;
  };
  if (context->kind->getType() == P::BENCH)
    return fill(arena_.make<ast::BenchDecl>(range(context)));
  return fill(arena_.make<ast::TestDecl>(range(context)));
}

} // namespace dtile::parse
