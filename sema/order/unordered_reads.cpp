// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The other side of a wait that orders nothing: who reads what ranks send to each other, without
// being after anything.
#include "sema/checker.h"

namespace dtile::sema {

namespace {

/// Memory that transfers write, and where it is read.
struct Arrival {
  const TExpr *sent = nullptr;
  const TExpr *read = nullptr;
};

/// Finds, for each parameter, a transfer to it and a load of it that is after nothing.
class ArrivalFinder {
public:
  explicit ArrivalFinder(const KernelInstance &kernel) : arrivals(kernel.params.size()) {
    walk(kernel.prologue);
    for (const TSpace &space : kernel.spaces)
      walk(space.body);
  }
  std::vector<Arrival> arrivals;

private:
  static const TExpr *rootOf(const TExpr *region) {
    while (region->kind == TExprKind::Slice || region->kind == TExprKind::Remote)
      region = region->operands[0];
    return region->kind == TExprKind::ParamRef ? region : nullptr;
  }

  void walk(const TBlock &block) {
    for (const TStmt *s : block) {
      for (const TExpr *e : s->values)
        expression(e);
      for (const TExpr *e : s->after)
        expression(e);
      for (const TExpr *e : {s->target, s->lo, s->hi, s->condition})
        expression(e);
      for (const IndexItem &index : s->indices)
        expression(index.value);
      walk(s->body);
      walk(s->otherwise);
    }
  }

  void expression(const TExpr *e) {
    if (!e)
      return;
    const bool isSend = e->kind == TExprKind::Put || e->kind == TExprKind::ReduceAdd;
    if (const TExpr *root = isSend ? rootOf(e->operands[1]) : nullptr)
      arrivals[root->param].sent = e;
    if (e->kind == TExprKind::Load && e->operands.size() == 1)
      if (const TExpr *root = rootOf(e->operands[0]); root && !arrivals[root->param].read)
        arrivals[root->param].read = e;
    for (const TExpr *operand : e->operands)
      expression(operand);
    for (const IndexItem &index : e->indices)
      expression(index.value);
  }
};

} // namespace

void noteUnorderedRead(DiagBuilder &builder, const KernelInstance &kernel) {
  const ArrivalFinder finder(kernel);
  for (auto [i, arrival] : llvm::enumerate(finder.arrivals)) {
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
