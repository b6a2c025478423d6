// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What is recorded of a team of processors while it is traced: slices of bodies and of what they
// wait for and send, and launches. One clock for all ranks.
#pragma once

#include "backend/runtime/host/task.h"
#include "backend/runtime/kernel_abi.h"

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

struct dtile_launch;

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
  // What only the runtime opens.
  Body,
  Launch,
  /// A further cell of the wait or notify that the same task has recorded last.
  FurtherCell,
};

/// One slice. Names are read when the trace is written, so kernels must not have
/// been unloaded before.
struct TraceRecord {
  int64_t begin = 0, end = 0;
  const dtile_kernel_desc *kernel = nullptr;
  const dtile_site *site = nullptr;
  /// The launch, counted by kernel.
  int64_t epoch = 0;
  int32_t rank = 0;
  /// Number of the task, as Trace has it.
  int32_t task = 0;
  int32_t space = 0;
  TraceKind kind = TraceKind::Body;
  /// The launch failed within it.
  bool isUnfinished = false;
  /// It moves nothing, and is not kept.
  bool isEmpty = false;

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

/// Records are made in chunks, each filled by one task.
struct TraceChunk {
  static constexpr int32_t kRecords = 64;
  TraceRecord records[kRecords];
  int32_t used = 0;
};

/// What belongs to a task, which one worker at a time runs.
struct TaskTrace {
  /// Nobody else wants it until the trace is stopped.
  std::mutex mutex;
  /// The trace was stopped: nothing is recorded any more.
  bool isOver = false;
  int32_t number = 0;
  TraceChunk *chunk = nullptr;
  /// Open slices: a body, and an operation in it.
  TraceRecord open[2];
  int32_t depth = 0;
  /// The cells after the first of an open notify or wait.
  std::vector<TraceRecord::Cell> further;
  int64_t dropped = 0;
};

/// The records of one team. Bounded: what does not fit is counted.
class Trace {
public:
  explicit Trace(int64_t mostRecords);
  /// When it was begun.
  [[nodiscard]] int64_t begin() const { return begin_; }

  /// The task's part, made when it is first asked for.
  TaskTrace &of(dtile_task &task);
  /// Keeps a record of the task.
  void keep(TaskTrace &task, const TraceRecord &record);

  // Launches of a rank, one after the other.
  void launchBegins(const dtile_launch &launch);
  void launchPrepared(const dtile_launch &launch);
  void launchBodies(const dtile_launch &launch);
  void launchEnds(const dtile_launch &launch);

  /// A launch has failed: slices that are still open end now.
  void closeOpen() { close(/*isOver=*/false); }
  /// The same, and nothing more is recorded. Workers may run.
  void stop() { close(/*isOver=*/true); }

  /// No worker may run, or the trace was stopped. Records of each task in order of their ends.
  [[nodiscard]] std::vector<const TraceRecord *> records() const;
  [[nodiscard]] int64_t dropped() const;

private:
  TraceChunk *newChunk();
  TraceRecord *openLaunch(const dtile_launch &launch);
  void close(bool isOver);
  void closeTask(TaskTrace &task, int64_t now);

  mutable std::mutex mutex_;
  int64_t begin_;
  int64_t chunksLeft_;
  std::deque<std::unique_ptr<TraceChunk>> chunks_;
  std::deque<TaskTrace> tasks_;
  int64_t launchesLeft_;
  std::vector<TraceRecord> launches_;
  /// By local rank: the launch that runs.
  std::vector<TraceRecord> openLaunches_;
  int64_t droppedLaunches_ = 0;
  bool isOver_ = false;
};

} // namespace dtile::runtime
