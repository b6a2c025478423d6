// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What is required of a launch, and assumed of it.
#include "ir/from_ast/lowering.h"

#include "sema/tree/walk.h"

#include "llvm/ADT/STLExtras.h"

namespace dtile::ir {

using sema::Clause;
using sema::TExprKind;

/// The values that a condition is about, for messages.
void Lowering::appendMentioned(const TExpr &condition, const sema::KernelInstance &kernel,
                               Values &operands, std::vector<std::string> &names) {
  sema::walkExpression(&condition, [&](const TExpr &e) {
    std::string name;
    Value *value = nullptr;
    if (e.kind == TExprKind::ParamRef && e.type->kind == sema::TypeKind::Scalar) {
      name = kernel.params[e.param].name;
      value = params_[e.param].value;
    } else if (e.kind == TExprKind::SymbolRef) {
      name = kernel.symbols[e.symbol].name;
      value = symbols_[e.symbol];
    } else if (e.kind == TExprKind::Builtin && e.builtin == sema::BuiltinId::NumRanks) {
      name = "W";
      if (!llvm::is_contained(names, name))
        value = builder_.value(OpKind::NumRanks, {}, builder_.types().index());
    }
    if (!value || llvm::is_contained(names, name))
      return;
    names.push_back(std::move(name));
    operands.push_back(value);
  });
}

void Lowering::launchClauses(const sema::KernelInstance &kernel) {
  for (const Clause &clause : kernel.clauses) {
    if (clause.kind != Clause::Kind::Launch)
      continue;
    const At at(builder_, clause.range);
    Values operands = {clause.isReplicated ? builder_.constBool(true) : value(*clause.condition)};
    std::vector<std::string> names;
    appendMentioned(*clause.condition, kernel, operands, names);
    Op *op = builder_.op(OpKind::LaunchRequire, operands);
    op->set(attr::text, clause.text);
    if (!names.empty())
      op->set(attr::names, std::move(names));
    if (clause.isReplicated)
      op->set(attr::replicated, true);
    if (clause.isAssumed)
      op->set(attr::because, clause.because);
  }
}

void Lowering::elementClauses(const sema::KernelInstance &kernel) {
  for (const Clause &clause : kernel.clauses) {
    if (clause.kind == Clause::Kind::Launch)
      continue;
    const At at(builder_, clause.range);
    Values operands = {params_[clause.param].value};
    for (const TExpr *position : clause.position)
      operands.push_back(value(*position));
    const bool isBetween = clause.kind == Clause::Kind::Between;
    if (isBetween || clause.kind == Clause::Kind::EachOnce)
      operands.push_back(params_[clause.other].value);
    if (clause.bound)
      operands.push_back(value(*clause.bound));
    Op *op = builder_.op(OpKind::LaunchElements, operands);
    op->set(attr::kind, sema::clauseKindName(clause.kind).str());
    if (!clause.predicate.empty())
      op->set(attr::pred, clause.predicate);
    if (isBetween)
      op->set(attr::at, clause.at);
    if (clause.peer >= 0)
      op->set(attr::peer, clause.peer);
    op->set(attr::text, clause.text);
    if (clause.isAssumed)
      op->set(attr::because, clause.because);
  }
}

} // namespace dtile::ir
