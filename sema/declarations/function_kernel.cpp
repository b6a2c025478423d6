// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The syntax tree of a kernel around one call. Its nodes stand where the call and its arguments
// stand in the test, so that mistakes are shown there.
#include "sema/declarations/function_kernel.h"

#include "frontend/base/check.h"
#include "sema/join/make.h"

#include <cmath>

namespace dtile::sema {

using join::Make;

namespace {

const Symbol *symbolNamed(const ModuleInfo &module, llvm::StringRef name) {
  const auto found = module.names.find(name);
  return found == module.names.end() ? nullptr : &found->second;
}

const Symbol *calledSymbol(const ModuleInfo &module, const ast::Expr *callee) {
  if (const auto *name = llvm::dyn_cast<ast::NameExpr>(callee))
    return symbolNamed(module, name->name);
  const auto *member = llvm::dyn_cast<ast::MemberExpr>(callee);
  const auto *base = member ? llvm::dyn_cast<ast::NameExpr>(member->base) : nullptr;
  const Symbol *owner = base ? symbolNamed(module, base->name) : nullptr;
  return owner && owner->kind == Symbol::Kind::Module && owner->module
             ? symbolNamed(*owner->module, member->member.name)
             : nullptr;
}

const ast::FnDecl *functionOf(const Symbol *symbol) {
  return symbol && symbol->kind == Symbol::Kind::Fn ? llvm::cast<ast::FnDecl>(symbol->decl)
                                                    : nullptr;
}

ast::Expr *literal(const Make &make, const FunctionCall::Arg &arg) {
  bool isNegative = arg.integer < 0;
  ast::Expr *value = nullptr;
  if (arg.dtype == DType::Bool) {
    auto *truth = make.arena.make<ast::BoolLit>(make.at);
    truth->value = arg.integer != 0;
    return truth;
  }
  if (isFloat(arg.dtype)) {
    isNegative = std::signbit(arg.real);
    if (std::isfinite(arg.real)) {
      auto *real = make.arena.make<ast::FloatLit>(make.at);
      real->value = std::fabs(arg.real);
      value = real;
    } else {
      value = make.name(std::isnan(arg.real) ? "nan" : "inf");
    }
  } else {
    value = make.number(isNegative ? -uint64_t(arg.integer) : uint64_t(arg.integer));
  }
  if (!isNegative)
    return value;
  auto *negated = make.arena.make<ast::UnaryExpr>(make.at);
  negated->op = ast::UnaryOp::Neg;
  negated->operand = value;
  return negated;
}

ast::Expr *genericValue(const Make &make, const GenericValue &value) {
  switch (value.kind) {
  case GenericValue::Kind::DType:
    return make.name(dtypeName(value.dtype));
  case GenericValue::Kind::Bool:
    return literal(make, {.dtype = DType::Bool, .integer = value.intValue});
  case GenericValue::Kind::Int:
    return literal(make, {.dtype = DType::I64, .integer = value.intValue});
  case GenericValue::Kind::Shape:
    break;
  }
  DTILE_UNREACHABLE("shapes are not given");
}

ast::Param tensor(const Make &make, const std::string &name, ast::ParamMode mode, DType dtype,
                  llvm::ArrayRef<int64_t> sizes) {
  ast::Param param;
  param.range = make.at;
  param.name = {make.arena.copy(name), make.at};
  param.mode = mode;
  param.type = make.arena.makePlain<ast::TypeRef>();
  param.type->range = make.at;
  param.type->name = {dtypeName(dtype), make.at};
  param.type->hasShape = true;
  llvm::SmallVector<ast::Expr *, 4> shape;
  for (const int64_t size : sizes)
    shape.push_back(make.number(uint64_t(size)));
  if (shape.empty())
    shape.push_back(make.number(1));
  param.type->shape = make.arena.copy(llvm::ArrayRef<ast::Expr *>(shape));
  return param;
}

/// All of such a tensor; of a number its element.
ast::Expr *whole(const Make &make, const ast::Param &param, bool isNumber) {
  llvm::SmallVector<ast::Expr *, 4> indices;
  for (size_t i = 0; i < param.type->shape.size(); ++i)
    indices.push_back(isNumber ? make.number(0) : make.whole());
  return make.index(make.name(param.name.name), indices);
}

} // namespace

const ast::FnDecl *functionNamed(const ModuleInfo &module, const ast::Expr *callee) {
  if (const ast::FnDecl *fn = functionOf(calledSymbol(module, callee)))
    return fn;
  const auto *member = llvm::dyn_cast<ast::MemberExpr>(callee);
  if (!member || member->member.name != "reference")
    return nullptr;
  const ast::FnDecl *fn = functionOf(calledSymbol(module, member->base));
  return fn && fn->isExtern ? fn : nullptr;
}

const ast::KernelDecl *kernelOfCall(Context &context, ModuleInfo &home, const ast::FnDecl &fn,
                                    const FunctionCall &call, llvm::ArrayRef<Type> results) {
  ast::Arena &arena = context.arena;
  const Make make{arena, call.range};
  llvm::SmallVector<ast::Param, 4> params;
  llvm::SmallVector<ast::Arg, 4> args;
  for (const FunctionCall::Arg &arg : call.args) {
    const Make here{arena, arg.range};
    if (arg.isLiteral) {
      args.push_back({arg.label, literal(here, arg)});
      continue;
    }
    // Names with a space are nobody's.
    params.push_back(tensor(here, "arg " + std::to_string(params.size()), ast::ParamMode::In,
                            arg.dtype, arg.sizes));
    args.push_back({arg.label, whole(here, params.back(), arg.sizes.empty())});
  }
  ast::Expr *callee = call.callee;
  if (!call.generics.empty()) {
    auto *generic = arena.make<ast::GenericExpr>(call.callee->range);
    generic->base = call.callee;
    llvm::SmallVector<ast::Arg, 4> values;
    for (const auto &[label, value, range] : call.generics)
      values.push_back({label, genericValue({arena, range}, value)});
    generic->args = arena.copy(llvm::ArrayRef<ast::Arg>(values));
    callee = generic;
  }
  llvm::SmallVector<ast::Stmt *, 4> body;
  ast::CallExpr *inner = make.call(callee, args);
  if (fn.results.empty()) {
    body.push_back(make.statement(inner));
  } else {
    auto *let = llvm::cast<ast::LetStmt>(make.let("result 0", inner));
    llvm::SmallVector<ast::Ident, 4> names(let->names);
    for (size_t i = 1; i < fn.results.size(); ++i)
      names.push_back({arena.copy("result " + std::to_string(i)), call.range});
    let->names = arena.copy(llvm::ArrayRef<ast::Ident>(names));
    body.push_back(let);
  }
  for (const auto &[i, type] : llvm::enumerate(results)) {
    params.push_back(
        tensor(make, "out " + std::to_string(i), ast::ParamMode::Out, type->dtype, type->shape));
    auto *store = arena.make<ast::AssignStmt>(call.range);
    store->target = whole(make, params.back(), type->shape.empty());
    store->value = make.name("result " + std::to_string(i));
    body.push_back(store);
  }
  auto *kernel = arena.make<ast::KernelDecl>(call.range);
  kernel->name = fn.name;
  kernel->name.name = arena.copy(("fn " + fn.name.name).str());
  kernel->params = arena.copy(llvm::ArrayRef<ast::Param>(params));
  auto *role = arena.makePlain<ast::Role>();
  role->range = call.range;
  role->body = arena.make<ast::BlockStmt>(call.range);
  role->body->statements = arena.copy(llvm::ArrayRef<ast::Stmt *>(body));
  kernel->roles = arena.copy(llvm::ArrayRef<ast::Role *>(role));
  context.moduleOf[kernel] = &home;
  return kernel;
}

} // namespace dtile::sema
