// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Solves for the sizes and element types of a graph's steps. A tensor that one step has as `[W, S,
// K]` and another as `[M, K]` is made of parts: M = W * S, and the other's bodies are divided.
#include "sema/join/graph.h"
#include "sema/join/make.h"

#include "frontend/ast/source_printer.h"
#include "frontend/base/dtype.h"

namespace dtile::join {

namespace {

class GraphUnifier {
public:
  GraphUnifier(Joint &joint, Graph &graph) : joint_(joint), graph_(graph) {}

  bool run() {
    for (size_t i = 0; i < graph_.steps.size(); ++i)
      if (!unifyStep(i))
        return false;
    return true;
  }

private:
  using Shape = llvm::SmallVector<ast::Expr *, 4>;

  bool unifyStep(size_t number) {
    step_ = &graph_.steps[number];
    stage_ = &joint_.stages[number];
    number_ = number;
    if (!step_->source.isKernel && !adapt())
      return false;
    // What is made follows from what is read.
    for (const Binding::Kind kind : {Binding::Kind::Reads, Binding::Kind::Makes})
      for (const auto &[param, binding] : llvm::zip(stage_->plan->params, step_->bindings))
        if (binding.kind == kind && param.type != nullptr && !unifyParam(param, binding))
          return false;
    return true;
  }

  // ---- Numbers of dimensions ----

  // A plan for matrices serves other tensors: what it takes, or what goes into what it brings, says
  // how many dimensions there are.
  bool adapt() {
    const auto params = stage_->plan->params;
    const ast::Param *joined = nullptr;
    const Binding *given = nullptr;
    for (const auto &[param, binding] : llvm::zip(params, step_->bindings))
      if (binding.kind == Binding::Kind::Reads && hasParts(param) && given == nullptr) {
        joined = &param;
        given = &binding;
      }
    if (given == nullptr)
      for (const auto &[param, binding] : llvm::zip(params, step_->bindings))
        if (binding.kind == Binding::Kind::Makes && hasParts(param))
          joined = &param;
    if (joined == nullptr)
      return stage_->axis == 0 || reportAxis(nullptr);
    const auto data = joined->type->shape.drop_front();
    for (const auto &[param, binding] : llvm::zip(params, step_->bindings))
      if (given == nullptr && binding.kind == Binding::Kind::Reads && isShape(param, data))
        given = &binding;
    if (given == nullptr)
      return stage_->axis == 0 || reportAxis(nullptr);
    const GraphTensor &tensor = graph_.tensors[given->tensor];
    Shape dims = tensor.shape;
    if (stage_->axis == 0 && isTaken(*joined) && dims.size() == joined->type->shape.size())
      return true;
    if (hasParts(tensor) && (tensor.kind == GraphTensor::Kind::Between || isTaken(*joined)))
      dims.erase(dims.begin());
    if (stage_->axis >= std::max<size_t>(dims.size(), 1))
      return reportAxis(&tensor);
    const size_t behind = dims.size() - stage_->axis;
    if (stage_->axis == 0 && behind == data.size())
      return true;
    const bool canAdapt =
        !nameOf(data.front()).empty() && (behind == data.size() || data.size() == 1 ||
                                          (data.size() == 2 && !nameOf(data.back()).empty()));
    if (!canAdapt)
      return reportDimensions(tensor, *joined, joined->type->shape.size());
    stage_->partName = nameOf(data.front());
    stage_->leading.append(dims.begin(), dims.begin() + stage_->axis);
    if (behind != data.size()) {
      stage_->restName = data.size() == 2 ? nameOf(data.back()) : llvm::StringRef();
      stage_->rest.emplace(dims.begin() + stage_->axis + 1, dims.end());
    }
    return true;
  }

  bool isTaken(const ast::Param &param) const {
    return step_->bindings[size_t(&param - stage_->plan->params.data())].kind ==
           Binding::Kind::Reads;
  }

  bool hasParts(const GraphTensor &tensor) const { return partsOf(tensor.shape).has_value(); }
  static bool hasParts(const ast::Param &param) {
    return param.type != nullptr && param.type->shape.size() > 1 &&
           ranksCountedBy(param.type->shape.front()).has_value();
  }
  // The axis along which ranks have a part each, or an empty name for all ranks; nothing where
  // there are no parts.
  std::optional<llvm::StringRef> partsOf(llvm::ArrayRef<ast::Expr *> shape) const {
    if (shape.size() < 2)
      return std::nullopt;
    return ranksCountedBy(resolved(joint_, shape.front(), stage_->at));
  }

  bool isShape(const ast::Param &param, llvm::ArrayRef<ast::Expr *> shape) const {
    return param.type != nullptr && param.type->shape.size() == shape.size() &&
           llvm::all_of(llvm::zip(param.type->shape, shape), [&](const auto &pair) {
             return isSame(std::get<0>(pair), std::get<1>(pair), {});
           });
  }

  // ---- Tensors ----

  bool unifyParam(const ast::Param &written, const Binding &binding) {
    GraphTensor &tensor = graph_.tensors[binding.tensor];
    const ast::Param param =
        Importer(joint_, stage_->names, stage_->source->home, stage_).adapted(written);
    const Shape shape(param.type->shape.begin(), param.type->shape.end());
    if (!unifyType(tensor, written, param.type->name.name))
      return false;
    const bool isMade = binding.kind == Binding::Kind::Makes;
    const bool isBetween = tensor.kind == GraphTensor::Kind::Between;
    const bool isParted = shape.size() > 1 && ranksCountedBy(shape.front()).has_value();
    if (isMade && isBetween) {
      tensor.shape = shape;
      tensor.axis = stage_->axis;
      if (!isParted)
        tensor.plain.push_back({number_, shape, /*isMaker=*/true});
      return true;
    }
    if (shape.size() == tensor.shape.size()) {
      if (isBetween && !isParted)
        tensor.plain.push_back({number_, shape, /*isMaker=*/false});
      return unifyAll(tensor, written, tensor.shape, shape);
    }
    if (hasParts(tensor) && isBetween && shape.size() + 1 == tensor.shape.size())
      return takeParts(tensor, written, shape);
    if (isParted && isBetween && !hasParts(tensor) && shape.size() == tensor.shape.size() + 1 &&
        stage_->axis < tensor.shape.size())
      return makeParts(tensor, written, shape);
    return reportDimensions(tensor, written, shape.size());
  }

  // The step knows of no parts, and the tensor has them.
  bool takeParts(GraphTensor &tensor, const ast::Param &param, Shape shape) {
    ast::Expr *whole = shape[tensor.axis];
    ast::Expr *part = tensor.shape[tensor.axis + 1];
    const llvm::StringRef along = *partsOf(tensor.shape);
    if (!unifyWhole(whole, part, along))
      return reportSize(tensor, param, tensor.axis, product(part, along), whole);
    step_->parted.push_back(
        {tensor.name, tensor.axis, along, whole, part, step_->call->range, /*isProducer=*/false});
    shape.erase(shape.begin() + tensor.axis);
    Shape others = tensor.shape;
    others.erase(others.begin() + tensor.axis + 1);
    others.erase(others.begin());
    return unifyAll(tensor, param, others, shape);
  }

  // The step takes parts of what steps before made and read as a whole.
  bool makeParts(GraphTensor &tensor, const ast::Param &param, Shape shape) {
    const unsigned axis = stage_->axis;
    ast::Expr *whole = tensor.shape[axis];
    ast::Expr *part = shape[axis + 1];
    const llvm::StringRef along = *ranksCountedBy(shape.front());
    if (!unifyWhole(whole, part, along))
      return reportSize(tensor, param, axis, whole, product(part, along));
    for (const GraphTensor::Plain &one : tensor.plain)
      graph_.steps[one.step].parted.push_back(
          {tensor.name, axis, along, one.shape[axis], part, step_->call->range, one.isMaker});
    tensor.plain.clear();
    Shape others = tensor.shape;
    others.erase(others.begin() + axis);
    tensor.shape = shape;
    tensor.axis = axis;
    shape.erase(shape.begin() + axis + 1);
    shape.erase(shape.begin());
    return unifyAll(tensor, param, others, shape);
  }

  bool unifyAll(const GraphTensor &tensor, const ast::Param &param, const Shape &a,
                const Shape &b) {
    for (const auto &[i, pair] : llvm::enumerate(llvm::zip(a, b)))
      if (!unifySize(std::get<0>(pair), std::get<1>(pair)))
        return reportSize(tensor, param, i, std::get<0>(pair), std::get<1>(pair));
    return true;
  }

  // ---- Sizes and types ----

  // A step's size or, where `isOverlaps`, the overlap's, that nothing is known about yet.
  bool isFree(const ast::Expr *size, bool isOverlaps) const {
    const llvm::StringRef name = nameOf(size);
    return !name.empty() && !joint_.values.contains(name) &&
           (isOverlaps ? joint_.kernelNames.sizes : graph_.sizes).contains(name);
  }

  bool define(const ast::Expr *size, const ast::Expr *value) {
    ast::Expr *known = resolved(joint_, value, stage_->at);
    if (namesIn(*known).contains(nameOf(size)))
      return false;
    joint_.values[nameOf(size)] = known;
    return true;
  }

  bool unifySize(const ast::Expr *a, const ast::Expr *b) {
    if (isSame(a, b, joint_.values))
      return true;
    const ast::Expr *held = resolved(joint_, a, stage_->at);
    const ast::Expr *taken = resolved(joint_, b, stage_->at);
    // The author's names stay where they can.
    for (const bool isOverlaps : {false, true})
      for (const auto &[size, value] : {std::pair(taken, held), std::pair(held, taken)})
        if (isFree(size, isOverlaps))
          return define(size, value);
    // `2 * N` and `2 * M`.
    const auto *x = llvm::dyn_cast<ast::BinaryExpr>(held);
    const auto *y = llvm::dyn_cast<ast::BinaryExpr>(taken);
    if (x == nullptr || y == nullptr || x->op != y->op)
      return false;
    if (isSame(x->lhs, y->lhs, joint_.values))
      return unifySize(x->rhs, y->rhs);
    return isSame(x->rhs, y->rhs, joint_.values) && unifySize(x->lhs, y->lhs);
  }

  ast::Expr *product(const ast::Expr *part, llvm::StringRef along) const {
    const Make make{joint_.arena, stage_->at};
    return make.binary(ast::BinaryOp::Mul, numRanks(joint_, stage_->at, along),
                       resolved(joint_, part, stage_->at));
  }

  // `whole` is a part for each rank.
  bool unifyWhole(const ast::Expr *whole, const ast::Expr *part, llvm::StringRef along) {
    const ast::Expr *known = resolved(joint_, whole, stage_->at);
    if (const auto *product = llvm::dyn_cast<ast::BinaryExpr>(known);
        product && product->op == ast::BinaryOp::Mul &&
        isSame(product->lhs, numRanks(joint_, stage_->at, along), {}))
      return unifySize(product->rhs, part);
    return (isFree(known, /*isOverlaps=*/false) || isFree(known, /*isOverlaps=*/true)) &&
           define(known, product(part, along));
  }

  llvm::StringRef typeOf(llvm::StringRef name) const {
    for (llvm::StringRef value = name; !value.empty(); value = nameOf(joint_.values.lookup(value)))
      name = value;
    return name;
  }

  bool unifyType(GraphTensor &tensor, const ast::Param &param, llvm::StringRef type) {
    if (tensor.type.empty()) {
      tensor.type = type;
      return true;
    }
    const llvm::StringRef held = typeOf(tensor.type);
    const llvm::StringRef taken = typeOf(type);
    const Make make{joint_.arena, stage_->at};
    if (held == taken)
      return true;
    if (graph_.types.contains(taken)) {
      joint_.values[taken] = make.name(held);
      return true;
    }
    if (graph_.types.contains(held)) {
      joint_.values[held] = make.name(taken);
      return true;
    }
    joint_.diags
        .report(stage_->at, diag::step_types, tensor.name, held, stage_->plan->name.name, taken)
        .note(tensor.range, diag::note_declared_here, tensor.name)
        .note(param.range, diag::note_declared_here, param.name.name);
    return false;
  }

  // ---- Messages ----

  bool reportAxis(const GraphTensor *tensor) {
    joint_.diags.report(stage_->at, diag::join_axis,
                        tensor ? tensor->name : stage_->plan->name.name,
                        tensor ? tensor->shape.size() - 1 : 0);
    return false;
  }

  bool reportDimensions(const GraphTensor &tensor, const ast::Param &param, size_t taken) {
    joint_.diags
        .report(stage_->at, diag::step_dimensions, tensor.name, tensor.shape.size(),
                stage_->plan->name.name, taken)
        .note(tensor.range, diag::note_declared_here, tensor.name)
        .note(param.range, diag::note_declared_here, param.name.name);
    return false;
  }

  bool reportSize(const GraphTensor &tensor, const ast::Param &param, size_t dim,
                  const ast::Expr *held, const ast::Expr *taken) {
    joint_.diags
        .report(stage_->at, diag::step_sizes, dim, tensor.name,
                textOf(resolved(joint_, held, stage_->at)), stage_->plan->name.name,
                textOf(resolved(joint_, taken, stage_->at)))
        .note(tensor.range, diag::note_declared_here, tensor.name)
        .note(param.range, diag::note_declared_here, param.name.name);
    return false;
  }

  Joint &joint_;
  Graph &graph_;
  Step *step_ = nullptr;
  Stage *stage_ = nullptr;
  size_t number_ = 0;
};

} // namespace

bool unifyGraph(Joint &joint, Graph &graph) { return GraphUnifier(joint, graph).run(); }

} // namespace dtile::join
