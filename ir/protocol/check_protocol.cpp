// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Signals only grow and waits only ask for at least so much, so one run to its end decides for
// given ranks and sizes whether any run can hang; what the run's order does not forbid is a race
// however the run went. So each choice of ranks and sizes is run once.
#include "ir/protocol/check_protocol.h"

#include "frontend/base/check.h"
#include "ir/analysis/launch_values.h"
#include "ir/interpret/interpreter.h"
#include "ir/protocol/check_progress.h"
#include "ir/protocol/check_promises.h"
#include "ir/protocol/launch_sizes.h"
#include "ir/protocol/race_detector.h"
#include "ir/protocol/report_finding.h"
#include "ir/protocol/run_arguments.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallPtrSet.h"

#include <algorithm>
#include <chrono>

namespace dtile::protocol {

using interpret::ControlSlice;
using interpret::RunError;
using ir::Op;
using ir::OpKind;

namespace {

/// Operations that one run may execute.
constexpr uint64_t kMaxSteps = 20'000'000;
/// More ranks than this are left to the proof where there is one.
constexpr int kMostRanksBesideProof = 8;
/// Numbers of ranks that a quick check tries where it may run none of the fewer.
constexpr int kMoreRanks[] = {5, 6, 7, 8};
/// What a quick check spends on contradicting a proof.
constexpr double kSecondsBesideProof = 0.05;

/// Checks one kernel.
class KernelChecker {
public:
  KernelChecker(ir::Module &module, Op &kernel, const CheckOptions &options,
                Diagnostics &diagnostics)
      : module_(module), kernel_(kernel), options_(options), diagnostics_(diagnostics),
        slice_(interpret::sliceControl(kernel)), sizes_(kernel, slice_) {}

  Verdict run();

private:
  void findUndecided();
  void prove();
  void checkPromised();
  Progress checkRoom();
  /// False after an error: a symmetric object is larger on one rank than on another.
  [[nodiscard]] bool checkSymmetry();
  [[nodiscard]] bool hasSomethingToCheck();
  /// False when the verdict is known: an error was reported.
  [[nodiscard]] bool runFor(llvm::ArrayRef<int> numbers);
  bool runOnce(int ranks, const SizeValues &values);
  bool watch(RaceDetector &detector, int ranks, const SizeValues &values,
             std::unique_ptr<RunError> &error);
  bool judge(const RunError *error, const RaceDetector &detector, const Case &at);
  bool isFromData(const Finding &finding) const;
  bool isWrittenFromData(const Op *object) const;
  void warnOfLeftOut(RaceDetector &detector, const Case &at);
  void addSizes(const SizeValues &values);
  /// For one more run: it may go on for a while beyond the time for all.
  [[nodiscard]] Budget budget() const {
    constexpr double kLeastSeconds = 1;
    const std::chrono::duration<double> all(std::max(kLeastSeconds, 1.25 * seconds()));
    return {options_.bytes,
            start_ + std::chrono::duration_cast<std::chrono::steady_clock::duration>(all)};
  }
  [[nodiscard]] bool isBesideProof() const { return options_.isQuick && verdict_.isProved; }
  [[nodiscard]] double seconds() const {
    return isBesideProof() ? kSecondsBesideProof : options_.seconds;
  }
  [[nodiscard]] double elapsed() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

  ir::Module &module_;
  Op &kernel_;
  const CheckOptions &options_;
  Diagnostics &diagnostics_;
  ControlSlice slice_;
  LaunchSizes sizes_;
  Verdict verdict_;
  /// Outputs that were warned about.
  llvm::SmallPtrSet<const Op *, 4> warned_;
  /// Numbers of ranks to run.
  std::vector<int> ranks_;
  int64_t launches_ = 2;
  /// Why the last run was given up.
  enum class Cut : uint8_t { No, Time, Memory, Data } cut_ = Cut::No;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

std::string nameOf(const Op &param) {
  return param.hasAttr("name") ? "`" + param.strAttr("name").str() + "`" : "memory";
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
    add(read, "what happens depends on data of " + (param ? nameOf(*param) : "memory") +
                  ", which was taken to be zeros");
  }
  for (const Op *scalar : slice_.scalars)
    add(scalar,
        "what happens depends on the argument " + nameOf(*scalar) + ", which was taken to be zero");
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
    found |= op.hasEffect(ir::Write | ir::RemoteWrite | ir::RemoteRead | ir::Signal | ir::Wait);
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
          isFrom |= hasPlaceFromData(op);
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
  if (error && error->kind == RunError::Kind::Trap && slice_.data.empty() &&
      slice_.scalars.empty()) {
    reportTrap(diagnostics_, at, *error);
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

bool KernelChecker::runOnce(int ranks, const SizeValues &values) {
  RaceDetector first(ranks, RaceDetector::Explain::No, nullptr, budget());
  std::unique_ptr<RunError> error;
  if (!watch(first, ranks, values, error))
    return true;
  // Which of several notifies come first is known when all have been seen; what explains findings
  // is only kept where there are some.
  std::optional<RaceDetector> second;
  const bool isOver = first.isOver();
  if ((first.needsAnother() && !isOver) || !first.findings().empty()) {
    second.emplace(ranks, RaceDetector::Explain::Yes, isOver ? nullptr : &first,
                   Budget{options_.bytes});
    watch(*second, ranks, values, error);
  }
  const Case at{kernel_, ranks, sizes_.symbols(), values, &options_};
  if (error && error->op && error->kind == RunError::Kind::Trap && ir::isPrecondition(*error->op))
    return true;
  const bool isExplained = second && !(second->isOver() && second->findings().empty());
  if (!judge(error.get(), isExplained ? *second : first, at)) {
    ++verdict_.runs;
    return false;
  }
  // What data decides was invented, and an assertion about it has ended the run early.
  if (error && error->kind == RunError::Kind::Trap) {
    cut_ = Cut::Data;
    return true;
  }
  if (isOver || (second && second->isOver())) {
    cut_ = first.isFull() || (second && second->isFull()) ? Cut::Memory : Cut::Time;
    return true;
  }
  ++verdict_.runs;
  if (error && error->kind == RunError::Kind::StepLimit) {
    verdict_.undecided.push_back(
        {&kernel_, "a run for W = " + std::to_string(ranks) + " was too long: " + at.text()});
    cut_ = Cut::Time;
    return true;
  }
  warnOfLeftOut(first, at);
  addSizes(values);
  return true;
}

/// Runs the launches under a detector; false where the kernel refuses the sizes, which is no
/// mistake; nor is an assertion about them, with which such a run ends.
bool KernelChecker::watch(RaceDetector &detector, int ranks, const SizeValues &values,
                          std::unique_ptr<RunError> &error) {
  interpret::Schedule schedule;
  schedule.controlOnly = true;
  schedule.maxSteps = kMaxSteps;
  schedule.stop = &detector.isOver();
  interpret::Machine machine(module_, ranks, schedule);
  RunArguments arguments;
  if (!arguments.make(kernel_, sizes_, values, ranks, machine))
    return false;
  machine.observe(&detector);
  error = machine.launchRepeat(kernel_.strAttr("name").str(), arguments.ofRank, launches_);
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
        (op.is(OpKind::Param) && (op.strAttr("mode") == "symm" || op.strAttr("mode") == "scratch"));
    if (!isSymmetric)
      continue;
    for (const ir::Value *size : op.operands())
      if (const Op *rank = dependsOnRank(size)) {
        DiagBuilder builder = diagnostics_.report(SourceRange{op.loc(), op.loc()},
                                                  diag::size_depends_on_rank, op.strAttr("name"));
        builder.note(SourceRange{rank->loc(), rank->loc()}, diag::note_protocol,
                     "the rank comes from here; take the largest size that any rank needs");
        isFine = false;
        break;
      }
  }
  return isFine;
}

/// What the kernel ensures, where nothing depends on data.
void KernelChecker::checkPromised() {
  const auto add = [&](const Promise &promise, const std::string &why) {
    verdict_.undecidedPromises.emplace_back(promise.place.begin, why);
  };
  const bool isData = !slice_.data.empty() || !slice_.scalars.empty() || !slice_.indexed.empty();
  if (isData) {
    for (const Promise &promise : options_.promises)
      if (promise.kernel == verdict_.kernel)
        add(promise, "what happens depends on data");
    return;
  }
  const KeptPromises kept = checkPromises(kernel_, options_.promises, sizes_, options_.ranks,
                                          options_.seconds / 2, diagnostics_);
  verdict_.isFine &= !kept.isRefused;
  verdict_.promiseRanks = kept.ranks;
  verdict_.promisesKept = kept.kept;
  for (const auto &[promise, why] : kept.undecided)
    add(*promise, why);
}

/// A proof holds for all data, ranks and sizes; runs beside it are there to contradict it.
void KernelChecker::prove() {
  Proof proof = proveProtocol(kernel_);
  verdict_.isProved = proof.isComplete();
  verdict_.unproved = std::move(proof.unproved);
  if (!verdict_.isProved)
    return;
  verdict_.undecided.clear();
  for (const int ranks : options_.ranks)
    (ranks > kMostRanksBesideProof ? verdict_.notRun : ranks_).push_back(ranks);
}

Progress KernelChecker::checkRoom() {
  if (!options_.scheduled)
    return checkProgress(module_, kernel_, sizes_, ranks_, *options_.machine, diagnostics_);
  ir::Module &scheduled = *options_.scheduled;
  for (Op &kernel : scheduled.body().ops())
    if (kernel.is(OpKind::Kernel) && kernel.strAttr("name") == verdict_.kernel) {
      const LaunchSizes sizes(kernel, interpret::sliceControl(kernel));
      return checkProgress(scheduled, kernel, sizes, ranks_, *options_.machine, diagnostics_);
    }
  DTILE_UNREACHABLE("a kernel that is checked is scheduled, too");
}

/// Each choice of sizes once; false after an error.
bool KernelChecker::runFor(llvm::ArrayRef<int> numbers) {
  for (const int ranks : numbers) {
    cut_ = Cut::No;
    const int64_t runsBefore = verdict_.runs;
    bool isStopped = false;
    for (const SizeValues &values : sizes_.choose(ranks, isBesideProof())) {
      if (elapsed() > seconds())
        cut_ = Cut::Time;
      if (cut_ != Cut::No)
        break;
      if (!runOnce(ranks, values)) {
        verdict_.isFine = false;
        verdict_.isContradicted = verdict_.isProved;
        return false;
      }
      // Other sizes may get further.
      if (cut_ == Cut::Data) {
        isStopped = true;
        cut_ = Cut::No;
      }
    }
    (cut_ == Cut::Time             ? verdict_.cutShort
     : cut_ == Cut::Memory         ? verdict_.tooLarge
     : isStopped                   ? verdict_.stopped
     : verdict_.runs == runsBefore ? verdict_.notTaken
                                   : verdict_.ranks)
        .push_back(ranks);
  }
  return true;
}

Verdict KernelChecker::run() {
  verdict_.kernel = kernel_.strAttr("name").str();
  verdict_.place = kernel_.loc();
  for (const SizeSymbol &symbol : sizes_.symbols())
    verdict_.sizes.push_back({symbol.name, {}});
  verdict_.isFine = checkSymmetry();
  if (!verdict_.isFine || !hasSomethingToCheck())
    return std::move(verdict_);
  findUndecided();
  prove();
  start_ = std::chrono::steady_clock::now();
  if (!verdict_.isProved)
    ranks_ = options_.ranks;
  // With buffers that are taken in turn, the third launch is the first to meet the first one's.
  walk(kernel_, [&](Op &op) {
    if (op.is(OpKind::Epoch))
      launches_ = 3;
  });
  if (!runFor(ranks_))
    return std::move(verdict_);
  // Few ranks may be what its assertions leave out; who has chosen ranks gets those.
  const bool isNoneTaken = verdict_.runs == 0 && verdict_.notTaken.size() == ranks_.size();
  if (options_.isQuick && isNoneTaken && !verdict_.isProved && !runFor(kMoreRanks))
    return std::move(verdict_);
  verdict_.machine = options_.machine;
  // Where there is room for everything it is only told, and a build tells nothing.
  if (!options_.isQuick || options_.machine->residentPrograms() != 0)
    verdict_.progress = checkRoom();
  verdict_.isFine = !verdict_.progress.isRefused;
  checkPromised();
  if (verdict_.runs == 0 && !verdict_.isProved)
    verdict_.undecided.push_back({&kernel_, "no sizes are known for which it runs"});
  return std::move(verdict_);
}

std::string setText(std::vector<int64_t> values) {
  llvm::sort(values);
  const bool isRun =
      values.size() > 2 && values.back() - values.front() == int64_t(values.size()) - 1;
  if (isRun)
    return "{" + std::to_string(values.front()) + ".." + std::to_string(values.back()) + "}";
  std::string text = "{";
  for (size_t i = 0; i < values.size(); ++i)
    text += (i ? ", " : "") + std::to_string(values[i]);
  return text + "}";
}

std::string placeText(SourceLoc loc, const SourceManager *sources) {
  if (!sources || !loc.isValid())
    return "";
  const PresumedLoc at = sources->presumed(loc);
  return at.file.str() + ":" + std::to_string(at.line) + ":" + std::to_string(at.column) + ": ";
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

std::string verdictText(const Verdict &verdict, const SourceManager *sources) {
  std::string text = "`" + verdict.kernel + "`: ";
  if (verdict.isContradicted)
    return text + "refused, against its proof; the checker is mistaken: please report it\n";
  if (!verdict.isFine)
    return text + "refused\n";
  if (verdict.runs == 0 && verdict.undecided.empty() && !verdict.isProved)
    return text + "nothing to check\n";
  if (verdict.isProved) {
    text += "proved for all W and all sizes";
    text += verdict.progress.needsRoom ? ", where its bodies have room" : "";
  } else if (!verdict.undecided.empty()) {
    text += "undecided";
  }
  if (!verdict.ranks.empty()) {
    text += verdict.isProved || !verdict.undecided.empty() ? "; checked for W in "
                                                           : "checked for W in ";
    text += setText({verdict.ranks.begin(), verdict.ranks.end()});
    for (const Verdict::Size &size : verdict.sizes)
      text += ", " + size.name + " in " + setText(size.values);
  }
  text += '\n';
  if (!verdict.notRun.empty())
    text += "  not run for W in " + setText({verdict.notRun.begin(), verdict.notRun.end()}) +
            ", which the proof covers\n";
  for (const Unproved &unproved : verdict.unproved) {
    text += "  " + placeText(unproved.op->loc(), sources) + "not proved: " + unproved.text;
    if (unproved.other)
      text += " (the other is at " +
              llvm::StringRef(placeText(unproved.other->loc(), sources)).rtrim(": ").str() + ")";
    text += '\n';
  }
  if (!verdict.notTaken.empty())
    text += "  its assertions leave out all sizes that were tried with W in " +
            setText({verdict.notTaken.begin(), verdict.notTaken.end()}) + '\n';
  if (!verdict.stopped.empty())
    text += "  assertions about data that was taken to be zeros end runs with W in " +
            setText({verdict.stopped.begin(), verdict.stopped.end()}) + '\n';
  if (!verdict.cutShort.empty())
    text += "  there was no time for all sizes with W in " +
            setText({verdict.cutShort.begin(), verdict.cutShort.end()}) + '\n';
  if (!verdict.tooLarge.empty())
    text += "  there was too little memory for all sizes with W in " +
            setText({verdict.tooLarge.begin(), verdict.tooLarge.end()}) + '\n';
  if (verdict.promisesKept != 0)
    text += "  what it ensures holds for W in " +
            setText({verdict.promiseRanks.begin(), verdict.promiseRanks.end()}) +
            ": each addend is there as often as it should\n";
  for (const auto &[loc, why] : verdict.undecidedPromises)
    text += "  " + placeText(loc, sources) + "what it ensures is not decided: " + why + '\n';
  if (verdict.progress.needsRoom)
    text +=
        verdict.machine->residentPrograms() == 0
            ? "  bodies of one tile space wait for each other: `--machine` says whether they fit\n"
            : "  bodies of one tile space wait for each other, and have room on `" +
                  verdict.machine->name.str() + "`\n";
  for (const Undecided &undecided : verdict.undecided) {
    text += "  " + placeText(undecided.op->loc(), sources) + undecided.text + '\n';
  }
  return text;
}

} // namespace dtile::protocol
