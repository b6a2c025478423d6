// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Where records are kept. Tasks take chunks from the trace and fill them alone, so the lock of a
// task is free unless the trace is being stopped. A task's lock is taken before the trace's.
#include "backend/runtime/trace/trace.h"

#include "backend/runtime/clock.h"
#include "backend/runtime/host/launch.h"

#include <algorithm>
#include <new>

namespace dtile::runtime {

Trace::Trace(int64_t mostRecords)
    : begin_(nowNs()), chunksLeft_(std::max<int64_t>(mostRecords / TraceChunk::kRecords, 1)),
      launchesLeft_(std::max<int64_t>(mostRecords, 1)) {}

TaskTrace &Trace::of(dtile_task &task) {
  if (task.trace)
    return *task.trace;
  std::lock_guard lock(mutex_);
  TaskTrace &made = tasks_.emplace_back();
  made.number = int32_t(tasks_.size()) - 1;
  made.isOver = isOver_;
  task.trace = &made;
  return made;
}

TraceChunk *Trace::newChunk() {
  std::lock_guard lock(mutex_);
  if (chunksLeft_ == 0)
    return nullptr;
  std::unique_ptr<TraceChunk> chunk(new (std::nothrow) TraceChunk);
  if (!chunk) {
    chunksLeft_ = 0;
    return nullptr;
  }
  --chunksLeft_;
  chunks_.push_back(std::move(chunk));
  return chunks_.back().get();
}

void Trace::keep(TaskTrace &task, const TraceRecord &record) {
  if (!task.chunk || task.chunk->used == TraceChunk::kRecords) {
    TraceChunk *next = task.dropped == 0 ? newChunk() : nullptr;
    if (!next) {
      ++task.dropped;
      return;
    }
    task.chunk = next;
  }
  task.chunk->records[task.chunk->used++] = record;
}

// Launches.

TraceRecord *Trace::openLaunch(const dtile_launch &launch) {
  const auto number = size_t(launch.local);
  return number < openLaunches_.size() && openLaunches_[number].kernel ? &openLaunches_[number]
                                                                       : nullptr;
}

void Trace::launchBegins(const dtile_launch &launch) {
  const int64_t now = nowNs();
  std::lock_guard lock(mutex_);
  if (isOver_)
    return;
  if (openLaunches_.size() <= size_t(launch.local))
    openLaunches_.resize(size_t(launch.local) + 1);
  TraceRecord &record = openLaunches_[size_t(launch.local)];
  record = {};
  record.kind = TraceKind::Launch;
  record.kernel = launch.kernel->desc;
  record.rank = launch.rank;
  record.epoch = launch.epoch;
  record.begin = record.end = record.steps.prepared = record.steps.begun = now;
}

void Trace::launchPrepared(const dtile_launch &launch) {
  const int64_t now = nowNs();
  std::lock_guard lock(mutex_);
  if (TraceRecord *record = openLaunch(launch))
    record->steps.prepared = record->steps.begun = record->end = now;
}

void Trace::launchBodies(const dtile_launch &launch) {
  const int64_t now = nowNs();
  std::lock_guard lock(mutex_);
  if (TraceRecord *record = openLaunch(launch))
    record->steps.begun = record->end = now;
}

void Trace::launchEnds(const dtile_launch &launch) {
  const int64_t now = nowNs();
  std::lock_guard lock(mutex_);
  TraceRecord *record = openLaunch(launch);
  if (!record)
    return;
  record->end = now;
  if (launchesLeft_ > 0) {
    --launchesLeft_;
    launches_.push_back(*record);
  } else {
    ++droppedLaunches_;
  }
  record->kernel = nullptr;
}

void Trace::closeTask(TaskTrace &task, int64_t now) {
  // What is open is kept also where the trace is full.
  for (; task.depth > 0; --task.depth) {
    TraceRecord &record = task.open[task.depth - 1];
    record.end = now;
    record.isUnfinished = true;
    if (!task.chunk || task.chunk->used == TraceChunk::kRecords) {
      std::lock_guard lock(mutex_);
      chunks_.push_back(std::make_unique<TraceChunk>());
      task.chunk = chunks_.back().get();
    }
    task.chunk->records[task.chunk->used++] = record;
  }
}

void Trace::close(bool isOver) {
  const int64_t now = nowNs();
  std::vector<TaskTrace *> tasks;
  {
    std::lock_guard lock(mutex_);
    isOver_ |= isOver;
    for (TraceRecord &record : openLaunches_) {
      if (!record.kernel)
        continue;
      record.end = now;
      record.isUnfinished = true;
      launches_.push_back(record);
      record.kernel = nullptr;
    }
    for (TaskTrace &task : tasks_)
      tasks.push_back(&task);
  }
  for (TaskTrace *task : tasks) {
    std::lock_guard lock(task->mutex);
    task->isOver |= isOver;
    closeTask(*task, now);
  }
}

// Reading.

std::vector<const TraceRecord *> Trace::records() const {
  std::lock_guard lock(mutex_);
  std::vector<const TraceRecord *> all;
  for (const TraceRecord &launch : launches_)
    all.push_back(&launch);
  for (const std::unique_ptr<TraceChunk> &chunk : chunks_)
    for (int32_t i = 0; i < chunk->used; ++i)
      all.push_back(&chunk->records[i]);
  return all;
}

int64_t Trace::dropped() const {
  std::lock_guard lock(mutex_);
  int64_t count = droppedLaunches_;
  for (const TaskTrace &task : tasks_)
    count += task.dropped;
  return count;
}

} // namespace dtile::runtime
