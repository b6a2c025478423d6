// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// specialize: constants for what a launch is known to bring.
//
// Expects: kernels as lowered. Options: `W`, the number of ranks; `dim.<param>.<dim>`, a size of an
//   argument; `scalar.<param>`, an integer argument. <param> is the position, or the name where the
//   kernel has one of that name.
// Produces: constants in place of num_ranks, launch.dim and scalar_param; and, unless `guard=0`, a
//   check before the first space that the launch brings just these, so that the code is never
//   wrong. A value that no launch can bring is an error.
// Why: with sizes known, loops, edges and conditions fold away; canonicalize does that next.
// Leaves alone: the declared params themselves, and scalar arguments that are not integers.
#include "frontend/base/check.h"
#include "ir/core/builder.h"
#include "ir/transform/pass.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/Support/MathExtras.h"

namespace dtile::passes {

using namespace dtile::ir;

namespace {

/// Whether an integer type has a value.
bool fits(Type type, int64_t value) {
  if (type.isIndex())
    return true;
  const unsigned bits = dtypeBits(type.dtype());
  switch (dtypeClass(type.dtype())) {
  case DTypeClass::Bool:
    return value == 0 || value == 1;
  case DTypeClass::Int:
    return llvm::isIntN(bits, value);
  case DTypeClass::UInt:
    // The largest numbers of u64 are written as negative ones.
    return bits == 64 || llvm::isUIntN(bits, uint64_t(value));
  case DTypeClass::Float:
    return false;
  }
  DTILE_UNREACHABLE("not a class of types");
}

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
  void fix(Op &op, int64_t value, bool isGuarded);
  void guard(Op &op, Value *constant);
  [[nodiscard]] bool isFine(const Op &op, int64_t value);

  Op &kernel_;
  PassContext &context_;
  Builder builder_;
  bool guards_;
};

llvm::StringRef Specializer::nameOfParam(int64_t position) const {
  for (const Op &op : kernel_.body().ops())
    if ((op.is(OpKind::Param) || op.is(OpKind::ScalarParam)) && op.get(attr::param) == position)
      return op.get(attr::name);
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
    return byParam("dim.", op.get(attr::param), "." + std::to_string(op.get(attr::dim)));
  case OpKind::ScalarParam:
    return op.result()->type().isIntLike() ? byParam("scalar.", op.get(attr::param), "") : nullptr;
  default:
    return nullptr;
  }
}

void Specializer::guard(Op &op, Value *constant) {
  if (op.is(OpKind::LaunchDim)) {
    Op *check = builder_.op(OpKind::LaunchCheck, {constant, op.result()});
    check->set(attr::param, op.get(attr::param));
    check->set(attr::dim, op.get(attr::dim));
    return;
  }
  const std::string what =
      op.is(OpKind::NumRanks) ? "ranks" : ("as argument `" + op.get(attr::name) + "`").str();
  Value *same = builder_.cmp("eq", op.result(), constant);
  Op *check = builder_.op(OpKind::Assert, {same, constant, op.result()});
  check->set(attr::message, "compiled for {0} " + what + ", launched with {1}");
}

void Specializer::fix(Op &op, int64_t value, bool isGuarded) {
  builder_.setLoc(op.loc());
  Op *place = &*std::next(op.getIterator());
  builder_.setInsertionPoint(place);
  Value *constant = op.result()->type().isIndex()
                        ? builder_.constIndex(value)
                        : builder_.constInt(op.result()->type().dtype(), value);
  constant->setNameHint(op.result()->nameHint());
  op.result()->replaceAllUsesWith(constant);
  if (isGuarded)
    guard(op, constant);
}

bool Specializer::isFine(const Op &op, int64_t value) {
  auto refuse = [&](const llvm::Twine &option, llvm::StringRef why) {
    context_.diagnostics
        .report(SourceRange{}, diag::ir_bad_pass_option, (option + "=" + llvm::Twine(value)).str())
        .note(SourceRange{}, diag::note_protocol, why);
    return false;
  };
  switch (op.kind()) {
  case OpKind::NumRanks:
    return (value >= 1 && value <= INT32_MAX) ||
           refuse("W", "a launch has 1 rank at least, and at most 2147483647");
  case OpKind::LaunchDim:
    return value >= 0 ||
           refuse("dim." + llvm::Twine(op.get(attr::param)) + "." + llvm::Twine(op.get(attr::dim)),
                  "no size is below 0");
  case OpKind::ScalarParam: {
    const Type type = op.result()->type();
    return fits(type, value) ||
           refuse("scalar." + op.get(attr::name),
                  "the argument is of type `" + dtypeName(type.dtype()).str() + "`");
  }
  default:
    DTILE_UNREACHABLE("no option is for this operation");
  }
}

bool Specializer::run() {
  llvm::SmallVector<Op *, 16> found;
  walk(kernel_, [&](Op &op) {
    if (wanted(op))
      found.push_back(&op);
  });
  // One message is enough.
  for (const Op *op : found)
    if (!isFine(*op, *wanted(*op)))
      return false;
  // Checks stand before the first space, where the rest of the kernel's own code may use what was
  // found to be so. What is asked for after that, or in spaces only, is asked for again.
  llvm::SmallVector<Op *, 16> guarded;
  if (guards_) {
    auto same = [](const Op &a, const Op &b) {
      return a.kind() == b.kind() &&
             (a.is(OpKind::NumRanks) ||
              (a.get(attr::param) == b.get(attr::param) &&
               (!a.is(OpKind::LaunchDim) || a.get(attr::dim) == b.get(attr::dim))));
    };
    llvm::SmallPtrSet<const Op *, 32> before;
    Op *firstSpace = kernel_.body().terminator();
    for (Op &op : kernel_.body().ops()) {
      if (op.is(OpKind::Space)) {
        firstSpace = &op;
        break;
      }
      before.insert(&op);
    }
    for (Op *op : found)
      if (before.contains(op) &&
          llvm::none_of(guarded, [&](Op *other) { return same(*op, *other); }))
        guarded.push_back(op);
    const llvm::SmallVector<Op *, 16> asked = found;
    for (Op *op : asked)
      if (llvm::none_of(guarded, [&](Op *other) { return same(*op, *other); })) {
        builder_.setLoc(op->loc());
        builder_.setInsertionPoint(firstSpace);
        ValueMap none;
        guarded.push_back(cloneOp(builder_, *op, none));
        found.push_back(guarded.back());
      }
    if (context_.option("W") &&
        llvm::none_of(guarded, [](Op *op) { return op->is(OpKind::NumRanks); })) {
      // Code that used the number of ranks is gone: it is checked all the same.
      builder_.setInsertionPointToStart(kernel_.body());
      guarded.push_back(builder_.op(OpKind::NumRanks, {}));
      if (!isFine(*guarded.back(), *context_.option("W")))
        return false;
      found.push_back(guarded.back());
    }
  }
  for (Op *op : found)
    fix(*op, *wanted(*op), llvm::is_contained(guarded, op));
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
