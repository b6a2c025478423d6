// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copies a plan, and puts the axis where it counts ranks or names one.
#include "sema/join/along.h"

#include "frontend/ast/ast_visitor.h"
#include "frontend/ast/mesh.h"
#include "frontend/ast/source_printer.h"
#include "sema/join/make.h"
#include "sema/join/meets.h"
#include "sema/join/names.h"
#include "sema/join/rewriter.h"

#include "llvm/ADT/StringSwitch.h"

namespace dtile::join {

namespace {

/// The functions of tests that all ranks call together.
bool isCollective(llvm::StringRef name) {
  return llvm::StringSwitch<bool>(name)
      .Cases({"all_gather", "all_reduce", "reduce_scatter", "all_to_all", "from_rank"}, true)
      .Default(false);
}

class AxisWriter : public Rewriter {
public:
  AxisWriter(ast::Arena &arena, const Along &along, const Names &names)
      : Rewriter(arena), along_(along), isWHidden_(names.declares("W")) {}

  ast::PlanDecl *plan(const ast::PlanDecl &written) {
    auto *copy = arena_.make<ast::PlanDecl>(written.range);
    *copy = written;
    llvm::SmallVector<ast::GenericParam, 8> generics;
    for (const ast::GenericParam &one : written.generics)
      generics.push_back(generic(one));
    copy->generics = arena_.copy(llvm::ArrayRef<ast::GenericParam>(generics));
    llvm::SmallVector<ast::Param, 8> params;
    for (const ast::Param &one : written.params)
      params.push_back(param(one));
    copy->params = arena_.copy(llvm::ArrayRef<ast::Param>(params));
    copy->clauses = stmts(written.clauses);
    copy->prologue = stmts(written.prologue);
    llvm::SmallVector<ast::Role *, 4> roles;
    for (const ast::Role *one : written.roles)
      roles.push_back(role(one));
    copy->roles = arena_.copy(llvm::ArrayRef<ast::Role *>(roles));
    isPromise_ = true;
    llvm::SmallVector<ast::ExpectStmt *, 2> ensures;
    for (const ast::ExpectStmt *one : written.ensures)
      ensures.push_back(expectation(one));
    copy->ensures = arena_.copy(llvm::ArrayRef<ast::ExpectStmt *>(ensures));
    return copy;
  }

protected:
  ast::Expr *replaced(const ast::Expr &e) override {
    const Make make{arena_, e.range};
    if (nameOf(&e) == "W" && !isWHidden_)
      return make.call("num_ranks", {make.name(along_.axis)});
    if (const auto *remote = llvm::dyn_cast<ast::RemoteExpr>(&e)) {
      const ast::Arg place{{along_.axis, remote->rank->range}, expr(remote->rank)};
      const Make makeRank{arena_, remote->rank->range};
      return make.remote(expr(remote->base), makeRank.call(makeRank.name("rank"), place));
    }
    const auto *call = llvm::dyn_cast<ast::CallExpr>(&e);
    const llvm::StringRef callee = call ? nameOf(call->callee) : llvm::StringRef();
    if ((callee == "rank" || callee == "num_ranks" || callee == "barrier") && call->args.empty())
      return make.call(callee, {make.name(along_.axis)});
    if (isPromise_ && isCollective(callee)) {
      llvm::SmallVector<ast::Arg, 4> given(args(call->args));
      given.push_back({{ast::kAlongLabel, e.range}, make.name(along_.axis)});
      return make.call(make.name(callee), given);
    }
    return nullptr;
  }

private:
  const Along &along_;
  bool isWHidden_;
  bool isPromise_ = false;
};

/// What a clause says about all ranks; null where it speaks of each by itself.
const ast::Expr *aboutAllRanks(const ast::Stmt &clause) {
  struct Finder : ast::Walker<Finder> {
    using Walker::visit;
    bool visit(const ast::CallExpr &e) {
      const llvm::StringRef name = nameOf(e.callee);
      if (found == nullptr && (name == "replicated" || name == "each_once"))
        found = &e;
      return true;
    }
    bool visit(const ast::RemoteExpr &e) {
      found = found ? found : &e;
      return true;
    }
    const ast::Expr *found = nullptr;
  } finder;
  finder.walk(&clause);
  return finder.found;
}

} // namespace

const ast::PlanDecl *planAlong(const PlanSource &source, const Along &along, ast::Arena &arena,
                               Diagnostics &diags) {
  const ast::PlanDecl &plan = *source.plan;
  if (const auto *own = ast::meshIn(plan.clauses)) {
    diags.report(along.range, diag::along_own_mesh, plan.name.name)
        .note(own->range, diag::note_declared_here, "mesh");
    return nullptr;
  }
  for (const ast::Stmt *clause : plan.clauses)
    if (const ast::Expr *all = aboutAllRanks(*clause)) {
      diags.report(along.range, diag::along_all_ranks, textOf(all), plan.name.name, along.axis)
          .note(all->range, diag::note_said_here);
      return nullptr;
    }
  const auto isOfModule = [&](llvm::StringRef name) {
    return source.home.qualified && source.home.qualified(name, {}) != nullptr;
  };
  const Names names = namesOf(plan, isOfModule);
  ast::PlanDecl *turned = AxisWriter(arena, along, names).plan(plan);
  bool isGood = true;
  if (source.isKernel)
    meetAlongAxes(turned->params, turned->roles, turned->prologue, names.all, arena,
                  [&](const ast::CallExpr &barrier, llvm::StringRef axis, llvm::StringRef why) {
                    diags.report(barrier.range, diag::barrier_of_axis, axis, why);
                    isGood = false;
                  });
  return isGood ? turned : nullptr;
}

} // namespace dtile::join
