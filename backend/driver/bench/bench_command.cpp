// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `dtilec bench --sizes` times launches by their sizes, and `--search` looks for launches that take
// longer than they should. Bench blocks are run by test_command.
//
// All processes of a job time the same launches in the same order, and go by the longest time that
// one of them saw: so all decide alike, and process 0 prints.
#include "backend/driver/bench/slow_launches.h"
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
/// Kinds of launches, and of refusals, that are printed.
constexpr size_t kMostPrinted = 10;

using Clock = std::chrono::steady_clock;

/// Ranks and constants of launches.
struct Setting {
  int ranks = 1;
  std::vector<NamedText> constants;
  /// A kernel, or several of one name, in their order; and where they run. Measurers refer to the
  /// pins. The executor names what the measurers have loaded, and ends before them.
  std::deque<sema::GenericArgs> pins;
  std::vector<std::unique_ptr<Measurer>> measurers;
  std::unique_ptr<Executor> executor;
};

/// Launches that have no time, for one reason.
struct Refusals {
  size_t count = 0;
  bool isWrong = false;
  /// One of them, and what it said.
  LaunchPoint example;
  std::string why;
};

class BenchRun {
public:
  BenchRun(Session &session, Job *job) : session_(session), options_(session.options), job_(job) {}

  void run();

private:
  bool findKernels();
  bool makeSettings();
  bool setUp(Setting &setting);
  /// What a launch takes; `failure` says why it has no time.
  TimedOnce timeLaunch(const LaunchPoint &point, double limit);
  std::optional<LaunchTime> timeForSearch(const LaunchPoint &point);
  [[nodiscard]] bool isOver(double part);

  void timeGiven();
  void search();
  void failWithNone();
  void printSearch(const SlowSearch &search, const std::vector<SlowLaunch> &slow);
  void printRefusals();
  void printJson(const SlowSearch &search, const std::vector<SlowLaunch> &slow);
  /// "W=2 M=64 N=512", with the constants that vary.
  [[nodiscard]] std::string launchText(const LaunchPoint &point) const;
  [[nodiscard]] llvm::json::Object launchObject(const LaunchPoint &point) const;
  /// The options of `dtilec bench` that time these launches again, which are of one setting.
  [[nodiscard]] std::string againText(llvm::ArrayRef<LaunchPoint> points) const;

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
  std::string name_;
  /// Of the first kernel, in the order of sizePlaces.
  std::vector<std::string> names_;
  std::vector<Setting> settings_;
  TargetArch target_;
  Clock::time_point begin_;
  double limit_ = kNone;
  /// The most that a setting has computed in a nanosecond, as the product of its sizes.
  std::vector<double> rates_;
  std::map<std::string, Refusals> refusals_;
  size_t tooLong_ = 0;
  int64_t timings_ = 0;
};

std::string microseconds(double nanoseconds) {
  return std::isfinite(nanoseconds) ? llvm::formatv("{0:f1}", nanoseconds / 1e3).str()
                                    : std::string("-");
}

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

std::string BenchRun::launchText(const LaunchPoint &point) const {
  const Setting &setting = settings_[point.setting];
  std::string text = "W=" + std::to_string(setting.ranks);
  for (auto [name, size] : llvm::zip_equal(names_, point.sizes))
    text += " " + name + "=" + std::to_string(size);
  for (const auto &[name, value] : setting.constants)
    text += " " + name + "=" + value;
  return text;
}

llvm::json::Object BenchRun::launchObject(const LaunchPoint &point) const {
  const Setting &setting = settings_[point.setting];
  llvm::json::Object sizes, constants;
  for (auto [name, size] : llvm::zip_equal(names_, point.sizes))
    sizes[name] = size;
  for (const auto &[name, value] : setting.constants)
    constants[name] = value;
  return llvm::json::Object{
      {"ranks", setting.ranks}, {"sizes", std::move(sizes)}, {"constants", std::move(constants)}};
}

std::string BenchRun::againText(llvm::ArrayRef<LaunchPoint> points) const {
  const Setting &setting = settings_[points.front().setting];
  std::string text = "--kernel " + name_;
  if (setting.ranks > 1)
    text += " --ranks " + std::to_string(setting.ranks);
  for (const auto &[name, value] : setting.constants)
    text += " --const " + name + "=" + value;
  text += " --sizes \"";
  for (auto [i, point] : llvm::enumerate(points)) {
    text += i == 0 ? "" : "; ";
    for (auto [axis, size] : llvm::enumerate(point.sizes))
      text += (axis == 0 ? "" : ",") + names_[axis] + "=" + std::to_string(size);
  }
  return text + "\"";
}

bool BenchRun::findKernels() {
  const ast::KernelDecl *named = findNamed(session_, *program_);
  if (named == nullptr)
    return false;
  name_ = named->name.name.str();
  kernels_ = alternativesOf(session_, *program_, *named);
  auto arch = archOfDevices(options_);
  if (!arch)
    return fail(diag::build_failed, llvm::toString(arch.takeError()));
  target_ = {backend::findTarget(options_.target), *arch, options_.shmem == "p2p"};
  return makeSettings();
}

bool BenchRun::makeSettings() {
  std::vector<int> ranks = options_.ranks;
  if (ranks.empty())
    ranks = {job_ ? job_->ranks() : 1};
  for (const int asked : ranks) {
    if (asked < 1 || asked > kMaxRanks)
      return fail(diag::bad_ranks, asked, kMaxRanks);
    if (job_ && asked != job_->ranks())
      return fail(diag::bad_command_line,
                  "this job has " + std::to_string(job_->ranks()) + " processes, and " +
                      std::to_string(asked) + " ranks are asked for",
                  "dtilec bench");
    settings_.emplace_back().ranks = asked;
  }
  for (const auto &[name, text] : options_.vary) {
    llvm::SmallVector<llvm::StringRef> values;
    llvm::StringRef(text).split(values, ',', /*MaxSplit=*/-1, /*KeepEmpty=*/false);
    std::vector<Setting> more;
    for (const llvm::StringRef value : values)
      for (const Setting &setting : settings_) {
        Setting &one = more.emplace_back();
        one.ranks = setting.ranks;
        one.constants = setting.constants;
        one.constants.emplace_back(name, value.str());
      }
    settings_ = std::move(more);
  }
  if (settings_.empty() || settings_.size() > kMostSettings)
    return fail(diag::bad_command_line,
                "`--ranks` and `--vary` make " + std::to_string(settings_.size()) +
                    " settings; a search takes 1 to " + std::to_string(kMostSettings),
                "dtilec bench");
  rates_.assign(settings_.size(), 0);
  // The plainest first. A setting whose values do not fit ends the run before anything is timed.
  for (Setting &setting : settings_)
    if (!setUp(setting))
      return false;
  return true;
}

bool BenchRun::setUp(Setting &setting) {
  std::vector<NamedText> constants = setting.constants;
  llvm::append_range(constants, options_.constants);
  if (!checkConstants(session_, *program_, constants))
    return false;
  setting.executor =
      std::move(makeExecutors(options_, setting.ranks, job_, /*trace=*/nullptr).front());
  for (const ast::KernelDecl *kernel : kernels_) {
    const sema::GenericArgs &pins = setting.pins.emplace_back(constantsFor(*kernel, constants));
    const sema::KernelInstance *usual =
        program_->instantiate(kernel, pins, kernel->name.range, session_.diagnostics);
    if (usual == nullptr)
      return false;
    setting.measurers.push_back(std::make_unique<Measurer>(
        session_, *program_,
        Measured{*kernel, pins, *usual, target_, setting.ranks, job_, *setting.executor}));
    if (names_.empty())
      for (const SizePlace &place : sizePlaces(*usual))
        names_.push_back(place.name);
  }
  return true;
}

TimedOnce BenchRun::timeLaunch(const LaunchPoint &point, double limit) {
  Setting &setting = settings_[point.setting];
  size_t chosen = 0;
  if (setting.measurers.size() > 1) {
    std::vector<double> estimates;
    for (const auto &measurer : setting.measurers)
      estimates.push_back(measurer->usualFor(point.sizes).estimated);
    chosen = runtime::fastestAlternative(estimates);
  }
  return setting.measurers[chosen]->measureUsual(point.sizes, limit);
}

bool BenchRun::isOver(double part) {
  if (options_.timings > 0 && double(timings_) >= part * double(options_.timings))
    return true;
  const double gone = std::chrono::duration<double>(Clock::now() - begin_).count();
  return settings_.front().measurers.front()->agree(gone) > part * options_.seconds;
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
    const auto sizes = readLaunch(session_, settings_.front().measurers.front()->usual(), text);
    if (!sizes)
      return;
    for (size_t setting = 0; setting < settings_.size(); ++setting)
      points.push_back({setting, *sizes});
  }
  llvm::json::Array rows;
  if (isFirst() && !options_.json)
    llvm::outs() << llvm::formatv("{0,10} {1,10}  launch of `{2}`\n", "us", "estimated", name_);
  for (const LaunchPoint &point : points) {
    const TimedOnce timed = timeLaunch(point, kNone);
    if (!timed.failure.empty()) {
      fail(diag::cannot_bench, name_, launchText(point), timed.failure);
      continue;
    }
    llvm::json::Object row = launchObject(point);
    row["microseconds"] = timed.measured / 1e3;
    if (std::isfinite(timed.estimated))
      row["estimated"] = timed.estimated / 1e3;
    row["chosen"] = text(timed.constants);
    rows.push_back(std::move(row));
    if (isFirst() && !options_.json)
      llvm::outs() << llvm::formatv("{0,10} {1,10}  {2}{3}{4}\n", microseconds(timed.measured),
                                    microseconds(timed.estimated), launchText(point),
                                    timed.constants.empty() ? "" : ": ", text(timed.constants));
  }
  if (isFirst() && options_.json)
    llvm::outs() << llvm::formatv("{0:2}\n", llvm::json::Value(std::move(rows)));
}

void BenchRun::search() {
  std::string why;
  auto ranges = readSizeRanges(names_, llvm::join(options_.launches, ","), kUsualRange, why);
  if (!ranges) {
    fail(diag::bad_size, why);
    return;
  }
  limit_ = std::min(options_.seconds * kPartOfSearch, kMostSeconds) * 1e9;
  begin_ = Clock::now();
  SlowSearch search({.ranges = std::move(*ranges),
                     .settings = settings_.size(),
                     .factor = options_.slowFactor,
                     .seed = options_.seed,
                     .time = [&](const LaunchPoint &point) { return timeForSearch(point); },
                     .isOver = [&](double part) { return isOver(part); }});
  const std::vector<SlowLaunch> slow = search.run();
  // A wrong result is worse than a slow one.
  for (const auto &[kind, refusals] : refusals_)
    if (refusals.isWrong)
      fail(diag::cannot_bench, name_, launchText(refusals.example), refusals.why);
  if (search.measured() == 0) {
    failWithNone();
    return;
  }
  if (!isFirst())
    return;
  if (options_.json)
    printJson(search, slow);
  else
    printSearch(search, slow);
}

/// Where no launch could be timed.
void BenchRun::failWithNone() {
  const auto most = llvm::max_element(
      refusals_, [](const auto &a, const auto &b) { return a.second.count < b.second.count; });
  if (most == refusals_.end())
    fail(diag::cannot_bench, name_, "any sizes of these ranges",
         "each takes longer than " + microseconds(limit_) + " us");
  else if (!most->second.isWrong)
    fail(diag::cannot_bench, name_, launchText(most->second.example), most->second.why);
}

void BenchRun::printSearch(const SlowSearch &search, const std::vector<SlowLaunch> &slow) {
  llvm::raw_ostream &os = llvm::outs();
  os << llvm::formatv(
      "`{0}` for {1}{2}{3}: {4} launches timed (--seed {5}), {6} of launch {7} {8:f1} times as "
      "long as "
      "{9} should, or longer\n",
      name_, options_.target, target_.arch.empty() ? "" : " ", target_.arch, search.measured(),
      options_.seed,
      slow.empty() ? "no kind"
                   : std::to_string(slow.size()) + (slow.size() == 1 ? " kind" : " kinds"),
      slow.size() > 1 ? "take" : "takes", options_.slowFactor, slow.size() > 1 ? "they" : "it");
  if (settings_.front().measurers.front()->variesByRun())
    os << "  results are not compared, as who comes first decides them\n";
  for (size_t i = 0; i < settings_.size(); ++i)
    if (const double typical = search.typical(i); typical != 1)
      os << llvm::formatv("  with W={0}: {1:f2} of the estimated time in the median\n",
                          settings_[i].ranks, typical);
  for (const SlowLaunch &one : llvm::ArrayRef(slow).take_front(kMostPrinted)) {
    os << llvm::formatv("\n  {0}: {1} us, {2:f1} times as long as {3} us, which ",
                        launchText(one.point), microseconds(one.measured), one.measured / one.limit,
                        microseconds(one.limit));
    if (one.larger)
      os << launchText(*one.larger) << " takes\n";
    else
      os << "the model expects\n";
    if (one.count > 1)
      os << llvm::formatv(
          "    of {0} such launches the slowest takes {1:f1} times as long as it should: {2}\n",
          one.count, one.worstFactor, launchText(one.worst));
    std::vector<LaunchPoint> points = {one.point};
    if (one.larger)
      points.push_back(*one.larger);
    os << "    again: " << againText(points) << '\n';
  }
  if (slow.size() > kMostPrinted)
    os << llvm::formatv("\n  and {0} more; --json has all\n", slow.size() - kMostPrinted);
  printRefusals();
}

void BenchRun::printRefusals() {
  llvm::raw_ostream &os = llvm::outs();
  if (tooLong_ > 0)
    os << llvm::formatv("\n  left out, as they take longer than {0} us: {1} launches\n",
                        microseconds(limit_), tooLong_);
  std::vector<const Refusals *> most;
  for (const auto &[kind, refusals] : refusals_)
    if (!refusals.isWrong)
      most.push_back(&refusals);
  llvm::stable_sort(most, [](const auto *a, const auto *b) { return a->count > b->count; });
  if (!most.empty())
    os << "\n  launches that cannot run:\n";
  for (const Refusals *one : llvm::ArrayRef(most).take_front(kMostPrinted))
    os << llvm::formatv("  {0,6}  as {1}: {2}\n", one->count, launchText(one->example), one->why);
}

void BenchRun::printJson(const SlowSearch &search, const std::vector<SlowLaunch> &slow) {
  llvm::json::Array kinds, cannot;
  for (const SlowLaunch &one : slow) {
    llvm::json::Object kind = launchObject(one.point);
    kind["microseconds"] = one.measured / 1e3;
    kind["limit"] = one.limit / 1e3;
    kind["factor"] = one.measured / one.limit;
    if (one.larger)
      kind["larger"] = launchObject(*one.larger);
    kind["count"] = int64_t(one.count);
    kind["worst"] = launchObject(one.worst);
    kind["again"] =
        againText(one.larger ? std::vector{one.point, *one.larger} : std::vector{one.point});
    kinds.push_back(std::move(kind));
  }
  for (const auto &[kind, refusals] : refusals_) {
    llvm::json::Object one = launchObject(refusals.example);
    one["count"] = int64_t(refusals.count);
    one["why"] = refusals.why;
    cannot.push_back(std::move(one));
  }
  llvm::outs() << llvm::formatv(
      "{0:2}\n", llvm::json::Value(llvm::json::Object{{"kernel", name_},
                                                      {"target", options_.target},
                                                      {"arch", target_.arch},
                                                      {"seed", int64_t(options_.seed)},
                                                      {"launches", int64_t(search.measured())},
                                                      {"too_long", int64_t(tooLong_)},
                                                      {"slow", std::move(kinds)},
                                                      {"cannot_run", std::move(cannot)}}));
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
