// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `dtilec calibrate`: times small kernels and writes what follows of the machine.
//
// Which kernels and what follows is ir/machine/calibration. Each is checked and timed as `bench`
// does it. One that fails, or for which no time is left, is named, and the others are kept; so they
// are when one does not end, by a thread that ends the process.
#include "backend/driver/calibrate/calibrate_kernels.h"
#include "backend/driver/calibrate/calibrate_report.h"
#include "backend/driver/command_line.h"
#include "backend/driver/execute/job.h"
#include "backend/driver/output/output_file.h"
#include "backend/driver/tune/launch_text.h"
#include "backend/driver/tune/measure.h"
#include "backend/driver/tune/tuned_choices.h"
#include "backend/runtime/dtile.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Signals.h"

#include <algorithm>
#include <condition_variable>
#include <ctime>
#include <functional>
#include <mutex>
#include <thread>

#include <unistd.h>

namespace dtile::driver {

namespace {

using Clock = std::chrono::steady_clock;

/// Timings of each launch, of which the median counts.
constexpr unsigned kTimings = 5;
/// Nothing begins after this part of the time.
constexpr double kLastBegin = 0.75;

/// Ends the process where the measurements do not end in time.
class Deadline {
public:
  Deadline(Clock::time_point end, std::function<void()> giveUp)
      : thread_([this, end, giveUp = std::move(giveUp)] {
          std::unique_lock lock(mutex_);
          if (!changed_.wait_until(lock, end, [this] { return isOver_; }))
            giveUp();
        }) {}
  ~Deadline() {
    {
      const std::lock_guard lock(mutex_);
      isOver_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }
  Deadline(const Deadline &) = delete;
  Deadline &operator=(const Deadline &) = delete;

private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool isOver_ = false;
  std::thread thread_;
};

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm utc = {};
  gmtime_r(&now, &utc);
  char text[16] = "";
  (void)std::strftime(text, sizeof text, "%Y-%m-%d", &utc);
  return text;
}

class CalibrateRun {
public:
  CalibrateRun(Session &session, Job *job)
      : session_(session), options_(session.options), job_(job) {}

  void run();

private:
  bool setUp();
  bool canWrite();
  void measureAll();
  /// Why there is no number; empty where there is one.
  std::string measure(const Measurement &measurement);
  /// Nanoseconds of launches of these sizes.
  llvm::Expected<std::vector<double>> timesOf(Measurer &measurer, const KernelSizes &sizes);
  [[nodiscard]] bool isOver();
  /// Prints and writes what there is.
  void finish();
  [[noreturn]] void giveUp();
  llvm::Error write();

  [[nodiscard]] bool isFirst() const { return !job_ || job_->rank() == 0; }

  Session &session_;
  const Options &options_;
  Job *job_;
  int ranks_ = 1;
  TargetArch target_;
  Clock::time_point begin_;
  std::unique_ptr<sema::Program> program_;
  std::vector<Measurement> measurements_;
  std::unique_ptr<CalibrateReport> report_;
  const sema::GenericArgs noPins_;
  /// Executors name what measurers have loaded, and end before them.
  std::vector<std::unique_ptr<Measurer>> measurers_;
  std::unique_ptr<Executor> alone_, together_;
};

bool CalibrateRun::setUp() {
  ranks_ = !options_.ranks.empty() ? options_.ranks.front() : job_ ? job_->ranks() : 1;
  if (!checkRanks(session_, job_, ranks_, "dtilec calibrate"))
    return false;
  const auto target = targetOfDevices(session_);
  if (!target)
    return false;
  target_ = *target;
  char device[256] = "";
  if (dtile_machine_name(options_.target.c_str(),
                         options_.devices.empty() ? 0 : options_.devices.front(), device,
                         sizeof device) != DTILE_OK) {
    session_.diagnostics.report(SourceLoc{}, diag::cannot_calibrate,
                                std::string("no machine can be measured: ") + dtile_last_error());
    return false;
  }
  // The host's row is the one without a target's facts.
  const TargetFacts &usual = options_.machine  ? *options_.machine
                             : target_.facts() ? *target_.facts()
                                               : allMachines().front();
  report_ = std::make_unique<CalibrateReport>(MachineFile{.dtilec = DTILE_VERSION,
                                                          .device = device,
                                                          .date = today(),
                                                          .base = findMachine(usual.name),
                                                          .numbers = {}},
                                              usual);
  measurements_ = measurementsOf(usual, ranks_);
  const EmbeddedFile &kernels = calibrateKernels().front();
  program_ = analyzeFile(session_, session_.sources.add("<calibrate>", kernels.text.str()));
  return program_ && canWrite();
}

/// Before anything is measured.
bool CalibrateRun::canWrite() {
  OutputFiles trial;
  if (isFirst() && !options_.output.empty() && options_.output != "-")
    if (llvm::Error error = trial.add(options_.output, "")) {
      session_.diagnostics.report(SourceLoc{}, diag::cannot_write,
                                  llvm::toString(std::move(error)));
      return false;
    }
  return true;
}

bool CalibrateRun::isOver() {
  const double gone = std::chrono::duration<double>(Clock::now() - begin_).count();
  // All processes of a job measure the same.
  return (measurers_.empty() ? gone : measurers_.back()->agree(gone)) >
         kLastBegin * options_.seconds;
}

llvm::Expected<std::vector<double>> CalibrateRun::timesOf(Measurer &measurer,
                                                          const KernelSizes &sizes) {
  if (sizes.empty())
    return std::vector<double>(kTimings, 0.0);
  std::vector<int64_t> ordered;
  for (const SizePlace &place : sizePlaces(measurer.usual()))
    ordered.push_back(
        llvm::find_if(sizes, [&](const auto &size) { return size.first == place.name; })->second);
  return measurer.timeUsual(ordered, kTimings);
}

std::string CalibrateRun::measure(const Measurement &measurement) {
  const ast::KernelDecl &kernel = *program_->findKernel(measurement.kernel);
  const sema::KernelInstance *instance =
      program_->instantiate(&kernel, noPins_, kernel.name.range, session_.diagnostics);
  if (!instance)
    return "kernel `" + measurement.kernel + "` cannot be compiled";
  // A job has its processes. Else one rank is alone: several would take turns to be launched.
  const bool isAlone = !job_ && !measurement.needsPeers;
  const int ranks = isAlone ? 1 : ranks_;
  std::unique_ptr<Executor> &executor = isAlone ? alone_ : together_;
  if (!executor)
    executor = std::move(makeExecutors(options_, ranks, job_, /*trace=*/nullptr).front());
  measurers_.push_back(std::make_unique<Measurer>(
      session_, *program_, Measured{kernel, noPins_, *instance, target_, ranks, job_, *executor}));
  auto small = timesOf(*measurers_.back(), measurement.small);
  if (!small)
    return llvm::toString(small.takeError());
  auto large = timesOf(*measurers_.back(), measurement.large);
  if (!large)
    return llvm::toString(large.takeError());
  const Timing known = report_->known().timing;
  std::vector<double> numbers;
  for (auto [one, other] : llvm::zip_equal(*small, *large))
    if (const auto number = measurement.fit(one, other, known))
      numbers.push_back(*number);
  if (numbers.size() <= kTimings / 2)
    return "times make no sense: " + microsecondsText(small->front()) + " us" +
           (measurement.large.empty()
                ? std::string()
                : ", and " + microsecondsText(large->front()) + " us of more work");
  llvm::sort(numbers);
  const double median = numbers[numbers.size() / 2];
  if (median < measurement.field->least || median > measurement.field->most)
    return llvm::formatv("{0:f3} {1} is no number that a machine file can have", median,
                         measurement.field->unit);
  report_->add({measurement.field, median, (numbers.back() - numbers.front()) / median});
  return {};
}

void CalibrateRun::measureAll() {
  for (const Measurement &measurement : measurements_) {
    if (isOver())
      break;
    report_->begin(measurement);
    if (std::string why = measure(measurement); !why.empty())
      report_->miss(measurement, std::move(why));
  }
  report_->missRest(measurements_, "", "no time was left; `--seconds` gives more");
}

llvm::Error CalibrateRun::write() {
  if (!isFirst() || report_->measured() == 0)
    return llvm::Error::success();
  return writeFile(options_.output.empty() ? "-" : options_.output, report_->fileText());
}

void CalibrateRun::finish() {
  if (isFirst())
    report_->print(llvm::errs());
  report_->warn(session_.diagnostics);
  if (report_->measured() == 0)
    session_.diagnostics.report(SourceLoc{}, diag::cannot_calibrate,
                                "nothing could be measured, for the reasons in the table");
  if (llvm::Error error = write())
    session_.diagnostics.report(SourceLoc{}, diag::cannot_write, llvm::toString(std::move(error)));
}

/// The measuring thread is in a launch that does not end, and the session is its own.
void CalibrateRun::giveUp() {
  report_->missRest(measurements_, "it did not end in time", "no time was left");
  SourceManager none;
  Diagnostics last(none);
  last.report(SourceLoc{}, diag::cannot_calibrate,
              "a measurement did not end in the " + std::to_string(options_.seconds) +
                  " seconds of `--seconds`; the others are kept");
  std::string text;
  llvm::raw_string_ostream os(text);
  if (isFirst())
    report_->print(os);
  if (llvm::Error error = write())
    last.report(SourceLoc{}, diag::cannot_write, llvm::toString(std::move(error)));
  printDiagnostics(last, options_.diagnosticForm, colorMode(options_.color), os);
  llvm::outs().flush();
  (void)!::write(STDERR_FILENO, text.data(), text.size());
  llvm::sys::RunInterruptHandlers();
  ::_exit(int(ExitCode::Failed));
}

void CalibrateRun::run() {
  begin_ = Clock::now();
  if (!setUp())
    return;
  {
    const Deadline deadline(begin_ + std::chrono::seconds(options_.seconds), [this] { giveUp(); });
    measureAll();
  }
  finish();
}

} // namespace

ExitCode runCalibrate(const Options &options) {
  Session session(options);
  std::unique_ptr<Job> job;
  if (!joinJob(session, job))
    return session.finish();
  CalibrateRun(session, job.get()).run();
  return session.finish(job.get());
}

} // namespace dtile::driver
