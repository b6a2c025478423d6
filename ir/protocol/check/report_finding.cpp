// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One error a defect: the place that lacks an order first, then the other side, what would order
// them, and the run in which it shows.
#include "ir/protocol/check/report_finding.h"

#include "frontend/base/check.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallPtrSet.h"

namespace dtile::protocol {

using ir::Op;
using ir::OpKind;

namespace {

/// More waiting places than this say nothing new.
constexpr size_t kMaxWaiters = 6;

SourceRange rangeOf(const Op *op, const Op &otherwise) {
  const SourceLoc loc = op && op->loc().isValid() ? op->loc() : otherwise.loc();
  return {loc, loc};
}

void addNotes(DiagBuilder &builder, const Case &at, const Finding &finding) {
  for (const FindingNote &note : finding.notes)
    builder.note(rangeOf(note.op ? note.op : finding.second.op, at.kernel), diag::note_protocol,
                 note.text);
  builder.note(rangeOf(&at.kernel, at.kernel), diag::note_protocol, "found for " + at.text());
}

void addFix(DiagBuilder &builder, const Case &at, const Remedy &remedy) {
  if (!at.options || !at.options->fix)
    return;
  for (const FixIt &fix : at.options->fix(at.name(), remedy))
    builder.fix(fix.range, fix.text);
}

/// What the first note that knows a remedy says.
void addNotedFix(DiagBuilder &builder, const Case &at, const Finding &finding) {
  for (const FindingNote &note : finding.notes) {
    switch (note.remedy) {
    case FindingNote::Remedy::None:
      continue;
    case FindingNote::Remedy::AccessAfter:
    case FindingNote::Remedy::NotifyAfter:
      return addFix(builder, at,
                    MissingOrder{.isOfNotify = note.remedy == FindingNote::Remedy::NotifyAfter,
                                 .access = note.access->loc(),
                                 .signal = note.op->loc()});
    case FindingNote::Remedy::WriteAll:
      return addFix(builder, at, LeftOutPart{note.op->loc(), finding.region, finding.rank});
    }
  }
}

/// A block of what is copied that ends before its length does, as its tensor does.
struct ShortBlock {
  std::string tensor, position, size;
  int64_t value = 0;
  int64_t length = 0;
};

/// Where the source of a copy is cut by a size that is no whole number of blocks here.
std::optional<ShortBlock> shortBlock(const Case &at, const Op &copy) {
  if (!copy.is(OpKind::Put) && !copy.is(OpKind::PutSignal) && !copy.is(OpKind::Get))
    return std::nullopt;
  const Op *source = copy.operand(0)->definingOp();
  if (!source || !source->is(OpKind::ViewTile))
    return std::nullopt;
  size_t operand = 1, block = 0;
  const llvm::ArrayRef<int64_t> lengths = source->get(ir::attr::lens);
  for (const char dim : source->get(ir::attr::dims)) {
    if (dim == 'r') {
      const int64_t length = lengths[block++];
      const llvm::StringRef size = source->operand(operand + 1)->nameHint();
      for (const auto &[symbol, value] : llvm::zip_equal(at.symbols, at.values))
        if (symbol.name == size && length > 0 && value % length != 0)
          return ShortBlock{.tensor =
                                interpret::rootParam(source->operand(0))->get(ir::attr::name).str(),
                            .position = source->operand(operand)->nameHint().str(),
                            .size = size.str(),
                            .value = value,
                            .length = length};
    }
    operand += dim == 'r' ? 2 : dim == 'i' ? 1 : 0;
  }
  return std::nullopt;
}

/// Whether some index of "box[0, 1..32]" begins where such a block ends. What lacks its beginning,
/// too, was not cut: nobody has sent it.
bool beginsAtEnd(llvm::StringRef region, const ShortBlock &block) {
  llvm::SmallVector<llvm::StringRef, 4> indices;
  region.split('[').second.split(indices, ',');
  return llvm::any_of(indices, [&](llvm::StringRef index) {
    int64_t first = 0;
    index = index.ltrim();
    return !index.consumeInteger(10, first) &&
           (first == block.value || first == block.value % block.length);
  });
}

/// What helps where a copy ends with its source, and its target is read to the end of the block;
/// whether that is so.
bool addShortBlock(DiagBuilder &builder, const Case &at, const Finding &finding) {
  for (const FindingNote &note : finding.notes) {
    const auto found = note.op ? shortBlock(at, *note.op) : std::nullopt;
    if (!found || !beginsAtEnd(finding.region, *found))
      continue;
    const std::string length = std::to_string(found->length);
    std::string text = "`" + found->tensor + "` ends at `" + found->size + "`, here " +
                       std::to_string(found->value) +
                       ", and this copies nothing from behind its end: read the same block";
    // A tile's sizes are constants, so that only a copy may end earlier.
    if (!finding.second.op->is(OpKind::Load) && !found->position.empty())
      text += ", or no further than `min(" + length + ", " + found->size + " - " + found->position +
              ".lo)`";
    if (!note.op->is(OpKind::Get))
      text += "; or put a tile, which is 0 there: `let t = " + found->tensor + "[…]; put(t, …)`";
    builder.note(rangeOf(note.op, at.kernel), diag::note_protocol,
                 text + "; or say `requires " + found->size + " % " + length + " == 0;`");
    // The only way of these that is the same in every program.
    addFix(builder, at, ShortSize{found->size, found->length});
    return true;
  }
  return false;
}

/// Where what a copy begins in has no elements here.
void noteEmptySize(DiagBuilder &builder, const Case &at, const Finding &finding) {
  if (!finding.object)
    return;
  for (const ir::Value *size : finding.object->operands())
    for (const auto &[symbol, value] : llvm::zip_equal(at.symbols, at.values))
      if (value == 0 && symbol.name == size->nameHint()) {
        builder.note(rangeOf(&at.kernel, at.kernel), diag::note_protocol,
                     "where callers never give an empty one, say `requires " + symbol.name +
                         " >= 1;` at the head of the kernel");
        return;
      }
}

std::string timesText(uint64_t count) {
  return count == 1 ? "once" : std::to_string(count) + " times";
}

std::string homeSignal(const Finding &finding) {
  const std::string object = finding.object->get(ir::attr::name).str();
  return object + (finding.second.kind == interpret::AccessKind::Read ? "_read" : "_written");
}

} // namespace

std::string Case::text() const {
  std::string text = options && !options->constants.empty() ? options->constants + ", " : "";
  text += "W = " + std::to_string(ranks);
  for (size_t s = 0; s < values.size(); ++s)
    text += ", " + symbols[s].name + " = " + std::to_string(values[s]);
  if (launch > 0)
    text += ", launch " + std::to_string(launch);
  return text;
}

void reportFinding(Diagnostics &diagnostics, const Case &at, const Finding &finding) {
  const bool withLaunch = finding.first.body.launch != finding.second.body.launch;
  const std::string first = bodyText(finding.first.body, withLaunch);
  const std::string second = bodyText(finding.second.body, withLaunch);
  const std::string home = std::to_string(finding.rank);
  const SourceRange place = rangeOf(finding.second.op, at.kernel);
  switch (finding.kind) {
  case Finding::Kind::Race:
  case Finding::Kind::Overwrite: {
    DiagBuilder builder = diagnostics.report(place, diag::protocol_race, second,
                                             verbOf(finding.second), finding.region, finding.rank,
                                             finding.isOneBody ? "the same body" : first);
    builder.note(rangeOf(finding.first.op, at.kernel), diag::note_protocol,
                 first + " " + verbOf(finding.first).str() + " it here");
    addNotedFix(builder, at, finding);
    return addNotes(builder, at, finding);
  }
  case Finding::Kind::OutlivesKernel: {
    DiagBuilder builder =
        diagnostics.report(place, diag::protocol_outlives_kernel, at.name(), second,
                           verbOf(finding.second), finding.region, finding.rank);
    const std::string signal = homeSignal(finding);
    builder.note(place, diag::note_protocol,
                 "rank " + home + " returns to its caller, who may use `" +
                     finding.object->get(ir::attr::name).str() +
                     "`, without having waited for this: add a signal `" + signal +
                     ": symm signal[W]`, `notify(" + signal +
                     "@r[rank()])` behind it, with r the rank that was reached, and "
                     "`await wait(" +
                     signal + "[:])` at the end of the kernel");
    const bool isLoad = finding.second.op->is(OpKind::Load);
    if (isLoad)
      addFix(builder, at,
             MissingSignal{finding.object->get(ir::attr::name).str(), signal, place.begin});
    return addNotes(builder, at, finding);
  }
  case Finding::Kind::NotReady: {
    DiagBuilder builder = diagnostics.report(place, diag::protocol_not_ready, second,
                                             verbOf(finding.second), finding.region, finding.rank);
    builder.note(place, diag::note_protocol,
                 "nothing here comes after the beginning of the launch on rank " + home +
                     ": let it notify this rank, and wait for that");
    return addNotes(builder, at, finding);
  }
  case Finding::Kind::CallerUses: {
    DiagBuilder builder = diagnostics.report(place, diag::protocol_caller_uses, second,
                                             verbOf(finding.second), finding.region, finding.rank);
    builder.note(rangeOf(finding.first.op, at.kernel), diag::note_protocol,
                 bodyText(finding.first.body, true) + " " + verbOf(finding.first).str() +
                     " it here, and nothing tells " + bodyText(finding.second.body, true) +
                     " that rank " + home + " has begun launch " +
                     std::to_string(finding.first.body.launch + 1) +
                     ": let each rank notify at the beginning of a launch those that reach it, "
                     "and these wait for that first");
    return addNotes(builder, at, finding);
  }
  case Finding::Kind::NeverWritten: {
    DiagBuilder builder = diagnostics.report(place, diag::protocol_never_written, second,
                                             verbOf(finding.second), finding.region);
    if (!addShortBlock(builder, at, finding))
      addNotedFix(builder, at, finding);
    return addNotes(builder, at, finding);
  }
  case Finding::Kind::Outside: {
    DiagBuilder builder =
        diagnostics.report(place, diag::protocol_out_of_range, outsideText(finding));
    noteEmptySize(builder, at, finding);
    return addNotes(builder, at, finding);
  }
  case Finding::Kind::MeetsItself: {
    DiagBuilder builder =
        diagnostics.report(place, diag::protocol_race, second, verbOf(finding.second),
                           finding.region, finding.rank, otherHalf(finding));
    return addNotes(builder, at, finding);
  }
  case Finding::Kind::Deadlock:
    return reportDeadlock(diagnostics, at, {finding});
  }
}

namespace {

/// Ranks that part at a barrier: one has ended the bodies that others meet in, or waits at another
/// barrier. False where what keeps it away is a wait.
bool reportDivergence(Diagnostics &diagnostics, const Case &at, const std::vector<Finding> &stuck) {
  for (const Finding &waiter : stuck) {
    if (!waiter.absence)
      continue;
    const int missing = waiter.absence->missing;
    const auto other = llvm::find_if(stuck, [&](const Finding &one) {
      return one.rank == missing && one.first.body.space == waiter.first.body.space;
    });
    if (other != stuck.end() && !other->absence)
      continue;
    const Op *barrier = waiter.first.op;
    std::string what = "does not come to it";
    if (other != stuck.end())
      what = "waits at another one";
    else if (waiter.absence->itsArrivals != 0)
      what = "comes to it only " + timesText(waiter.absence->itsArrivals);
    DiagBuilder builder = diagnostics.report(rangeOf(barrier, at.kernel), diag::protocol_diverges,
                                             at.name(), waiter.rank, missing, what);
    if (other != stuck.end())
      builder.note(rangeOf(other->first.op, at.kernel), diag::note_protocol,
                   bodyText(other->first.body, false) +
                       " waits here; ranks meet at one barrier of the text, all at the same");
    for (const Op *around = barrier->parentOp(); around && !around->is(OpKind::Space);
         around = around->parentOp())
      if (around->is(OpKind::If) || around->is(OpKind::For) || around->is(OpKind::While)) {
        builder.note(rangeOf(around, at.kernel), diag::note_protocol,
                     around->is(OpKind::If)
                         ? "what decides whether it is reached differs from rank to rank: put "
                           "the barrier behind it"
                         : "how often it is reached differs from rank to rank: put the barrier "
                           "behind it, or let all ranks count alike");
        break;
      }
    builder.note(rangeOf(&at.kernel, at.kernel), diag::note_protocol, "found for " + at.text());
    return true;
  }
  return false;
}

} // namespace

void reportLeftOut(Diagnostics &diagnostics, const Case &at, const LeftOut &part) {
  DiagBuilder builder = diagnostics.report(rangeOf(part.param, at.kernel), diag::output_left_out,
                                           part.param->get(ir::attr::name), part.region, part.rank);
  builder.note(rangeOf(&at.kernel, at.kernel), diag::note_protocol, "found for " + at.text());
}

void reportUnheard(Diagnostics &diagnostics, const Case &at, const Unheard &cell) {
  DiagBuilder builder = diagnostics.report(
      rangeOf(cell.notify, at.kernel), diag::notify_not_awaited, "`" + cell.cell + "`", cell.rank);
  builder.note(rangeOf(cell.notify, at.kernel), diag::note_protocol,
               cell.by + " has written something there, and nothing waits until it has come");
  const Op *signal =
      interpret::rootParam(cell.notify->operand(cell.notify->is(OpKind::PutSignal) ? 2 : 0));
  walk(at.kernel, [&](Op &op) {
    if (op.is(OpKind::Wait) && interpret::rootParam(op.operand(0)) == signal)
      builder.note(rangeOf(&op, at.kernel), diag::note_protocol,
                   "`" + signal->get(ir::attr::name).str() +
                       "` is waited for here, but not this cell");
  });
  builder.note(rangeOf(&at.kernel, at.kernel), diag::note_protocol, "found for " + at.text());
}

namespace {

bool waitsForOther(const Finding &waiter, const Op *signal) {
  const Op &wait = *waiter.first.op;
  return wait.is(OpKind::Wait) && interpret::rootParam(wait.operand(0)) != signal;
}

} // namespace

void reportDeadlock(Diagnostics &diagnostics, const Case &at, const std::vector<Finding> &stuck) {
  const auto wantText = [](const Finding &waiter) {
    if (waiter.region.empty())
      return std::string("other ranks at the barrier");
    return "`" + waiter.region + "`, which wants " + std::to_string(waiter.shortage.wanted) +
           (waiter.shortage.wanted == 1 ? " notify" : " notifies") + " and gets " +
           std::to_string(waiter.shortage.seen);
  };
  if (reportDivergence(diagnostics, at, stuck))
    return;
  const Finding &first = stuck.front();
  DiagBuilder builder =
      diagnostics.report(rangeOf(first.first.op, at.kernel), diag::protocol_deadlock, at.name(),
                         bodyText(first.first.body, first.first.body.launch != 0), wantText(first));
  // Who would notify, and why it does not.
  const Op *signal =
      first.first.op->is(OpKind::Wait) ? interpret::rootParam(first.first.op->operand(0)) : nullptr;
  std::optional<Remedy> remedy;
  walk(at.kernel, [&](Op &op) {
    const bool isNotify = op.is(OpKind::Notify) || op.is(OpKind::PutSignal);
    if (!isNotify || !signal ||
        interpret::rootParam(op.operand(op.is(OpKind::Notify) ? 0 : 2)) != signal)
      return;
    if (first.shortage.all && *first.shortage.all < first.shortage.wanted) {
      builder.note(rangeOf(&op, at.kernel), diag::note_protocol,
                   "it is notified here; all bodies of all ranks together notify it " +
                       timesText(*first.shortage.all) +
                       "; a wait without `count:` is for just these");
      // Of none at all the notify may be what is wrong.
      if (*first.shortage.all > 0)
        remedy = LargeCount{first.first.op->loc()};
      return;
    }
    Op *space = op.enclosing(OpKind::Space);
    const auto waiter =
        llvm::find_if(stuck, [&](const Finding &one) { return one.first.body.space == space; });
    const bool isStuck = waiter != stuck.end();
    // Who waits for the signal that it notifies is part of a chain, which somebody has to begin.
    if (isStuck && !remedy && waitsForOther(*waiter, signal))
      remedy = LateNotify{op.loc(), waiter->first.op->loc()};
    const bool isInLoop = op.enclosing(OpKind::For) != nullptr;
    builder.note(rangeOf(&op, at.kernel), diag::note_protocol,
                 isStuck && isInLoop
                     ? "it would be notified here, by bodies that wait themselves: notify before "
                       "that wait, or in another role; a wait is for all notifies of the launch to "
                       "its cell, so that each message of a loop has a cell of its own"
                 : isStuck
                     ? "it would be notified here, by bodies that wait themselves: notify before "
                       "that wait, or in another role"
                     : "it is notified here, and no body is left that would do so again: let "
                       "the conditions around both say the same");
  });
  if (remedy)
    addFix(builder, at, *remedy);
  llvm::SmallPtrSet<const Op *, 8> seen{first.first.op};
  for (const Finding &waiter : stuck) {
    if (!seen.insert(waiter.first.op).second || seen.size() > kMaxWaiters)
      continue;
    builder.note(rangeOf(waiter.first.op, at.kernel), diag::note_protocol,
                 bodyText(waiter.first.body, waiter.first.body.launch != 0) + " waits for " +
                     wantText(waiter));
  }
  builder.note(rangeOf(&at.kernel, at.kernel), diag::note_protocol, "found for " + at.text());
}

namespace {

/// The message without its place, which the diagnostic has already.
llvm::StringRef withoutPlace(const interpret::RunError &error) {
  const llvm::StringRef text = error.message;
  const size_t start = error.op ? text.find(": rank ") : llvm::StringRef::npos;
  return start == llvm::StringRef::npos ? text : text.drop_front(start + 2);
}

} // namespace

void reportEndless(Diagnostics &diagnostics, const Case &at, const interpret::RunError &error) {
  diagnostics
      .report(rangeOf(error.op, at.kernel), diag::protocol_endless, at.name(), withoutPlace(error))
      .note(rangeOf(&at.kernel, at.kernel), diag::note_protocol, "found for " + at.text());
}

void reportFalseAssumption(Diagnostics &diagnostics, const Case &at,
                           const interpret::RunError &error) {
  // "file:1:2: rank 3, role `send`, e = 1: what is assumed does not hold: …"
  llvm::StringRef text = error.message;
  unsigned rank = 0;
  if (const size_t start = text.find(": rank "); start != llvm::StringRef::npos) {
    text = text.drop_front(start + llvm::StringRef(": rank ").size());
    (void)text.consumeInteger(10, rank);
  }
  text.consume_front(": ");
  text.consume_front(", ");
  diagnostics
      .report(rangeOf(error.op, at.kernel), diag::protocol_false_assumption, at.name(), rank, text)
      .note(rangeOf(&at.kernel, at.kernel), diag::note_protocol, "found for " + at.text());
}

/// The scalar argument that what the op does is made from, or null.
const Op *scalarBehind(const Op &op) {
  llvm::SmallVector<const ir::Value *, 8> work(op.operands());
  llvm::SmallPtrSet<const ir::Value *, 16> seen;
  while (!work.empty()) {
    const ir::Value *value = work.pop_back_val();
    if (!seen.insert(value).second)
      continue;
    const Op *maker = value->definingOp();
    if (maker && maker->is(OpKind::ScalarParam))
      return maker;
    // A position lies between the bounds of its loop.
    if (const Op *source = maker ? maker : value->argumentOf()->parentOp())
      llvm::append_range(work, source->operands());
  }
  return nullptr;
}

void reportTrap(Diagnostics &diagnostics, const Case &at, const interpret::RunError &error) {
  const llvm::StringRef text = withoutPlace(error);
  DiagBuilder builder =
      diagnostics.report(rangeOf(error.op, at.kernel), diag::protocol_out_of_range, text);
  // The other side of a cell: its signal, and who notifies it or waits for it.
  const bool isCell = error.op && (error.op->is(OpKind::SigSlice) || error.op->is(OpKind::SigAt));
  if (const Op *signal = isCell ? interpret::rootParam(error.op->operand(0)) : nullptr) {
    builder.note(rangeOf(signal, at.kernel), diag::note_protocol, "the signal is declared here");
    const bool isNotified = llvm::any_of(error.op->result()->uses(), [](const ir::Use &use) {
      return use.user->is(OpKind::Notify) || use.user->is(OpKind::SigSlice);
    });
    const Op *other = nullptr;
    walk(at.kernel, [&](Op &op) {
      if (op.is(isNotified ? OpKind::Wait : OpKind::Notify) && !other &&
          interpret::rootParam(op.operand(0)) == signal)
        other = &op;
    });
    if (other)
      builder.note(rangeOf(other, at.kernel), diag::note_protocol,
                   isNotified ? "it is waited for here" : "it is notified here");
  }
  if (const Op *scalar = error.op ? scalarBehind(*error.op) : nullptr)
    builder.note(rangeOf(scalar, at.kernel), diag::note_protocol,
                 "callers may pass this `" + scalar->get(ir::attr::name).str() +
                     "`: `requires` says what they owe");
  builder.note(rangeOf(&at.kernel, at.kernel), diag::note_protocol, "found for " + at.text());
}

} // namespace dtile::protocol
