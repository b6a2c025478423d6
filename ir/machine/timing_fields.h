// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The rows of timing_fields.def as data.
#pragma once

#include "ir/machine/target_facts.h"

#include <string>

namespace dtile {

/// One number of Timing.
struct TimingField {
  llvm::StringLiteral name;
  /// "ns", "B/ns"; empty for factors.
  llvm::StringLiteral unit;
  /// What machine files may say.
  double least = 0, most = 0;
  llvm::StringLiteral about;
  double Timing::*number = nullptr;
};

[[nodiscard]] llvm::ArrayRef<TimingField> timingFields();

/// The field of a name, or null.
[[nodiscard]] const TimingField *findTimingField(llvm::StringRef name);

/// The numbers in which a machine differs from another, `launch=4100 memoryRate=3900`; empty where
/// all are equal.
[[nodiscard]] std::string differences(const Timing &timing, const Timing &from);

} // namespace dtile
