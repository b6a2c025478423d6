// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Puts the parts of a joined kernel together.
#include "sema/join/join.h"

#include "frontend/ast/ast_visitor.h"
#include "frontend/base/dtype.h"
#include "sema/join/joint.h"
#include "sema/join/make.h"
#include "sema/join/rewriter.h"

namespace dtile::join {

namespace {

bool isSignal(const ast::Param &param) {
  return param.type != nullptr && param.type->name.name == "signal";
}

/// Copies a declaration's parts with the names that they have in the joined kernel.
class Importer : public Rewriter {
public:
  Importer(const Joint &joint, const Names &names, const Home &home, const Stage *stage)
      : Rewriter(joint.arena), joint_(joint), names_(names), home_(home), stage_(stage) {}

  /// A parameter of the plan, for tensors of as many dimensions as the kernel's.
  ast::Param adapted(const ast::Param &param) {
    ast::Param copy = this->param(param);
    if (!copy.type || !stage_ || !stage_->isAdapted())
      return copy;
    copy.type->shape = adaptedDims(param, copy.type->shape, [this](ast::Expr *size) {
      return resolved(joint_, size, stage_->clause->range);
    });
    return copy;
  }

protected:
  ast::Ident ident(const ast::Ident &name) override {
    ast::Ident other = name;
    if (stage_ != nullptr)
      if (const auto found = stage_->renames.find(name.name); found != stage_->renames.end())
        other.name = found->second;
    // Types of elements are names that values stand for.
    if (const llvm::StringRef value = nameOf(joint_.values.lookup(other.name)); !value.empty())
      other.name = value;
    return other;
  }

  ast::Expr *replaced(const ast::Expr &e) override {
    if (const auto *index = llvm::dyn_cast<ast::IndexExpr>(&e); index && stage_)
      return adaptedIndex(*index);
    const auto *name = llvm::dyn_cast<ast::NameExpr>(&e);
    if (name == nullptr)
      return nullptr;
    llvm::StringRef text = name->name;
    if (stage_ != nullptr)
      if (const auto found = stage_->renames.find(text); found != stage_->renames.end())
        text = found->second;
    if (const ast::Expr *value = joint_.values.lookup(text))
      return resolved(joint_, value, e.range);
    if (text != name->name)
      return Make{arena_, e.range}.name(text);
    if (names_.declares(text))
      return nullptr;
    if (text == "W")
      return numRanks(joint_, e.range);
    return home_.qualified ? home_.qualified(text, e.range) : nullptr;
  }

private:
  // The dimensions of a plan's parameter, or indices of it, for the kernel's number of dimensions.
  template <typename Value>
  llvm::ArrayRef<ast::Expr *> adaptedDims(const ast::Param &param,
                                          llvm::ArrayRef<ast::Expr *> items, Value value) {
    llvm::SmallVector<ast::Expr *, 6> dims;
    for (size_t i = 0; i < items.size() && i < param.type->shape.size(); ++i) {
      const llvm::StringRef size = nameOf(param.type->shape[i]);
      if (size == stage_->partName)
        for (ast::Expr *dim : stage_->leading)
          dims.push_back(value(dim));
      if (!stage_->rest || size != stage_->restName || size.empty())
        dims.push_back(items[i]);
      const bool isLast = i + 1 == items.size() || size == stage_->restName;
      if (stage_->rest && isLast && (size == stage_->restName || stage_->restName.empty()) &&
          hasPart(param))
        for (ast::Expr *dim : *stage_->rest)
          dims.push_back(value(dim));
    }
    return arena_.copy(llvm::ArrayRef<ast::Expr *>(dims));
  }

  bool hasPart(const ast::Param &param) const {
    return llvm::any_of(param.type->shape,
                        [&](const ast::Expr *size) { return nameOf(size) == stage_->partName; });
  }

  ast::Expr *adaptedIndex(const ast::IndexExpr &e) {
    if (!stage_->isAdapted())
      return nullptr;
    const ast::Expr *base = e.base;
    if (const auto *remote = llvm::dyn_cast<ast::RemoteExpr>(base))
      base = remote->base;
    const auto *param = llvm::find_if(stage_->plan->params, [&](const ast::Param &one) {
      return one.name.name == nameOf(base) && one.type && one.type->hasShape && hasPart(one);
    });
    if (param == stage_->plan->params.end())
      return nullptr;
    for (size_t i = 0; i < e.indices.size() && i < param->type->shape.size(); ++i)
      if (stage_->rest && !stage_->restName.empty() &&
          nameOf(param->type->shape[i]) == stage_->restName && !isWhole(e.indices[i])) {
        joint_.diags.report(e.indices[i]->range, diag::plan_of_fixed_rank, stage_->plan->name.name,
                            stage_->leading.size() + 1 + stage_->rest->size(), stage_->restName);
        return nullptr;
      }
    auto *copy = arena_.make<ast::IndexExpr>(e.range);
    copy->base = expr(e.base);
    copy->indices = adaptedDims(*param, exprs(e.indices),
                                [&](ast::Expr *) { return Make{arena_, e.range}.whole(); });
    return copy;
  }

  const Joint &joint_;
  const Names &names_;
  const Home &home_;
  const Stage *stage_;
};

/// The names of types that a plan uses without saying what they are: they follow from the kernel.
llvm::SmallVector<ast::Ident, 2> openTypes(const ast::PlanDecl &plan) {
  llvm::SmallVector<ast::Ident, 2> open;
  const auto isKnown = [&](llvm::StringRef name) {
    return dtypeFromName(name) || name == "signal" || name == "token" ||
           llvm::any_of(plan.generics,
                        [&](const ast::GenericParam &one) { return one.name.name == name; }) ||
           llvm::any_of(open, [&](const ast::Ident &one) { return one.name == name; });
  };
  for (const ast::Param &param : plan.params)
    if (param.type != nullptr && !isKnown(param.type->name.name))
      open.push_back(param.type->name);
  return open;
}

class Joiner {
public:
  Joiner(ast::Arena &arena, Diagnostics &diags) : joint_(arena, diags), arena_(arena) {}

  ast::KernelDecl *join(const JoinSource &source) {
    joint_.source = &source;
    joint_.kernel = source.kernel;
    joint_.kernelNames = namesOf(*source.kernel, isOfModule(source.home));
    joint_.fresh.take(joint_.kernelNames.all);
    joint_.top.take(joint_.kernelNames.top);
    if (!findStages() || !takeClauses())
      return nullptr;
    for (Stage &stage : joint_.stages)
      rename(stage);
    const unsigned errorsBefore = joint_.diags.errorCount();
    llvm::SmallVector<ast::Role *, 4> kernelRoles;
    if (!unify(joint_) || !divideParts(joint_, kernelRoles))
      return nullptr;
    importAll(kernelRoles);
    fuseStores(joint_, published_, params_, bodies_);
    if (joint_.diags.errorCount() != errorsBefore ||
        !deriveSignals(joint_, published_, prologue_, bodies_, signals_))
      return nullptr;
    dropUnused();
    return assembled(source.overlap->name, source.overlap->doc, source.overlap->range);
  }

  ast::KernelDecl *alone(const PlanSource &source) {
    Stage stage;
    stage.source = &source;
    stage.plan = source.plan;
    stage.names = namesOf(*source.plan, isOfModule(source.home));
    joint_.fresh.take(stage.names.all);
    joint_.top.take(stage.names.top);
    joint_.stages.push_back(std::move(stage));
    if (!checkPlan(source))
      return nullptr;
    importStages(/*producers=*/false);
    if (!deriveSignals(joint_, published_, prologue_, bodies_, signals_))
      return nullptr;
    // Nobody calls it, and no kernel is called so.
    ast::Ident name = source.plan->name;
    name.name = arena_.copy(("plan " + name.name).str());
    return assembled(name, source.plan->doc, source.plan->range);
  }

private:
  static std::function<bool(llvm::StringRef)> isOfModule(const Home &home) {
    return [&home](llvm::StringRef name) {
      return home.qualified && home.qualified(name, {}) != nullptr;
    };
  }

  // ---- Clauses ----

  /// What is joined runs over all ranks alike.
  bool hasNoMesh(llvm::StringRef name, llvm::ArrayRef<ast::Stmt *> clauses) {
    for (const ast::Stmt *clause : clauses)
      if (llvm::isa<ast::MeshStmt>(clause)) {
        joint_.diags.report(joint_.source->overlap->name.range, diag::join_of_mesh, name)
            .note(clause->range, diag::note_declared_here, "mesh");
        return false;
      }
    return true;
  }

  bool findStages() {
    const ast::OverlapDecl &overlap = *joint_.source->overlap;
    bool isGood = hasNoMesh(joint_.kernel->name.name, joint_.kernel->clauses);
    for (const auto &[clause, source] : llvm::zip(overlap.joins, joint_.source->plans)) {
      if (source.plan == nullptr)
        return false;
      Stage stage;
      stage.clause = &clause;
      isGood &= hasNoMesh(source.plan->name.name, source.plan->clauses);
      stage.source = &source;
      stage.plan = source.plan;
      stage.names = namesOf(*source.plan, isOfModule(source.home));
      const auto *call = llvm::cast<ast::CallExpr>(clause.plan);
      stage.given = call->args;
      if (const auto *generic = llvm::dyn_cast<ast::GenericExpr>(call->callee))
        stage.generics = generic->args;
      for (const Stage &other : joint_.stages)
        if (other.clause->tensor.name == clause.tensor.name) {
          joint_.diags.report(clause.tensor.range, diag::join_twice, clause.tensor.name)
              .note(other.clause->tensor.range, diag::note_joined_with);
          isGood = false;
        }
      const bool isParam = llvm::any_of(joint_.kernel->params, [&](const ast::Param &one) {
        return one.name.name == clause.tensor.name;
      });
      if (!isParam) {
        joint_.diags
            .report(clause.tensor.range, diag::join_no_such_parameter, joint_.kernel->name.name,
                    clause.tensor.name)
            .note(joint_.kernel->name.range, diag::note_declared_here, joint_.kernel->name.name);
        isGood = false;
      }
      isGood = isGood && checkPlan(source);
      joint_.stages.push_back(std::move(stage));
    }
    return isGood;
  }

  bool checkPlan(const PlanSource &source) {
    const ast::PlanDecl &plan = *source.plan;
    if (source.isKernel)
      return true;
    for (const ast::Param &param : plan.params)
      if (isSignal(param)) {
        joint_.diags.report(param.range, diag::signal_param_in_plan);
        return false;
      }
    return true;
  }

  // Which parameter of the plan is joined, and what the others are called.
  bool takeClauses() {
    bool isGood = true;
    for (Stage &stage : joint_.stages)
      isGood = isGood && takeClause(stage);
    return isGood;
  }

  bool takeClause(Stage &stage) {
    const ast::OverlapJoin &clause = *stage.clause;
    const auto params = stage.plan->params;
    stage.tensor = clause.isProducer || params.empty() ? 0 : params.size() - 1;
    const ast::ParamMode wanted =
        clause.isProducer ? ast::ParamMode::In : ast::ParamMode::ScratchSymm;
    if (params.empty() || params[stage.tensor].mode != wanted) {
      const llvm::StringRef what = params.empty() ? "" : params[stage.tensor].name.name;
      auto error =
          joint_.diags.report(clause.range, diag::plan_tensor_mode, clause.isProducer ? "->" : "<-",
                              clause.isProducer ? "first" : "last", ast::spelling(wanted),
                              what.empty() ? stage.plan->name.name : what);
      error.note(stage.plan->name.range, diag::note_declared_here, stage.plan->name.name);
      return false;
    }
    stage.renames[params[stage.tensor].name.name] = clause.tensor.name;
    return takeArguments(stage);
  }

  bool takeArguments(Stage &stage) {
    llvm::SmallVector<const ast::Param *, 4> open;
    for (const auto &[i, param] : llvm::enumerate(stage.plan->params))
      if (i != stage.tensor && param.mode != ast::ParamMode::ScratchSymm && !isSignal(param))
        open.push_back(&param);
    llvm::SmallVector<const ast::Arg *, 4> given;
    for (const ast::Arg &arg : stage.given) {
      if (arg.label.name == "axis") {
        const auto *axis = llvm::dyn_cast<ast::IntLit>(arg.value);
        // An axis that is none is found when dimensions are compared.
        stage.axis = axis && axis->value < 64 ? unsigned(axis->value) : ~0u;
        continue;
      }
      if (!arg.label.name.empty()) {
        joint_.diags.report(arg.label.range, diag::unknown_label, stage.plan->name.name,
                            arg.label.name);
        return false;
      }
      given.push_back(&arg);
    }
    if (given.size() != open.size()) {
      joint_.diags
          .report(stage.clause->plan->range, diag::wrong_argument_count, stage.plan->name.name,
                  std::to_string(open.size()) + (open.size() == 1 ? " argument" : " arguments"),
                  given.size())
          .note(stage.plan->name.range, diag::note_declared_here, stage.plan->name.name);
      return false;
    }
    for (const auto &[param, arg] : llvm::zip(open, given)) {
      const llvm::StringRef name = nameOf(arg->value);
      if (name.empty()) {
        joint_.diags.report(arg->value->range, diag::plan_argument);
        return false;
      }
      stage.renames[param->name.name] = name;
      // What else is called so gives way.
      joint_.fresh.take(name);
      joint_.top.take(name);
    }
    return true;
  }

  // ---- Names ----

  // `stage_name` for what several have.
  void rename(Stage &stage) {
    const auto give = [&](llvm::StringRef name, bool isTaken) {
      if (stage.renames.contains(name))
        return;
      if (isTaken)
        stage.renames[name] = joint_.fresh.make((stage.clause->tensor.name + "_" + name).str());
      else
        joint_.fresh.take(name);
    };
    std::vector<std::string> top;
    for (const auto &name : stage.names.top)
      top.push_back(name.first().str());
    for (const ast::Ident &name : openTypes(*stage.plan))
      top.push_back(name.name.str());
    llvm::sort(top);
    for (const std::string &name : top) {
      give(arena_.copy(llvm::StringRef(name)), joint_.fresh.isTaken(name));
      const auto renamed = stage.renames.find(name);
      joint_.top.take(renamed == stage.renames.end() ? llvm::StringRef(name) : renamed->second);
    }
    std::vector<std::string> local;
    for (const auto &name : stage.names.local)
      local.push_back(name.first().str());
    llvm::sort(local);
    for (const std::string &name : local) {
      bool isTaken = joint_.kernelNames.top.contains(name);
      for (const Stage &other : joint_.stages)
        for (const auto &renamed : other.renames)
          isTaken |= renamed.second == name;
      give(arena_.copy(llvm::StringRef(name)), isTaken);
    }
  }

  // ---- Declarations ----

  void importAll(llvm::ArrayRef<ast::Role *> kernelRoles) {
    Importer importer(joint_, joint_.kernelNames, joint_.source->home, nullptr);
    importKernelGenerics(importer);
    for (const ast::Param &param : joint_.kernel->params) {
      const auto stage = llvm::find_if(joint_.stages, [&](const Stage &one) {
        return one.clause->tensor.name == param.name.name;
      });
      if (stage == joint_.stages.end())
        params_.push_back(importer.param(param));
      else
        importParams(*stage);
    }
    for (const ast::Stmt *one : joint_.kernel->clauses)
      clauses_.push_back(importer.stmt(one));
    for (const ast::Stmt *one : joint_.kernel->prologue)
      prologue_.push_back(importer.stmt(one));
    // In the order of the data: what brings it, the kernel, what takes it on.
    importStages(/*producers=*/false);
    for (const ast::Role *one : kernelRoles) {
      ast::Role *role = importer.role(one);
      if (role->name.name.empty())
        role->name = {roleName(joint_.kernel->name.name), joint_.kernel->name.range};
      bodies_.push_back({role, nullptr});
    }
    importStages(/*producers=*/true);
    importEnsures(importer);
  }

  // Bodies of plans; of a plan by itself the parameters too.
  void importStages(bool producers) {
    for (const Stage &stage : joint_.stages) {
      if (stage.clause != nullptr && stage.clause->isProducer != producers)
        continue;
      Importer importer(joint_, stage.names, stage.source->home, &stage);
      importGenerics(stage, importer);
      if (stage.clause == nullptr)
        importParams(stage);
      for (const ast::Stmt *one : stage.plan->clauses)
        clauses_.push_back(importer.stmt(one));
      for (const ast::Stmt *one : stage.plan->prologue)
        prologue_.push_back(importer.stmt(one));
      for (const ast::Role *one : stage.plan->roles) {
        ast::Role *role = importer.role(one);
        const bool isNamed = !one->name.name.empty();
        role->name = {roleName(isNamed ? one->name.name : stage.plan->name.name),
                      isNamed ? one->name.range : stage.plan->name.range};
        bodies_.push_back({role, stage.source->isKernel ? nullptr : &stage});
      }
    }
  }

  llvm::StringRef roleName(llvm::StringRef wanted) { return roleNames_.make(wanted); }

  void importParams(const Stage &stage) {
    Importer importer(joint_, stage.names, stage.source->home, &stage);
    for (const auto &[i, param] : llvm::enumerate(stage.plan->params)) {
      ast::Param copy = importer.adapted(param);
      if (i == stage.tensor && stage.clause != nullptr)
        copy.mode = ast::ParamMode::ScratchSymm;
      const bool isPublished = !stage.source->isKernel || i == stage.tensor;
      if (copy.mode == ast::ParamMode::ScratchSymm && isPublished) {
        Published tensor;
        tensor.name = copy.name.name;
        tensor.shape = copy.type ? copy.type->shape : llvm::ArrayRef<ast::Expr *>();
        tensor.written = param.name.name;
        tensor.range = param.range;
        tensor.isJoined = i == stage.tensor;
        published_.push_back(tensor);
      }
      params_.push_back(copy);
    }
  }

  // Values that are given become defaults.
  void give(llvm::MutableArrayRef<ast::GenericParam> params, llvm::ArrayRef<ast::Arg> given,
            llvm::ArrayRef<ast::GenericParam> declared, llvm::StringRef name) {
    for (const auto &[i, arg] : llvm::enumerate(given)) {
      size_t number = i;
      if (!arg.label.name.empty())
        number = size_t(llvm::find_if(declared,
                                      [&](const ast::GenericParam &one) {
                                        return one.name.name == arg.label.name;
                                      }) -
                        declared.begin());
      if (number < params.size()) {
        params[number].defaultValue = Rewriter(arena_).expr(arg.value);
        continue;
      }
      if (arg.label.name.empty())
        joint_.diags.report(arg.value->range, diag::too_many_generics, name, declared.size());
      else
        joint_.diags.report(arg.label.range, diag::unknown_generic, name, arg.label.name);
    }
  }

  void importKernelGenerics(Importer &importer) {
    llvm::SmallVector<ast::GenericParam, 8> generics;
    for (const ast::GenericParam &one : joint_.kernel->generics)
      generics.push_back(importer.generic(one));
    if (const auto *given = llvm::dyn_cast<ast::GenericExpr>(joint_.source->overlap->kernel))
      give(generics, given->args, joint_.kernel->generics, joint_.kernel->name.name);
    generics_.append(generics);
  }

  void importGenerics(const Stage &stage, Importer &importer) {
    llvm::SmallVector<ast::GenericParam, 8> generics;
    for (const ast::GenericParam &one : stage.plan->generics)
      generics.push_back(importer.generic(one));
    give(generics, stage.generics, stage.plan->generics, stage.plan->name.name);
    for (const auto &[i, one] : llvm::enumerate(generics)) {
      const llvm::StringRef name = stage.plan->generics[i].name.name;
      const auto renamed = stage.renames.find(name);
      // What follows from the kernel is no parameter any more.
      if (!joint_.values.contains(renamed == stage.renames.end() ? name : renamed->second))
        generics_.push_back(one);
    }
    for (const ast::Ident &name : openTypes(*stage.plan)) {
      const auto renamed = stage.renames.find(name.name);
      const llvm::StringRef text = renamed == stage.renames.end() ? name.name : renamed->second;
      if (!joint_.values.contains(text))
        generics_.push_back(elementType({text, name.range}));
    }
  }

  // `T: dtype = f32`
  ast::GenericParam elementType(const ast::Ident &name) {
    ast::GenericParam generic;
    generic.range = name.range;
    generic.name = name;
    generic.type = arena_.makePlain<ast::TypeRef>();
    generic.type->range = name.range;
    generic.type->name = {"dtype", name.range};
    generic.defaultValue = Make{arena_, name.range}.name("f32");
    return generic;
  }

  // ---- Contracts ----

  // `ensures x ~= f(y)` of the plan, if it says what `x` is.
  static const ast::BinaryExpr *promiseOf(llvm::ArrayRef<ast::ExpectStmt *> ensures,
                                          llvm::StringRef tensor) {
    for (const ast::ExpectStmt *one : ensures) {
      const auto *equation = llvm::dyn_cast<ast::BinaryExpr>(one->condition);
      if (equation && nameOf(equation->lhs) == tensor &&
          (equation->op == ast::BinaryOp::Approx || equation->op == ast::BinaryOp::Eq))
        return equation;
    }
    return nullptr;
  }

  // Puts what tensors are in place of their names; what is said of others is left out.
  class Composer : public Rewriter {
  public:
    explicit Composer(ast::Arena &arena) : Rewriter(arena) {}
    llvm::StringMap<const ast::Expr *> known;
    llvm::StringSet<> unknown;
    bool isComplete = true;

  protected:
    ast::Expr *replaced(const ast::Expr &e) override {
      const llvm::StringRef name = nameOf(&e);
      if (const auto found = known.find(name); found != known.end()) {
        // What a tensor is made of may be joined too, but is never the tensor itself.
        const ast::Expr *value = std::exchange(found->second, nullptr);
        ast::Expr *copy = value == nullptr ? nullptr : expr(value);
        known[name] = value;
        return copy;
      }
      isComplete &= name.empty() || !unknown.contains(name);
      return nullptr;
    }
  };

  void importEnsures(Importer &importer) {
    Composer composer(arena_);
    for (const Stage &stage : joint_.stages) {
      const llvm::StringRef tensor = stage.clause->tensor.name;
      composer.unknown.insert(tensor);
      const ast::BinaryExpr *promise =
          promiseOf(stage.plan->ensures, stage.plan->params[stage.tensor].name.name);
      if (stage.clause->isProducer)
        promise = promiseOf(joint_.kernel->ensures, tensor);
      if (promise == nullptr || stage.isAdapted())
        continue;
      Importer ofPlan(joint_, stage.names, stage.source->home, &stage);
      composer.known[tensor] = (stage.clause->isProducer ? importer : ofPlan).expr(promise->rhs);
    }
    const auto compose = [&](Importer &from, llvm::ArrayRef<ast::ExpectStmt *> ensures,
                             llvm::function_ref<bool(llvm::StringRef)> isOwn) {
      for (const ast::ExpectStmt *one : ensures) {
        const auto *equation = llvm::dyn_cast<ast::BinaryExpr>(one->condition);
        if (equation && !isOwn(nameOf(equation->lhs)))
          continue;
        composer.isComplete = true;
        ast::ExpectStmt *whole = composer.expectation(from.expectation(one));
        if (composer.isComplete)
          ensures_.push_back(whole);
      }
    };
    compose(importer, joint_.kernel->ensures,
            [&](llvm::StringRef name) { return !composer.unknown.contains(name); });
    for (const Stage &stage : joint_.stages) {
      Importer ofPlan(joint_, stage.names, stage.source->home, &stage);
      compose(ofPlan, stage.plan->ensures, [&](llvm::StringRef name) {
        return stage.clause->isProducer || name != stage.plan->params[stage.tensor].name.name;
      });
    }
  }

  // Compile-time parameters of roles that are gone.
  void dropUnused() {
    Fresh used(arena_);
    for (const Body &body : bodies_)
      used.take(namesIn(*body.role));
    for (const ast::Param &param : params_)
      if (param.type != nullptr) {
        used.take(param.type->name.name);
        for (const ast::Expr *size : param.type->shape)
          used.take(namesIn(*size));
      }
    for (const ast::Stmt *one : prologue_)
      used.take(namesIn(*llvm::cast<ast::LetStmt>(one)->value));
    const size_t ofKernel = joint_.kernel->generics.size();
    for (size_t i = generics_.size(); i-- > ofKernel;)
      if (!used.isTaken(generics_[i].name.name))
        generics_.erase(generics_.begin() + ptrdiff_t(i));
  }

  ast::KernelDecl *assembled(const ast::Ident &name, llvm::StringRef doc, SourceRange range) {
    auto *kernel = arena_.make<ast::KernelDecl>(range);
    kernel->doc = doc;
    kernel->name = name;
    kernel->generics = arena_.copy(llvm::ArrayRef<ast::GenericParam>(generics_));
    params_.append(signals_);
    kernel->params = arena_.copy(llvm::ArrayRef<ast::Param>(params_));
    kernel->clauses = arena_.copy(llvm::ArrayRef<ast::Stmt *>(clauses_));
    kernel->prologue = arena_.copy(llvm::ArrayRef<ast::Stmt *>(prologue_));
    llvm::SmallVector<ast::Role *, 4> roles;
    for (const Body &body : bodies_)
      roles.push_back(body.role);
    kernel->roles = arena_.copy(llvm::ArrayRef<ast::Role *>(roles));
    kernel->ensures = arena_.copy(llvm::ArrayRef<ast::ExpectStmt *>(ensures_));
    return kernel;
  }

  Joint joint_;
  ast::Arena &arena_;
  Fresh roleNames_{arena_};
  llvm::SmallVector<ast::GenericParam, 8> generics_;
  llvm::SmallVector<ast::Param, 8> params_;
  llvm::SmallVector<ast::Param, 4> signals_;
  llvm::SmallVector<ast::Stmt *, 4> clauses_;
  llvm::SmallVector<ast::Stmt *, 4> prologue_;
  llvm::SmallVector<Body, 4> bodies_;
  llvm::SmallVector<Published, 4> published_;
  llvm::SmallVector<ast::ExpectStmt *, 2> ensures_;
};

} // namespace

const ast::PlanDecl *planOfKernel(const ast::KernelDecl &kernel, bool isProducer,
                                  ast::Arena &arena) {
  auto *plan = arena.make<ast::PlanDecl>(kernel.range);
  plan->name = kernel.name;
  plan->generics = kernel.generics;
  plan->clauses = kernel.clauses;
  plan->prologue = kernel.prologue;
  plan->roles = kernel.roles;
  plan->ensures = kernel.ensures;
  plan->params = kernel.params;
  if (isProducer)
    return plan;
  llvm::SmallVector<ast::Param, 8> params(kernel.params);
  const auto isOutput = [](const ast::Param &one) { return one.mode == ast::ParamMode::Out; };
  if (llvm::count_if(params, isOutput) != 1)
    return nullptr;
  ast::Param *output = llvm::find_if(params, isOutput);
  ast::Param joined = *output;
  joined.mode = ast::ParamMode::ScratchSymm;
  params.erase(output);
  params.push_back(joined);
  plan->params = arena.copy(llvm::ArrayRef<ast::Param>(params));
  return plan;
}

ast::KernelDecl *joinKernel(const JoinSource &source, ast::Arena &arena, Diagnostics &diags) {
  return Joiner(arena, diags).join(source);
}

ast::KernelDecl *planAlone(const PlanSource &source, ast::Arena &arena, Diagnostics &diags) {
  return Joiner(arena, diags).alone(source);
}

} // namespace dtile::join
