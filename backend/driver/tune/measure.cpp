// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The order in which configurations are measured, and how.
//
// First what the compiler would have chosen, then what the model ranks best or, where the machine
// has no model, all configurations in a fixed random order; then neighbours of the fastest. At last
// the fastest few are timed again in turn, so that what else the machine does meets all alike. A
// configuration that fails, or whose results are wrong, is left out.
#include "backend/driver/tune/measure.h"

#include "backend/driver/check/determinism.h"
#include "backend/driver/choose/configurations.h"
#include "backend/driver/execute/job.h"
#include "backend/driver/tune/tuned_choices.h"
#include "backend/runtime/dtile.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/xxhash.h"

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

namespace dtile::driver {

struct Candidate {
  const sema::KernelInstance *instance = nullptr;
  LoweredModule lowered;
  std::shared_ptr<HostCode> hostCode;
  std::shared_ptr<DeviceCode> deviceCode;
  /// Why it cannot be had; empty where it can.
  std::string failure;

  [[nodiscard]] KernelCode code() {
    return {instance, lowered.module.get(), &hostCode, &deviceCode};
  }
};

namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kMostConfigurations = 400;
/// Of those that the model ranks best.
constexpr size_t kRanked = 24;
/// Elements of all sizes together that the interpreter is asked for.
constexpr int64_t kFew = int64_t(1) << 18;
/// Parts of the time at which the search and the climb end.
constexpr double kSearchEnds = 0.6;
constexpr double kClimbEnds = 0.8;
/// Seconds for one launch.
constexpr double kLeastSeconds = 0.1;
constexpr double kMostSeconds = 1e6;
/// Seconds that one timing takes, and repetitions of it.
constexpr double kTiming = 0.02;
/// The same of a launch that may be timed again.
constexpr double kShortTiming = 0.004;
constexpr int kRepetitions = 3;
/// Launches after which one that seemed slow is given up.
constexpr int kFewLaunches = 5;
constexpr size_t kFinalists = 3;
constexpr int kRounds = 5;
/// What is slower than this many times the best is not timed with care.
constexpr double kHopeless = 2;

/// As messages begin that say why something fails.
std::string by(const Constants &constants) {
  return constants.empty() ? std::string() : "by " + text(constants) + ", ";
}

double secondsUntil(Clock::time_point when) {
  return std::chrono::duration<double>(when - Clock::now()).count();
}

} // namespace

Measurer::Measurer(Session &session, sema::Program &program, const Measured &measured)
    : session_(session), program_(program), measured_(measured),
      choices_(choiceValues(program, measured.kernel, measured.pins)) {
  if (measured.target.facts())
    choosing_ = choose(session, program, measured.kernel, measured.pins, measured.target);
}

Measurer::~Measurer() = default;

double Measurer::agree(double value) {
  if (!measured_.job)
    return value;
  std::vector<double> all(static_cast<size_t>(measured_.ranks));
  const void *in[] = {&value};
  isAlone_ = isAlone_ ||
             dtile_team_all_gather(measured_.job->team(), in, sizeof value, all.data()) != DTILE_OK;
  return isAlone_ ? std::numeric_limits<double>::infinity()
                  : *std::max_element(all.begin(), all.end());
}

std::string Measurer::agreeOnFailure(std::string failure) {
  const double failed = agree(failure.empty() ? 0 : 1);
  return failure.empty() && failed > 0 ? "another process of the job fails" : std::move(failure);
}

bool Measurer::isOver(const Launch &launch, double part) {
  const double whole = std::chrono::duration<double>(launch.end - begin_).count();
  const double gone = whole - secondsUntil(launch.end);
  return agree(gone) > part * whole;
}

bool Measurer::hasModel() const {
  return !choosing_.kept.empty() && !choosing_.possible[choosing_.kept.front()].constants.empty() &&
         !choosing_.sizes.empty();
}

std::optional<std::vector<int64_t>> Measurer::modelSizes(llvm::ArrayRef<std::string> names,
                                                         llvm::ArrayRef<int64_t> sizes) const {
  std::vector<int64_t> own;
  for (const std::string &name : names)
    for (auto [place, size] : llvm::zip_equal(sizePlaces(measured_.usual), sizes))
      if (place.name == name)
        own.push_back(size);
  return own.size() == names.size() ? std::optional(own) : std::nullopt;
}

std::vector<Constants> Measurer::worthMeasuring(llvm::ArrayRef<int64_t> sizes) {
  std::vector<Constants> list;
  estimated_ = std::numeric_limits<double>::infinity();
  if (!hasModel()) {
    list = combinations(choices_.choices, choices_.values, kMostConfigurations);
    llvm::sort(list, [](const Constants &a, const Constants &b) {
      return llvm::xxh3_64bits(text(a)) < llvm::xxh3_64bits(text(b));
    });
    const Constants usual = constantsOf(measured_.usual, choices_.choices);
    llvm::erase(list, usual);
    list.insert(list.begin(), usual);
    possible_ = list.size();
    return list;
  }
  const auto own = modelSizes(choosing_.sizes, sizes);
  std::vector<std::tuple<double, bool, Constants>> ranked;
  estimates_.clear();
  for (auto [i, variant] : llvm::enumerate(choosing_.possible)) {
    const auto time = own ? VariantModel(session_, program_, choosing_, variant, measured_.target)
                                .nanoseconds(*own, measured_.ranks)
                          : std::nullopt;
    ranked.emplace_back(time.value_or(std::numeric_limits<double>::infinity()),
                        llvm::is_contained(choosing_.kept, i), variant.constants);
    estimates_[variant.constants] = std::get<0>(ranked.back());
  }
  llvm::stable_sort(ranked,
                    [](const auto &a, const auto &b) { return std::get<0>(a) < std::get<0>(b); });
  possible_ = ranked.size();
  // Of those that are built the fastest is what runs without a tuning file.
  const auto usual = llvm::find_if(ranked, [](const auto &one) { return std::get<1>(one); });
  list.push_back(std::get<2>(*usual));
  estimated_ = std::get<0>(*usual);
  const size_t most = session_.options.exhaustive ? ranked.size() : kRanked;
  for (const auto &one : ranked)
    if (list.size() < most && std::get<2>(one) != list.front())
      list.push_back(std::get<2>(one));
  return list;
}

Candidate &Measurer::candidate(const Constants &constants) {
  std::unique_ptr<Candidate> &known = candidates_[constants];
  if (known)
    return *known;
  known = std::make_unique<Candidate>();
  known->instance =
      program_.tryInstantiate(&measured_.kernel, withConstants(measured_.pins, constants));
  if (!known->instance) {
    known->failure = "the kernel has no such instance";
    return *known;
  }
  known->failure = agreeOnFailure(compile(*known));
  return *known;
}

std::string Measurer::compile(Candidate &candidate) {
  Diagnostics silent(session_.sources);
  candidate.lowered = lowerKernels(session_, program_, candidate.instance);
  passes::PassContext context(silent);
  context.driftMemory = &session_.driftMemory;
  if (!runPipeline(*candidate.lowered.module, session_.options.optLevel, context))
    return silent.all().empty() ? "a pass failed" : silent.all().front().message;
  auto loaded = measured_.executor.load(candidate.code());
  return loaded ? std::string() : llvm::toString(loaded.takeError());
}

ir::Op *Measurer::usualKernel() {
  if (!isUsualLowered_) {
    isUsualLowered_ = true;
    usualLowered_ = lowerKernels(session_, program_, &measured_.usual);
    Diagnostics silent(session_.sources);
    passes::PassContext context(silent);
    context.driftMemory = &session_.driftMemory;
    if (!runPipeline(*usualLowered_.module, session_.options.optLevel, context))
      usualLowered_ = {};
  }
  if (!usualLowered_.module)
    return nullptr;
  ir::Op &kernel = *llvm::find_if(usualLowered_.module->body().ops(),
                                  [](const ir::Op &op) { return op.is(ir::OpKind::Kernel); });
  variesByRun_ = dependsOnWhoComesFirst(kernel);
  return &kernel;
}

void Measurer::setUpFew(Launch &launch, llvm::ArrayRef<int64_t> sizes) {
  std::vector<int64_t> few(sizes.begin(), sizes.end());
  const auto product = [&] {
    int64_t all = 1;
    for (const int64_t size : few)
      if (__builtin_mul_overflow(all, size, &all))
        return std::numeric_limits<int64_t>::max();
    return all;
  };
  // Halves stay multiples of what sizes have to be multiples of.
  while (!few.empty() && product() > kFew)
    *std::max_element(few.begin(), few.end()) /= 2;
  auto arguments = argumentSizes(measured_.usual, few, measured_.ranks);
  if (!arguments)
    return llvm::consumeError(arguments.takeError());
  ir::Op *const kernel = usualKernel();
  if (kernel == nullptr)
    return;
  auto arrays =
      makeArguments(session_.options, measured_.usual, *kernel, *arguments, measured_.ranks);
  // Data from files is of the launch's sizes alone.
  if (!arrays)
    return llvm::consumeError(arrays.takeError());
  std::shared_ptr<HostCode> noHost;
  std::shared_ptr<DeviceCode> noDevice;
  const auto interpreter = makeInterpreterExecutor(session_.options, measured_.ranks);
  auto loaded =
      interpreter->load({&measured_.usual, usualLowered_.module.get(), &noHost, &noDevice});
  if (!loaded)
    return llvm::consumeError(loaded.takeError());
  Arrays results;
  if (!launchWith(**loaded, measured_.usual, *arrays, 1, &results).failure.empty())
    return;
  launch.fewArguments = std::move(*arrays);
  launch.fewExpected = std::move(results);
}

llvm::Error Measurer::setUp(Launch &launch, llvm::ArrayRef<int64_t> sizes) {
  auto arguments = argumentSizes(measured_.usual, sizes, measured_.ranks);
  if (!arguments)
    return arguments.takeError();
  ir::Op *const kernel = usualKernel();
  if (kernel == nullptr)
    return llvm::createStringError("a pass failed");
  auto arrays =
      makeArguments(session_.options, measured_.usual, *kernel, *arguments, measured_.ranks);
  if (!arrays)
    return arrays.takeError();
  launch.arguments = std::move(*arrays);
  setUpFew(launch, sizes);
  return llvm::Error::success();
}

std::string Measurer::check(Candidate &candidate, const Launch &launch, bool *isWrong) {
  auto kernel = measured_.executor.load(candidate.code());
  if (!kernel)
    return llvm::toString(kernel.takeError());
  const bool isExact = measured_.target.arch.empty();
  Arrays results;
  for (const bool isFew : {true, false}) {
    const Arrays &arguments = isFew ? launch.fewArguments : launch.arguments;
    const Arrays &expected = isFew ? launch.fewExpected : launch.expected;
    if (expected.empty())
      continue;
    const LaunchResult result = launchWith(**kernel, *candidate.instance, arguments, 1, &results);
    if (!result.failure.empty()) {
      measured_.executor.reset();
      return result.failure;
    }
    if (variesByRun_)
      continue;
    if (std::string wrong = difference(*candidate.instance, results, expected, isExact);
        !wrong.empty()) {
      if (isWrong != nullptr)
        *isWrong = true;
      return wrong;
    }
  }
  return {};
}

std::optional<double> Measurer::time(Candidate &candidate, const Launch &launch, double best,
                                     double seconds) {
  auto kernel = measured_.executor.load(candidate.code());
  if (!kernel) {
    candidate.failure = llvm::toString(kernel.takeError());
    return std::nullopt;
  }
  const auto once = [&](int count) -> std::optional<double> {
    const LaunchResult result = launchWith(**kernel, *candidate.instance, launch.arguments, count);
    if (!result.failure.empty()) {
      candidate.failure = result.failure;
      measured_.executor.reset();
      return std::nullopt;
    }
    return agree(result.seconds) / count * 1e9;
  };
  auto first = once(1);
  // The first launch also loads code, and finds the machine idle. It alone says little.
  if (first && *first > kHopeless * best) {
    const auto again = once(kFewLaunches);
    if (!again)
      return std::nullopt;
    first = std::min(*first, *again);
  }
  if (!first || *first > kHopeless * best)
    return first;
  const int count = std::clamp(int(seconds * 1e9 / std::max(*first, 1.0)), 1, 1000);
  double least = *first;
  for (int i = 0; i < kRepetitions; ++i) {
    const auto again = once(count);
    if (!again)
      return std::nullopt;
    least = std::min(least, *again);
  }
  return least;
}

bool Measurer::tryOne(const Constants &constants, Launch &launch) {
  if (launch.times.count(constants) != 0)
    return false;
  Candidate &one = candidate(constants);
  const bool isKnown = !one.failure.empty();
  if (!isKnown)
    one.failure = check(one, launch);
  double best = std::numeric_limits<double>::infinity();
  for (const auto &[other, nanoseconds] : launch.times)
    best = std::min(best, nanoseconds);
  const auto found = one.failure.empty() ? time(one, launch, best, kTiming) : std::nullopt;
  if (found)
    launch.times[constants] = *found;
  else if (!isKnown)
    failures_.emplace_back(constants, one.failure);
  return found && *found < best;
}

void Measurer::climb(Launch &launch, const Constants &usual) {
  for (bool isBetter = true; isBetter;) {
    isBetter = false;
    Constants best = usual;
    for (const auto &[constants, time] : launch.times)
      if (time < launch.times[best])
        best = constants;
    for (auto [i, values] : llvm::enumerate(choices_.values))
      for (const int step : {-1, 1}) {
        const auto at = llvm::find(values, best[i].second) - values.begin();
        if (at == std::ssize(values) || at + step < 0 || at + step >= std::ssize(values))
          continue;
        Constants neighbour = best;
        neighbour[i].second = values[size_t(at + step)];
        if (isOver(launch, kClimbEnds))
          return;
        isBetter |= tryOne(neighbour, launch);
      }
  }
}

void Measurer::decide(Launch &launch, const Constants &usual, Fastest &fastest) {
  std::vector<std::pair<double, Constants>> order;
  for (const auto &[constants, time] : launch.times)
    order.emplace_back(time, constants);
  llvm::sort(order);
  std::vector<Constants> finalists = {usual};
  for (const auto &[time, constants] : order)
    if (finalists.size() <= kFinalists && constants != usual)
      finalists.push_back(constants);
  for (int round = 0; round < kRounds && (round == 0 || !isOver(launch, 1)); ++round)
    for (const Constants &constants : finalists) {
      Candidate &one = candidate(constants);
      if (!one.failure.empty())
        continue;
      double &known = launch.times[constants];
      if (const auto again = time(one, launch, std::numeric_limits<double>::infinity(), kTiming)) {
        known = round == 0 ? *again : std::min(known, *again);
        continue;
      }
      failures_.emplace_back(constants, one.failure);
      // What the others are compared with has been timed before.
      if (constants != usual)
        known = std::numeric_limits<double>::infinity();
    }
  fastest.usually = launch.times[usual] / 1e3;
  fastest.constants = usual;
  fastest.microseconds = fastest.usually;
  for (const Constants &constants : finalists)
    if (const double own = launch.times[constants] / 1e3;
        own < kGain * fastest.usually && own < fastest.microseconds) {
      fastest.constants = constants;
      fastest.microseconds = own;
    }
}

llvm::Expected<Fastest> Measurer::measure(llvm::ArrayRef<int64_t> sizes, double seconds) {
  begin_ = Clock::now();
  Launch launch;
  llvm::Error error = setUp(launch, sizes);
  const std::string failure = agreeOnFailure(error ? llvm::toString(std::move(error)) : "");
  if (!failure.empty())
    return llvm::createStringError(failure);
  // One time for all, so that all end the search together.
  seconds = std::min(agree(std::max(seconds, kLeastSeconds)), kMostSeconds);
  launch.end =
      begin_ + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  const std::vector<Constants> list = worthMeasuring(sizes);
  const Constants &usual = list.front();
  Candidate &first = candidate(usual);
  // What the others have to come to, where the interpreter is too slow for it.
  if (first.failure.empty()) {
    if (auto kernel = measured_.executor.load(first.code())) {
      const LaunchResult result =
          launchWith(**kernel, *first.instance, launch.arguments, 1, &launch.expected);
      first.failure = result.failure;
    } else {
      first.failure = llvm::toString(kernel.takeError());
    }
  }
  if (first.failure.empty() && !tryOne(usual, launch)) {
    failures_.clear();
    return llvm::createStringError(by(usual) + first.failure);
  }
  if (!first.failure.empty())
    return llvm::createStringError(by(usual) + first.failure);
  for (const Constants &constants : llvm::drop_begin(list)) {
    if (isOver(launch, kSearchEnds))
      break;
    (void)tryOne(constants, launch);
  }
  climb(launch, usual);
  Fastest fastest;
  fastest.estimated = estimated_;
  fastest.measured = launch.times.size();
  fastest.possible = std::max(possible_, launch.times.size());
  decide(launch, usual, fastest);
  for (const auto &[constants, nanoseconds] : launch.times) {
    const auto known = estimates_.find(constants);
    fastest.all.push_back(
        {constants, nanoseconds,
         known != estimates_.end() ? known->second : std::numeric_limits<double>::infinity()});
  }
  llvm::stable_sort(fastest.all,
                    [](const Timed &a, const Timed &b) { return a.measured < b.measured; });
  if (isAlone_) {
    failures_.clear();
    return llvm::createStringError("another process of the job has ended");
  }
  return fastest;
}

Timed Measurer::usualFor(llvm::ArrayRef<int64_t> sizes) {
  Timed timed;
  timed.measured = timed.estimated = std::numeric_limits<double>::infinity();
  timed.constants = constantsOf(measured_.usual, choices_.choices);
  if (models_.empty())
    for (const size_t kept : choosing_.kept)
      models_.emplace_back(session_, program_, choosing_, choosing_.possible[kept],
                           measured_.target);
  if (models_.empty())
    return timed;
  // Of a kernel without choices nobody has asked for them.
  const std::vector<std::string> names =
      choosing_.sizes.empty() ? models_.front().sizes() : choosing_.sizes;
  const auto own = modelSizes(names, sizes);
  if (!own)
    return timed;
  for (auto [kept, model] : llvm::zip_equal(choosing_.kept, models_))
    if (const auto time = model.nanoseconds(*own, measured_.ranks);
        time && *time < timed.estimated) {
      timed.estimated = *time;
      timed.constants = choosing_.possible[kept].constants;
    }
  return timed;
}

Candidate *Measurer::setUpUsual(llvm::ArrayRef<int64_t> sizes, Launch &launch, TimedOnce &timed) {
  llvm::Error error = setUp(launch, sizes);
  timed.failure = agreeOnFailure(error ? llvm::toString(std::move(error)) : "");
  if (!timed.failure.empty())
    return nullptr;
  Candidate &one = candidate(timed.constants);
  timed.failure =
      one.failure.empty() ? agreeOnFailure(check(one, launch, &timed.isWrong)) : one.failure;
  return timed.failure.empty() ? &one : nullptr;
}

TimedOnce Measurer::measureUsual(llvm::ArrayRef<int64_t> sizes, double limit) {
  TimedOnce timed{usualFor(sizes)};
  Launch launch;
  Candidate *one = setUpUsual(sizes, launch, timed);
  if (!one)
    return timed;
  const auto time = this->time(*one, launch, limit / kHopeless, kShortTiming);
  // Other sizes may be fine.
  timed.failure = std::exchange(one->failure, "");
  if (time && *time <= limit)
    timed.measured = *time;
  return timed;
}

llvm::Expected<std::vector<double>> Measurer::timeUsual(llvm::ArrayRef<int64_t> sizes,
                                                        unsigned times) {
  TimedOnce timed{usualFor(sizes)};
  Launch launch;
  Candidate *one = setUpUsual(sizes, launch, timed);
  if (!one)
    return llvm::createStringError(timed.failure);
  std::vector<double> all;
  while (all.size() < times)
    if (const auto time =
            this->time(*one, launch, std::numeric_limits<double>::infinity(), kShortTiming))
      all.push_back(*time);
    else
      return llvm::createStringError(std::exchange(one->failure, ""));
  return all;
}

void Measurer::reportFailures() {
  for (const auto &[constants, why] : failures_)
    session_.diagnostics.report(measured_.kernel.name.range, diag::tuning_failed,
                                (constants.empty() ? "" : "`" + text(constants) + "` of ") + "`" +
                                    measured_.kernel.name.name.str() + "`",
                                why);
  failures_.clear();
}

} // namespace dtile::driver
