// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Expands functions over tensors, tree to tree, before anything is checked. Tensors of the kernel
// stand in place of the function's; its own names become ones that nothing else has.
#include "sema/declarations/tensor_functions.h"

#include "frontend/ast/ast_visitor.h"
#include "frontend/ast/source_printer.h"
#include "frontend/base/dtype.h"
#include "sema/declarations/homes.h"
#include "sema/join/make.h"
#include "sema/join/names.h"
#include "sema/join/rewriter.h"

namespace dtile::sema {

namespace {

/// Calls that one body may have in the end: each is its text once more.
constexpr unsigned kMaxExpansions = 4096;

using join::Make;
using join::nameOf;

bool isTensor(const ast::Param &param) { return param.mode != ast::ParamMode::Value; }

bool isElementType(llvm::StringRef name) {
  return dtypeFromName(name).has_value() || name == "signal" || name == "token";
}

// The function as a plan of one body, for what collects names.
ast::PlanDecl *asPlan(const ast::FnDecl &fn, ast::Arena &arena) {
  auto *plan = arena.make<ast::PlanDecl>(fn.range);
  plan->name = fn.name;
  plan->generics = fn.generics;
  plan->params = fn.params;
  auto *role = arena.makePlain<ast::Role>();
  role->range = fn.range;
  role->body = fn.body;
  ast::Role *roles[] = {role};
  plan->roles = arena.copy(llvm::ArrayRef<ast::Role *>(roles));
  return plan;
}

/// A tensor of the kernel, at positions of its first dimensions.
struct TensorArg {
  const ast::Param *param = nullptr;
  llvm::ArrayRef<ast::Expr *> positions;
  [[nodiscard]] llvm::ArrayRef<ast::Expr *> shape() const {
    return param->type->shape.drop_front(positions.size());
  }
};

/// Copies a function's body with what its names stand for.
class BodyCopier : public join::Rewriter {
public:
  BodyCopier(ast::Arena &arena, const join::Home &home) : Rewriter(arena), home_(home) {}

  llvm::StringMap<TensorArg> tensors;
  join::Values values;
  llvm::StringMap<llvm::StringRef> renames;

protected:
  ast::Ident ident(const ast::Ident &name) override {
    ast::Ident other = name;
    if (const auto found = renames.find(name.name); found != renames.end())
      other.name = found->second;
    else if (const llvm::StringRef value = nameOf(values.lookup(name.name)); !value.empty())
      other.name = value;
    return other;
  }

  ast::Expr *replaced(const ast::Expr &e) override {
    if (const auto *index = llvm::dyn_cast<ast::IndexExpr>(&e))
      return tensorOf(index->base) ? access(index->base, index->indices, e.range) : nullptr;
    if (tensorOf(&e) != nullptr)
      return access(&e, {}, e.range);
    const auto *name = llvm::dyn_cast<ast::NameExpr>(&e);
    if (name == nullptr)
      return nullptr;
    if (const auto found = renames.find(name->name); found != renames.end())
      return Make{arena_, e.range}.name(found->second);
    if (const ast::Expr *value = values.lookup(name->name))
      return Rewriter(arena_).expr(value);
    return home_.qualified ? home_.qualified(name->name, e.range) : nullptr;
  }

private:
  // Of `x` and of `x@peer`.
  const TensorArg *tensorOf(const ast::Expr *e) const {
    if (const auto *remote = llvm::dyn_cast<ast::RemoteExpr>(e))
      e = remote->base;
    const auto found = tensors.find(nameOf(e));
    return found == tensors.end() ? nullptr : &found->second;
  }

  ast::Expr *access(const ast::Expr *base, llvm::ArrayRef<ast::Expr *> indices, SourceRange at) {
    const TensorArg &tensor = *tensorOf(base);
    const Make make{arena_, at};
    ast::Expr *place = make.name(tensor.param->name.name);
    if (const auto *remote = llvm::dyn_cast<ast::RemoteExpr>(base))
      place = make.remote(place, expr(remote->rank));
    llvm::SmallVector<ast::Expr *, 6> all;
    Rewriter plain(arena_);
    for (const ast::Expr *one : tensor.positions)
      all.push_back(plain.expr(one));
    for (const ast::Expr *one : indices)
      all.push_back(expr(one));
    return all.empty() ? place : make.index(place, all);
  }

  const join::Home &home_;
};

/// Expands the calls in one kernel, plan or function.
class Expander : public join::Rewriter {
public:
  Expander(Context &context, ModuleInfo &module, llvm::ArrayRef<ast::Param> params)
      : Rewriter(context.arena), context_(context), module_(module), params_(params),
        fresh_(context.arena) {}

  bool found = false;

  void take(const llvm::StringSet<> &names) { fresh_.take(names); }

protected:
  void list(llvm::ArrayRef<ast::Stmt *> from, llvm::SmallVectorImpl<ast::Stmt *> &to) override {
    for (const ast::Stmt *one : from) {
      const auto *effect = llvm::dyn_cast<ast::ExprStmt>(one);
      const auto *call = effect ? llvm::dyn_cast<ast::CallExpr>(effect->value) : nullptr;
      const Symbol *symbol = call ? functionOf(*call) : nullptr;
      if (symbol == nullptr) {
        to.push_back(stmt(one));
        continue;
      }
      found = true;
      expand(*call, *symbol, to);
    }
  }

private:
  // The function over tensors that a call names, or null.
  const Symbol *functionOf(const ast::CallExpr &call) {
    const ast::Expr *callee = call.callee;
    if (const auto *generic = llvm::dyn_cast<ast::GenericExpr>(callee))
      callee = generic->base;
    ModuleInfo *home = &module_;
    llvm::StringRef name = nameOf(callee);
    if (const auto *member = llvm::dyn_cast<ast::MemberExpr>(callee)) {
      const auto imported = module_.names.find(nameOf(member->base));
      if (imported == module_.names.end() || imported->second.kind != Symbol::Kind::Module ||
          imported->second.module == nullptr)
        return nullptr;
      imported->second.used = true;
      home = imported->second.module;
      name = member->member.name;
    }
    const auto found = home->names.find(name);
    if (found == home->names.end() || found->second.kind != Symbol::Kind::Fn ||
        !isTensorFunction(*llvm::cast<ast::FnDecl>(found->second.decl)))
      return nullptr;
    return &found->second;
  }

  void expand(const ast::CallExpr &call, const Symbol &symbol,
              llvm::SmallVectorImpl<ast::Stmt *> &to) {
    const auto *fn = llvm::cast<ast::FnDecl>(symbol.decl);
    if (fn->isBroken || fn->body == nullptr)
      return;
    if (llvm::is_contained(open_, fn)) {
      context_.report(call.range, diag::recursive_function, fn->name.name);
      return;
    }
    if (open_.size() >= kMaxCallDepth) {
      context_.report(call.range, diag::calls_too_deep, fn->name.name, kMaxCallDepth);
      return;
    }
    if (++expansions_ > kMaxExpansions) {
      if (expansions_ == kMaxExpansions + 1)
        context_.report(call.range, diag::too_many_expansions, fn->name.name, kMaxExpansions);
      return;
    }
    const join::Home home = homeOf(context_, *symbol.module, module_);
    BodyCopier body(arena_, home);
    if (!bind(call, *fn, home, body, to))
      return;
    open_.push_back(fn);
    // What it calls in turn is expanded, too.
    list(body.stmts(fn->body->statements), to);
    open_.pop_back();
  }

  // ---- Arguments ----

  bool bind(const ast::CallExpr &call, const ast::FnDecl &fn, const join::Home &home,
            BodyCopier &body, llvm::SmallVectorImpl<ast::Stmt *> &to) {
    llvm::SmallVector<const ast::Expr *, 6> given(fn.params.size(), nullptr);
    if (!place(call, fn, given) || !takeGenerics(call, fn, body))
      return false;
    const join::Names names = join::namesOf(*asPlan(fn, arena_), [&](llvm::StringRef name) {
      return home.qualified && home.qualified(name, {}) != nullptr;
    });
    for (const auto &[param, arg] : llvm::zip(fn.params, given))
      if (isTensor(param) && !bindTensor(fn, param, *arg, names, body))
        return false;
    for (const ast::GenericParam &generic : fn.generics)
      if (!body.values.contains(generic.name.name)) {
        if (generic.defaultValue == nullptr) {
          context_.report(call.range, diag::missing_generic, fn.name.name, generic.name.name)
              .note(generic.range, diag::note_declared_here, generic.name.name);
          return false;
        }
        body.values[generic.name.name] = body.expr(generic.defaultValue);
      }
    for (const auto &name : names.local)
      body.renames[name.first()] = fresh_.make(name.first());
    for (const auto &[param, arg] : llvm::zip(fn.params, given))
      if (!isTensor(param))
        bindValue(param, *arg, body, to);
    return true;
  }

  // Arguments by their places and labels.
  bool place(const ast::CallExpr &call, const ast::FnDecl &fn,
             llvm::SmallVectorImpl<const ast::Expr *> &given) {
    size_t next = 0;
    bool isGood = true;
    for (const ast::Arg &arg : call.args) {
      size_t number = next;
      if (!arg.label.name.empty()) {
        number = size_t(
            llvm::find_if(fn.params,
                          [&](const ast::Param &one) { return one.name.name == arg.label.name; }) -
            fn.params.begin());
        if (number == fn.params.size()) {
          context_.report(arg.label.range, diag::unknown_label, fn.name.name, arg.label.name);
          return false;
        }
      }
      isGood = isGood && number < given.size() && given[number] == nullptr;
      if (isGood)
        given[number] = arg.value;
      next = number + 1;
    }
    for (const auto &[param, arg] : llvm::zip(fn.params, given)) {
      if (arg == nullptr && !isTensor(param))
        arg = param.init;
      isGood &= arg != nullptr;
    }
    if (!isGood)
      context_
          .report(call.range, diag::wrong_argument_count, fn.name.name,
                  std::to_string(fn.params.size()) + " arguments, each once", call.args.size())
          .note(fn.name.range, diag::note_declared_here, fn.name.name);
    return isGood;
  }

  bool takeGenerics(const ast::CallExpr &call, const ast::FnDecl &fn, BodyCopier &body) {
    const auto *generic = llvm::dyn_cast<ast::GenericExpr>(call.callee);
    const auto args = generic ? generic->args : llvm::ArrayRef<ast::Arg>();
    for (const auto &[i, arg] : llvm::enumerate(args)) {
      const auto *found = fn.generics.begin() + std::min(i, fn.generics.size());
      if (!arg.label.name.empty())
        found = llvm::find_if(fn.generics, [&](const ast::GenericParam &one) {
          return one.name.name == arg.label.name;
        });
      if (found == fn.generics.end()) {
        if (arg.label.name.empty())
          context_.report(arg.value->range, diag::too_many_generics, fn.name.name,
                          fn.generics.size());
        else
          context_.report(arg.label.range, diag::unknown_generic, fn.name.name, arg.label.name);
        return false;
      }
      body.values[found->name.name] = arg.value;
    }
    return true;
  }

  bool bindTensor(const ast::FnDecl &fn, const ast::Param &param, const ast::Expr &arg,
                  const join::Names &names, BodyCopier &body) {
    TensorArg tensor;
    const auto *index = llvm::dyn_cast<ast::IndexExpr>(&arg);
    const llvm::StringRef name = nameOf(index ? index->base : &arg);
    for (const ast::Param &one : params_)
      if (isTensor(one) && one.type != nullptr && one.name.name == name)
        tensor.param = &one;
    if (index != nullptr)
      tensor.positions = index->indices;
    const bool isPlain =
        tensor.param != nullptr &&
        tensor.positions.size() < std::max<size_t>(tensor.param->type->shape.size(), 1) &&
        llvm::none_of(
            tensor.positions, [](const ast::Expr *one) { return llvm::isa<ast::RangeExpr>(one); });
    if (!isPlain) {
      if (!llvm::isa<ast::ErrorExpr>(arg))
        context_.report(arg.range, diag::tensor_function_argument, fn.name.name)
            .note(param.range, diag::note_declared_here, param.name.name);
      return false;
    }
    if (!accepts(param.mode, tensor.param->mode)) {
      context_
          .report(arg.range, diag::tensor_function_mode, name, ast::spelling(tensor.param->mode),
                  fn.name.name, ast::spelling(param.mode))
          .note(param.range, diag::note_declared_here, param.name.name);
      return false;
    }
    body.tensors[param.name.name] = tensor;
    return param.type == nullptr || (unifyType(fn, param, tensor, arg, body) &&
                                     unifyShape(fn, param, tensor, arg, names, body));
  }

  // What a kernel's tensor may be for a function.
  static bool accepts(ast::ParamMode taken, ast::ParamMode held) {
    const bool isSymm = held == ast::ParamMode::Symm || held == ast::ParamMode::ScratchSymm;
    switch (taken) {
    case ast::ParamMode::In:
      return held != ast::ParamMode::Out;
    case ast::ParamMode::Out:
      return isSymm || held == ast::ParamMode::Out || held == ast::ParamMode::InOut;
    case ast::ParamMode::InOut:
      return isSymm || held == ast::ParamMode::InOut;
    case ast::ParamMode::Symm:
    case ast::ParamMode::ScratchSymm:
    case ast::ParamMode::Value:
      return isSymm;
    }
    return false;
  }

  bool unifyType(const ast::FnDecl &fn, const ast::Param &param, const TensorArg &tensor,
                 const ast::Expr &arg, BodyCopier &body) {
    const llvm::StringRef held = tensor.param->type->name.name;
    llvm::StringRef taken = param.type->name.name;
    if (!isElementType(taken)) {
      if (!body.values.contains(taken) && held != "signal")
        body.values[taken] = Make{arena_, arg.range}.name(held);
      taken = nameOf(body.values.lookup(taken));
    }
    if (held == taken)
      return true;
    context_
        .report(arg.range, diag::step_types, tensor.param->name.name, held, fn.name.name,
                taken.empty() ? param.type->name.name : taken)
        .note(tensor.param->range, diag::note_declared_here, tensor.param->name.name)
        .note(param.range, diag::note_declared_here, param.name.name);
    return false;
  }

  bool unifyShape(const ast::FnDecl &fn, const ast::Param &param, const TensorArg &tensor,
                  const ast::Expr &arg, const join::Names &names, BodyCopier &body) {
    const auto held = tensor.shape();
    const auto taken = param.type->shape;
    const auto notes = [&](DiagBuilder error) {
      error.note(tensor.param->range, diag::note_declared_here, tensor.param->name.name)
          .note(param.range, diag::note_declared_here, param.name.name);
      return false;
    };
    if (held.size() != taken.size())
      return notes(context_.report(arg.range, diag::step_dimensions, tensor.param->name.name,
                                   held.size(), fn.name.name, taken.size()));
    for (const auto &[i, pair] : llvm::enumerate(llvm::zip(held, taken))) {
      const auto [have, want] = pair;
      const llvm::StringRef name = nameOf(want);
      const bool isBindable =
          names.sizes.contains(name) ||
          llvm::any_of(fn.generics, [&](const auto &one) { return one.name.name == name; });
      if (isBindable && !body.values.contains(name)) {
        body.values[name] = have;
        continue;
      }
      const ast::Expr *value = body.expr(want);
      if (!join::isSame(have, value, {}))
        return notes(context_.report(arg.range, diag::step_sizes, i + tensor.positions.size(),
                                     tensor.param->name.name, textOf(have), fn.name.name,
                                     textOf(value)));
    }
    return true;
  }

  // What is no name and no number is computed once.
  void bindValue(const ast::Param &param, const ast::Expr &arg, BodyCopier &body,
                 llvm::SmallVectorImpl<ast::Stmt *> &to) {
    if (!nameOf(&arg).empty() || llvm::isa<ast::IntLit>(arg) || llvm::isa<ast::FloatLit>(arg) ||
        llvm::isa<ast::BoolLit>(arg)) {
      body.values[param.name.name] = &arg;
      return;
    }
    const Make make{arena_, arg.range};
    const llvm::StringRef name = fresh_.make(param.name.name);
    auto *let = llvm::cast<ast::LetStmt>(make.let(name, expr(&arg)));
    if (param.type != nullptr && !param.type->hasShape)
      let->type = body.type(param.type);
    to.push_back(let);
    body.renames[param.name.name] = name;
  }

  Context &context_;
  ModuleInfo &module_;
  llvm::ArrayRef<ast::Param> params_;
  join::Fresh fresh_;
  unsigned expansions_ = 0;
  // Functions that are being expanded, outermost first.
  llvm::SmallVector<const ast::FnDecl *, 4> open_;
};

/// The roles of a kernel or plan with calls expanded; nothing where there are none.
template <typename Decl>
std::optional<llvm::ArrayRef<ast::Role *>> expandedRoles(Context &context, ModuleInfo &module,
                                                         const Decl &decl) {
  Expander expander(context, module, decl.params);
  expander.take(join::namesOf(decl, [](llvm::StringRef) { return false; }).all);
  llvm::SmallVector<ast::Role *, 4> roles;
  for (const ast::Role *role : decl.roles)
    roles.push_back(expander.role(role));
  if (!expander.found)
    return std::nullopt;
  return context.arena.copy(llvm::ArrayRef<ast::Role *>(roles));
}

template <typename Decl>
ast::Decl *expanded(Context &context, ModuleInfo &module, const Decl &decl) {
  if (decl.isBroken)
    return nullptr;
  const auto roles = expandedRoles(context, module, decl);
  if (!roles)
    return nullptr;
  auto *copy = context.arena.make<Decl>(decl.range);
  *copy = decl;
  copy->roles = *roles;
  return copy;
}

} // namespace

bool isTensorFunction(const ast::FnDecl &fn) {
  return !fn.isExtern && llvm::any_of(fn.params, isTensor);
}

void expandTensorFunctions(Context &context) {
  const bool hasAny = llvm::any_of(context.modules, [](const auto &module) {
    return llvm::any_of(module->tree->decls, [](const ast::Decl *decl) {
      const auto *fn = llvm::dyn_cast<ast::FnDecl>(decl);
      return fn != nullptr && isTensorFunction(*fn);
    });
  });
  if (!hasAny)
    return;
  for (const auto &module : context.modules) {
    auto *tree = context.arena.makePlain<ast::Module>();
    *tree = *module->tree;
    llvm::SmallVector<ast::Decl *, 16> decls;
    for (ast::Decl *decl : module->tree->decls) {
      ast::Decl *other = nullptr;
      if (const auto *kernel = llvm::dyn_cast<ast::KernelDecl>(decl))
        other = expanded(context, *module, *kernel);
      else if (const auto *plan = llvm::dyn_cast<ast::PlanDecl>(decl))
        other = expanded(context, *module, *plan);
      decls.push_back(other ? other : decl);
      if (other == nullptr)
        continue;
      context.moduleOf[other] = module.get();
      for (auto &entry : module->names)
        if (entry.second.decl == decl)
          entry.second.decl = other;
    }
    tree->decls = context.arena.copy(llvm::ArrayRef<ast::Decl *>(decls));
    module->tree = tree;
  }
}

const ast::KernelDecl *functionToCheck(Context &context, ModuleInfo &home, const ast::FnDecl *fn) {
  if (fn->isBroken || fn->body == nullptr)
    return nullptr;
  const unsigned errorsBefore = context.errors;
  for (const ast::Param &param : fn->params)
    if (param.mode == ast::ParamMode::ScratchSymm)
      context.report(param.range, diag::mode_in_function, param.name.name,
                     ast::spelling(param.mode));
  if (!fn->results.empty())
    context.report(fn->results.front()->range, diag::tensor_function_result);
  struct Returns : ast::Walker<Returns> {
    using Walker::visit;
    bool visit(const ast::ReturnStmt &s) {
      first = first ? first : &s;
      return false;
    }
    const ast::ReturnStmt *first = nullptr;
  } returns;
  returns.walk(static_cast<const ast::Stmt *>(fn->body));
  if (returns.first != nullptr && fn->results.empty())
    context.report(returns.first->range, diag::tensor_function_result);
  if (context.errors != errorsBefore)
    return nullptr;
  auto *kernel = context.arena.make<ast::KernelDecl>(fn->range);
  kernel->isOfFunction = true;
  // Nobody launches it, and no kernel is called so.
  kernel->name = fn->name;
  kernel->name.name = context.arena.copy(("fn " + fn->name.name).str());
  llvm::SmallVector<ast::GenericParam, 4> generics(fn->generics);
  for (const ast::Param &param : fn->params) {
    const llvm::StringRef type = param.type ? param.type->name.name : "";
    if (type.empty() || isElementType(type) || !isTensor(param) ||
        llvm::any_of(generics, [&](const auto &one) { return one.name.name == type; }))
      continue;
    ast::GenericParam generic;
    generic.range = param.type->range;
    generic.name = param.type->name;
    generic.type = context.arena.makePlain<ast::TypeRef>();
    generic.type->range = param.type->range;
    generic.type->name = {"dtype", param.type->range};
    generic.defaultValue = Make{context.arena, param.type->range}.name("f32");
    generics.push_back(generic);
  }
  kernel->generics = context.arena.copy(llvm::ArrayRef<ast::GenericParam>(generics));
  kernel->params = fn->params;
  kernel->roles = asPlan(*fn, context.arena)->roles;
  if (const auto roles = expandedRoles(context, home, *kernel))
    kernel->roles = *roles;
  context.moduleOf[kernel] = &home;
  return kernel;
}

} // namespace dtile::sema
