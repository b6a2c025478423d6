// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Walks from a value to what it is made of, each value once.
#include "ir/analysis/dependence.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallPtrSet.h"

namespace dtile::ir {

namespace {

class DependenceWalk {
public:
  explicit DependenceWalk(llvm::function_ref<bool(const Value &)> is) : is_(is) {}

  bool visit(Value *value) {
    if (is_(*value))
      return true;
    if (!seen_.insert(value).second)
      return false;
    if (Op *op = value->definingOp()) {
      if (!op->enclosing(OpKind::Space))
        return false;
      if (op->is(OpKind::For))
        return visitCarried(*op, value->index());
      if (op->is(OpKind::If))
        return visitChosen(*op, value->index());
      return op->numRegions() > 0 || visitAll(op->operands());
    }
    Op &owner = *value->argumentOf()->parentOp();
    if (owner.is(OpKind::For))
      return value->index() == 0 ? visitAll(owner.operands().take_front(kBounds))
                                 : visitCarried(owner, value->index() - 1);
    return !owner.is(OpKind::Space) && !owner.is(OpKind::Kernel);
  }

private:
  /// Operands of a loop before those that it carries.
  static constexpr unsigned kBounds = 3;

  bool visitAll(llvm::ArrayRef<Value *> values) {
    return llvm::any_of(values, [&](Value *value) { return visit(value); });
  }
  bool visitCarried(Op &loop, unsigned number) {
    return visitAll(loop.operands().take_front(kBounds)) || visit(loop.operand(kBounds + number)) ||
           visit(loop.body().terminator()->operand(number));
  }

  bool visitChosen(Op &branch, unsigned number) {
    return visitAll(branch.operands()) || visit(branch.body(0).terminator()->operand(number)) ||
           visit(branch.body(1).terminator()->operand(number));
  }

  llvm::function_ref<bool(const Value &)> is_;
  llvm::SmallPtrSet<const Value *, 16> seen_;
};

} // namespace

bool dependsOn(Value *value, llvm::function_ref<bool(const Value &)> is) {
  return DependenceWalk(is).visit(value);
}

} // namespace dtile::ir
