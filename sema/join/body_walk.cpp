// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Finds the writes and reads of published tensors in statements and expressions.
#include "sema/join/body_walk.h"

#include "frontend/ast/ast_visitor.h"
#include "sema/join/make.h"

namespace dtile::join {

namespace {

// The transfers of `put(…) & put(…)`, or nothing.
bool transfersOf(const ast::Expr *e, llvm::SmallVectorImpl<const ast::CallExpr *> &calls) {
  if (const ast::CallExpr *call = asTransfer(e)) {
    calls.push_back(call);
    return true;
  }
  const auto *both = llvm::dyn_cast_or_null<ast::BinaryExpr>(e);
  return both != nullptr && both->op == ast::BinaryOp::BitAnd && transfersOf(both->lhs, calls) &&
         transfersOf(both->rhs, calls);
}

bool isRegionMember(llvm::StringRef name) { return name == "chunk" || name == "shard"; }

} // namespace

const ast::CallExpr *asTransfer(const ast::Expr *e) {
  const auto *call = llvm::dyn_cast_or_null<ast::CallExpr>(e);
  if (call == nullptr || call->args.size() < 2)
    return nullptr;
  const llvm::StringRef name = nameOf(call->callee);
  return name == "put" || name == "get" || name == "reduce_add" ? call : nullptr;
}

ast::Role *BodyWalk::walk(const Body &body, size_t number) {
  body_ = number;
  stage_ = body.stage;
  scopes_.clear();
  variables_ = Variables();
  variables_.push();
  scopes_.emplace_back();
  return role(body.role);
}

std::optional<Place> BodyWalk::placeOf(const ast::Expr *e) const {
  Place place;
  place.slice = llvm::dyn_cast_or_null<ast::IndexExpr>(e);
  const ast::Expr *base = place.slice ? place.slice->base : e;
  if (const auto *remote = llvm::dyn_cast_or_null<ast::RemoteExpr>(base)) {
    place.rank = remote->rank;
    base = remote->base;
  }
  const llvm::StringRef name = nameOf(base);
  if (name.empty())
    return std::nullopt;
  for (const auto &[i, tensor] : llvm::enumerate(tensors_))
    if (tensor.name == name) {
      place.tensor = i;
      return place;
    }
  return std::nullopt;
}

std::vector<Extent> BodyWalk::extentsOf(const Place &place) const {
  std::vector<Extent> extents;
  if (place.slice != nullptr)
    for (const ast::Expr *index : place.slice->indices)
      extents.push_back(extentOf(index, variables_, lets_));
  Extent whole;
  whole.kind = Extent::Kind::Whole;
  // A wrong number of indices is reported when the kernel is checked.
  extents.resize(tensors_[place.tensor].shape.size(), whole);
  return extents;
}

// ---- Statements ----

ast::OverClause *BodyWalk::over(const ast::OverClause *clause) {
  ast::OverClause *copy = Rewriter::over(clause);
  if (copy != nullptr)
    for (const ast::IterDim &one : copy->dims)
      variables_.declare(one);
  return copy;
}

void BodyWalk::list(llvm::ArrayRef<ast::Stmt *> from, llvm::SmallVectorImpl<ast::Stmt *> &to) {
  variables_.push();
  Scope scope;
  scope.out = &to;
  scope.isConditional = std::exchange(pendingConditional_, false);
  scope.isOfData = std::exchange(pendingOfData_, false);
  scope.isClosed = std::exchange(pendingClosed_, false) || scope.isConditional;
  scopes_.push_back(std::move(scope));
  if (pendingDim_)
    variables_.declare(*std::exchange(pendingDim_, std::nullopt));
  for (const ast::Stmt *one : from) {
    statement(*one, to);
    Scope &own = scopes_.back();
    to.append(own.behind);
    own.behind.clear();
    own.saidBehind.clear();
  }
  scopes_.pop_back();
  variables_.pop();
}

void BodyWalk::statement(const ast::Stmt &s, llvm::SmallVectorImpl<ast::Stmt *> &to) {
  llvm::SmallVector<const ast::CallExpr *, 2> calls;
  const auto *effect = llvm::dyn_cast<ast::ExprStmt>(&s);
  const auto *awaited = llvm::dyn_cast<ast::AwaitStmt>(&s);
  if ((effect && transfersOf(effect->value, calls)) ||
      (awaited && transfersOf(awaited->token, calls))) {
    for (const ast::CallExpr *call : calls) {
      ast::Stmt *chunks = awaited ? nullptr : inChunks(*call);
      if (chunks != nullptr)
        to.push_back(stmt(chunks));
      else
        transfer(*call, to, awaited != nullptr);
    }
    return;
  }
  const auto *store = llvm::dyn_cast<ast::AssignStmt>(&s);
  const std::optional<Place> place = store ? placeOf(store->target) : std::nullopt;
  if (place) {
    if (store->isCompound)
      fail(s.range, diag::plan_updates);
    auto *copy = arena_.make<ast::AssignStmt>(s.range);
    copy->isCompound = store->isCompound;
    copy->op = store->op;
    copy->opRange = store->opRange;
    copy->value = expr(store->value);
    copy->target = target(store->target);
    to.push_back(copy);
    return wrote(*placeOf(copy->target), s.range, /*adds=*/false, to);
  }
  ast::Stmt *copy = stmt(&s);
  declare(*copy);
  to.push_back(copy);
}

void BodyWalk::declare(const ast::Stmt &s) {
  Variable variable;
  if (const auto *let = llvm::dyn_cast<ast::LetStmt>(&s)) {
    variable.value = let->names.size() == 1 ? let->value : nullptr;
    for (const ast::Ident &name : let->names)
      variables_.declare(name.name, variable);
  } else if (const auto *var = llvm::dyn_cast<ast::VarStmt>(&s)) {
    variable.isMutable = true;
    variable.value = var->value;
    variables_.declare(var->name.name, variable);
  }
}

// What a loop writes may be what a wait in it is for.
bool BodyWalk::writesPublished(const ast::Stmt *s) const {
  struct Finder : ast::Walker<Finder> {
    using Walker::visit;
    explicit Finder(const BodyWalk &walk) : walk(walk) {}
    bool visit(const ast::CallExpr &e) {
      if (const ast::CallExpr *call = asTransfer(&e))
        found |= walk.placeOf(call->args[1].value).has_value();
      return true;
    }
    bool visit(const ast::AssignStmt &s) {
      found |= walk.placeOf(s.target).has_value();
      return true;
    }
    const BodyWalk &walk;
    bool found = false;
  } finder(*this);
  finder.Walker::walk(s);
  return finder.found;
}

ast::Stmt *BodyWalk::replacedStmt(const ast::Stmt &s) {
  if (const auto *loop = llvm::dyn_cast<ast::ForStmt>(&s)) {
    auto *copy = arena_.make<ast::ForStmt>(s.range);
    copy->dim = dim(loop->dim);
    copy->isUnordered = loop->isUnordered;
    pendingDim_ = copy->dim;
    pendingOfData_ = readsMemory(loop->dim.domain, variables_);
    pendingClosed_ = writesPublished(loop->body);
    copy->body = block(loop->body);
    return copy;
  }
  if (const auto *loop = llvm::dyn_cast<ast::WhileStmt>(&s)) {
    auto *copy = arena_.make<ast::WhileStmt>(s.range);
    copy->condition = expr(loop->condition);
    pendingConditional_ = true;
    pendingOfData_ = readsMemory(loop->condition, variables_);
    copy->body = block(loop->body);
    return copy;
  }
  if (const auto *choice = llvm::dyn_cast<ast::IfStmt>(&s)) {
    auto *copy = arena_.make<ast::IfStmt>(s.range);
    copy->condition = expr(choice->condition);
    const bool isOfData = readsMemory(choice->condition, variables_);
    pendingConditional_ = true;
    pendingOfData_ = isOfData;
    copy->then = block(choice->then);
    const bool isElse = llvm::isa_and_nonnull<ast::BlockStmt>(choice->otherwise);
    pendingConditional_ = isElse;
    pendingOfData_ = isElse && isOfData;
    copy->otherwise = stmt(choice->otherwise);
    return copy;
  }
  return nullptr;
}

// ---- Transfers ----

ast::CallExpr *BodyWalk::copiedTransfer(const ast::CallExpr &call) {
  auto *copy = arena_.make<ast::CallExpr>(call.range);
  copy->callee = Rewriter::copied(*call.callee);
  llvm::SmallVector<ast::Arg, 3> args;
  for (const auto &[i, arg] : llvm::enumerate(call.args))
    args.push_back({arg.label, i == 1 ? target(arg.value) : expr(arg.value)});
  copy->args = arena_.copy(llvm::ArrayRef<ast::Arg>(args));
  return copy;
}

// A region that is written: its indices may read, it is not read itself.
ast::Expr *BodyWalk::target(const ast::Expr *e) {
  if (!placeOf(e))
    return expr(e);
  const auto *slice = llvm::dyn_cast<ast::IndexExpr>(e);
  const ast::Expr *base = slice ? slice->base : e;
  isTarget_ = true;
  ast::Expr *copy = expr(base);
  isTarget_ = false;
  if (slice == nullptr)
    return copy;
  auto *cut = arena_.make<ast::IndexExpr>(e->range);
  cut->base = copy;
  cut->indices = exprs(slice->indices);
  return cut;
}

void BodyWalk::transfer(const ast::CallExpr &call, llvm::SmallVectorImpl<ast::Stmt *> &to,
                        bool isAwaited) {
  ast::CallExpr *copy = copiedTransfer(call);
  const std::optional<Place> place = placeOf(copy->args[1].value);
  const bool adds = nameOf(call.callee) == "reduce_add";
  const Make make{arena_, call.range};
  if (place && !isAwaited)
    return transferred(copy, *place, call.range, adds, to);
  to.push_back(isAwaited || stage_ != nullptr ? make.await(copy) : make.statement(copy));
  if (place)
    wrote(*place, call.range, adds, to);
}

// ---- Expressions ----

ast::Expr *BodyWalk::accessCopied(const ast::Expr &e) {
  const auto *slice = llvm::dyn_cast<ast::IndexExpr>(&e);
  if (slice == nullptr)
    return Rewriter(arena_).expr(&e);
  auto *copy = arena_.make<ast::IndexExpr>(e.range);
  copy->base = Rewriter(arena_).expr(slice->base);
  copy->indices = exprs(slice->indices);
  return copy;
}

ast::Expr *BodyWalk::replaced(const ast::Expr &e) {
  // Bounds of a space read no memory: that is reported when the kernel is checked.
  if (scopes_.size() < 2)
    return nullptr;
  if (isTarget_) {
    // The rank of a target is an expression like others.
    if (const auto *remote = llvm::dyn_cast<ast::RemoteExpr>(&e)) {
      isTarget_ = false;
      auto *copy = arena_.make<ast::RemoteExpr>(e.range);
      copy->base = Rewriter::copied(*remote->base);
      copy->rank = expr(remote->rank);
      return copy;
    }
    return Rewriter::copied(e);
  }
  if (const ast::CallExpr *call = asTransfer(&e);
      call && (stage_ != nullptr || placeOf(call->args[1].value))) {
    fail(e.range, diag::transfer_not_alone);
    return Rewriter::copied(e);
  }
  if (const auto *call = llvm::dyn_cast<ast::CallExpr>(&e)) {
    const llvm::StringRef name = nameOf(call->callee);
    if (stage_ != nullptr && (name == "wait" || name == "notify" || name == "barrier")) {
      joint_.diags.report(e.range, diag::signal_in_plan, name);
      isGood_ = false;
    }
    const auto *member = llvm::dyn_cast<ast::MemberExpr>(call->callee);
    if (member && isRegionMember(member->member.name))
      if (const std::optional<Place> place = placeOf(member->base))
        return read(e, *place);
  }
  // The sizes of a tensor are no part of its memory.
  if (const auto *member = llvm::dyn_cast<ast::MemberExpr>(&e);
      member && placeOf(member->base) && !llvm::isa<ast::IndexExpr>(member->base))
    return Make{arena_, e.range}.member(
        Make{arena_, member->base->range}.name(tensors_[placeOf(member->base)->tensor].name),
        member->member.name);
  if (const std::optional<Place> place = placeOf(&e))
    return read(e, *place);
  return nullptr;
}

} // namespace dtile::join
