// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `BM = auto`: where it may stand, which values it allows, and what the kernel uses it for.
#include "sema/declarations/choices.h"

#include "frontend/ast/ast_visitor.h"
#include "sema/checker.h"

#include "llvm/ADT/StringSet.h"

namespace dtile::sema {

namespace {

constexpr llvm::StringLiteral kAuto = "auto";
constexpr int64_t kUnchosen = 64;

bool isAutoName(const ast::Expr *expr) {
  const auto *name = llvm::dyn_cast_or_null<ast::NameExpr>(expr);
  return name != nullptr && name->name == kAuto;
}

/// The names that expressions and statements mention, and whether they reach other ranks.
struct Mentions : ast::Walker<Mentions> {
  using Walker::visit;
  bool visit(const ast::NameExpr &name) {
    names.insert(name.name);
    return true;
  }
  bool visit(const ast::RemoteExpr &) {
    isRemote = true;
    return true;
  }
  llvm::StringSet<> names;
  bool isRemote = false;
};

/// The names that steps of loops mention, over ranks and others.
struct LoopSteps : ast::Walker<LoopSteps> {
  using Walker::visit;
  bool visit(const ast::ForStmt &loop) {
    const auto *domain = llvm::dyn_cast_or_null<ast::NameExpr>(loop.dim.domain);
    (domain && domain->name == "W" ? ofRanks : steps).walk(loop.dim.step);
    return true;
  }
  Mentions steps;
  Mentions ofRanks;
};

/// Whether a kernel multiplies tiles: in its text, or in that of functions that it may call.
class Products {
public:
  [[nodiscard]] bool areIn(const ModuleInfo &home, const ast::KernelDecl &kernel) {
    for (const ast::Role *role : kernel.roles)
      for (; role != nullptr; role = role->whenAll)
        for (const ast::Stmt *stmt : role->body->statements)
          if (areIn(home, stmt))
            return true;
    return false;
  }

private:
  struct Calls : ast::Walker<Calls> {
    using Walker::visit;
    bool visit(const ast::CallExpr &call) {
      const ast::Expr *callee = call.callee;
      if (const auto *generic = llvm::dyn_cast<ast::GenericExpr>(callee))
        callee = generic->base;
      callees.push_back(callee);
      return true;
    }
    llvm::SmallVector<const ast::Expr *, 8> callees;
  };

  template <typename Tree> bool areIn(const ModuleInfo &home, const Tree *tree) {
    Calls calls;
    calls.walk(tree);
    return llvm::any_of(calls.callees,
                        [&](const ast::Expr *callee) { return isProduct(home, callee); });
  }

  bool isProduct(const ModuleInfo &home, const ast::Expr *callee) {
    const ModuleInfo *module = &home;
    llvm::StringRef name;
    if (const auto *member = llvm::dyn_cast<ast::MemberExpr>(callee)) {
      const auto *base = llvm::dyn_cast<ast::NameExpr>(member->base);
      const auto from = base ? home.names.find(base->name) : home.names.end();
      if (from == home.names.end() || from->second.kind != Symbol::Kind::Module)
        return false;
      // None where it was not found.
      module = from->second.module;
      if (!module)
        return false;
      name = member->member.name;
    } else if (const auto *plain = llvm::dyn_cast<ast::NameExpr>(callee)) {
      name = plain->name;
    }
    const auto called = module->names.find(name);
    if (called == module->names.end())
      return name == "dot";
    const auto *fn = llvm::dyn_cast_or_null<ast::FnDecl>(called->second.decl);
    if (fn == nullptr || fn->body == nullptr || !seen_.insert(fn).second)
      return false;
    return llvm::any_of(fn->body->statements,
                        [&](const ast::Stmt *stmt) { return areIn(*module, stmt); });
  }

  llvm::SmallPtrSet<const ast::FnDecl *, 8> seen_;
};

/// Objects that other ranks reach: their sizes must be the same on all of them.
bool isSeenByRanks(const ast::Param &param) {
  return param.mode == ast::ParamMode::Symm || param.mode == ast::ParamMode::ScratchSymm ||
         (param.type != nullptr && param.type->name.name == "signal");
}

/// What the text of a kernel uses names for.
class Uses {
public:
  explicit Uses(const ast::KernelDecl &kernel) {
    for (const ast::Param &param : kernel.params)
      if (isSeenByRanks(param) && param.type != nullptr)
        for (const ast::Expr *size : param.type->shape)
          shared_.walk(size);
    for (const ast::Stmt *stmt : kernel.prologue)
      shared_.walk(stmt);
    for (const ast::Role *role : kernel.roles)
      add(*role);
  }
  [[nodiscard]] Choice::Use use(llvm::StringRef name) const {
    if (blocks_.names.contains(name))
      return Choice::Use::Block;
    if (loops_.steps.names.contains(name))
      return Choice::Use::Loop;
    if (loops_.ofRanks.names.contains(name))
      return Choice::Use::Ranks;
    return programs_.names.contains(name) ? Choice::Use::Programs : Choice::Use::Other;
  }
  [[nodiscard]] bool isShared(llvm::StringRef name) const { return shared_.names.contains(name); }
  /// Whether it cuts an outer dimension of spaces, and no innermost one of several.
  [[nodiscard]] bool isOuter(llvm::StringRef name) const {
    return blocks_.names.contains(name) && !columns_.names.contains(name);
  }
  [[nodiscard]] bool isAlone(llvm::StringRef name) const {
    return llvm::all_of(spaces_, [&](const Mentions &steps) {
      return !steps.names.contains(name) || steps.names.size() == 1;
    });
  }

private:
  void add(const ast::Role &role) {
    Mentions all;
    add(role.over, all);
    for (const ast::Stmt *stmt : role.body->statements) {
      all.walk(stmt);
      loops_.walk(stmt);
    }
    if (all.isRemote)
      for (const auto &name : all.names)
        shared_.names.insert(name.first());
    if (role.whenAll != nullptr)
      add(*role.whenAll);
  }
  void add(const ast::OverClause *over, Mentions &all) {
    if (over == nullptr)
      return;
    Mentions &steps = spaces_.emplace_back();
    for (const ast::IterDim &dim : over->dims) {
      blocks_.walk(dim.step);
      steps.walk(dim.step);
      all.walk(dim.domain);
      all.walk(dim.step);
    }
    if (over->dims.size() > 1)
      columns_.walk(over->dims.back().step);
    programs_.walk(over->programs);
    // Ranks meet where the copy engine sends, and scratch objects have one copy.
    shared_.walk(over->copyEngineIf);
  }

  Mentions blocks_, programs_, shared_;
  /// The steps of innermost dimensions, where there are several.
  Mentions columns_;
  /// The steps of each space.
  std::vector<Mentions> spaces_;
  LoopSteps loops_;
};

} // namespace

bool isChoice(const ModuleInfo &home, const ast::GenericParam &generic) {
  const ast::Expr *value = generic.defaultValue;
  if (const auto *call = llvm::dyn_cast_or_null<ast::CallExpr>(value))
    value = call->callee;
  return isAutoName(value) && home.names.count(kAuto) == 0;
}

std::optional<std::vector<int64_t>> allowedValues(Context &context, ModuleInfo &home,
                                                  const ast::GenericParam &generic) {
  std::vector<int64_t> values;
  const auto *call = llvm::dyn_cast<ast::CallExpr>(generic.defaultValue);
  if (call == nullptr)
    return values;
  Checker checker(context, home);
  checker.scope.push();
  for (const ast::Arg &arg : call->args) {
    if (!arg.label.name.empty()) {
      context.report(arg.value->range, diag::bad_choice, generic.name.name,
                     "takes values without names");
      return std::nullopt;
    }
    const std::optional<GenericValue> value =
        checker.genericValue(arg.value, GenericValue::Kind::Int);
    if (!value)
      return std::nullopt;
    if (llvm::is_contained(values, value->intValue)) {
      context.report(arg.value->range, diag::bad_choice, generic.name.name,
                     "names " + std::to_string(value->intValue) + " twice");
      return std::nullopt;
    }
    values.push_back(value->intValue);
  }
  if (!values.empty())
    return values;
  context.report(call->range, diag::bad_choice, generic.name.name,
                 "allows no value; write `auto` for any, or name some: `auto(64, 128)`");
  return std::nullopt;
}

GenericValue unchosenValue(Context &context, ModuleInfo &home, const ast::GenericParam &generic) {
  GenericValue value{.kind = GenericValue::Kind::Int, .intValue = kUnchosen};
  if (const auto allowed = allowedValues(context, home, generic); allowed && !allowed->empty())
    value.intValue = allowed->front();
  return value;
}

GenericValue usualValue(const Choice &choice) {
  GenericValue value{.kind = GenericValue::Kind::Int, .intValue = kUnchosen};
  if (!choice.allowed.empty())
    value.intValue = choice.allowed.front();
  else if (choice.use == Choice::Use::Programs)
    value.intValue = 8;
  else if (choice.use == Choice::Use::Ranks)
    value.intValue = 4;
  return value;
}

namespace {

/// Whether a role's `copy_engine` mentions a parameter.
bool decidesCopyEngine(const ast::KernelDecl &kernel, llvm::StringRef name) {
  Mentions conditions;
  for (const ast::Role *role : kernel.roles)
    for (const ast::Role *one = role; one != nullptr; one = one->whenAll)
      if (one->over != nullptr)
        conditions.walk(one->over->copyEngineIf);
  return conditions.names.contains(name);
}

} // namespace

void checkChoices(Context &context, ModuleInfo &home, const ast::KernelDecl &kernel) {
  for (const ast::GenericParam &generic : kernel.generics) {
    if (!isChoice(home, generic))
      continue;
    if (genericKind(generic) != GenericValue::Kind::Int) {
      context.report(generic.range, diag::bad_choice, generic.name.name, "is no number");
      continue;
    }
    const auto allowed = allowedValues(context, home, generic);
    if (!allowed)
      continue;
    if (allowed->empty() && decidesCopyEngine(kernel, generic.name.name))
      context.report(generic.range, diag::bad_choice, generic.name.name,
                     "the copy engine sends or does not: write `auto(0, 1)`");
    for (const ast::Param &param : kernel.params) {
      const bool isPassed = param.mode != ast::ParamMode::ScratchSymm && param.type != nullptr &&
                            param.type->name.name != "signal";
      Mentions sizes;
      if (isPassed)
        for (const ast::Expr *size : param.type->shape)
          sizes.walk(size);
      if (sizes.names.contains(generic.name.name))
        context.report(generic.range, diag::choice_in_shape, generic.name.name, param.name.name)
            .note(param.range, diag::note_declared_here, param.name.name);
    }
  }
}

void rejectChoices(Context &context, ModuleInfo &home, const ast::FnDecl &fn) {
  for (const ast::GenericParam &generic : fn.generics)
    if (isChoice(home, generic))
      context.report(generic.range, diag::choice_of_function, generic.name.name, fn.name.name);
}

std::vector<Choice> choicesOf(Context &context, ModuleInfo &home, const ast::KernelDecl &kernel) {
  std::vector<Choice> choices;
  const Uses uses(kernel);
  const bool multiplies = Products().areIn(home, kernel);
  for (const ast::GenericParam &generic : kernel.generics) {
    if (!isChoice(home, generic))
      continue;
    Choice choice;
    choice.name = generic.name.name.str();
    choice.range = generic.range;
    choice.allowed = allowedValues(context, home, generic).value_or(std::vector<int64_t>());
    choice.use = uses.use(generic.name.name);
    choice.isAlone = uses.isAlone(generic.name.name);
    choice.isShared = uses.isShared(generic.name.name);
    choice.isOuter = uses.isOuter(generic.name.name);
    choice.multiplies = multiplies;
    if (context.orders.contains(&kernel) && &generic == &kernel.generics.back()) {
      choice.use = Choice::Use::Order;
      // Passes may merge what is notified by what is waited for.
      choice.isShared = true;
    }
    choices.push_back(std::move(choice));
  }
  return choices;
}

} // namespace dtile::sema
