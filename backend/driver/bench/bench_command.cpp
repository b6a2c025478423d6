// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `dtilec bench --sizes` times launches by their sizes, and `--search` looks for launches that take
// longer than they should. Bench blocks are run by test_command.
//
// All processes of a job time the same launches in the same order, and go by the longest time that
// one of them saw: so all decide alike, and process 0 prints.
#include "backend/driver/bench/search_report.h"
#include "backend/driver/execute/device_code.h"
#include "backend/driver/execute/job.h"
#include "backend/driver/tune/launch_text.h"
#include "backend/driver/tune/measure.h"
#include "backend/driver/tune/tuned_choices.h"
#include "backend/runtime/alternatives.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"

#include <chrono>
#include <cmath>
#include <deque>
#include <limits>
#include <map>

namespace dtile::driver {

namespace {

constexpr double kNone = std::numeric_limits<double>::infinity();
/// What sizes are searched where nobody says it.
const SizeRange kUsualRange = {.name = "", .least = 1, .most = 4096};
/// A launch takes at most this part of the time of a search, and as many seconds.
constexpr double kPartOfSearch = 1.0 / 200, kMostSeconds = 1.0;
/// Combinations of ranks and values of `--vary`.
constexpr size_t kMostSettings = 64;

using Clock = std::chrono::steady_clock;

/// A kernel, or several of one name, in their order, for a setting; and where they run.
struct Setup {
  /// Measurers refer to these. The executor names what the measurers have loaded, and ends before
  /// them.
  std::deque<sema::GenericArgs> pins;
  std::vector<std::unique_ptr<Measurer>> measurers;
  std::unique_ptr<Executor> executor;
};

class BenchRun {
public:
  BenchRun(Session &session, Job *job) : session_(session), options_(session.options), job_(job) {}

  void run();

private:
  bool findKernels();
  bool makeSettings();
  bool setUp(const BenchSetting &setting);
  /// What a launch takes; `failure` says why it has no time.
  TimedOnce timeLaunch(const LaunchPoint &point, double limit);
  std::optional<LaunchTime> timeForSearch(const LaunchPoint &point);
  [[nodiscard]] bool isOver(double part);

  void timeGiven();
  void search();
  void failWithNone();

  template <typename... Args> bool fail(diag::Id id, Args &&...args) {
    session_.diagnostics.report(SourceLoc{}, id, std::forward<Args>(args)...);
    return false;
  }
  [[nodiscard]] bool isFirst() const { return !job_ || job_->rank() == 0; }

  Session &session_;
  const Options &options_;
  Job *job_;
  std::unique_ptr<sema::Program> program_;
  std::vector<const ast::KernelDecl *> kernels_;
  /// Sizes are those of the first kernel, in the order of sizePlaces.
  BenchNames names_;
  /// One a setting.
  std::vector<Setup> setups_;
  TargetArch target_;
  Clock::time_point begin_;
  double limit_ = kNone;
  /// The most that a setting has computed in a nanosecond, as the product of its sizes.
  std::vector<double> rates_;
  std::map<std::string, Refusals> refusals_;
  size_t tooLong_ = 0;
  int64_t timings_ = 0;
};

double volumeOf(const LaunchPoint &point) {
  double volume = 1;
  for (const int64_t size : point.sizes)
    volume *= double(size);
  return volume;
}

/// Messages that differ in numbers alone are of one kind.
std::string withoutNumbers(llvm::StringRef text) {
  std::string kind;
  for (const char c : text)
    if (!llvm::isDigit(c))
      kind += c;
    else if (kind.empty() || kind.back() != '#')
      kind += '#';
  return kind;
}

bool BenchRun::findKernels() {
  const ast::KernelDecl *named = findNamed(session_, *program_);
  if (named == nullptr)
    return false;
  names_.kernel = named->name.name.str();
  kernels_ = alternativesOf(session_, *program_, *named);
  const auto target = targetOfDevices(session_);
  if (!target)
    return false;
  target_ = *target;
  return makeSettings();
}

bool BenchRun::makeSettings() {
  std::vector<int> ranks = options_.ranks;
  if (ranks.empty())
    ranks = {job_ ? job_->ranks() : 1};
  for (const int asked : ranks) {
    if (!checkRanks(session_, job_, asked, "dtilec bench"))
      return false;
    names_.settings.emplace_back().ranks = asked;
  }
  for (const auto &[name, text] : options_.vary) {
    llvm::SmallVector<llvm::StringRef> values;
    llvm::StringRef(text).split(values, ',', /*MaxSplit=*/-1, /*KeepEmpty=*/false);
    std::vector<BenchSetting> more;
    for (const llvm::StringRef value : values)
      for (const BenchSetting &setting : names_.settings)
        more.emplace_back(setting).constants.emplace_back(name, value.str());
    names_.settings = std::move(more);
  }
  const size_t settings = names_.settings.size();
  if (settings == 0 || settings > kMostSettings)
    return fail(diag::bad_command_line,
                "`--ranks` and `--vary` make " + std::to_string(settings) +
                    " settings; a search takes 1 to " + std::to_string(kMostSettings),
                "dtilec bench");
  rates_.assign(settings, 0);
  setups_.reserve(settings);
  // The plainest first. A setting whose values do not fit ends the run before anything is timed.
  for (const BenchSetting &setting : names_.settings)
    if (!setUp(setting))
      return false;
  return true;
}

bool BenchRun::setUp(const BenchSetting &setting) {
  Setup &setup = setups_.emplace_back();
  std::vector<NamedText> constants = setting.constants;
  llvm::append_range(constants, options_.constants);
  if (!checkConstants(session_, *program_, constants))
    return false;
  setup.executor =
      std::move(makeExecutors(options_, setting.ranks, job_, /*trace=*/nullptr).front());
  for (const ast::KernelDecl *kernel : kernels_) {
    const sema::GenericArgs &pins = setup.pins.emplace_back(constantsFor(*kernel, constants));
    const sema::KernelInstance *usual =
        program_->instantiate(kernel, pins, kernel->name.range, session_.diagnostics);
    if (usual == nullptr)
      return false;
    setup.measurers.push_back(std::make_unique<Measurer>(
        session_, *program_,
        Measured{*kernel, pins, *usual, target_, setting.ranks, job_, *setup.executor}));
    if (names_.sizes.empty())
      for (const SizePlace &place : sizePlaces(*usual))
        names_.sizes.push_back(place.name);
  }
  return true;
}

TimedOnce BenchRun::timeLaunch(const LaunchPoint &point, double limit) {
  const Setup &setup = setups_[point.setting];
  size_t chosen = 0;
  if (setup.measurers.size() > 1) {
    std::vector<double> estimates;
    for (const auto &measurer : setup.measurers)
      estimates.push_back(measurer->usualFor(point.sizes).estimated);
    chosen = runtime::fastestAlternative(estimates);
  }
  return setup.measurers[chosen]->measureUsual(point.sizes, limit);
}

bool BenchRun::isOver(double part) {
  if (options_.timings > 0 && double(timings_) >= part * double(options_.timings))
    return true;
  const double gone = std::chrono::duration<double>(Clock::now() - begin_).count();
  return setups_.front().measurers.front()->agree(gone) > part * options_.seconds;
}

std::optional<LaunchTime> BenchRun::timeForSearch(const LaunchPoint &point) {
  // What takes too long by the fastest that was seen takes longer.
  double &rate = rates_[point.setting];
  if (rate > 0 && volumeOf(point) / rate > limit_) {
    ++tooLong_;
    return std::nullopt;
  }
  ++timings_;
  const TimedOnce timed = timeLaunch(point, limit_);
  if (!timed.failure.empty()) {
    Refusals &refusals = refusals_[withoutNumbers(timed.failure)];
    ++refusals.count;
    refusals.isWrong |= timed.isWrong;
    if (refusals.count == 1) {
      refusals.example = point;
      refusals.why = timed.failure;
    }
    return std::nullopt;
  }
  if (!std::isfinite(timed.measured)) {
    ++tooLong_;
    return std::nullopt;
  }
  rate = std::max(rate, volumeOf(point) / timed.measured);
  return LaunchTime{timed.measured, timed.estimated};
}

void BenchRun::timeGiven() {
  std::vector<LaunchPoint> points;
  for (const std::string &text : options_.launches) {
    const auto sizes = readLaunch(session_, setups_.front().measurers.front()->usual(), text);
    if (!sizes)
      return;
    for (size_t setting = 0; setting < setups_.size(); ++setting)
      points.push_back({setting, *sizes});
  }
  llvm::json::Array rows;
  if (isFirst() && !options_.json)
    llvm::outs() << llvm::formatv("{0,10} {1,10}  launch of `{2}`\n", "us", "estimated",
                                  names_.kernel);
  for (const LaunchPoint &point : points) {
    const TimedOnce timed = timeLaunch(point, kNone);
    if (!timed.failure.empty()) {
      fail(diag::cannot_bench, names_.kernel, names_.launchText(point), timed.failure);
      continue;
    }
    llvm::json::Object row = names_.launchObject(point);
    row["microseconds"] = timed.measured / 1e3;
    if (std::isfinite(timed.estimated))
      row["estimated"] = timed.estimated / 1e3;
    row["chosen"] = text(timed.constants);
    rows.push_back(std::move(row));
    if (isFirst() && !options_.json)
      llvm::outs() << llvm::formatv("{0,10} {1,10}  {2}{3}{4}\n", microsecondsText(timed.measured),
                                    microsecondsText(timed.estimated), names_.launchText(point),
                                    timed.constants.empty() ? "" : ": ", text(timed.constants));
  }
  if (isFirst() && options_.json)
    llvm::outs() << llvm::formatv("{0:2}\n", llvm::json::Value(std::move(rows)));
}

void BenchRun::search() {
  std::string why;
  auto ranges = readSizeRanges(names_.sizes, llvm::join(options_.launches, ","), kUsualRange, why);
  if (!ranges) {
    fail(diag::bad_size, why);
    return;
  }
  limit_ = std::min(options_.seconds * kPartOfSearch, kMostSeconds) * 1e9;
  begin_ = Clock::now();
  SlowSearch search({.ranges = std::move(*ranges),
                     .settings = setups_.size(),
                     .factor = options_.slowFactor,
                     .seed = options_.seed,
                     .time = [&](const LaunchPoint &point) { return timeForSearch(point); },
                     .isOver = [&](double part) { return isOver(part); }});
  const std::vector<SlowLaunch> slow = search.run();
  // A wrong result is worse than a slow one.
  for (const auto &[kind, refusals] : refusals_)
    if (refusals.isWrong)
      fail(diag::cannot_bench, names_.kernel, names_.launchText(refusals.example), refusals.why);
  if (search.measured() == 0) {
    failWithNone();
    return;
  }
  if (!isFirst())
    return;
  const SearchReport report{.names = names_,
                            .options = options_,
                            .arch = target_.arch,
                            .variesByRun = setups_.front().measurers.front()->variesByRun(),
                            .search = search,
                            .slow = slow,
                            .refusals = refusals_,
                            .tooLong = tooLong_,
                            .limit = limit_};
  if (options_.json)
    llvm::outs() << llvm::formatv("{0:2}\n", searchAsJson(report));
  else
    printSearch(llvm::outs(), report);
}

/// Where no launch could be timed.
void BenchRun::failWithNone() {
  const auto most = llvm::max_element(
      refusals_, [](const auto &a, const auto &b) { return a.second.count < b.second.count; });
  if (most == refusals_.end())
    fail(diag::cannot_bench, names_.kernel, "any sizes of these ranges",
         "each takes longer than " + microsecondsText(limit_) + " us");
  else if (!most->second.isWrong)
    fail(diag::cannot_bench, names_.kernel, names_.launchText(most->second.example),
         most->second.why);
}

void BenchRun::run() {
  program_ = analyzeFile(session_, options_.inputs.front());
  if (!program_ || !findKernels())
    return;
  if (options_.search)
    search();
  else
    timeGiven();
}

} // namespace

ExitCode runBench(const Options &options) {
  Session session(options);
  std::unique_ptr<Job> job;
  if (!joinJob(session, job))
    return session.finish();
  BenchRun(session, job.get()).run();
  return session.finish(job.get());
}

} // namespace dtile::driver
