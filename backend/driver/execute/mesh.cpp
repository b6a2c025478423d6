// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads meshes, and evaluates the sizes of a kernel's axes.
#include "backend/driver/execute/mesh.h"

#include "frontend/ast/mesh.h"
#include "frontend/base/diagnostics.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"

namespace dtile::driver {

namespace {

/// As many ranks as numbers of ranks may be (ir/README.md).
constexpr int64_t kMostRanks = int64_t(1) << 20;

int64_t floorDivide(int64_t x, int64_t y) {
  return y == 0 ? 0 : x / y - (x % y != 0 && (x < 0) != (y < 0) ? 1 : 0);
}

/// The value of a size of integers, names and arithmetic; nothing where it has something else.
std::optional<int64_t> evaluate(const ast::Expr *e, const llvm::StringMap<int64_t> &names) {
  if (const auto *number = llvm::dyn_cast<ast::IntLit>(e))
    return int64_t(number->value);
  if (const auto *name = llvm::dyn_cast<ast::NameExpr>(e)) {
    const auto it = names.find(name->name);
    return it == names.end() ? std::nullopt : std::optional(it->second);
  }
  const auto *both = llvm::dyn_cast<ast::BinaryExpr>(e);
  if (!both)
    return std::nullopt;
  const auto x = evaluate(both->lhs, names), y = evaluate(both->rhs, names);
  if (!x || !y)
    return std::nullopt;
  switch (both->op) {
  case ast::BinaryOp::Add:
    return *x + *y;
  case ast::BinaryOp::Sub:
    return *x - *y;
  case ast::BinaryOp::Mul:
    return *x * *y;
  case ast::BinaryOp::Div:
    return floorDivide(*x, *y);
  default:
    return std::nullopt;
  }
}

} // namespace

std::string meshText(llvm::ArrayRef<int64_t> axes) {
  std::string text;
  for (const int64_t size : axes)
    text += (text.empty() ? "" : "x") + std::to_string(size);
  return text;
}

std::optional<std::vector<int64_t>> parseMesh(Session &session, llvm::StringRef text) {
  const auto refuse = [&](const std::string &why) {
    session.diagnostics.report(SourceLoc{}, diag::bad_mesh, why);
    return std::nullopt;
  };
  if (text.empty())
    return refuse("is missing; it says how many ranks there are, as `--mesh 8` or `--mesh 2x4`");
  llvm::SmallVector<llvm::StringRef, 3> parts;
  text.split(parts, 'x');
  std::vector<int64_t> axes;
  int64_t ranks = 1;
  for (const llvm::StringRef part : parts) {
    int64_t size = 0;
    if (part.getAsInteger(10, size) || size < 1)
      return refuse("wants sizes of at least 1, as `8` or `8x8`, not `" + text.str() + "`");
    if (__builtin_mul_overflow(ranks, size, &ranks) || ranks > kMostRanks)
      return refuse("has more than " + std::to_string(kMostRanks) + " ranks");
    axes.push_back(size);
  }
  return axes;
}

bool hasAxes(Session &session, const ast::KernelDecl &kernel, llvm::ArrayRef<int64_t> axes) {
  const auto *mesh = ast::meshOf(kernel);
  if (!mesh || mesh->axes.size() == axes.size())
    return true;
  session.diagnostics.report(
      mesh->range, diag::bad_mesh,
      "has " + std::to_string(axes.size()) + (axes.size() == 1 ? " axis" : " axes") +
          ", and kernel `" + kernel.name.name.str() + "` has " + std::to_string(mesh->axes.size()));
  return false;
}

bool fitMesh(Session &session, const sema::KernelInstance &kernel, llvm::ArrayRef<int64_t> axes,
             llvm::StringMap<int64_t> &scalars) {
  const auto *mesh = ast::meshOf(*kernel.decl);
  if (!mesh)
    return true;
  if (!hasAxes(session, *kernel.decl, axes))
    return false;
  for (const ast::Param &param : kernel.decl->params)
    if (const auto axis = ast::axisSizedBy(*kernel.decl, param))
      scalars.try_emplace(param.name.name, axes[*axis]);
  llvm::StringMap<int64_t> names;
  int64_t ranks = 1;
  for (const int64_t size : axes)
    ranks *= size;
  names["W"] = ranks;
  for (const auto &[generic, value] : llvm::zip(kernel.decl->generics, kernel.generics))
    if (value.kind == sema::GenericValue::Kind::Int)
      names[generic.name.name] = value.intValue;
  for (const auto &scalar : scalars)
    names[scalar.first()] = scalar.second;
  // From the last one on: an axis `W / L` depends on those behind it.
  for (size_t i = axes.size(); i-- > 0;) {
    const ast::MeshAxis &axis = mesh->axes[i];
    const int64_t size = axes[i];
    const auto extent = evaluate(axis.extent, names);
    if (extent && *extent != size) {
      session.diagnostics.report(axis.name.range, diag::bad_mesh,
                                 "gives axis `" + axis.name.name.str() + "` " +
                                     std::to_string(size) + " places, and it has " +
                                     std::to_string(*extent));
      return false;
    }
  }
  return true;
}

} // namespace dtile::driver
