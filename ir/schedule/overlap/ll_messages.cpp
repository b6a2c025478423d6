// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// ll-messages: words of small messages carry the number of their launch beside the data.
//
// Expects: kernels whose drift is bounded (bound-drift), after all passes that move loads.
// Produces: attribute `flagged` on scratch objects, on the puts that fill them and on the loads
//   that read them, and no notify, wait or await in the kernel. A flagged object has twice the
//   memory: a word of data and the launch's number are stored together, and a load polls until what
//   it reads has the number of its own launch.
// Why: a notify has to wait until what it tells of has landed, and what waits for it has still to
//   load the data: of a message of a few kilobytes that is a third of the time. The protocol is
//   NCCL's LL; as each launch fills all of a copy that is read, words of older launches are always
//   two behind, and nothing is ever cleared.
// Leaves alone: kernels in which anything else goes from rank to rank. It is done for a kernel or
//   not at all, so that the only order needed is that of words: each launch fills each element of
//   the object on every rank once, by a put that nothing conditions, and reads it (or each but the
//   own part, where nobody sends to itself); who has read all has seen every rank begin the launch,
//   as with the waits. Kernels before which ranks meet, or of which it is not proved that what is
//   read has been written. Tiles that are not small, as words take twice the time on the wire;
//   tiles whose rows are no whole words; messages that scalars depend on.
#include "ir/analysis/communication.h"
#include "ir/schedule/overlap/messages.h"
#include "ir/transform/pass.h"

namespace dtile::passes {
namespace {

using namespace dtile::ir;

/// Removes an op, and what computed its cells for it alone.
void eraseWithCells(Op &op) {
  llvm::SmallVector<Value *, 4> cells;
  for (Value *value = cellsOf(op); value && value->definingOp();
       value = value->definingOp()->operand(0)) {
    if (value->definingOp()->is(OpKind::SignalParam))
      break;
    cells.push_back(value);
  }
  op.erase();
  for (Value *value : cells)
    if (!value->hasUses())
      value->definingOp()->erase();
}

void flag(const Messages &messages) {
  for (Op *put : messages.puts()) {
    put->set(attr::ll, true);
    objectOf(put->operand(1))->set(attr::ll, true);
  }
  for (Op *load : messages.loads()) {
    if (!messages.usesLl(objectOf(load->operand(0))))
      continue;
    load->set(attr::ll, true);
    while (load->numOperands() > 1)
      load->removeOperand(load->numOperands() - 1);
  }
  for (Op *await : messages.awaits())
    await->erase();
  for (Op *notify : messages.notifies())
    eraseWithCells(*notify);
  for (Op *wait : messages.waits())
    eraseWithCells(*wait);
}

} // namespace

bool llMessages(Module &module, PassContext &context) {
  bool changed = false;
  for (Op *kernel : kernelsWithMessages(module, context.facts)) {
    Messages messages(*kernel, Messages::Of::Tiles);
    const char *reason = messages.judge();
    if (!reason && messages.isSending()) {
      context.remark(*kernel, "words of " + messages.objects() +
                                  " carry the number of their launch: nobody notifies or waits");
      flag(messages);
      changed = true;
    } else if (reason && messages.isSending()) {
      context.remark(*kernel, llvm::Twine("words do not carry flags: ") + reason);
    }
  }
  return changed;
}

} // namespace dtile::passes
