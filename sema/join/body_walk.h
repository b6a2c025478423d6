// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Walks bodies for what they write and read of published tensors. Derived classes say what becomes
// of it.
#pragma once

#include "sema/join/cells.h"
#include "sema/join/rewriter.h"

namespace dtile::join {

/// The tensor that an expression names or slices, and on which rank.
struct Place {
  size_t tensor = 0;
  /// Null on this rank.
  const ast::Expr *rank = nullptr;
  const ast::IndexExpr *slice = nullptr;
};

/// `put`, `get` or `reduce_add`; null for other expressions.
[[nodiscard]] const ast::CallExpr *asTransfer(const ast::Expr *e);

class BodyWalk : public Rewriter {
public:
  BodyWalk(Joint &joint, llvm::ArrayRef<Published> tensors, const Values &lets)
      : Rewriter(joint.arena), joint_(joint), tensors_(tensors), lets_(lets) {}

  ast::Role *walk(const Body &body, size_t number);
  [[nodiscard]] bool isGood() const { return isGood_; }

protected:
  struct Scope {
    llvm::SmallVectorImpl<ast::Stmt *> *out = nullptr;
    /// What is put in front of it does not leave it: it may not run, or writes what it waits for.
    bool isClosed = false;
    /// It may not run.
    bool isConditional = false;
    /// Whether it runs, or how often, is read from memory.
    bool isOfData = false;
    /// Waits that its statements may use, by text.
    llvm::StringMap<llvm::StringRef> waits;
    /// What follows the statement that is being walked, and the texts of these.
    llvm::SmallVector<ast::Stmt *, 2> behind;
    llvm::StringSet<> saidBehind;
  };

  /// A read at `place`; gives what stands for the expression.
  virtual ast::Expr *read(const ast::Expr &e, const Place &place) = 0;
  /// A write at `place` by the statement that was just put into `to`, without a token; or by a
  /// transfer that is a statement of its own, which the callee puts there.
  virtual void wrote(const Place &place, SourceRange range, bool adds,
                     llvm::SmallVectorImpl<ast::Stmt *> &to) = 0;
  virtual void transferred(ast::Expr *call, const Place &place, SourceRange range, bool adds,
                           llvm::SmallVectorImpl<ast::Stmt *> &to) = 0;

  /// A loop that does a transfer in chunks; null where it is done at once.
  virtual ast::Stmt *inChunks(const ast::CallExpr &) { return nullptr; }

  void list(llvm::ArrayRef<ast::Stmt *> from, llvm::SmallVectorImpl<ast::Stmt *> &to) override;
  ast::OverClause *over(const ast::OverClause *clause) override;
  ast::Stmt *replacedStmt(const ast::Stmt &s) override;
  ast::Expr *replaced(const ast::Expr &e) override;

  /// A copy of an access whose indices are walked. Its base is not: the inner reads of a slice
  /// would be taken for reads again.
  ast::Expr *accessCopied(const ast::Expr &e);
  [[nodiscard]] std::optional<Place> placeOf(const ast::Expr *e) const;
  [[nodiscard]] std::vector<Extent> extentsOf(const Place &place) const;
  void fail(SourceRange range, diag::Id id) {
    joint_.diags.report(range, id);
    isGood_ = false;
  }

  Joint &joint_;
  llvm::ArrayRef<Published> tensors_;
  const Values &lets_;
  Variables variables_;
  /// One a level of `variables_` that is a block; the first is the space.
  std::vector<Scope> scopes_;
  const Stage *stage_ = nullptr;
  size_t body_ = 0;
  bool isGood_ = true;

private:
  void statement(const ast::Stmt &s, llvm::SmallVectorImpl<ast::Stmt *> &to);
  void declare(const ast::Stmt &s);
  void transfer(const ast::CallExpr &call, llvm::SmallVectorImpl<ast::Stmt *> &to, bool isAwaited);
  ast::Expr *target(const ast::Expr *e);
  ast::CallExpr *copiedTransfer(const ast::CallExpr &call);
  bool writesPublished(const ast::Stmt *s) const;

  std::optional<ast::IterDim> pendingDim_;
  bool pendingClosed_ = false;
  bool pendingConditional_ = false;
  bool pendingOfData_ = false;
  /// The tensor that a call is about to write.
  bool isTarget_ = false;
};

} // namespace dtile::join
