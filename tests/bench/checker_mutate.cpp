// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Makes mistakes in a kernel's IR.
#include "checker_mutant_places.h"
#include "checker_mutants.h"

#include "frontend/base/check.h"
#include "ir/core/constants.h"

#include "llvm/ADT/STLExtras.h"

namespace dtile::bench {

using ir::Op;
using ir::OpKind;
using ir::Value;
using Kind = Mutation::Kind;

namespace {

/// The dimension of a slice that operand number `operand` cuts.
int64_t dimOf(const Op &slice, unsigned operand) {
  unsigned next = 1;
  int64_t dim = 0;
  for (const char letter : slice.get(ir::attr::dims)) {
    const unsigned count = letter == 'i' ? 1 : letter == 'r' ? 2 : 0;
    if (operand < next + count)
      return dim;
    next += count;
    ++dim;
  }
  DTILE_UNREACHABLE("an operand that cuts no dimension");
}

/// One mistake at one operation.
class Mistake {
public:
  Mistake(Op &op, const Mutation &mutation, ir::Module &module)
      : op_(op), mutation_(mutation), builder_(module) {
    builder_.setInsertionPoint(&op);
  }
  /// False where it cannot be made.
  bool make();

private:
  Value *operand() { return op_.operand(mutation_.operand); }
  void set(Value *value) { op_.setOperand(mutation_.operand, value); }
  /// operand + by
  Value *shifted(int by) { return builder_.add(operand(), builder_.constIndex(by)); }
  void turn(Value *size);
  void turnCell();
  void turnPeer();
  bool dropTokens();
  bool dropTransfer();
  bool dropWait();
  bool swapWithNext(Op &op);
  bool earlyNotify();
  bool otherCondition();
  bool changeCount();
  bool changeNumber();

  Op &op_;
  const Mutation &mutation_;
  ir::Builder builder_;
};

/// operand := (operand + by) % size
void Mistake::turn(Value *size) { set(builder_.rem(shifted(mutation_.by), size)); }

void Mistake::turnCell() {
  if (mutation_.by == 2)
    return set(shifted(1));
  if (mutation_.by == 3)
    return set(builder_.constIndex(0));
  const OpKind dim = op_.is(OpKind::SigSlice) ? OpKind::SigDim : OpKind::ViewDim;
  turn(builder_.value(dim, {op_.operand(0)}, {}, {{ir::attr::dim, dimOf(op_, mutation_.operand)}}));
}

void Mistake::turnPeer() {
  switch (mutation_.by) {
  case 2:
    return set(builder_.value(OpKind::Rank, {}));
  case 3:
    return set(builder_.constIndex(0));
  case 4:
    return set(shifted(1));
  default:
    return turn(builder_.value(OpKind::NumRanks, {}));
  }
}

bool Mistake::dropTokens() {
  for (unsigned i = op_.numOperands(); i-- > 0;)
    if (isToken(op_.operand(i))) {
      if (op_.has(ir::attr::ntok))
        op_.set(ir::attr::ntok, op_.get(ir::attr::ntok) - 1);
      op_.removeOperand(i);
    }
  return true;
}

bool Mistake::dropTransfer() {
  if (op_.numResults() != 0)
    op_.result()->replaceAllUsesWith(builder_.value(OpKind::TokenDone, {}));
  op_.erase();
  return true;
}

bool Mistake::dropWait() {
  while (!op_.result()->uses().empty()) {
    const ir::Use use = *op_.result()->uses().begin();
    // What a loop or an arm gives has as many values as before.
    if (use.user->numRegions() != 0 || use.user->is(OpKind::Yield))
      return false;
    if (use.user->has(ir::attr::ntok))
      use.user->set(ir::attr::ntok, use.user->get(ir::attr::ntok) - 1);
    use.user->removeOperand(use.index);
  }
  op_.erase();
  return true;
}

bool Mistake::swapWithNext(Op &op) {
  // What the other one is computed from goes with it.
  Op *other = nextVisible(op);
  if (!other)
    return false;
  for (Op *between = following(op); between != other;) {
    Op *next = following(*between);
    if (!llvm::is_contained(between->operands(), op.numResults() ? op.result() : nullptr))
      between->moveBefore(&op);
    between = next;
  }
  other->moveBefore(&op);
  return true;
}

bool Mistake::earlyNotify() {
  Op *before = lastVisible(op_);
  return before && dropTokens() && nextVisible(*before) == &op_ && swapWithNext(*before);
}

bool Mistake::otherCondition() {
  static constexpr std::pair<const char *, const char *> kOthers[] = {
      {"lt", "le"}, {"le", "lt"}, {"gt", "ge"}, {"ge", "gt"}, {"eq", "ne"}, {"ne", "eq"}};
  for (const auto &[from, to] : kOthers)
    if (op_.get(ir::attr::pred) == from) {
      op_.set(ir::attr::pred, std::string(to));
      return true;
    }
  return false;
}

bool Mistake::changeCount() {
  const bool hasCount = op_.numOperands() > 1;
  if (mutation_.kind == Kind::OtherCount && !hasCount) {
    op_.addOperand(builder_.constIndex(1));
    return true;
  }
  Value *count = mutation_.kind == Kind::OtherCount
                     ? builder_.add(op_.operand(1), builder_.constIndex(1))
                 : mutation_.by < 0 ? builder_.sub(op_.operand(1), builder_.constIndex(1))
                                    : builder_.constIndex(mutation_.by);
  hasCount ? op_.setOperand(1, count) : op_.addOperand(count);
  return true;
}

bool Mistake::changeNumber() {
  const std::optional<int64_t> number = ir::constantOf(operand());
  if (!number)
    return false;
  set(builder_.constIndex(*number + mutation_.by));
  return true;
}

bool Mistake::make() {
  switch (mutation_.kind) {
  case Kind::DropNotify:
  case Kind::DropAwait:
  case Kind::DropOrder:
    op_.erase();
    return true;
  case Kind::DropTransfer:
    return dropTransfer();
  case Kind::DropWait:
    return dropWait();
  case Kind::DropAfter:
    if (op_.has(ir::attr::ntok))
      op_.set(ir::attr::ntok, op_.get(ir::attr::ntok) - 1);
    op_.removeOperand(mutation_.operand);
    return true;
  case Kind::DropOneByOne:
    op_.remove(ir::attr::ordered);
    op_.remove(ir::attr::programs);
    return true;
  case Kind::DoubleNotify: {
    ir::ValueMap map;
    ir::cloneOp(builder_, op_, map);
    return true;
  }
  case Kind::EarlyNotify:
    return earlyNotify();
  case Kind::OtherToken:
    set(tokenBeside(op_, mutation_.operand));
    return true;
  case Kind::OtherSignal:
  case Kind::OtherObject:
    set(objectBeside(*operand()->definingOp())->result());
    return true;
  case Kind::OtherCell:
  case Kind::OtherIndex:
    turnCell();
    return true;
  case Kind::OtherPeer:
    turnPeer();
    return true;
  case Kind::OtherCount:
  case Kind::FirstOfMany:
    return changeCount();
  case Kind::OtherEpoch:
    set(mutation_.by == 2 ? builder_.constIndex(0) : shifted(mutation_.by));
    return true;
  case Kind::OtherNumber:
    return changeNumber();
  case Kind::OtherCondition:
    return otherCondition();
  case Kind::NoCondition:
    set(builder_.constBool(mutation_.by == 1));
    return true;
  case Kind::LateFirst:
    set(builder_.constIndex(1));
    return true;
  case Kind::OtherEnd:
  case Kind::OtherRegion:
    set(shifted(mutation_.by));
    return true;
  case Kind::ShiftedRegion: {
    Value *end =
        builder_.add(op_.operand(mutation_.operand + 1), builder_.constIndex(mutation_.by));
    set(shifted(mutation_.by));
    op_.setOperand(mutation_.operand + 1, end);
    return true;
  }
  case Kind::NotZeroed:
    op_.remove(ir::attr::zero);
    return true;
  case Kind::SwapOrder:
    return swapWithNext(op_);
  case Kind::ShortSlice:
  case Kind::SmallerBuffer:
    set(builder_.sub(operand(), builder_.constIndex(1)));
    return true;
  }
  DTILE_UNREACHABLE("not a mutation");
}

/// Whether a mistake at an operation is one of those that can be made in the kernel as it stands:
/// another mistake may have taken what this one is about.
bool canBeMade(Op &kernel, const Op &place, const Mutation &mutation) {
  unsigned number = 0;
  unsigned at = 0;
  walk(kernel, [&](Op &op) {
    if (&op == &place)
      at = number;
    ++number;
  });
  return llvm::any_of(mutationsOf(kernel), [&](const Mutation &other) {
    return other.op == at && other.kind == mutation.kind && other.operand == mutation.operand &&
           other.by == mutation.by;
  });
}

} // namespace

bool mutate(Op &kernel, llvm::ArrayRef<Mutation> mutations) {
  llvm::SmallVector<Op *, 2> places(mutations.size(), nullptr);
  unsigned number = 0;
  walk(kernel, [&](Op &op) {
    for (const auto &[place, mutation] : llvm::zip(places, mutations))
      if (mutation.op == number)
        place = &op;
    ++number;
  });
  for (const auto &[place, mutation] : llvm::zip(places, mutations)) {
    DTILE_CHECK(place, "a mutation of an operation that there is not");
    if (!canBeMade(kernel, *place, mutation) ||
        !Mistake(*place, mutation, kernel.parentBlock()->module()).make())
      return false;
  }
  return true;
}

} // namespace dtile::bench
