// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Kernels, parameters, sizes, tile spaces and functions.
#include "ir/from_ast/lower.h"

#include "frontend/ast/mesh.h"
#include "frontend/base/assembly.h"
#include "frontend/base/check.h"
#include "ir/from_ast/lowering.h"
#include "ir/from_ast/prove_sizes.h"
#include "sema/tree/walk.h"

namespace dtile::ir {

namespace {

ParamMode modeOf(ast::ParamMode mode) {
  switch (mode) {
  case ast::ParamMode::In:
    return ParamMode::In;
  case ast::ParamMode::Out:
    return ParamMode::Out;
  case ast::ParamMode::InOut:
    return ParamMode::InOut;
  case ast::ParamMode::Symm:
    return ParamMode::Symm;
  case ast::ParamMode::ScratchSymm:
    return ParamMode::Scratch;
  case ast::ParamMode::Value:
    break;
  }
  DTILE_UNREACHABLE("a tensor parameter has a mode");
}

/// `local L`, `local 8`, or `local` alone where the size is neither a parameter nor a constant.
attr::Strs axesOf(const sema::KernelInstance &kernel) {
  attr::Strs axes;
  const auto *mesh = kernel.decl ? ast::meshOf(*kernel.decl) : nullptr;
  if (!mesh)
    return axes;
  for (const ast::MeshAxis &axis : mesh->axes) {
    std::string &text = axes.emplace_back(axis.name.name.str());
    if (const auto *number = llvm::dyn_cast<ast::IntLit>(axis.extent))
      text += " " + std::to_string(number->value);
    const auto *name = llvm::dyn_cast<ast::NameExpr>(axis.extent);
    if (!name)
      continue;
    for (const auto &[declared, value] : llvm::zip(kernel.decl->generics, kernel.generics))
      if (declared.name.name == name->name)
        text += " " + std::to_string(value.intValue);
    for (const ast::Param &param : kernel.decl->params)
      if (param.mode == ast::ParamMode::Value && param.name.name == name->name)
        text += " " + name->name.str();
  }
  return axes;
}

} // namespace

void lowerKernel(const sema::KernelInstance &kernel, Module &module) {
  const PhaseScope phase("lowering a kernel to IR");
  Lowering(module).kernel(kernel);
}

void lowerFunction(const sema::FnInstance &function, Module &module) {
  const PhaseScope phase("lowering a function to IR");
  Lowering(module).function(function);
}

// Types.

Type Lowering::typeOf(sema::Type type) {
  TypeContext &types = builder_.types();
  switch (type->kind) {
  case sema::TypeKind::Scalar:
    return types.scalar(type->dtype);
  case sema::TypeKind::Tile:
    return types.tile(type->shape, type->dtype);
  case sema::TypeKind::Region:
    return types.view(type->dtype, type->rank(), type->remote);
  case sema::TypeKind::Signal:
    return types.signal(type->rank(), type->remote);
  case sema::TypeKind::Token:
    return types.token();
  case sema::TypeKind::Acquire:
    return types.acquire();
  case sema::TypeKind::Error:
  case sema::TypeKind::Void:
  case sema::TypeKind::Range:
    break;
  }
  DTILE_UNREACHABLE("this type is no single IR type");
}

void Lowering::appendTypes(sema::Type type, llvm::SmallVectorImpl<Type> &types) {
  if (type->kind == sema::TypeKind::Void)
    return;
  if (type->kind == sema::TypeKind::Range)
    types.append(3, builder_.types().index());
  else
    types.push_back(typeOf(type));
}

void Lowering::appendParts(sema::Type type, const Lowered &value, Values &parts) {
  if (type->kind == sema::TypeKind::Void)
    return;
  if (type->kind == sema::TypeKind::Range)
    parts.append({value.range.first, value.range.limit, rangeIndex(value.range)});
  else
    parts.push_back(value.value);
}

Lowered Lowering::fromParts(sema::Type type, llvm::ArrayRef<Value *> &parts) {
  Lowered result;
  if (type->kind == sema::TypeKind::Void)
    return result;
  if (type->kind == sema::TypeKind::Range) {
    result.range.first = result.range.unshiftedFirst = parts[0];
    result.range.limit = result.range.unshiftedLimit = parts[1];
    result.range.index = parts[2];
    result.range.length = type->shape.front();
    parts = parts.drop_front(3);
    return result;
  }
  result.value = parts.front();
  parts = parts.drop_front();
  return result;
}

void Lowering::bindToArguments(Block &block, const sema::Variable &variable) {
  llvm::SmallVector<Type, 3> types;
  appendTypes(variable.type, types);
  Values parts;
  for (Type type : types) {
    static constexpr const char *kSuffixes[] = {"", ".limit", ".index"};
    parts.push_back(block.addArgument(type, variable.name + kSuffixes[parts.size()]));
  }
  llvm::ArrayRef<Value *> rest = parts;
  bind(variable, fromParts(variable.type, rest));
}

// Functions.

void Lowering::function(const sema::FnInstance &function) {
  builder_.setInsertionPointToEnd(builder_.module().body());
  if (function.decl)
    builder_.setLoc(function.decl->range.begin);
  Op *op = builder_.op(OpKind::Func, {});
  op->set(attr::name, function.name);
  op->set(attr::inline_hint, true);
  builder_.setInsertionPointToEnd(op->body());
  for (const sema::Variable *param : function.params)
    bindToArguments(op->body(), *param);
  Values values = body(function.body);
  if (function.hasInstructions)
    values = {withInstructions(function, op->body(), values.front())};
  builder_.op(OpKind::Return, values);
}

// The text of instructions as ops have it: `{x}` is `$1` where x is the first parameter.
static std::string withNumbers(const ast::FnDecl &decl, llvm::StringRef text) {
  std::string numbered;
  eachPiece(
      text,
      [&](llvm::StringRef plain) {
        for (char c : plain)
          numbered += c == '$' ? "$$" : std::string(1, c);
      },
      [&](llvm::StringRef name) {
        size_t number = 0;
        for (auto [i, param] : llvm::enumerate(decl.params))
          if (name != "result" && param.name.name == name)
            number = i + 1;
        numbered += "$" + std::to_string(number);
      });
  return numbered;
}

Value *Lowering::withInstructions(const sema::FnInstance &function, Block &block,
                                  Value *reference) {
  const ast::FnDecl &decl = *function.decl;
  const At at(builder_, decl.instructions.front().range);
  Values operands{reference};
  const Type type = reference->type();
  for (Value *argument : block.arguments()) {
    const Type given = argument->type();
    const bool isAlone = type.isTile() && !given.isTile();
    const Type repeated =
        isAlone ? builder_.types().tile(type.shape(), given.elementOrIndex()) : given;
    operands.push_back(isAlone ? builder_.value(OpKind::Splat, {argument}, repeated) : argument);
  }
  std::vector<std::string> assemblies, texts;
  for (const ast::Instructions &one : decl.instructions) {
    assemblies.push_back(one.target.name.str());
    texts.push_back(withNumbers(decl, one.text));
  }
  Op *op = builder_.op(OpKind::Extern, operands, {type});
  op->set(attr::name, decl.name.name.str());
  op->set(attr::assemblies, std::move(assemblies));
  op->set(attr::texts, std::move(texts));
  return op->result();
}

// Kernels.

void Lowering::kernel(const sema::KernelInstance &kernel) {
  builder_.setInsertionPointToEnd(builder_.module().body());
  if (kernel.decl)
    builder_.setLoc(kernel.decl->range.begin);
  Op *op = builder_.op(OpKind::Kernel, {});
  op->set(attr::name, kernel.name);
  if (attr::Strs axes = axesOf(kernel); !axes.empty())
    op->set(attr::mesh, std::move(axes));
  builder_.setInsertionPointToEnd(op->body());
  params_.resize(kernel.params.size());
  // Scalars come first where sizes follow from them.
  bool areScalarsFirst = false;
  for (const sema::SizeSymbol &symbol : kernel.symbols)
    sema::walkExpression(symbol.solution, [&](const sema::TExpr &e) {
      areScalarsFirst |= e.kind == sema::TExprKind::ParamRef;
    });
  if (areScalarsFirst)
    scalarParameters(kernel);
  symbols(kernel);
  if (!areScalarsFirst)
    scalarParameters(kernel);
  parameters(kernel);
  block(kernel.prologue);
  for (const sema::TSpace &space : kernel.spaces)
    this->space(kernel, space);
  builder_.op(OpKind::Return, {});
}

Value *Lowering::launchDim(unsigned param, unsigned dim) {
  Value *&value = launchDims_[{param, dim}];
  if (!value)
    value = builder_.value(OpKind::LaunchDim, {}, {},
                           {{attr::dim, int64_t(dim)}, {attr::param, int64_t(param)}});
  return value;
}

void Lowering::symbols(const sema::KernelInstance &kernel) {
  for (const sema::SizeSymbol &symbol : kernel.symbols) {
    DTILE_CHECK(symbol.solution, "a size symbol has a solution");
    const At at(builder_, symbol.range);
    Value *size = value(*symbol.solution);
    if (size->nameHint().empty())
      size->setNameHint(symbol.name);
    symbols_.push_back(size);
  }
}

void Lowering::scalarParameters(const sema::KernelInstance &kernel) {
  for (unsigned i = 0; i < kernel.params.size(); ++i) {
    const sema::KernelParam &param = kernel.params[i];
    if (param.type->kind != sema::TypeKind::Scalar)
      continue;
    const At at(builder_, param.range);
    Op *op = builder_.op(OpKind::ScalarParam, {}, {typeOf(param.type)});
    op->set(attr::name, param.name);
    op->set(attr::param, int64_t(i));
    if (param.defaultValue && param.defaultValue->kind == sema::TExprKind::Const)
      op->set(attr::default_value, constantAttribute(*param.defaultValue));
    params_[i].value = op->result();
    params_[i].value->setNameHint(param.name);
  }
}

void Lowering::parameters(const sema::KernelInstance &kernel) {
  for (const sema::KernelParam &param : kernel.params) {
    const At at(builder_, param.range);
    Values sizes;
    appendValues(param.sizes, sizes);
    declaredSizes_.push_back(std::move(sizes));
  }
  checkDeclaredSizes(kernel);
  launchClauses(kernel);
  for (unsigned i = 0; i < kernel.params.size(); ++i)
    tensorParameter(kernel.params[i], i);
  elementClauses(kernel);
}

void Lowering::checkDeclaredSizes(const sema::KernelInstance &kernel) {
  for (unsigned i = 0; i < kernel.params.size(); ++i) {
    const sema::KernelParam &param = kernel.params[i];
    if (param.type->kind != sema::TypeKind::Region || param.mode == ast::ParamMode::ScratchSymm)
      continue;
    for (unsigned d = 0; d < declaredSizes_[i].size(); ++d) {
      const At at(builder_, param.sizes[d]->range);
      Value *declared = declaredSizes_[i][d];
      Value *passed = launchDim(i, d);
      // The size that a symbol was read from cannot differ from it.
      if (declared == passed)
        continue;
      Op *check = builder_.op(OpKind::LaunchCheck, {declared, passed});
      check->set(attr::param, int64_t(i));
      check->set(attr::dim, int64_t(d));
    }
  }
}

void Lowering::tensorParameter(const sema::KernelParam &param, unsigned position) {
  const At at(builder_, param.range);
  const Values &sizes = declaredSizes_[position];
  if (param.type->kind == sema::TypeKind::Signal) {
    Op *op = builder_.op(OpKind::SignalParam, sizes, {typeOf(param.type)});
    op->set(attr::param, int64_t(position));
    op->set(attr::name, param.name);
    op->result()->setNameHint(param.name);
    params_[position].value = op->result();
  }
  if (param.type->kind != sema::TypeKind::Region)
    return;
  Op *op = builder_.op(OpKind::Param, sizes, {typeOf(param.type)});
  op->set(attr::param, int64_t(position));
  op->set(attr::name, param.name);
  op->set(attr::mode, modeOf(param.mode));
  if (param.zeroed)
    op->set(attr::zero, true);
  op->result()->setNameHint(param.name);
  params_[position].value = op->result();
  for (Value *size : sizes)
    params_[position].extents.push_back(wholeExtent(size));
}

void Lowering::space(const sema::KernelInstance &kernel, const sema::TSpace &space) {
  const At at(builder_, space.range);
  Values bounds;
  std::vector<std::string> names;
  for (const sema::SpaceDim &dim : space.dims) {
    bounds.push_back(value(*dim.lo));
    bounds.push_back(value(*dim.hi));
    bounds.push_back(builder_.constIndex(dim.step));
    names.push_back(dim.var->name);
  }
  Op *op = builder_.op(OpKind::Space, bounds);
  op->set(attr::name, space.name);
  op->set(attr::vars, std::move(names));
  if (space.ordered)
    op->set(attr::ordered, true);
  if (space.programs > 0)
    op->set(attr::programs, space.programs);
  if (space.copyEngine)
    op->set(attr::copy_engine, true);
  if (space.afterAll >= 0)
    op->set(attr::after_all, kernel.spaces[space.afterAll].name);

  const InsertionGuard guard(builder_);
  builder_.setInsertionPointToEnd(op->body());
  for (unsigned i = 0; i < space.dims.size(); ++i) {
    const sema::SpaceDim &dim = space.dims[i];
    Value *position = op->body().addArgument(builder_.types().index(), dim.var->name);
    Lowered var;
    if (dim.var->type->kind == sema::TypeKind::Range) {
      var.range.first = var.range.unshiftedFirst = var.range.indexPosition = position;
      var.range.limit = var.range.unshiftedLimit = bounds[3 * i + 1];
      var.range.length = var.range.indexStep = dim.step;
      var.range.indexOrigin = bounds[3 * i];
    } else {
      var.value = position;
    }
    bind(*dim.var, std::move(var));
  }
  for (const sema::Variable *joined : space.joined)
    bindToArguments(op->body(), *joined);
  const Values values = body(space.body);
  builder_.op(OpKind::Yield, values);
}

} // namespace dtile::ir
