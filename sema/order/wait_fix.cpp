// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The wait that a notified signal lacks. The notify says which cells announce which part of what is
// sent: each index of the cells is found again among those of the transfer's target, and becomes
// what a read has in that place.
#include "frontend/ast/ast_visitor.h"
#include "sema/checker.h"
#include "sema/order/read_fix.h"
#include "sema/tree/walk.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

namespace dtile::sema {

namespace {

const TExpr *withoutCasts(const TExpr *e) {
  while (e->kind == TExprKind::Cast)
    e = e->operands[0];
  return e;
}

bool isSame(const TExpr *a, const TExpr *b) {
  a = withoutCasts(a);
  b = withoutCasts(b);
  // Two calls may give different values, and two loads.
  if (a->kind != b->kind || a->kind == TExprKind::FnCall || touchesMemory(a->kind))
    return false;
  return a->bits == b->bits && a->var == b->var && a->param == b->param && a->symbol == b->symbol &&
         a->dim == b->dim && a->op == b->op && a->builtin == b->builtin && a->member == b->member &&
         a->ints == b->ints && a->indices.empty() && b->indices.empty() &&
         llvm::equal(a->operands, b->operands, isSame);
}

/// `x@rank[indices]` of a parameter.
struct Place {
  const TExpr *root = nullptr;
  const TExpr *rank = nullptr;
  llvm::ArrayRef<IndexItem> indices;
};

/// Nothing where slices are cut again.
std::optional<Place> placeOf(const TExpr *e) {
  Place place;
  for (; e->kind == TExprKind::Slice || e->kind == TExprKind::Remote; e = e->operands[0]) {
    if (e->kind == TExprKind::Remote)
      place.rank = e->operands[1];
    else if (place.indices.empty())
      place.indices = e->indices;
    else
      return std::nullopt;
  }
  if (e->kind != TExprKind::ParamRef)
    return std::nullopt;
  place.root = e;
  return place;
}

bool isOnSameRank(const Place &a, const Place &b) {
  return a.rank && b.rank ? isSame(a.rank, b.rank) : a.rank == b.rank;
}

/// The text of a block variable's `by`.
class StepFinder : public ast::Walker<StepFinder> {
public:
  using Walker::visit;
  explicit StepFinder(const Variable &variable) : variable_(variable) {}
  bool visit(const ast::ForStmt &s) { return note(s.dim); }
  bool note(const ast::IterDim &dim) {
    if (dim.name.range.begin == variable_.range.begin)
      step = dim.step;
    return true;
  }
  const ast::Expr *step = nullptr;

private:
  const Variable &variable_;
};

const ast::Expr *stepOf(const ast::KernelDecl &kernel, const Variable &variable) {
  StepFinder finder(variable);
  finder.walk(static_cast<const ast::Decl *>(&kernel));
  for (const ast::Role *role : kernel.roles)
    for (; role; role = role->whenAll)
      if (role->over)
        for (const ast::IterDim &dim : role->over->dims)
          finder.note(dim);
  return finder.step;
}

/// A transfer, and the cells that say that it has come.
struct Announcement {
  Place sent;
  Place cells;
};

class WaitWriter {
public:
  WaitWriter(const SourceManager &sources, const KernelInstance &kernel)
      : sources_(sources), kernel_(kernel) {}

  /// The transfers that notifies of the signal are after; none where some notify cannot be read so.
  std::vector<Announcement> findAnnouncements(unsigned signal);
  /// `wait(ready[src, m.index])` for the read of what was sent; nothing where it cannot be said.
  std::optional<std::string> waitFor(const Announcement &announced, const Place &read);

private:
  void findTransfers(const TExpr *token, std::vector<const TExpr *> &found);
  std::optional<std::string> cellOf(const IndexItem &cell, const Place &sent, const Place &read);
  std::string text(const TExpr *e) const { return sources_.text(e->range).str(); }

  const SourceManager &sources_;
  const KernelInstance &kernel_;
};

/// The transfers of a token: written in its place, or by the `let` that names it.
void WaitWriter::findTransfers(const TExpr *token, std::vector<const TExpr *> &found) {
  if (token->kind == TExprKind::TokenJoin) {
    for (const TExpr *one : token->operands)
      findTransfers(one, found);
  } else if (token->kind == TExprKind::VarRef && !token->var->isMutable) {
    const TExpr *value = nullptr;
    walkBodies(
        kernel_,
        [&](const TStmt &s) {
          if (s.kind == TStmtKind::Let && s.vars.size() == 1 && s.vars[0] == token->var)
            value = s.values[0];
        },
        [](const TExpr &) {});
    if (value)
      findTransfers(value, found);
  } else if (token->kind == TExprKind::Put || token->kind == TExprKind::ReduceAdd) {
    found.push_back(token);
  }
}

std::vector<Announcement> WaitWriter::findAnnouncements(unsigned signal) {
  std::vector<Announcement> result;
  bool isReadable = true;
  const auto add = [&](const TExpr *cells, llvm::ArrayRef<const TExpr *> transfers) {
    const std::optional<Place> place = placeOf(cells);
    for (const TExpr *transfer : transfers) {
      const std::optional<Place> sent = placeOf(transfer->operands[1]);
      isReadable &= place && sent && transfer->indices.empty() && isOnSameRank(*place, *sent);
      if (isReadable)
        result.push_back({*sent, *place});
    }
  };
  const auto isOfSignal = [&](const TExpr *cells) {
    while (cells->kind == TExprKind::Slice || cells->kind == TExprKind::Remote)
      cells = cells->operands[0];
    return cells->kind == TExprKind::ParamRef && cells->param == signal;
  };
  walkBodies(
      kernel_,
      [&](const TStmt &s) {
        if (s.kind != TStmtKind::Notify || !isOfSignal(s.target))
          return;
        std::vector<const TExpr *> transfers;
        for (const TExpr *token : s.after)
          findTransfers(token, transfers);
        isReadable &= !transfers.empty();
        add(s.target, transfers);
      },
      [&](const TExpr &e) {
        if (e.signal && isOfSignal(e.signal))
          add(e.signal, &e);
      });
  return isReadable ? result : std::vector<Announcement>();
}

std::optional<std::string> WaitWriter::cellOf(const IndexItem &cell, const Place &sent,
                                              const Place &read) {
  if (cell.kind == IndexItem::Kind::All)
    return ":";
  const TExpr *value = withoutCasts(cell.value);
  if (value->kind == TExprKind::Const)
    return text(cell.value);
  // `r.index`, where `r` is a block of what is sent.
  const bool isOfBlock =
      value->kind == TExprKind::RangeMember && value->member == RangeMemberKind::Index;
  const TExpr *wanted = isOfBlock ? value->operands[0] : value;
  for (auto [there, here] : llvm::zip(sent.indices, read.indices)) {
    if (!there.value || !isSame(there.value, wanted))
      continue;
    if (here.kind == IndexItem::Kind::All)
      return ":";
    if (!isOfBlock)
      return text(here.value);
    const TExpr *from = withoutCasts(there.value), *to = withoutCasts(here.value);
    if (from->kind != TExprKind::VarRef || to->kind != TExprKind::VarRef)
      return std::nullopt;
    const ast::Expr *sentStep = stepOf(*kernel_.decl, *from->var);
    const ast::Expr *readStep = stepOf(*kernel_.decl, *to->var);
    if (!sentStep || !readStep)
      return std::nullopt;
    const llvm::StringRef step = sources_.text(sentStep->range);
    if (step == sources_.text(readStep->range))
      return text(here.value) + ".index";
    return text(here.value) + ".blocks(" + step.str() + ")";
  }
  return std::nullopt;
}

std::optional<std::string> WaitWriter::waitFor(const Announcement &announced, const Place &read) {
  std::vector<std::string> cells;
  for (const IndexItem &cell : announced.cells.indices) {
    std::optional<std::string> text = cellOf(cell, announced.sent, read);
    if (!text || text->empty())
      return std::nullopt;
    cells.push_back(std::move(*text));
  }
  const std::string indices = cells.empty() ? "" : "[" + llvm::join(cells, ", ") + "]";
  return "wait(" + kernel_.params[announced.cells.root->param].name + indices + ")";
}

} // namespace

void proposeWaits(DiagBuilder &builder, const SourceManager &sources, const KernelInstance &kernel,
                  unsigned signal) {
  WaitWriter writer(sources, kernel);
  const std::vector<Announcement> announcements = writer.findAnnouncements(signal);
  std::vector<FixIt> fixes;
  bool isWhole = true;
  walkBodies(
      kernel, [](const TStmt &) {},
      [&](const TExpr &e) {
        const bool isFree = e.kind == TExprKind::Load && e.operands.size() == 1;
        const std::optional<Place> read = isFree ? placeOf(e.operands[0]) : std::nullopt;
        if (!read || read->rank)
          return;
        std::optional<std::string> wait;
        for (const Announcement &one : announcements) {
          if (one.sent.root->param != read->root->param)
            continue;
          std::optional<std::string> text = writer.waitFor(one, *read);
          // Several transfers have to ask for the same.
          isWhole &= text && (!wait || *wait == *text);
          wait = std::move(text);
        }
        if (wait)
          llvm::append_range(fixes, readFix(sources, e.range, *wait));
      });
  // Half of them would leave the other reads as wrong as they were.
  if (isWhole)
    for (const FixIt &fix : fixes)
      builder.fix(fix.range, fix.text);
}

} // namespace dtile::sema
