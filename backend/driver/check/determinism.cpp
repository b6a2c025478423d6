// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Everything else that a kernel does has one result, whatever the timing: the checker lets no races
// pass, reductions have a fixed order, and no pass splits a sum over bodies. Sums of integers are
// the same in any order.
#include "backend/driver/check/determinism.h"

namespace dtile::driver {

namespace {

/// Whether who comes first decides what it leaves, or what it gives to somebody.
bool isRace(const ir::Op &op) {
  if (!ir::isAtomic(op))
    return false;
  const llvm::StringRef kind = op.get(ir::attr::kind);
  return kind == "exch" || kind == "cas" || op.result()->hasUses();
}

/// Why two runs may differ; empty where they do not.
std::string whyNot(ir::Op &op) {
  if (op.is(ir::OpKind::ReduceAdd) || op.is(ir::OpKind::ReduceAddScatter)) {
    const DType dtype = op.operand(1)->type().dtype();
    if (!isFloat(dtype))
      return "";
    return ("`reduce_add` sums `" + dtypeName(dtype) +
            "` in the order in which ranks come, and `--deterministic` wants one order: put the "
            "parts side by side and add them in a loop")
        .str();
  }
  if (!ir::isAtomic(op))
    return "";
  const llvm::StringRef kind = op.get(ir::attr::kind);
  if (kind == "add" && isFloat(op.operand(0)->type().dtype()))
    return "`fetch_add` sums floats in the order in which bodies come, and `--deterministic` wants "
           "one order";
  if (!isRace(op))
    return "";
  if (kind == "exch" || kind == "cas")
    return "who comes first decides what an exchange leaves, and `--deterministic` wants one "
           "result";
  return "the old value of an atomic depends on who comes first, and `--deterministic` wants one "
         "result";
}

} // namespace

bool checkDeterminism(Session &session, ir::Module &module) {
  bool good = true;
  ir::walk(module.body(), [&](ir::Op &op) {
    const std::string why = whyNot(op);
    if (why.empty())
      return;
    session.diagnostics.report(op.loc(), diag::build_failed, why);
    good = false;
  });
  return good;
}

bool dependsOnWhoComesFirst(ir::Op &kernel) {
  bool found = false;
  ir::walk(kernel, [&](ir::Op &op) { found |= isRace(op); });
  return found;
}

bool checkBatchInvariance(Session &session, ir::Module &module) {
  bool good = true;
  ir::walk(module.body(), [&](ir::Op &op) {
    const bool isSum = op.is(ir::OpKind::ReduceAdd) || op.is(ir::OpKind::ReduceAddScatter);
    const bool isAtomic = ir::isAtomic(op) && op.get(ir::attr::kind) == "add";
    if (!isSum && !isAtomic)
      return;
    const DType dtype = op.operand(isSum ? 1 : 0)->type().dtype();
    if (!isFloat(dtype))
      return;
    session.diagnostics.report(op.loc(), diag::batch_varies,
                               std::string(isSum ? "`reduce_add`" : "`fetch_add`") + " sums `" +
                                   dtypeName(dtype).str() + "` in the order of arrival");
    good = false;
  });
  return good;
}

} // namespace dtile::driver
