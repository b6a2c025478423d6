// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// send-by-engine: leaves what a space puts to other ranks to the copy engine.
//
// Expects: inlined kernels with derived counts (derive-counts), before bound-drift.
// Produces: `engine_copies` on spaces with `copy_engine`, and `entry_barrier` on their kernels, so
//   that bound-drift gives scratch objects no copies that are taken in turn. A space for which a
//   copy engine cannot send is an error.
// Why: large transfers then take no programs. The host lists copies before the launch, and a
//   captured graph replays them, so they go to the same memory in each launch. Ranks meet before
//   they begin: none still reads there what the launch before has sent.
// Leaves alone: spaces whose author does not ask for it.
#include "ir/analysis/engine_copies.h"
#include "ir/transform/pass.h"

namespace dtile::passes {

using namespace dtile::ir;

bool sendByEngine(Module &module, PassContext &context) {
  bool changed = false;
  for (Op &kernel : module.body().ops()) {
    if (!kernel.is(OpKind::Kernel))
      continue;
    for (Op &space : kernel.body().ops()) {
      if (!space.is(OpKind::Space) || !space.get(attr::copy_engine))
        continue;
      const std::string name = space.get(attr::name).empty() ? kernel.get(attr::name).str()
                                                             : space.get(attr::name).str();
      if (const auto refusal = whyNoCopyEngine(space)) {
        context.report(*refusal->op, diag::copy_engine_cannot_send, name, refusal->reason);
        continue;
      }
      space.set(attr::engine_copies, true);
      kernel.set(attr::entry_barrier, true);
      context.remark(space, "the copy engine sends what `" + name +
                                "` puts to other ranks, and ranks meet before each launch");
      changed = true;
    }
  }
  return changed;
}

} // namespace dtile::passes
