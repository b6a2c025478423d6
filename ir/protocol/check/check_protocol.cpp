// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Signals only grow and waits only ask for at least so much, so one run to its end decides for
// given ranks and sizes whether any run can hang; what the run's order does not forbid is a race
// however the run went. So each choice of ranks and sizes is run once.
#include "ir/protocol/check/check_protocol.h"

#include "frontend/base/check.h"
#include "ir/analysis/agreed_arguments.h"
#include "ir/analysis/clauses.h"
#include "ir/analysis/launch_values.h"
#include "ir/interpret/interpreter.h"
#include "ir/protocol/check/check_progress.h"
#include "ir/protocol/check/check_promises.h"
#include "ir/protocol/check/launch_sizes.h"
#include "ir/protocol/check/race_detector.h"
#include "ir/protocol/check/report_finding.h"
#include "ir/protocol/check/run_arguments.h"
#include "ir/protocol/check/size_relations.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/ADT/StringExtras.h"

#include <algorithm>

namespace dtile::protocol {

using interpret::ControlSlice;
using interpret::RunError;
using ir::Op;
using ir::OpKind;

namespace {

/// More ranks than this are left to the proof where there is one.
constexpr int kMostRanksBesideProof = 8;
/// More ranks than this are run on the smallest sizes only: what matters is who is who.
constexpr int kMostRanksOfAllSizes = 8;
constexpr size_t kSizesOfManyRanks = 2;
/// Where assertions leave out all numbers of ranks that were asked for but a few, which show little
/// (of squares 1 and 4): how many more that they allow are run, and where the search for them ends.
constexpr size_t kFewRanks = 2;
constexpr size_t kOtherRanks = 3;
constexpr int kMostOtherRanks = 1024;
/// What is spent where data decides, so that runs decide nothing and may only refuse.
constexpr uint64_t kWorkWithData = 12'000'000;
/// Races that only data leads to are looked for with data so often, in runs so long.
constexpr size_t kMostRunsWithData = 4;
constexpr uint64_t kStepsWithData = 2'000'000;
/// What is spent on contradicting a proof, and by a quick check.
constexpr uint64_t kWorkBesideProof = 6'000'000;
constexpr uint64_t kQuickWorkBesideProof = 2'000'000;
/// What is spent on what a kernel ensures: a second or two at most.
constexpr uint64_t kWorkOfPromises = 4'000'000;
constexpr uint64_t kQuickWorkOfPromises = 1'000'000;

/// Checks one kernel.
class KernelChecker {
public:
  KernelChecker(ir::Module &module, Op &kernel, const CheckOptions &options,
                Diagnostics &diagnostics)
      : module_(module), kernel_(kernel), options_(options), diagnostics_(diagnostics),
        slice_(interpret::sliceControl(kernel)), sizes_(kernel, slice_),
        relations_(kernel, slice_, sizes_) {}

  Verdict run();

private:
  void findUndecided();
  [[nodiscard]] bool isChosen(const Op *scalar) const;
  [[nodiscard]] bool knowsScalars() const;
  void prove();
  void checkPromised();
  Progress checkRoom();
  /// False after an error: a symmetric object is larger on one rank than on another.
  [[nodiscard]] bool checkSymmetry();
  [[nodiscard]] bool checkHasLaunches();
  [[nodiscard]] bool hasSomethingToCheck();
  void chooseRanks();
  /// False when the verdict is known: an error was reported.
  [[nodiscard]] bool runFor(llvm::ArrayRef<int> numbers);
  [[nodiscard]] bool runOtherRanks();
  bool runOnce(int ranks, const SizeValues &values);
  /// Work for one run: many ranks leave something for the few.
  [[nodiscard]] uint64_t share(int ranks) const {
    return ranks > kMostRanksOfAllSizes ? left() / 2 : left();
  }
  bool watch(RaceDetector &detector, int ranks, const SizeValues &values,
             std::unique_ptr<RunError> &error);
  bool judge(const RunError *error, const RaceDetector &detector, const Case &at);
  bool confirmWithData(const RaceDetector &detector, const Case &at);
  bool isFromData(const Finding &finding) const;
  bool isWrittenFromData(const Op *object) const;
  void warnOfLeftOut(RaceDetector &detector, const Case &at);
  [[nodiscard]] bool isWaitedForElsewhere(const Op &notify) const;
  void warnOfUnheard(const RaceDetector &detector, const Case &at);
  void addSizes(const SizeValues &values);
  /// Sizes to run. A proof covers those that are there to go beyond the kernel's own numbers.
  [[nodiscard]] LaunchSizes::Choice choice() const {
    return !verdict_.isProved ? LaunchSizes::Choice::All
           : options_.isQuick ? LaunchSizes::Choice::Few
                              : LaunchSizes::Choice::AroundBlocks;
  }
  /// Work that is left.
  [[nodiscard]] uint64_t left() const {
    const uint64_t all =
        !verdict_.isProved
            ? (slice_.data.empty() ? options_.work : std::min(options_.work, kWorkWithData))
        : options_.isQuick ? kQuickWorkBesideProof
                           : std::min(options_.work, kWorkBesideProof);
    return all > used_ ? all - used_ : 0;
  }

  ir::Module &module_;
  Op &kernel_;
  const CheckOptions &options_;
  Diagnostics &diagnostics_;
  ControlSlice slice_;
  LaunchSizes sizes_;
  SizeRelations relations_;
  Verdict verdict_;
  /// Outputs and notifies that were warned about.
  llvm::SmallPtrSet<const Op *, 4> warned_;
  /// Numbers of ranks to run.
  std::vector<int> ranks_;
  int64_t launches_ = 2;
  /// Why the last run was given up.
  enum class Cut : uint8_t { No, Work, Memory, Data } cut_ = Cut::No;
  uint64_t used_ = 0;
  /// Pairs of accesses that were looked at with data.
  std::vector<std::pair<const Op *, const Op *>> triedWithData_;
  /// The run at hand is one that only the kernel's own numbers ask for.
  bool isBeyond_ = false;
};

/// Whether a space runs so many bodies at once, in any order.
bool pinsPrograms(Op &kernel) {
  return llvm::any_of(kernel.body().ops(), [](const Op &op) {
    return op.is(OpKind::Space) && op.getOr(ir::attr::programs, 0) != 0 &&
           !op.get(ir::attr::ordered);
  });
}

/// Whether callers read it when the kernel has ended.
bool isForCallers(const Op &op) {
  return op.is(OpKind::Param) && (op.get(ir::attr::mode) == ir::ParamMode::Out ||
                                  op.get(ir::attr::mode) == ir::ParamMode::InOut ||
                                  op.get(ir::attr::mode) == ir::ParamMode::Symm);
}

std::string nameOf(const Op &param) {
  return param.has(ir::attr::name) ? "`" + param.get(ir::attr::name).str() + "`" : "memory";
}

/// The rank that a size is computed from, or null.
const Op *dependsOnRank(const ir::Value *size) {
  llvm::SmallVector<const ir::Value *, 8> work{size};
  llvm::SmallPtrSet<const ir::Value *, 16> seen;
  while (!work.empty()) {
    const ir::Value *value = work.pop_back_val();
    const Op *op = value->definingOp();
    if (!op || !seen.insert(value).second)
      continue;
    if (op->is(OpKind::Rank))
      return op;
    llvm::append_range(work, op->operands());
  }
  return nullptr;
}

/// Runs take several values of this scalar, as they do of sizes.
bool KernelChecker::isChosen(const Op *scalar) const {
  return llvm::any_of(sizes_.symbols(),
                      [&](const SizeSymbol &symbol) { return symbol.dim == scalar; });
}

/// No scalar that decides what happens was invented.
bool KernelChecker::knowsScalars() const {
  return llvm::all_of(slice_.scalars, [&](const Op *scalar) { return isChosen(scalar); });
}

void KernelChecker::findUndecided() {
  const auto add = [&](const Op *op, std::string text) {
    const bool isKnown = llvm::any_of(verdict_.undecided, [&](const Undecided &known) {
      return known.op->loc() == op->loc() || known.text == text;
    });
    if (!isKnown)
      verdict_.undecided.push_back({op, std::move(text)});
  };
  for (const Op *read : slice_.data) {
    const Op *param = interpret::rootParam(read->operand(0));
    const bool isMadeUp = param && llvm::any_of(param->result()->uses(), [](const ir::Use &use) {
                            return use.user->is(OpKind::LaunchElements);
                          });
    add(read,
        "what happens depends on data of " + (param ? nameOf(*param) : "memory") +
            (isMadeUp ? ", which was made up as it is required" : ", which was taken to be zeros"));
  }
  for (const Op *scalar : slice_.scalars)
    if (!isChosen(scalar))
      add(scalar, "what happens depends on the argument " + nameOf(*scalar) +
                      ", which was taken to be zero");
  for (const Op *op : slice_.indexed) {
    const Op *param = interpret::rootParam(op->operand(op->is(OpKind::Gather) ? 0 : 1));
    add(op, "which elements of " + (param ? nameOf(*param) : "memory") +
                " are touched depends on data");
  }
}

/// Whether bodies can meet at all: in signals, or in memory that more than one may write.
bool KernelChecker::hasSomethingToCheck() {
  bool found = false;
  walk(kernel_, [&](Op &op) {
    found |= op.hasEffect(ir::Write | ir::RemoteWrite | ir::RemoteRead | ir::Signal | ir::Wait) ||
             op.is(OpKind::SigSlice) || op.is(OpKind::While);
  });
  return found;
}

void KernelChecker::addSizes(const SizeValues &values) {
  for (size_t s = 0; s < values.size(); ++s)
    if (!llvm::is_contained(verdict_.sizes[s].values, values[s]))
      verdict_.sizes[s].values.push_back(values[s]);
}

/// Whether data decides which parts of an object are written.
bool KernelChecker::isWrittenFromData(const Op *object) const {
  bool isFrom = false;
  walk(kernel_, [&](Op &op) {
    if (op.hasEffect(ir::Write | ir::RemoteWrite) && op.numOperands() > 1)
      for (unsigned i = 0; i < 2; ++i)
        if (op.operand(i)->type().isView() && interpret::rootParam(op.operand(i)) == object)
          isFrom |= hasPlaceFromData(op) || llvm::is_contained(slice_.indexed, &op);
  });
  return isFrom;
}

/// Invented data decides where it happens, so it may never happen.
bool KernelChecker::isFromData(const Finding &finding) const {
  if (hasPlaceFromData(*finding.first.op) || hasPlaceFromData(*finding.second.op))
    return true;
  if (finding.kind == Finding::Kind::NeverWritten)
    return isWrittenFromData(finding.object);
  if (finding.kind != Finding::Kind::Deadlock)
    return false;
  const Op *signal = finding.first.op->is(OpKind::Wait)
                         ? interpret::rootParam(finding.first.op->operand(0))
                         : nullptr;
  bool isFrom = false;
  walk(kernel_, [&](Op &op) {
    const bool notifies = op.is(OpKind::Notify) || op.is(OpKind::PutSignal);
    if (notifies && interpret::rootParam(op.operand(op.is(OpKind::Notify) ? 0 : 2)) == signal)
      isFrom |= hasPlaceFromData(op);
  });
  return isFrom;
}

bool KernelChecker::judge(const RunError *error, const RaceDetector &detector, const Case &at) {
  const auto isReal = [&](const Finding &finding) { return !isFromData(finding); };
  if (error && error->kind == RunError::Kind::Deadlock) {
    std::vector<Finding> stuck;
    llvm::copy_if(detector.stuckBodies(), std::back_inserter(stuck), isReal);
    if (!stuck.empty()) {
      reportDeadlock(diagnostics_, at, stuck);
      return false;
    }
  }
  const bool isKnown = slice_.data.empty() && slice_.scalars.empty();
  // What data decides elsewhere has no part in it; scalars are what a caller may pass.
  const bool isKnownHere =
      isKnown || (knowsScalars() && error && error->op && !isMadeFromData(*error->op));
  if (error && error->kind == RunError::Kind::Trap && isKnownHere) {
    reportTrap(diagnostics_, at, *error);
    return false;
  }
  if (error && error->kind == RunError::Kind::Endless && isKnown) {
    reportEndless(diagnostics_, at, *error);
    return false;
  }
  bool isFine = true;
  for (const Finding &finding : detector.findings())
    if (isReal(finding)) {
      reportFinding(diagnostics_, at, finding);
      isFine = false;
    }
  return isFine;
}

namespace {

/// Whether data decides of two accesses that race only whether they happen, not where.
bool mayBeReached(const Finding &finding) {
  return (finding.kind == Finding::Kind::Race || finding.kind == Finding::Kind::Overwrite) &&
         !hasRegionFromData(*finding.first.op) && !hasRegionFromData(*finding.second.op);
}

} // namespace

/// A race that only data leads to, as where an `if` of what was read is around it: it is one, if a
/// run with data comes to it. Inputs are zeros there, or what clauses say; what peers have written
/// is what they wrote. False after an error.
bool KernelChecker::confirmWithData(const RaceDetector &detector, const Case &at) {
  if (slice_.data.empty() || !knowsScalars() || !verdict_.unfilled.empty())
    return true;
  using Ops = std::pair<const Op *, const Op *>;
  const auto pairOf = [](const Finding &finding) {
    return Ops(std::minmax(finding.first.op, finding.second.op));
  };
  for (const Finding &finding : detector.findings()) {
    if (!isFromData(finding) || !mayBeReached(finding) ||
        llvm::is_contained(triedWithData_, pairOf(finding)) ||
        triedWithData_.size() == kMostRunsWithData)
      continue;
    triedWithData_.emplace_back(pairOf(finding));
    interpret::Schedule schedule;
    schedule.maxSteps = kStepsWithData;
    RaceDetector second(at.ranks, RaceDetector::Explain::Yes, nullptr,
                        Budget{options_.bytes, kStepsWithData});
    schedule.stop = &second.isOver();
    interpret::Machine machine(module_, at.ranks, schedule);
    RunArguments arguments;
    if (!arguments.make(kernel_, sizes_, at.values, at.ranks, machine))
      continue;
    machine.observe(&second);
    const auto error = machine.launchRepeat(verdict_.kernel, arguments.ofRank, launches_);
    second.finish(!error);
    for (Finding found : second.findings()) {
      if (!mayBeReached(found) || pairOf(found) != pairOf(finding))
        continue;
      const Op *read = slice_.data.front();
      found.notes.push_back({read, "so it is where inputs are zeros, or as clauses say"});
      reportFinding(diagnostics_, at, found);
      return false;
    }
  }
  return true;
}

/// Outputs of which something stays as it was, each once. Where data or an argument decides what
/// happens, others may write it; a quick check runs as much as there is time for.
void KernelChecker::warnOfLeftOut(RaceDetector &detector, const Case &at) {
  if (options_.isQuick || !slice_.data.empty() || !slice_.scalars.empty() ||
      !slice_.indexed.empty())
    return;
  for (const LeftOut &part : detector.leftOut())
    if (warned_.insert(part.param).second)
      reportLeftOut(diagnostics_, at, part);
}

/// Whether what a run leaves out may cover cells of a notify: waits at places from data, polls.
bool KernelChecker::isWaitedForElsewhere(const Op &notify) const {
  const auto signalOf = [](const Op &op) {
    return interpret::rootParam(op.operand(op.is(OpKind::PutSignal) ? 2 : 0));
  };
  bool isElsewhere = hasPlaceFromData(notify);
  walk(kernel_, [&](Op &op) {
    if ((op.is(OpKind::Wait) || op.is(OpKind::Poll)) && signalOf(op) == signalOf(notify))
      isElsewhere |= op.is(OpKind::Poll) || hasPlaceFromData(op);
  });
  return isElsewhere;
}

/// Cells that are notified for nobody, once a notify. Where a size is 0, there may be nobody to
/// tell.
void KernelChecker::warnOfUnheard(const RaceDetector &detector, const Case &at) {
  if (options_.isQuick || llvm::is_contained(at.values, 0))
    return;
  for (const Unheard &cell : detector.unheard())
    if (warned_.insert(cell.notify).second && !isWaitedForElsewhere(*cell.notify))
      reportUnheard(diagnostics_, at, cell);
}

bool KernelChecker::runOnce(int ranks, const SizeValues &values) {
  RaceDetector first(ranks, RaceDetector::Explain::No, nullptr,
                     Budget{options_.bytes, share(ranks)});
  std::unique_ptr<RunError> error;
  const uint64_t before = used_;
  if (!watch(first, ranks, values, error))
    return true;
  const uint64_t work = used_ - before;
  // Which of several notifies come first is known when all have been seen; what explains findings
  // is only kept where there are some that are reported.
  std::optional<RaceDetector> second;
  const bool isOver = first.isOver();
  const bool hasFindings = !first.findings().empty();
  const bool isReported =
      llvm::any_of(first.findings(), [&](const Finding &finding) { return !isFromData(finding); });
  const bool isOrderOpen = first.needsAnother() && !isOver;
  const bool wouldFindTheSame = !first.needsAnother() && !isOver && work < share(ranks);
  if (isOrderOpen || isReported || (hasFindings && !wouldFindTheSame)) {
    second.emplace(ranks, RaceDetector::Explain::Yes, isOver ? nullptr : &first,
                   Budget{options_.bytes});
    watch(*second, ranks, values, error);
  } else if (hasFindings) {
    // A run with findings counts twice, whatever becomes of them: for what sizes a budget is enough
    // does not depend on that.
    used_ += work;
  }
  const Case at{kernel_, ranks, sizes_.symbols(), values, &options_};
  if (error && error->op && error->kind == RunError::Kind::Trap && ir::isPrecondition(*error->op))
    return true;
  if (error && error->op && error->kind == RunError::Kind::Trap && ir::isAssumption(*error->op)) {
    // What was shown rests on it.
    verdict_.isProved = false;
    reportFalseAssumption(diagnostics_, at, *error);
    ++verdict_.runs;
    return false;
  }
  // An assertion that fails beyond the kernel's own numbers says how far launches may go.
  if (error && error->kind == RunError::Kind::Trap && isBeyond_ && error->op &&
      error->op->is(OpKind::Assert))
    return true;
  const bool isExplained = second && !(second->isOver() && second->findings().empty());
  const RaceDetector &seen = isExplained ? *second : first;
  if (!judge(error.get(), seen, at) || !confirmWithData(seen, at)) {
    ++verdict_.runs;
    return false;
  }
  // What data decides was invented, and an assertion about it, or a loop, has ended the run early.
  if (error && (error->kind == RunError::Kind::Trap || error->kind == RunError::Kind::Endless)) {
    cut_ = Cut::Data;
    return true;
  }
  const bool isLong = error && error->kind == RunError::Kind::StepLimit;
  if (isOver || isLong || (second && second->isOver())) {
    cut_ = first.isFull() || (second && second->isFull()) ? Cut::Memory : Cut::Work;
    return true;
  }
  ++verdict_.runs;
  warnOfLeftOut(first, at);
  warnOfUnheard(first, at);
  addSizes(values);
  return true;
}

/// Runs the launches under a detector; false where the kernel refuses the sizes, which is no
/// mistake; nor is an assertion about them, with which such a run ends.
bool KernelChecker::watch(RaceDetector &detector, int ranks, const SizeValues &values,
                          std::unique_ptr<RunError> &error) {
  interpret::Schedule schedule;
  schedule.controlOnly = true;
  schedule.maxSteps = std::max<uint64_t>(1, share(ranks));
  schedule.stop = &detector.isOver();
  interpret::Machine machine(module_, ranks, schedule);
  RunArguments arguments;
  if (!arguments.make(kernel_, sizes_, values, ranks, machine))
    return false;
  for (const Op *param : arguments.unfilled)
    if (!llvm::is_contained(verdict_.unfilled, nameOf(*param)))
      verdict_.unfilled.push_back(nameOf(*param));
  machine.observe(&detector);
  error = machine.launchRepeat(kernel_.get(ir::attr::name).str(), arguments.ofRank, launches_);
  used_ += machine.steps() + detector.work();
  if (error && error->kind == RunError::Kind::BadArgument)
    return false;
  detector.finish(!error);
  return true;
}

bool KernelChecker::checkSymmetry() {
  bool isFine = true;
  for (const Op &op : kernel_.body().ops()) {
    const bool isSymmetric =
        op.is(OpKind::SignalParam) ||
        (op.is(OpKind::Param) && (op.get(ir::attr::mode) == ir::ParamMode::Symm ||
                                  op.get(ir::attr::mode) == ir::ParamMode::Scratch));
    if (!isSymmetric)
      continue;
    for (const ir::Value *size : op.operands())
      if (const Op *rank = dependsOnRank(size)) {
        DiagBuilder builder = diagnostics_.report(
            SourceRange{op.loc(), op.loc()}, diag::size_depends_on_rank, op.get(ir::attr::name));
        builder.note(SourceRange{rank->loc(), rank->loc()}, diag::note_protocol,
                     "the rank comes from here; take the largest size that any rank needs");
        isFine = false;
        break;
      }
  }
  return isFine;
}

/// False after an error: nobody can launch it.
bool KernelChecker::checkHasLaunches() {
  if (!leavesNoLaunch(kernel_))
    return true;
  const std::vector<Op *> clauses = ir::clausesOf(kernel_);
  const Op &place = clauses.empty() ? kernel_ : *clauses.front();
  diagnostics_.report(
      SourceRange{place.loc(), place.loc()}, diag::protocol_no_launch, verdict_.kernel,
      "no W, sizes and scalars are as its clauses and its assertions about them say");
  return false;
}

/// What the kernel ensures, where nothing depends on data.
void KernelChecker::checkPromised() {
  const auto add = [&](const Promise &promise, const std::string &why) {
    verdict_.undecidedPromises.emplace_back(promise.place.begin, why);
  };
  const bool isData = !slice_.data.empty() || !slice_.indexed.empty() || !knowsScalars();
  if (isData) {
    for (const Promise &promise : options_.promises)
      if (promise.kernel == verdict_.kernel)
        add(promise, "what happens depends on data");
    return;
  }
  const KeptPromises kept = checkPromises(
      kernel_, options_.promises, options_.ranks, options_.areRanksGiven,
      options_.isQuick ? kQuickWorkOfPromises : std::min(options_.work, kWorkOfPromises),
      diagnostics_);
  verdict_.isFine &= !kept.isRefused;
  verdict_.promiseRanks = kept.ranks;
  verdict_.promisesKept = kept.kept;
  verdict_.arePromisesCutShort = kept.isCutShort;
  for (const auto &[promise, why] : kept.undecided)
    add(*promise, why);
}

/// A proof holds for all data, ranks and sizes; runs beside it are there to contradict it.
void KernelChecker::prove() {
  verdict_.proof = options_.proof ? *options_.proof : proveProtocol(kernel_);
  verdict_.isProved = verdict_.proof.isComplete();
  verdict_.unproved = verdict_.proof.unproved;
  if (verdict_.isProved)
    verdict_.undecided.clear();
  // Runs take iterations in one order.
  llvm::erase_if(verdict_.unproved, [&](const Unproved &unproved) {
    if (unproved.kind != Unproved::Kind::AnyOrder)
      return false;
    verdict_.undecided.push_back({unproved.op, "it is not shown " + unproved.text});
    return true;
  });
}

/// Numbers of ranks to run: those asked for; where nobody has asked and nothing is proved, also
/// those with which ranks go beyond the kernel's own numbers.
void KernelChecker::chooseRanks() {
  if (verdict_.isProved) {
    for (const int ranks : options_.ranks)
      (ranks > kMostRanksBesideProof ? verdict_.notRun : ranks_).push_back(ranks);
    return;
  }
  ranks_ = options_.ranks;
  if (options_.areRanksGiven)
    return;
  for (const int64_t ranks : sizes_.reach().ranks)
    if (!llvm::is_contained(ranks_, int(ranks)))
      ranks_.push_back(int(ranks));
  for (const Op *op : sizes_.reach().beyond)
    verdict_.undecided.push_back(
        {op, "runs do not reach the number that ranks, sizes or launches meet here"});
}

Progress KernelChecker::checkRoom() {
  if (!options_.scheduled)
    return checkProgress(module_, kernel_, sizes_, ranks_, *options_.machine, diagnostics_);
  ir::Module &scheduled = *options_.scheduled;
  for (Op &kernel : scheduled.body().ops())
    if (kernel.is(OpKind::Kernel) && kernel.get(ir::attr::name) == verdict_.kernel) {
      const LaunchSizes sizes(kernel, interpret::sliceControl(kernel));
      return checkProgress(scheduled, kernel, sizes, ranks_, *options_.machine, diagnostics_);
    }
  DTILE_UNREACHABLE("a kernel that is checked is scheduled, too");
}

/// Each choice of sizes once, the first ones with all numbers of ranks before the next; false after
/// an error.
bool KernelChecker::runFor(llvm::ArrayRef<int> numbers) {
  struct Runs {
    int ranks;
    std::vector<SizeValues> choices;
    /// Those of them that are around blocks.
    std::vector<SizeValues> usual;
    Cut cut = Cut::No;
    int64_t done = 0;
    bool isStopped = false;
  };
  std::vector<Runs> all;
  size_t rounds = 0;
  for (const int ranks : numbers) {
    std::vector<SizeValues> choices = sizes_.choose(ranks, choice());
    if (ranks > kMostRanksOfAllSizes && choices.size() > kSizesOfManyRanks)
      choices.resize(kSizesOfManyRanks);
    else if (choice() == LaunchSizes::Choice::All)
      llvm::append_range(choices, relations_.solve(ranks, choices));
    rounds = std::max(rounds, choices.size());
    all.push_back(
        {ranks, std::move(choices), sizes_.choose(ranks, LaunchSizes::Choice::AroundBlocks)});
  }
  for (size_t round = 0; round < rounds; ++round)
    for (Runs &runs : all) {
      if (round >= runs.choices.size() || runs.cut != Cut::No)
        continue;
      cut_ = left() == 0 ? Cut::Work : Cut::No;
      isBeyond_ = !llvm::is_contained(runs.usual, runs.choices[round]) ||
                  !llvm::is_contained(options_.ranks, runs.ranks);
      const int64_t before = verdict_.runs;
      if (cut_ == Cut::No && !runOnce(runs.ranks, runs.choices[round])) {
        verdict_.isFine = false;
        verdict_.isContradicted = verdict_.isProved;
        return false;
      }
      runs.done += verdict_.runs - before;
      // Other sizes may get further.
      if (cut_ == Cut::Data)
        runs.isStopped = true;
      else
        runs.cut = cut_;
    }
  // Beside a proof it does not matter what was left out.
  const auto isRun = [&](const Runs &runs) { return verdict_.isProved && runs.done != 0; };
  for (const Runs &runs : all)
    if (!isRun(runs) && runs.done != 0 && (runs.cut != Cut::No || runs.isStopped))
      verdict_.inPart.push_back(runs.ranks);
  for (const Runs &runs : all)
    (isRun(runs)               ? verdict_.ranks
     : runs.cut == Cut::Work   ? verdict_.cutShort
     : runs.cut == Cut::Memory ? verdict_.tooLarge
     : runs.isStopped          ? verdict_.stopped
     : runs.done == 0          ? verdict_.notTaken
                               : verdict_.ranks)
        .push_back(runs.ranks);
  return true;
}

/// A kernel's assertions may leave few ranks (`W == P * P`); who has chosen ranks gets those. False
/// after an error.
bool KernelChecker::runOtherRanks() {
  const size_t taken = ranks_.size() - std::min(ranks_.size(), verdict_.notTaken.size());
  if (options_.areRanksGiven || taken > kFewRanks || verdict_.isProved)
    return true;
  std::vector<int> others;
  for (int ranks = 1; ranks <= kMostOtherRanks && others.size() < kOtherRanks; ++ranks)
    if (!llvm::is_contained(ranks_, ranks) && sizes_.isAnyAllowed(ranks))
      others.push_back(ranks);
  return runFor(others);
}

Verdict KernelChecker::run() {
  verdict_.kernel = kernel_.get(ir::attr::name).str();
  verdict_.place = kernel_.loc();
  for (const SizeSymbol &symbol : sizes_.symbols())
    verdict_.sizes.push_back({symbol.name, {}});
  verdict_.required = ir::requirementsOf(kernel_);
  // A proof takes them to be, and so does whoever counts what others notify.
  for (const Op *scalar : slice_.scalars)
    verdict_.required.push_back(nameOf(*scalar) + " is the same on all ranks");
  for (const Op *dim : ir::dimsSeenByPeers(kernel_))
    for (const SizeSymbol &symbol : sizes_.symbols())
      if (symbol.dim == dim)
        verdict_.required.push_back("`" + symbol.name + "` is the same on all ranks");
  verdict_.assumed = ir::assumptionsOf(kernel_);
  verdict_.areValuesUnsaid = llvm::any_of(kernel_.body().ops(), isForCallers) &&
                             llvm::none_of(options_.promises, [&](const Promise &promise) {
                               return promise.kernel == verdict_.kernel;
                             });
  verdict_.isFine = checkSymmetry() && checkHasLaunches();
  if (!verdict_.isFine || !hasSomethingToCheck())
    return std::move(verdict_);
  findUndecided();
  prove();
  chooseRanks();
  // With buffers that are taken in turn, the third launch is the first to meet the first one's.
  if (sizes_.reach().launches != 0)
    launches_ = std::max<int64_t>(3, sizes_.reach().launches);
  if (!runFor(ranks_) || !runOtherRanks())
    return std::move(verdict_);
  verdict_.machine = options_.machine;
  // Where there is room for everything it is only told, and a build tells nothing.
  if (!options_.isQuick || options_.machine->residentPrograms() != 0 || pinsPrograms(kernel_))
    verdict_.progress = checkRoom();
  verdict_.isFine = !verdict_.progress.isRefused;
  checkPromised();
  if (verdict_.runs == 0 && !verdict_.isProved && !verdict_.notTaken.empty())
    verdict_.undecided.push_back({&kernel_, "no sizes are known for which it runs"});
  return std::move(verdict_);
}

} // namespace

std::vector<Verdict> checkProtocol(ir::Module &module, const CheckOptions &options,
                                   Diagnostics &diagnostics) {
  PhaseScope phase("checking communication");
  std::vector<Verdict> verdicts;
  for (Op &op : module.body().ops())
    if (op.is(OpKind::Kernel))
      verdicts.push_back(KernelChecker(module, op, options, diagnostics).run());
  return verdicts;
}

} // namespace dtile::protocol
