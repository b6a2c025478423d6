// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Finds the kernels and plans that overlaps name, and how their names are said where the overlap
// stands.
#include "sema/declarations/overlaps.h"

#include "sema/declarations/homes.h"

namespace dtile::sema {

namespace {

class Overlaps {
public:
  explicit Overlaps(Context &context) : context_(context) {}

  void run() {
    // Imported modules were loaded after those that import them.
    for (size_t i = context_.modules.size(); i-- > 0;) {
      ModuleInfo &module = *context_.modules[i];
      bool hasOverlaps = false;
      for (const ast::Decl *decl : module.tree->decls) {
        if (const auto *plan = llvm::dyn_cast<ast::PlanDecl>(decl))
          checkAlternatives(module, plan);
        if (const auto *overlap = llvm::dyn_cast<ast::OverlapDecl>(decl)) {
          (void)kernelOf(module, overlap);
          hasOverlaps = true;
        }
      }
      if (hasOverlaps)
        replaceDeclarations(module);
    }
  }

private:
  void replaceDeclarations(ModuleInfo &module) {
    auto *tree = context_.arena.makePlain<ast::Module>();
    *tree = *module.tree;
    llvm::SmallVector<ast::Decl *, 16> decls;
    for (ast::Decl *decl : module.tree->decls) {
      const auto found = joined_.find(decl);
      decls.push_back(found != joined_.end() && found->second ? found->second : decl);
    }
    tree->decls = context_.arena.copy(llvm::ArrayRef<ast::Decl *>(decls));
    module.tree = tree;
  }

  // The kernel that an overlap is; null after reporting.
  const ast::KernelDecl *kernelOf(ModuleInfo &module, const ast::OverlapDecl *overlap) {
    auto [entry, isNew] = joined_.try_emplace(overlap, nullptr);
    if (!isNew)
      return entry->second;
    if (overlap->isBroken)
      return nullptr;
    open_.push_back(overlap);
    ast::KernelDecl *kernel =
        overlap->kernel == nullptr ? joinSteps(module, overlap) : join(module, overlap);
    open_.pop_back();
    joined_[overlap] = kernel;
    if (kernel == nullptr)
      return nullptr;
    context_.moduleOf[kernel] = &module;
    if (const auto symbol = module.names.find(overlap->name.name);
        symbol != module.names.end() && symbol->second.decl == overlap) {
      symbol->second.kind = Symbol::Kind::Kernel;
      symbol->second.decl = kernel;
    }
    return kernel;
  }

  ast::KernelDecl *join(ModuleInfo &module, const ast::OverlapDecl *overlap) {
    join::JoinSource source;
    source.overlap = overlap;
    const ast::Expr *target = overlap->kernel;
    if (const auto *generic = llvm::dyn_cast<ast::GenericExpr>(target))
      target = generic->base;
    const Symbol *symbol = find(module, target, diag::join_of_no_kernel);
    if (symbol == nullptr)
      return nullptr;
    source.kernel = kernelAt(*symbol, target);
    if (source.kernel == nullptr)
      return nullptr;
    source.home = homeOf(context_, *symbol->module, module);
    std::vector<join::PlanSource> plans;
    for (const ast::OverlapJoin &clause : overlap->joins)
      plans.push_back(planAt(module, clause));
    source.plans = plans;
    Diagnostics said(context_.sources);
    ast::KernelDecl *kernel = join::joinKernel(source, context_.arena, said);
    context_.errors += said.errorCount();
    context_.diags->append(said);
    return kernel;
  }

  ast::KernelDecl *joinSteps(ModuleInfo &module, const ast::OverlapDecl *overlap) {
    join::GraphSource source;
    source.overlap = overlap;
    source.home = homeOf(context_, module, module);
    source.find = [&](const ast::Expr *callee) {
      return sourceAt(module, callee, /*isProducer=*/true);
    };
    Diagnostics said(context_.sources);
    ast::KernelDecl *kernel = join::joinGraph(source, context_.arena, said);
    context_.errors += said.errorCount();
    context_.diags->append(said);
    return kernel;
  }

  const ast::KernelDecl *kernelAt(const Symbol &symbol, const ast::Expr *place) {
    if (symbol.kind == Symbol::Kind::Kernel) {
      // What did not parse was reported.
      const auto *kernel = llvm::cast<ast::KernelDecl>(symbol.decl);
      if (kernel->isBroken || kernel->alternatives.empty())
        return kernel->isBroken ? nullptr : kernel;
      context_.report(place->range, diag::join_of_no_kernel, context_.sources.text(place->range))
          .note(symbol.range, diag::note_alternatives, symbol.name,
                kernel->alternatives.front().name);
      return nullptr;
    }
    if (symbol.kind == Symbol::Kind::Overlap) {
      const auto *overlap = llvm::cast<ast::OverlapDecl>(symbol.decl);
      if (!llvm::is_contained(open_, overlap))
        return kernelOf(*symbol.module, overlap);
      context_.report(place->range, diag::join_in_circle, symbol.name)
          .note(symbol.range, diag::note_declared_here, symbol.name);
      return nullptr;
    }
    context_.report(place->range, diag::join_of_no_kernel, context_.sources.text(place->range))
        .note(symbol.range, diag::note_declared_here, symbol.name);
    return nullptr;
  }

  join::PlanSource planAt(ModuleInfo &module, const ast::OverlapJoin &clause) {
    const auto *call = llvm::dyn_cast<ast::CallExpr>(clause.plan);
    if (call == nullptr) {
      if (!llvm::isa<ast::ErrorExpr>(clause.plan))
        context_.report(clause.plan->range, diag::join_without_arguments,
                        (clause.tensor.name + (clause.isProducer ? " -> " : " <- ") +
                         context_.sources.text(clause.plan->range) + "(…)")
                            .str());
      return {};
    }
    const ast::Expr *callee = call->callee;
    if (const auto *generic = llvm::dyn_cast<ast::GenericExpr>(callee))
      callee = generic->base;
    return sourceAt(module, callee, clause.isProducer);
  }

  join::PlanSource sourceAt(ModuleInfo &module, const ast::Expr *callee, bool isProducer) {
    const Symbol *symbol = find(module, callee, diag::join_of_no_plan);
    if (symbol != nullptr &&
        (symbol->kind == Symbol::Kind::Kernel || symbol->kind == Symbol::Kind::Overlap))
      return kernelAsPlan(module, *symbol, callee, isProducer);
    const ast::PlanDecl *plan = planOf(symbol, callee);
    if (plan == nullptr)
      return {};
    return {plan, homeOf(context_, *context_.moduleOf.lookup(plan), module), /*isKernel=*/false};
  }

  // `a <- kernel(…)`: what one kernel makes is what another one reads.
  join::PlanSource kernelAsPlan(ModuleInfo &module, const Symbol &symbol, const ast::Expr *place,
                                bool isProducer) {
    const ast::KernelDecl *kernel = kernelAt(symbol, place);
    if (kernel == nullptr)
      return {};
    const ast::PlanDecl *plan = join::planOfKernel(*kernel, isProducer, context_.arena);
    if (plan == nullptr) {
      const auto outputs = llvm::count_if(
          kernel->params, [](const ast::Param &one) { return one.mode == ast::ParamMode::Out; });
      context_.report(place->range, diag::kernel_outputs, symbol.name, outputs)
          .note(symbol.range, diag::note_declared_here, symbol.name);
      return {};
    }
    return {plan, homeOf(context_, *symbol.module, module), /*isKernel=*/true};
  }

  // The plan that a name means: of several, the first.
  const ast::PlanDecl *planOf(const Symbol *symbol, const ast::Expr *place) {
    for (unsigned i = 0; symbol != nullptr; ++i) {
      if (symbol->kind != Symbol::Kind::Plan) {
        context_.report(place->range, diag::join_of_no_plan, context_.sources.text(place->range))
            .note(symbol->range, diag::note_declared_here, symbol->name);
        return nullptr;
      }
      const auto *plan = llvm::cast<ast::PlanDecl>(symbol->decl);
      if (plan->alternatives.empty())
        return plan->isBroken ? nullptr : plan;
      if (i > context_.modules.size() + 64) {
        context_.report(plan->name.range, diag::join_in_circle, plan->name.name);
        return nullptr;
      }
      symbol = find(*symbol->module, plan->alternatives.front(), diag::join_of_no_plan);
    }
    return nullptr;
  }

  void checkAlternatives(ModuleInfo &module, const ast::PlanDecl *plan) {
    for (const ast::Expr *one : plan->alternatives)
      (void)planOf(find(module, one, diag::join_of_no_plan), one);
  }

  // `name` or `module.name`; null after reporting.
  const Symbol *find(ModuleInfo &module, const ast::Expr *e, diag::Id wrongKind) {
    const ast::NameExpr *name = llvm::dyn_cast<ast::NameExpr>(e);
    if (name != nullptr)
      return symbolOf(module, name->name, name->range);
    const auto *member = llvm::dyn_cast<ast::MemberExpr>(e);
    name = member ? llvm::dyn_cast<ast::NameExpr>(member->base) : nullptr;
    if (name == nullptr) {
      if (!llvm::isa<ast::ErrorExpr>(e))
        context_.report(e->range, wrongKind, context_.sources.text(e->range));
      return nullptr;
    }
    Symbol *imported = symbolOf(module, name->name, name->range);
    if (imported == nullptr || imported->module == nullptr)
      return nullptr;
    if (imported->kind != Symbol::Kind::Module) {
      context_.report(e->range, wrongKind, context_.sources.text(e->range));
      return nullptr;
    }
    imported->used = true;
    const auto found = imported->module->names.find(member->member.name);
    if (found == imported->module->names.end()) {
      context_.report(member->member.range, diag::unknown_module_member, name->name,
                      member->member.name);
      return nullptr;
    }
    return &found->second;
  }

  Symbol *symbolOf(ModuleInfo &module, llvm::StringRef name, SourceRange place) {
    const auto found = module.names.find(name);
    if (found != module.names.end())
      return &found->second;
    SpellingSuggestion suggestion(name);
    for (const auto &entry : module.names)
      suggestion.consider(entry.first());
    auto message = context_.report(place, diag::unknown_name, name);
    if (!suggestion.best().empty())
      message.note(place, diag::note_did_you_mean, suggestion.best()).fix(place, suggestion.best());
    return nullptr;
  }

  Context &context_;
  llvm::DenseMap<const ast::Decl *, ast::KernelDecl *> joined_;
  // Overlaps that are being joined, outermost first.
  std::vector<const ast::OverlapDecl *> open_;
};

} // namespace

void joinOverlaps(Context &context) { Overlaps(context).run(); }

const ast::KernelDecl *planToCheck(Context &context, ModuleInfo &home, const ast::PlanDecl *plan) {
  if (!plan->alternatives.empty() || plan->isBroken)
    return nullptr;
  join::PlanSource source;
  source.plan = plan;
  source.home.qualified = [&](llvm::StringRef name, SourceRange at) -> ast::Expr * {
    if (!home.names.contains(name))
      return nullptr;
    auto *e = context.arena.make<ast::NameExpr>(at);
    e->name = name;
    return e;
  };
  Diagnostics said(context.sources);
  ast::KernelDecl *kernel = join::planAlone(source, context.arena, said);
  context.errors += said.errorCount();
  context.diags->append(said);
  if (kernel != nullptr)
    context.moduleOf[kernel] = &home;
  return kernel;
}

} // namespace dtile::sema
