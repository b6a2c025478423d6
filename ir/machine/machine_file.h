// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Files of numbers that were measured of a machine: what `dtilec calibrate` writes and `--machine`
// reads. JSON, with those fields alone that were measured; all others are of a row of the table.
//
//   {
//     "dtile machine": 1,
//     "dtilec": "0.9.0",
//     "device": "NVIDIA H100 80GB HBM3",
//     "date": "2026-11-28",
//     "base": "h200",
//     "fields": {
//       "launch": {"value": 4012.5, "unit": "ns", "spread": 0.02},
//       "memoryRate": {"value": 2980, "unit": "B/ns"}
//     }
//   }
#pragma once

#include "frontend/base/diagnostics.h"
#include "frontend/base/source_manager.h"
#include "ir/machine/timing_fields.h"

#include <optional>
#include <string>
#include <vector>

namespace dtile {

/// A number that was measured.
struct MeasuredNumber {
  const TimingField *field = nullptr;
  double value = 0;
  /// How far the runs lay apart, as a part of the value.
  double spread = 0;
};

struct MachineFile {
  /// Who measured what, and when: for people.
  std::string dtilec, device, date;
  /// The row of the table that has all other numbers.
  const TargetFacts *base = nullptr;
  std::vector<MeasuredNumber> numbers;

  /// The row with what was measured in the place of its numbers.
  [[nodiscard]] TargetFacts facts() const;
};

/// The machine of a text; nothing after reporting what is wrong with it first, at its place.
[[nodiscard]] std::optional<MachineFile> parseMachineFile(const SourceManager &sources, FileId file,
                                                          Diagnostics &diagnostics);

/// The text of a file.
[[nodiscard]] std::string machineFileText(const MachineFile &file);

} // namespace dtile
