// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// load-messages: what small copies send is loaded as tiles, whose words can carry flags.
//
// Expects: kernels whose drift is bounded (bound-drift), with loops in the source's order, without
//   layouts.
// Produces: where all that a kernel's ranks send each other are small tiles, or copies of small
//   windows such as `put(x[i], buf@peer[rank(), i])`: the window is loaded, and the tile is put.
//   What read-in-place has done to these is undone: a rank sends itself its own part, too.
// Why: ll-messages puts flags into the words of tiles. An all-gather of 100 KB on two H200s takes
//   12 us with a notify and a wait, and the words of an all-reduce of as much 9.
// Leaves alone: kernels that ll-messages would leave alone (its header says which); windows that
//   end elsewhere than those that they go to, as a tile has zeros there, and a copy writes nothing.
#include "ir/analysis/communication.h"
#include "ir/core/builder.h"
#include "ir/schedule/overlap/messages.h"
#include "ir/transform/pass.h"

namespace dtile::passes {
namespace {

using namespace dtile::ir;

void loadWindow(Op &put, const SentWindow &window) {
  Builder builder(put.parentBlock()->module());
  builder.setLoc(put.loc());
  builder.setInsertionPoint(&put);
  const Op &from = *put.operand(0)->definingOp();
  Value *view = builder.value(
      OpKind::ViewTile, window.operands, from.result()->type(),
      {{attr::dims, from.get(attr::dims).str()}, {attr::lens, from.get(attr::lens).vec()}});
  put.setOperand(0, builder.value(OpKind::Load, {view}, window.tile));
  put.remove(attr::in_place);
}

} // namespace

bool loadMessages(Module &module, PassContext &context) {
  bool changed = false;
  for (Op *kernel : kernelsWithMessages(module, context.facts)) {
    Messages messages(*kernel, Messages::Of::Windows);
    const char *reason = messages.judge();
    llvm::SmallVector<std::pair<Op *, SentWindow>, 2> windows;
    for (Op *put : messages.puts())
      if (const auto window = sentWindow(*put))
        windows.push_back({put, *window});
    if (windows.empty())
      continue;
    if (reason) {
      context.remark(*kernel, llvm::Twine("small copies are not loaded as tiles: ") + reason);
      continue;
    }
    for (const auto &[put, window] : windows)
      loadWindow(*put, window);
    for (Op *load : messages.loads())
      if (messages.usesLl(objectOf(sentPart(*load))))
        load->setOperand(0, sentPart(*load));
    context.remark(*kernel, "what is sent to " + messages.objects() + " is loaded as tiles");
    changed = true;
  }
  return changed;
}

} // namespace dtile::passes
