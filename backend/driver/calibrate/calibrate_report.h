// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What was measured of a machine so far, for people and as a machine file.
#pragma once

#include "backend/driver/session.h"
#include "ir/machine/calibration.h"
#include "ir/machine/machine_file.h"

#include <mutex>

namespace dtile::driver {

/// Shared by the thread that measures and the one that watches it.
class CalibrateReport {
public:
  /// `usual`: what holds where nothing is measured, of the file's row or of a file that is measured
  /// anew. What differs from the row stays in the new file.
  CalibrateReport(MachineFile file, const TargetFacts &usual);

  void add(MeasuredNumber number);
  /// Why a field has no number.
  void miss(const Measurement &measurement, std::string why);
  /// What is being measured, for `missRest`.
  void begin(const Measurement &measurement);
  /// The measurement that was begun last and has not ended, and those in `all` that were not begun.
  void missRest(llvm::ArrayRef<Measurement> all, llvm::StringRef begun, llvm::StringRef others);

  /// The table's numbers with what was measured in their place.
  [[nodiscard]] TargetFacts known();
  [[nodiscard]] size_t measured();
  [[nodiscard]] std::string fileText();
  /// A line for each field that was tried, and the names of those that the model reads besides.
  void print(llvm::raw_ostream &os);
  /// Warns of numbers that are far from the table's.
  void warn(Diagnostics &diagnostics);

private:
  struct Missing {
    const TimingField *field;
    std::string why;
  };

  [[nodiscard]] bool isDoubtful(const MeasuredNumber &number) const;

  std::mutex mutex_;
  MachineFile file_;
  Timing usual_;
  std::vector<const TimingField *> measured_;
  std::vector<Missing> missing_;
  const TimingField *begun_ = nullptr;
};

} // namespace dtile::driver
