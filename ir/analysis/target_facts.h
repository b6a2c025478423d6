// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What checks and schedules need to know of a machine, as plain numbers. Nothing here names a back
// end: who knows only `processors` works for every machine.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <cstdint>

namespace dtile {

/// Numbers of one kind of machine.
struct TargetFacts {
  /// As `--machine` spells it.
  llvm::StringLiteral name;
  /// What it is, for people.
  llvm::StringLiteral description;
  /// Streaming multiprocessors, compute units; 0 where bodies are fibers, of which there may be
  /// any number.
  int32_t processors = 0;
  /// Programs that one processor is sure to hold at once. A program that stages its tiles takes
  /// nearly all of a processor's memory, so nothing may count on more than one.
  int32_t programsPerProcessor = 1;

  /// Programs that run at once, or 0 for any number.
  [[nodiscard]] constexpr int64_t residentPrograms() const {
    return int64_t(processors) * programsPerProcessor;
  }
};

/// Machines by name, the default first. Processors are those that the vendors give for the parts
/// in servers: NVIDIA's H100/H200 SXM and B200, its H20, and AMD's MI250X (one die), MI300X,
/// MI355X.
inline constexpr TargetFacts kMachines[] = {
    {"host", "ranks as fibers of this machine", 0, 1},
    {"h200", "NVIDIA H200 (sm_90)", 132, 1},
    {"h20", "NVIDIA H20 (sm_90)", 78, 1},
    {"b200", "NVIDIA B200 (sm_100)", 148, 1},
    {"mi250x", "one die of an AMD MI250X (gfx90a)", 110, 1},
    {"mi300x", "AMD MI300X (gfx942)", 304, 1},
    {"mi355x", "AMD MI355X (gfx950)", 256, 1},
};

/// The facts of a machine, or null.
[[nodiscard]] inline const TargetFacts *findMachine(llvm::StringRef name) {
  for (const TargetFacts &machine : kMachines)
    if (machine.name == name)
      return &machine;
  return nullptr;
}

} // namespace dtile
