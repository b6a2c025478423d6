// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Verdicts in words: a line and what it rests on, and a warning for each thing that is not known.
#include "ir/analysis/dependence.h"
#include "ir/protocol/check/check_protocol.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

namespace dtile::protocol {

using ir::Op;
using ir::OpKind;

namespace {

/// `{1..8, 10, 12}`.
std::string setText(std::vector<int64_t> values) {
  constexpr size_t kShortestRun = 3;
  llvm::sort(values);
  std::string text = "{";
  for (size_t i = 0; i < values.size();) {
    size_t end = i + 1;
    while (end < values.size() && values[end] == values[end - 1] + 1)
      ++end;
    text += (i != 0 ? ", " : "") + std::to_string(values[i]);
    if (end - i >= kShortestRun) {
      text += ".." + std::to_string(values[end - 1]);
      i = end;
    } else {
      ++i;
    }
  }
  return text + "}";
}

/// Numbers of ranks that were not run on all sizes: `3, 4`.
std::string leftOut(const Verdict &verdict) {
  llvm::SmallVector<int> counts;
  for (const std::vector<int> *some : {&verdict.cutShort, &verdict.tooLarge, &verdict.stopped})
    llvm::append_range(counts, *some);
  llvm::sort(counts);
  counts.erase(llvm::unique(counts), counts.end());
  llvm::SmallVector<std::string> ranks;
  for (const int count : counts)
    ranks.push_back(std::to_string(count));
  return llvm::join(ranks, ", ");
}

SourceRange placeOf(const Op &op) { return {op.loc(), op.loc()}; }

/// A wait of the same bodies that asks one cell for more in each turn of a loop; null where there
/// is none. A proof follows waits for all notifies of a cell.
const Op *risingWait(const Op &op) {
  Op *space = const_cast<Op &>(op).enclosing(OpKind::Space);
  const Op *found = nullptr;
  if (space)
    ir::walk(*space, [&](Op &wait) {
      Op *loop =
          wait.is(OpKind::Wait) && wait.numOperands() > 1 ? wait.enclosing(OpKind::For) : nullptr;
      if (!loop || found)
        return;
      const ir::Value *turn = loop->body().arguments().front();
      const auto isTurn = [&](const ir::Value &value) { return &value == turn; };
      if (ir::dependsOn(wait.operand(1), isTurn) && !ir::dependsOn(wait.operand(0), isTurn))
        found = &wait;
    });
  return found;
}

} // namespace

bool Verdict::isDecided() const {
  return undecidedPromises.empty() && (isProved || (undecided.empty() && cutShort.empty() &&
                                                    tooLarge.empty() && stopped.empty()));
}

std::string verdictText(const Verdict &verdict) {
  std::string text = "`" + verdict.kernel + "`: ";
  if (verdict.isContradicted)
    return text + "refused, against its proof; the checker is mistaken: please report it\n";
  if (!verdict.isFine)
    return text + "refused\n";
  if (verdict.runs == 0 && verdict.undecided.empty() && !verdict.isProved)
    return text + "nothing to check\n";
  if (verdict.isProved) {
    // Nobody takes one line for all of it.
    text += verdict.undecidedPromises.empty()
                ? "proved for all W and all sizes"
                : "undecided in what it ensures; its order is proved for all W and all sizes";
    if (!verdict.required.empty())
      text += " under what it requires";
    if (!verdict.assumed.empty())
      text += verdict.required.empty() ? " under what it assumes" : " and assumes";
    text += verdict.progress.needsRoom ? ", where its bodies have room" : "";
    text += verdict.areValuesUnsaid ? "; without `ensures`, its values were not looked at" : "";
  } else if (!verdict.isDecided()) {
    text += "undecided";
  }
  if (!verdict.ranks.empty()) {
    text += !verdict.isProved && verdict.isDecided() ? "checked for W in " : "; checked for W in ";
    text += setText({verdict.ranks.begin(), verdict.ranks.end()});
  }
  if (!verdict.inPart.empty()) {
    text += verdict.ranks.empty() ? "; checked in part for W in " : ", in part for W in ";
    text += setText({verdict.inPart.begin(), verdict.inPart.end()});
  }
  if (!verdict.ranks.empty() || !verdict.inPart.empty())
    for (const Verdict::Size &size : verdict.sizes)
      text += ", " + size.name + " in " + setText(size.values);
  if (verdict.areValuesUnsaid && !verdict.isProved && verdict.isDecided())
    text += "; without `ensures`, its values were not looked at";
  text += '\n';
  for (const std::string &clause : verdict.required)
    text += "  requires: " + clause + '\n';
  for (const std::string &clause : verdict.assumed)
    text += "  assumes: " + clause + '\n';
  if (!verdict.unfilled.empty() && verdict.runs == 0)
    text += "  no run: no elements were made up for which what it requires of " +
            llvm::join(verdict.unfilled, ", ") + " is true\n";
  if (!verdict.notRun.empty())
    text += "  not run for W in " + setText({verdict.notRun.begin(), verdict.notRun.end()}) +
            ", which the proof covers\n";
  if (!verdict.notTaken.empty())
    text += "  its assertions leave out all sizes that were tried with W in " +
            setText({verdict.notTaken.begin(), verdict.notTaken.end()}) + '\n';
  if (!verdict.stopped.empty())
    text += "  data that was made up ends runs early, at an assertion, a position or a loop, with "
            "W in " +
            setText({verdict.stopped.begin(), verdict.stopped.end()}) + '\n';
  if (!verdict.cutShort.empty() && !verdict.isProved)
    text += "  the budget of a check ended before all sizes were run with W in " +
            setText({verdict.cutShort.begin(), verdict.cutShort.end()}) + '\n';
  if (!verdict.tooLarge.empty() && !verdict.isProved)
    text += "  there was too little memory for all sizes with W in " +
            setText({verdict.tooLarge.begin(), verdict.tooLarge.end()}) + '\n';
  if (verdict.promisesKept != 0)
    text += "  what it ensures holds for W in " +
            setText({verdict.promiseRanks.begin(), verdict.promiseRanks.end()}) +
            ": each addend is there as often as it should" +
            (verdict.arePromisesCutShort ? "; some sizes were left out" : "") + "\n";
  if (verdict.progress.needsRoom)
    text +=
        verdict.machine->residentPrograms() == 0
            ? "  bodies of one tile space wait for each other: `--machine` says whether they fit\n"
            : "  bodies of one tile space wait for each other, and have room on `" +
                  verdict.machine->name.str() + "`\n";
  return text;
}

void reportVerdict(Diagnostics &diagnostics, const Verdict &verdict) {
  if (!verdict.isFine)
    return;
  for (const auto &[loc, why] : verdict.undecidedPromises)
    diagnostics.report(SourceRange{loc, loc}, diag::not_decided,
                       "whether `" + verdict.kernel + "` does what it ensures: " + why);
  // What is proved of all launches says nothing where there are none.
  if (!verdict.unfilled.empty() && verdict.runs == 0)
    diagnostics.report(verdict.place, diag::clauses_not_met, verdict.kernel,
                       llvm::join(verdict.unfilled, ", "));
  if (verdict.isProved)
    return;
  for (const Unproved &unproved : verdict.unproved) {
    DiagBuilder builder =
        diagnostics.report(placeOf(*unproved.op), diag::not_proved, unproved.text);
    if (unproved.other)
      builder.note(placeOf(*unproved.other), diag::note_protocol, "the other is here");
    if (!unproved.clause.empty())
      builder.note(placeOf(*unproved.op), diag::note_protocol,
                   "where callers see to that, say `requires " + unproved.clause +
                       ";` at the head of the kernel");
    for (const Op *op : {unproved.op, unproved.other})
      if (const Op *wait = op ? risingWait(*op) : nullptr) {
        builder.note(
            placeOf(*wait), diag::note_protocol,
            "what is proved of a wait is that all notifies of its cell have come, and this "
            "count rises: with a cell for each turn, as in `wait(s[i])`, it needs no count");
        break;
      }
  }
  for (const Undecided &undecided : verdict.undecided)
    diagnostics.report(placeOf(*undecided.op), diag::not_decided, undecided.text);
  if (const std::string ranks = leftOut(verdict); !ranks.empty())
    diagnostics.report(verdict.place, diag::not_checked, verdict.kernel, ranks);
  else if (verdict.runs == 0 && !verdict.notTaken.empty())
    diagnostics.report(verdict.place, diag::not_run, verdict.kernel);
}

} // namespace dtile::protocol
