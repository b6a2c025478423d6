// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The edits are insertions into the text as it stands: what the author wrote stays.
#include "backend/driver/check/edits.h"
#include "backend/driver/check/fixes.h"

#include "frontend/ast/ast_visitor.h"

#include "llvm/ADT/StringExtras.h"

namespace dtile::driver {

namespace {

/// Finds the innermost statement around a place, and the rank whose object is read in it.
struct ReadFinder : ast::Walker<ReadFinder> {
  using Walker::visit;
  explicit ReadFinder(const protocol::MissingSignal &missing) : missing(missing) {}

  bool visit(const ast::LetStmt &s) { return note(s); }
  bool visit(const ast::VarStmt &s) { return note(s); }
  bool visit(const ast::AssignStmt &s) { return note(s); }
  bool visit(const ast::ExprStmt &s) { return note(s); }
  bool visit(const ast::RemoteExpr &e) {
    const ast::Expr *base = e.base;
    while (const auto *index = llvm::dyn_cast<ast::IndexExpr>(base))
      base = index->base;
    const auto *name = llvm::dyn_cast<ast::NameExpr>(base);
    if (name && name->name == missing.object && statement &&
        contains(statement->range, e.range.begin))
      rank = e.rank;
    return true;
  }
  bool note(const ast::Stmt &s) {
    if (contains(s.range, missing.read))
      statement = &s;
    return true;
  }

  const protocol::MissingSignal &missing;
  const ast::Stmt *statement = nullptr;
  const ast::Expr *rank = nullptr;
};

} // namespace

std::vector<FixIt> fixesFor(const SourceManager &sources, const ast::KernelDecl &kernel,
                            const protocol::MissingSignal &missing) {
  const bool hasRoles = !kernel.roles.empty() && !kernel.roles.front()->name.name.empty();
  if (!hasRoles || kernel.params.empty())
    return {};
  ReadFinder finder(missing);
  finder.walk(static_cast<const ast::Decl *>(&kernel));
  if (!finder.statement || !finder.rank)
    return {};
  const std::string rank = sources.text(finder.rank->range).str();
  const bool isWord = llvm::all_of(rank, [](char c) { return llvm::isAlnum(c) || c == '_'; });
  const SourceLoc behind = wholeStatement(sources, finder.statement->range).end;
  // A kernel's range ends after its brace.
  const SourceLoc brace{kernel.range.end.offset - 1};
  if (sources.text({brace, kernel.range.end}) != "}")
    return {};
  return {insertion(kernel.params.back().range.end, ", " + missing.signal + ": symm signal[W]"),
          insertion(behind, " notify(" + missing.signal + "@" + (isWord ? rank : "(" + rank + ")") +
                                "[rank()]);"),
          insertion(brace, "    role end_of_" + missing.signal + " { await wait(" + missing.signal +
                               "[:]); }\n")};
}

} // namespace dtile::driver
