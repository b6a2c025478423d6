// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Traces as JSON in the trace-event format, which Perfetto and chrome://tracing open.
#pragma once

#include "backend/runtime/trace/trace_record.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace dtile::runtime {

/// How events of one team stand beside those of others in a file.
struct TracePlace {
  /// Stands before "rank 0" in the name of each process of the trace; may be empty.
  std::string name;
  /// Number of the process that stands for rank 0.
  int32_t firstProcess = 1;
  /// The clock's zero. Negative: when the team's trace was begun, which only a team knows.
  int64_t originNs = -1;
  /// Kernels by the name that callers launch, which may have values in it: as the program calls
  /// them. Where two that were launched are called alike, both go by the former.
  std::map<std::string, std::string> kernels = {};
  /// Other processes have the rest of the ranks. Which notify let a wait go on is found when their
  /// traces are joined, by the cells and launches that are written in its place.
  bool isPart = false;
};

/// The slices, arrows and counters of records, without a file's head and end: each event but the
/// first follows a comma. "" where there are no records. Those of a task stand in order of their
/// ends. The zero of `place` is set; what is before it is shown there.
[[nodiscard]] std::string traceEvents(const std::vector<const TraceRecord *> &records,
                                      const TracePlace &place);

/// What stands before all events of a file, and after them. `part`: further members of
/// `otherData`, each after a comma.
[[nodiscard]] std::string traceHead();
[[nodiscard]] std::string traceEnd(int64_t dropped, const std::string &part = "");

} // namespace dtile::runtime
