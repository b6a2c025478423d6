// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads regions off index expressions.
#include "sema/join/regions.h"

#include "frontend/ast/ast_visitor.h"
#include "frontend/ast/mesh.h"
#include "sema/join/make.h"

namespace dtile::join {

namespace {

// What an expression is made of.
struct Parts : ast::Walker<Parts> {
  using Walker::visit;
  explicit Parts(const Variables &variables) : variables(variables) {}
  bool visit(const ast::IndexExpr &) { return !(readsMemory = true); }
  bool visit(const ast::CallExpr &e) {
    readsMemory |= nameOf(e.callee) == "iota";
    hasRange |= llvm::isa<ast::MemberExpr>(e.callee);
    for (const ast::Arg &arg : e.args)
      walk(arg.value);
    return false;
  }
  bool visit(const ast::RangeExpr &) { return hasRange = true; }
  // `m.index` and its like are numbers.
  bool visit(const ast::MemberExpr &) { return false; }
  bool visit(const ast::NameExpr &e) {
    const Variable *variable = variables.lookup(e.name);
    if (variable == nullptr)
      return true;
    hasRange |= variable->step != nullptr;
    if (variable->value != nullptr && depth < 32) {
      ++depth;
      walk(variable->value);
      --depth;
    }
    return true;
  }
  const Variables &variables;
  bool readsMemory = false;
  bool hasRange = false;
  unsigned depth = 0;
};

// The end of a range from 0; null for others.
const ast::Expr *endOf(const ast::Expr *domain) {
  const auto *range = llvm::dyn_cast<ast::RangeExpr>(domain);
  if (range == nullptr)
    return domain;
  const auto *lo = llvm::dyn_cast_or_null<ast::IntLit>(range->lo);
  return lo != nullptr && lo->value == 0 ? range->hi : nullptr;
}

// The value of a name that a `let` gives, followed through names.
const ast::Expr *valueOf(const ast::Expr *e, const Variables &variables) {
  for (unsigned i = 0; i < 32; ++i) {
    const Variable *variable = nameOf(e).empty() ? nullptr : variables.lookup(nameOf(e));
    if (variable == nullptr || variable->value == nullptr || variable->isMutable)
      break;
    e = variable->value;
  }
  return e;
}

bool asBlock(const ast::Expr *index, const Variables &variables, Extent &extent) {
  const llvm::StringRef name = nameOf(valueOf(index, variables));
  const Variable *variable = name.empty() ? nullptr : variables.lookup(name);
  if (variable == nullptr || variable->step == nullptr || endOf(variable->domain) == nullptr)
    return false;
  // How far data reaches is not known to others.
  if (readsMemory(variable->domain, variables))
    return false;
  extent.block = name;
  extent.step = variable->step;
  extent.domain = endOf(variable->domain);
  return true;
}

// `part * size`, or `size * part`.
const ast::Expr *partOf(const ast::Expr *base, const ast::Expr *size, const Variables &variables,
                        const Values &lets) {
  const auto *product = llvm::dyn_cast<ast::BinaryExpr>(valueOf(base, variables));
  if (product == nullptr || product->op != ast::BinaryOp::Mul)
    return nullptr;
  if (isSame(product->rhs, size, lets))
    return product->lhs;
  return isSame(product->lhs, size, lets) ? product->rhs : nullptr;
}

} // namespace

bool readsMemory(const ast::Expr *e, const Variables &variables) {
  Parts parts(variables);
  parts.walk(e);
  return parts.readsMemory;
}

const Variable *Variables::lookup(llvm::StringRef name) const {
  for (const auto &scope : llvm::reverse(scopes_))
    if (const auto found = scope.find(name); found != scope.end())
      return &found->second;
  return nullptr;
}

std::optional<size_t> Variables::depthOf(llvm::StringRef name) const {
  for (size_t i = scopes_.size(); i-- > 0;)
    if (scopes_[i].contains(name))
      return i;
  return std::nullopt;
}

void Variables::declare(const ast::IterDim &dim) {
  Variable variable;
  variable.domain = dim.domain;
  variable.step = dim.step;
  declare(dim.name.name, variable);
}

Extent extentOf(const ast::Expr *index, const Variables &variables, const Values &lets) {
  Extent extent;
  extent.index = index;
  if (isWhole(index)) {
    extent.kind = Extent::Kind::Whole;
    return extent;
  }
  Parts parts(variables);
  parts.walk(index);
  if (parts.readsMemory) {
    extent.isRange = llvm::isa<ast::RangeExpr>(valueOf(index, variables));
    return extent;
  }
  if (!parts.hasRange) {
    extent.kind = Extent::Kind::Position;
    return extent;
  }
  extent.isRange = true;
  if (asBlock(index, variables, extent)) {
    extent.kind = Extent::Kind::Block;
    return extent;
  }
  const auto *sum = llvm::dyn_cast<ast::BinaryExpr>(valueOf(index, variables));
  if (sum == nullptr || sum->op != ast::BinaryOp::Add)
    return extent;
  for (const auto &[base, block] : {std::pair(sum->lhs, sum->rhs), std::pair(sum->rhs, sum->lhs)}) {
    if (!asBlock(block, variables, extent))
      continue;
    extent.part = partOf(base, extent.domain, variables, lets);
    if (extent.part != nullptr)
      extent.kind = Extent::Kind::BlockOfPart;
    return extent;
  }
  return extent;
}

const ast::Expr *boundOf(const ast::Expr *position, const Variables &variables, RanksOf ranksOf) {
  const ast::Expr *value = valueOf(position, variables);
  if (const auto *call = llvm::dyn_cast<ast::CallExpr>(value)) {
    if (nameOf(call->callee) != "rank")
      return nullptr;
    const ast::NameExpr *axis = ast::axisNamedBy(call);
    return ranksOf(axis ? axis->name : llvm::StringRef());
  }
  if (const auto *binary = llvm::dyn_cast<ast::BinaryExpr>(value))
    return binary->op == ast::BinaryOp::Rem ? binary->rhs : nullptr;
  const Variable *variable = nameOf(value).empty() ? nullptr : variables.lookup(nameOf(value));
  if (variable == nullptr || variable->domain == nullptr || variable->step != nullptr)
    return nullptr;
  const auto *range = llvm::dyn_cast<ast::RangeExpr>(variable->domain);
  return range == nullptr ? variable->domain : range->hi;
}

} // namespace dtile::join
