// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Waits that nothing ends: for more notifies than there are, and for one that comes after them.
#include "backend/driver/check/edits.h"
#include "backend/driver/check/fixes.h"

#include "frontend/ast/ast_visitor.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"

namespace dtile::driver {

namespace {

bool isCallOf(const ast::CallExpr &call, llvm::StringRef name) {
  const auto *callee = llvm::dyn_cast<ast::NameExpr>(call.callee);
  return callee && callee->name == name;
}

struct CallFinder : ast::Walker<CallFinder> {
  using Walker::visit;
  CallFinder(llvm::StringRef name, SourceLoc place) : name(name), place(place) {}
  bool visit(const ast::CallExpr &e) {
    if (e.range.begin == place && isCallOf(e, name))
      call = &e;
    return true;
  }

  llvm::StringRef name;
  SourceLoc place;
  const ast::CallExpr *call = nullptr;
};

/// The innermost block in which both places stand, in different statements.
struct BlockFinder : ast::Walker<BlockFinder> {
  using Walker::visit;
  BlockFinder(SourceLoc first, SourceLoc second) : first(first), second(second) {}
  bool visit(const ast::BlockStmt &block) {
    const auto at = [&](SourceLoc place) {
      return llvm::find_if(block.statements,
                           [&](const ast::Stmt *s) { return contains(s->range, place); });
    };
    if (at(first) < at(second) && at(second) != block.statements.end())
      between = {at(first), at(second) + 1};
    return true;
  }

  SourceLoc first, second;
  /// From the one to the other.
  llvm::ArrayRef<ast::Stmt *> between;
};

/// The variables that statements make or assign.
struct ChangeFinder : ast::Walker<ChangeFinder> {
  using Walker::visit;
  bool visit(const ast::LetStmt &s) {
    for (const ast::Ident &name : s.names)
      names.insert(name.name);
    return true;
  }
  bool visit(const ast::VarStmt &s) {
    names.insert(s.name.name);
    return true;
  }
  bool visit(const ast::AssignStmt &s) {
    if (const auto *name = llvm::dyn_cast<ast::NameExpr>(s.target))
      names.insert(name->name);
    return true;
  }
  llvm::StringSet<> names;
};

struct UseFinder : ast::Walker<UseFinder> {
  using Walker::visit;
  explicit UseFinder(const llvm::StringSet<> &names) : names(names) {}
  bool visit(const ast::NameExpr &e) {
    isFound |= names.contains(e.name);
    return true;
  }
  const llvm::StringSet<> &names;
  bool isFound = false;
};

} // namespace

std::vector<FixIt> fixesFor(const SourceManager &sources, const ast::KernelDecl &kernel,
                            const protocol::LargeCount &large) {
  CallFinder finder("wait", large.wait);
  finder.walk(static_cast<const ast::Decl *>(&kernel));
  if (!finder.call || !contains(kernel.range, large.wait))
    return {};
  const llvm::ArrayRef<ast::Arg> args = finder.call->args;
  const auto count =
      llvm::find_if(args, [](const ast::Arg &arg) { return arg.label.name == "count"; });
  // What stands between the arguments, and after the last one, is removed with it.
  if (count == args.begin() || count == args.end() || count + 1 != args.end())
    return {};
  const SourceLoc end{finder.call->range.end.offset - 1};
  const SourceRange removed{(count - 1)->value->range.end, end};
  if (!sources.text(removed).starts_with(","))
    return {};
  return {{removed, ""}};
}

std::vector<FixIt> fixesFor(const SourceManager &sources, const ast::KernelDecl &kernel,
                            const protocol::LateNotify &late) {
  BlockFinder finder(late.wait, late.notify);
  finder.walk(static_cast<const ast::Decl *>(&kernel));
  // What a plan or another file has brought cannot be moved to here.
  if (finder.between.empty() || !contains(kernel.range, late.wait) ||
      !contains(kernel.range, late.notify))
    return {};
  const auto *statement = llvm::dyn_cast<ast::ExprStmt>(finder.between.back());
  const auto *call = statement ? llvm::dyn_cast<ast::CallExpr>(statement->value) : nullptr;
  if (!call || !isCallOf(*call, "notify") || call->args.size() != 1)
    return {};
  ChangeFinder changes;
  for (const ast::Stmt *s : finder.between)
    changes.walk(s);
  UseFinder uses(changes.names);
  uses.walk(static_cast<const ast::Expr *>(call));
  if (uses.isFound)
    return {};
  const llvm::StringRef text = sources.text(wholeStatement(sources, statement->range));
  return {insertBefore(sources, finder.between.front()->range.begin, text),
          removal(sources, statement->range)};
}

} // namespace dtile::driver
