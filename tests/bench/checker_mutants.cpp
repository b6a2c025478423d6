// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Mistakes are found on IR, so that they are the same for every spelling of a program.
#include "checker_mutants.h"

#include "checker_mutant_places.h"
#include "frontend/base/check.h"
#include "ir/core/constants.h"
#include "ir/core/tile_order.h"
#include "ir/interpret/control_slice.h"

#include "llvm/ADT/STLExtras.h"

namespace dtile::bench {

using ir::Op;
using ir::OpKind;
using ir::Value;
using Kind = Mutation::Kind;

const char *mutationId(Kind kind) {
  static constexpr const char *kIds[] = {
#define MUTATION(enumerator, id, meaning) id,
#include "checker_mutants.def"
  };
  return kIds[size_t(kind)];
}

const char *mutationName(Kind kind) {
  static constexpr const char *kNames[] = {
#define MUTATION(enumerator, id, meaning) meaning,
#include "checker_mutants.def"
  };
  return kNames[size_t(kind)];
}

std::string mutationText(const Mutation &mutation) {
  std::string text = mutationId(mutation.kind);
  text += '@' + std::to_string(mutation.op) + '.' + std::to_string(mutation.operand);
  return mutation.by == 0 ? text : text + ':' + std::to_string(mutation.by);
}

bool isToken(const Value *value) { return value->type().isToken() || value->type().isAcquire(); }

Op *following(Op &op) {
  const auto next = std::next(op.getIterator());
  return next == op.parentBlock()->ops().end() ? nullptr : &*next;
}

Op *nextVisible(Op &op) {
  for (Op *next = following(op); next; next = following(*next)) {
    if (llvm::any_of(next->operands(), [&](const Value *v) { return v->definingOp() == &op; }))
      return nullptr;
    if (!next->isPure() && next->numRegions() == 0 && !next->is(OpKind::SigSlice))
      return next->is(OpKind::Yield) ? nullptr : next;
  }
  return nullptr;
}

Op *lastVisible(Op &op) {
  Op *last = nullptr;
  for (Op &before : op.parentBlock()->ops()) {
    if (&before == &op)
      break;
    if (!before.isPure() && before.numRegions() == 0 && !before.is(OpKind::SigSlice))
      last = &before;
  }
  return last;
}

Value *tokenBeside(Op &op, unsigned operand) {
  const Value *token = op.operand(operand);
  Value *last = nullptr;
  for (Op &before : op.parentBlock()->ops()) {
    if (&before == &op)
      break;
    for (Value *result : before.results())
      if (result != token && result->type() == token->type())
        last = result;
  }
  return last;
}

Op *objectBeside(Op &object) {
  const auto isAlike = [&](const Op &other) {
    if (&other == &object || other.kind() != object.kind() ||
        other.numOperands() != object.numOperands() ||
        !(other.result()->type() == object.result()->type()))
      return false;
    return object.is(OpKind::SignalParam) ||
           other.get(ir::attr::mode) == object.get(ir::attr::mode);
  };
  for (Op &other : object.parentBlock()->ops())
    if (isAlike(other))
      return &other;
  return nullptr;
}

namespace {

bool isZero(const Value *value) { return ir::constantOf(value) == 0; }

bool isCommunication(const Op &op) {
  return op.hasEffect(ir::RemoteRead | ir::RemoteWrite | ir::Signal | ir::Wait | ir::Order);
}

/// Whether a dimension of a signal or a scratch object is one of slots: single positions of it are
/// asked for. (That two regions are of one size is settled before there is IR.)
bool isCutByPosition(Op &kernel, const Op &object, unsigned dim) {
  if (object.is(OpKind::SignalParam))
    return true;
  if (!object.is(OpKind::Param) || object.get(ir::attr::mode) != ir::ParamMode::Scratch)
    return false;
  bool isCut = false;
  walk(kernel, [&](Op &op) {
    if (!op.is(OpKind::ViewSlice) && !op.is(OpKind::ViewTile))
      return;
    const Value *view = op.operand(0);
    const bool isWhole = view->type().rank() == object.numOperands();
    isCut |= isWhole && interpret::rootParam(view) == &object && op.get(ir::attr::dims)[dim] == 'i';
  });
  return isCut;
}

class Finder {
public:
  explicit Finder(Op &kernel) : kernel_(kernel) {}

  std::vector<Mutation> run() {
    walk(kernel_, [&](Op &op) {
      number_ = next_++;
      visit(op);
    });
    return std::move(all_);
  }

private:
  void add(Kind kind, unsigned operand = 0, int by = 0) {
    all_.push_back({kind, number_, operand, by});
  }
  void visit(Op &op);
  void visitCommunication(Op &op);
  void visitSlice(Op &op);
  void visitObject(Op &op);
  void visitBounds(Op &op);
  void visitNumbers(Op &op);
  void visitTokens(Op &op);

  Op &kernel_;
  std::vector<Mutation> all_;
  unsigned number_ = 0;
  unsigned next_ = 0;
};

void Finder::visitSlice(Op &op) {
  const bool isSignal = op.is(OpKind::SigSlice);
  unsigned operand = 1;
  for (const char letter : op.get(ir::attr::dims)) {
    if (letter == 'i') {
      // One on and one back, round the end; one on, and past it; the first.
      for (const int by : {1, -1, 2, 3})
        add(isSignal ? Kind::OtherCell : Kind::OtherIndex, operand, by);
    } else if (letter == 'r' && isSignal) {
      add(Kind::ShortSlice, operand + 1);
    } else if (letter == 'r') {
      for (const int by : {1, -1}) {
        add(Kind::ShiftedRegion, operand, by);
        add(Kind::OtherRegion, operand, by);
        add(Kind::OtherRegion, operand + 1, by);
      }
    }
    operand += letter == 'i' ? 1 : letter == 'r' ? 2 : 0;
  }
}

void Finder::visitObject(Op &op) {
  for (unsigned i = 0; i < op.numOperands(); ++i)
    if (isCutByPosition(kernel_, op, i))
      add(Kind::SmallerBuffer, i);
  if (op.is(OpKind::Param) && op.get(ir::attr::zero))
    add(Kind::NotZeroed);
}

void Finder::visitCommunication(Op &op) {
  if (isCommunication(op) && nextVisible(op))
    add(Kind::SwapOrder);
  switch (op.kind()) {
  case OpKind::Notify:
    add(Kind::DropNotify);
    add(Kind::DoubleNotify);
    if (lastVisible(op))
      add(Kind::EarlyNotify);
    return;
  case OpKind::Wait:
    add(Kind::OtherCount);
    for (const int by : {1, 2, 3})
      add(Kind::FirstOfMany, 0, by);
    if (op.numOperands() > 1)
      add(Kind::FirstOfMany, 0, -1);
    return add(Kind::DropWait);
  case OpKind::Put:
  case OpKind::Get:
  case OpKind::ReduceAdd:
  case OpKind::Store:
    return add(Kind::DropTransfer);
  case OpKind::Await:
    return add(Kind::DropAwait);
  case OpKind::Barrier:
  case OpKind::Quiet:
  case OpKind::Fence:
    return add(Kind::DropOrder);
  case OpKind::ViewAt:
  case OpKind::SigAt:
    // The next and the last one, this rank, the first, and one on without going round.
    for (const int by : {1, -1, 2, 3, 4})
      add(Kind::OtherPeer, 1, by);
    return;
  default:
    return;
  }
}

void Finder::visitBounds(Op &op) {
  const unsigned dims = op.is(OpKind::For) ? 1 : ir::spaceDims(op);
  for (unsigned d = 0; d < dims; ++d) {
    if (isZero(op.operand(3 * d)))
      add(Kind::LateFirst, 3 * d);
    for (const int by : {1, -1})
      add(Kind::OtherEnd, 3 * d + 1, by);
  }
  if (op.is(OpKind::Space) && (op.get(ir::attr::ordered) || op.has(ir::attr::programs)))
    add(Kind::DropOneByOne);
}

void Finder::visitNumbers(Op &op) {
  if (op.is(OpKind::If))
    for (const int by : {0, 1})
      add(Kind::NoCondition, 0, by);
  const bool isOfIndices = op.numOperands() == 2 && op.operand(0)->type().isIndex();
  if (!isOfIndices)
    return;
  if (op.is(OpKind::Cmp))
    add(Kind::OtherCondition);
  const bool isArithmetic = op.is(OpKind::Add) || op.is(OpKind::Sub) || op.is(OpKind::Mul) ||
                            op.is(OpKind::Div) || op.is(OpKind::Rem) || op.is(OpKind::Min) ||
                            op.is(OpKind::Max) || op.is(OpKind::Cmp);
  for (unsigned i = 0; isArithmetic && i < 2; ++i)
    if (ir::constantOf(op.operand(i)))
      for (const int by : {1, -1})
        add(Kind::OtherNumber, i, by);
}

void Finder::visitTokens(Op &op) {
  const bool hasTokens =
      op.hasEffect(ir::Read | ir::Write | ir::RemoteRead | ir::RemoteWrite | ir::Signal);
  for (unsigned i = 0; hasTokens && i < op.numOperands(); ++i)
    if (isToken(op.operand(i))) {
      add(Kind::DropAfter, i);
      if (tokenBeside(op, i))
        add(Kind::OtherToken, i);
    }
}

void Finder::visit(Op &op) {
  // What is derived from the rest is derived again.
  if (op.enclosing(OpKind::SignalParam))
    return;
  for (unsigned i = 0; i < op.numOperands(); ++i) {
    Op *operand = op.operand(i)->definingOp();
    if (operand && operand->is(OpKind::Epoch))
      for (const int by : {1, -1, 2})
        add(Kind::OtherEpoch, i, by);
    const bool isObject =
        operand && (operand->is(OpKind::Param) || operand->is(OpKind::SignalParam));
    if (isObject && objectBeside(*operand))
      add(operand->is(OpKind::Param) ? Kind::OtherObject : Kind::OtherSignal, i);
  }
  visitObject(op);
  visitCommunication(op);
  if (op.is(OpKind::ViewSlice) || op.is(OpKind::ViewTile) || op.is(OpKind::SigSlice))
    visitSlice(op);
  if (op.is(OpKind::For) || op.is(OpKind::Space))
    visitBounds(op);
  visitNumbers(op);
  visitTokens(op);
}

} // namespace

std::vector<Mutation> mutationsOf(Op &kernel) { return Finder(kernel).run(); }

} // namespace dtile::bench
