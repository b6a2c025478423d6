// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Finds the kernels and plans that overlaps name, and how their names are said where the overlap
// stands.
#include "sema/declarations/overlaps.h"

#include "frontend/ast/ast_visitor.h"
#include "sema/declarations/alternatives.h"
#include "sema/declarations/homes.h"
#include "sema/declarations/plan_choices.h"
#include "sema/declarations/plans_along.h"
#include "sema/join/make.h"

#include <map>

namespace dtile::sema {

namespace {

/// Kernels that one overlap becomes: each is checked, proved and compiled.
constexpr size_t kMostAlternatives = 6;
/// Names of plans that stand for others.
constexpr unsigned kMostNames = 64;

/// What an overlap is joined to.
struct Joined {
  struct Kernel {
    /// What is joined again.
    ast::KernelDecl *decl = nullptr;
    /// As it is where movement and computation follow each other; null where that is no other.
    ast::KernelDecl *apart = nullptr;
    /// What is declared: `decl`, or both.
    ast::KernelDecl *whole = nullptr;
    /// Of a combination of plans, what it is called after the name of the overlap.
    std::string label;
  };
  /// More than one where plans are to choose; none after reporting.
  std::vector<Kernel> kernels;
  /// What callers name: the one, or a name for all.
  const ast::KernelDecl *called = nullptr;
};

/// A plan that a name means.
struct PlanOption {
  const ast::PlanDecl *plan = nullptr;
  std::string label;
};

/// Whether a kernel's head or bodies have a name.
bool isTaken(const ast::KernelDecl &kernel, llvm::StringRef name) {
  for (const ast::GenericParam &generic : kernel.generics)
    if (generic.name.name == name)
      return true;
  struct Mentions : ast::Walker<Mentions> {
    using Walker::visit;
    bool visit(const ast::NameExpr &e) {
      found |= e.name == wanted;
      return true;
    }
    llvm::StringRef wanted;
    bool found = false;
  } mentions;
  mentions.wanted = name;
  mentions.walk(static_cast<const ast::Decl *>(&kernel));
  return mentions.found || llvm::any_of(kernel.params, [&](const ast::Param &param) {
           return param.name.name == name;
         });
}

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
          (void)joinedOf(module, overlap);
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
      if (found == joined_.end() || found->second.kernels.empty()) {
        decls.push_back(decl);
        continue;
      }
      for (const Joined::Kernel &kernel : found->second.kernels)
        decls.push_back(kernel.whole);
      if (found->second.kernels.size() > 1)
        decls.push_back(const_cast<ast::KernelDecl *>(found->second.called));
    }
    tree->decls = context_.arena.copy(llvm::ArrayRef<ast::Decl *>(decls));
    module.tree = tree;
  }

  // The kernels that an overlap is; none after reporting.
  const Joined &joinedOf(ModuleInfo &module, const ast::OverlapDecl *overlap) {
    auto [entry, isNew] = joined_.try_emplace(overlap);
    Joined &made = entry->second;
    if (!isNew || overlap->isBroken)
      return made;
    open_.push_back(overlap);
    PlanChoices choices;
    Diagnostics said(context_.sources);
    const unsigned errorsBefore = context_.errors;
    join::Waits waits;
    ast::KernelDecl *first = attempt(module, overlap, choices, said, waits);
    if (choices.isChoice() && context_.errors == errorsBefore)
      joinEach(module, overlap, choices, made);
    else
      take(said);
    if (!choices.isChoice() && first != nullptr)
      made.kernels.push_back(kernelOf(module, overlap, choices, *first, waits));
    open_.pop_back();
    if (!made.kernels.empty())
      declare(module, *overlap, made);
    return made;
  }

  void take(const Diagnostics &said) {
    context_.errors += said.errorCount();
    context_.diags->append(said);
  }

  // A kernel for each combination of plans that fits.
  void joinEach(ModuleInfo &module, const ast::OverlapDecl *overlap, PlanChoices &choices,
                Joined &made) {
    double all = 0;
    const auto combinations = choices.combinations(kMostAlternatives, all);
    std::vector<LeftOut> &leftOut = leftOut_[overlap];
    Diagnostics wrong(context_.sources);
    for (const PlanChoices::Combination &combination : combinations) {
      choices.take(combination);
      Diagnostics said(context_.sources);
      join::Waits waits;
      ast::KernelDecl *kernel = attempt(module, overlap, choices, said, waits);
      const std::string label = choices.label(combination);
      std::string why;
      if (kernel == nullptr && !said.all().empty()) {
        why = textOf(said.all().front());
      } else if (kernel != nullptr && !made.kernels.empty()) {
        why = differenceOfJoined(*made.kernels.front().decl, *kernel);
      }
      if (kernel == nullptr)
        wrong.append(said);
      if (kernel != nullptr && why.empty()) {
        context_.diags->append(said);
        made.kernels.push_back(kernelOf(module, overlap, choices, *kernel, waits));
        made.kernels.back().label = label;
      } else {
        leftOut.push_back({label, why});
      }
    }
    if (made.kernels.empty())
      take(wrong);
    if (all > double(combinations.size()))
      leftOut.push_back({std::to_string(int64_t(all) - int64_t(combinations.size())) +
                             " more combinations of plans",
                         "an overlap is at most " + std::to_string(kMostAlternatives) +
                             " kernels; name a plan to have its"});
  }

  // A joined kernel, with the other order where it has one.
  Joined::Kernel kernelOf(ModuleInfo &module, const ast::OverlapDecl *overlap, PlanChoices &choices,
                          ast::KernelDecl &joined, const join::Waits &waits) {
    Joined::Kernel kernel;
    kernel.decl = kernel.whole = &joined;
    if (!waits.differ || module.names.contains("auto"))
      return kernel;
    join::Waits forAll{.areForAll = true};
    Diagnostics silent(context_.sources);
    kernel.apart = attempt(module, overlap, choices, silent, forAll);
    if (kernel.apart == nullptr || kernel.apart->params.size() != joined.params.size())
      return kernel;
    kernel.whole = context_.arena.make<ast::KernelDecl>(joined.range);
    *kernel.whole = joined;
    llvm::SmallVector<ast::GenericParam, 8> generics(joined.generics);
    generics.push_back(orderOf(joined));
    kernel.whole->generics = context_.arena.copy(llvm::ArrayRef<ast::GenericParam>(generics));
    return kernel;
  }

  // `OVERLAP = auto(1, 0)`
  ast::GenericParam orderOf(const ast::KernelDecl &kernel) {
    const join::Make make{context_.arena, kernel.name.range};
    std::string name = "OVERLAP";
    while (isTaken(kernel, name))
      name += "_";
    ast::GenericParam generic;
    generic.range = kernel.name.range;
    generic.name = {context_.arena.copy(llvm::StringRef(name)), kernel.name.range};
    generic.defaultValue = make.call("auto", {make.number(1), make.number(0)});
    return generic;
  }

  // An error as one line: place, message and code.
  std::string textOf(const Diagnostic &error) const {
    std::string text;
    if (error.range.isValid()) {
      const PresumedLoc at = context_.sources.presumed(error.range.begin);
      text = (at.file + ":" + llvm::Twine(at.line) + ":" + llvm::Twine(at.column) + ": ").str();
    }
    const std::string_view code = diagInfo(error.id).code;
    return text + error.message + (code.empty() ? "" : " [" + std::string(code) + "]");
  }

  // Gives the kernels their names, and the overlap's name to what callers mean.
  void declare(ModuleInfo &module, const ast::OverlapDecl &overlap, Joined &made) {
    for (const Joined::Kernel &kernel : made.kernels) {
      context_.moduleOf[kernel.decl] = context_.moduleOf[kernel.whole] = &module;
      if (kernel.whole != kernel.decl)
        context_.orders[kernel.whole] = {kernel.decl, kernel.apart};
    }
    made.called = made.kernels.front().whole;
    const auto own = module.names.find(overlap.name.name);
    const bool isNamed = own != module.names.end() && own->second.decl == &overlap;
    if (made.kernels.size() > 1) {
      for (const Joined::Kernel &kernel : made.kernels) {
        const llvm::StringRef name = freeName(module, overlap.name.name, kernel.label);
        kernel.decl->name = kernel.whole->name = {name, overlap.name.range};
        if (kernel.apart != nullptr)
          kernel.apart->name = kernel.whole->name;
        if (!isNamed)
          continue;
        Symbol symbol = own->second;
        symbol.kind = Symbol::Kind::Kernel;
        symbol.name = name;
        symbol.decl = kernel.whole;
        module.names[name] = symbol;
      }
      made.called = familyOf(overlap, made);
      context_.moduleOf[made.called] = &module;
      for (const Joined::Kernel &kernel : made.kernels)
        context_.familyOfJoined[kernel.whole] = made.called;
    }
    if (const auto it = leftOut_.find(&overlap); it != leftOut_.end())
      context_.leftOut[made.called] = std::move(it->second);
    if (!isNamed)
      return;
    own->second.kind = Symbol::Kind::Kernel;
    own->second.decl = made.called;
  }

  llvm::StringRef freeName(const ModuleInfo &module, llvm::StringRef overlap,
                           llvm::StringRef label) {
    const std::string wanted = (overlap + "_" + label).str();
    std::string name = wanted;
    for (unsigned i = 2; module.names.contains(name); ++i)
      name = wanted + "_" + std::to_string(i);
    return context_.arena.copy(llvm::StringRef(name));
  }

  // `kernel ag(…) = ag_push_all_gather | ag_ring_all_gather;`
  const ast::KernelDecl *familyOf(const ast::OverlapDecl &overlap, const Joined &made) {
    const ast::KernelDecl &first = *made.kernels.front().whole;
    auto *family = context_.arena.make<ast::KernelDecl>(overlap.range);
    family->doc = overlap.doc;
    family->name = overlap.name;
    llvm::SmallVector<ast::GenericParam, 8> generics;
    for (const ast::GenericParam &one : first.generics)
      if (llvm::all_of(made.kernels, [&](const Joined::Kernel &kernel) {
            return llvm::any_of(kernel.whole->generics, [&](const ast::GenericParam &other) {
              return other.name.name == one.name.name;
            });
          }))
        generics.push_back(one);
    family->generics = context_.arena.copy(llvm::ArrayRef<ast::GenericParam>(generics));
    llvm::SmallVector<ast::Param, 8> params;
    for (const ast::Param &one : first.params)
      if (isPassed(one))
        params.push_back(one);
    family->params = context_.arena.copy(llvm::ArrayRef<ast::Param>(params));
    llvm::SmallVector<ast::Ident, 4> names;
    for (const Joined::Kernel &kernel : made.kernels)
      names.push_back(kernel.decl->name);
    family->alternatives = context_.arena.copy(llvm::ArrayRef<ast::Ident>(names));
    return family;
  }

  // ---- Joining ----

  ast::KernelDecl *attempt(ModuleInfo &module, const ast::OverlapDecl *overlap,
                           PlanChoices &choices, Diagnostics &said, join::Waits &waits) {
    return overlap->kernel == nullptr ? joinSteps(module, overlap, choices, said, waits)
                                      : join(module, overlap, choices, said, waits);
  }

  ast::KernelDecl *join(ModuleInfo &module, const ast::OverlapDecl *overlap, PlanChoices &choices,
                        Diagnostics &said, join::Waits &waits) {
    join::JoinSource source;
    source.waits = &waits;
    source.overlap = overlap;
    const ast::Expr *target = overlap->kernel;
    if (const auto *generic = llvm::dyn_cast<ast::GenericExpr>(target))
      target = generic->base;
    const Symbol *symbol = find(module, target, diag::join_of_no_kernel);
    if (symbol == nullptr)
      return nullptr;
    source.kernel = kernelAt(*symbol, target, choices);
    if (source.kernel == nullptr)
      return nullptr;
    source.home = homeOf(context_, *symbol->module, module);
    source.overlapHome = homeOf(context_, module, module);
    std::vector<join::PlanSource> plans;
    for (const ast::OverlapJoin &clause : overlap->joins)
      plans.push_back(planAt(module, clause, choices));
    source.plans = plans;
    return join::joinKernel(source, context_.arena, said);
  }

  ast::KernelDecl *joinSteps(ModuleInfo &module, const ast::OverlapDecl *overlap,
                             PlanChoices &choices, Diagnostics &said, join::Waits &waits) {
    join::GraphSource source;
    source.waits = &waits;
    source.overlap = overlap;
    source.home = homeOf(context_, module, module);
    source.find = [&](const ast::CallExpr &call) {
      return sourceAt(module, call, /*isProducer=*/true, choices);
    };
    return join::joinGraph(source, context_.arena, said);
  }

  const ast::KernelDecl *kernelAt(const Symbol &symbol, const ast::Expr *place,
                                  PlanChoices &choices) {
    if (const ast::OverlapDecl *overlap = overlapOf(symbol)) {
      if (llvm::is_contained(open_, overlap)) {
        context_.report(place->range, diag::join_in_circle, symbol.name)
            .note(symbol.range, diag::note_declared_here, symbol.name);
        return nullptr;
      }
      const Joined &made = joinedOf(*symbol.module, overlap);
      std::vector<std::string> labels;
      for (const Joined::Kernel &kernel : made.kernels)
        labels.push_back(kernel.label);
      return made.kernels.empty() ? nullptr
                                  : made.kernels[choices.pick(place, overlap, labels)].decl;
    }
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
    context_.report(place->range, diag::join_of_no_kernel, context_.sources.text(place->range))
        .note(symbol.range, diag::note_declared_here, symbol.name);
    return nullptr;
  }

  // The overlap that a symbol names, joined or not; null for what is none.
  const ast::OverlapDecl *overlapOf(const Symbol &symbol) const {
    if (symbol.kind == Symbol::Kind::Overlap)
      return llvm::cast<ast::OverlapDecl>(symbol.decl);
    if (symbol.kind == Symbol::Kind::Kernel)
      for (const auto &[decl, made] : joined_)
        if (made.called == symbol.decl && symbol.decl != nullptr)
          return llvm::cast<ast::OverlapDecl>(decl);
    return nullptr;
  }

  join::PlanSource planAt(ModuleInfo &module, const ast::OverlapJoin &clause,
                          PlanChoices &choices) {
    const auto *call = llvm::dyn_cast<ast::CallExpr>(clause.plan);
    if (call == nullptr) {
      if (!llvm::isa<ast::ErrorExpr>(clause.plan))
        context_.report(clause.plan->range, diag::join_without_arguments,
                        (clause.tensor.name + (clause.isProducer ? " -> " : " <- ") +
                         context_.sources.text(clause.plan->range) + "(…)")
                            .str());
      return {};
    }
    return sourceAt(module, *call, clause.isProducer, choices);
  }

  join::PlanSource sourceAt(ModuleInfo &module, const ast::CallExpr &call, bool isProducer,
                            PlanChoices &choices) {
    const ast::Expr *callee = call.callee;
    if (const auto *generic = llvm::dyn_cast<ast::GenericExpr>(callee))
      callee = generic->base;
    const Symbol *symbol = find(module, callee, diag::join_of_no_plan);
    if (symbol != nullptr &&
        (symbol->kind == Symbol::Kind::Kernel || symbol->kind == Symbol::Kind::Overlap))
      return sourceAlong(context_, *symbol->module,
                         kernelAsPlan(module, *symbol, callee, isProducer, choices), call);
    const std::vector<PlanOption> options = plansOf(symbol, callee);
    if (options.empty())
      return {};
    std::vector<std::string> labels;
    for (const PlanOption &one : options)
      labels.push_back(one.label);
    const ast::PlanDecl *plan = options[choices.pick(callee, symbol->decl, labels)].plan;
    ModuleInfo &home = *context_.moduleOf.lookup(plan);
    return sourceAlong(context_, home, {plan, homeOf(context_, home, module), /*isKernel=*/false},
                       call);
  }

  // `a <- kernel(…)`: what one kernel makes is what another one reads.
  join::PlanSource kernelAsPlan(ModuleInfo &module, const Symbol &symbol, const ast::Expr *place,
                                bool isProducer, PlanChoices &choices) {
    const ast::KernelDecl *kernel = kernelAt(symbol, place, choices);
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

  // ---- Plans ----

  // The plans that a name means, in order; none after reporting.
  std::vector<PlanOption> plansOf(const Symbol *symbol, const ast::Expr *place) {
    std::vector<PlanOption> found;
    unsigned names = 0;
    if (!addPlans(symbol, place, names, found))
      found.clear();
    return found;
  }

  bool addPlans(const Symbol *symbol, const ast::Expr *place, unsigned &names,
                std::vector<PlanOption> &found) {
    if (symbol == nullptr)
      return false;
    if (symbol->kind != Symbol::Kind::Plan) {
      context_.report(place->range, diag::join_of_no_plan, context_.sources.text(place->range))
          .note(symbol->range, diag::note_declared_here, symbol->name);
      return false;
    }
    const auto *plan = llvm::cast<ast::PlanDecl>(symbol->decl);
    if (plan->isBroken)
      return false;
    if (++names > kMostNames) {
      context_.report(plan->name.range, diag::join_in_circle, plan->name.name);
      return false;
    }
    if (!plan->alternatives.empty())
      return llvm::all_of(plan->alternatives, [&](const ast::Expr *one) {
        return addPlans(find(*symbol->module, one, diag::join_of_no_plan), one, names, found);
      });
    if (llvm::none_of(found, [&](const PlanOption &one) { return one.plan == plan; }))
      found.push_back({plan, plan->name.name.str()});
    return true;
  }

  // All that a name of plans stands for move the same, and say so.
  void checkAlternatives(ModuleInfo &module, const ast::PlanDecl *plan) {
    if (plan->alternatives.empty() || plan->isBroken)
      return;
    const ast::KernelDecl &family = *asKernel(*plan, *plan);
    std::string promised;
    llvm::SmallVector<const ast::PlanDecl *, 4> before;
    for (const auto &[i, one] : llvm::enumerate(plan->alternatives)) {
      const ast::Ident name{context_.sources.text(one->range), one->range};
      for (const PlanOption &option : plansOf(find(module, one, diag::join_of_no_plan), one)) {
        if (llvm::is_contained(before, option.plan)) {
          context_.report(name.range, diag::repeated_alternative, name.name, plan->name.name);
          continue;
        }
        before.push_back(option.plan);
        if (checkAlternative(context_, family, name, *asKernel(*option.plan, *plan)))
          checkPromise(*plan, name, *option.plan, promised);
      }
    }
  }

  void checkPromise(const ast::PlanDecl &family, const ast::Ident &name,
                    const ast::PlanDecl &alternative, std::string &promised) {
    const std::string own = promisesOf(alternative.ensures);
    if (promised.empty())
      promised = own;
    if (own == promised)
      return;
    context_
        .report(name.range, diag::alternative_differs, name.name, family.name.name,
                "it ensures `" + own + "`, and the first `" + promised + "`")
        .note(alternative.name.range, diag::note_declared_here, name.name);
  }

  // A plan as its callers see it: what it brings is passed, if the name of all says it.
  const ast::KernelDecl *asKernel(const ast::PlanDecl &plan, const ast::PlanDecl &family) {
    auto *kernel = context_.arena.make<ast::KernelDecl>(plan.range);
    kernel->name = plan.name;
    kernel->generics = plan.generics;
    kernel->ensures = plan.ensures;
    llvm::SmallVector<ast::Param, 8> params(plan.params);
    for (ast::Param &param : params) {
      const auto *called = llvm::find_if(family.params, [&](const ast::Param &one) {
        return one.name.name == param.name.name && one.mode == param.mode;
      });
      if (param.mode != ast::ParamMode::ScratchSymm || called == family.params.end())
        continue;
      param.mode = ast::ParamMode::Out;
      // Plans may lay it out differently: the join compares its shape with the kernel's.
      if (param.type && called->type && param.type->name.name == called->type->name.name)
        param.type = called->type;
    }
    kernel->params = context_.arena.copy(llvm::ArrayRef<ast::Param>(params));
    return kernel;
  }

  // ---- Names ----

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
  std::map<const ast::Decl *, Joined> joined_;
  std::map<const ast::OverlapDecl *, std::vector<LeftOut>> leftOut_;
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
