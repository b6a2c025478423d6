// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Makes findings of accesses, one a defect, and says what would have ordered them.
#include "ir/protocol/check/race_detector.h"

#include "frontend/base/check.h"
#include "ir/interpret/control_slice.h"

#include "llvm/ADT/STLExtras.h"

namespace dtile::protocol {

using interpret::AccessKind;
using interpret::BodyId;
using interpret::SignalVal;
using ir::Op;
using ir::OpKind;

namespace {

/// More findings of one run say nothing new.
constexpr size_t kMaxFindings = 8;

bool isRace(Finding::Kind kind) {
  return kind == Finding::Kind::Race || kind == Finding::Kind::Overwrite;
}

} // namespace

Side RaceDetector::sideOf(const Record &record) const {
  return {record.op, names_[record.body], record.kind};
}

void RaceDetector::report(Finding::Kind kind, const Record &first, const Record &second,
                          const ShadowObject &object, const Box &box) {
  // One defect, one finding: a write that races with ten reads is missing one order.
  const auto involves = [](const Finding &finding, const Op *op) {
    return finding.first.op == op || finding.second.op == op;
  };
  const auto known = llvm::find_if(findings_, [&](const Finding &finding) {
    const bool isAlike = finding.kind == kind || isRace(finding.kind);
    return isAlike && (involves(finding, first.op) || involves(finding, second.op));
  });
  const size_t index = known - findings_.begin();
  if (known != findings_.end()) {
    // That a place is written again before it was read says more than that it is written twice.
    const auto &[knownFirst, knownSecond] = records_[index];
    const bool isTwice = known->kind == Finding::Kind::Race && knownFirst.body == knownSecond.body;
    if (!isTwice || !isRace(kind) || first.body == second.body)
      return;
    if (second.kind == AccessKind::Read)
      return replace(index, makeFinding(Finding::Kind::Overwrite, second, first, object, box),
                     second, first);
    return replace(index, makeFinding(kind, first, second, object, box), first, second);
  }
  if (index >= kMaxFindings)
    return;
  // The reader is who lacks a wait, unless it reads for an earlier launch.
  const bool isTurned = kind == Finding::Kind::Race && first.kind == AccessKind::Read &&
                        first.body != second.body && first.launch >= second.launch;
  const Record &early = isTurned ? second : first;
  const Record &late = isTurned ? first : second;
  findings_.emplace_back();
  records_.emplace_back();
  replace(index, makeFinding(kind, early, late, object, box), early, late);
}

void RaceDetector::reportOutside(const Record &access, const interpret::ViewVal &view) {
  const auto isKnown = [&](const Finding &finding) { return finding.second.op == access.op; };
  if (findings_.size() >= kMaxFindings || llvm::any_of(findings_, isKnown))
    return;
  Finding finding;
  finding.kind = Finding::Kind::Outside;
  finding.first = finding.second = sideOf(access);
  finding.object =
      interpret::rootParam(access.op->operand(access.kind == AccessKind::Read ? 0 : 1));
  finding.rank = view.rank;
  findings_.push_back(std::move(finding));
  records_.emplace_back(access, access);
}

Finding RaceDetector::makeFinding(Finding::Kind kind, const Record &first, const Record &second,
                                  const ShadowObject &object, const Box &box) const {
  Finding finding;
  finding.kind = kind;
  finding.first = sideOf(first);
  finding.second = sideOf(second);
  finding.object = &object.param;
  finding.region = object.regionText(box);
  finding.rank = object.rank;
  finding.isOneBody = first.body == second.body;
  return finding;
}

void RaceDetector::replace(size_t index, Finding finding, const Record &first,
                           const Record &second) {
  findings_[index] = std::move(finding);
  records_[index] = {first, second};
}

/// A wait of the late access' body that knows the early access.
bool RaceDetector::explainByWait(Finding &finding, const Record &early, const Record &late) {
  const auto it = waits_.find(late.body);
  if (it == waits_.end())
    return false;
  for (const BodyWait &wait : it->second)
    if (wait.number <= late.sequence && clocks_.includes(*wait.clock, early.thread, early.time)) {
      finding.notes.push_back({wait.op,
                               "this `wait` orders the two, but the access is not `after` it",
                               FindingNote::Remedy::AccessAfter, late.op});
      return true;
    }
  return false;
}

/// A notify to the late access' rank that knows the early access, or that could.
bool RaceDetector::explainByNotify(Finding &finding, const Record &early, const Record &late) {
  const BodyName &name = names_[early.body];
  const SentNotify *beside = nullptr;
  for (const SentNotify &sent : sent_) {
    if (sent.rank != names_[late.body].rank || sent.launch != early.launch)
      continue;
    if (clocks_.includes(*sent.clock, early.thread, early.time)) {
      finding.notes.push_back({sent.op, "`" + cellText(*sent.signal, sent.cell) + "` of rank " +
                                            std::to_string(sent.rank) + " is notified here when " +
                                            bodyText(name, false) +
                                            " has done so; a wait for that would order the two"});
      return true;
    }
    if (sent.body == early.body && early.isSent && !beside)
      beside = &sent;
  }
  if (!beside)
    return false;
  finding.notes.push_back({beside->op,
                           "this notify is not `after` what is sent before it: give it "
                           "the token, `after: …`",
                           FindingNote::Remedy::NotifyAfter, early.op});
  return true;
}

/// A notify that comes after the early access, and goes to a rank that has nothing of it.
bool RaceDetector::explainByOtherNotify(Finding &finding, const Record &early, const Record &late) {
  const int reader = names_[late.body].rank;
  for (const SentNotify &sent : sent_)
    if (sent.body == early.body && sent.rank != reader &&
        clocks_.includes(*sent.clock, early.thread, early.time)) {
      finding.notes.push_back({sent.op, "this notify comes behind it, but goes to `" +
                                            cellText(*sent.signal, sent.cell) + "` of rank " +
                                            std::to_string(sent.rank) + ", not to rank " +
                                            std::to_string(reader)});
      return true;
    }
  return false;
}

/// Where an object is written at all.
void RaceDetector::explainWriters(Finding &finding) {
  const Op *kernel = finding.object->parentOp();
  const Op *writer = nullptr;
  walk(const_cast<Op &>(*kernel), [&](Op &op) {
    const bool writes = op.is(OpKind::Store) || op.is(OpKind::Put) || op.is(OpKind::PutSignal) ||
                        op.is(OpKind::ReduceAdd) || op.is(OpKind::Get) || op.is(OpKind::Scatter) ||
                        op.is(OpKind::ReduceAddScatter);
    if (writes && !writer && interpret::rootParam(op.operand(1)) == finding.object)
      writer = &op;
  });
  if (writer)
    finding.notes.push_back({writer,
                             "`" + finding.object->get(ir::attr::name).str() +
                                 "` is written here, but not this part of rank " +
                                 std::to_string(finding.rank) + "'s",
                             FindingNote::Remedy::WriteAll});
}

/// What is missing: an `after` for a wait that is there, a wait for a notify that is there, or
/// both.
void RaceDetector::explain(Finding &finding, const Record &first, const Record &second) {
  if (finding.kind == Finding::Kind::NeverWritten) {
    if (const auto it = waits_.find(second.body); it != waits_.end())
      for (const BodyWait &wait : it->second)
        if (wait.nothing) {
          finding.notes.push_back({wait.op, "this `wait` waits for nothing: `" +
                                                cellText(*wait.nothing, wait.nothingCell) +
                                                "` of rank " + std::to_string(finding.rank) +
                                                " is never notified"});
          break;
        }
    return explainWriters(finding);
  }
  if (finding.kind == Finding::Kind::MeetsItself) {
    finding.notes.push_back(
        {nullptr, finding.second.op->is(OpKind::Scatter)
                      ? "a tile's elements are stored in no order: give each a place of its own"
                      : "it reads what it writes, and moves elements in no order: copy by way of a "
                        "tile, or of another buffer"});
    return;
  }
  if (!isRace(finding.kind))
    return;
  const BodyName &body = names_[second.body];
  const bool areSent = first.isSent && second.isSent && first.kind == AccessKind::Write &&
                       second.kind == AccessKind::Write;
  if (first.body == second.body && areSent && finding.rank != body.rank) {
    // To await the first would order the two, and still write over what the peer has not read.
    const std::string reader = "rank " + std::to_string(finding.rank);
    finding.notes.push_back(
        {nullptr, "both are of one body, and nothing tells it that " + reader +
                      " has read what came first: let " + reader +
                      " notify this rank behind its read, and make the second `after` a wait for "
                      "that"});
    return;
  }
  if (first.body == second.body) {
    if (explainByWait(finding, first, second))
      return;
    finding.notes.push_back({nullptr, "both are of one body: `await` the first, or make the second "
                                      "`after` it"});
    return;
  }
  if (finding.kind == Finding::Kind::Overwrite) {
    const std::string writer = "rank " + std::to_string(names_[second.body].rank);
    finding.notes.push_back({nullptr, "nothing tells " + writer +
                                          " that this has been read: notify it behind the read, "
                                          "and write `after` a wait for that"});
    return;
  }
  if (explainByWait(finding, first, second) || explainByWait(finding, second, first) ||
      explainByNotify(finding, first, second) || explainByNotify(finding, second, first))
    return;
  if (explainByOtherNotify(finding, first, second))
    return;
  finding.notes.push_back({nullptr, "no notify tells rank " +
                                        std::to_string(names_[second.body].rank) + " that " +
                                        bodyText(names_[first.body], false) + " is done with it"});
}

void RaceDetector::explainRaces() {
  for (size_t i = 0; i < records_.size(); ++i)
    explain(findings_[i], records_[i].first, records_[i].second);
}

void RaceDetector::findUnheard() {
  for (const auto &[place, notified] : cells_) {
    const bool isKnown =
        llvm::any_of(unheard_, [&](const Unheard &one) { return one.notify == notified.first; });
    if (notified.first && !notified.isWaitedFor && !isKnown)
      unheard_.push_back({.notify = notified.first,
                          .rank = place.second.first,
                          .cell = cellText(*place.first, place.second.second),
                          .by = bodyText(names_[notified.body], false)});
  }
  llvm::sort(unheard_, [](const Unheard &a, const Unheard &b) {
    return a.notify->loc().offset < b.notify->loc().offset;
  });
}

void RaceDetector::stuck(const BodyId &id, const Op &op, const SignalVal &cells,
                         const Shortage &shortage) {
  Finding finding;
  finding.kind = Finding::Kind::Deadlock;
  finding.first = finding.second = {&op, names_[body(id).name], AccessKind::Read};
  finding.region = cellText(*cells.signal, shortage.cell);
  finding.rank = id.rank;
  finding.shortage = shortage;
  stuck_.push_back(std::move(finding));
}

void RaceDetector::stuckAtBarrier(const BodyId &id, const Op &op, const Absence &absence) {
  Finding finding;
  finding.kind = Finding::Kind::Deadlock;
  finding.first = finding.second = {&op, names_[body(id).name], AccessKind::Read};
  finding.rank = id.rank;
  finding.absence = absence;
  stuck_.push_back(std::move(finding));
}

// Text.

std::string bodyText(const BodyName &body, bool withLaunch) {
  std::string text = "rank " + std::to_string(body.rank);
  if (withLaunch)
    text += ", launch " + std::to_string(body.launch);
  if (!body.space)
    return text;
  if (body.space->has(ir::attr::name) && body.space->get(ir::attr::name) != "main")
    text += ", role `" + body.space->get(ir::attr::name).str() + "`";
  if (body.positions.empty())
    return text;
  text += " (";
  const llvm::ArrayRef<std::string> vars = body.space->get(ir::attr::vars);
  for (size_t d = 0; d < body.positions.size(); ++d)
    text += (d ? ", " : "") + (d < vars.size() ? vars[d] + " = " : std::string()) +
            std::to_string(body.positions[d]);
  return text + ")";
}

llvm::StringRef verbOf(const Side &side) {
  switch (side.op->kind()) {
  case OpKind::Put:
  case OpKind::PutSignal:
    return side.kind == AccessKind::Read ? "puts from" : "puts to";
  case OpKind::Get:
    return side.kind == AccessKind::Read ? "gets from" : "gets into";
  case OpKind::ReduceAdd:
  case OpKind::ReduceAddScatter:
    return "adds to";
  case OpKind::Atomic:
  case OpKind::AtomicScatter:
    return "updates";
  default:
    return side.kind == AccessKind::Read ? "reads" : "writes";
  }
}

std::string outsideText(const Finding &finding) {
  const std::string object = finding.object && finding.object->has(ir::attr::name)
                                 ? "`" + finding.object->get(ir::attr::name).str() + "`"
                                 : "memory";
  return bodyText(finding.second.body, false) + " " + verbOf(finding.second).str() +
         " a position that " + object + " of rank " + std::to_string(finding.rank) +
         " does not have, so that nothing arrives";
}

llvm::StringRef otherHalf(const Finding &finding) {
  return finding.second.op->is(OpKind::Scatter) ? "another element of the same tile"
                                                : "the same copy";
}

namespace {

std::string placeText(const Op *op, const SourceManager *sources) {
  if (!op || !sources || !op->loc().isValid())
    return "";
  const PresumedLoc at = sources->presumed(op->loc());
  return at.file.str() + ":" + std::to_string(at.line) + ":" + std::to_string(at.column) + ": ";
}

std::string sentence(const Finding &finding) {
  const bool withLaunch = finding.first.body.launch != finding.second.body.launch;
  const std::string where = "`" + finding.region + "` of rank " + std::to_string(finding.rank);
  const std::string second =
      bodyText(finding.second.body, withLaunch) + " " + verbOf(finding.second).str() + " " + where;
  switch (finding.kind) {
  case Finding::Kind::Race:
  case Finding::Kind::Overwrite:
    return "race: " + second + ", and " + bodyText(finding.first.body, withLaunch) + " " +
           verbOf(finding.first).str() + " it, with no order between them";
  case Finding::Kind::OutlivesKernel:
    return "the kernel may end too early: " + second + ", and rank " +
           std::to_string(finding.rank) + " does not wait for that before its kernel ends";
  case Finding::Kind::NotReady:
    return "race with the caller: " + second + " before anything says that rank " +
           std::to_string(finding.rank) + " has begun the launch";
  case Finding::Kind::CallerUses:
    return "race with the caller: " + second + " in launch " +
           std::to_string(finding.second.body.launch) + ", and nothing says that rank " +
           std::to_string(finding.rank) + " has begun its next launch";
  case Finding::Kind::NeverWritten:
    return second + ", and nobody has written it in this launch";
  case Finding::Kind::Outside:
    return outsideText(finding);
  case Finding::Kind::MeetsItself:
    return "race: " + second + ", and " + otherHalf(finding).str() +
           (finding.second.op->is(OpKind::Scatter) ? " goes there, too" : " reads it") +
           ", with no order between them";
  case Finding::Kind::Deadlock:
    return "deadlock: " + bodyText(finding.first.body, false) + " waits for `" + finding.region +
           "`: wants " + std::to_string(finding.shortage.wanted) + ", has seen " +
           std::to_string(finding.shortage.seen);
  }
  DTILE_UNREACHABLE("not a kind of finding");
}

} // namespace

std::string findingText(const Finding &finding, const SourceManager *sources) {
  std::string text = placeText(finding.second.op, sources) + sentence(finding);
  if (isRace(finding.kind))
    text += "\n  " + placeText(finding.first.op, sources) + "the other access";
  for (const FindingNote &note : finding.notes)
    text += "\n  " + placeText(note.op, sources) + note.text;
  return text;
}

} // namespace dtile::protocol
