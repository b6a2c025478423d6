// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// canonicalize: one form for what can be written in many, and nothing that is already known.
//
// Expects: any well-formed module.
// Produces: the same program with constants folded and on the right of commutative ops; no `if` on
//   a constant; no `for` of zero or one iterations; no tokens that are complete; no views of all.
// Why: the passes after it, and the analyses, look for one form.
// Leaves alone: the order of effects, and float identities that are wrong for -0, NaN or
//   infinities.
#include "frontend/base/check.h"
#include "ir/transform/canonicalizer.h"
#include "ir/transform/pass.h"
#include "ir/transform/ranges.h"

#include "llvm/ADT/STLExtras.h"

namespace dtile::passes {

using namespace dtile::ir;

std::optional<Constant> constantIn(const Value *value) {
  const Op *op = value->definingOp();
  if (!op || !op->is(OpKind::Const))
    return std::nullopt;
  return normalized(value->type().elementOrIndex(), *op->attr("value"));
}

std::optional<Constant> splatConstantIn(const Value *value) {
  if (const Op *splat = definedBy(value, OpKind::Splat))
    return constantIn(splat->operand(0));
  return constantIn(value);
}

Op *definedBy(const Value *value, OpKind kind) {
  Op *op = value->definingOp();
  return op && op->is(kind) ? op : nullptr;
}

// Edits.

void Canonicalizer::push(Op *op) {
  if (listed_.insert(op).second)
    worklist_.push_back(op);
}

void Canonicalizer::pushUsers(const Value *value) {
  for (const Use &use : value->uses())
    push(use.user);
}

void Canonicalizer::replaceUses(Value *from, Value *to) {
  pushUsers(from);
  if (to->nameHint().empty())
    to->setNameHint(from->nameHint());
  from->replaceAllUsesWith(to);
  // `to` may now have lost its last other use, or have become all that an op is made of.
  if (Op *op = to->definingOp())
    push(op);
}

bool Canonicalizer::replace(Op &op, llvm::ArrayRef<Value *> values) {
  for (auto [result, value] : llvm::zip_equal(op.results(), values))
    replaceUses(result, value);
  erase(op);
  return true;
}

bool Canonicalizer::replace(Op &op, Value *value) {
  return replace(op, llvm::ArrayRef<Value *>(value));
}

void Canonicalizer::erase(Op &op) {
  // What the op used may now be dead.
  walk(op, [&](Op &nested) {
    for (Value *operand : nested.operands())
      if (Op *definition = operand->definingOp())
        push(definition);
  });
  op.erase();
}

void Canonicalizer::setOperand(Op &op, unsigned i, Value *value) {
  if (Op *definition = op.operand(i)->definingOp())
    push(definition);
  op.setOperand(i, value);
  push(&op);
}

void Canonicalizer::setOperands(Op &op, llvm::ArrayRef<Value *> values) {
  for (Value *operand : op.operands())
    if (Op *definition = operand->definingOp())
      push(definition);
  op.setOperands(values);
  push(&op);
}

Value *Canonicalizer::make(Op &op, OpKind kind, llvm::ArrayRef<Value *> operands, Type result) {
  builder_.setInsertionPoint(&op);
  builder_.setLoc(op.loc());
  Value *value = builder_.value(kind, operands, result);
  push(value->definingOp());
  return value;
}

Value *Canonicalizer::makeConst(Op &op, Type type, const Constant &value) {
  const Type scalar = type.isTile() ? builder_.types().scalar(type.dtype()) : type;
  builder_.setInsertionPoint(&op);
  builder_.setLoc(op.loc());
  Value *constant = builder_.value(OpKind::Const, {}, scalar, {{attr::value, value}});
  return type.isTile() ? make(op, OpKind::Splat, {constant}, type) : constant;
}

void Canonicalizer::inlineRegion(Op &op, Block &body, llvm::ArrayRef<Value *> values) {
  for (auto [argument, value] : llvm::zip_equal(body.arguments(), values))
    replaceUses(argument, value);
  Op *last = body.terminator();
  while (&body.ops().front() != last)
    body.ops().front().moveBefore(&op);
}

// Control.

bool Canonicalizer::simplifyIf(Op &op) {
  if (const std::optional<Constant> condition = constantIn(op.operand(0))) {
    Block &taken = op.body(std::get<bool>(*condition) ? 0 : 1);
    inlineRegion(op, taken, {});
    const llvm::SmallVector<Value *, 4> yielded(taken.terminator()->operands());
    return replace(op, yielded);
  }
  bool changed = false;
  for (unsigned i = 0; i < op.numResults(); ++i) {
    Value *result = op.result(i);
    Value *a = op.body(0).terminator()->operand(i);
    Value *b = op.body(1).terminator()->operand(i);
    // A token that both regions pass on is used by them: it has no use left for afterwards.
    if (!result->hasUses() || result->type().isToken())
      continue;
    Value *same = a == b ? a : nullptr;
    const std::optional<Constant> x = constantIn(a), y = constantIn(b);
    if (!same && x && y && a->type() == b->type()) {
      Value *then = makeConst(op, a->type(), *x);
      Value *otherwise = makeConst(op, a->type(), *y);
      same = make(op, OpKind::Select, {op.operand(0), then, otherwise});
    }
    if (!same)
      continue;
    replaceUses(result, same);
    changed = true;
  }
  return changed;
}

std::optional<unsigned> Canonicalizer::shortTripCount(const Op &loop) {
  const std::optional<Constant> step = constantIn(loop.operand(2));
  if (!step || std::get<int64_t>(*step) <= 0)
    return std::nullopt;
  Value *lo = loop.operand(0), *hi = loop.operand(1);
  int64_t length = 0;
  const std::optional<Constant> first = constantIn(lo), limit = constantIn(hi);
  if (first && limit) {
    if (__builtin_sub_overflow(std::get<int64_t>(*limit), std::get<int64_t>(*first), &length))
      return std::nullopt;
  } else if (Op *sum = definedBy(hi, OpKind::Add); sum && sum->operand(0) == lo) {
    // From x to x + c, unless that may wrap.
    const std::optional<Constant> added = constantIn(sum->operand(1));
    if (!added || !rangeOf(hi))
      return std::nullopt;
    length = std::get<int64_t>(*added);
  } else if (lo != hi) {
    return std::nullopt;
  }
  if (length <= 0)
    return 0;
  return length <= std::get<int64_t>(*step) ? std::optional<unsigned>(1) : std::nullopt;
}

bool Canonicalizer::dropInvariantCarries(Op &op) {
  bool changed = false;
  Op *yield = op.body().terminator();
  for (unsigned i = 0; i < op.numResults(); ++i) {
    Value *initial = op.operand(3 + i), *argument = op.body().argument(1 + i);
    Value *next = yield->operand(i);
    if (next != argument && next != initial)
      continue;
    if (!initial->type().isToken()) {
      if (!argument->hasUses() && !op.result(i)->hasUses())
        continue;
      replaceUses(argument, initial);
      replaceUses(op.result(i), initial);
    } else {
      // A token that only passes through. The slot gets one of its own, complete from the start.
      if (next != argument || !argument->hasOneUse() || !op.result(i)->hasUses())
        continue;
      replaceUses(op.result(i), initial);
      setOperand(op, 3 + i, make(op, OpKind::TokenDone, {}));
    }
    changed = true;
  }
  return changed;
}

bool Canonicalizer::simplifyFor(Op &op) {
  if (const std::optional<unsigned> trips = shortTripCount(op)) {
    const llvm::SmallVector<Value *, 4> initial(op.operands().drop_front(3));
    if (*trips == 0)
      return replace(op, initial);
    llvm::SmallVector<Value *, 4> arguments{op.operand(0)};
    llvm::append_range(arguments, initial);
    inlineRegion(op, op.body(), arguments);
    const llvm::SmallVector<Value *, 4> yielded(op.body().terminator()->operands());
    return replace(op, yielded);
  }
  return dropInvariantCarries(op);
}

bool Canonicalizer::simplifyWhile(Op &op) {
  Op *condition = op.body(0).terminator();
  const std::optional<Constant> value = constantIn(condition->operand(0));
  if (!value || std::get<bool>(*value))
    return false;
  const llvm::SmallVector<Value *, 4> initial(op.operands());
  inlineRegion(op, op.body(0), initial);
  const llvm::SmallVector<Value *, 4> passed(condition->operands().drop_front());
  return replace(op, passed);
}

// Tokens.

namespace {

/// Where the trailing tokens of an op begin; nothing for ops that have none, and for joins.
std::optional<unsigned> firstToken(const Op &op) {
  switch (op.kind()) {
  case OpKind::Await:
    return 0;
  case OpKind::Load:
  case OpKind::Notify:
    return 1;
  case OpKind::Store:
  case OpKind::Put:
  case OpKind::Get:
  case OpKind::ReduceAdd:
    return 2;
  case OpKind::PutSignal:
    return 3;
  case OpKind::Gather:
  case OpKind::Scatter:
  case OpKind::Atomic:
  case OpKind::AtomicScatter:
  case OpKind::ReduceAddScatter:
    return op.numOperands() - numTrailingTokens(op);
  default:
    return std::nullopt;
  }
}

/// Joins of more parts stay as they are: a long chain of joins would be copied again and again.
constexpr unsigned kMaxFlattened = 32;

/// Whether a join of completion tokens is used in several places, as in the arms of an `if`. Who
/// flattened it would use its parts beside the join, which stays.
bool isShared(const Op &join) {
  return join.result()->type().isToken() && !join.result()->hasOneUse();
}

/// Appends what a token stands for: nothing for one that is complete, the parts of a join.
void flatten(Value *token, llvm::SmallVectorImpl<Value *> &out) {
  if (definedBy(token, OpKind::TokenDone))
    return;
  Op *join = definedBy(token, OpKind::TokenJoin);
  if (!join || isShared(*join) || join->numOperands() + out.size() > kMaxFlattened) {
    if (!llvm::is_contained(out, token))
      out.push_back(token);
    return;
  }
  for (Value *part : join->operands())
    if (!llvm::is_contained(out, part))
      out.push_back(part);
}

} // namespace

bool Canonicalizer::simplifyTokens(Op &op) {
  const std::optional<unsigned> first = firstToken(op);
  if (!first)
    return false;
  llvm::SmallVector<Value *, 4> tokens;
  for (Value *token : op.operands().drop_front(*first))
    flatten(token, tokens);
  if (op.is(OpKind::Await) && tokens.empty()) {
    erase(op);
    return true;
  }
  if (llvm::ArrayRef(tokens) == op.operands().drop_front(*first))
    return false;
  llvm::SmallVector<Value *, 8> operands(op.operands().take_front(*first));
  llvm::append_range(operands, tokens);
  // A join that goes with this was one use of its parts, and is dead now.
  setOperands(op, operands);
  if (op.has(attr::ntok))
    op.set(attr::ntok, int64_t(tokens.size()));
  return true;
}

bool Canonicalizer::simplifyJoin(Op &op) {
  llvm::SmallVector<Value *, 4> parts;
  for (Value *token : op.operands())
    flatten(token, parts);
  const bool isLinear = op.result()->type().isToken();
  if (parts.empty())
    return replace(op, make(op, OpKind::TokenDone, {}));
  // A linear join keeps a linear part.
  if (isLinear && llvm::none_of(parts, [](Value *v) { return v->type().isToken(); }))
    return false;
  if (parts.size() == 1)
    return replace(op, parts.front());
  if (llvm::ArrayRef(parts) == op.operands())
    return false;
  setOperands(op, parts);
  return true;
}

// Checks.

bool Canonicalizer::simplifyAssert(Op &op) {
  const std::optional<Constant> condition = constantIn(op.operand(0));
  if (!condition || !std::get<bool>(*condition))
    return false;
  erase(op);
  return true;
}

bool Canonicalizer::simplifyLaunchCheck(Op &op) {
  const std::optional<Constant> a = constantIn(op.operand(0)), b = constantIn(op.operand(1));
  if (op.operand(0) != op.operand(1) && !(a && b && *a == *b))
    return false;
  erase(op);
  return true;
}

bool Canonicalizer::simplifyLaunchRequire(Op &op) {
  if (op.get(ir::attr::replicated))
    return false;
  const std::optional<Constant> condition = constantIn(op.operand(0));
  if (!condition || !std::get<bool>(*condition))
    return false;
  erase(op);
  return true;
}

// The driver.

bool Canonicalizer::simplify(Op &op) {
  switch (op.kind()) {
  case OpKind::If:
    return simplifyIf(op);
  case OpKind::For:
    return simplifyFor(op);
  case OpKind::While:
    return simplifyWhile(op);
  case OpKind::TokenJoin:
    return simplifyJoin(op);
  case OpKind::Assert:
    return simplifyAssert(op);
  case OpKind::LaunchCheck:
    return simplifyLaunchCheck(op);
  case OpKind::LaunchRequire:
    return simplifyLaunchRequire(op);
  default:
    return simplifyTokens(op) || simplifyTiles(op) || simplifyArithmetic(op);
  }
}

bool Canonicalizer::run(Op &function) {
  walk(function, [&](Op &op) { worklist_.push_back(&op); });
  // Definitions before their uses.
  std::reverse(worklist_.begin(), worklist_.end());
  listed_.insert(worklist_.begin(), worklist_.end());
  while (!worklist_.empty()) {
    Op *op = worklist_.back();
    worklist_.pop_back();
    listed_.erase(op);
    // Erased ops, and what was in them, have no parent.
    if (op == &function || !op->parentBlock())
      continue;
    const bool isDead =
        op->isPure() && llvm::none_of(op->results(), [](const Value *v) { return v->hasUses(); });
    if (isDead) {
      erase(*op);
      changed_ = true;
      continue;
    }
    if (simplify(*op))
      changed_ = true;
  }
  return changed_;
}

bool canonicalize(Module &module, PassContext &context) {
  bool changed = false;
  for (Op &function : module.body().ops())
    changed |= Canonicalizer(module).run(function);
  return changed;
}

} // namespace dtile::passes
