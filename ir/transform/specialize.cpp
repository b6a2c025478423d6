// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// specialize: constants for what a launch is known to bring.
//
// Expects: kernels as lowered. Options: `W`, the number of ranks; `dim.<param>.<dim>`, a size of an
//   argument; `scalar.<param>`, an integer argument. <param> is the position, or the name where the
//   kernel has one of that name.
// Produces: constants in place of num_ranks, launch.dim and scalar_param; and, unless `guard=0`, a
//   check at the start of the kernel that the launch brings just these, so that the code is never
//   wrong.
// Why: with sizes known, loops, edges and conditions fold away; canonicalize does that next.
// Leaves alone: the declared params themselves, and scalar arguments that are not integers.
#include "ir/core/builder.h"
#include "ir/transform/pass.h"

#include "llvm/ADT/STLExtras.h"

namespace dtile::passes {

using namespace dtile::ir;

namespace {

class Specializer {
public:
  Specializer(Op &kernel, Module &module, PassContext &context)
      : kernel_(kernel), context_(context), builder_(module),
        guards_(!context.option("guard") || *context.option("guard") != 0) {}
  bool run();

private:
  [[nodiscard]] const int64_t *wanted(const Op &op) const;
  [[nodiscard]] const int64_t *byParam(llvm::StringRef prefix, int64_t param,
                                       llvm::StringRef suffix) const;
  [[nodiscard]] llvm::StringRef nameOfParam(int64_t position) const;
  void fix(Op &op, int64_t value);
  void guard(Op &op, Value *constant);

  Op &kernel_;
  PassContext &context_;
  Builder builder_;
  bool guards_;
};

llvm::StringRef Specializer::nameOfParam(int64_t position) const {
  for (const Op &op : kernel_.body().ops())
    if ((op.is(OpKind::Param) || op.is(OpKind::ScalarParam)) && op.intAttr("param") == position)
      return op.strAttr("name");
  return "";
}

const int64_t *Specializer::byParam(llvm::StringRef prefix, int64_t param,
                                    llvm::StringRef suffix) const {
  if (const int64_t *value = context_.option((prefix + llvm::Twine(param) + suffix).str()))
    return value;
  const llvm::StringRef name = nameOfParam(param);
  return name.empty() ? nullptr : context_.option((prefix + name + suffix).str());
}

const int64_t *Specializer::wanted(const Op &op) const {
  switch (op.kind()) {
  case OpKind::NumRanks:
    return context_.option("W");
  case OpKind::LaunchDim:
    return byParam("dim.", op.intAttr("param"), "." + std::to_string(op.intAttr("dim")));
  case OpKind::ScalarParam:
    return op.result()->type().isIntLike() ? byParam("scalar.", op.intAttr("param"), "") : nullptr;
  default:
    return nullptr;
  }
}

void Specializer::guard(Op &op, Value *constant) {
  if (op.is(OpKind::LaunchDim)) {
    Op *check = builder_.op(OpKind::LaunchCheck, {constant, op.result()});
    check->setAttr("param", op.intAttr("param"));
    check->setAttr("dim", op.intAttr("dim"));
    return;
  }
  const std::string what =
      op.is(OpKind::NumRanks) ? "ranks" : ("as argument `" + op.strAttr("name") + "`").str();
  Value *same = builder_.cmp("eq", op.result(), constant);
  Op *check = builder_.op(OpKind::Assert, {same, constant, op.result()});
  check->setAttr("message", "compiled for {0} " + what + ", launched with {1}");
}

void Specializer::fix(Op &op, int64_t value) {
  builder_.setLoc(op.loc());
  builder_.setInsertionPoint(op.parentBlock()->terminator());
  Op *place = &*std::next(op.getIterator());
  builder_.setInsertionPoint(place);
  Value *constant = op.result()->type().isIndex()
                        ? builder_.constIndex(value)
                        : builder_.constInt(op.result()->type().dtype(), value);
  constant->setNameHint(op.result()->nameHint());
  op.result()->replaceAllUsesWith(constant);
  // In spaces and functions the checks at the start of the kernel have been made.
  if (guards_ && op.parentOp() == &kernel_)
    guard(op, constant);
}

bool Specializer::run() {
  llvm::SmallVector<Op *, 16> found;
  bool hasTopNumRanks = false;
  walk(kernel_, [&](Op &op) {
    if (!wanted(op))
      return;
    found.push_back(&op);
    hasTopNumRanks |= op.is(OpKind::NumRanks) && op.parentOp() == &kernel_;
  });
  if (context_.option("W") && !hasTopNumRanks && guards_) {
    // num_ranks occurs in spaces only, or in code that has already used it: check it all the same.
    builder_.setInsertionPointToStart(kernel_.body());
    found.push_back(builder_.op(OpKind::NumRanks, {}));
  }
  for (Op *op : found)
    fix(*op, *wanted(*op));
  return !found.empty();
}

} // namespace

bool specialize(Module &module, PassContext &context) {
  bool changed = false;
  for (Op &op : module.body().ops())
    if (op.is(OpKind::Kernel))
      changed |= Specializer(op, module, context).run();
  return changed;
}

} // namespace dtile::passes
