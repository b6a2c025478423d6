// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Checks and times configurations of one kernel.
#pragma once

#include "backend/driver/choose/choose.h"
#include "backend/driver/execute/executor.h"
#include "backend/driver/tune/tune_data.h"

#include <chrono>
#include <map>
#include <memory>

namespace dtile::driver {

/// What is measured, and by whom.
struct Measured {
  const ast::KernelDecl &kernel;
  const sema::GenericArgs &pins;
  /// The kernel by what its text suggests.
  const sema::KernelInstance &usual;
  const TargetArch &target;
  int ranks;
  /// Null where there is none.
  Job *job;
  /// Where launches run; several measurers may share it. It names what they have loaded, so it is
  /// reset before they end.
  Executor &executor;
};

/// A choice has to be so much faster than the usual one to stand in its place.
inline constexpr double kGain = 0.98;

/// One configuration for one launch, in nanoseconds.
struct Timed {
  Constants constants;
  double measured = 0;
  /// By the model; infinite where it says nothing.
  double estimated = 0;
};

/// A configuration that was asked for once.
struct TimedOnce : Timed {
  /// Why it has no time; empty where it has one.
  std::string failure;
  /// It ran, and its results are not those of the interpreter.
  bool isWrong = false;
};

/// The fastest configuration for one launch.
struct Fastest {
  Constants constants;
  double microseconds = 0;
  /// By what the compiler would have chosen.
  double usually = 0;
  /// What the model says of that, in nanoseconds; infinite where it says nothing.
  double estimated = 0;
  /// How many configurations were measured, of how many.
  size_t measured = 0, possible = 0;
  /// Those that were measured, the fastest first.
  std::vector<Timed> all;
};

/// What one configuration is made of, once it has been compiled.
struct Candidate;

class Measurer {
public:
  Measurer(Session &session, sema::Program &program, const Measured &measured);
  ~Measurer();
  Measurer(const Measurer &) = delete;
  Measurer &operator=(const Measurer &) = delete;

  /// The fastest for these sizes (in the order of sizePlaces), found in about so many seconds. Each
  /// configuration is checked before it is timed. An error says why nothing can be measured.
  llvm::Expected<Fastest> measure(llvm::ArrayRef<int64_t> sizes, double seconds);
  /// What runs for these sizes without a tuning file, not measured.
  [[nodiscard]] Timed usualFor(llvm::ArrayRef<int64_t> sizes);
  /// The same, checked on few elements and timed; infinite where a launch takes longer than `limit`
  /// nanoseconds.
  [[nodiscard]] TimedOnce measureUsual(llvm::ArrayRef<int64_t> sizes, double limit);
  /// The same, timed so many times; an error where it fails or is wrong.
  [[nodiscard]] llvm::Expected<std::vector<double>> timeUsual(llvm::ArrayRef<int64_t> sizes,
                                                              unsigned times);
  /// Warns of each configuration that failed, once.
  void reportFailures();
  /// Whether processes of the job no longer answer.
  [[nodiscard]] bool isAlone() const { return isAlone_; }
  [[nodiscard]] const sema::KernelInstance &usual() const { return measured_.usual; }
  /// Whether results are not compared, as who comes first decides them.
  [[nodiscard]] bool variesByRun() const { return variesByRun_; }
  /// The largest of what the processes of the job say; infinite once one of them has gone.
  [[nodiscard]] double agree(double value);

private:
  /// One launch, as it is measured.
  struct Launch {
    Arrays arguments, expected;
    /// The same with few elements, as the interpreter computes it; nothing where it refuses that.
    Arrays fewArguments, fewExpected;
    std::chrono::steady_clock::time_point end;
    /// Times of the candidates that were measured, in nanoseconds, by their constants.
    std::map<Constants, double> times;
  };

  [[nodiscard]] bool hasModel() const;
  /// The IR of the kernel by what its text suggests, after the passes; null where one failed.
  [[nodiscard]] ir::Op *usualKernel();
  /// Those of the sizes that the model knows by these names; nothing where one is missing.
  [[nodiscard]] std::optional<std::vector<int64_t>> modelSizes(llvm::ArrayRef<std::string> names,
                                                               llvm::ArrayRef<int64_t> sizes) const;
  [[nodiscard]] std::vector<Constants> worthMeasuring(llvm::ArrayRef<int64_t> sizes);
  llvm::Error setUp(Launch &launch, llvm::ArrayRef<int64_t> sizes);
  void setUpFew(Launch &launch, llvm::ArrayRef<int64_t> sizes);
  Candidate &candidate(const Constants &constants);
  /// Makes arguments for what the compiler would choose, and checks it; null with the reason in
  /// `timed` where that fails.
  Candidate *setUpUsual(llvm::ArrayRef<int64_t> sizes, Launch &launch, TimedOnce &timed);
  /// In words, why it cannot be had; empty where it can.
  std::string compile(Candidate &candidate);
  /// Sets `isWrong` where it runs, and its results are others than are expected.
  std::string check(Candidate &candidate, const Launch &launch, bool *isWrong = nullptr);
  /// Nanoseconds of a launch; nothing, with the reason kept, where it fails. What is far from the
  /// best is timed once. `seconds`: what one of its timings may take.
  std::optional<double> time(Candidate &candidate, const Launch &launch, double best,
                             double seconds);
  /// Whether it is the fastest so far.
  bool tryOne(const Constants &constants, Launch &launch);
  void climb(Launch &launch, const Constants &usual);
  void decide(Launch &launch, const Constants &usual, Fastest &fastest);
  /// Why it cannot be, in words that all processes have or none.
  [[nodiscard]] std::string agreeOnFailure(std::string failure);
  [[nodiscard]] bool isOver(const Launch &launch, double part);

  Session &session_;
  sema::Program &program_;
  Measured measured_;
  ChoiceValues choices_;
  /// All that can run, where the machine has a model.
  Choosing choosing_;
  /// Of the variants that are built, in their order, once they were asked for.
  std::vector<VariantModel> models_;
  LoweredModule usualLowered_;
  bool isUsualLowered_ = false;
  /// Who comes first decides the results, so that they are not compared.
  bool variesByRun_ = false;
  std::map<Constants, std::unique_ptr<Candidate>> candidates_;
  std::chrono::steady_clock::time_point begin_;
  std::vector<std::pair<Constants, std::string>> failures_;
  size_t possible_ = 0;
  double estimated_ = 0;
  /// What the model says of the launch at hand, in nanoseconds.
  std::map<Constants, double> estimates_;
  bool isAlone_ = false;
};

} // namespace dtile::driver
