// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// skew-products: adds the last product of an iteration during the next one.
//
// Expects: staged loops with two products that are used in their iteration (stage-loads), of which
//   the second is added to a tile that the loop carries, and its first operand is in registers:
//   attention, where the scores of a tile of keys become weights of its values.
// Produces: the loop carries that operand, and what the product is added to, instead of the sum;
//   an iteration begins with both products, the second of the iteration before; a loop of one
//   iteration after it adds the last. The first iteration multiplies zeros.
// Why: what an iteration computes between its products, the matrix units compute nothing; now they
//   have the delayed product to compute meanwhile (Shah et al., "FlashAttention-3", 2024, section
//   3.2: intra-warpgroup overlap).
// Leaves alone: loops whose first product needs what the second gives, or which threads would not
//   have the registers for.
#include "ir/analysis/dependence.h"
#include "ir/analysis/loop_positions.h"
#include "ir/core/builder.h"
#include "ir/transform/pass.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallPtrSet.h"

namespace dtile::passes {
namespace {

using namespace dtile::ir;

/// One loop.
class ProductSkew {
public:
  ProductSkew(Op &loop, PassContext &context)
      : loop_(loop), body_(loop.body()), context_(context) {}
  bool run();

private:
  [[nodiscard]] bool find();
  [[nodiscard]] bool usesCanMove();
  [[nodiscard]] bool hasRegisters() const;
  void transform();
  void moveBehind(Value &product);
  Value *emitProduct(Builder &builder, Value *at, Value *weights, Value *sum);
  Value *emitLast(Builder &builder, Value *weights, Value *sum);

  Op &loop_;
  Block &body_;
  PassContext &context_;
  Op *first_ = nullptr;
  Op *delayed_ = nullptr;
  /// What the loop carries and the delayed product is added to: its number.
  unsigned carried_ = 0;
  /// The second operand of the delayed product, and what it follows from in an iteration.
  PositionChain chain_;
};

/// Whether all that uses the sum stands after the first product, and can be moved.
bool ProductSkew::usesCanMove() {
  Value *sum = body_.argument(carried_ + 1);
  bool isBehind = false;
  const auto isSum = [&](const Value &value) { return &value == sum; };
  for (Op &op : body_.ops()) {
    if (!isBehind && llvm::is_contained(op.operands(), sum))
      return false;
    isBehind |= &op == first_;
    // What has effects stays where it is.
    if (!op.isPure() && &op != body_.terminator() &&
        llvm::any_of(op.operands(), [&](Value *value) { return dependsOn(value, isSum); }))
      return false;
  }
  return true;
}

bool ProductSkew::find() {
  for (Op &op : body_.ops()) {
    if (op.numRegions() > 0)
      return false;
    if (!op.is(OpKind::Dot) || !op.get(attr::awaited))
      continue;
    if (delayed_)
      return false;
    (first_ ? delayed_ : first_) = &op;
  }
  if (!delayed_ || !delayed_->result()->hasOneUse() ||
      delayed_->result()->uses()[0].user != body_.terminator())
    return false;
  carried_ = delayed_->result()->uses()[0].index;
  const auto isCarried = [&](const Value &value) {
    return value.argumentOf() == &body_ && &value != body_.argument(0);
  };
  if (llvm::any_of(first_->operands(), [&](Value *value) { return dependsOn(value, isCarried); }) ||
      !usesCanMove())
    return false;
  // Its second operand may be read at any position of the loop; its first is no load.
  const Op *weights = delayed_->operand(0)->definingOp();
  Op *values = delayed_->operand(1)->definingOp();
  bool isVarying = false;
  return weights && weights->parentBlock() == &body_ && !weights->is(OpKind::Load) &&
         !weights->is(OpKind::Trans) && values && values->parentBlock() == &body_ &&
         followsFromPosition(*values, chain_, isVarying);
}

/// The weights of an iteration are there while those of the one before are multiplied.
bool ProductSkew::hasRegisters() const {
  const int64_t threads = first_->get(attr::warpgroups) * context_.facts->groupThreads;
  const auto registers = [&](const Value *tile) {
    return tile->type().elements() * int64_t(dtypeBytes(tile->type().dtype())) / 4 / threads;
  };
  int64_t all = registers(first_->result()) + registers(delayed_->result()) +
                2 * registers(delayed_->operand(0));
  if (!first_->has(attr::resident))
    all += registers(first_->operand(0));
  return all <= TargetFacts::kGroupRegisters;
}

Value *ProductSkew::emitProduct(Builder &builder, Value *at, Value *weights, Value *sum) {
  ValueMap map;
  map[body_.argument(0)] = at;
  for (Op *op : chain_) {
    builder.setLoc(op->loc());
    cloneOp(builder, *op, map);
  }
  map[delayed_->operand(0)] = weights;
  map[delayed_->operand(2)] = sum;
  builder.setLoc(delayed_->loc());
  return cloneOp(builder, *delayed_, map)->result();
}

/// A loop over the last position, where there was one.
Value *ProductSkew::emitLast(Builder &builder, Value *weights, Value *sum) {
  Value *begin = loop_.operand(0), *end = loop_.operand(1), *step = loop_.operand(2);
  builder.setLoc(loop_.loc());
  Value *length = builder.max(builder.sub(end, begin), builder.constIndex(0));
  Value *before = builder.max(builder.sub(builder.ceilDiv(length, step), builder.constIndex(1)),
                              builder.constIndex(0));
  Value *last = builder.add(begin, builder.mul(before, step));
  Op *loop = builder.op(OpKind::For, {last, end, step, sum}, {sum->type()});
  loop->set(attr::stages, loop_.get(attr::stages));
  Block &body = loop->body();
  Value *at = body.addArgument(builder.types().index(), "last");
  Value *carried = body.addArgument(sum->type(), "sum");
  const InsertionGuard guard(builder);
  builder.setInsertionPointToEnd(body);
  Value *product = emitProduct(builder, at, weights, carried);
  builder.op(OpKind::Yield, {product});
  return loop->result();
}

/// What needs the product comes last in the iteration: until then nobody waits for it.
void ProductSkew::moveBehind(Value &product) {
  Op &yield = *body_.terminator();
  llvm::SmallVector<Op *, 8> users;
  llvm::SmallPtrSet<const Value *, 8> later = {&product};
  for (Op &op : body_.ops())
    if (&op != &yield && op.isPure() &&
        llvm::any_of(op.operands(), [&](const Value *value) { return later.contains(value); })) {
      users.push_back(&op);
      later.insert_range(op.results());
    }
  for (Op *op : users)
    op->moveBefore(&yield);
}

void ProductSkew::transform() {
  Builder builder(body_.module());
  Op &yield = *body_.terminator();
  Value *weights = delayed_->operand(0);
  Value *sum = body_.argument(carried_ + 1);
  builder.setInsertionPoint(&loop_);
  builder.setLoc(loop_.loc());
  Value *zero = builder.constFloat(weights->type().dtype(), 0.0);
  loop_.addOperand(builder.value(OpKind::Splat, {zero}, weights->type()));
  Value *carried = body_.addArgument(weights->type(), "delayed");
  Value *lastWeights = loop_.addResult(weights->type(), "delayed");
  yield.addOperand(weights);
  yield.setOperand(carried_, delayed_->operand(2));

  builder.setInsertionPoint(&*std::next(first_->getIterator()));
  Value *before = builder.max(builder.sub(body_.argument(0), loop_.operand(2)), loop_.operand(0));
  Value *product = emitProduct(builder, before, carried, sum);
  llvm::SmallVector<Use, 4> uses(sum->uses().begin(), sum->uses().end());
  for (const Use &use : uses)
    if (use.user != product->definingOp())
      use.user->setOperand(use.index, product);
  moveBehind(*product);

  builder.setInsertionPoint(&*std::next(loop_.getIterator()));
  Value *lastSum = loop_.result(carried_);
  llvm::SmallVector<Use, 4> behind(lastSum->uses().begin(), lastSum->uses().end());
  Value *all = emitLast(builder, lastWeights, lastSum);
  for (const Use &use : behind)
    use.user->setOperand(use.index, all);
  delayed_->erase();
  for (Op *op : llvm::reverse(chain_))
    if (llvm::none_of(op->results(), [](Value *result) { return result->hasUses(); }))
      op->erase();
  context_.remark(loop_, "an iteration's last product is added during the next");
}

bool ProductSkew::run() {
  if (!find())
    return false;
  if (!hasRegisters()) {
    context_.remark(*delayed_, "not delayed: it would take too many registers");
    return false;
  }
  transform();
  return true;
}

} // namespace

bool skewProducts(Module &module, PassContext &context) {
  if (!context.facts)
    return false;
  bool changed = false;
  for (Op *loop : loopsOfSpaces(module))
    if (loop->has(attr::stages))
      changed |= ProductSkew(*loop, context).run();
  return changed;
}

} // namespace dtile::passes
