// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Joins the steps of an overlap's body: each keeps its bodies, and what one makes for another is
// published in scratch.
#include "sema/join/graph.h"

#include "sema/join/make.h"

namespace dtile::join {

namespace {

class GraphJoiner {
public:
  GraphJoiner(const GraphSource &source, ast::Arena &arena, Diagnostics &diags)
      : source_(source), arena_(arena), joint_(arena, diags) {}

  ast::KernelDecl *join() {
    joint_.waits = source_.waits;
    takeSignature();
    const unsigned errorsBefore = joint_.diags.errorCount();
    if (!readGraph(source_, joint_, graph_))
      return nullptr;
    llvm::SmallVector<ast::Stmt *, 4> clauses(source_.overlap->clauses);
    for (const Step &step : graph_.steps) {
      addStage(step);
      clauses.append(step.source.plan->clauses.begin(), step.source.plan->clauses.end());
    }
    if (!checkAxes(joint_, clauses))
      return nullptr;
    nameStages();
    for (const auto &[step, stage] : llvm::zip(graph_.steps, joint_.stages))
      takeValues(step, stage);
    if (joint_.diags.errorCount() != errorsBefore || !unifyGraph(joint_, graph_) || !import())
      return nullptr;
    fuseStores(joint_, sentOn(), parts_.published, parts_.params, parts_.bodies);
    if (joint_.diags.errorCount() != errorsBefore)
      return nullptr;
    const ast::OverlapDecl &overlap = *source_.overlap;
    return parts_.finish(overlap.name, overlap.doc, overlap.range, overlap.generics.size());
  }

private:
  // ---- Names ----

  // The overlap's parameters, as those of a kernel that does nothing.
  void takeSignature() {
    const ast::OverlapDecl &overlap = *source_.overlap;
    auto *kernel = arena_.make<ast::KernelDecl>(overlap.range);
    kernel->name = overlap.name;
    kernel->generics = overlap.generics;
    kernel->params = overlap.params;
    kernel->clauses = overlap.clauses;
    kernel->ensures = overlap.ensures;
    joint_.kernel = kernel;
    joint_.kernelNames = namesOf(*kernel, isOfModule(source_.home));
    joint_.fresh.take(joint_.kernelNames.all);
    joint_.top.take(joint_.kernelNames.top);
  }

  void addStage(const Step &step) {
    Stage stage;
    stage.source = &step.source;
    stage.plan = step.source.plan;
    stage.at = step.call->range;
    stage.names = namesOf(*stage.plan, isOfModule(step.source.home));
    if (const auto *generic = llvm::dyn_cast<ast::GenericExpr>(step.call->callee))
      stage.generics = generic->args;
    for (const ast::Arg &arg : step.call->args)
      if (arg.label.name == "axis") {
        const auto *axis = llvm::dyn_cast<ast::IntLit>(arg.value);
        // An axis that is none is found when dimensions are compared.
        stage.axis = axis && axis->value < 64 ? unsigned(axis->value) : ~0u;
      }
    for (const auto &[param, binding] : llvm::zip(stage.plan->params, step.bindings))
      if (binding.kind == Binding::Kind::Reads || binding.kind == Binding::Kind::Makes)
        stage.renames[param.name.name] = graph_.tensors[binding.tensor].name;
    joint_.stages.push_back(std::move(stage));
  }

  static std::vector<std::string> sorted(const llvm::StringSet<> &names) {
    std::vector<std::string> list;
    for (const auto &name : names)
      list.push_back(name.first().str());
    llvm::sort(list);
    return list;
  }

  // `prefix_name` for what several have. Names of bodies give way to those that all bodies see.
  void nameStages() {
    for (const auto &[i, stage] : llvm::enumerate(joint_.stages)) {
      llvm::StringSet<> top = stage.names.top;
      for (const ast::Ident &name : openTypes(*stage.plan)) {
        top.insert(name.name);
        stage.names.top.insert(name.name);
      }
      for (const std::string &name : sorted(top)) {
        if (stage.renames.contains(name))
          continue;
        if (joint_.fresh.isTaken(name) || isLocalElsewhere(i, name))
          stage.renames[name] = joint_.fresh.make((graph_.steps[i].prefix + "_" + name).str());
        const llvm::StringRef given = nameIn(stage, arena_.copy(llvm::StringRef(name)));
        joint_.fresh.take(given);
        joint_.top.take(given);
      }
      for (const auto &size : stage.names.sizes)
        graph_.sizes.insert(nameIn(stage, size.first()));
      for (const ast::GenericParam &one : stage.plan->generics)
        graph_.types.insert(nameIn(stage, one.name.name));
      for (const ast::Ident &name : openTypes(*stage.plan))
        graph_.types.insert(nameIn(stage, name.name));
    }
    for (const auto &[i, stage] : llvm::enumerate(joint_.stages))
      for (const std::string &name : sorted(stage.names.local))
        if (!stage.renames.contains(name) && !stage.names.top.contains(name) &&
            joint_.top.isTaken(name))
          stage.renames[name] = joint_.fresh.make((graph_.steps[i].prefix + "_" + name).str());
  }

  bool isLocalElsewhere(size_t own, llvm::StringRef name) const {
    for (const auto &[i, stage] : llvm::enumerate(joint_.stages))
      if (i != own && stage.names.local.contains(name))
        return true;
    return false;
  }

  // Compile-time parameters and scalars that the step gives.
  void takeValues(const Step &step, const Stage &stage) {
    for (const auto &[i, arg] : llvm::enumerate(stage.generics)) {
      const std::optional<size_t> number =
          parts_.genericOf(arg, i, stage.plan->generics, stage.plan->name.name);
      if (number && nameOf(arg.value) != "auto")
        joint_.values[nameIn(stage, stage.plan->generics[*number].name.name)] = arg.value;
    }
    for (const auto &[param, binding] : llvm::zip(stage.plan->params, step.bindings))
      if (binding.kind == Binding::Kind::Value)
        joint_.values[nameIn(stage, param.name.name)] = binding.value;
  }

  // ---- Declarations ----

  bool import() {
    const ast::OverlapDecl &overlap = *source_.overlap;
    Importer ofOverlap(joint_, joint_.kernelNames, source_.home, nullptr);
    for (const ast::GenericParam &one : overlap.generics)
      parts_.generics.push_back(ofOverlap.generic(one));
    for (const ast::Param &param : overlap.params)
      parts_.params.push_back(ofOverlap.param(param));
    parts_.addHead(overlap.name.name, overlap.clauses, {}, ofOverlap);
    for (const auto &[step, stage] : llvm::zip(graph_.steps, joint_.stages))
      if (!importStage(step, stage))
        return false;
    if (overlap.ensures.empty())
      composeEnsures();
    else
      for (const ast::ExpectStmt *one : overlap.ensures)
        parts_.ensures.push_back(ofOverlap.expectation(one));
    return true;
  }

  bool importStage(const Step &step, Stage &stage) {
    Importer importer(joint_, stage.names, stage.source->home, &stage);
    // What is given is no parameter any more.
    stage.generics = {};
    parts_.addGenerics(stage, importer);
    for (const auto &[param, binding] : llvm::zip(stage.plan->params, step.bindings))
      importParam(stage, param, binding, importer);
    parts_.addHead(stage.plan->name.name, stage.plan->clauses, stage.plan->prologue, importer);
    for (const ast::Role *one : stage.plan->roles) {
      ast::Role *role = importer.role(one);
      if (!step.parted.empty())
        role = divideRole(joint_, step.parted, role);
      if (role == nullptr)
        return false;
      parts_.addRole(stage, *one, role);
    }
    return true;
  }

  void importParam(const Stage &stage, const ast::Param &param, const Binding &binding,
                   Importer &importer) {
    if (binding.kind != Binding::Kind::Own && binding.kind != Binding::Kind::Makes)
      return;
    ast::Param copy = importer.adapted(param);
    if (binding.kind == Binding::Kind::Makes) {
      const GraphTensor &tensor = graph_.tensors[binding.tensor];
      if (tensor.kind != GraphTensor::Kind::Between)
        return;
      copy.mode = ast::ParamMode::ScratchSymm;
      copy.name = {tensor.name, tensor.range};
      llvm::SmallVector<ast::Expr *, 4> shape;
      for (const ast::Expr *size : tensor.shape)
        shape.push_back(resolved(joint_, size, tensor.range));
      copy.type->shape = arena_.copy(llvm::ArrayRef<ast::Expr *>(shape));
      ast::Param written = param;
      written.name = copy.name;
      written.range = tensor.range;
      parts_.publish(copy, written, /*isJoined=*/true);
    } else if (copy.mode == ast::ParamMode::ScratchSymm && !stage.source->isKernel) {
      parts_.publish(copy, param, /*isJoined=*/false);
    }
    parts_.params.push_back(copy);
  }

  // What kernels make for one plan only.
  llvm::SmallVector<llvm::StringRef, 2> sentOn() const {
    llvm::SmallVector<llvm::StringRef, 2> names;
    for (const GraphTensor &tensor : graph_.tensors)
      if (tensor.kind == GraphTensor::Kind::Between && tensor.readers == 1 &&
          graph_.steps[*tensor.maker].source.isKernel)
        names.push_back(tensor.name);
    return names;
  }

  // What outputs are, from what each step says of what it makes.
  void composeEnsures() {
    Composer composer(arena_);
    for (const auto &[step, stage] : llvm::zip(graph_.steps, joint_.stages))
      for (const auto &[param, binding] : llvm::zip(stage.plan->params, step.bindings)) {
        if (binding.kind != Binding::Kind::Makes)
          continue;
        const GraphTensor &tensor = graph_.tensors[binding.tensor];
        const bool isOutput = tensor.kind == GraphTensor::Kind::Output;
        const ast::BinaryExpr *promise =
            stage.isAdapted() ? nullptr : promiseOf(stage.plan->ensures, param.name.name);
        if (promise == nullptr) {
          composer.unknown.insert(tensor.name);
          continue;
        }
        Importer importer(joint_, stage.names, stage.source->home, &stage);
        composer.isComplete = true;
        ast::Expr *value = composer.expr(importer.expr(promise->rhs));
        if (!composer.isComplete)
          composer.unknown.insert(tensor.name);
        else if (!isOutput)
          composer.known[tensor.name] = value;
        else
          parts_.ensures.push_back(promised(*promise, tensor, value));
      }
  }

  ast::ExpectStmt *promised(const ast::BinaryExpr &promise, const GraphTensor &tensor,
                            ast::Expr *value) {
    const Make make{arena_, promise.range};
    auto *one = arena_.make<ast::ExpectStmt>(promise.range);
    one->isEnsures = true;
    one->condition = make.binary(promise.op, make.name(tensor.name), value);
    return one;
  }

  const GraphSource &source_;
  ast::Arena &arena_;
  Joint joint_;
  Graph graph_;
  Assembly parts_{joint_};
};

} // namespace

ast::KernelDecl *joinGraph(const GraphSource &source, ast::Arena &arena, Diagnostics &diags) {
  return GraphJoiner(source, arena, diags).join();
}

} // namespace dtile::join
