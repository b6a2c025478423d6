// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads of what nobody has written: after the end of a source, and of a rank's own part.
#include "backend/driver/check/edits.h"
#include "backend/driver/check/fixes.h"

#include "frontend/ast/ast_visitor.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"

namespace dtile::driver {

namespace {

/// Where the first clause of a kernel may stand.
SourceLoc firstPlace(const ast::KernelDecl &kernel) {
  if (!kernel.clauses.empty())
    return kernel.clauses.front()->range.begin;
  if (!kernel.prologue.empty())
    return kernel.prologue.front()->range.begin;
  if (kernel.roles.empty())
    return {};
  const ast::Role &role = *kernel.roles.front();
  if (!role.name.name.empty())
    return role.range.begin;
  return role.body && !role.body->statements.empty() ? role.body->statements.front()->range.begin
                                                     : SourceLoc();
}

/// The dimension of a space or loop around a place that counts ranks from 1.
struct RanksFromOne : ast::Walker<RanksFromOne> {
  using Walker::visit;
  explicit RanksFromOne(SourceLoc place) : place(place) {}

  bool visit(const ast::ForStmt &s) { return note(s.range, s.dim); }
  bool note(SourceRange range, const ast::IterDim &dim) {
    const auto *domain = llvm::dyn_cast_or_null<ast::RangeExpr>(dim.domain);
    if (!contains(range, place) || !domain || dim.step)
      return true;
    const auto *from = llvm::dyn_cast_or_null<ast::IntLit>(domain->lo);
    const auto *to = llvm::dyn_cast_or_null<ast::NameExpr>(domain->hi);
    if (from && from->value == 1 && to && to->name == "W")
      begin = from;
    return true;
  }

  SourceLoc place;
  const ast::IntLit *begin = nullptr;
};

/// The index of `all[rank(), :]` of the write's target that is the writing rank.
struct OwnIndex : ast::Walker<OwnIndex> {
  using Walker::visit;
  OwnIndex(SourceLoc place, llvm::StringRef object) : place(place), object(object) {}

  bool visit(const ast::CallExpr &e) {
    if (e.range.begin == place)
      write = e.range;
    return true;
  }
  bool visit(const ast::IndexExpr &e) {
    const ast::Expr *base = e.base;
    if (const auto *remote = llvm::dyn_cast<ast::RemoteExpr>(base))
      base = remote->base;
    const auto *name = llvm::dyn_cast<ast::NameExpr>(base);
    if (!name || name->name != object || !write.isValid() || !contains(write, e.range.begin))
      return true;
    for (auto [i, index] : llvm::enumerate(e.indices)) {
      const auto *call = llvm::dyn_cast<ast::CallExpr>(index);
      const auto *callee = call ? llvm::dyn_cast<ast::NameExpr>(call->callee) : nullptr;
      if (callee && callee->name == "rank" && call->args.empty())
        dim = i;
    }
    return true;
  }

  SourceLoc place;
  llvm::StringRef object;
  SourceRange write;
  std::optional<size_t> dim;
};

} // namespace

std::vector<FixIt> fixesFor(const SourceManager &sources, const ast::KernelDecl &kernel,
                            const protocol::ShortSize &size) {
  const SourceLoc place = firstPlace(kernel);
  if (!place.isValid() || !contains(kernel.range, place))
    return {};
  return {insertBefore(sources, place,
                       "requires " + size.size + " % " + std::to_string(size.length) + " == 0;")};
}

std::vector<FixIt> fixesFor(const SourceManager & /*sources*/, const ast::KernelDecl &kernel,
                            const protocol::LeftOutPart &part) {
  const auto [object, rest] = llvm::StringRef(part.region).split('[');
  OwnIndex own(part.write, object);
  own.walk(static_cast<const ast::Decl *>(&kernel));
  RanksFromOne ranks(part.write);
  ranks.walk(static_cast<const ast::Decl *>(&kernel));
  for (const ast::Role *role : kernel.roles)
    for (; role; role = role->whenAll)
      if (role->over)
        for (const ast::IterDim &dim : role->over->dims)
          ranks.note(role->range, dim);
  llvm::SmallVector<llvm::StringRef, 4> indices;
  rest.split(indices, ',');
  int64_t index = 0;
  if (!own.dim || !ranks.begin || !contains(kernel.range, ranks.begin->range.begin) ||
      *own.dim >= indices.size() || indices[*own.dim].trim(" ]").getAsInteger(10, index) ||
      index != part.rank)
    return {};
  return {{ranks.begin->range, "0"}};
}

} // namespace dtile::driver
