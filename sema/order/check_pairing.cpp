// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The part of signal pairing that needs no counting: who notifies and who waits, at all. Counts are
// derived on the IR.
#include "sema/checker.h"
#include "sema/order/read_fix.h"
#include "sema/tree/walk.h"

namespace dtile::sema {

namespace {

struct SignalUses {
  const TExpr *wait = nullptr;
  const TExpr *notify = nullptr;
};

class PairingChecker {
public:
  PairingChecker(Context &context, const KernelInstance &kernel)
      : context_(context), kernel_(kernel), uses_(kernel.params.size()) {}

  void check() {
    walkBodies(
        kernel_,
        [&](const TStmt &s) {
          if (s.kind == TStmtKind::Notify)
            note(s.target, &SignalUses::notify);
        },
        [&](const TExpr &e) {
          if (e.kind == TExprKind::Wait)
            note(e.operands[0], &SignalUses::wait);
          if (e.signal)
            note(e.signal, &SignalUses::notify);
        });
    for (auto [i, param] : llvm::enumerate(kernel_.params)) {
      if (param.type->kind != TypeKind::Signal)
        continue;
      const SourceRange declared = kernel_.decl->params[i].name.range;
      const SignalUses &uses = uses_[i];
      if (!uses.wait && !uses.notify)
        context_.report(declared, diag::unused_parameter, param.name);
      else if (!uses.wait) {
        DiagBuilder report =
            context_.report(uses.notify->range, diag::signal_never_waited, param.name);
        report.note(declared, diag::note_declared_here, param.name);
        noteUnorderedRead(report, kernel_);
        proposeWaits(report, context_.sources, kernel_, unsigned(i));
      } else if (!uses.notify)
        context_.report(uses.wait->range, diag::signal_never_notified, param.name)
            .note(declared, diag::note_declared_here, param.name);
    }
  }

private:
  void note(const TExpr *cells, const TExpr *SignalUses::*use) {
    const TExpr *object = cells;
    while (object->kind == TExprKind::Slice || object->kind == TExprKind::Remote)
      object = object->operands[0];
    if (object->kind == TExprKind::ParamRef && !(uses_[object->param].*use))
      uses_[object->param].*use = cells;
  }

  Context &context_;
  const KernelInstance &kernel_;
  std::vector<SignalUses> uses_;
};

} // namespace

void checkPairing(Context &context, const KernelInstance &kernel) {
  // Who calls a function pairs its signals.
  if (!kernel.decl->isOfFunction)
    PairingChecker(context, kernel).check();
}

} // namespace dtile::sema
