// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a trace consists of, wherever the programs ran that it was recorded of.
#pragma once

#include "backend/runtime/kernel_abi.h"

#include <cstdint>

namespace dtile::runtime {

enum class TraceKind : uint8_t {
  // As dtile_trace_op.
  Put,
  Get,
  ReduceAdd,
  Load,
  Store,
  Atomic,
  Notify,
  Wait,
  Barrier,
  Poll,
  Body,
  /// A further cell of the wait or notify that the same task has recorded last.
  FurtherCell,
  // What only the runtime opens.
  Launch,
};

/// Who of a program has recorded it, as dtile_device_recorder.
enum class TracePart : uint8_t { Bodies, Loads, Stores };

/// One slice. All of a trace are timed by one clock. Names are read when the trace is written, so
/// kernels must not have been unloaded before.
struct TraceRecord {
  int64_t begin = 0, end = 0;
  const dtile_kernel_desc *kernel = nullptr;
  const dtile_site *site = nullptr;
  /// The launch, counted by kernel.
  int64_t epoch = 0;
  int32_t rank = 0;
  /// What runs the bodies of a space one after the other: a number for each in the trace.
  int32_t task = 0;
  int32_t space = 0;
  TraceKind kind = TraceKind::Body;
  TracePart part = TracePart::Bodies;
  /// The launch failed within it.
  bool isUnfinished = false;
  /// It moves nothing, and is not kept.
  bool isEmpty = false;
  /// Launch: the constants that were chosen for its code, or null.
  const char *variant = nullptr;

  struct Cell {
    const void *address;
    /// Row-major number in the signal, whose sizes follow.
    int64_t number;
    /// Wait: what the cell had to reach. Notify: what it held before. Both since the cell was made.
    uint64_t value;
    /// Wait: what the cell held when this launch began.
    uint64_t base;
    int32_t size[DTILE_MAX_RANK];
    int32_t ndim;
    /// Notify: the rank of the cell. Wait: 1 where the cell had not come so far when it began.
    int32_t detail;
  };
  struct Copy {
    int64_t bytes;
    int32_t peer;
  };
  struct Steps {
    /// When its prologue had run, and when its bodies could begin.
    int64_t prepared, begun;
  };
  union {
    int64_t position[DTILE_MAX_RANK];
    Cell cell;
    Copy copy;
    Steps steps;
  };

  TraceRecord() : position{} {}
};

} // namespace dtile::runtime
