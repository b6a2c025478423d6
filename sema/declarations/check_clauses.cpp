// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What stands at the head of a kernel: `requires` and `assume`. A clause is about what a launch is
// given: sizes, W and scalars, or the elements of inputs. Of elements only a few forms can be said,
// which all who use clauses understand: tests, prologues, the prover, and who makes up data.
#include "frontend/ast/ast_visitor.h"
#include "frontend/ast/mesh.h"
#include "frontend/ast/source_printer.h"
#include "sema/checker.h"
#include "sema/tree/walk.h"

#include "llvm/ADT/StringSwitch.h"

namespace dtile::sema {

namespace {

using Kind = Clause::Kind;

/// Whether an axis is meant that the text does not name: it is that of a plan, which goes along it.
bool isAlongAxis(const ast::Expr *e, const SourceManager &sources) {
  struct Finder : ast::Walker<Finder> {
    using Walker::visit;
    explicit Finder(const SourceManager &sources) : sources(sources) {}
    bool visit(const ast::CallExpr &call) {
      const ast::NameExpr *axis = ast::axisNamedBy(&call);
      found |= axis && !sources.text(call.range).contains(axis->name);
      return true;
    }
    const SourceManager &sources;
    bool found = false;
  } finder(sources);
  finder.walk(e);
  return finder.found;
}

/// The comparison with its sides exchanged.
ast::BinaryOp flipped(ast::BinaryOp op) {
  switch (op) {
  case ast::BinaryOp::Lt:
    return ast::BinaryOp::Gt;
  case ast::BinaryOp::Le:
    return ast::BinaryOp::Ge;
  case ast::BinaryOp::Gt:
    return ast::BinaryOp::Lt;
  case ast::BinaryOp::Ge:
    return ast::BinaryOp::Le;
  default:
    return op;
  }
}

/// The word that IR has for a comparison.
llvm::StringRef predicateName(ast::BinaryOp op) {
  switch (op) {
  case ast::BinaryOp::Eq:
    return "eq";
  case ast::BinaryOp::Ne:
    return "ne";
  case ast::BinaryOp::Lt:
    return "lt";
  case ast::BinaryOp::Le:
    return "le";
  case ast::BinaryOp::Gt:
    return "gt";
  case ast::BinaryOp::Ge:
    return "ge";
  default:
    return "";
  }
}

bool compares(ast::BinaryOp op) { return op >= ast::BinaryOp::Eq && op <= ast::BinaryOp::Ge; }

/// `name(x, …)` with so many arguments, without labels; null for all else.
const ast::CallExpr *callOf(const ast::Expr *e, llvm::StringRef name, size_t args) {
  const auto *call = llvm::dyn_cast_or_null<ast::CallExpr>(e);
  const auto *callee = call ? llvm::dyn_cast<ast::NameExpr>(call->callee) : nullptr;
  const bool isIt = callee && callee->name == name && call->args.size() == args;
  return isIt && llvm::all_of(call->args, [](const auto &arg) { return arg.label.name.empty(); })
             ? call
             : nullptr;
}

/// `name(x)` with one argument: the argument; null for all else.
const ast::Expr *argumentOf(const ast::Expr *e, llvm::StringRef name) {
  const ast::CallExpr *call = callOf(e, name, 1);
  return call ? call->args[0].value : nullptr;
}

/// The parts of `a && b && c`.
void conjuncts(const ast::Expr *e, llvm::SmallVectorImpl<const ast::Expr *> &parts) {
  const auto *both = llvm::dyn_cast_or_null<ast::BinaryExpr>(e);
  if (!both || both->op != ast::BinaryOp::LogAnd) {
    parts.push_back(e);
    return;
  }
  conjuncts(both->lhs, parts);
  conjuncts(both->rhs, parts);
}

} // namespace

void Checker::kernelClauses(const ast::KernelDecl *decl) {
  for (const ast::Stmt *s : decl->clauses) {
    Clause clause;
    if (const auto *assumption = llvm::dyn_cast<ast::AssumeStmt>(s)) {
      clause.because = assumption->because.str();
      clause.isAssumed = true;
      clauseCondition(assumption->condition, clause);
      continue;
    }
    if (llvm::isa<ast::MeshStmt>(s)) {
      meshClauses();
      continue;
    }
    for (const ast::Expr *condition : llvm::cast<ast::RequiresStmt>(s)->conditions)
      clauseCondition(condition, clause);
  }
}

/// One condition: each part of it is a clause of its own.
void Checker::clauseCondition(const ast::Expr *condition, const Clause &model) {
  llvm::SmallVector<const ast::Expr *, 4> parts;
  conjuncts(condition, parts);
  for (const ast::Expr *part : parts) {
    Clause clause = model;
    clause.range = part->range;
    clause.text = isAlongAxis(part, ctx.sources) ? ast::textOf(part) : clauseText(part->range);
    if (const ast::Expr *compared = argumentOf(part, "all")) {
      // Each comparison is one about all elements.
      llvm::SmallVector<const ast::Expr *, 4> comparisons;
      conjuncts(compared, comparisons);
      clause.kind = Kind::Bound;
      for (const ast::Expr *comparison : comparisons)
        elementComparison(comparison, clause);
      continue;
    }
    if (const ast::Expr *size = argumentOf(part, "replicated"); size && isSize(size)) {
      clause.isReplicated = true;
      clause.condition = position(size);
      kernel->clauses.push_back(clause);
      continue;
    }
    for (const Kind kind : {Kind::Sorted, Kind::Distinct, Kind::Replicated}) {
      const ast::Expr *tensor = argumentOf(part, clauseKindName(kind));
      if (!tensor)
        continue;
      clause.kind = kind;
      if (clauseTensor(tensor, clause))
        kernel->clauses.push_back(clause);
      break;
    }
    if (const auto *call = callOf(part, clauseKindName(Kind::EachOnce), 3)) {
      numbersOfAllRanks(*call, std::move(clause));
      continue;
    }
    if (clause.kind != Kind::Launch)
      continue;
    if (isAboutElements(part)) {
      elementComparison(part, clause);
      continue;
    }
    clause.condition = this->condition(part);
    if (clause.condition->type->kind == TypeKind::Error)
      continue;
    refuseMemory(clause.condition, diag::clause_form);
    kernel->clauses.push_back(clause);
  }
}

std::string Checker::clauseText(SourceRange range) const {
  // On one line, however it was written.
  std::string text;
  for (const char c : ctx.sources.text(range)) {
    const bool isSpace = c == ' ' || c == '\n' || c == '\t' || c == '\r';
    if (!isSpace)
      text += c;
    else if (!text.empty() && text.back() != ' ')
      text += ' ';
  }
  return text;
}

/// The tensor parameter that an expression names; null where it names none.
const Symbol *Checker::tensorNamed(const ast::Expr *e) {
  const auto *name = llvm::dyn_cast_or_null<ast::NameExpr>(e);
  const Symbol *symbol = name ? lookup(name->name) : nullptr;
  const bool isTensor = symbol && symbol->kind == Symbol::Kind::Param &&
                        kernel->params[symbol->index].type->kind == TypeKind::Region;
  return isTensor ? symbol : nullptr;
}

/// Whether an expression is the name of a size.
bool Checker::isSize(const ast::Expr *e) {
  const auto *name = llvm::dyn_cast<ast::NameExpr>(e);
  const Symbol *symbol = name ? lookup(name->name) : nullptr;
  return symbol && symbol->kind == Symbol::Kind::Size;
}

/// `x`, `sum(x)` or `x[i]` on one side of a comparison.
bool Checker::isAboutElements(const ast::Expr *e) {
  const auto *comparison = llvm::dyn_cast_or_null<ast::BinaryExpr>(e);
  if (!comparison || !compares(comparison->op))
    return false;
  const auto isElements = [&](const ast::Expr *side) {
    if (const ast::Expr *added = argumentOf(side, "sum"))
      return tensorNamed(added) != nullptr;
    const auto *index = llvm::dyn_cast<ast::IndexExpr>(side);
    return tensorNamed(index ? index->base : side) != nullptr;
  };
  return isElements(comparison->lhs) || isElements(comparison->rhs);
}

/// Compares `x` (in `all`), `sum(x)` or `x[i]` with what callers know.
void Checker::elementComparison(const ast::Expr *e, Clause clause) {
  const auto *comparison = llvm::dyn_cast_or_null<ast::BinaryExpr>(e);
  if (!comparison || !compares(comparison->op)) {
    report(e->range, diag::clause_form);
    return;
  }
  const ast::Expr *elements = comparison->lhs, *bound = comparison->rhs;
  ast::BinaryOp op = comparison->op;
  const bool isInAll = clause.kind == Kind::Bound;
  const auto find = [&] {
    if (isInAll)
      return tensorNamed(elements);
    if (const ast::Expr *added = argumentOf(elements, "sum")) {
      clause.kind = Kind::Sum;
      return tensorNamed(added);
    }
    const auto *index = llvm::dyn_cast<ast::IndexExpr>(elements);
    clause.kind = Kind::Element;
    return index ? tensorNamed(index->base) : nullptr;
  };
  const Symbol *tensor = find();
  if (!tensor) {
    std::swap(elements, bound);
    op = flipped(op);
    tensor = find();
  }
  if (!tensor && isInAll)
    return elementsBetween(*comparison, std::move(clause));
  if (!tensor) {
    report(e->range, diag::clause_form);
    return;
  }
  clause.param = tensor->index;
  if (!checkClauseTensor(elements->range, clause))
    return;
  if (isInAll)
    clause.text = "all(" + clauseText(e->range) + ")";
  clause.predicate = predicateName(op).str();
  bool isGood = true;
  const auto known = [&](const ast::Expr *number) {
    TExpr *checked = position(number);
    isGood &= checked->type->kind != TypeKind::Error;
    if (isGood)
      refuseMemory(checked, diag::clause_form);
    return checked;
  };
  if (const auto *index = llvm::dyn_cast<ast::IndexExpr>(elements)) {
    const size_t dims = kernel->params[clause.param].sizes.size();
    if (index->indices.size() != dims) {
      report(index->range, diag::wrong_index_count, dims, index->indices.size());
      return;
    }
    for (const ast::Expr *i : index->indices)
      clause.position.push_back(known(i));
  }
  clause.bound = known(bound);
  if (isGood)
    kernel->clauses.push_back(std::move(clause));
}

/// `x[i, p] < y@p[i, rank()]` in `all`: each element of an input, at positions that the clause
/// names, is compared with one of another input, on this rank or on one that a position numbers.
void Checker::elementsBetween(const ast::BinaryExpr &comparison, Clause clause) {
  clause.kind = Kind::Between;
  clause.text = "all(" + clauseText(comparison.range) + ")";
  clause.predicate = predicateName(comparison.op).str();
  const auto *elements = llvm::dyn_cast<ast::IndexExpr>(comparison.lhs);
  const auto *others = llvm::dyn_cast<ast::IndexExpr>(comparison.rhs);
  const Symbol *tensor = elements ? tensorNamed(elements->base) : nullptr;
  const auto *remote = others ? llvm::dyn_cast<ast::RemoteExpr>(others->base) : nullptr;
  const Symbol *other = others ? tensorNamed(remote ? remote->base : others->base) : nullptr;
  if (!tensor || !other) {
    report(comparison.range, diag::clause_form);
    return;
  }
  Clause about = clause;
  clause.param = about.param = tensor->index;
  if (!checkClauseTensor(elements->range, about))
    return;
  clause.other = about.param = other->index;
  if (!checkClauseTensor(others->range, about))
    return;
  for (const auto &[indexed, param] :
       {std::pair(elements, clause.param), std::pair(others, clause.other)})
    if (const size_t dims = kernel->params[param].sizes.size(); indexed->indices.size() != dims) {
      report(indexed->range, diag::wrong_index_count, dims, indexed->indices.size());
      return;
    }
  // Positions have new names, each its own.
  llvm::SmallVector<llvm::StringRef, 4> names;
  for (const ast::Expr *index : elements->indices) {
    const auto *name = llvm::dyn_cast<ast::NameExpr>(index);
    if (!name || lookup(name->name) || llvm::is_contained(names, name->name)) {
      report(index->range, diag::clause_form);
      return;
    }
    names.push_back(name->name);
  }
  const auto dimensionOf = [&](const ast::Expr *index) -> std::optional<int64_t> {
    const auto *name = llvm::dyn_cast<ast::NameExpr>(index);
    const auto *found = name ? llvm::find(names, name->name) : names.end();
    if (found == names.end())
      return std::nullopt;
    return found - names.begin();
  };
  const auto isRank = [](const ast::Expr *index) {
    const auto *call = llvm::dyn_cast<ast::CallExpr>(index);
    const auto *callee = call ? llvm::dyn_cast<ast::NameExpr>(call->callee) : nullptr;
    return callee && callee->name == "rank" && call->args.empty();
  };
  for (const ast::Expr *index : others->indices) {
    const auto dim = isRank(index) ? -1 : dimensionOf(index);
    if (!dim) {
      report(index->range, diag::clause_form);
      return;
    }
    clause.at.push_back(*dim);
  }
  if (remote) {
    const auto dim = dimensionOf(remote->rank);
    if (!dim) {
      report(remote->rank->range, diag::clause_form);
      return;
    }
    clause.peer = *dim;
  }
  kernel->clauses.push_back(std::move(clause));
}

/// `each_once(x, count, n)`: of each list x[i, …, 0..count[i, …]] the numbers of all ranks, taken
/// together, are those below n.
void Checker::numbersOfAllRanks(const ast::CallExpr &call, Clause clause) {
  clause.kind = Kind::EachOnce;
  Clause about = clause;
  if (!clauseTensor(call.args[1].value, about))
    return;
  clause.other = about.param;
  if (!clauseTensor(call.args[0].value, clause))
    return;
  const auto dimsOf = [&](unsigned param) { return kernel->params[param].sizes.size(); };
  if (dimsOf(clause.param) == 0 || dimsOf(clause.other) + 1 != dimsOf(clause.param)) {
    report(call.args[1].value->range, diag::clause_form);
    return;
  }
  clause.bound = position(call.args[2].value);
  if (clause.bound->type->kind == TypeKind::Error)
    return;
  refuseMemory(clause.bound, diag::clause_form);
  kernel->clauses.push_back(std::move(clause));
}

bool Checker::clauseTensor(const ast::Expr *e, Clause &clause) {
  const Symbol *tensor = tensorNamed(e);
  if (!tensor) {
    report(e->range, diag::clause_form);
    return false;
  }
  clause.param = tensor->index;
  return checkClauseTensor(e->range, clause);
}

/// Only of inputs can something be known: nobody writes them while the kernel runs.
bool Checker::checkClauseTensor(SourceRange range, const Clause &clause) {
  const KernelParam &param = kernel->params[clause.param];
  if (param.mode != ast::ParamMode::In) {
    report(range, diag::clause_needs_input, param.name, ast::spelling(param.mode))
        .note(param.range, diag::note_declared_here, param.name);
    return false;
  }
  const DType dtype = param.type->dtype;
  const bool isNumber = isInteger(dtype) && dtype != DType::U64 && dtype != DType::Bool;
  if (clause.kind != Kind::Replicated && !isNumber) {
    report(range, diag::clause_needs_integers, param.name, dtypeName(dtype))
        .note(param.range, diag::note_declared_here, param.name);
    return false;
  }
  if (clause.kind == Kind::Sorted && param.sizes.size() != 1) {
    report(range, diag::clause_needs_list, param.name, param.sizes.size())
        .note(param.range, diag::note_declared_here, param.name);
    return false;
  }
  return true;
}

void Checker::assumeStmt(const ast::AssumeStmt *s) {
  TExpr *holds = condition(s->condition);
  if (holds->type->kind == TypeKind::Error)
    return;
  if (TStmt *assumption = emit(TStmtKind::Assume, s->range)) {
    assumption->condition = holds;
    assumption->message = clauseText(s->condition->range);
    assumption->because = s->because.str();
  }
}

llvm::StringRef clauseKindName(Clause::Kind kind) {
  switch (kind) {
  case Kind::Launch:
    return "launch";
  case Kind::Bound:
  case Kind::Between:
    return "all";
  case Kind::EachOnce:
    return "each_once";
  case Kind::Sorted:
    return "sorted";
  case Kind::Distinct:
    return "distinct";
  case Kind::Replicated:
    return "replicated";
  case Kind::Sum:
    return "sum";
  case Kind::Element:
    return "element";
  }
  return "";
}

} // namespace dtile::sema
