// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The places of operations are found again in the syntax tree: an operation is where its expression
// begins.
#include "backend/driver/check/edits.h"
#include "backend/driver/check/fixes.h"

#include "frontend/ast/ast_visitor.h"
#include "sema/order/read_fix.h"

#include "llvm/ADT/STLExtras.h"

namespace dtile::driver {

namespace {

/// What stands at the two places.
struct OrderFinder : ast::Walker<OrderFinder> {
  using Walker::visit;
  OrderFinder(SourceLoc user, SourceLoc source) : user(user), source(source) {}

  bool visit(const ast::BlockStmt &block) {
    if (!contains(block.range, user))
      return true;
    for (const ast::Stmt *statement : block.statements) {
      if (statement->range.begin > user)
        break;
      const auto *let = llvm::dyn_cast<ast::LetStmt>(statement);
      if (let && let->names.size() == 1 && contains(let->value->range, source) &&
          !contains(let->range, user))
        token = let;
    }
    return true;
  }
  bool visit(const ast::AssignStmt &s) {
    if (s.range.begin == user)
      store = &s;
    return true;
  }
  bool visit(const ast::AwaitStmt &s) {
    awaits.push_back(&s);
    return true;
  }
  // What is seen first is outermost.
  bool visit(const ast::CallExpr &e) {
    if (e.range.begin == user && !call)
      call = &e;
    return true;
  }
  bool visit(const ast::IndexExpr &e) {
    if (e.range.begin == user && !read)
      read = &e;
    return true;
  }
  bool visit(const ast::AfterExpr &e) {
    isOrdered |= e.range.begin == user;
    return true;
  }
  bool visit(const ast::NameExpr &e) {
    names.push_back(&e);
    return true;
  }

  SourceLoc user, source;
  const ast::LetStmt *token = nullptr;
  const ast::AssignStmt *store = nullptr;
  const ast::CallExpr *call = nullptr;
  const ast::IndexExpr *read = nullptr;
  bool isOrdered = false;
  std::vector<const ast::AwaitStmt *> awaits;
  std::vector<const ast::NameExpr *> names;
};

/// `after: token` as the last argument.
std::vector<FixIt> labelFix(const SourceManager &sources, const ast::CallExpr &call,
                            llvm::StringRef token) {
  const SourceLoc close{call.range.end.offset - 1};
  const bool isOrdered =
      llvm::any_of(call.args, [](const ast::Arg &arg) { return arg.label.name == "after"; });
  if (isOrdered || call.args.empty() || sources.text({close, call.range.end}) != ")")
    return {};
  return {insertion(close, ", after: " + token.str())};
}

} // namespace

std::vector<FixIt> fixesFor(const SourceManager &sources, const ast::KernelDecl &kernel,
                            const protocol::MissingOrder &missing) {
  OrderFinder finder(missing.isOfNotify ? missing.signal : missing.access,
                     missing.isOfNotify ? missing.access : missing.signal);
  finder.walk(static_cast<const ast::Decl *>(&kernel));
  if (!finder.token)
    return {};
  const std::string token = finder.token->names.front().name.str();
  if (!missing.isOfNotify) {
    if (finder.isOrdered)
      return {};
    if (finder.call)
      return labelFix(sources, *finder.call, token);
    if (finder.store)
      return {insertion(finder.store->range.begin, "await " + token + "; ")};
    return finder.read ? sema::readFix(sources, finder.read->range, token) : std::vector<FixIt>();
  }
  // A transfer's token is used once: what awaits it after the notify is the notify's now.
  if (!finder.call)
    return {};
  std::vector<FixIt> fixes = labelFix(sources, *finder.call, token);
  for (const ast::NameExpr *use : finder.names) {
    if (use->name != token || fixes.empty())
      continue;
    const auto await =
        llvm::find_if(finder.awaits, [&](const ast::AwaitStmt *one) { return one->token == use; });
    if (await == finder.awaits.end() || use->range.begin < missing.signal)
      return {};
    fixes.push_back(removal(sources, (*await)->range));
  }
  return fixes;
}

} // namespace dtile::driver
