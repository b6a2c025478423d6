// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "backend/gpu/shared_memory_fit.h"

#include "ir/analysis/shared_memory_plan.h"

namespace dtile::backend::gpu {

using ir::Op;
using ir::OpKind;

namespace {

/// Has loops keep nothing for each other; false where none does.
bool dropRowBuffers(Op &kernel) {
  bool any = false;
  ir::walk(kernel, [&](Op &op) {
    any |= op.has(ir::attr::row_buffer);
    op.remove(ir::attr::row_buffer);
  });
  return any;
}

/// Has the loops of a staged space look one iteration less ahead, where the most was taken beside
/// its stages; false where it was not, or one of them cannot.
bool dropStage(const GpuModule::Peak &peak, const TargetFacts &facts) {
  Op *space =
      peak.user && !peak.user->is(OpKind::Space) ? peak.user->enclosing(OpKind::Space) : peak.user;
  if (!space)
    return false;
  llvm::SmallVector<Op *, 4> loops;
  ir::walk(*space, [&](Op &op) {
    if (op.is(OpKind::For) && op.has(ir::attr::stages))
      loops.push_back(&op);
  });
  // The body for tensors that TMA cannot describe has no stages.
  const bool stand = llvm::all_of(loops, [&](Op *loop) {
    return peak.standing >= ir::StageBytes(*loop).bytes() * loop->get(ir::attr::stages);
  });
  if ((!stand && peak.user != space) || llvm::any_of(loops, [](Op *loop) {
        return loop->get(ir::attr::stages) <= ir::kFewestStages;
      }))
    return false;
  for (Op *loop : loops) {
    loop->set(ir::attr::stages, loop->get(ir::attr::stages) - 1);
    if (loop->get(ir::attr::split_sums) && !ir::stagesHoldExchange(*loop, facts))
      loop->remove(ir::attr::split_sums);
  }
  return !loops.empty();
}

/// Has multistage loops copy one iteration less ahead, and those that cannot load where they need
/// what they load; false where there is no such loop.
bool dropSlot(Op &kernel) {
  bool any = false;
  ir::walk(kernel, [&](Op &op) {
    if (!op.is(OpKind::For) || !op.has(ir::attr::async_stages))
      return;
    any = true;
    if (op.get(ir::attr::async_stages) > ir::kFewestSlots)
      return op.set(ir::attr::async_stages, op.get(ir::attr::async_stages) - 1);
    op.remove(ir::attr::async_stages);
    for (Op &inner : op.body().ops())
      if (comesVia(inner, ir::LoadPath::Threads)) {
        inner.remove(ir::attr::via);
        inner.remove(ir::attr::swizzle);
      }
  });
  return any;
}

} // namespace

SharedMemoryFit::SharedMemoryFit(GpuModule &module, Op &kernel)
    : module_(module), kernel_(kernel), room_(ir::sharedRoom(module.device.facts())) {}

bool SharedMemoryFit::fits() {
  peak_ = module_.sharedPeak();
  if (peak_.bytes <= room_)
    return true;
  module_.forgetKernel();
  return false;
}

bool SharedMemoryFit::takeLess() {
  if (dropRowBuffers(kernel_) || dropStage(peak_, module_.device.facts()))
    return true;
  if (hasPieces_)
    return dropSlot(kernel_);
  hasPieces_ = true;
  module_.limitShared(room_);
  return true;
}

void SharedMemoryFit::report() {
  module_.unsupported(peak_.user ? *peak_.user : kernel_,
                      "needs " + llvm::Twine(peak_.bytes) +
                          " bytes of shared memory, with what stands there meanwhile; a program "
                          "of this device (" +
                          module_.device.arch() + ") has " + llvm::Twine(room_) +
                          ": use smaller tiles");
}

} // namespace dtile::backend::gpu
