// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What is under way to ranks whose memory is not mapped, and when that has to be complete.
//
// A send is complete when its token is used: then each thread waits for its own. So those that
// share an await take one trip together. A put of memory that is followed by a notify of its rank
// is not waited for at all: one thread sends both, in order, with the data where the provider can.
// Its source may be read until the kernel ends, which the checker knows: the token of such a notify
// orders nothing else of the body.
#include "backend/gpu/bodies/lower_body.h"

#include "ir/analysis/communication.h"

namespace dtile::backend::gpu {

using ir::Op;
using ir::OpKind;

namespace {

/// Of dtile_sends, backend/device_library/device.h.
enum Sends : uint32_t { kUnordered = 1, kUnfenced = 2, kNotified = 8 };

} // namespace

bool BodyLowering::sendsLater(const Op &op) const {
  // Warps of a space with roles do not wait for each other's sends.
  if (!kernel_.sends)
    return false;
  const Op *space = op.parentOp();
  while (space && !space->is(OpKind::Space))
    space = space->parentOp();
  return space && !space->has(ir::attr::warpgroups);
}

void BodyLowering::addSends(llvm::Value *sends) {
  llvm::Value *before = b.CreateLoad(b.getInt32Ty(), kernel_.sends);
  b.CreateStore(b.CreateOr(before, sends), kernel_.sends);
}

void BodyLowering::finishSends(llvm::Value *sends) {
  llvm::Value *missing = b.CreateAnd(sends, b.getInt32(kUnordered));
  when(b.CreateIsNotNull(missing), "quiet", [&] { quiet(); });
}

void BodyLowering::finishSends() {
  if (kernel_.sends)
    finishSends(b.CreateLoad(b.getInt32Ty(), kernel_.sends));
}

void BodyLowering::quiet() {
  call(DeviceCall::quiet, {kernel_.launch});
  if (kernel_.sends)
    b.CreateStore(b.getInt32(0), kernel_.sends);
}

void BodyLowering::afterPut(llvm::Value *sends) {
  if (!kernel_.sends)
    return;
  if (!isSentLater_)
    return finishSends(sends);
  addSends(b.CreateAnd(sends, b.getInt32(~kNotified)));
  if (told_)
    b.CreateStore(b.CreateIsNotNull(b.CreateAnd(sends, b.getInt32(kNotified))), told_);
}

void BodyLowering::finishStores(const View &to) {
  if (!to.far)
    return;
  if (isSentLater_)
    return addSends(b.CreateSelect(to.far, b.getInt32(kUnordered), b.getInt32(0)));
  when(to.far, "quiet", [&] { quiet(); });
}

const Op *BodyLowering::notifySentWith(const Op &put) const {
  if (!put.is(OpKind::Put) || !sendsLater(put))
    return nullptr;
  const Op *notify = ir::notifyToldOf(put);
  if (!notify || notify->parentBlock() != put.parentBlock() || !put.operand(0)->type().isView() ||
      ir::putsToldBy(*notify).size() != 1)
    return nullptr;
  // What is between them neither reads nor writes, so the put may as well be made there.
  for (const Op *op = &*std::next(put.getIterator()); op != notify;
       op = &*std::next(op->getIterator()))
    if (op->numRegions() > 0 || (op->info().effects & ~ir::Trap) != 0)
      return nullptr;
  return notify;
}

Op *BodyLowering::putSentWith(const Op &notify) const {
  const auto puts = ir::putsToldBy(notify);
  if (puts.size() != 1)
    return nullptr;
  Op *put = puts.front();
  if (put == &notify)
    return put->operand(0)->type().isView() ? put : nullptr;
  return notifySentWith(*put) ? put : nullptr;
}

void BodyLowering::putAndNotify(Op &put, Op &notify) {
  // What the program did before is published by whoever sends the notify, maybe with the data.
  sync();
  told_ = stackSlot(b.getInt1Ty(), "told");
  b.CreateStore(b.getFalse(), told_);
  toldCell_ = cells(ir::cellsOf(notify)).data;
  tracedTransfer(put, [&] { lowerPut(put); });
  toldCell_ = nullptr;
  finishSends();
  this->notify(notify);
  told_ = nullptr;
}

llvm::Value *BodyLowering::unfencedSends(const Op &notify) {
  if (!kernel_.sends || ir::putsToldBy(notify).empty())
    return b.getInt32(0);
  llvm::Value *sends = b.CreateLoad(b.getInt32Ty(), kernel_.sends);
  b.CreateStore(b.CreateAnd(sends, b.getInt32(~kUnfenced)), kernel_.sends);
  return sends;
}

} // namespace dtile::backend::gpu
