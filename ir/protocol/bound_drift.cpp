// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// bound-drift: keeps back-to-back launches apart where ranks may run ahead of each other.
//
// Expects: inlined kernels.
// Produces: on each kernel that reaches other ranks, attribute `entry_barrier` (ranks meet before
// the bodies of a launch
//   start), and on each scratch object of such a kernel at least two `copies`.
// Why: a rank that has ended a launch may already notify and write for its next one while a peer
// still reads, or still
//   counts notifies of several ranks in one cell. With the meeting no rank is a launch ahead; with
//   two copies zeroing this launch's copy cannot meet a late write of the last one.
// Leaves alone: kernels that stay on their rank. A kernel whose own waits already bound the drift
// keeps the meeting:
//   it is right, only slower than it must be.
#include "ir/transform/pass.h"

#include <algorithm>

namespace dtile::passes {

using namespace dtile::ir;

bool boundDrift(Module &module, PassContext &context) {
  bool changed = false;
  for (Op &kernel : module.body().ops()) {
    if (!kernel.is(OpKind::Kernel))
      continue;
    bool reachesOthers = false;
    walk(kernel, [&](Op &op) {
      reachesOthers |= op.is(OpKind::ViewAt) || op.is(OpKind::SigAt) || op.is(OpKind::Barrier);
    });
    if (!reachesOthers || kernel.boolAttrOr("entry_barrier", false))
      continue;
    kernel.setAttr("entry_barrier", true);
    changed = true;
    context.remark(kernel, "ranks meet before each launch of `" + kernel.strAttr("name").str() +
                               "`: nothing else is known to keep them together");
    for (Op &op : kernel.body().ops())
      if (op.is(OpKind::Param) && op.strAttr("mode") == "scratch")
        op.setAttr("copies", std::max<int64_t>(2, op.intAttrOr("copies", 1)));
  }
  return changed;
}

} // namespace dtile::passes
