// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Divides what runs over a joined dimension: `m in M` becomes a part and a place in it, `src in
// 0..W, m in S`. A joined tensor is then cut by both, and every other one at `src * S + m`.
#include "sema/join/joint.h"
#include "sema/join/make.h"
#include "sema/join/regions.h"
#include "sema/join/rewriter.h"

#include "frontend/ast/ast_visitor.h"
#include "frontend/ast/source_printer.h"

namespace dtile::join {

namespace {

// Whether a variable cuts the joined dimension of some tensor.
struct CutFinder : ast::Walker<CutFinder> {
  using Walker::visit;
  CutFinder(llvm::ArrayRef<PartedTensor> parted, llvm::StringRef variable)
      : parted(parted), variable(variable) {}
  bool visit(const ast::IndexExpr &e) {
    for (const PartedTensor &tensor : parted)
      if (tensor.name == nameOf(e.base) && tensor.axis < e.indices.size() &&
          nameOf(e.indices[tensor.axis]) == variable && (!found || found->isProducer))
        found = &tensor;
    return true;
  }
  llvm::ArrayRef<PartedTensor> parted;
  llvm::StringRef variable;
  const PartedTensor *found = nullptr;
};

class Divider : public Rewriter {
public:
  Divider(Joint &joint, llvm::ArrayRef<PartedTensor> parted)
      : Rewriter(joint.arena), joint_(joint), parted_(parted), fresh_(joint.top) {}

  ast::Role *divide(const ast::Role *one) {
    divided_.clear();
    variables_ = Variables();
    variables_.push();
    fresh_ = joint_.top;
    fresh_.take(namesIn(*one));
    body_ = one->body;
    return role(one);
  }
  [[nodiscard]] bool isGood() const { return isGood_; }

protected:
  ast::OverClause *over(const ast::OverClause *clause) override {
    if (clause == nullptr)
      return nullptr;
    auto *copy = arena_.makePlain<ast::OverClause>();
    *copy = *clause;
    llvm::SmallVector<ast::IterDim, 4> dims;
    for (const ast::IterDim &one : clause->dims) {
      variables_.declare(one);
      const PartedTensor *tensor = toDivide(one, body_);
      if (tensor == nullptr) {
        dims.push_back(dim(one));
        continue;
      }
      const Make make{arena_, one.name.range};
      ast::IterDim part;
      part.name = {fresh_.make(tensor->isProducer ? "owner" : "src"), one.name.range};
      part.domain = make.range(make.number(0), numRanks(joint_, one.name.range, tensor->along));
      dims.push_back(part);
      dims.push_back(inPart(one, *tensor, part.name.name));
    }
    copy->dims = arena_.copy(llvm::ArrayRef<ast::IterDim>(dims));
    copy->programs = expr(clause->programs);
    copy->copyEngineIf = expr(clause->copyEngineIf);
    return copy;
  }

  ast::Stmt *replacedStmt(const ast::Stmt &s) override {
    const auto *loop = llvm::dyn_cast<ast::ForStmt>(&s);
    if (loop == nullptr)
      return nullptr;
    const llvm::StringRef name = loop->dim.name.name;
    const auto outer = divided_.find(name);
    const std::optional<Part> hidden =
        outer == divided_.end() ? std::nullopt : std::optional(outer->second);
    divided_.erase(name);
    const PartedTensor *tensor = toDivide(loop->dim, loop->body);
    variables_.push();
    variables_.declare(loop->dim);
    ast::Stmt *result = tensor ? dividedLoop(*loop, *tensor) : copiedStmt(s);
    variables_.pop();
    divided_.erase(name);
    if (hidden)
      divided_.try_emplace(name, *hidden);
    return result;
  }

  ast::Expr *replaced(const ast::Expr &e) override {
    if (const auto *index = llvm::dyn_cast<ast::IndexExpr>(&e))
      return cut(*index);
    if (const auto *name = llvm::dyn_cast<ast::NameExpr>(&e))
      return named(*name);
    if (const auto *member = llvm::dyn_cast<ast::MemberExpr>(&e)) {
      // The length of a block is the same in a part.
      if (member->member.name == "len" && divided_.contains(nameOf(member->base)))
        return Make{arena_, e.range}.member(Make{arena_, e.range}.name(nameOf(member->base)),
                                            "len");
      // Where a block begins, and its number, follow from how a part is cut into blocks.
      return outsideOfIndex(e);
    }
    if (const auto *binary = llvm::dyn_cast<ast::BinaryExpr>(&e)) {
      if (ast::Expr *inside = limit(*binary))
        return inside;
      const bool moves = binary->op == ast::BinaryOp::Add || binary->op == ast::BinaryOp::Sub;
      return moves ? nullptr : outsideOfIndex(e);
    }
    return outsideOfIndex(e);
  }

private:
  struct Part {
    llvm::StringRef variable;
    const PartedTensor *tensor;
    bool isRange;
  };

  // A block is a place of the whole as an index, and moved by an offset: nowhere else.
  ast::Expr *outsideOfIndex(const ast::Expr &e) {
    const bool was = std::exchange(inIndex_, false);
    ast::Expr *copy = copied(e);
    inIndex_ = was;
    return copy;
  }

  // The tensor whose parts the dimension runs over, if its variable cuts it.
  const PartedTensor *toDivide(const ast::IterDim &one, const ast::BlockStmt *body) {
    const ast::Expr *domain = one.domain;
    if (const auto *range = llvm::dyn_cast<ast::RangeExpr>(domain)) {
      const auto *lo = llvm::dyn_cast_or_null<ast::IntLit>(range->lo);
      domain = lo && lo->value == 0 ? range->hi : nullptr;
    }
    CutFinder finder(parted_, one.name.name);
    finder.walk(static_cast<const ast::Stmt *>(body));
    return finder.found && domain && isSame(domain, finder.found->size, joint_.values)
               ? finder.found
               : nullptr;
  }

  ast::IterDim inPart(const ast::IterDim &one, const PartedTensor &tensor, llvm::StringRef part) {
    ast::IterDim inner;
    inner.name = one.name;
    inner.domain = resolved(joint_, tensor.partSize, one.domain->range);
    inner.step = expr(one.step);
    divided_.try_emplace(one.name.name, Part{part, &tensor, one.step != nullptr});
    return inner;
  }

  // `for hop in 0..W { let src = (rank() + hop) % W; for k in S by BK … }`: the own part first.
  ast::Stmt *dividedLoop(const ast::ForStmt &loop, const PartedTensor &tensor) {
    if (!loop.isUnordered) {
      joint_.diags.report(loop.dim.name.range, diag::loop_not_unordered, tensor.name)
          .note(tensor.clause, diag::note_joined_with);
      isGood_ = false;
    }
    const Make make{arena_, loop.dim.name.range};
    const llvm::StringRef hop = fresh_.make("hop");
    const llvm::StringRef part = fresh_.make("src");
    auto *inner = arena_.make<ast::ForStmt>(loop.range);
    inner->isUnordered = true;
    inner->dim = inPart(loop.dim, tensor, part);
    inner->body = block(loop.body);
    ast::Stmt *body[] = {make.let(part, turned(joint_, make.at, hop, tensor.along)), inner};
    return make.loop(hop, make.range(make.number(0), numRanks(joint_, make.at, tensor.along)),
                     body);
  }

  const PartedTensor *parted(llvm::StringRef name) const {
    const auto found =
        llvm::find_if(parted_, [&](const PartedTensor &one) { return one.name == name; });
    return found == parted_.end() ? nullptr : &*found;
  }

  void reportUnknown(const PartedTensor &tensor, SourceRange place) {
    joint_.diags.report(place, diag::part_unknown, tensor.name, tensor.axis, textOf(tensor.size))
        .note(tensor.clause, diag::note_joined_with);
    isGood_ = false;
  }

  // `src * S + m` where `m` runs over a part: what another join divided.
  const ast::Expr *partOf(const ast::Expr *index, const PartedTensor &tensor,
                          llvm::StringRef &place) const {
    const auto *sum = llvm::dyn_cast_or_null<ast::BinaryExpr>(index);
    const auto *first = sum ? llvm::dyn_cast<ast::BinaryExpr>(sum->lhs) : nullptr;
    if (first == nullptr || sum->op != ast::BinaryOp::Add || first->op != ast::BinaryOp::Mul ||
        !isSame(first->rhs, tensor.partSize, joint_.values))
      return nullptr;
    place = nameOf(sum->rhs);
    const Variable *variable = variables_.lookup(place);
    if (variable == nullptr || variable->domain == nullptr ||
        !isSame(variable->domain, tensor.partSize, joint_.values))
      return nullptr;
    return first->lhs;
  }

  ast::Expr *cut(const ast::IndexExpr &e) {
    const PartedTensor *tensor = parted(nameOf(e.base));
    llvm::StringRef place;
    const ast::Expr *part = tensor && tensor->axis < e.indices.size()
                                ? partOf(e.indices[tensor->axis], *tensor, place)
                                : nullptr;
    if (tensor != nullptr && part == nullptr) {
      const ast::Expr *index = tensor->axis < e.indices.size() ? e.indices[tensor->axis] : nullptr;
      const auto found = divided_.find(nameOf(index));
      if (found == divided_.end()) {
        reportUnknown(*tensor, index == nullptr ? e.range : index->range);
        return Rewriter(arena_).expr(&e);
      }
    }
    auto *copy = arena_.make<ast::IndexExpr>(e.range);
    copy->base = tensor ? Make{arena_, e.base->range}.name(tensor->name) : expr(e.base);
    llvm::SmallVector<ast::Expr *, 4> indices;
    const bool was = std::exchange(inIndex_, true);
    for (size_t i = 0; i < e.indices.size(); ++i) {
      if (tensor == nullptr || i != tensor->axis) {
        indices.push_back(expr(e.indices[i]));
        continue;
      }
      const Make make{arena_, e.indices[i]->range};
      const llvm::StringRef variable = part ? place : nameOf(e.indices[i]);
      ast::Expr *first = part ? expr(part) : make.name(divided_.find(variable)->second.variable);
      indices.insert(indices.begin(), first);
      indices.push_back(make.name(variable));
    }
    inIndex_ = was;
    copy->indices = arena_.copy(llvm::ArrayRef<ast::Expr *>(indices));
    return copy;
  }

  ast::Expr *named(const ast::NameExpr &e) {
    if (const PartedTensor *tensor = parted(e.name)) {
      reportUnknown(*tensor, e.range);
      return nullptr;
    }
    const auto found = divided_.find(e.name);
    if (found == divided_.end())
      return nullptr;
    const Part &part = found->second;
    if (part.isRange && !inIndex_) {
      joint_.diags
          .report(e.range, diag::range_not_positions, e.name, part.tensor->name,
                  textOf(part.tensor->size))
          .note(part.tensor->clause, diag::note_joined_with);
      isGood_ = false;
      return nullptr;
    }
    const Make make{arena_, e.range};
    ast::Expr *size = resolved(joint_, part.tensor->partSize, e.range);
    ast::Expr *first = make.binary(ast::BinaryOp::Mul, make.name(part.variable), size);
    return make.binary(ast::BinaryOp::Add, first, make.name(e.name));
  }

  // `iota(m) < M` asks what exists: that is `iota(m) < S` in each part.
  ast::Expr *limit(const ast::BinaryExpr &e) {
    const auto *call = llvm::dyn_cast<ast::CallExpr>(e.lhs);
    if (e.op != ast::BinaryOp::Lt || call == nullptr || nameOf(call->callee) != "iota" ||
        call->args.size() != 1)
      return nullptr;
    const auto found = divided_.find(nameOf(call->args.front().value));
    if (found == divided_.end() || !isSame(e.rhs, found->second.tensor->size, joint_.values))
      return nullptr;
    const Make make{arena_, e.lhs->range};
    auto *copy = arena_.make<ast::BinaryExpr>(e.range);
    copy->op = e.op;
    copy->opRange = e.opRange;
    copy->lhs = make.call("iota", {make.name(found->first())});
    copy->rhs = resolved(joint_, found->second.tensor->partSize, e.rhs->range);
    return copy;
  }

  Joint &joint_;
  llvm::ArrayRef<PartedTensor> parted_;
  // Names of one role's bodies.
  Fresh fresh_;
  llvm::StringMap<Part> divided_;
  // What bodies see, as written.
  Variables variables_;
  const ast::BlockStmt *body_ = nullptr;
  bool inIndex_ = false;
  bool isGood_ = true;
};

} // namespace

bool divideParts(Joint &joint, llvm::SmallVectorImpl<ast::Role *> &roles) {
  Divider divider(joint, joint.parted);
  for (const ast::Role *role : joint.kernel->roles)
    roles.push_back(divider.divide(role));
  return divider.isGood();
}

ast::Role *divideRole(Joint &joint, llvm::ArrayRef<PartedTensor> parted, const ast::Role *role) {
  Divider divider(joint, parted);
  ast::Role *copy = divider.divide(role);
  return divider.isGood() ? copy : nullptr;
}

} // namespace dtile::join
