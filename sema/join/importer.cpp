// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Renames, adapts to other numbers of dimensions, and resolves sizes and types on the way.
#include "sema/join/importer.h"

#include "frontend/base/dtype.h"
#include "sema/join/make.h"

namespace dtile::join {

ast::Param Importer::adapted(const ast::Param &param) {
  ast::Param copy = this->param(param);
  if (!copy.type || !stage_ || !stage_->isAdapted())
    return copy;
  copy.type->shape = adaptedDims(param, copy.type->shape, [this](ast::Expr *size) {
    return resolved(joint_, size, stage_->at);
  });
  return copy;
}

ast::Ident Importer::ident(const ast::Ident &name) {
  ast::Ident other = name;
  if (stage_ != nullptr)
    if (const auto found = stage_->renames.find(name.name); found != stage_->renames.end())
      other.name = found->second;
  // Types of elements are names that values stand for.
  for (llvm::StringRef value = nameOf(joint_.values.lookup(other.name)); !value.empty();
       value = nameOf(joint_.values.lookup(value)))
    other.name = value;
  return other;
}

ast::Expr *Importer::replaced(const ast::Expr &e) {
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

// The dimensions of a plan's parameter, or indices of it, for the kernel's number of dimensions.
llvm::ArrayRef<ast::Expr *>
Importer::adaptedDims(const ast::Param &param, llvm::ArrayRef<ast::Expr *> items,
                      llvm::function_ref<ast::Expr *(ast::Expr *)> value) {
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

bool Importer::hasPart(const ast::Param &param) const {
  return llvm::any_of(param.type->shape,
                      [&](const ast::Expr *size) { return nameOf(size) == stage_->partName; });
}

ast::Expr *Importer::adaptedIndex(const ast::IndexExpr &e) {
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

ast::Expr *Composer::replaced(const ast::Expr &e) {
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

const ast::BinaryExpr *promiseOf(llvm::ArrayRef<ast::ExpectStmt *> ensures,
                                 llvm::StringRef tensor) {
  for (const ast::ExpectStmt *one : ensures) {
    const auto *equation = llvm::dyn_cast<ast::BinaryExpr>(one->condition);
    if (equation && nameOf(equation->lhs) == tensor &&
        (equation->op == ast::BinaryOp::Approx || equation->op == ast::BinaryOp::Eq))
      return equation;
  }
  return nullptr;
}

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

} // namespace dtile::join
