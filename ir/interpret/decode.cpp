// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Turns regions into flat code: values get slots, structured control becomes jumps and moves.
#include "ir/interpret/control_ops.h"
#include "ir/interpret/control_slice.h"

#include "frontend/base/check.h"
#include "ir/analysis/clauses.h"
#include "ir/analysis/loop_ends.h"

#include <algorithm>

namespace dtile::interpret {

using ir::Block;
using ir::Op;
using ir::OpKind;
using ir::Value;

namespace {

/// Where the ops of a region end up when it is left.
enum class Leave : uint8_t {
  /// A yield or return ends the body, the prologue or the count.
  End,
  /// A return goes back to the caller.
  Caller,
};

class Decoder {
public:
  /// `outer` has the slots of values from around the region; null for functions. `slice` is what to
  /// leave out; null to run everything.
  Decoder(CodeCache &cache, Code &code, Leave leave, const Decoder *outer,
          const ControlSlice *slice = nullptr)
      : cache_(cache), code_(code), leave_(leave), outer_(outer), slice_(slice) {}

  void region(Block &block);
  [[nodiscard]] Slot slotOf(const Value *value) const { return slots_.lookup(value); }
  [[nodiscard]] const ControlSlice *slice() const { return slice_; }

private:
  Slot define(const Value *value);
  Slot read(const Value *value);
  Operand operand(const Op &user, const Value *value);
  MoveList moves(const Op &user, llvm::ArrayRef<Value *> from, llvm::ArrayRef<Value *> to);
  uint32_t here() const { return static_cast<uint32_t>(code_.instrs.size()); }
  Instr &emit(Handler run, const Op &op);
  void emitMoves(const Op &op, MoveList list);

  void ops(Block &block);
  void op(Op &op);
  void simple(Op &op);
  void loop(Op &op);
  void whileLoop(Op &op);
  void branch(Op &op);
  void call(Op &op);
  void terminator(Op &op);

  CodeCache &cache_;
  Code &code_;
  Leave leave_;
  const Decoder *outer_;
  const ControlSlice *slice_;
  llvm::DenseMap<const Value *, Slot> slots_;
  // Met so far; their instructions name them by number.
  unsigned spaces_ = 0;
  unsigned signals_ = 0;
};

Slot Decoder::define(const Value *value) {
  const Bank bank = bankOf(value->type());
  const Slot slot{bank, code_.slots[size_t(bank)]++};
  slots_[value] = slot;
  return slot;
}

Slot Decoder::read(const Value *value) {
  if (const auto it = slots_.find(value); it != slots_.end())
    return it->second;
  DTILE_CHECK(outer_ && outer_->slots_.contains(value), "a value is used before its definition");
  const Slot slot = define(value);
  code_.captures.emplace_back(outer_->slotOf(value), slot);
  return slot;
}

Operand Decoder::operand(const Op &user, const Value *value) {
  const Block *home =
      value->definingOp() ? value->definingOp()->parentBlock() : value->argumentOf();
  const bool dies = value->hasOneUse() && home == user.parentBlock();
  return Operand{read(value).index, dies};
}

MoveList Decoder::moves(const Op &user, llvm::ArrayRef<Value *> from, llvm::ArrayRef<Value *> to) {
  DTILE_CHECK(from.size() == to.size(), "a region takes or gives another number of values");
  MoveList list;
  for (auto [source, target] : llvm::zip(from, to)) {
    if (slice_ && !slice_->isNeeded(target))
      continue;
    const Operand operand = this->operand(user, source);
    const Slot slot = read(target);
    list.moves.push_back({slot.bank, operand, slot.index});
  }
  // A target that a later move still reads asks for copies first.
  for (size_t i = 0; i < list.moves.size(); ++i)
    for (size_t j = i + 1; j < list.moves.size(); ++j)
      list.isParallel |=
          list.moves[i].bank == list.moves[j].bank && list.moves[i].to == list.moves[j].from.slot;
  return list;
}

Instr &Decoder::emit(Handler run, const Op &op) {
  Instr &instr = code_.instrs.emplace_back();
  instr.run = run;
  instr.op = &op;
  return instr;
}

void Decoder::emitMoves(const Op &op, MoveList list) {
  if (list.moves.empty())
    return;
  Instr &instr = emit(runMoves, op);
  auto info = std::make_unique<MovesInfo>();
  info->list = std::move(list);
  instr.info = std::move(info);
}

void Decoder::region(Block &block) {
  for (const Value *argument : block.arguments())
    code_.arguments.push_back(define(argument));
  ops(block);
  // A kernel's region may do without a terminator.
  if (code_.instrs.empty() || code_.instrs.back().run != runEnd)
    emit(runEnd, *block.parentOp());
}

void Decoder::ops(Block &block) {
  for (Op &op : block.ops())
    this->op(op);
}

void Decoder::op(Op &op) {
  const bool isTerminator =
      op.is(OpKind::Yield) || op.is(OpKind::Return) || op.is(OpKind::Condition);
  if (slice_ && !isTerminator && !slice_->doesRun(op)) {
    for (const Value *result : op.results())
      define(result);
    return;
  }
  switch (op.kind()) {
  case OpKind::For:
    return loop(op);
  case OpKind::While:
    return whileLoop(op);
  case OpKind::If:
    return branch(op);
  case OpKind::Call:
    return call(op);
  case OpKind::Yield:
  case OpKind::Return:
    return terminator(op);
  case OpKind::Condition:
  case OpKind::Func:
  case OpKind::Kernel:
    DTILE_UNREACHABLE("an operation stands where it cannot");
  default:
    return simple(op);
  }
}

/// Calls the binder of an operation that is one instruction.
void bind(Instr &instr) {
  switch (instr.op->kind()) {
#define ELEMENTWISE(KIND, TEXT, ARITY, TYPES, CALL, DOC) case OpKind::KIND:
#include "frontend/base/elementwise.def"
  case OpKind::Cmp:
  case OpKind::Select:
  case OpKind::Cast:
  case OpKind::Bitcast:
  case OpKind::Extern:
    return bindElementwise(instr);
#define OP(KIND, TEXT, OPERANDS, RESULTS, REGIONS, EFFECTS, DOC) case OpKind::KIND:
#include "ir/core/tile_ops.def"
#undef OP
    return bindTile(instr);
#define OP(KIND, TEXT, OPERANDS, RESULTS, REGIONS, EFFECTS, DOC) case OpKind::KIND:
#include "ir/core/view_ops.def"
#undef OP
  case OpKind::SigSlice:
  case OpKind::SigAt:
  case OpKind::SigDim:
  case OpKind::Load:
  case OpKind::Store:
  case OpKind::Gather:
  case OpKind::Scatter:
  case OpKind::Atomic:
  case OpKind::AtomicScatter:
  case OpKind::ReduceAddScatter:
    return bindMemory(instr);
  case OpKind::Put:
  case OpKind::PutSignal:
  case OpKind::Get:
  case OpKind::ReduceAdd:
  case OpKind::Notify:
  case OpKind::Wait:
  case OpKind::Poll:
  case OpKind::TokenDone:
  case OpKind::TokenJoin:
  case OpKind::Await:
  case OpKind::Quiet:
  case OpKind::Fence:
  case OpKind::MemoryFence:
  case OpKind::Barrier:
    return bindSync(instr);
  case OpKind::Const:
  case OpKind::Rank:
  case OpKind::NumRanks:
  case OpKind::Epoch:
  case OpKind::Asm:
  case OpKind::Assert:
  case OpKind::Print:
  case OpKind::LaunchDim:
  case OpKind::LaunchCheck:
  case OpKind::LaunchRequire:
  case OpKind::LaunchElements:
  case OpKind::Param:
  case OpKind::ScalarParam:
  case OpKind::SignalParam:
  case OpKind::Space:
    return bindLaunch(instr);
  case OpKind::For:
  case OpKind::While:
  case OpKind::If:
  case OpKind::Yield:
  case OpKind::Condition:
  case OpKind::Call:
  case OpKind::Return:
  case OpKind::Func:
  case OpKind::Kernel:
    break;
  }
  DTILE_UNREACHABLE("control is decoded, not bound");
}

bool touchesRemote(const Op &op) {
  if (op.hasEffect(ir::RemoteRead | ir::RemoteWrite | ir::Signal | ir::Wait | ir::Order) ||
      ir::isAtomic(op))
    return true;
  return op.hasEffect(ir::Read | ir::Write) &&
         llvm::any_of(op.operands(), [](const Value *value) { return value->type().isRemote(); });
}

void Decoder::simple(Op &op) {
  Instr instr;
  instr.op = &op;
  for (const Value *value : op.operands())
    instr.operands.push_back(operand(op, value));
  instr.firstToken = op.numOperands();
  instr.isCommunication = touchesRemote(op);
  instr.movesData = !slice_ || (op.numResults() != 0 && slice_->isNeeded(op.result()) &&
                                op.hasEffect(ir::Read) && !op.hasEffect(ir::RemoteWrite));
  if (ir::isIndexed(op))
    instr.hasPositions = !slice_ || slice_->isNeeded(op.operand(ir::firstIndexTile(op)));
  if (op.numResults() != 0)
    instr.result = define(op.result()).index;
  if (op.is(OpKind::LaunchRequire)) {
    auto info = std::make_unique<RequireInfo>();
    for (const Op *one : ir::arithmeticOf(op))
      info->arithmetic.push_back({one->kind(), one->result()->type().elementOrIndex(),
                                  operand(op, one->operand(0)), operand(op, one->operand(1))});
    instr.info = std::move(info);
  }
  if (op.is(OpKind::Space))
    instr.target = spaces_++;
  if (op.is(OpKind::SignalParam))
    instr.target = signals_++;
  bind(instr);
  if (cache_.isSymbolic())
    bindSymbolic(instr);
  code_.instrs.push_back(std::move(instr));
}

void Decoder::loop(Op &op) {
  Block &body = op.body();
  auto begin = std::make_unique<LoopInfo>();
  begin->last = read(op.operand(1)).index;
  begin->step = read(op.operand(2)).index;
  begin->first = read(op.operand(0)).index;
  for (const Value *argument : body.arguments())
    define(argument);
  begin->position = slotOf(body.argument(0)).index;
  begin->isArrivals = op.get(ir::attr::arrivals) && llvm::any_of(body.ops(), [](const Op &inner) {
                        return inner.is(OpKind::Wait);
                      });
  begin->list = moves(op, op.operands().drop_front(3), body.arguments().drop_front());

  auto next = std::make_unique<LoopInfo>(LoopInfo(*begin));
  const uint32_t start = here();
  emit(runLoopBegin, op).info = std::move(begin);
  for (Op &inner : body.ops())
    if (&inner != body.terminator())
      this->op(inner);
  next->list =
      moves(*body.terminator(), body.terminator()->operands(), body.arguments().drop_front());
  Instr &instr = emit(runLoopNext, op);
  instr.info = std::move(next);
  instr.target = start + 1;
  code_.instrs[start].target = here();
  for (const Value *result : op.results())
    define(result);
  // The carried arguments hold the last values, and nothing reads them there any more.
  MoveList last;
  for (auto [argument, result] : llvm::zip(body.arguments().drop_front(), op.results())) {
    const Slot from = slotOf(argument);
    last.moves.push_back({from.bank, Operand{from.index, 1}, slotOf(result).index});
  }
  emitMoves(op, std::move(last));
}

void Decoder::whileLoop(Op &op) {
  Block &head = op.body(0);
  Block &body = op.body(1);
  for (const Value *argument : head.arguments())
    define(argument);
  for (const Value *argument : body.arguments())
    define(argument);
  for (const Value *result : op.results())
    define(result);
  emitMoves(op, moves(op, op.operands(), head.arguments()));
  // What decides is numbers: those that a run without tile data has.
  const ir::LoopState state = ir::stateOf(op);
  std::vector<uint32_t> watched;
  bool isWatched = state.isPure;
  for (const unsigned carried : state.carried) {
    const Value *argument = head.argument(carried);
    isWatched &= bankOf(argument->type()) == Bank::Scalar;
    if (isWatched)
      watched.push_back(slotOf(argument).index);
  }
  if (isWatched)
    emit(runWatchBegin, op);
  const uint32_t start = here();
  uint32_t test = 0;
  const Op *condition = nullptr;
  for (Op &inner : head.ops()) {
    if (!inner.is(OpKind::Condition)) {
      this->op(inner);
      continue;
    }
    condition = &inner;
    test = here();
    Instr &instr = emit(runBranch, inner);
    instr.operands.push_back(operand(inner, inner.operand(0)));
    emitMoves(inner, moves(inner, inner.operands().drop_front(), body.arguments()));
  }
  DTILE_CHECK(condition, "a while loop has no condition");
  for (Op &inner : body.ops()) {
    if (&inner != body.terminator()) {
      this->op(inner);
      continue;
    }
    emitMoves(inner, moves(inner, inner.operands(), head.arguments()));
    if (isWatched) {
      auto info = std::make_unique<WatchInfo>();
      info->slots = watched;
      emit(runWatchNext, op).info = std::move(info);
    }
    emit(runJump, inner).target = start;
  }
  code_.instrs[test].target = here();
  emitMoves(*condition, moves(*condition, condition->operands().drop_front(), op.results()));
}

void Decoder::branch(Op &op) {
  for (const Value *result : op.results())
    define(result);
  const uint32_t test = here();
  emit(runBranch, op).operands.push_back(operand(op, op.operand(0)));
  uint32_t leave = 0;
  for (unsigned i = 0; i < 2; ++i) {
    Block &block = op.body(i);
    for (Op &inner : block.ops()) {
      if (!inner.is(OpKind::Yield))
        this->op(inner);
      else
        emitMoves(inner, moves(inner, inner.operands(), op.results()));
    }
    if (i == 0) {
      leave = here();
      emit(runJump, op);
      code_.instrs[test].target = here();
    }
  }
  code_.instrs[leave].target = here();
}

void Decoder::call(Op &op) {
  auto info = std::make_unique<CallInfo>();
  info->callee = &cache_.function(op.get(ir::attr::callee));
  for (const Value *result : op.results())
    info->results.push_back(define(result));
  Instr instr;
  instr.run = runCall;
  instr.op = &op;
  for (const Value *value : op.operands()) {
    instr.operands.push_back(operand(op, value));
    info->arguments.push_back(bankOf(value->type()));
  }
  instr.info = std::move(info);
  code_.instrs.push_back(std::move(instr));
}

void Decoder::terminator(Op &op) {
  Instr instr;
  instr.op = &op;
  for (const Value *value : op.operands())
    instr.operands.push_back(operand(op, value));
  instr.run = leave_ == Leave::Caller ? runReturn : runEnd;
  code_.instrs.push_back(std::move(instr));
}

std::string textOr(const Op &op, ir::AttrKey<std::string> key) {
  return op.has(key) ? op.get(key).str() : std::string();
}

void decodeSpace(CodeCache &cache, const Decoder &prologue, Op &op, KernelCode &kernel) {
  SpaceCode space;
  space.op = &op;
  space.name = textOr(op, ir::attr::name);
  space.dims = ir::spaceDims(op);
  space.order = ir::TileOrder::fromSpace(op);
  for (const std::string &var : op.get(ir::attr::vars))
    space.vars.push_back(var);
  space.isOrdered = op.get(ir::attr::ordered);
  space.programs = op.getOr(ir::attr::programs, 0);
  if (const std::string after = textOr(op, ir::attr::after_all); !after.empty()) {
    const auto it =
        llvm::find_if(kernel.spaces, [&](const SpaceCode &s) { return s.name == after; });
    DTILE_CHECK(it != kernel.spaces.end(), "after_all names no earlier space");
    space.afterAll = static_cast<int>(it - kernel.spaces.begin());
  }
  Decoder decoder(cache, space.body, Leave::End, &prologue, prologue.slice());
  decoder.region(op.body());
  kernel.spaces.push_back(std::move(space));
}

void decodeSignal(CodeCache &cache, const Decoder &prologue, Op &op, KernelCode &kernel) {
  SignalCode signal;
  signal.op = &op;
  signal.name = op.get(ir::attr::name).str();
  signal.slot = prologue.slotOf(op.result());
  signal.hasCount = !op.body().empty();
  if (signal.hasCount) {
    Decoder decoder(cache, signal.count, Leave::End, &prologue, prologue.slice());
    decoder.region(op.body());
  }
  kernel.signals.push_back(std::move(signal));
}

/// The parameters that a launch passes, in order.
void findArguments(Op &kernel, KernelCode &code) {
  for (Op &op : kernel.body().ops()) {
    const bool isTensor = op.is(OpKind::Param) && op.get(ir::attr::mode) != ir::ParamMode::Scratch;
    if (!isTensor && !op.is(OpKind::ScalarParam))
      continue;
    ArgumentCode argument;
    argument.position = op.get(ir::attr::param);
    argument.name = op.get(ir::attr::name).str();
    argument.dtype = op.result()->type().elementOrIndex();
    if (isTensor) {
      argument.rank = static_cast<int>(op.result()->type().rank());
      argument.isSymmetric = op.get(ir::attr::mode) == ir::ParamMode::Symm;
      argument.isWritten = op.get(ir::attr::mode) != ir::ParamMode::In;
    }
    code.arguments.push_back(std::move(argument));
  }
  llvm::sort(code.arguments,
             [](const ArgumentCode &a, const ArgumentCode &b) { return a.position < b.position; });
}

} // namespace

const KernelCode *CodeCache::kernel(llvm::StringRef name) {
  auto &entry = kernels_[name];
  if (entry)
    return entry.get();
  Op *op = module_.lookup(name);
  if (!op || !op->is(OpKind::Kernel))
    return nullptr;
  entry = std::make_unique<KernelCode>();
  entry->op = op;
  entry->name = name.str();
  entry->hasEntryBarrier = op->get(ir::attr::entry_barrier);
  findArguments(*op, *entry);
  ControlSlice slice;
  if (controlOnly_)
    slice = sliceControl(*op);
  Decoder prologue(*this, entry->prologue, Leave::End, nullptr, controlOnly_ ? &slice : nullptr);
  prologue.region(op->body());
  for (Op &inner : op->body().ops()) {
    if (inner.is(OpKind::Space))
      decodeSpace(*this, prologue, inner, *entry);
    else if (inner.is(OpKind::SignalParam))
      decodeSignal(*this, prologue, inner, *entry);
  }
  return entry.get();
}

const Code &CodeCache::function(llvm::StringRef name) {
  auto &entry = functions_[name];
  if (entry)
    return *entry;
  Op *op = module_.lookup(name);
  DTILE_CHECK(op && op->is(OpKind::Func), "a call names no function");
  // Before its body is decoded, so that it may call itself.
  entry = std::make_unique<Code>();
  Code &code = *entry;
  Decoder decoder(*this, code, Leave::Caller, nullptr);
  decoder.region(op->body());
  return code;
}

} // namespace dtile::interpret
