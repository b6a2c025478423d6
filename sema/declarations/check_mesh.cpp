// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Meshes: a kernel that says `mesh (node: W / L, local: L);` numbers its ranks by coordinates, row
// by row, so that the last axis changes from rank to rank. Coordinates are index arithmetic from
// here on: `rank(local)` is `rank() % L`, and the rank at `(local: i)` is the sum of coordinates,
// each times the ranks after its axis. What counts along an axis is remembered, so that a
// coordinate is not taken for one of another axis, or for a rank.
#include "sema/checker.h"

namespace dtile::sema {

void Checker::kernelMesh(const ast::KernelDecl *decl) {
  const ast::MeshStmt *written = nullptr;
  for (const ast::Stmt *clause : decl->clauses) {
    const auto *one = llvm::dyn_cast<ast::MeshStmt>(clause);
    if (one && written)
      report(one->range, diag::mesh_twice).note(written->range, diag::note_declared_here, "mesh");
    written = written ? written : one;
  }
  if (!written)
    return;
  for (const ast::MeshAxis &axis : written->axes) {
    const auto old =
        llvm::find_if(mesh, [&](const Axis &other) { return other.name.name == axis.name.name; });
    if (old != mesh.end()) {
      report(axis.name.range, diag::axis_twice, axis.name.name)
          .note(old->name.range, diag::note_declared_here, axis.name.name);
      continue;
    }
    const TExpr *extent = position(axis.extent);
    refuseMemory(extent, diag::clause_form);
    const bool isKnown = extent->kind == TExprKind::Const;
    if (isKnown && int64_t(extent->bits) < 1)
      report(axis.extent->range, diag::axis_without_places, axis.name.name, int64_t(extent->bits));
    mesh.push_back({axis.name, extent->type->kind == TypeKind::Error ? nullptr : axis.extent});
  }
}

/// Axes have places, and the ranks are their product. The first axis has places where the others
/// do, as there is a rank; so a quotient of W by them, as it often is, is computed after they are
/// known to be positive.
void Checker::meshClauses() {
  const auto add = [&](SourceRange range, std::string text, TExpr *condition) {
    if (condition->type->kind == TypeKind::Error)
      return;
    Clause clause;
    clause.range = range;
    clause.text = std::move(text);
    clause.condition = condition;
    kernel->clauses.push_back(std::move(clause));
  };
  std::string product;
  for (size_t i = mesh.size(); i-- > 0;) {
    const SourceRange range = mesh[i].name.range;
    const std::string extent = "num_ranks(" + mesh[i].name.name.str() + ")";
    product = product.empty() ? extent : extent + " * " + product;
    TExpr *places = axisExtent(i, range);
    if (i > 0 && places->kind != TExprKind::Const)
      add(range, extent + " >= 1",
          arithmetic(ast::BinaryOp::Ge, places, intConst(1, range), range, range));
  }
  if (mesh.empty())
    return;
  const SourceRange range = mesh.front().name.range;
  TExpr *ranks = builtin(BuiltinId::NumRanks, {}, types.scalar(DType::I64), range);
  TExpr *places = axisExtent(0, range);
  if (mesh.size() > 1)
    places = arithmetic(ast::BinaryOp::Mul, places, axisStride(0, range), range, range);
  add(range, "W == " + product, arithmetic(ast::BinaryOp::Eq, ranks, places, range, range));
}

std::optional<size_t> Checker::axisNamed(llvm::StringRef name, SourceRange range) {
  if (mesh.empty()) {
    report(range, diag::no_mesh, name);
    return std::nullopt;
  }
  std::string names;
  for (const auto [i, axis] : llvm::enumerate(mesh)) {
    if (axis.name.name == name)
      return i;
    names += (i > 0 ? ", `" : "`") + axis.name.name.str() + "`";
  }
  report(range, diag::unknown_axis, name, names)
      .note(mesh.front().name.range, diag::note_declared_here, "mesh");
  return std::nullopt;
}

std::optional<size_t> Checker::axisArgument(const CallSite &site) {
  if (!checkArgs(site, 1, 1))
    return std::nullopt;
  const ast::Expr *axis = site.args[0].value;
  const auto *name = llvm::dyn_cast<ast::NameExpr>(axis);
  return axisNamed(name ? name->name : ctx.sources.text(axis->range), axis->range);
}

TExpr *Checker::axisExtent(size_t axis, SourceRange range) {
  if (!mesh[axis].extent)
    return error(range);
  TExpr *extent = position(mesh[axis].extent);
  extent->extentOf = uint8_t(axis + 1);
  return extent;
}

TExpr *Checker::axisStride(size_t axis, SourceRange range) {
  TExpr *stride = intConst(1, range);
  for (size_t i = mesh.size(); --i > axis;)
    stride = i + 1 == mesh.size()
                 ? axisExtent(i, range)
                 : arithmetic(ast::BinaryOp::Mul, axisExtent(i, range), stride, range, range);
  return stride;
}

TExpr *Checker::ownCoordinate(size_t axis, SourceRange range) {
  TExpr *own = builtin(BuiltinId::Rank, {}, types.scalar(DType::I64), range);
  if (axis + 1 < mesh.size())
    own = arithmetic(ast::BinaryOp::Div, own, axisStride(axis, range), range, range);
  if (axis > 0)
    own = arithmetic(ast::BinaryOp::Rem, own, axisExtent(axis, range), range, range);
  own->coordinate = {uint8_t(axis + 1), true};
  return own;
}

/// Which coordinate a value is: of another axis it is none.
TExpr *Checker::givenCoordinate(size_t axis, const ast::Expr *e) {
  TExpr *given = position(e);
  if (given->type->kind == TypeKind::Error)
    return given;
  const llvm::StringRef name = mesh[axis].name.name;
  if (given->coordinate.axis != 0 && given->coordinate.axis != axis + 1) {
    report(e->range, diag::wrong_axis, mesh[given->coordinate.axis - 1].name.name, name);
    return error(e->range);
  }
  const TExpr *extent = axisExtent(axis, e->range);
  const bool areKnown = given->kind == TExprKind::Const && extent->kind == TExprKind::Const;
  const auto place = int64_t(given->bits), places = int64_t(extent->bits);
  if (areKnown && (place < 0 || place >= places)) {
    report(e->range, diag::coordinate_outside, name, places, place)
        .note(mesh[axis].name.range, diag::note_declared_here, name);
    return error(e->range);
  }
  given->coordinate.isInside |= areKnown;
  return given;
}

TExpr *Checker::rankAt(const CallSite &site) {
  const SourceRange range = site.range;
  std::vector<const ast::Arg *> given(mesh.size());
  bool isGood = true;
  for (const ast::Arg &arg : site.args) {
    if (arg.label.name.empty()) {
      report(arg.value->range, diag::coordinate_needs_axis);
      isGood = false;
      continue;
    }
    const std::optional<size_t> axis = axisNamed(arg.label.name, arg.label.range);
    isGood &= axis.has_value();
    if (axis && given[*axis]) {
      report(arg.label.range, diag::axis_twice, arg.label.name)
          .note(given[*axis]->label.range, diag::note_first_use);
      isGood = false;
    } else if (axis) {
      given[*axis] = &arg;
    }
  }
  if (!isGood)
    return error(range);
  TExpr *rank = nullptr;
  TExpr *isThere = nullptr;
  llvm::SmallVector<GivenCoordinate, 0> mayBeOutside;
  for (size_t i = 0; i < mesh.size(); ++i) {
    TExpr *place = given[i] ? givenCoordinate(i, given[i]->value) : ownCoordinate(i, range);
    if (place->type->kind == TypeKind::Error)
      return place;
    if (!place->coordinate.isInside) {
      TExpr *places = axisExtent(i, range);
      mayBeOutside.push_back({mesh[i].name.name, place, places});
      TExpr *isLow = arithmetic(ast::BinaryOp::Ge, place, intConst(0, range), range, range);
      TExpr *isHigh = arithmetic(ast::BinaryOp::Lt, place, places, range, range);
      TExpr *isBoth = arithmetic(ast::BinaryOp::LogAnd, isLow, isHigh, range, range);
      isThere = isThere ? arithmetic(ast::BinaryOp::LogAnd, isThere, isBoth, range, range) : isBoth;
    }
    if (i + 1 < mesh.size())
      place = arithmetic(ast::BinaryOp::Mul, place, axisStride(i, range), range, range);
    rank = rank ? arithmetic(ast::BinaryOp::Add, rank, place, range, range) : place;
  }
  // Where an axis has no such place there is no such rank: -1, which is refused wherever ranks are.
  if (isThere)
    rank = select(isThere, rank, intConst(-1, range), range);
  rank->coordinates = mayBeOutside;
  rank->coordinate = {};
  return rank;
}

Coordinate Checker::Iteration::coordinate() const {
  const bool isOfAxis = lo && hi && blockLength == 0 && hi->extentOf != 0 &&
                        lo->kind == TExprKind::Const && int64_t(lo->bits) >= 0;
  return isOfAxis ? Coordinate{hi->extentOf, true} : Coordinate{};
}

Coordinate Checker::coordinateOf(ast::BinaryOp op, const TExpr *lhs, const TExpr *rhs) const {
  if (op == ast::BinaryOp::Rem && rhs->extentOf != 0)
    return {rhs->extentOf, true};
  const bool isShift = op == ast::BinaryOp::Add || op == ast::BinaryOp::Sub;
  if (isShift && rhs->kind == TExprKind::Const)
    return {lhs->coordinate.axis, false};
  if (op == ast::BinaryOp::Add && lhs->kind == TExprKind::Const)
    return {rhs->coordinate.axis, false};
  return {};
}

} // namespace dtile::sema
