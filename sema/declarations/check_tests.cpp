// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests, benches and `ensures` run on whole arrays, straight from the syntax tree. Here only their
// names are checked, so that a misspelling is found before anything runs.
#include "frontend/ast/mesh.h"
#include "frontend/ast/new_axis.h"
#include "sema/checker.h"
#include "sema/declarations/alternatives.h"
#include "sema/declarations/function_kernel.h"
#include "sema/declarations/tensor_functions.h"
#include "sema/declarations/test_signatures.h"

namespace dtile::sema {

namespace {

bool isTestBuiltin(llvm::StringRef name) { return !testSignature(name).empty(); }

void considerTestBuiltins(SpellingSuggestion &suggestion) {
#define TEST_BUILTIN(ID, NAME, SIGNATURE, DOC) suggestion.consider(NAME);
#include "sema/declarations/test_builtins.def"
}

/// What stands in kernels and functions for their effect, and has no value that a test could look
/// at.
bool actsOnMemory(llvm::StringRef name) {
  constexpr llvm::StringLiteral kActs[] = {"put",   "get",   "notify",  "wait",  "await",
                                           "quiet", "fence", "barrier", "print", "reduce_add"};
  return llvm::is_contained(kActs, name);
}

/// What a test writes for a function that exists in kernels or elsewhere only; empty where nothing
/// is known.
std::string insteadInTests(llvm::StringRef name) {
  if (!callHandler(name))
    return "";
  std::string advice = ("`" + name + "` stands in kernels and functions only").str();
  if (!actsOnMemory(name))
    advice += ", and a test can call a `fn` of its file that calls it";
  return advice;
}

class NameChecker {
public:
  NameChecker(Context &context, ModuleInfo &module) : context_(context), module_(module) {
    scope_.push();
  }

  /// Whether the test's ranks have axes.
  void setOnMesh(bool isOnMesh) { isOnMesh_ = isOnMesh; }
  /// Axes have the names that the kernels of a test give them.
  void setMeshOf(const ast::BlockStmt &test) {
    mesh_ = ast::meshCalledIn(test, [&](const ast::Expr &callee) { return kernelNamed(&callee); });
  }
  /// What a kernel promises, instead of a test's body; the mesh that it may speak of.
  void setPromise(const ast::MeshStmt *mesh) {
    isPromise_ = true;
    mesh_ = mesh;
  }

  void declare(const ast::Ident &name, Symbol::Kind kind = Symbol::Kind::Local) {
    Symbol symbol;
    symbol.kind = kind;
    symbol.name = name.name;
    symbol.range = name.range;
    scope_.declare(symbol);
  }

  void block(const ast::BlockStmt *body) {
    if (!body)
      return;
    scope_.push();
    for (const ast::Stmt *s : body->statements)
      statement(s);
    scope_.pop([](const Symbol &) {});
  }

  void expectation(const ast::ExpectStmt *s) {
    for (const ast::Expr *e : {s->condition, s->rtol, s->atol})
      expression(e);
  }

  void expression(const ast::Expr *e) {
    if (!e)
      return;
    switch (e->kind) {
    case ast::NodeKind::NameExpr:
      return name(llvm::cast<ast::NameExpr>(e));
    case ast::NodeKind::UnaryExpr:
      return expression(llvm::cast<ast::UnaryExpr>(e)->operand);
    case ast::NodeKind::BinaryExpr:
      expression(llvm::cast<ast::BinaryExpr>(e)->lhs);
      return expression(llvm::cast<ast::BinaryExpr>(e)->rhs);
    case ast::NodeKind::CallExpr:
      return call(llvm::cast<ast::CallExpr>(e));
    case ast::NodeKind::GenericExpr:
      return generics(llvm::cast<ast::GenericExpr>(e), nullptr);
    case ast::NodeKind::IndexExpr:
      callee(llvm::cast<ast::IndexExpr>(e)->base, /*isCalled=*/false);
      for (const ast::Expr *index : llvm::cast<ast::IndexExpr>(e)->indices)
        if (!ast::isNewAxis(index) || find("None"))
          expression(index);
      return;
    case ast::NodeKind::MemberExpr:
      return member(llvm::cast<ast::MemberExpr>(e));
    case ast::NodeKind::RangeExpr:
      expression(llvm::cast<ast::RangeExpr>(e)->lo);
      return expression(llvm::cast<ast::RangeExpr>(e)->hi);
    case ast::NodeKind::ConditionalExpr:
      expression(llvm::cast<ast::ConditionalExpr>(e)->condition);
      expression(llvm::cast<ast::ConditionalExpr>(e)->whenTrue);
      return expression(llvm::cast<ast::ConditionalExpr>(e)->whenFalse);
    case ast::NodeKind::RemoteExpr:
      context_.report(e->range, diag::no_order_in_test)
          .note(e->range, diag::note_dtile_form,
                "the product of matrices is `matmul(a, b)`, and another rank's array "
                "`from_rank(x, r)`");
      return;
    case ast::NodeKind::AfterExpr:
      context_.report(e->range, diag::no_order_in_test);
      return;
    default:
      return;
    }
  }

private:
  void statement(const ast::Stmt *s) {
    switch (s->kind) {
    case ast::NodeKind::LetStmt:
      expression(llvm::cast<ast::LetStmt>(s)->value);
      for (const ast::Ident &ident : llvm::cast<ast::LetStmt>(s)->names)
        declare(ident);
      return;
    case ast::NodeKind::VarStmt:
      expression(llvm::cast<ast::VarStmt>(s)->value);
      return declare(llvm::cast<ast::VarStmt>(s)->name);
    case ast::NodeKind::AssignStmt:
      expression(llvm::cast<ast::AssignStmt>(s)->target);
      return expression(llvm::cast<ast::AssignStmt>(s)->value);
    case ast::NodeKind::ExprStmt:
      return expression(llvm::cast<ast::ExprStmt>(s)->value);
    case ast::NodeKind::ForStmt: {
      const auto *loop = llvm::cast<ast::ForStmt>(s);
      expression(loop->dim.domain);
      expression(loop->dim.step);
      warnOfDescent(loop->dim.domain);
      scope_.push();
      declare(loop->dim.name);
      block(loop->body);
      scope_.pop([](const Symbol &) {});
      return;
    }
    case ast::NodeKind::WhileStmt:
      expression(llvm::cast<ast::WhileStmt>(s)->condition);
      return block(llvm::cast<ast::WhileStmt>(s)->body);
    case ast::NodeKind::IfStmt: {
      const auto *choice = llvm::cast<ast::IfStmt>(s);
      expression(choice->condition);
      block(choice->then);
      if (choice->otherwise)
        statement(choice->otherwise);
      return;
    }
    case ast::NodeKind::ExpectStmt:
      return expectation(llvm::cast<ast::ExpectStmt>(s));
    case ast::NodeKind::BlockStmt:
      return block(llvm::cast<ast::BlockStmt>(s));
    case ast::NodeKind::ReturnStmt:
    case ast::NodeKind::YieldStmt:
    case ast::NodeKind::AwaitStmt:
      context_.report(s->range, diag::no_order_in_test);
      return;
    default:
      return;
    }
  }

  // `for i in 7..0`
  void warnOfDescent(const ast::Expr *domain) {
    const auto *range = llvm::dyn_cast_or_null<ast::RangeExpr>(domain);
    const auto *lo = range ? llvm::dyn_cast_or_null<ast::IntLit>(range->lo) : nullptr;
    const auto *hi = range ? llvm::dyn_cast_or_null<ast::IntLit>(range->hi) : nullptr;
    if (lo && hi && lo->value > hi->value)
      context_.report(range->range, diag::empty_loop, lo->value, hi->value);
  }

  const Symbol *find(llvm::StringRef name) {
    if (const Symbol *local = scope_.lookup(name))
      return local;
    auto found = module_.names.find(name);
    if (found == module_.names.end())
      return nullptr;
    found->second.used = true;
    return &found->second;
  }

  void name(const ast::NameExpr *e) {
    // What the parser has put in place of a form that it reported.
    if (e->name.empty())
      return;
    const bool isPredeclared = e->name == "W" || isNumberName(e->name);
    if (find(e->name) || isPredeclared || dtypeFromName(e->name))
      return;
    SpellingSuggestion suggestion(e->name);
    scope_.forEachName([&](llvm::StringRef n) { suggestion.consider(n); });
    for (const auto &entry : module_.names)
      suggestion.consider(entry.first());
    auto message = context_.report(e->range, diag::unknown_name, e->name);
    if (noteHabit(message, e->range, e->name))
      return;
    if (!suggestion.best().empty())
      message.note(e->range, diag::note_did_you_mean, suggestion.best())
          .fix(e->range, suggestion.best());
  }

  // Says what a test has for what another language, or a kernel, calls so.
  static bool noteHabit(DiagBuilder &message, SourceRange place, llvm::StringRef name) {
    const habits::Word *word = habits::findInTests(name);
    if (!word)
      return false;
    message.note(place, diag::note_dtile_form, word->advice);
    if (!word->replacement.empty())
      message.fix(place, word->replacement);
    return true;
  }

  // `np.zeros(…)`, `torch.testing.assert_close`: functions of libraries, which have no prefix here.
  bool isOfLibrary(const ast::MemberExpr *e) {
    const ast::Expr *root = e->base;
    while (const auto *inner = llvm::dyn_cast<ast::MemberExpr>(root))
      root = inner->base;
    const auto *library = llvm::dyn_cast<ast::NameExpr>(root);
    if (!library || !habits::isModule(library->name) || find(library->name))
      return false;
    const llvm::StringRef function = e->member.name;
    auto message = context_.report(library->range, diag::unknown_name, library->name);
    if (isTestBuiltin(function) || isNumberName(function))
      message.note(e->range, diag::note_did_you_mean, function).fix(e->range, function);
    else if (const std::string instead = insteadInTests(function);
             !noteHabit(message, e->range, function) && !instead.empty())
      message.note(e->range, diag::note_dtile_form, instead);
    return true;
  }

  // `module.name`, or a member of an array.
  void member(const ast::MemberExpr *e) {
    const auto *base = llvm::dyn_cast<ast::NameExpr>(e->base);
    const Symbol *symbol = base ? find(base->name) : nullptr;
    if (isOfLibrary(e))
      return;
    if (!symbol || symbol->kind != Symbol::Kind::Module) {
      expression(e->base);
      if (e->member.name != "T")
        noMember(e);
      return;
    }
    if (!symbol->module || symbol->module->names.count(e->member.name))
      return;
    SpellingSuggestion suggestion(e->member.name);
    for (const auto &entry : symbol->module->names)
      suggestion.consider(entry.first());
    auto message =
        context_.report(e->member.range, diag::unknown_module_member, base->name, e->member.name);
    if (isTestBuiltin(e->member.name) || isNumberName(e->member.name))
      message.note(e->range, diag::note_dtile_form, ("`" + e->member.name + "` is built in").str())
          .fix(e->range, e->member.name);
    else if (!suggestion.best().empty())
      message.note(e->member.range, diag::note_did_you_mean, suggestion.best())
          .fix(e->member.range, suggestion.best());
  }

  // Arrays have `.T`; all else is a function.
  void noMember(const ast::MemberExpr *e) {
    const llvm::StringRef name = e->member.name;
    const habits::Word *habit = habits::findMemberInTests(name);
    std::string advice;
    if (isTestBuiltin(name) && name != "reshape")
      advice =
          ("it is a function: `" + name + "(" + context_.sources.text(e->base->range) + ")`").str();
    else if (habit)
      advice = habit->advice.str();
    else
      advice = "an array of a test has `.T` only";
    context_.report(e->member.range, diag::unknown_member, "an array of a test", name)
        .note(e->member.range, diag::note_dtile_form, advice);
  }

  // What a kernel reads is given; outputs are results, and the rest is the launch's own.
  static bool isGiven(const ast::Param &param) {
    const bool isSignal = param.type && param.type->name.name == "signal";
    return param.mode != ast::ParamMode::Out && param.mode != ast::ParamMode::ScratchSymm &&
           !isSignal;
  }

  void kernelArguments(const ast::CallExpr *e) {
    const auto *generic = llvm::dyn_cast<ast::GenericExpr>(e->callee);
    const ast::Expr *called = generic ? generic->base : e->callee;
    const ast::KernelDecl *kernel = kernelNamed(called);
    if (!kernel)
      return;
    std::string names;
    size_t wanted = 0, defaults = 0;
    bool hasBuffer = false;
    for (const ast::Param &param : kernel->params)
      if (isGiven(param)) {
        hasBuffer |= param.mode == ast::ParamMode::Symm;
        names += (wanted++ == 0 ? "`" : ", `") + param.name.name.str() + "`";
        defaults += param.init ? 1 : 0;
      }
    // On a mesh, scalars that are sizes of axes may be left out. A name for several has their mesh.
    const ast::KernelDecl *withMesh = kernel;
    if (!kernel->alternatives.empty())
      for (const ast::KernelDecl *one : alternativesOf(*context_.moduleOf.lookup(kernel), *kernel))
        withMesh = one;
    const auto axes = size_t(llvm::count_if(kernel->params, [&](const ast::Param &param) {
      return isOnMesh_ && !param.init && ast::axisSizedBy(*withMesh, param).has_value();
    }));
    if (e->args.size() <= wanted && e->args.size() + axes + defaults >= wanted)
      return;
    const std::string least = defaults == 0 ? "" : std::to_string(wanted - defaults) + " to ";
    context_
        .report(e->range, diag::wrong_argument_count, kernel->name.name,
                least + std::to_string(wanted) + (wanted == 1 ? " argument" : " arguments"),
                e->args.size())
        .note(kernel->name.range, diag::note_dtile_form,
              wanted == 0 ? "it reads nothing of callers"
                          : "callers give " + names + "; outputs are results" +
                                (hasBuffer ? ", and a buffer that only the kernel uses is "
                                             "`scratch symm`"
                                           : ""));
  }

  // Number and labels of what a test function is given.
  void testArguments(const ast::CallExpr *e) {
    const ast::Expr *called = e->callee;
    if (const auto *index = llvm::dyn_cast<ast::IndexExpr>(called))
      called = index->base;
    if (const auto *generic = llvm::dyn_cast<ast::GenericExpr>(called))
      called = generic->base;
    const auto *name = llvm::dyn_cast<ast::NameExpr>(called);
    const llvm::StringRef signature = name ? testSignature(name->name) : "";
    // A kernel of that name goes before, and axes are no arguments.
    const Symbol *symbol = name && !isPromise_ ? find(name->name) : nullptr;
    const bool isKernel =
        symbol && (symbol->kind == Symbol::Kind::Kernel || symbol->kind == Symbol::Kind::Overlap);
    if (signature.empty() || isKernel || ast::axisNamedBy(e) || (mesh_ && name->name == "rank"))
      return;
    llvm::SmallVector<llvm::StringRef, 3> labels;
    for (const ast::Arg &arg : e->args)
      if (!arg.label.name.empty())
        labels.push_back(arg.label.name);
    const auto count = unsigned(e->args.size() - labels.size());
    const auto forms = testForms(signature);
    if (llvm::any_of(forms, [&](const TestForm &form) { return form.fits(count, labels); }))
      return;
    const std::string form =
        "it is `" + name->name.str() + signature.split(" ->").first.str() + "`";
    for (const ast::Arg &arg : e->args) {
      const llvm::StringRef label = arg.label.name;
      if (label.empty() || llvm::any_of(forms, [&](const TestForm &one) {
            return llvm::is_contained(one.labels, label);
          }))
        continue;
      context_.report(arg.label.range, diag::unknown_label, name->name, label)
          .note(arg.label.range, diag::note_dtile_form, form);
      return;
    }
    std::string wanted;
    for (const TestForm &one : forms) {
      const std::string number = std::to_string(one.least);
      if (wanted != number)
        wanted += (wanted.empty() ? "" : " or ") + number;
    }
    context_
        .report(e->range, diag::wrong_argument_count, name->name,
                wanted + (wanted == "1" ? " argument" : " arguments") +
                    (forms.front().isOpen ? " or more" : ""),
                count)
        .note(name->range, diag::note_dtile_form, form);
  }

  // Of a function of the program: its body is checked by the types that the test gives.
  void functionArguments(const ast::CallExpr *e, const ast::FnDecl &fn) {
    size_t least = 0;
    for (const ast::Param &param : fn.params)
      least += param.init ? 0 : 1;
    for (const ast::Arg &arg : e->args) {
      if (arg.label.name.empty() || llvm::any_of(fn.params, [&](const ast::Param &param) {
            return param.name.name == arg.label.name;
          }))
        continue;
      context_.report(arg.label.range, diag::unknown_label, fn.name.name, arg.label.name)
          .note(fn.name.range, diag::note_declared_here, fn.name.name);
      return;
    }
    const size_t most = fn.params.size();
    if (e->args.size() >= least && e->args.size() <= most)
      return;
    context_
        .report(e->range, diag::wrong_argument_count, fn.name.name,
                std::to_string(least) + (least == most ? "" : " to " + std::to_string(most)) +
                    (most == 1 ? " argument" : " arguments"),
                e->args.size())
        .note(fn.name.range, diag::note_declared_here, fn.name.name);
  }

  // The function of the program that a call names; test functions go before it.
  const ast::FnDecl *functionCalled(const ast::Expr *callee) {
    const auto *name = llvm::dyn_cast<ast::NameExpr>(callee);
    if (name && isTestBuiltin(name->name))
      return nullptr;
    const ast::FnDecl *fn = functionNamed(module_, callee);
    return fn && !isTensorFunction(*fn) ? fn : nullptr;
  }

  void call(const ast::CallExpr *e) {
    kernelArguments(e);
    testArguments(e);
    const auto *generic = llvm::dyn_cast<ast::GenericExpr>(e->callee);
    if (const ast::FnDecl *fn = functionCalled(generic ? generic->base : e->callee))
      functionArguments(e, *fn);
    callee(e->callee, /*isCalled=*/true);
    if (const ast::NameExpr *own = ast::axisNamedBy(e))
      return axis(own->name, own->range);
    const auto *called = llvm::dyn_cast<ast::NameExpr>(e->callee);
    for (const ast::Arg &arg : e->args) {
      const auto *named = llvm::dyn_cast<ast::NameExpr>(arg.value);
      if (arg.label.name == ast::kAlongLabel && named) {
        axis(named->name, named->range);
        continue;
      }
      if (called && called->name == "rank" && !arg.label.name.empty())
        axis(arg.label.name, arg.label.range);
      expression(arg.value);
    }
  }

  void axis(llvm::StringRef name, SourceRange place) {
    if (!mesh_) {
      context_.report(place, diag::no_mesh, name);
      return;
    }
    std::string names;
    for (const ast::MeshAxis &one : mesh_->axes) {
      if (one.name.name == name)
        return;
      names += (names.empty() ? "`" : ", `") + one.name.name.str() + "`";
    }
    context_.report(place, diag::unknown_axis, name, names)
        .note(mesh_->range, diag::note_declared_here, "mesh");
  }

  // What is called or given sizes: a function, `zeros` and the like, or an array.
  void callee(const ast::Expr *e, bool isCalled) {
    if (const auto *index = llvm::dyn_cast<ast::IndexExpr>(e); index && isCalled) {
      for (const ast::Expr *size : index->indices)
        expression(size);
      return callee(index->base, isCalled);
    }
    if (const auto *generic = llvm::dyn_cast<ast::GenericExpr>(e)) {
      callee(generic->base, /*isCalled=*/true);
      return generics(generic, kernelNamed(generic->base));
    }
    if (isCalled && functionCalled(e))
      return markUsed(e);
    const auto *name = llvm::dyn_cast<ast::NameExpr>(e);
    if (!name)
      return expression(e);
    const Symbol *symbol = find(name->name);
    if (isTestBuiltin(name->name) || (symbol && !isCalled))
      return;
    // Why an overlap is no kernel was said.
    if (symbol && (symbol->kind == Symbol::Kind::Kernel || symbol->kind == Symbol::Kind::Overlap))
      return;
    if (!isCalled)
      return expression(e);
    if (symbol) {
      context_.report(name->range, diag::not_callable_in_test, name->name)
          .note(symbol->range, diag::note_declared_here, name->name);
      return;
    }
    SpellingSuggestion suggestion(name->name);
    considerTestBuiltins(suggestion);
    for (const auto &entry : module_.names)
      if (entry.second.kind == Symbol::Kind::Kernel)
        suggestion.consider(entry.first());
    auto message = context_.report(name->range, diag::unknown_function, name->name);
    const llvm::StringRef elsewhere = habits::elementType(name->name);
    const std::string instead = insteadInTests(name->name);
    const habits::Word *word = habits::findInTests(name->name);
    if (dtypeFromName(name->name) || !elsewhere.empty()) {
      const llvm::StringRef dtype = elsewhere.empty() ? name->name : elsewhere;
      const std::string meant = ("cast<" + dtype + ">").str();
      message.note(name->range, diag::note_did_you_mean, meant).fix(name->range, meant);
    } else if (word) {
      message.note(name->range, diag::note_dtile_form, word->advice);
    } else if (!instead.empty())
      message.note(name->range, diag::note_dtile_form, instead);
    else if (!suggestion.best().empty())
      message.note(name->range, diag::note_did_you_mean, suggestion.best())
          .fix(name->range, suggestion.best());
  }

  // The function or module that a callee begins with.
  void markUsed(const ast::Expr *e) {
    while (const auto *member = llvm::dyn_cast<ast::MemberExpr>(e))
      e = member->base;
    (void)find(llvm::cast<ast::NameExpr>(e)->name);
  }

  const ast::KernelDecl *kernelNamed(const ast::Expr *e) {
    const Symbol *symbol = nullptr;
    if (const auto *name = llvm::dyn_cast<ast::NameExpr>(e)) {
      symbol = find(name->name);
    } else if (const auto *member = llvm::dyn_cast<ast::MemberExpr>(e)) {
      const auto *base = llvm::dyn_cast<ast::NameExpr>(member->base);
      const Symbol *module = base ? find(base->name) : nullptr;
      if (module && module->kind == Symbol::Kind::Module && module->module) {
        auto found = module->module->names.find(member->member.name);
        symbol = found == module->module->names.end() ? nullptr : &found->second;
      }
    }
    return symbol && symbol->kind == Symbol::Kind::Kernel
               ? llvm::cast<ast::KernelDecl>(symbol->decl)
               : nullptr;
  }

  /// The alternative that a call pins, whose own compile-time parameters it may pin, too; else what
  /// is called.
  const ast::KernelDecl *pinned(const ast::GenericExpr *e, const ast::KernelDecl &kernel) {
    if (kernel.alternatives.empty())
      return &kernel;
    const auto alternatives = alternativesOf(*context_.moduleOf.lookup(&kernel), kernel);
    for (const ast::Arg &arg : e->args) {
      if (arg.label.name != kAlternativeLabel)
        continue;
      const auto *name = llvm::dyn_cast<ast::NameExpr>(arg.value);
      for (const ast::KernelDecl *one : alternatives)
        if (name && one->name.name == name->name)
          return one;
      std::string names;
      for (const ast::KernelDecl *one : alternatives)
        names += (names.empty() ? "`" : ", `") + one->name.name.str() + "`";
      context_.report(arg.value->range, diag::no_such_alternative,
                      context_.sources.text(arg.value->range), kernel.name.name, names);
    }
    return &kernel;
  }

  void generics(const ast::GenericExpr *e, const ast::KernelDecl *kernel) {
    for (const ast::Arg &arg : e->args) {
      expression(arg.value);
      if (!kernel || arg.label.name.empty())
        continue;
      SpellingSuggestion suggestion(arg.label.name);
      bool known = false;
      for (const ast::GenericParam &generic : pinned(e, *kernel)->generics) {
        suggestion.consider(generic.name.name);
        known |= generic.name.name == arg.label.name;
      }
      if (known || (!kernel->alternatives.empty() && arg.label.name == kAlternativeLabel))
        continue;
      auto message = context_.report(arg.label.range, diag::unknown_generic, kernel->name.name,
                                     arg.label.name);
      if (!suggestion.best().empty())
        message.note(arg.label.range, diag::note_did_you_mean, suggestion.best())
            .fix(arg.label.range, suggestion.best());
    }
  }

  Context &context_;
  ModuleInfo &module_;
  Scope scope_;
  bool isOnMesh_ = false;
  bool isPromise_ = false;
  const ast::MeshStmt *mesh_ = nullptr;
};

} // namespace

void checkTests(Context &context, ModuleInfo &module) {
  for (const ast::Decl *decl : module.tree->decls) {
    llvm::ArrayRef<ast::Expr *> ranks;
    const ast::BlockStmt *body = nullptr;
    if (const auto *test = llvm::dyn_cast<ast::TestDecl>(decl)) {
      ranks = test->ranks;
      body = test->body;
    } else if (const auto *bench = llvm::dyn_cast<ast::BenchDecl>(decl)) {
      ranks = bench->ranks;
      body = bench->body;
    } else {
      continue;
    }
    NameChecker checker(context, module);
    checker.setOnMesh(llvm::any_of(
        ranks, [](const ast::Expr *count) { return ast::meshOfTest(count) != nullptr; }));
    for (const ast::Expr *count : ranks)
      if (const ast::CallExpr *mesh = ast::meshOfTest(count))
        for (const ast::Arg &axis : mesh->args)
          checker.expression(axis.value);
      else
        checker.expression(count);
    if (body)
      checker.setMeshOf(*body);
    checker.block(body);
  }
}

namespace {

void declareShapeNames(NameChecker &checker, const ast::Expr *size) {
  if (const auto *name = llvm::dyn_cast<ast::NameExpr>(size)) {
    checker.declare({name->name, name->range}, Symbol::Kind::Size);
  } else if (const auto *binary = llvm::dyn_cast<ast::BinaryExpr>(size)) {
    declareShapeNames(checker, binary->lhs);
    declareShapeNames(checker, binary->rhs);
  }
}

} // namespace

void checkEnsures(Context &context, ModuleInfo &module, const ast::KernelDecl *kernel) {
  if (kernel->ensures.empty())
    return;
  NameChecker checker(context, module);
  checker.setPromise(ast::meshOf(*kernel));
  for (const ast::Param &param : kernel->params) {
    checker.declare(param.name);
    if (param.type)
      for (const ast::Expr *size : param.type->shape)
        declareShapeNames(checker, size);
  }
  for (const ast::GenericParam &generic : kernel->generics)
    checker.declare(generic.name);
  for (const ast::ExpectStmt *promise : kernel->ensures)
    checker.expectation(promise);
}

} // namespace dtile::sema
