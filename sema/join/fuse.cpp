// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Lets a kernel send its tiles itself. Where a plan takes what a kernel makes tile by tile and only
// passes it on, the kernel's store becomes the plan's transfer: no tile is stored here first.
#include "frontend/ast/ast_visitor.h"
#include "sema/join/joint.h"
#include "sema/join/make.h"
#include "sema/join/regions.h"
#include "sema/join/rewriter.h"

#include "llvm/ADT/SmallPtrSet.h"

namespace dtile::join {

namespace {

struct MentionCounter : ast::Walker<MentionCounter> {
  using Walker::visit;
  explicit MentionCounter(llvm::StringRef name) : name(name) {}
  bool visit(const ast::NameExpr &e) {
    count += e.name == name;
    return true;
  }
  llvm::StringRef name;
  unsigned count = 0;
};

template <typename Node> unsigned mentions(const Node *node, llvm::StringRef name) {
  MentionCounter counter(name);
  counter.walk(node);
  return counter.count;
}

const ast::CallExpr *transferOf(const ast::Stmt *s) {
  const auto *effect = llvm::dyn_cast<ast::ExprStmt>(s);
  const auto *call = effect ? llvm::dyn_cast<ast::CallExpr>(effect->value) : nullptr;
  const llvm::StringRef name = call ? nameOf(call->callee) : llvm::StringRef();
  return (name == "put" || name == "reduce_add") && call->args.size() == 2 ? call : nullptr;
}

// The slice of a tensor in an expression.
struct SliceFinder : ast::Walker<SliceFinder> {
  using Walker::visit;
  explicit SliceFinder(llvm::StringRef tensor) : tensor(tensor) {}
  bool visit(const ast::IndexExpr &e) {
    if (nameOf(e.base) == tensor)
      slice = &e;
    return true;
  }
  llvm::StringRef tensor;
  const ast::IndexExpr *slice = nullptr;
};

/// A role of a plan that sends each tile of a tensor on.
struct Sender {
  const ast::Role *role = nullptr;
  const ast::CallExpr *transfer = nullptr;
  const ast::IndexExpr *slice = nullptr;
  /// What each index of the slice is called in the role.
  llvm::SmallVector<llvm::StringRef, 4> names;
  /// Bounds of its blocks; null for positions.
  llvm::SmallVector<const ast::Expr *, 4> domains;
  /// Dimensions that no index stands for: a tile is sent once for each position of them.
  llvm::SmallVector<const ast::IterDim *, 2> free;
  /// What is left of the names that it defines.
  llvm::SmallVector<const ast::LetStmt *, 2> lets;
};

class SenderFinder {
public:
  SenderFinder(const Joint &joint, const ast::Role &role, const Published &tensor)
      : joint_(joint), role_(role), tensor_(tensor) {}

  std::optional<Sender> run() {
    if (role_.over == nullptr || role_.over->ordered || role_.over->programs != nullptr ||
        role_.over->copyEngine || role_.whenAll != nullptr || role_.body->statements.empty())
      return std::nullopt;
    sender_.role = &role_;
    sender_.transfer = transferOf(role_.body->statements.back());
    if (sender_.transfer == nullptr || mentions(sender_.transfer->args[0].value, tensor_.name) != 1)
      return std::nullopt;
    for (const ast::Stmt *s : role_.body->statements.drop_back()) {
      const auto *let = llvm::dyn_cast<ast::LetStmt>(s);
      if (let == nullptr || let->names.size() != 1)
        return std::nullopt;
      sender_.lets.push_back(let);
    }
    SliceFinder finder(tensor_.name);
    finder.walk(sender_.transfer->args[0].value);
    sender_.slice = finder.slice;
    if (sender_.slice == nullptr || sender_.slice->indices.size() != tensor_.shape.size() ||
        !matchIndices())
      return std::nullopt;
    return std::move(sender_);
  }

private:
  const ast::IterDim *dimOf(llvm::StringRef name) const {
    const auto *found = llvm::find_if(
        role_.over->dims, [&](const ast::IterDim &dim) { return dim.name.name == name; });
    return found == role_.over->dims.end() ? nullptr : found;
  }

  static const ast::Expr *endOf(const ast::Expr *domain) {
    const auto *range = llvm::dyn_cast<ast::RangeExpr>(domain);
    if (range == nullptr)
      return domain;
    const auto *lo = llvm::dyn_cast_or_null<ast::IntLit>(range->lo);
    return lo && lo->value == 0 ? range->hi : nullptr;
  }

  // Every index is a dimension of the space, or takes each of its values once, and covers a whole
  // dimension of the tensor.
  bool matchIndices() {
    llvm::SmallPtrSet<const ast::IterDim *, 4> used;
    for (const auto &[size, index] : llvm::zip(tensor_.shape, sender_.slice->indices)) {
      const llvm::StringRef name = nameOf(index);
      const ast::IterDim *dim = name.empty() ? nullptr : dimOf(name);
      if (dim == nullptr)
        dim = turnedDim(name);
      if (dim == nullptr || !used.insert(dim).second ||
          !isSame(endOf(dim->domain), size, joint_.values))
        return false;
      sender_.names.push_back(name);
      sender_.domains.push_back(dim->step ? endOf(dim->domain) : nullptr);
    }
    for (const ast::IterDim &dim : role_.over->dims)
      if (!used.contains(&dim)) {
        if (dim.step != nullptr)
          return false;
        sender_.free.push_back(&dim);
      }
    return true;
  }

  // `let owner = (rank() + hop) % W`, or the same along an axis, with all of `hop in 0..W`: each
  // rank once. The name is given by the index then, and `hop` must have no other use.
  const ast::IterDim *turnedDim(llvm::StringRef name) {
    auto *let = llvm::find_if(
        sender_.lets, [&](const ast::LetStmt *one) { return one->names.front().name == name; });
    if (let == sender_.lets.end())
      return nullptr;
    const auto *rest = llvm::dyn_cast<ast::BinaryExpr>((*let)->value);
    const auto *sum = rest ? llvm::dyn_cast<ast::BinaryExpr>(rest->lhs) : nullptr;
    if (sum == nullptr || rest->op != ast::BinaryOp::Rem || sum->op != ast::BinaryOp::Add ||
        !ranksCountedBy(rest->rhs))
      return nullptr;
    const ast::IterDim *dim = dimOf(nameOf(sum->rhs));
    const ast::Expr *own = ownRank(joint_, sum->range, *ranksCountedBy(rest->rhs));
    if (!isSame(sum->lhs, own, {}) || dim == nullptr || dim->step != nullptr ||
        ranksCountedBy(endOf(dim->domain)) != ranksCountedBy(rest->rhs) ||
        mentions(static_cast<const ast::Stmt *>(role_.body), dim->name.name) != 1)
      return nullptr;
    sender_.lets.erase(let);
    return dim;
  }

  const Joint &joint_;
  const ast::Role &role_;
  const Published &tensor_;
  Sender sender_;
};

/// Replaces the stores of a tensor in a kernel's role by a transfer.
class StoreReplacer : public Rewriter {
public:
  StoreReplacer(Joint &joint, const Sender &sender, llvm::StringRef tensor)
      : Rewriter(joint.arena), joint_(joint), sender_(sender), tensor_(tensor), fresh_(joint.top) {}

  /// Null where the role does something else with the tensor.
  ast::Role *replace(const ast::Role &one) {
    fresh_ = joint_.top;
    fresh_.take(namesIn(one));
    variables_ = Variables();
    variables_.push();
    unsigned inRole = 0;
    for (const ast::Role *part = &one; part != nullptr; part = part->whenAll)
      inRole += mentions(static_cast<const ast::Stmt *>(part->body), tensor_);
    ast::Role *copy = role(&one);
    return replaced_ == inRole ? copy : nullptr;
  }

protected:
  ast::OverClause *over(const ast::OverClause *clause) override {
    ast::OverClause *copy = Rewriter::over(clause);
    if (copy != nullptr)
      for (const ast::IterDim &one : copy->dims)
        variables_.declare(one);
    return copy;
  }

  void list(llvm::ArrayRef<ast::Stmt *> from, llvm::SmallVectorImpl<ast::Stmt *> &to) override {
    for (const ast::Stmt *one : from) {
      const auto *store = llvm::dyn_cast<ast::AssignStmt>(one);
      const auto *target = store ? llvm::dyn_cast<ast::IndexExpr>(store->target) : nullptr;
      if (target && nameOf(target->base) == tensor_ && !store->isCompound && fits(*target)) {
        ++replaced_;
        send(*store, *target, to);
        continue;
      }
      to.push_back(stmt(one));
      const auto *let = llvm::dyn_cast<ast::LetStmt>(one);
      Variable variable;
      if (let && let->names.size() == 1) {
        variable.value = let->value;
        variables_.declare(let->names.front().name, variable);
      }
    }
  }

  ast::Stmt *replacedStmt(const ast::Stmt &s) override {
    const auto *loop = llvm::dyn_cast<ast::ForStmt>(&s);
    if (loop == nullptr)
      return nullptr;
    variables_.push();
    variables_.declare(loop->dim);
    ast::Stmt *copy = copiedStmt(s);
    variables_.pop();
    return copy;
  }

private:
  // Whether the kernel's tile is what the role of the plan takes: as many of the same dimensions.
  bool fits(const ast::IndexExpr &target) const {
    if (target.indices.size() != sender_.names.size())
      return false;
    for (const auto &[index, domain] : llvm::zip(target.indices, sender_.domains)) {
      const Extent extent = extentOf(index, variables_, joint_.values);
      const bool isGood = domain == nullptr
                              ? extent.kind == Extent::Kind::Position
                              : extent.kind == Extent::Kind::Block && !nameOf(index).empty() &&
                                    isSame(extent.domain, domain, joint_.values);
      if (!isGood)
        return false;
    }
    return true;
  }

  void send(const ast::AssignStmt &store, const ast::IndexExpr &target,
            llvm::SmallVectorImpl<ast::Stmt *> &to) {
    Substitution body(arena_);
    for (const auto &[name, index] : llvm::zip(sender_.names, target.indices))
      body.values[name] = index;
    ast::Expr *value = expr(store.value);
    const Make make{arena_, store.range};
    if (!sender_.free.empty()) {
      const llvm::StringRef tile = fresh_.make("tile");
      to.push_back(make.let(tile, value));
      value = make.name(tile);
    }
    body.slice = sender_.slice;
    body.value = value;
    const auto rename = [&](llvm::StringRef name) {
      const llvm::StringRef given = fresh_.make(name);
      body.values[name] = make.name(given);
      return given;
    };
    llvm::SmallVector<llvm::StringRef, 2> loops;
    for (const ast::IterDim *dim : sender_.free)
      loops.push_back(rename(dim->name.name));
    llvm::SmallVector<ast::Stmt *, 4> statements;
    for (const ast::LetStmt *let : sender_.lets) {
      ast::Expr *defined = body.expr(let->value);
      statements.push_back(make.let(rename(let->names.front().name), defined));
    }
    auto *sent = arena_.make<ast::ExprStmt>(sender_.transfer->range);
    sent->value = body.expr(sender_.transfer);
    statements.push_back(sent);
    for (const auto &[dim, name] : llvm::reverse(llvm::zip(sender_.free, loops))) {
      ast::Stmt *loop = make.loop(name, body.expr(dim->domain), statements);
      statements.assign(1, loop);
    }
    to.append(statements);
  }

  // The plan's text with the kernel's positions and value.
  struct Substitution : Rewriter {
    explicit Substitution(ast::Arena &arena) : Rewriter(arena) {}
    ast::Expr *replaced(const ast::Expr &e) override {
      if (&e == slice)
        return value;
      const ast::Expr *known = values.lookup(nameOf(&e));
      return known ? Rewriter(arena_).expr(known) : nullptr;
    }
    Values values;
    const ast::Expr *slice = nullptr;
    ast::Expr *value = nullptr;
  };

  Joint &joint_;
  const Sender &sender_;
  llvm::StringRef tensor_;
  Fresh fresh_;
  Variables variables_;
  unsigned replaced_ = 0;
};

class Fuser {
public:
  Fuser(Joint &joint, llvm::SmallVectorImpl<Body> &bodies) : joint_(joint), bodies_(bodies) {}

  bool fuse(const Published &tensor) {
    std::optional<Sender> sender;
    size_t number = 0;
    for (const auto &[i, body] : llvm::enumerate(bodies_)) {
      if (body.stage == nullptr || !namesIn(*body.role).contains(tensor.name))
        continue;
      // One role takes it, and no other.
      if (sender)
        return false;
      sender = SenderFinder(joint_, *body.role, tensor).run();
      if (!sender)
        return false;
      number = i;
    }
    if (!sender)
      return false;
    llvm::SmallVector<ast::Role *, 4> roles;
    for (const Body &body : bodies_) {
      if (body.stage != nullptr)
        continue;
      ast::Role *role = StoreReplacer(joint_, *sender, tensor.name).replace(*body.role);
      if (role == nullptr)
        return false;
      roles.push_back(role);
    }
    size_t next = 0;
    for (Body &body : bodies_)
      if (body.stage == nullptr)
        body.role = roles[next++];
    bodies_.erase(bodies_.begin() + ptrdiff_t(number));
    return true;
  }

private:
  Joint &joint_;
  llvm::SmallVectorImpl<Body> &bodies_;
};

} // namespace

void fuseStores(Joint &joint, llvm::ArrayRef<llvm::StringRef> made,
                llvm::SmallVectorImpl<Published> &tensors,
                llvm::SmallVectorImpl<ast::Param> &params, llvm::SmallVectorImpl<Body> &bodies) {
  for (const llvm::StringRef name : made) {
    const auto *tensor =
        llvm::find_if(tensors, [&](const Published &one) { return one.name == name; });
    if (tensor == tensors.end() || !Fuser(joint, bodies).fuse(*tensor))
      continue;
    llvm::erase_if(params, [&](const ast::Param &one) { return one.name.name == name; });
    llvm::erase_if(tensors, [&](const Published &one) { return one.name == name; });
  }
}

} // namespace dtile::join
