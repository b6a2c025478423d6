// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What is recorded of a team of processors while it is traced: slices of bodies and of what they
// wait for and send, and launches. One clock for all ranks.
#pragma once

#include "backend/runtime/host/task.h"
#include "backend/runtime/trace/trace_record.h"

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

struct dtile_launch;

namespace dtile::runtime {

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
