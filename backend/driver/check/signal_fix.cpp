// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The edits are insertions into the text as it stands: what the author wrote stays.
#include "backend/driver/check/signal_fix.h"

#include "frontend/ast/ast_visitor.h"

#include "llvm/ADT/StringExtras.h"

namespace dtile::driver {

namespace {

bool contains(SourceRange range, SourceLoc loc) { return range.begin <= loc && loc < range.end; }

/// Finds the innermost statement around a place, and the rank whose object is read in it.
struct ReadFinder : ast::Walker<ReadFinder> {
  using Walker::visit;
  explicit ReadFinder(const PeerRead &read) : read(read) {}

  bool visit(const ast::LetStmt &s) { return note(s); }
  bool visit(const ast::VarStmt &s) { return note(s); }
  bool visit(const ast::AssignStmt &s) { return note(s); }
  bool visit(const ast::ExprStmt &s) { return note(s); }
  bool visit(const ast::RemoteExpr &e) {
    const ast::Expr *base = e.base;
    while (const auto *index = llvm::dyn_cast<ast::IndexExpr>(base))
      base = index->base;
    const auto *name = llvm::dyn_cast<ast::NameExpr>(base);
    if (name && name->name == read.object && statement && contains(statement->range, e.range.begin))
      rank = e.rank;
    return true;
  }
  bool note(const ast::Stmt &s) {
    if (contains(s.range, read.place))
      statement = &s;
    return true;
  }

  const PeerRead &read;
  const ast::Stmt *statement = nullptr;
  const ast::Expr *rank = nullptr;
};

FixIt insertion(SourceLoc place, std::string text) { return {{place, place}, std::move(text)}; }

} // namespace

std::vector<FixIt> signalFix(const SourceManager &sources, const ast::KernelDecl &kernel,
                             const PeerRead &read) {
  const bool hasRoles = !kernel.roles.empty() && !kernel.roles.front()->name.name.empty();
  if (!hasRoles || kernel.params.empty())
    return {};
  ReadFinder finder(read);
  finder.walk(static_cast<const ast::Decl *>(&kernel));
  if (!finder.statement || !finder.rank)
    return {};
  const std::string rank = sources.text(finder.rank->range).str();
  const bool isWord = llvm::all_of(rank, [](char c) { return llvm::isAlnum(c) || c == '_'; });
  // A statement's range may leave out its semicolon, and a kernel's ends behind its brace.
  SourceLoc behind = finder.statement->range.end;
  if (sources.text({behind, {behind.offset + 1}}) == ";")
    ++behind.offset;
  const SourceLoc brace{kernel.range.end.offset - 1};
  if (sources.text({brace, kernel.range.end}) != "}")
    return {};
  return {insertion(kernel.params.back().range.end, ", " + read.signal + ": symm signal[W]"),
          insertion(behind, " notify(" + read.signal + "@" + (isWord ? rank : "(" + rank + ")") +
                                "[rank()]);"),
          insertion(brace, "    role end_of_" + read.signal + " { await wait(" + read.signal +
                               "[:]); }\n")};
}

} // namespace dtile::driver
