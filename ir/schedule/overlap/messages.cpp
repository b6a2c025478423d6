// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ir/schedule/overlap/messages.h"

#include "ir/analysis/communication.h"
#include "ir/analysis/engine_copies.h"
#include "ir/core/constants.h"
#include "ir/core/tile_order.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

namespace dtile::passes {

using namespace dtile::ir;

namespace {

bool isFact(const Value *value, OpKind kind) {
  const Op *op = value->definingOp();
  return op && op->is(kind);
}

/// Known to be equal.
bool isSame(const Value *a, const Value *b) {
  return a == b || (constantOf(a) && constantOf(a) == constantOf(b)) ||
         (isFact(a, OpKind::NumRanks) && isFact(b, OpKind::NumRanks));
}

std::optional<MessagePart> partOf(Value *view) {
  MessagePart part;
  while (Op *op = view->definingOp()) {
    if (op->is(OpKind::Param)) {
      part.object = op;
      return part;
    }
    if (op->is(OpKind::ViewAt) && !part.rank)
      part.rank = op->operand(1);
    else if ((op->is(OpKind::ViewSlice) || op->is(OpKind::ViewTile)) && !part.cut)
      part.cut = op;
    else
      return std::nullopt;
    view = op->operand(0);
  }
  return std::nullopt;
}

/// The operands of a loop or space that say where a position runs: its begin, its end and its step.
llvm::ArrayRef<Value *> boundsOf(const Value *position) {
  const Op *owner = position->definingOp() ? nullptr : position->argumentOf()->parentOp();
  if (!owner)
    return {};
  if (owner->is(OpKind::Space) && 3 * position->index() < owner->numOperands())
    return owner->operands().slice(3 * position->index(), 3);
  if (owner->is(OpKind::For) && position->index() == 0)
    return owner->operands().take_front(3);
  return {};
}

/// The position of which `value` is the number, of `size` that there are: it runs over a constant
/// length in constant steps.
Value *numberedBy(const Op &value, const Value *size) {
  const std::optional<int64_t> count = constantOf(size);
  const std::optional<int64_t> step = constantOf(value.operand(1));
  const llvm::ArrayRef<Value *> bounds = boundsOf(value.operand(0));
  if (!count || !step || bounds.empty())
    return nullptr;
  const std::optional<int64_t> length = constantOf(bounds[1]);
  const bool counts = constantOf(bounds[0]) == 0 && length && *length > 0 && *step > 0 &&
                      constantOf(bounds[2]) == step &&
                      llvm::divideCeil(uint64_t(*length), uint64_t(*step)) == uint64_t(*count);
  return counts ? value.operand(0) : nullptr;
}

/// The position of a loop or of a dimension of a space that runs over [begin, size) in steps of
/// `step`.
Value *runsFrom(int64_t begin, Value *position, const Value *size, int64_t step) {
  const llvm::ArrayRef<Value *> bounds = boundsOf(position);
  const bool sweeps = !bounds.empty() && constantOf(bounds[0]) == begin &&
                      isSame(bounds[1], size) && constantOf(bounds[2]) == step;
  return sweeps ? position : nullptr;
}

/// x of (rank + x) % W, or null.
Value *turnedBy(const Op &rem) {
  const Op *sum = rem.operand(0)->definingOp();
  if (!isFact(rem.operand(1), OpKind::NumRanks) || !sum || !sum->is(OpKind::Add))
    return nullptr;
  for (unsigned i : {0u, 1u})
    if (isFact(sum->operand(i), OpKind::Rank) && !sum->operand(1 - i)->definingOp())
      return sum->operand(1 - i);
  return nullptr;
}

/// The position of a loop or of a dimension of a space that runs over [0, size) in steps of `step`,
/// where `value` is that, or that turned about the rank, or its number; else null.
Value *sweepOf(Value *value, const Value *size, int64_t step) {
  if (Op *op = value->definingOp()) {
    if (op->is(OpKind::Div) && step == 1)
      return numberedBy(*op, size);
    const bool isOfRanks = op->is(OpKind::Rem) && step == 1 && isFact(size, OpKind::NumRanks);
    Value *turn = isOfRanks ? turnedBy(*op) : nullptr;
    return turn ? runsFrom(0, turn, size, step) : nullptr;
  }
  return runsFrom(0, value, size, step);
}

/// The position over which `value` is each rank but this one: x of (rank + x) % W from 1 on.
Value *sweepOfOthers(Value *value) {
  const Op *rem = value->definingOp();
  Value *turn = rem && rem->is(OpKind::Rem) ? turnedBy(*rem) : nullptr;
  return turn ? runsFrom(1, turn, rem->operand(1), 1) : nullptr;
}

/// The ranks before or after this one that a position runs over.
RankSet halfOf(const Value *position) {
  const llvm::ArrayRef<Value *> bounds = boundsOf(position);
  if (bounds.empty() || constantOf(bounds[2]) != 1)
    return NoRanks;
  if (constantOf(bounds[0]) == 0 && isFact(bounds[1], OpKind::Rank))
    return RanksBefore;
  const Op *first = bounds[0]->definingOp();
  const bool isNext = first && first->is(OpKind::Add) && isFact(first->operand(0), OpKind::Rank) &&
                      constantOf(first->operand(1)) == 1;
  return isNext && isFact(bounds[1], OpKind::NumRanks) ? RanksBehind : NoRanks;
}

/// Positions that an access is made at, one after the other or side by side.
class Sweeps {
public:
  /// Of a put: each element of the object on every rank is written exactly once, by the rank whose
  /// number is one of its positions, or by the rank that has it.
  static std::optional<MessageFilling> fill(Op &put, const MessagePart &part);
  /// Of a load: each element of the object that is filled is read, and no other; or what ranks
  /// before this one have sent, or those after. Adds that to `filling`.
  static bool read(Op &load, const MessagePart &part, MessageFilling &filling);

private:
  explicit Sweeps(const MessagePart &part) : part_(part) {}
  /// The ranks of whose parts all is covered: each dimension of the part is whole, or a position
  /// that is used for nothing else runs over all of it; or, of a put that is `isSent`, it is the
  /// sender's number, which `filling` is told.
  [[nodiscard]] RankSet coverDims(MessageFilling &filling, bool isSent);
  [[nodiscard]] bool use(Value *position) { return position && used_.insert(position).second; }
  /// What is around an access is spaces and loops, whose positions have been used; or that run at
  /// least once, where it may be made again.
  [[nodiscard]] bool isWithinUsed(Op &access, bool mayRepeat) const;

  const MessagePart &part_;
  llvm::SmallPtrSet<const Value *, 8> used_;
};

RankSet Sweeps::coverDims(MessageFilling &filling, bool isSent) {
  RankSet ranks = AllRanks;
  unsigned operand = 1, window = 0;
  for (auto [d, size] : llvm::enumerate(part_.object->operands())) {
    const char letter = part_.cut ? part_.cut->get(attr::dims)[d] : 'a';
    // At the own number there is nothing to wait for.
    const bool isOther = !isSent && filling.isByOthers && filling.senders == d;
    if (isOther && letter != 'i')
      return NoRanks;
    if (letter == 'a')
      continue;
    Value *first = part_.cut->operand(operand++);
    if (isOther) {
      Value *others = sweepOfOthers(first);
      ranks = others ? AllRanks : halfOf(first);
      if (ranks == NoRanks || !use(others ? others : first))
        return NoRanks;
      continue;
    }
    if (letter == 'i') {
      if (isSent && !filling.senders && isFact(first, OpKind::Rank) &&
          isFact(size, OpKind::NumRanks))
        filling.senders = unsigned(d);
      else if (!use(sweepOf(first, size, 1)))
        return NoRanks;
      continue;
    }
    Value *end = part_.cut->operand(operand++);
    if (!part_.cut->is(OpKind::ViewTile) || !isSame(end, size) ||
        !use(sweepOf(first, size, part_.cut->get(attr::lens)[window++])))
      return NoRanks;
  }
  return ranks;
}

bool Sweeps::isWithinUsed(Op &access, bool mayRepeat) const {
  const auto runs = [](const Value *position) {
    const llvm::ArrayRef<Value *> bounds = boundsOf(position);
    const std::optional<int64_t> begin = constantOf(bounds[0]), end = constantOf(bounds[1]);
    return begin && end && *begin < *end;
  };
  for (Op *op = access.parentOp(); op; op = op->parentOp()) {
    if (op->is(OpKind::Kernel))
      return true;
    if (!op->is(OpKind::Space) && !op->is(OpKind::For))
      return false;
    const unsigned positions = op->is(OpKind::Space) ? spaceDims(*op) : 1;
    for (Value *position : op->body().arguments().take_front(positions))
      if (!used_.contains(position) && !(mayRepeat && runs(position)))
        return false;
  }
  return false;
}

std::optional<MessageFilling> Sweeps::fill(Op &put, const MessagePart &part) {
  Sweeps sweeps(part);
  MessageFilling filling;
  const bool isSent = !isFact(part.rank, OpKind::Rank);
  if (isSent) {
    const Op *ranks = part.rank->definingOp();
    const Value *all = ranks && ranks->is(OpKind::Rem) ? ranks->operand(1) : nullptr;
    if (!all) {
      const llvm::ArrayRef<Value *> bounds = boundsOf(part.rank);
      all = bounds.empty() ? nullptr : bounds[1];
    }
    if (!all || !isFact(all, OpKind::NumRanks))
      return std::nullopt;
    Value *others = sweepOfOthers(part.rank);
    filling.isByOthers = others != nullptr;
    if (!sweeps.use(others ? others : sweepOf(part.rank, all, 1)))
      return std::nullopt;
  }
  const bool fills = sweeps.coverDims(filling, isSent) == AllRanks &&
                     filling.senders.has_value() == isSent &&
                     sweeps.isWithinUsed(put, /*mayRepeat=*/false);
  return fills ? std::optional(filling) : std::nullopt;
}

bool Sweeps::read(Op &load, const MessagePart &part, MessageFilling &filling) {
  Sweeps sweeps(part);
  const RankSet ranks = sweeps.coverDims(filling, /*isSent=*/false);
  filling.read |= ranks;
  return ranks != NoRanks && sweeps.isWithinUsed(load, /*mayRepeat=*/true);
}

/// A tile that is made of whole words of an object's innermost dimension.
bool hasWholeWords(Type tile, const MessagePart &part) {
  constexpr int64_t kWord = 4;
  return tile.isTile() && part.object->numOperands() > 0 &&
         !(part.cut && part.cut->get(attr::dims).back() == 'i') &&
         tile.shape().back() * int64_t(dtypeBytes(tile.dtype())) % kWord == 0;
}

/// Where windows of a view begin and end, dimension by dimension: `i` letters have neither. None
/// if a dimension is whole.
std::optional<llvm::SmallVector<Value *, 6>> rangesOf(const Op &window,
                                                      llvm::ArrayRef<Value *> operands) {
  llvm::SmallVector<Value *, 6> ranges;
  unsigned operand = 1;
  for (const char letter : window.get(attr::dims)) {
    if (letter == 'a')
      return std::nullopt;
    if (letter == 'r')
      ranges.append({operands[operand], operands[operand + 1]});
    operand += letter == 'r' ? 2 : 1;
  }
  return ranges;
}

} // namespace

llvm::SmallVector<Op *, 4> kernelsWithMessages(Module &module, const TargetFacts *facts) {
  llvm::SmallVector<Op *, 4> kernels;
  if (!facts || facts->lanes == 0)
    return kernels;
  for (Op &op : module.body().ops())
    if (op.is(OpKind::Kernel) && !usesCopyEngine(op))
      kernels.push_back(&op);
  return kernels;
}

std::optional<SentWindow> sentWindow(Op &put) {
  if (!put.operand(0)->type().isView())
    return std::nullopt;
  const Op *from = put.operand(0)->definingOp();
  const Op *to = put.operand(1)->definingOp();
  if (!from || !from->is(OpKind::ViewTile) || from->result()->type().isRemote() || !to ||
      !to->is(OpKind::ViewTile) || from->get(attr::lens) != to->get(attr::lens))
    return std::nullopt;
  SentWindow window;
  window.operands.assign(from->operands().begin(), from->operands().end());
  if (put.get(attr::in_place)) {
    if (!from->get(attr::dims).contains('r'))
      return std::nullopt;
    // The limit of the first range.
    const llvm::StringRef before = from->get(attr::dims).split('r').first;
    Value *&limit = window.operands[2 + before.count('i')];
    const Op *choice = limit->definingOp();
    if (!choice || !choice->is(OpKind::Select))
      return std::nullopt;
    limit = choice->operand(2);
  }
  const auto source = rangesOf(*from, window.operands), target = rangesOf(*to, to->operands());
  if (!source || !target || !llvm::equal(*source, *target, isSame))
    return std::nullopt;
  window.tile = put.parentBlock()->module().types().tile(from->get(attr::lens),
                                                         from->result()->type().dtype());
  return window;
}

Value *sentPart(Op &load) {
  Op *choice = load.operand(0)->definingOp();
  const bool isInPlace = choice && choice->is(OpKind::ViewSelect) && choice->get(attr::in_place);
  return isInPlace ? choice->operand(2) : load.operand(0);
}

Type Messages::tileOf(Op &put) const {
  const Type type = put.operand(0)->type();
  const auto window = what_ == Of::Windows ? sentWindow(put) : std::nullopt;
  return window ? window->tile : type;
}

Value *Messages::readOf(Op &load) const {
  return what_ == Of::Windows ? sentPart(load) : load.operand(0);
}

const char *Messages::collect(Op &op) {
  place_[&op] = int(place_.size());
  for (Value *view : readViews(op))
    accesses_[objectOf(view)].push_back(&op);
  if (Value *view = writtenView(op))
    accesses_[objectOf(view)].push_back(&op);
  switch (op.kind()) {
  case OpKind::Put:
    puts_.push_back(&op);
    return nullptr;
  case OpKind::Load:
  case OpKind::Gather:
    loads_.push_back(&op);
    return nullptr;
  case OpKind::Store:
  case OpKind::Scatter:
    stores_.push_back(&op);
    return nullptr;
  case OpKind::Wait:
    waits_.push_back(&op);
    return nullptr;
  case OpKind::Notify:
    notifies_.push_back(&op);
    return nullptr;
  case OpKind::Await:
    awaits_.push_back(&op);
    return nullptr;
  case OpKind::Space:
    if (op.has(attr::after_all) || op.has(attr::warpgroups) ||
        op.body().terminator()->numOperands() > 0)
      return "its roles wait for each other";
    return nullptr;
  case OpKind::Call:
    return "it calls functions";
  default:
    if (op.hasEffect(RemoteRead | RemoteWrite | Signal | Wait | Order | Write))
      return "more than puts goes from rank to rank, or is in order";
    return nullptr;
  }
}

const char *Messages::judgePut(Op &put) {
  const std::optional<MessagePart> part = partOf(put.operand(1));
  const Type tile = tileOf(put);
  if (!part || !part->rank || part->object->get(attr::mode) != ParamMode::Scratch ||
      part->object->get(attr::zero) || part->object->getOr(attr::copies, 1) < 2)
    return "a put is not to a scratch object of another rank";
  if (put.numOperands() > 2)
    return "a put waits for something";
  if (!tile.isTile() || !hasWholeWords(tile, *part))
    return "what is put is no tile of whole words";
  int64_t bytes = dtypeBytes(tile.dtype());
  for (const int64_t size : tile.shape())
    bytes *= size;
  if (bytes > TargetFacts::kMostLlBytes)
    return "tiles are large enough for a notify each";
  const std::optional<MessageFilling> filling = Sweeps::fill(put, *part);
  if (!filling)
    return "a put is not known to fill all of its object once";
  return filled_.insert({part->object, *filling}).second ? nullptr : "two puts fill one object";
}

const char *Messages::judgeLoad(Op &load) {
  Value *view = readOf(load);
  const auto objects = objectsOf(view);
  if (llvm::none_of(objects, [&](Op *object) { return !object || usesLl(object); }))
    return rankSelectionOf(view) ? "another rank's memory is read" : nullptr;
  const std::optional<MessagePart> part = partOf(view);
  const bool isPlain = load.is(OpKind::Load) && !load.has(attr::via);
  if (!part || part->rank || !isPlain || !hasWholeWords(load.result()->type(), *part) ||
      !usesLl(part->object) || !Sweeps::read(load, *part, filled_[part->object]))
    return "a load is not known to read all of its object by whole words";
  Reached reached;
  return reachesScalar(load.result(), reached) ? "a scalar depends on messages" : nullptr;
}

/// Whether a scalar depends on a tile. Threads have to agree on scalars, and on what follows from
/// them, also in a launch that was given up, where some of them have gone on without their words.
bool Messages::reachesScalar(Value *tile, Reached &reached) {
  if (!reached.insert(tile).second)
    return false;
  const auto reaches = [&](llvm::ArrayRef<Value *> values) {
    return llvm::any_of(values, [&](Value *next) {
      return next->type().isTile() ? reachesScalar(next, reached) : !next->type().isToken();
    });
  };
  return llvm::any_of(tile->uses(), [&](const Use &use) {
    Op &user = *use.user;
    if (user.is(OpKind::For))
      return reaches({user.body().argument(use.index - 2), user.result(use.index - 3)});
    if (!user.is(OpKind::Yield))
      return user.numRegions() > 0 || user.is(OpKind::Condition) || reaches(user.results());
    Op &owner = *user.parentOp();
    if (owner.is(OpKind::For))
      return reaches({owner.body().argument(use.index + 1), owner.result(use.index)});
    return !owner.is(OpKind::If) || reaches({owner.result(use.index)});
  });
}

const char *Messages::judgeWait(Op &wait) {
  const bool isDerived = wait.numOperands() == 1;
  const bool isForLoads = llvm::all_of(wait.result()->uses(), [&](const Use &use) {
    return use.user->is(OpKind::Load) && usesLl(objectOf(readOf(*use.user)));
  });
  return isDerived && isForLoads ? nullptr : "what a wait is for is more than loads of messages";
}

/// Nobody else reads or writes what it does, and nothing that is sent after it speaks of it: so no
/// message ever puts it before anything else.
const char *Messages::judgeStore(Op &store) {
  Value *view = store.operand(1);
  const Op *object = objectOf(view);
  Op *space = store.enclosing(OpKind::Space);
  const bool isAlone =
      object && !usesLl(object) && !rankSelectionOf(view) && accesses_[object].size() == 1;
  // In a loop around both, the store comes before the next round's put.
  Op *outermost = &store;
  while (outermost->parentOp() != space)
    outermost = outermost->parentOp();
  const bool isLast = llvm::none_of(puts_, [&](Op *put) {
    return put->enclosing(OpKind::Space) == space && place_[put] > place_[outermost];
  });
  return isAlone && isLast ? nullptr : "messages may speak of what is stored";
}

const char *Messages::judge() {
  const char *reason = kernel_.get(attr::entry_barrier) ? "ranks meet before it"
                       : kernel_.get(attr::reads_stale) ? "what it reads may be an older launch's"
                                                        : nullptr;
  walk(kernel_.body(), [&](Op &op) {
    const char *why = collect(op);
    if (!reason)
      reason = why;
  });
  const auto each = [&](llvm::ArrayRef<Op *> ops, const char *(Messages::*judgeOne)(Op &)) {
    for (Op *op : ops)
      if (!reason)
        reason = (this->*judgeOne)(*op);
  };
  each(puts_, &Messages::judgePut);
  each(loads_, &Messages::judgeLoad);
  each(waits_, &Messages::judgeWait);
  each(stores_, &Messages::judgeStore);
  for (const auto &[object, filling] : filled_)
    if (!reason && filling.read != AllRanks)
      reason = "not all that is put is read";
  for (const Op *await : awaits_)
    if (!reason && llvm::any_of(await->operands(),
                                [](const Value *operand) { return !operand->type().isToken(); }))
      reason = "what a wait is for is more than loads of messages";
  return reason;
}

std::string Messages::objects() const {
  std::string names;
  for (const auto &[object, filling] : filled_)
    names += (names.empty() ? "`" : ", `") + object->get(attr::name).str() + "`";
  return names;
}

} // namespace dtile::passes
