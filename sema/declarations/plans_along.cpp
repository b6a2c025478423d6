// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A function counts all ranks, whoever calls it: so a plan that goes along an axis calls none that
// asks for them.
#include "sema/declarations/plans_along.h"

#include "frontend/ast/ast_visitor.h"
#include "frontend/ast/mesh.h"
#include "sema/join/along.h"
#include "sema/join/make.h"

#include "llvm/ADT/SmallPtrSet.h"

namespace dtile::sema {

namespace {

const Symbol *functionAt(ModuleInfo &home, const ast::Expr *callee) {
  if (const auto *generic = llvm::dyn_cast<ast::GenericExpr>(callee))
    callee = generic->base;
  ModuleInfo *module = &home;
  llvm::StringRef name = join::nameOf(callee);
  if (const auto *member = llvm::dyn_cast<ast::MemberExpr>(callee)) {
    const auto imported = home.names.find(join::nameOf(member->base));
    if (imported == home.names.end() || imported->second.kind != Symbol::Kind::Module)
      return nullptr;
    module = imported->second.module;
    name = member->member.name;
  }
  if (module == nullptr)
    return nullptr;
  const auto found = module->names.find(name);
  return found != module->names.end() && found->second.kind == Symbol::Kind::Fn ? &found->second
                                                                                : nullptr;
}

/// Looks for functions that ask for ranks, through all that they call.
class RankFinder : public ast::Walker<RankFinder> {
public:
  using Walker::visit;
  explicit RankFinder(ModuleInfo &home) : home_(&home) {}

  bool visit(const ast::NameExpr &e) {
    asks_ |= isInFunction_ && e.name == "W";
    return true;
  }
  bool visit(const ast::RemoteExpr &) {
    asks_ |= isInFunction_;
    return true;
  }
  bool visit(const ast::CallExpr &e) {
    const llvm::StringRef name = join::nameOf(e.callee);
    if (isInFunction_ && (name == "rank" || name == "num_ranks" || name == "barrier"))
      asks_ = true;
    const Symbol *symbol = functionAt(*home_, e.callee);
    if (symbol == nullptr || !seen_.insert(symbol->decl).second)
      return true;
    const bool wasInFunction = std::exchange(isInFunction_, true);
    const bool asked = std::exchange(asks_, false);
    ModuleInfo *home = std::exchange(home_, symbol->module);
    walk(symbol->decl);
    home_ = home;
    isInFunction_ = wasInFunction;
    if (asks_ && !isInFunction_ && found == nullptr) {
      found = &e;
      function = symbol;
    }
    asks_ = isInFunction_ && (asks_ || asked);
    return true;
  }

  /// The first call of such a function in what was walked; null where there is none.
  const ast::CallExpr *found = nullptr;
  const Symbol *function = nullptr;

private:
  ModuleInfo *home_;
  llvm::SmallPtrSet<const ast::Decl *, 8> seen_;
  bool isInFunction_ = false;
  bool asks_ = false;
};

} // namespace

join::PlanSource sourceAlong(Context &context, ModuleInfo &home, const join::PlanSource &source,
                             const ast::CallExpr &call) {
  const auto *arg = llvm::find_if(
      call.args, [](const ast::Arg &one) { return one.label.name == ast::kAlongLabel; });
  if (source.plan == nullptr || arg == call.args.end())
    return source;
  join::PlanSource turned = source;
  turned.plan = nullptr;
  turned.along = join::nameOf(arg->value);
  turned.alongRange = arg->value->range;
  if (turned.along.empty()) {
    if (!llvm::isa<ast::ErrorExpr>(arg->value))
      context.report(arg->value->range, diag::along_no_name);
    return turned;
  }
  RankFinder functions(home);
  functions.walk(static_cast<const ast::Decl *>(source.plan));
  if (functions.found != nullptr) {
    context
        .report(turned.alongRange, diag::along_all_ranks, functions.function->name,
                source.plan->name.name, turned.along)
        .note(functions.found->range, diag::note_said_here);
    return turned;
  }
  Diagnostics said(context.sources);
  turned.plan = join::planAlong(source, {turned.along, turned.alongRange}, context.arena, said);
  context.errors += said.errorCount();
  context.diags->append(said);
  return turned;
}

} // namespace dtile::sema
