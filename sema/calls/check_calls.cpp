// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Calls: which function is meant, its compile-time parameters from the arguments, and the instance
// for them.
#include "sema/checker.h"
#include "sema/declarations/infer.h"
#include "sema/declarations/tensor_functions.h"

namespace dtile::sema {

namespace {

struct Callee {
  const ast::Expr *function = nullptr;
  CallSite site;
};

// Takes `name<generics>[sizes](args)` and `name(args)[sizes]` apart.
Callee takeApart(const ast::Expr *e) {
  Callee result;
  result.site.range = e->range;
  const ast::Expr *inner = e;
  const auto takeShape = [&] {
    if (const auto *index = llvm::dyn_cast<ast::IndexExpr>(inner)) {
      result.site.shape = index->indices;
      result.site.hasShape = true;
      inner = index->base;
    }
  };
  takeShape();
  if (const auto *call = llvm::dyn_cast<ast::CallExpr>(inner)) {
    result.site.args = call->args;
    result.site.hasArgs = true;
    inner = call->callee;
  }
  if (!result.site.hasShape && !llvm::isa<ast::MemberExpr>(inner))
    takeShape();
  if (const auto *generic = llvm::dyn_cast<ast::GenericExpr>(inner)) {
    result.site.generics = generic->args;
    inner = generic->base;
  }
  result.function = inner;
  return result;
}

} // namespace

TExpr *Checker::callExpr(const ast::Expr *e) {
  Callee callee = takeApart(e);
  CallSite &site = callee.site;
  site.nameRange = callee.function->range;
  if (const auto *member = llvm::dyn_cast<ast::MemberExpr>(callee.function)) {
    if (const Symbol *symbol = referenceOf(member)) {
      site.name = symbol->name;
      site.nameRange = member->range;
      site.isReference = true;
      return callSymbol(*symbol, site);
    }
    site.name = member->member.name;
    site.nameRange = member->member.range;
    bool failed = false;
    const Symbol *symbol = moduleMember(member, failed);
    if (symbol)
      return callSymbol(*symbol, site);
    if (!failed)
      return methodCall(member, site);
    // The arguments of another library's function have its meaning.
    if (!foreignModule(member))
      checkArgsOnly(site);
    return error(e->range);
  }
  const auto *name = llvm::dyn_cast<ast::NameExpr>(callee.function);
  if (!name) {
    TExpr *function = expr(callee.function);
    if (function->type->kind != TypeKind::Error)
      report(callee.function->range, diag::not_callable, ctx.sources.text(callee.function->range));
    checkArgsOnly(site);
    return error(e->range);
  }
  site.name = name->name;
  // What is called is a function: neither a local nor a kernel of that name hides it.
  auto declared = module.names.find(name->name);
  const Symbol::Kind kind =
      declared == module.names.end() ? Symbol::Kind::Local : declared->second.kind;
  if (kind == Symbol::Kind::Fn) {
    declared->second.used = true;
    return callSymbol(declared->second, site);
  }
  if (CallHandler handler = callHandler(name->name))
    return (this->*handler)(site);
  if (kind == Symbol::Kind::Kernel)
    return callSymbol(declared->second, site);
  const Symbol *symbol = lookup(name->name);
  const bool isPoisoned = symbol && symbol->kind == Symbol::Kind::Local && symbol->var &&
                          symbol->var->type->kind == TypeKind::Error;
  if (symbol && !isPoisoned)
    report(name->range, diag::not_callable, name->name)
        .note(symbol->range, diag::note_declared_here, name->name);
  else if (!symbol)
    reportUnknownFunction(name->range, name->name);
  if (!habits::findName(name->name))
    checkArgsOnly(site);
  return error(e->range);
}

const Symbol *Checker::referenceOf(const ast::MemberExpr *member) {
  if (member->member.name != "reference")
    return nullptr;
  if (const auto *base = llvm::dyn_cast<ast::MemberExpr>(member->base)) {
    bool failed = false;
    const Symbol *symbol = moduleMember(base, failed);
    return symbol != nullptr && symbol->kind == Symbol::Kind::Fn ? symbol : nullptr;
  }
  const auto *name = llvm::dyn_cast<ast::NameExpr>(member->base);
  const auto found = name ? module.names.find(name->name) : module.names.end();
  if (found == module.names.end() || found->second.kind != Symbol::Kind::Fn)
    return nullptr;
  found->second.used = true;
  return &found->second;
}

void Checker::reportUnknownFunction(SourceRange range, llvm::StringRef name) {
  if (ctx.suggestionsLeft == 0) {
    report(range, diag::unknown_function, name);
    return;
  }
  --ctx.suggestionsLeft;
  SpellingSuggestion suggestion(name);
  for (const auto &entry : module.names)
    if (entry.second.kind == Symbol::Kind::Fn)
      suggestion.consider(entry.first());
  forEachCall([&](llvm::StringRef n) { suggestion.consider(n); });
  auto message = report(range, diag::unknown_function, name);
  if (noteHabit(message, range, habits::findName(name)))
    return;
  const llvm::StringRef elsewhere = habits::elementType(name);
  if (dtypeFromName(name) || !elsewhere.empty()) {
    const std::string meant = ("cast<" + (elsewhere.empty() ? name : elsewhere) + ">").str();
    message.note(range, diag::note_did_you_mean, meant).fix(range, meant);
    return;
  }
  if (!suggestion.best().empty())
    message.note(range, diag::note_did_you_mean, suggestion.best()).fix(range, suggestion.best());
}

// Mistakes in the arguments of a call that means nothing are still mistakes.
void Checker::checkArgsOnly(const CallSite &site) {
  for (const ast::Arg &arg : site.args)
    if (arg.value->kind != ast::NodeKind::StringLit)
      (void)expr(arg.value);
}

TExpr *Checker::callSymbol(const Symbol &symbol, const CallSite &site) {
  if (symbol.kind == Symbol::Kind::Fn)
    return callFn(symbol, site);
  if (symbol.kind == Symbol::Kind::Kernel)
    report(site.nameRange, diag::kernel_called, site.name)
        .note(symbol.range, diag::note_declared_here, site.name);
  else
    report(site.nameRange, diag::not_callable, site.name)
        .note(symbol.range, diag::note_declared_here, site.name);
  checkArgsOnly(site);
  return error(site.range);
}

// What NumPy and PyTorch call labels of reductions.
static llvm::StringRef labelElsewhere(llvm::StringRef label) {
  if (label == "dim")
    return "axis";
  return label == "keepdims" || label == "keepdim" || label == "keep_dims" ? "keep" : "";
}

bool Checker::checkArgs(const CallSite &site, unsigned least, unsigned most,
                        llvm::ArrayRef<llvm::StringRef> labels) {
  bool good = true;
  unsigned count = 0;
  for (const ast::Arg &arg : site.args) {
    if (arg.label.name.empty()) {
      ++count;
      continue;
    }
    if (llvm::is_contained(labels, arg.label.name))
      continue;
    SpellingSuggestion suggestion(arg.label.name);
    for (llvm::StringRef label : labels)
      suggestion.consider(label);
    auto message = report(arg.label.range, diag::unknown_label, site.name, arg.label.name);
    const llvm::StringRef meant = labelElsewhere(arg.label.name);
    if (llvm::is_contained(labels, meant))
      message.note(arg.label.range, diag::note_did_you_mean, meant).fix(arg.label.range, meant);
    else if (!suggestion.best().empty())
      message.note(arg.label.range, diag::note_did_you_mean, suggestion.best())
          .fix(arg.label.range, suggestion.best());
    good = false;
  }
  if (count < least || count > most) {
    std::string wanted = std::to_string(least);
    if (least != most)
      wanted += " to " + std::to_string(most);
    auto message = report(site.range, diag::wrong_argument_count, site.name,
                          wanted + (most == 1 ? " argument" : " arguments"), count);
    if (count > most && labelled(site, "after"))
      message.note(site.range, diag::note_dtile_form, "tokens are joined by `&`: `after: t & u`");
    else if (const habits::Word *called = habits::findCalled(site.name))
      message.note(site.range, diag::note_dtile_form, called->advice);
    good = false;
  }
  if (!good)
    checkArgsOnly(site);
  return good;
}

const ast::Expr *Checker::labelled(const CallSite &site, llvm::StringRef label) {
  for (const ast::Arg &arg : site.args)
    if (arg.label.name == label)
      return arg.value;
  return nullptr;
}

const ast::Expr *Checker::positional(const CallSite &site, unsigned index) {
  for (const ast::Arg &arg : site.args)
    if (arg.label.name.empty() && index-- == 0)
      return arg.value;
  return nullptr;
}

// The argument of each parameter, by place or by label; null where the default stands for it.
bool Checker::placeArgs(const ast::FnDecl *decl, const CallSite &site,
                        llvm::SmallVectorImpl<const ast::Expr *> &given) {
  llvm::SmallVector<llvm::StringRef, 4> names;
  unsigned least = 0;
  for (const ast::Param &param : decl->params) {
    names.push_back(param.name.name);
    least += param.init ? 0 : 1;
  }
  const bool hasLabels =
      llvm::any_of(site.args, [](const ast::Arg &arg) { return !arg.label.name.empty(); });
  if (!checkArgs(site, hasLabels ? 0 : least, names.size(), names))
    return false;
  given.assign(names.size(), nullptr);
  bool good = true;
  size_t next = 0;
  for (const ast::Arg &arg : site.args) {
    const size_t place =
        arg.label.name.empty() ? next++ : size_t(llvm::find(names, arg.label.name) - names.begin());
    good &= given[place] == nullptr;
    given[place] = arg.value;
  }
  for (auto [param, arg] : llvm::zip(decl->params, given))
    good &= arg || param.init;
  if (good)
    return true;
  const std::string wanted =
      std::to_string(least) + (least == names.size() ? "" : " to " + std::to_string(names.size()));
  report(site.range, diag::wrong_argument_count, site.name, wanted + " arguments, each once",
         site.args.size());
  checkArgsOnly(site);
  return false;
}

TExpr *Checker::callFn(const Symbol &symbol, const CallSite &site) {
  const auto *decl = llvm::cast<ast::FnDecl>(symbol.decl);
  if (!kernel && !fn) {
    report(site.nameRange, diag::call_in_constant, site.name);
    return error(site.range);
  }
  // Where it may stand, it was expanded.
  if (isTensorFunction(*decl)) {
    report(site.range, diag::tensor_function_call, site.name);
    return error(site.range);
  }
  if (site.isReference && !decl->isExtern) {
    report(site.nameRange, diag::not_extern, site.name)
        .note(decl->name.range, diag::note_declared_here, site.name);
    return error(site.range);
  }
  const bool shapeGood = noShape(site);
  llvm::SmallVector<const ast::Expr *, 4> given;
  if (!placeArgs(decl, site, given) || !shapeGood)
    return error(site.range);
  llvm::SmallVector<TExpr *, 4> args;
  bool good = true;
  for (const ast::Expr *arg : given) {
    args.push_back(arg ? value(arg) : nullptr);
    good &= !arg || args.back()->type->kind != TypeKind::Error;
  }
  if (!good)
    return error(site.range);
  std::vector<GenericValue> values;
  if (!inferFnGenerics(decl, *symbol.module, site, args, values))
    return error(site.range);
  FnInstance *callee = fnInstance(decl, values, site.range, site.isReference);
  if (!callee)
    return error(site.range);
  std::vector<FnInstance *> &callees = kernel ? kernel->callees : fn->callees;
  if (!llvm::is_contained(callees, callee))
    callees.push_back(callee);
  for (auto [i, arg] : llvm::enumerate(args)) {
    const Type wanted = callee->params[i]->type;
    const bool isTileForScalar = arg && wanted->kind == TypeKind::Scalar &&
                                 arg->type->kind == TypeKind::Tile &&
                                 arg->type->dtype == wanted->dtype;
    if (isTileForScalar) {
      report(given[i]->range, diag::type_mismatch, typeText(wanted), typeText(arg->type))
          .note(decl->name.range, diag::note_dtile_form,
                "it takes a scalar; of tiles of any shape it is `fn f<S: shape>(x: f32[S]) -> "
                "f32[S]`");
      arg = error(given[i]->range);
    }
    arg = arg ? convert(arg, wanted, given[i]->range) : callee->defaults[i];
    good &= arg->type->kind != TypeKind::Error;
  }
  if (!good)
    return error(site.range);
  const Type type = callee->results.size() == 1 ? callee->results[0] : types.voidType();
  TExpr *call = ctx.makeExpr(TExprKind::FnCall, type, site.range);
  call->callee = callee;
  call->operands.append(args.begin(), args.end());
  return call;
}

bool Checker::inferFnGenerics(const ast::FnDecl *decl, ModuleInfo &home, const CallSite &site,
                              llvm::ArrayRef<TExpr *> args, std::vector<GenericValue> &values) {
  GenericInference inference(ctx, home, decl->generics);
  if (!inference.takeGiven(*this, site.generics, site.name, site.nameRange))
    return false;
  llvm::SmallVector<bool, 4> fits(args.size(), true);
  for (auto [i, param] : llvm::enumerate(decl->params)) {
    if (!param.type || !args[i])
      continue;
    // A literal fits every dtype: it decides nothing, unless nothing else does.
    if (!args[i]->adaptable)
      inference.unifyDType(param.type->name.name, args[i]->type->dtype);
    fits[i] = inference.unifyShape(param.type->shape, args[i]->type->shape);
  }
  for (auto [i, param] : llvm::enumerate(decl->params))
    if (param.type && args[i] && args[i]->adaptable)
      inference.unifyDType(param.type->name.name, args[i]->type->dtype);
  for (auto [i, param] : llvm::enumerate(decl->params))
    if (param.type && args[i] && !fits[i] && inference.isOpen(param.type->shape)) {
      report(args[i]->range, diag::argument_dimensions, param.name.name, site.name,
             param.type->shape.size(), typeText(args[i]->type))
          .note(param.name.range, diag::note_declared_here, param.name.name);
      return false;
    }
  return inference.finish(site.name, decl->name, site.range, values);
}

FnInstance *Checker::fnInstance(const ast::FnDecl *decl, llvm::ArrayRef<GenericValue> values,
                                SourceRange call, bool isReference) {
  using Entry = InstanceEntry<FnInstance>;
  const std::string key = instanceName(decl->name.name, values) + (isReference ? "_reference" : "");
  const Entry &known = ctx.fns[decl][key];
  const auto usable = [&](const Entry &entry) -> FnInstance * {
    deepestCall = std::max(deepestCall, entry.depth);
    if (entry.state != Entry::State::Good)
      return nullptr;
    if (deepestCall < kMaxCallDepth || !call.isValid())
      return entry.instance.get();
    report(call, diag::calls_too_deep, decl->name.name, kMaxCallDepth)
        .note(decl->name.range, diag::note_declared_here, decl->name.name);
    return nullptr;
  };
  if (known.instance)
    return usable(known);
  // With other values at each turn, it would never end.
  const bool recurs = llvm::any_of(ctx.frames, [&](const auto &f) { return f.decl == decl; });
  if (recurs || ctx.frames.size() > kMaxCallDepth) {
    auto message = recurs ? report(call, diag::recursive_function, decl->name.name)
                          : report(call, diag::calls_too_deep, decl->name.name, kMaxCallDepth);
    message.note(decl->name.range, diag::note_declared_here, decl->name.name);
    return nullptr;
  }
  auto instance = std::make_unique<FnInstance>();
  instance->decl = decl;
  instance->generics.assign(values.begin(), values.end());
  instance->name = ctx.uniqueName(key);
  instance->hasInstructions = decl->isExtern && !isReference;
  const unsigned errorsBefore = ctx.errors;
  ctx.frames.push_back({key, call, decl});
  unsigned depth = 1;
  {
    // Warnings are about the text: the check of the declaration itself gives them.
    Restore<bool> warnings(ctx.warningsOn, ctx.warningsOn && !call.isValid());
    Checker checker(ctx, *ctx.moduleOf.lookup(decl));
    checker.fn = instance.get();
    checker.checkFn(decl);
    depth += checker.deepestCall;
  }
  ctx.frames.pop_back();
  // The map may have grown meanwhile.
  Entry &entry = ctx.fns[decl][key];
  entry.state = ctx.errors == errorsBefore ? Entry::State::Good : Entry::State::Bad;
  entry.depth = depth;
  entry.instance = std::move(instance);
  return usable(entry);
}

} // namespace dtile::sema
