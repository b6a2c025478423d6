// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The other side of a wait that orders nothing: who reads what ranks send to each other, without
// being after anything; and the text that would order it.
#include "sema/checker.h"
#include "sema/order/read_fix.h"
#include "sema/tree/walk.h"

#include "llvm/ADT/STLExtras.h"

namespace dtile::sema {

namespace {

/// Memory that transfers write, and where it is read without being after anything.
struct Arrival {
  const TExpr *sent = nullptr;
  std::vector<const TExpr *> reads;
};

const TExpr *rootOf(const TExpr *region) {
  while (region->kind == TExprKind::Slice || region->kind == TExprKind::Remote)
    region = region->operands[0];
  return region->kind == TExprKind::ParamRef ? region : nullptr;
}

/// For each parameter, a transfer to it and the loads of it that are after nothing.
std::vector<Arrival> findArrivals(const KernelInstance &kernel) {
  std::vector<Arrival> arrivals(kernel.params.size());
  walkBodies(
      kernel, [](const TStmt &) {},
      [&](const TExpr &e) {
        const bool isSend = e.kind == TExprKind::Put || e.kind == TExprKind::ReduceAdd;
        if (const TExpr *root = isSend ? rootOf(e.operands[1]) : nullptr)
          arrivals[root->param].sent = &e;
        if (e.kind == TExprKind::Load && e.operands.size() == 1)
          if (const TExpr *root = rootOf(e.operands[0]))
            arrivals[root->param].reads.push_back(&e);
      });
  return arrivals;
}

/// Where a variable can be named: from after its `let` to the end of that block.
SourceRange scopeOf(const TBlock &block, const Variable *variable) {
  for (const TStmt *s : block) {
    if (s->kind == TStmtKind::Let && llvm::is_contained(s->vars, variable))
      return {s->range.end, block.back()->range.end};
    for (const TBlock *inner : {&s->body, &s->otherwise})
      if (const SourceRange found = scopeOf(*inner, variable); found.isValid())
        return found;
  }
  return {};
}

} // namespace

void noteUnorderedRead(DiagBuilder &builder, const KernelInstance &kernel) {
  for (auto [i, arrival] : llvm::enumerate(findArrivals(kernel))) {
    if (!arrival.sent || arrival.reads.empty())
      continue;
    builder.note(arrival.reads.front()->range, diag::note_protocol,
                 "`" + kernel.params[i].name +
                     "`, which ranks send to each other, is read here: `after` a wait?");
    builder.note(arrival.sent->range, diag::note_protocol, "it is sent here");
    return;
  }
}

void orderReads(DiagBuilder &builder, const SourceManager &sources, const KernelInstance &kernel,
                const TSpace &space, const Variable *acquire) {
  const SourceRange scope = scopeOf(space.body, acquire);
  for (const Arrival &arrival : findArrivals(kernel)) {
    if (!arrival.sent || arrival.reads.empty())
      continue;
    for (const TExpr *read : arrival.reads)
      if (scope.begin <= read->range.begin && read->range.end <= scope.end)
        for (const FixIt &fix : readFix(sources, read->range, acquire->name))
          builder.fix(fix.range, fix.text);
    // As in the note: the first such memory.
    return;
  }
}

std::vector<FixIt> readFix(const SourceManager &sources, SourceRange read, llvm::StringRef token) {
  const llvm::StringRef next = sources.text({read.end, {read.end.offset + 1}});
  const bool isAlone = !next.empty() && llvm::StringRef(";,)]").contains(next.front());
  const std::string after = " after " + token.str();
  if (isAlone)
    return {{{read.end, read.end}, after}};
  return {{{read.begin, read.begin}, "("}, {{read.end, read.end}, after + ")"}};
}

} // namespace dtile::sema
