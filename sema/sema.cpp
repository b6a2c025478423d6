// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The order of checks, and the instances that others ask for.
#include "sema/sema.h"

#include "frontend/base/check.h"
#include "sema/checker.h"
#include "sema/declarations/alternatives.h"
#include "sema/declarations/choices.h"
#include "sema/declarations/function_kernel.h"
#include "sema/declarations/infer.h"
#include "sema/declarations/meetings.h"
#include "sema/declarations/overlaps.h"
#include "sema/declarations/tensor_functions.h"

#include "llvm/ADT/SmallBitVector.h"

namespace dtile::sema {

struct Program::Impl : Context {
  using Context::Context;

  /// `chosen`: the values that are the compiler's choice.
  KernelInstance *instance(const ast::KernelDecl *kernel, llvm::ArrayRef<GenericValue> values,
                           const llvm::SmallBitVector &chosen, SourceRange call, bool isReal);
  /// What is a choice and not in `given`.
  [[nodiscard]] llvm::SmallBitVector chosenOf(const ast::KernelDecl *kernel,
                                              const GenericArgs &given) const;
  std::string entryName(const ast::KernelDecl *kernel, llvm::ArrayRef<GenericValue> values,
                        const llvm::SmallBitVector &chosen);
  std::optional<std::vector<GenericValue>> defaults(const ast::KernelDecl *kernel);
  void checkFnAlone(const ast::FnDecl *fn);
  void checkKernelAlone(const ast::KernelDecl *kernel);
  void evaluateConsts(ModuleInfo &module);
  void checkModule(ModuleInfo &module);
  const Symbol *find(llvm::StringRef name) const;

  /// What was the compiler's choice for instances.
  llvm::DenseMap<const KernelInstance *, llvm::SmallBitVector> chosenFor;
  std::vector<const ast::KernelDecl *> rootKernels;
  std::vector<const ast::KernelDecl *> rootFamilies;
  std::vector<const ast::TestDecl *> rootTests;
  std::vector<const ast::BenchDecl *> rootBenches;
};

namespace {

llvm::StringRef kindText(GenericValue::Kind kind) {
  switch (kind) {
  case GenericValue::Kind::Int:
    return "an integer";
  case GenericValue::Kind::Bool:
    return "true or false";
  case GenericValue::Kind::DType:
    return "an element type";
  case GenericValue::Kind::Shape:
    return "a shape";
  }
  DTILE_UNREACHABLE("a kind of generic");
}

// The value that stands for any, where a check needs one.
GenericValue standIn(const ast::GenericParam &generic, int64_t size) {
  const GenericValue::Kind kind = genericKind(generic);
  return {kind, kind == GenericValue::Kind::Bool ? 1 : size, DType::F32, {4}};
}

// Values for the check of a declaration by itself: defaults, and stand-ins where there is none.
std::vector<GenericValue> valuesForCheck(Context &context, ModuleInfo &home,
                                         llvm::ArrayRef<ast::GenericParam> generics,
                                         const ast::Ident &name, int64_t size) {
  GenericInference inference(context, home, generics);
  for (const ast::GenericParam &generic : generics)
    if (!generic.defaultValue)
      inference.set(generic.name.name, standIn(generic, size));
  std::vector<GenericValue> values;
  inference.finish(name.name, name, name.range, values);
  return values;
}

// Checks a declaration by itself. A body may be right for some sizes only (`N / 32` rows): with
// stand-ins it is wrong where it is for each size that is tried, and the fewest mistakes are told.
void checkAlone(Context &context, llvm::ArrayRef<ast::GenericParam> generics,
                llvm::function_ref<bool(int64_t size)> check) {
  constexpr int64_t kSizes[] = {16, 128, 1024, 1};
  const bool hasSizes = llvm::any_of(generics, [](const ast::GenericParam &generic) {
    return !generic.defaultValue && genericKind(generic) == GenericValue::Kind::Int;
  });
  if (!hasSizes) {
    check(kSizes[0]);
    return;
  }
  const unsigned errorsBefore = context.errors;
  int64_t bestSize = kSizes[0];
  unsigned fewestErrors = ~0u;
  for (int64_t size : kSizes) {
    Diagnostics attempt(context.sources);
    bool good = false;
    {
      Restore<Diagnostics *> sink(context.diags, &attempt);
      good = check(size);
    }
    if (!good) {
      context.unsay(attempt);
      if (attempt.errorCount() < fewestErrors) {
        fewestErrors = attempt.errorCount();
        bestSize = size;
      }
      continue;
    }
    // What was wrong for other sizes is no mistake.
    context.errors = errorsBefore;
    context.diags->append(attempt);
    return;
  }
  check(bestSize);
}

// Kernels are launched, not called: a name that only bodies use does not clash.
void checkDeclaredName(Context &context, const ast::Ident &name) {
  if (callHandler(name.name) || dtypeFromName(name.name))
    context.report(name.range, diag::builtin_redefined, name.name);
}

// "64, 128".
std::string listText(llvm::ArrayRef<int64_t> values) {
  std::string text;
  for (int64_t value : values)
    text += (text.empty() ? "" : ", ") + std::to_string(value);
  return text;
}

} // namespace

llvm::SmallBitVector Program::Impl::chosenOf(const ast::KernelDecl *kernel,
                                             const GenericArgs &given) const {
  const ModuleInfo &home = *moduleOf.lookup(kernel);
  llvm::SmallBitVector chosen(unsigned(kernel->generics.size()));
  for (auto [i, generic] : llvm::enumerate(kernel->generics))
    chosen[unsigned(i)] =
        isChoice(home, generic) && llvm::none_of(given.named, [&](const auto &named) {
          return named.first == generic.name.name;
        });
  return chosen;
}

// `gemm`, `gemm_f32`; with pinned choices `gemm_bf16_128_auto_auto`.
std::string Program::Impl::entryName(const ast::KernelDecl *kernel,
                                     llvm::ArrayRef<GenericValue> values,
                                     const llvm::SmallBitVector &chosen) {
  const std::optional<std::vector<GenericValue>> usual = defaults(kernel);
  const llvm::SmallBitVector choices = chosenOf(kernel, {});
  const bool isPinned = chosen != choices;
  bool isDefault = usual.has_value() && !isPinned;
  std::string name = kernel->name.name.str();
  for (unsigned i = 0; i < values.size(); ++i) {
    // Names are as old as their texts: they say an order only where one is pinned.
    if (chosen[i] && i + 1 == values.size() && orders.contains(kernel))
      continue;
    if (chosen[i]) {
      name += isPinned ? "_auto" : "";
      continue;
    }
    name += instanceName("", values[i]);
    isDefault = isDefault && (*usual)[i] == values[i];
  }
  return isDefault ? kernel->name.name.str() : name;
}

KernelInstance *Program::Impl::instance(const ast::KernelDecl *kernel,
                                        llvm::ArrayRef<GenericValue> values,
                                        const llvm::SmallBitVector &chosen, SourceRange call,
                                        bool isReal) {
  const std::string entryOf = entryName(kernel, values, chosen);
  const std::string key = entryOf + " " + instanceName(kernel->name.name, values);
  InstanceEntry<KernelInstance> &entry = kernels[kernel][key];
  entry.isReal |= isReal;
  if (entry.instance)
    return entry.state == InstanceEntry<KernelInstance>::State::Good ? entry.instance.get()
                                                                     : nullptr;
  entry.instance = std::make_unique<KernelInstance>();
  KernelInstance *result = entry.instance.get();
  result->decl = kernel;
  result->generics.assign(values.begin(), values.end());
  result->entry = entryOf;
  chosenFor[result] = chosen;
  const bool isOfRoot = moduleOf.lookup(kernel) == modules.front().get();
  result->name = isOfRoot ? takeName(entryOf) : uniqueName(entryOf);
  const unsigned errorsBefore = errors;
  frames.push_back({instanceName(kernel->name.name, values), call, kernel});
  Checker checker(*this, *moduleOf.lookup(kernel));
  checker.kernel = result;
  checker.checkKernel(kernel);
  if (errors == errorsBefore) {
    checkTokens(*this, *result);
    checkPairing(*this, *result);
  }
  frames.pop_back();
  const bool good = errors == errorsBefore;
  // The map may have grown meanwhile.
  kernels[kernel][key].state =
      good ? InstanceEntry<KernelInstance>::State::Good : InstanceEntry<KernelInstance>::State::Bad;
  return good ? result : nullptr;
}

// The values that a kernel has when none is given; nothing when one has no default.
std::optional<std::vector<GenericValue>> Program::Impl::defaults(const ast::KernelDecl *kernel) {
  for (const ast::GenericParam &generic : kernel->generics)
    if (!generic.defaultValue)
      return std::nullopt;
  return valuesForCheck(*this, *moduleOf.lookup(kernel), kernel->generics, kernel->name, 0);
}

void Program::Impl::checkFnAlone(const ast::FnDecl *fn) {
  ModuleInfo &home = *moduleOf.lookup(fn);
  if (!fn->isExtern && !fn->instructions.empty())
    report(fn->instructions.front().range, diag::instructions_without_extern, fn->name.name)
        .fix({fn->range.begin, fn->range.begin}, "extern ");
  if (isTensorFunction(*fn)) {
    if (const ast::KernelDecl *kernel = functionToCheck(*this, home, fn))
      checkKernelAlone(kernel);
    return;
  }
  rejectChoices(*this, home, *fn);
  checkAlone(*this, fn->generics, [&](int64_t size) {
    const std::vector<GenericValue> values =
        valuesForCheck(*this, home, fn->generics, fn->name, size);
    return Checker(*this, home).fnInstance(fn, values, {}) != nullptr;
  });
}

void Program::Impl::checkKernelAlone(const ast::KernelDecl *kernel) {
  ModuleInfo &home = *moduleOf.lookup(kernel);
  checkAlone(*this, kernel->generics, [&](int64_t size) {
    std::vector<GenericValue> values =
        valuesForCheck(*this, home, kernel->generics, kernel->name, size);
    // As where nobody chooses, so that there is one instance of both.
    for (const Choice &choice : choicesOf(*this, home, *kernel))
      for (auto [generic, value] : llvm::zip(kernel->generics, values))
        if (generic.name.name == choice.name)
          value = usualValue(choice);
    const llvm::SmallBitVector chosen = chosenOf(kernel, {});
    const bool good = instance(kernel, values, chosen, {}, /*isReal=*/false) != nullptr;
    // Asked for by a call, it is checked again, and its mistakes are told.
    if (!good)
      kernels[kernel].erase(entryName(kernel, values, chosen) + " " +
                            instanceName(kernel->name.name, values));
    return good;
  });
  checkChoices(*this, home, *kernel);
  checkEnsures(*this, home, kernel);
}

void Program::Impl::evaluateConsts(ModuleInfo &module) {
  for (const ast::Decl *decl : module.tree->decls) {
    const auto *constant = llvm::dyn_cast<ast::ConstDecl>(decl);
    if (!constant)
      continue;
    checkDeclaredName(*this, constant->name);
    const auto found = module.names.find(constant->name.name);
    if (found != module.names.end() && found->second.decl == decl)
      Checker(*this, module).constValue(found->second, constant->name.range);
  }
}

void Program::Impl::checkModule(ModuleInfo &module) {
  for (const ast::Decl *decl : module.tree->decls) {
    if (const auto *fn = llvm::dyn_cast<ast::FnDecl>(decl)) {
      checkDeclaredName(*this, fn->name);
      checkFnAlone(fn);
    } else if (const auto *kernel = llvm::dyn_cast<ast::KernelDecl>(decl)) {
      if (kernel->alternatives.empty())
        checkKernelAlone(kernel);
      else if (llvm::none_of(familyOfJoined,
                             [&](const auto &joined) { return joined.second == kernel; }))
        checkAlternatives(*this, module, *kernel);
    } else if (const auto *plan = llvm::dyn_cast<ast::PlanDecl>(decl)) {
      if (const ast::KernelDecl *kernel = planToCheck(*this, module, plan))
        checkKernelAlone(kernel);
    }
  }
}

const Symbol *Program::Impl::find(llvm::StringRef name) const {
  const ModuleInfo *module = modules.front().get();
  const auto [alias, member] = name.split('.');
  if (!member.empty()) {
    auto imported = module->names.find(alias);
    if (imported == module->names.end() || imported->second.kind != Symbol::Kind::Module ||
        !imported->second.module)
      return nullptr;
    module = imported->second.module;
    name = member;
  }
  auto found = module->names.find(name);
  return found == module->names.end() ? nullptr : &found->second;
}

Program::Program() = default;
Program::~Program() = default;

std::unique_ptr<Program> Program::analyze(FileId file, SourceManager &sources,
                                          Diagnostics &diagnostics, const Options &options) {
  const PhaseScope phase("checking");
  std::unique_ptr<Program> program(new Program);
  program->impl_ = std::make_unique<Impl>(sources, options);
  Impl &impl = *program->impl_;
  impl.diags = &diagnostics;
  loadModules(impl, file);
  for (const Diagnostic &one : diagnostics.all())
    if (one.id == diag::foreign_form)
      impl.foreignForms.push_back(one.range.begin.offset);
  llvm::sort(impl.foreignForms);
  if (options.onlyNames) {
    impl.diags = nullptr;
    return program;
  }
  expandTensorFunctions(impl);
  expandMeetings(impl);
  joinOverlaps(impl);
  ModuleInfo &root = *impl.modules.front();
  for (const ast::Decl *decl : root.tree->decls) {
    if (const auto *kernel = llvm::dyn_cast<ast::KernelDecl>(decl)) {
      (kernel->alternatives.empty() ? impl.rootKernels : impl.rootFamilies).push_back(kernel);
      impl.keepName(kernel->name.name);
    } else if (const auto *test = llvm::dyn_cast<ast::TestDecl>(decl)) {
      impl.rootTests.push_back(test);
    } else if (const auto *bench = llvm::dyn_cast<ast::BenchDecl>(decl)) {
      impl.rootBenches.push_back(bench);
    }
  }
  // Imported modules were loaded after the root: check what others build on first.
  for (const auto &module : impl.modules)
    impl.evaluateConsts(*module);
  for (size_t i = impl.modules.size(); i-- > 0;)
    impl.checkModule(*impl.modules[i]);
  checkTests(impl, root);
  for (const ast::Decl *decl : root.tree->decls) {
    const auto *import = llvm::dyn_cast<ast::ImportDecl>(decl);
    if (!import)
      continue;
    const Symbol &symbol = root.names[import->alias.name];
    // Where something is wrong, it may be what uses the module.
    if (impl.errors == 0 && !symbol.used && symbol.module)
      impl.report(import->pathRange, diag::unused_import, import->alias.name);
  }
  impl.warningsOn = false;
  impl.diags = nullptr;
  return program;
}

const ast::Module &Program::rootModule() const { return *impl_->modules.front()->tree; }
llvm::ArrayRef<const ast::KernelDecl *> Program::kernels() const { return impl_->rootKernels; }
llvm::ArrayRef<const ast::KernelDecl *> Program::families() const { return impl_->rootFamilies; }

llvm::SmallVector<const ast::KernelDecl *, 4>
Program::alternatives(const ast::KernelDecl *kernel) const {
  if (kernel->alternatives.empty())
    return {kernel};
  return alternativesOf(*impl_->moduleOf.lookup(kernel), *kernel);
}

std::string Program::familyName(const ast::KernelDecl *family,
                                const KernelInstance &alternative) const {
  std::vector<GenericValue> values;
  llvm::SmallBitVector chosen(unsigned(family->generics.size()));
  const llvm::SmallBitVector &chosenThere = impl_->chosenFor.find(&alternative)->second;
  for (const ast::GenericParam &wanted : family->generics)
    for (auto [i, generic] : llvm::enumerate(alternative.decl->generics))
      if (generic.name.name == wanted.name.name) {
        chosen[unsigned(values.size())] = chosenThere[unsigned(i)];
        values.push_back(alternative.generics[i]);
      }
  return impl_->entryName(family, values, chosen);
}

const ast::KernelDecl *Program::familyOfJoined(const ast::KernelDecl *kernel) const {
  return impl_->familyOfJoined.lookup(kernel);
}

const ast::KernelDecl *Program::written(const ast::KernelDecl *kernel, bool isApart) const {
  const auto it = impl_->orders.find(kernel);
  if (it == impl_->orders.end())
    return kernel;
  return isApart ? it->second.apart : it->second.overlapped;
}

llvm::ArrayRef<LeftOut> Program::leftOut(const ast::KernelDecl *kernel) const {
  const auto it = impl_->leftOut.find(kernel);
  return it == impl_->leftOut.end() ? llvm::ArrayRef<LeftOut>() : llvm::ArrayRef(it->second);
}

llvm::ArrayRef<const ast::TestDecl *> Program::tests() const { return impl_->rootTests; }
llvm::ArrayRef<const ast::BenchDecl *> Program::benches() const { return impl_->rootBenches; }

const ast::KernelDecl *Program::findKernel(llvm::StringRef name) const {
  const Symbol *symbol = impl_->find(name);
  return symbol && symbol->kind == Symbol::Kind::Kernel ? llvm::cast<ast::KernelDecl>(symbol->decl)
                                                        : nullptr;
}

const ast::FnDecl *Program::findFunction(const ast::Expr *callee, const ast::Decl *of) const {
  return functionNamed(of ? *impl_->moduleOf.lookup(of) : *impl_->modules.front(), callee);
}

std::optional<int64_t> Program::findConst(llvm::StringRef name) const {
  const Symbol *symbol = impl_->find(name);
  if (!symbol || symbol->kind != Symbol::Kind::Const)
    return std::nullopt;
  const auto entry = impl_->consts.find(llvm::cast<ast::ConstDecl>(symbol->decl));
  if (entry == impl_->consts.end() || !entry->second.value)
    return std::nullopt;
  const TExpr *value = entry->second.value;
  if (value->type->kind != TypeKind::Scalar || !isInteger(value->type->dtype))
    return std::nullopt;
  return int64_t(value->bits);
}

const KernelInstance *Program::instantiate(const ast::KernelDecl *kernel, const GenericArgs &args,
                                           SourceRange callSite, Diagnostics &diagnostics) {
  if (!kernel->alternatives.empty())
    return instantiate(alternatives(kernel).front(), args, callSite, diagnostics);
  const PhaseScope phase("checking an instance");
  Restore<Diagnostics *> sink(impl_->diags, &diagnostics);
  ModuleInfo &home = *impl_->moduleOf.lookup(kernel);
  const llvm::StringRef name = kernel->name.name;
  GenericInference inference(*impl_, home, kernel->generics);
  bool good = true;
  const std::vector<Choice> choices = choicesOf(*impl_, home, *kernel);
  for (const Choice &choice : choices)
    inference.set(choice.name, usualValue(choice));
  for (const auto &[generic, value] : args.chosen)
    inference.set(generic, value);
  for (const auto &[generic, value] : args.named) {
    const auto choice = llvm::find_if(choices, [&](const Choice &c) { return c.name == generic; });
    if (choice != choices.end() && value.kind == GenericValue::Kind::Int &&
        !choice->allowed.empty() && !llvm::is_contained(choice->allowed, value.intValue)) {
      impl_
          ->report(callSite, diag::pin_not_allowed, generic, name, listText(choice->allowed),
                   value.intValue)
          .note(choice->range, diag::note_declared_here, generic);
      good = false;
    }
    if (inference.set(generic, value))
      continue;
    if (const auto kind = inference.kindOf(generic))
      impl_->report(callSite, diag::generic_of_other_kind, name, generic, kindText(*kind),
                    kindText(value.kind));
    else
      impl_->report(callSite, diag::unknown_generic, name, generic);
    good = false;
  }
  std::vector<GenericValue> values;
  if (!inference.finish(name, kernel->name, callSite, values) || !good)
    return nullptr;
  const size_t saidBefore = diagnostics.all().size();
  KernelInstance *result = impl_->instance(kernel, values, impl_->chosenOf(kernel, args), callSite,
                                           /*isReal=*/true);
  // What is wrong with it may have been said to somebody else.
  if (!result && diagnostics.all().size() == saidBefore)
    diagnostics.report(callSite, diag::instance_has_errors, instanceName(name, values))
        .note(kernel->name.range, diag::note_declared_here, name);
  return result;
}

std::vector<Choice> Program::choices(const ast::KernelDecl *kernel) const {
  if (!kernel->alternatives.empty())
    return {};
  return choicesOf(*impl_, *impl_->moduleOf.lookup(kernel), *kernel);
}

GenericArgs Program::inferGenerics(const ast::KernelDecl *kernel, llvm::ArrayRef<ArgShape> args,
                                   int64_t numRanks, GenericArgs given) const {
  GenericInference inference(*impl_, *impl_->moduleOf.lookup(kernel), kernel->generics);
  for (auto &[name, value] : given.named)
    inference.set(name, std::move(value));
  // Twice: what a later argument gives may be what an earlier one needs.
  for (int round = 0; round < 2; ++round) {
    size_t next = 0;
    for (const ast::Param &param : kernel->params) {
      const bool isArg = param.mode != ast::ParamMode::Out &&
                         param.mode != ast::ParamMode::ScratchSymm && param.type &&
                         param.type->name.name != "signal";
      if (!isArg || next >= args.size())
        continue;
      const ArgShape &arg = args[next++];
      if (arg.dtype)
        inference.unifyDType(param.type->name.name, *arg.dtype);
      if (param.type->shape.size() == arg.sizes.size())
        for (auto [size, known] : llvm::zip(param.type->shape, arg.sizes))
          inference.unifySize(size, known, numRanks);
    }
  }
  GenericArgs result;
  for (auto [generic, value] : llvm::zip(kernel->generics, inference.values()))
    if (value)
      result.named.emplace_back(generic.name.name.str(), *value);
  return result;
}

const KernelInstance *Program::instantiateCall(const ast::FnDecl &fn, const FunctionCall &call,
                                               Diagnostics &diagnostics) {
  const PhaseScope phase("checking an instance");
  Restore<Diagnostics *> sink(impl_->diags, &diagnostics);
  ModuleInfo &home = call.of ? *impl_->moduleOf.lookup(call.of) : *impl_->modules.front();
  const auto instanceOf = [&](llvm::ArrayRef<Type> results) {
    return impl_->instance(kernelOfCall(*impl_, home, fn, call, results), {}, {}, {},
                           /*isReal=*/true);
  };
  // Its check tells what the function gives.
  const KernelInstance *probe = instanceOf({});
  if (!probe || fn.results.empty())
    return probe;
  DTILE_CHECK(probe->callees.size() == 1, "one function is called");
  return instanceOf(probe->callees.front()->results);
}

const KernelInstance *Program::tryInstantiate(const ast::KernelDecl *kernel,
                                              const GenericArgs &args) {
  const unsigned errorsBefore = impl_->errors;
  Diagnostics attempt(impl_->sources);
  const KernelInstance *made = instantiate(kernel, args, kernel->name.range, attempt);
  if (attempt.errorCount() == 0)
    return made;
  impl_->unsay(attempt);
  impl_->errors = errorsBefore;
  return nullptr;
}

std::vector<const FnInstance *>
Program::functions(llvm::ArrayRef<const KernelInstance *> kernels) const {
  std::vector<const FnInstance *> result;
  llvm::DenseSet<const FnInstance *> seen;
  const auto visit = [&](const auto &self, const FnInstance *fn) -> void {
    if (!seen.insert(fn).second)
      return;
    for (const FnInstance *callee : fn->callees)
      self(self, callee);
    result.push_back(fn);
  };
  for (const KernelInstance *kernel : kernels)
    for (const FnInstance *callee : kernel->callees)
      visit(visit, callee);
  return result;
}

llvm::ArrayRef<std::string> Program::absentFiles() const { return impl_->absentFiles; }

std::vector<Program::Import> Program::addedImports() const {
  std::vector<Import> result;
  for (const auto &entry : impl_->modules.front()->names)
    if (entry.second.kind == Symbol::Kind::Module && entry.second.module && !entry.second.decl)
      result.push_back({entry.first().str(), entry.second.module->path});
  llvm::sort(result, [](const Import &a, const Import &b) { return a.name < b.name; });
  return result;
}

std::vector<Program::ModuleFile> Program::modules() const {
  std::vector<ModuleFile> result;
  for (const auto &module : impl_->modules)
    result.push_back({module->file, module->path, module->written});
  return result;
}

llvm::ArrayRef<const Variable *> Program::variables() const { return impl_->variables; }

std::optional<FileId> Program::importedFile(const ast::ImportDecl *import) const {
  const auto it = impl_->imported.find(import);
  return it == impl_->imported.end() ? std::nullopt : std::optional(it->second->file);
}

std::vector<std::string> Program::files() const {
  std::vector<std::string> result;
  for (const auto &module : impl_->modules)
    result.push_back(module->path);
  return result;
}

} // namespace dtile::sema
