// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `dtilec tune`: times what a kernel leaves to the compiler, for given launches.
//
// All processes of a job measure the same configurations in the same order, and go by the longest
// time that one of them saw: so all come to one table, which process 0 writes. It writes the file
// after each launch, so that what was measured is there whatever becomes of the next one.
#include "backend/driver/execute/device_code.h"
#include "backend/driver/execute/job.h"
#include "backend/driver/output/output_file.h"
#include "backend/driver/tune/launch_text.h"
#include "backend/driver/tune/measure.h"
#include "backend/driver/tune/tuned_choices.h"
#include "backend/runtime/alternatives.h"
#include "backend/runtime/dtile.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"

#include <chrono>
#include <cmath>
#include <limits>

namespace dtile::driver {

namespace {

class TuneRun {
public:
  TuneRun(Session &session, Job *job) : session_(session), options_(session.options), job_(job) {}

  void run();

private:
  bool chooseRanks();
  bool readOld();
  /// A kernel, or several of one name, in their order; with what each is measured by.
  struct Alternative {
    const ast::KernelDecl *kernel = nullptr;
    sema::GenericArgs pins;
    const sema::KernelInstance *usual = nullptr;
    std::unique_ptr<Measurer> measurer;
  };
  bool tune(sema::Program &program, const ast::KernelDecl &named,
            llvm::ArrayRef<const ast::KernelDecl *> kernels);
  /// Without choices yet; nothing after reporting.
  std::optional<TuningSection> sectionFor(sema::Program &program, const ast::KernelDecl &named,
                                          llvm::ArrayRef<Alternative> alternatives);
  bool tuneLaunch(const ast::KernelDecl &named, llvm::ArrayRef<Alternative> alternatives,
                  const std::vector<int64_t> &sizes, TunedChoice &choice);
  std::optional<std::vector<int64_t>> readShapes(const sema::KernelInstance &usual);
  std::optional<std::vector<std::vector<int64_t>>> readLaunches(const sema::KernelInstance &usual);
  bool canWrite();
  /// Standard output gets the whole file once, at the end.
  bool write();
  [[nodiscard]] bool isForStandardOutput() const {
    return options_.output.empty() || options_.output == "-";
  }

  template <typename... Args> bool fail(diag::Id id, Args &&...args) {
    session_.diagnostics.report(SourceLoc{}, id, std::forward<Args>(args)...);
    return false;
  }
  [[nodiscard]] bool isFirst() const { return !job_ || job_->rank() == 0; }

  Session &session_;
  const Options &options_;
  Job *job_;
  int ranks_ = 1;
  TargetArch target_;
  std::string machine_;
  /// As it was at the start.
  TuningFile file_;
  std::vector<TuningSection> measured_;
  size_t launchesLeft_ = 0;
  std::chrono::steady_clock::time_point end_;
};

bool TuneRun::chooseRanks() {
  ranks_ = job_ ? job_->ranks() : 1;
  if (options_.ranks.empty())
    return true;
  const int asked = options_.ranks.front();
  ranks_ = asked;
  return checkRanks(session_, job_, asked, "dtilec tune");
}

bool TuneRun::readOld() {
  if (isForStandardOutput() || !llvm::sys::fs::exists(options_.output))
    return true;
  auto old = readTuningFile(session_, options_.output);
  if (!old)
    return false;
  file_ = std::move(*old);
  return true;
}

std::optional<std::vector<int64_t>> TuneRun::readShapes(const sema::KernelInstance &usual) {
  const auto refuse = [&](const std::string &why) {
    fail(diag::cannot_tune, usual.decl->name.name, why);
    return std::nullopt;
  };
  std::vector<std::optional<Sizes>> passed(usual.params.size());
  for (const auto &[name, text] : options_.shapes) {
    const auto param = llvm::find_if(
        usual.params, [&, &name = name](const auto &one) { return one.name == name; });
    if (param == usual.params.end() || !isLaunchArgument(*param))
      return refuse("it has no argument `" + name + "`");
    Sizes &sizes = passed[size_t(param - usual.params.begin())].emplace();
    llvm::SmallVector<llvm::StringRef> parts;
    llvm::StringRef(text).split(parts, 'x');
    for (llvm::StringRef part : parts)
      if (part.getAsInteger(10, sizes.emplace_back()) || sizes.back() < 1 ||
          sizes.back() > kLargestSize)
        return refuse("`" + text + "` is no shape, as 512x4096 is one");
  }
  auto solved = solveSizes(usual, passed, {}, ranks_);
  if (!solved)
    return refuse(llvm::toString(solved.takeError()));
  std::vector<int64_t> sizes;
  for (const SizePlace &place : sizePlaces(usual))
    if (const auto size = solved->symbols[place.symbol])
      sizes.push_back(*size);
    else
      return refuse("no shape says what `" + place.name + "` is");
  return sizes;
}

std::optional<std::vector<std::vector<int64_t>>>
TuneRun::readLaunches(const sema::KernelInstance &usual) {
  std::vector<std::vector<int64_t>> launches;
  for (const std::string &text : options_.launches)
    if (auto sizes = readLaunch(session_, usual, text))
      launches.push_back(std::move(*sizes));
    else
      return std::nullopt;
  if (options_.shapes.empty())
    return launches;
  auto sizes = readShapes(usual);
  if (!sizes)
    return std::nullopt;
  launches.push_back(std::move(*sizes));
  return launches;
}

/// Which alternative runs without a tuning file, as far as the model says: as launches do.
size_t usualOf(llvm::ArrayRef<std::optional<Fastest>> found) {
  std::vector<double> times;
  for (const std::optional<Fastest> &one : found)
    times.push_back(one ? one->estimated : std::numeric_limits<double>::infinity());
  const size_t usual = runtime::fastestAlternative(times);
  return found[usual]
             ? usual
             : size_t(llvm::find_if(found, [](const auto &one) { return one.has_value(); }) -
                      found.begin());
}

/// What was measured, beside what the model says. `alternative` is empty where there is one kernel.
void printTable(llvm::StringRef alternative, llvm::ArrayRef<Timed> all) {
  llvm::errs() << llvm::formatv("  {0,10} {1,10}  constants\n", "us", "estimated");
  for (const Timed &one : all)
    llvm::errs() << llvm::formatv("  {0,10} {1,10}  {2}{3}{4}\n", microsecondsText(one.measured),
                                  microsecondsText(one.estimated), alternative,
                                  alternative.empty() ? "" : " ", text(one.constants));
}

bool TuneRun::tuneLaunch(const ast::KernelDecl &named, llvm::ArrayRef<Alternative> alternatives,
                         const std::vector<int64_t> &sizes, TunedChoice &choice) {
  using Seconds = std::chrono::duration<double>;
  const double left = Seconds(end_ - std::chrono::steady_clock::now()).count();
  const double own = left / double(launchesLeft_--);
  choice.ranks = ranks_;
  for (auto [place, size] : llvm::zip_equal(sizePlaces(*alternatives.front().usual), sizes))
    choice.sizes.emplace_back(place.name, size);
  std::vector<std::optional<Fastest>> found;
  std::string why;
  size_t measured = 0, possible = 0;
  for (const Alternative &one : alternatives) {
    // Alternatives have the same sizes, perhaps in another order.
    std::vector<int64_t> ordered;
    for (const SizePlace &place : sizePlaces(*one.usual))
      ordered.push_back(llvm::find_if(choice.sizes, [&](const auto &size) {
                          return size.first == place.name;
                        })->second);
    auto fastest = one.measurer->measure(ordered, own / double(alternatives.size()));
    one.measurer->reportFailures();
    if (fastest) {
      measured += fastest->measured;
      possible += fastest->possible;
      found.emplace_back(std::move(*fastest));
      continue;
    }
    found.emplace_back();
    why = llvm::toString(fastest.takeError());
    if (one.measurer->isAlone())
      break;
    if (alternatives.size() > 1)
      session_.diagnostics.report(one.kernel->name.range, diag::tuning_failed,
                                  "`" + one.kernel->name.name.str() + "`", why);
  }
  if (found.size() < alternatives.size() ||
      llvm::none_of(found, [](const auto &one) { return one.has_value(); }))
    return fail(diag::cannot_tune, named.name.name, why);
  const size_t usual = usualOf(found);
  size_t best = usual;
  for (size_t i = 0; i < found.size(); ++i)
    if (found[i] && found[i]->microseconds < kGain * found[usual]->microseconds &&
        found[i]->microseconds < found[best]->microseconds)
      best = i;
  if (alternatives.size() > 1)
    choice.alternative = alternatives[best].kernel->name.name.str();
  choice.constants = found[best]->constants;
  choice.microseconds = found[best]->microseconds;
  choice.usually = found[usual]->usually;
  if (isFirst())
    llvm::errs() << llvm::formatv(
        "{0} W={1} {2}: {3} of {4} configurations measured: {5}, {6:f1} us instead of {7:f1}\n",
        named.name.name, ranks_, text(choice.sizes), measured, possible, chosenText(choice),
        choice.microseconds, choice.usually);
  if (isFirst() && options_.table)
    for (auto [one, fastest] : llvm::zip_equal(alternatives, found))
      if (fastest)
        printTable(alternatives.size() > 1 ? one.kernel->name.name.str() : "", fastest->all);
  return true;
}

std::optional<TuningSection> TuneRun::sectionFor(sema::Program &program,
                                                 const ast::KernelDecl &named,
                                                 llvm::ArrayRef<Alternative> alternatives) {
  TuningSection section;
  section.target = target_.target->name().str();
  section.arch = target_.arch;
  section.machine = machine_;
  const Alternative &first = alternatives.front();
  if (alternatives.size() > 1) {
    std::vector<const ast::KernelDecl *> kernels;
    for (const Alternative &one : alternatives)
      kernels.push_back(one.kernel);
    section.kernel = program.familyName(&named, *first.usual);
    section.hash = familyHash(session_, program, kernels);
    return section;
  }
  const ChoiceValues choices = choiceValues(program, *first.kernel, first.pins);
  if (choices.choices.empty()) {
    fail(diag::cannot_tune, first.kernel->name.name, "it leaves no constant to the compiler");
    return std::nullopt;
  }
  section.kernel = first.usual->entry;
  section.hash = tuningHash(session_, program, *first.usual, choices);
  return section;
}

bool TuneRun::tune(sema::Program &program, const ast::KernelDecl &named,
                   llvm::ArrayRef<const ast::KernelDecl *> kernels) {
  std::vector<Alternative> alternatives;
  for (const ast::KernelDecl *kernel : kernels) {
    Alternative &one = alternatives.emplace_back();
    one.kernel = kernel;
    one.pins = constantsFor(session_, *kernel);
    one.usual = program.instantiate(kernel, one.pins, kernel->name.range, session_.diagnostics);
    if (!one.usual)
      return false;
  }
  const auto section = sectionFor(program, named, alternatives);
  const auto launches = section ? readLaunches(*alternatives.front().usual) : std::nullopt;
  if (!launches)
    return false;
  launchesLeft_ = launches->size();
  // It names what the measurers have loaded, and ends before them.
  const auto executor = std::move(makeExecutors(options_, ranks_, job_, /*trace=*/nullptr).front());
  for (Alternative &one : alternatives)
    one.measurer = std::make_unique<Measurer>(
        session_, program,
        Measured{*one.kernel, one.pins, *one.usual, target_, ranks_, job_, *executor});
  size_t done = 0;
  for (const std::vector<int64_t> &sizes : *launches) {
    TuningSection line = *section;
    if (!tuneLaunch(named, alternatives, sizes, line.choices.emplace_back()))
      break;
    measured_.push_back(std::move(line));
    if (!isForStandardOutput() && !write())
      break;
    ++done;
  }
  if (isForStandardOutput() && done > 0 && !write())
    return false;
  if (done > 0 && done < launches->size() && isFirst())
    llvm::errs() << llvm::formatv(
        "{0} of {1} launches were measured, and {2} has them\n", done, launches->size(),
        isForStandardOutput() ? "standard output" : "`" + options_.output + "`");
  return done == launches->size();
}

/// Before anything is measured.
bool TuneRun::canWrite() {
  OutputFiles trial;
  if (isFirst() && !isForStandardOutput())
    if (llvm::Error error = trial.add(options_.output, ""))
      return fail(diag::cannot_write, llvm::toString(std::move(error)));
  return true;
}

bool TuneRun::write() {
  if (!isFirst())
    return true;
  const std::string path = isForStandardOutput() ? "-" : options_.output;
  if (llvm::Error error = addToTuningFileAt(path, file_, measured_))
    return fail(diag::cannot_write, llvm::toString(std::move(error)));
  return true;
}

void TuneRun::run() {
  end_ = std::chrono::steady_clock::now() + std::chrono::seconds(options_.seconds);
  if (!chooseRanks())
    return;
  const auto program = analyzeFile(session_, options_.inputs.front());
  if (!program || !checkConstants(session_, *program))
    return;
  const ast::KernelDecl *named = findNamed(session_, *program);
  if (!named)
    return;
  const auto target = targetOfDevices(session_);
  if (!target)
    return;
  target_ = *target;
  char machine[256] = "";
  if (dtile_machine_name(options_.target.c_str(),
                         options_.devices.empty() ? 0 : options_.devices.front(), machine,
                         sizeof machine) != DTILE_OK) {
    fail(diag::build_failed, dtile_last_error());
    return;
  }
  machine_ = machine;
  if (readOld() && canWrite())
    tune(*program, *named, alternativesOf(session_, *program, *named));
}

} // namespace

ExitCode runTune(const Options &options) {
  Session session(options);
  std::unique_ptr<Job> job;
  if (!joinJob(session, job))
    return session.finish();
  TuneRun(session, job.get()).run();
  return session.finish(job.get());
}

} // namespace dtile::driver
