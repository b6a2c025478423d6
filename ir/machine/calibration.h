// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How numbers of a machine follow from times of kernels: which kernel, at which two sizes, and the
// closed form. Whoever runs the kernels (backend/driver/calibrate) knows none of that.
//
// What a launch takes besides is the same for both sizes, so the difference of the times is that of
// the work alone: a rate is work over difference, a latency is difference over rounds.
#pragma once

#include "ir/machine/timing_fields.h"

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace dtile {

/// Sizes of a launch, by name.
using KernelSizes = std::vector<std::pair<std::string, int64_t>>;

/// One number, and what it is measured by.
struct Measurement {
  const TimingField *field = nullptr;
  /// Of backend/driver/calibrate/kernels.dtile.
  std::string kernel;
  /// `large` is empty where one size is enough.
  KernelSizes small, large;
  /// It is measured between ranks; all else is measured of one, alone.
  bool needsPeers = false;
  /// Nanoseconds of a launch of either size (`large` is 0 where there is none), and what is known
  /// of the machine by now; nothing where the times make no sense.
  std::function<std::optional<double>(double small, double large, const Timing &known)> fit;
};

/// What can be measured of a machine by so many ranks, in the order in which it has to be: later
/// ones use earlier numbers.
[[nodiscard]] std::vector<Measurement> measurementsOf(const TargetFacts &machine, int64_t ranks);

/// Numbers so many times as large as those of the table, or so much smaller, are doubtful.
inline constexpr double kDoubtful = 10;

} // namespace dtile
