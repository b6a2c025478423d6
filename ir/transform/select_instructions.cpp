// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// select-instructions: an `extern fn` becomes its instructions, or its reference.
//
// Expects: a module without calls, for one target.
// Produces: no `extern`: an `asm` where there is a text for the target's instructions, else the
//   value of the reference.
// Why: one module serves all targets before. What follows sees what is computed.
// Leaves alone: all else. What only served references that are not computed is removed.
#include "ir/core/builder.h"
#include "ir/transform/pass.h"

#include "llvm/ADT/STLExtras.h"

namespace dtile::passes {

using namespace dtile::ir;

bool selectInstructions(Module &module, PassContext &context) {
  llvm::SmallVector<Op *> externs;
  walk(module.body(), [&](Op &op) {
    if (op.is(OpKind::Extern))
      externs.push_back(&op);
  });
  const std::string wanted =
      context.assembly ? assemblyName(*context.assembly).str() : std::string();
  Builder builder(module);
  for (Op *op : externs) {
    const auto assemblies = op->get(attr::assemblies), texts = op->get(attr::texts);
    const auto *found = llvm::find(assemblies, wanted);
    Value *value = op->operand(0);
    if (found != assemblies.end()) {
      builder.setInsertionPoint(op);
      builder.setLoc(op->loc());
      Op *code = builder.op(OpKind::Asm, op->operands().drop_front(), {op->result()->type()});
      code->set(attr::name, op->get(attr::name).str());
      code->set(attr::assembly, wanted);
      code->set(attr::text, texts[size_t(found - assemblies.begin())]);
      code->result()->setNameHint(op->result()->nameHint());
      value = code->result();
    }
    op->result()->replaceAllUsesWith(value);
    op->erase();
  }
  if (externs.empty())
    return false;
  (void)eliminateDeadCode(module, context);
  return true;
}

} // namespace dtile::passes
