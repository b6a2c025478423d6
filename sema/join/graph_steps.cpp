// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads the body of an overlap: which kernels and plans are called, and what goes from one to
// another. A call in an argument is a step before.
#include "frontend/ast/mesh.h"
#include "sema/join/graph.h"
#include "sema/join/make.h"

namespace dtile::join {

namespace {

using Kind = GraphTensor::Kind;

bool isTensor(const ast::Param &param) { return param.mode != ast::ParamMode::Value; }

class GraphReader {
public:
  GraphReader(const GraphSource &source, Joint &joint, Graph &graph)
      : source_(source), joint_(joint), graph_(graph) {}

  bool run() { return takeSignature() && takeNames() && readSteps() && checkOutputs(); }

private:
  // ---- Names ----

  bool takeSignature() {
    for (const ast::Param &param : source_.overlap->params) {
      GraphTensor tensor;
      switch (param.mode) {
      case ast::ParamMode::Value:
        continue;
      case ast::ParamMode::In:
        tensor.kind = Kind::Input;
        break;
      case ast::ParamMode::Out:
        tensor.kind = Kind::Output;
        break;
      case ast::ParamMode::Symm:
        tensor.kind = Kind::Symm;
        break;
      case ast::ParamMode::InOut:
      case ast::ParamMode::ScratchSymm:
        return fail(param.range, diag::step_parameter);
      }
      if (isSignal(param))
        return fail(param.range, diag::step_parameter);
      tensor.name = param.name.name;
      tensor.range = param.range;
      if (param.type != nullptr) {
        tensor.type = param.type->name.name;
        tensor.shape.append(param.type->shape.begin(), param.type->shape.end());
      }
      graph_.tensors.push_back(std::move(tensor));
    }
    return true;
  }

  // Names of `let`s are the author's, and others give way.
  bool takeNames() {
    for (const ast::OverlapStep &step : source_.overlap->steps)
      for (const ast::Ident &name : step.names) {
        if (!step.isLet)
          continue;
        if (joint_.top.isTaken(name.name))
          return fail(name.range, diag::redefinition, name.name);
        joint_.top.take(name.name);
        joint_.fresh.take(name.name);
      }
    return true;
  }

  // ---- Steps ----

  bool readSteps() {
    for (const ast::OverlapStep &step : source_.overlap->steps) {
      const auto *call = llvm::dyn_cast_or_null<ast::CallExpr>(step.value);
      if (call == nullptr)
        return fail(step.value->range, diag::step_not_call);
      llvm::SmallVector<size_t, 2> results;
      for (const ast::Ident &name : step.names)
        if (const std::optional<size_t> tensor = step.isLet ? between(name) : output(name))
          results.push_back(*tensor);
        else
          return false;
      if (!readCall(*call, results))
        return false;
      // What a step makes is known after it.
      for (const auto &[name, tensor] : llvm::zip(step.names, results))
        known_[name.name] = tensor;
    }
    return true;
  }

  std::optional<size_t> between(const ast::Ident &name) {
    GraphTensor tensor;
    tensor.name = name.name;
    tensor.range = name.range;
    graph_.tensors.push_back(std::move(tensor));
    return graph_.tensors.size() - 1;
  }

  std::optional<size_t> output(const ast::Ident &name) {
    const std::optional<size_t> found = parameter(name.name);
    if (found && graph_.tensors[*found].kind == Kind::Output)
      return found;
    joint_.diags.report(name.range, diag::step_no_output, name.name);
    return std::nullopt;
  }

  std::optional<size_t> parameter(llvm::StringRef name) const {
    for (size_t i = 0; i < graph_.tensors.size(); ++i)
      if (graph_.tensors[i].kind != Kind::Between && graph_.tensors[i].name == name)
        return i;
    return std::nullopt;
  }

  bool readCall(const ast::CallExpr &call, llvm::ArrayRef<size_t> results) {
    Step step;
    step.source = source_.find(call);
    if (step.source.plan == nullptr || !isJoinable(joint_, step.source))
      return false;
    step.call = &call;
    step.prefix = graph_.tensors[results.front()].name;
    step.bindings.resize(step.source.plan->params.size());
    if (!bindResults(step, results) || !bindArguments(step))
      return false;
    for (const Binding &binding : step.bindings) {
      if (binding.kind == Binding::Kind::Makes)
        graph_.tensors[binding.tensor].maker = graph_.steps.size();
      if (binding.kind == Binding::Kind::Reads)
        ++graph_.tensors[binding.tensor].readers;
    }
    graph_.steps.push_back(std::move(step));
    return true;
  }

  // A kernel's outputs; a plan's, or where it has none, what it brings in its last parameters.
  bool bindResults(Step &step, llvm::ArrayRef<size_t> results) {
    const ast::PlanDecl &plan = *step.source.plan;
    llvm::SmallVector<size_t, 2> given;
    for (size_t i = 0; i < plan.params.size(); ++i)
      if (plan.params[i].mode == ast::ParamMode::Out)
        given.push_back(i);
    const bool isBrought = given.empty() && !step.source.isKernel;
    for (size_t i = plan.params.size(); isBrought && i-- > 0 && given.size() < results.size();)
      if (plan.params[i].mode == ast::ParamMode::ScratchSymm)
        given.insert(given.begin(), i);
      else
        break;
    const auto count = [](size_t n, llvm::StringRef what) {
      return (llvm::Twine(n) + " " + what + (n == 1 ? "" : "s")).str();
    };
    if (given.size() != results.size()) {
      joint_.diags
          .report(step.call->range, diag::step_results, plan.name.name,
                  count(given.size(), "tensor"), count(results.size(), "name"))
          .note(plan.name.range, diag::note_declared_here, plan.name.name);
      return false;
    }
    for (const auto &[param, tensor] : llvm::zip(given, results)) {
      GraphTensor &made = graph_.tensors[tensor];
      if (isBrought && made.kind == Kind::Output) {
        joint_.diags.report(step.call->range, diag::step_output_remote, plan.name.name)
            .note(made.range, diag::note_declared_here, made.name);
        return false;
      }
      if (made.maker) {
        joint_.diags.report(step.call->range, diag::step_output_twice, made.name)
            .note(graph_.steps[*made.maker].call->range, diag::note_written_here);
        return false;
      }
      step.bindings[param] = {Binding::Kind::Makes, tensor, nullptr, step.call->range};
    }
    return true;
  }

  bool bindArguments(Step &step) {
    const ast::PlanDecl &plan = *step.source.plan;
    llvm::SmallVector<size_t, 4> open;
    for (size_t i = 0; i < plan.params.size(); ++i) {
      const ast::Param &param = plan.params[i];
      if (step.bindings[i].kind == Binding::Kind::Own && !isSignal(param) &&
          param.mode != ast::ParamMode::ScratchSymm)
        open.push_back(i);
    }
    llvm::SmallVector<const ast::Arg *, 4> given;
    for (const ast::Arg &arg : step.call->args) {
      if (arg.label.name == ast::kAlongLabel || (arg.label.name == "axis" && !step.source.isKernel))
        continue;
      if (!arg.label.name.empty())
        return fail(arg.label.range, diag::unknown_label, plan.name.name, arg.label.name);
      given.push_back(&arg);
    }
    if (given.size() != open.size()) {
      joint_.diags
          .report(step.call->range, diag::wrong_argument_count, plan.name.name,
                  std::to_string(open.size()) + (open.size() == 1 ? " argument" : " arguments"),
                  given.size())
          .note(plan.name.range, diag::note_declared_here, plan.name.name);
      return false;
    }
    for (const auto &[param, arg] : llvm::zip(open, given))
      if (!bindArgument(step, plan.params[param], *arg->value, step.bindings[param]))
        return false;
    return true;
  }

  bool bindArgument(const Step &step, const ast::Param &param, const ast::Expr &value,
                    Binding &binding) {
    binding.at = value.range;
    if (!isTensor(param)) {
      binding.kind = Binding::Kind::Value;
      binding.value = &value;
      return true;
    }
    binding.kind = Binding::Kind::Reads;
    const std::optional<size_t> tensor = argument(step, param, value);
    if (!tensor)
      return false;
    binding.tensor = *tensor;
    const GraphTensor &given = graph_.tensors[*tensor];
    if (given.kind == Kind::Output)
      return failAt(given, value.range, diag::step_output_read, given.name);
    if (param.mode == ast::ParamMode::In ||
        (param.mode == ast::ParamMode::Symm && given.kind == Kind::Symm))
      return true;
    const llvm::StringRef mode = given.kind == Kind::Input  ? "in"
                                 : given.kind == Kind::Symm ? "symm"
                                                            : "made by a step";
    return failAt(given, value.range, diag::step_argument_mode, given.name, mode,
                  step.source.plan->name.name, ast::spelling(param.mode));
  }

  // A tensor by its name, or what a call makes.
  std::optional<size_t> argument(const Step &step, const ast::Param &param,
                                 const ast::Expr &value) {
    const llvm::StringRef name = nameOf(&value);
    if (const auto found = known_.find(name); found != known_.end())
      return found->second;
    if (const std::optional<size_t> found = name.empty() ? std::nullopt : parameter(name))
      return found;
    const auto *call = llvm::dyn_cast<ast::CallExpr>(&value);
    if (call == nullptr) {
      if (!llvm::isa<ast::ErrorExpr>(value))
        joint_.diags.report(value.range, diag::step_argument, step.source.plan->name.name)
            .note(param.range, diag::note_declared_here, param.name.name);
      return std::nullopt;
    }
    const bool isTaken = joint_.fresh.isTaken(param.name.name);
    const llvm::StringRef given = joint_.fresh.make(
        isTaken ? (step.prefix + "_" + param.name.name).str() : param.name.name.str());
    joint_.top.take(given);
    const std::optional<size_t> tensor = between({given, call->range});
    return readCall(*call, *tensor) ? tensor : std::nullopt;
  }

  bool checkOutputs() {
    for (const GraphTensor &tensor : graph_.tensors)
      if (tensor.kind == Kind::Output && !tensor.maker)
        return fail(tensor.range, diag::step_output_missing, tensor.name);
    return true;
  }

  template <typename... Args> bool fail(SourceRange at, diag::Id id, Args &&...args) {
    joint_.diags.report(at, id, std::forward<Args>(args)...);
    return false;
  }
  template <typename... Args>
  bool failAt(const GraphTensor &tensor, SourceRange at, diag::Id id, Args &&...args) {
    joint_.diags.report(at, id, std::forward<Args>(args)...)
        .note(tensor.range, diag::note_declared_here, tensor.name);
    return false;
  }

  const GraphSource &source_;
  Joint &joint_;
  Graph &graph_;
  // Tensors that steps before made.
  llvm::StringMap<size_t> known_;
};

} // namespace

bool readGraph(const GraphSource &source, Joint &joint, Graph &graph) {
  return GraphReader(source, joint, graph).run();
}

} // namespace dtile::join
