// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The other side of a wait that orders nothing: who reads what ranks send to each other, without
// being after anything.
#include "sema/checker.h"
#include "sema/tree/walk.h"

namespace dtile::sema {

namespace {

/// Memory that transfers write, and where it is read.
struct Arrival {
  const TExpr *sent = nullptr;
  const TExpr *read = nullptr;
};

const TExpr *rootOf(const TExpr *region) {
  while (region->kind == TExprKind::Slice || region->kind == TExprKind::Remote)
    region = region->operands[0];
  return region->kind == TExprKind::ParamRef ? region : nullptr;
}

/// For each parameter, a transfer to it and a load of it that is after nothing.
std::vector<Arrival> findArrivals(const KernelInstance &kernel) {
  std::vector<Arrival> arrivals(kernel.params.size());
  walkBodies(
      kernel, [](const TStmt &) {},
      [&](const TExpr &e) {
        const bool isSend = e.kind == TExprKind::Put || e.kind == TExprKind::ReduceAdd;
        if (const TExpr *root = isSend ? rootOf(e.operands[1]) : nullptr)
          arrivals[root->param].sent = &e;
        if (e.kind == TExprKind::Load && e.operands.size() == 1)
          if (const TExpr *root = rootOf(e.operands[0]); root && !arrivals[root->param].read)
            arrivals[root->param].read = &e;
      });
  return arrivals;
}

} // namespace

void noteUnorderedRead(DiagBuilder &builder, const KernelInstance &kernel) {
  for (auto [i, arrival] : llvm::enumerate(findArrivals(kernel))) {
    if (!arrival.sent || !arrival.read)
      continue;
    builder.note(arrival.read->range, diag::note_protocol,
                 "`" + kernel.params[i].name +
                     "`, which ranks send to each other, is read here: `after` a wait?");
    builder.note(arrival.sent->range, diag::note_protocol, "it is sent here");
    return;
  }
}

} // namespace dtile::sema
