// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Parameters of kernels and the size names in their shapes.
#include "frontend/ast/mesh.h"
#include "sema/checker.h"
#include "sema/declarations/alternatives.h"

namespace dtile::sema {

// A name in a shape that means nothing yet is a size, bound by the arguments.
void Checker::declareSizes(const ast::Expr *size) {
  switch (size->kind) {
  case ast::NodeKind::NameExpr: {
    const auto *name = llvm::cast<ast::NameExpr>(size);
    if (const Symbol *known = lookup(name->name)) {
      // Sizes are known before anything is read.
      const ast::Param *param =
          known->kind == Symbol::Kind::Param ? &kernel->decl->params[known->index] : nullptr;
      if (param && param->type && (param->type->hasShape || param->mode != ast::ParamMode::Value))
        report(name->range, diag::name_is_no_value, name->name, "tensor")
            .note(known->range, diag::note_declared_here, name->name);
      return;
    }
    if (name->name == "W" || dtypeFromName(name->name))
      return;
    Symbol symbol;
    symbol.kind = Symbol::Kind::Size;
    symbol.name = name->name;
    symbol.range = name->range;
    symbol.index = kernel->symbols.size();
    scope.declare(symbol);
    kernel->symbols.push_back({name->name.str(), name->range, nullptr});
    return;
  }
  case ast::NodeKind::UnaryExpr:
    return declareSizes(llvm::cast<ast::UnaryExpr>(size)->operand);
  case ast::NodeKind::BinaryExpr:
    declareSizes(llvm::cast<ast::BinaryExpr>(size)->lhs);
    return declareSizes(llvm::cast<ast::BinaryExpr>(size)->rhs);
  case ast::NodeKind::CallExpr:
    if (ast::axisNamedBy(size))
      return;
    if (llvm::isa<ast::MemberExpr>(llvm::cast<ast::CallExpr>(size)->callee))
      declareSizes(llvm::cast<ast::CallExpr>(size)->callee);
    for (const ast::Arg &arg : llvm::cast<ast::CallExpr>(size)->args)
      declareSizes(arg.value);
    return;
  case ast::NodeKind::IndexExpr:
    declareSizes(llvm::cast<ast::IndexExpr>(size)->base);
    for (const ast::Expr *index : llvm::cast<ast::IndexExpr>(size)->indices)
      declareSizes(index);
    return;
  case ast::NodeKind::MemberExpr:
    return declareSizes(llvm::cast<ast::MemberExpr>(size)->base);
  case ast::NodeKind::ConditionalExpr: {
    const auto *choice = llvm::cast<ast::ConditionalExpr>(size);
    declareSizes(choice->condition);
    declareSizes(choice->whenTrue);
    return declareSizes(choice->whenFalse);
  }
  default:
    return;
  }
}

void Checker::kernelSignature(const ast::KernelDecl *decl) {
  kernel->params.resize(decl->params.size());
  for (auto [i, param] : llvm::enumerate(decl->params)) {
    KernelParam &checked = kernel->params[i];
    checked.name = param.name.name.str();
    checked.range = param.range;
    checked.mode = param.mode;
    checked.type = types.error();
    const Symbol *old = scope.lookup(param.name.name);
    if (old)
      report(param.name.range, diag::redefinition, param.name.name)
          .note(old->range, diag::note_declared_here, param.name.name);
    // Scalars may stand in shapes, wherever they are declared.
    const bool isScalar = param.type && !param.type->hasShape &&
                          param.mode == ast::ParamMode::Value && param.type->name.name != "signal";
    if (isScalar) {
      checked.type = valueTypeRef(*param.type);
      if (!checked.type->isValue() && checked.type->kind != TypeKind::Error) {
        report(param.range, diag::not_a_type, param.type->name.name);
        checked.type = types.error();
      }
    }
    Symbol symbol;
    symbol.kind = Symbol::Kind::Param;
    symbol.name = param.name.name;
    symbol.range = param.name.range;
    symbol.index = i;
    scope.declare(symbol);
  }
  for (const ast::Param &param : decl->params)
    if (param.type)
      for (const ast::Expr *size : param.type->shape)
        declareSizes(size);
  kernelMesh(decl);
  bool hasDefault = false;
  for (auto [i, param] : llvm::enumerate(decl->params)) {
    kernelParam(param, i);
    if (hasDefault && !param.init && isPassed(param))
      report(param.range, diag::default_not_last, param.name.name);
    hasDefault |= kernel->params[i].defaultValue != nullptr;
  }
  // A name in a shape alone is no use.
  for (const ast::Param &param : decl->params)
    if (Symbol *symbol = scope.lookup(param.name.name))
      symbol->used = kernel->params[symbol->index].mode == ast::ParamMode::Value && symbol->used;
  solveSizes();
}

void Checker::kernelParam(const ast::Param &param, unsigned index) {
  KernelParam &checked = kernel->params[index];
  if (!param.type) {
    checked.type = errorType();
    return;
  }
  const bool isSignal = param.type->name.name == "signal";
  bool good = true;
  for (const ast::Expr *size : param.type->shape) {
    TExpr *extent = position(size);
    good &= extent->type->kind != TypeKind::Error;
    if (extent->kind == TExprKind::Const && good && int64_t(extent->bits) < 0) {
      report(size->range, diag::negative_size, int64_t(extent->bits));
      good = false;
    }
    checked.sizes.push_back(extent);
  }
  if (isSignal) {
    if (good)
      checked.type = types.signal(checked.sizes.size(), /*remote=*/false);
    checkParamSpace(param, checked);
    return;
  }
  const bool isScalar = !param.type->hasShape && param.mode == ast::ParamMode::Value;
  if (isScalar) {
    if (param.init)
      checked.defaultValue = defaultValue(param, checked.type);
    return;
  }
  std::optional<DType> dtype = dtypeNamed(param.type->name.name, param.type->name.range);
  if (!dtype || !good)
    return;
  TypeData data{.kind = TypeKind::Region, .dtype = *dtype};
  for (const TExpr *extent : checked.sizes)
    data.shape.push_back(extent->kind == TExprKind::Const ? int64_t(extent->bits) : kDynamic);
  if (data.shape.size() > kMaxTensorRank)
    report(param.type->range, diag::tensor_rank_too_high, data.shape.size(), kMaxTensorRank);
  switch (param.mode) {
  case ast::ParamMode::Value:
    report(param.range, diag::tensor_needs_mode, param.name.name)
        .fix({param.type->range.begin, param.type->range.begin}, "in ");
    break;
  case ast::ParamMode::In:
    break;
  case ast::ParamMode::Out:
    data.writable = true;
    data.readable = false;
    break;
  case ast::ParamMode::InOut:
    data.writable = true;
    break;
  case ast::ParamMode::Symm:
  case ast::ParamMode::ScratchSymm:
    data.writable = true;
    data.space = Space::Symm;
    break;
  }
  checked.type = types.region(data);
  if (param.init) {
    TExpr *initial = value(param.init);
    const bool isZero =
        initial->kind == TExprKind::Const && initial->type->isValue() && initial->bits == 0;
    if (!isZero && initial->type->kind != TypeKind::Error)
      report(param.init->range, diag::initial_value_not_zero);
    checked.zeroed = true;
  }
  checkParamSpace(param, checked);
}

} // namespace dtile::sema
