// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Puts the parts of a joined kernel together.
#include "sema/join/join.h"

#include "sema/join/assembly.h"
#include "sema/join/make.h"

#include "frontend/ast/mesh.h"

namespace dtile::join {

namespace {

class Joiner {
public:
  Joiner(ast::Arena &arena, Diagnostics &diags) : joint_(arena, diags), arena_(arena) {}

  ast::KernelDecl *join(const JoinSource &source) {
    joint_.source = &source;
    joint_.waits = source.waits;
    joint_.kernel = source.kernel;
    joint_.kernelNames = namesOf(*source.kernel, isOfModule(source.home));
    joint_.fresh.take(joint_.kernelNames.all);
    joint_.top.take(joint_.kernelNames.top);
    if (!findStages() || !checkAxes(joint_, meshClauses()) || !takeClauses())
      return nullptr;
    takeScalars();
    for (Stage &stage : joint_.stages)
      rename(stage);
    const unsigned errorsBefore = joint_.diags.errorCount();
    llvm::SmallVector<ast::Role *, 4> kernelRoles;
    if (!unify(joint_) || !divideParts(joint_, kernelRoles))
      return nullptr;
    importAll(kernelRoles);
    llvm::SmallVector<llvm::StringRef, 2> made;
    for (const Stage &stage : joint_.stages)
      if (stage.clause->isProducer)
        made.push_back(stage.clause->tensor.name);
    fuseStores(joint_, made, parts_.published, parts_.params, parts_.bodies);
    if (joint_.diags.errorCount() != errorsBefore)
      return nullptr;
    const ast::OverlapDecl &overlap = *source.overlap;
    return parts_.finish(overlap.name, overlap.doc, overlap.range, source.kernel->generics.size());
  }

  ast::KernelDecl *alone(const PlanSource &source) {
    Stage stage;
    stage.source = &source;
    stage.plan = source.plan;
    stage.names = namesOf(*source.plan, isOfModule(source.home));
    joint_.fresh.take(stage.names.all);
    joint_.top.take(stage.names.top);
    joint_.stages.push_back(std::move(stage));
    if (!isJoinable(joint_, source))
      return nullptr;
    importStages(/*producers=*/false);
    // Nobody calls it, and no kernel is called so.
    ast::Ident name = source.plan->name;
    name.name = arena_.copy(("plan " + name.name).str());
    return parts_.finish(name, source.plan->doc, source.plan->range, parts_.generics.size());
  }

private:
  // ---- Clauses ----

  bool findStages() {
    const ast::OverlapDecl &overlap = *joint_.source->overlap;
    bool isGood = true;
    for (const auto &[clause, source] : llvm::zip(overlap.joins, joint_.source->plans)) {
      if (source.plan == nullptr)
        return false;
      Stage stage;
      stage.clause = &clause;
      stage.at = clause.range;
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
      isGood = isGood && isJoinable(joint_, source);
      joint_.stages.push_back(std::move(stage));
    }
    return isGood;
  }

  // Clauses among which the mesh is: the overlap's, and those of what it joins.
  llvm::SmallVector<ast::Stmt *, 4> meshClauses() const {
    llvm::SmallVector<ast::Stmt *, 4> all(joint_.source->overlap->clauses);
    all.append(joint_.kernel->clauses.begin(), joint_.kernel->clauses.end());
    for (const Stage &stage : joint_.stages)
      all.append(stage.plan->clauses.begin(), stage.plan->clauses.end());
    return all;
  }

  // Sizes of axes that the kernel does not know are scalars that the overlap gets.
  void takeScalars() {
    const auto *mesh = ast::meshIn(joint_.source->overlap->clauses);
    if (mesh == nullptr)
      return;
    const auto isOfOverlap = isOfModule(joint_.source->overlapHome);
    for (const ast::MeshAxis &axis : mesh->axes)
      for (const ast::Ident &name : valueNamesIn(*axis.extent)) {
        if (name.name == "W" || joint_.top.isTaken(name.name) || isOfOverlap(name.name))
          continue;
        ast::Param param;
        param.range = name.range;
        param.name = name;
        param.type = arena_.makePlain<ast::TypeRef>();
        param.type->range = name.range;
        param.type->name = {"i64", name.range};
        parts_.params.push_back(param);
        joint_.fresh.take(name.name);
        joint_.top.take(name.name);
      }
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
      if (arg.label.name == ast::kAlongLabel)
        continue;
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
      if (const std::optional<SourceRange> other = declarationOf(name)) {
        joint_.diags
            .report(arg->value->range, diag::plan_argument_taken, name, stage.plan->name.name)
            .note(*other, diag::note_declared_here, name);
        return false;
      }
      arguments_[name] = arg->value->range;
      stage.renames[param->name.name] = name;
      // What else is called so gives way.
      joint_.fresh.take(name);
      joint_.top.take(name);
    }
    return true;
  }

  // Of a parameter that the overlap has from the kernel, or for a plan that was joined before.
  std::optional<SourceRange> declarationOf(llvm::StringRef name) const {
    for (const ast::Param &param : joint_.kernel->params)
      if (param.name.name == name)
        return param.name.range;
    const auto it = arguments_.find(name);
    return it == arguments_.end() ? std::nullopt : std::optional(it->second);
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
    Importer ofOverlap(joint_, joint_.kernelNames, joint_.source->overlapHome, nullptr);
    parts_.addHead(joint_.source->overlap->name.name, joint_.source->overlap->clauses, {},
                   ofOverlap);
    importKernelGenerics(importer);
    for (const ast::Param &param : joint_.kernel->params) {
      const auto stage = llvm::find_if(joint_.stages, [&](const Stage &one) {
        return one.clause->tensor.name == param.name.name;
      });
      if (stage == joint_.stages.end())
        parts_.params.push_back(importer.param(param));
      else
        importParams(*stage);
    }
    parts_.addHead(joint_.kernel->name.name, joint_.kernel->clauses, joint_.kernel->prologue,
                   importer);
    // In the order of the data: what brings it, the kernel, what takes it on.
    importStages(/*producers=*/false);
    for (const ast::Role *one : kernelRoles) {
      ast::Role *role = importer.role(one);
      if (role->name.name.empty())
        role->name = {parts_.roleNames.make(joint_.kernel->name.name), joint_.kernel->name.range};
      parts_.bodies.push_back({role, nullptr});
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
      parts_.addGenerics(stage, importer);
      if (stage.clause == nullptr)
        importParams(stage);
      parts_.addHead(stage.plan->name.name, stage.plan->clauses, stage.plan->prologue, importer);
      for (const ast::Role *one : stage.plan->roles)
        parts_.addRole(stage, *one, importer.role(one));
    }
  }

  void importParams(const Stage &stage) {
    Importer importer(joint_, stage.names, stage.source->home, &stage);
    for (const auto &[i, param] : llvm::enumerate(stage.plan->params)) {
      ast::Param copy = importer.adapted(param);
      if (i == stage.tensor && stage.clause != nullptr)
        copy.mode = ast::ParamMode::ScratchSymm;
      const bool isPublished = !stage.source->isKernel || i == stage.tensor;
      if (copy.mode == ast::ParamMode::ScratchSymm && isPublished)
        parts_.publish(copy, param, i == stage.tensor);
      parts_.params.push_back(copy);
    }
  }

  void importKernelGenerics(Importer &importer) {
    llvm::SmallVector<ast::GenericParam, 8> generics;
    for (const ast::GenericParam &one : joint_.kernel->generics)
      generics.push_back(importer.generic(one));
    if (const auto *given = llvm::dyn_cast<ast::GenericExpr>(joint_.source->overlap->kernel))
      parts_.give(generics, given->args, joint_.kernel->generics, joint_.kernel->name.name);
    parts_.generics.append(generics);
  }

  // ---- Contracts ----

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
          parts_.ensures.push_back(whole);
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

  Joint joint_;
  ast::Arena &arena_;
  Assembly parts_{joint_};
  /// The parameters that plans take, and where the overlap names them.
  llvm::StringMap<SourceRange> arguments_;
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
