// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The part of the device library that is the same for every provider: the course of a launch, waits
// with a budget, reports, copies, and atomic updates.
//
// A thread that finds a failure never leaves alone: it says so at the next dtile_dev_sync, where
// all threads of its program leave together. So nobody waits at a barrier for somebody who has
// gone, and instructions of whole warps always find their warp whole.
#include "backend/device_library/device_copies.h"
#include "backend/device_library/provider.h"

// ---- Failures ----

DTILE_INLINE int32_t spaceOf(const dtile_device_launch *launch, int32_t program) {
  int32_t space = 0;
#pragma unroll 1
  while (space + 1 < DTILE_DEVICE_MAX_SPACES && launch->first_program[space + 1] <= program)
    ++space;
  return space;
}

DTILE_INLINE void writeReportHere(const dtile_device_launch *launch, int32_t failure, int32_t space,
                                  int32_t site, uint64_t cell, uint64_t wanted, uint64_t seen,
                                  int32_t nargs, const int64_t *args) {
  const dtile_device_team *team = launch->team;
  dtile_device_report *report = team->report;
  // Host memory: the exchange excludes this device's other threads, and nobody else writes here.
  if (report && swapTeam32(&report->state, 0, 1) == 0) {
    report->failure = (uint32_t)failure;
    report->rank = team->rank;
    report->space = space;
    report->program = (uint32_t)programIndex();
    report->site = site;
    report->cell = cell;
    report->wanted = wanted;
    report->seen = seen;
    report->kernel_id = launch->kernel_id;
    report->nargs = nargs;
    for (int32_t i = 0; i < nargs; ++i)
      report->args[i] = args[i];
    fenceTeam();
    releaseHost32(&report->state, 2);
  }
  fenceTeam();
  releaseHost32(team->abort, 1);
}

static __attribute__((noinline, cold)) void
writeReport(const dtile_device_launch *launch, int32_t failure, int32_t space, int32_t site,
            uint64_t cell, uint64_t wanted, uint64_t seen, int32_t nargs, const int64_t *args) {
  writeReportHere(launch, failure, space, site, cell, wanted, seen, nargs, args);
}

DTILE_API int32_t dtile_dev_aborted(const dtile_device_launch *launch) {
  return loadHost32(launch->team->abort) != 0;
}

DTILE_API void dtile_dev_sync(int32_t failed, int32_t barrier, int32_t threads) {
  // A thread that runs bodies alone meets nobody.
  if (threads == 1 ? failed : threadsAny(failed, barrier, threads))
    leaveProgram();
}

DTILE_API int32_t dtile_dev_any(int32_t failed, int32_t barrier, int32_t threads) {
  return threads == 1 ? failed != 0 : threadsAny(failed, barrier, threads);
}

// All threads of the program.
DTILE_INLINE void syncProgram(int32_t failed) { dtile_dev_sync(failed, 0, threadCount()); }

DTILE_API void dtile_dev_fail(const dtile_device_launch *launch, int32_t site, int32_t nargs,
                              const int64_t *args) {
  writeReport(launch, DTILE_DEVICE_TRAP, spaceOf(launch, programIndex()), site, 0, 0, 0, nargs,
              args);
}

DTILE_API __attribute__((always_inline)) void
dtile_dev_fail_alone(const dtile_device_launch *launch, int32_t site, int32_t nargs,
                     const int64_t *args) {
  writeReportHere(launch, DTILE_DEVICE_TRAP, spaceOf(launch, programIndex()), site, 0, 0, 0, nargs,
                  args);
}

// ---- Prints ----

DTILE_API __attribute__((always_inline)) dtile_device_print *
dtile_dev_print_begin(const dtile_device_launch *launch, int32_t bytes, int32_t site,
                      int32_t space) {
  dtile_device_prints *prints = launch->team->prints;
  if (!prints)
    return 0;
  const uint64_t room = prints->room, wanted = (uint64_t)bytes;
  uint64_t taken = loadTeam64(&prints->taken), at, gap;
  for (;;) {
    // A record stands in one piece.
    at = taken & (room - 1);
    gap = room - at < wanted ? room - at : 0;
    if (taken + gap + wanted - acquireTeam64(&prints->read) > room) {
      (void)fetchAddTeam64(&prints->lost, 1);
      (void)fetchAddTeam64(&prints->lost_bytes, wanted);
      return 0;
    }
    const uint64_t seen = swapTeam64(&prints->taken, taken, taken + gap + wanted);
    if (seen == taken)
      break;
    taken = seen;
  }
  char *ring = (char *)(prints + 1);
  if (gap) {
    dtile_device_print *skipped = (dtile_device_print *)(ring + at);
    skipped->bytes = (uint32_t)gap;
    releaseHost32(&skipped->state, DTILE_PRINT_GAP);
    at = 0;
  }
  dtile_device_print *print = (dtile_device_print *)(ring + at);
  print->bytes = (uint32_t)bytes;
  // From here on the host can skip it, should the device fail before it is complete.
  releaseHost32(&print->state, DTILE_PRINT_BEGUN);
  print->kernel_id = launch->kernel_id;
  print->site = site;
  print->space = space;
  return print;
}

DTILE_API __attribute__((always_inline)) void dtile_dev_print_end(const dtile_device_launch *launch,
                                                                  dtile_device_print *print) {
  // Threads that waited in vain have said so before they met, and have gone on with anything.
  const uint32_t isGivenUp = loadHost32(launch->team->abort);
  fenceTeam();
  releaseHost32(&print->state, isGivenUp ? DTILE_PRINT_GAP : DTILE_PRINT_COMPLETE);
}

// ---- Traces ----

DTILE_API __attribute__((always_inline)) int64_t dtile_dev_trace_now(void) {
  __asm__ volatile("" ::: "memory");
  const uint64_t now = nanoseconds();
  __asm__ volatile("" ::: "memory");
  return (int64_t)now;
}

DTILE_API __attribute__((always_inline)) dtile_device_region *
dtile_dev_trace_region(const dtile_device_launch *launch, int32_t recorder) {
  dtile_device_trace *trace = launch->team->trace;
  const int32_t program = programIndex();
  if (!trace || program >= trace->programs)
    return 0;
  return (dtile_device_region *)(trace + 1) + program * DTILE_DEVICE_RECORDERS + recorder;
}

DTILE_API __attribute__((always_inline)) int64_t *
dtile_dev_trace_event(const dtile_device_launch *launch, dtile_device_region *region, int32_t op,
                      int32_t space, int32_t site, int64_t number, int64_t begin, int64_t end,
                      int32_t peer) {
  if (!region)
    return 0;
  const uint32_t count = region->count;
  if (count >= region->most) {
    ++region->dropped;
    return 0;
  }
  region->count = count + 1;
  dtile_device_event *event = region->events + count;
  event->begin = (uint64_t)begin;
  event->end = (uint64_t)end;
  event->kernel_id = launch->kernel_id;
  event->launch = number;
  event->op = op;
  event->space = space;
  event->site = site;
  event->peer = peer;
  return event->words;
}

// ---- Waits ----

DTILE_INLINE int32_t reached(uint64_t *cell, uint64_t wanted, int32_t distance, uint64_t *seen) {
  if (distance == DTILE_DISTANCE_RANK)
    return (*seen = pollRank64(cell)) >= wanted;
  return dtile_provider_reached(cell, wanted, seen);
}

DTILE_INLINE void acquire(uint64_t *cell, int32_t distance) {
  if (distance == DTILE_DISTANCE_RANK)
    acquirePolledRank64(cell);
  else
    dtile_provider_acquire(cell);
}

enum { kLookAtClock = 64, kLookAtAbort = 4096 };

typedef enum SpinEnd { kGoesOn, kGivenUp, kUsedUp } SpinEnd;

// Whether a spin ends without what it waits for: the launch was given up, or the budget is used up.
// The clock and the abort word (in host memory, microseconds away) are looked at seldom, so that
// polls stay close together.
DTILE_INLINE SpinEnd spinEnd(const dtile_device_team *team, uint32_t round, uint64_t *start) {
  if (round % kLookAtClock != 0)
    return kGoesOn;
  if (round % kLookAtAbort == 0 && loadHost32(team->abort) != 0)
    return kGivenUp;
  const uint64_t budget = (uint64_t)team->wait_budget_ns;
  const uint64_t now = nanoseconds();
  if (*start == 0)
    *start = now;
  return budget != 0 && now - *start > budget ? kUsedUp : kGoesOn;
}

// Spins until the cell holds `count` more than `base`: 0, or 1 when it is time to leave.
DTILE_INLINE int32_t spinHere(const dtile_device_launch *launch, uint64_t *cell, uint64_t number,
                              uint64_t base, uint64_t count, int32_t distance, int32_t space,
                              int32_t site) {
  const dtile_device_team *team = launch->team;
  const uint64_t wanted = base + count;
  uint64_t start = 0;
  uint64_t seen;
  for (uint32_t round = 1; !reached(cell, wanted, distance, &seen); ++round) {
    const SpinEnd end = spinEnd(team, round, &start);
    if (end == kGoesOn)
      continue;
    if (end == kUsedUp)
      writeReportHere(launch, DTILE_DEVICE_TIMEOUT, space, site, number, count,
                      seen < base ? 0 : seen - base, 0, 0);
    return 1;
  }
  acquire(cell, distance);
  return 0;
}

static __attribute__((noinline)) int32_t spin(const dtile_device_launch *launch, uint64_t *cell,
                                              uint64_t number, uint64_t base, uint64_t count,
                                              int32_t distance, int32_t space, int32_t site) {
  return spinHere(launch, cell, number, base, count, distance, space, site);
}

// Which of a signal's two bases of each cell is that of the launch after `ended` ones: the younger
// one, but for one from the future, which this launch may be writing. All are in parts of launches,
// of which this one's programs may have added some.
DTILE_INLINE int32_t placeOfBases(const uint64_t since[2], int64_t ended) {
  return (uint64_t)ended - since[1] < (uint64_t)ended - since[0];
}

// Both bases come on the way on which it is learnt which of them it is.
DTILE_INLINE uint64_t baseOf(const dtile_device_cells *cells, int64_t index, int64_t ended) {
  uint64_t since[2], bases[2];
  loadRank64x2(cells->since, since);
  loadRank64x2(cells->bases + 2 * index, bases);
  return placeOfBases(since, ended) ? bases[1] : bases[0];
}

DTILE_API int32_t dtile_dev_wait(const dtile_device_launch *launch, const dtile_device_cells *cells,
                                 int64_t index, int64_t ended, int64_t count, int32_t distance,
                                 int32_t site) {
  uint64_t *cell = cells->cells + index;
  const uint64_t base = baseOf(cells, index, ended);
  uint64_t seen;
  if (!reached(cell, base + (uint64_t)count, distance, &seen))
    return spin(launch, cell, (uint64_t)index, base, (uint64_t)count, distance,
                spaceOf(launch, programIndex()), site);
  acquire(cell, distance);
  return 0;
}

DTILE_API __attribute__((always_inline)) int32_t
dtile_dev_wait_alone(const dtile_device_launch *launch, const dtile_device_cells *cells,
                     int64_t index, int64_t ended, int64_t count, int32_t distance, int32_t site) {
  return spinHere(launch, cells->cells + index, (uint64_t)index, baseOf(cells, index, ended),
                  (uint64_t)count, distance, spaceOf(launch, programIndex()), site);
}

DTILE_API void dtile_dev_tell_partial(uint64_t *flag, int64_t launch) {
  releaseRank64(flag, (uint64_t)launch);
}

DTILE_API __attribute__((always_inline)) int32_t
dtile_dev_await_partial(const dtile_device_launch *launch, uint64_t *flag, int64_t number) {
  uint64_t start = 0;
  for (uint32_t round = 1; pollRank64(flag) < (uint64_t)number; ++round)
    if (spinEnd(launch->team, round, &start) != kGoesOn)
      return 1;
  acquirePolledRank64(flag);
  return 0;
}

DTILE_API int32_t dtile_dev_poll(const dtile_device_cells *cells, int64_t index, int64_t ended,
                                 int64_t count, int32_t distance) {
  uint64_t seen;
  return reached(cells->cells + index, baseOf(cells, index, ended) + (uint64_t)count, distance,
                 &seen);
}

DTILE_API void dtile_dev_move_base(const dtile_device_cells *cells, int64_t index, int64_t ended,
                                   int64_t added) {
  uint64_t since[2], bases[2];
  loadRank64x2(cells->since, since);
  loadRank64x2(cells->bases + 2 * index, bases);
  const int32_t place = placeOfBases(since, ended);
  storeRank64(cells->bases + 2 * index + !place, (place ? bases[1] : bases[0]) + (uint64_t)added);
  // Who comes later finds the same place.
  if (index == 0)
    storeRank64(cells->since + !place, ((uint64_t)ended | (DTILE_DEVICE_PARTS - 1)) + 1);
}

DTILE_API void dtile_dev_ask(const dtile_device_cells *cells, int64_t index, int64_t count) {
  if (count > 0)
    maxRank64(cells->asked + index, (uint64_t)count);
}

DTILE_API void dtile_dev_notify(const dtile_device_launch *launch, uint64_t *cell, int64_t rank,
                                int32_t distance, int32_t sends) {
  if (distance == DTILE_DISTANCE_RANK)
    notifyRank64(cell, 1);
  else
    dtile_provider_notify(launch, cell, rank < 0 ? launch->rank : rank,
                          sends & DTILE_SENDS_UNFENCED);
}

// ---- Words that carry flags ----

static uint64_t flaggedWord(int32_t data, int32_t number) {
  return (uint64_t)(uint32_t)data | (uint64_t)(uint32_t)number << 32;
}

DTILE_API void dtile_dev_put_word(void *place, int32_t data, int32_t number) {
  storeTeam64(place, flaggedWord(data, number));
}

DTILE_API void dtile_dev_put_words(void *place, int32_t data0, int32_t data1, int32_t number) {
  storeTeam64x2(place, flaggedWord(data0, number), flaggedWord(data1, number));
}

DTILE_API void dtile_dev_get_word(const void *place, int64_t *word) {
  *word = (int64_t)loadTeam64(place);
}

DTILE_API void dtile_dev_get_words(const void *place, int64_t *words) {
  uint64_t loaded[2];
  loadTeam64x2(place, loaded);
  words[0] = (int64_t)loaded[0];
  words[1] = (int64_t)loaded[1];
}

static __attribute__((noinline)) int32_t lookWhetherLate(const dtile_device_launch *launch,
                                                         uint64_t index, int32_t number,
                                                         int32_t seen, int32_t round,
                                                         int64_t *start, int32_t site) {
  const dtile_device_team *team = launch->team;
  if (round % kLookAtAbort == 0 && loadHost32(team->abort) != 0)
    return 1;
  const uint64_t budget = (uint64_t)team->wait_budget_ns;
  const uint64_t now = nanoseconds();
  if (round == kLookAtClock)
    *start = (int64_t)now;
  if (budget == 0 || now - (uint64_t)*start <= budget)
    return 0;
  writeReport(launch, DTILE_DEVICE_TIMEOUT, spaceOf(launch, programIndex()), site, index,
              (uint64_t)(uint32_t)number, (uint64_t)(uint32_t)seen, 0, 0);
  return 1;
}

DTILE_API int32_t dtile_dev_words_late(const dtile_device_launch *launch, const void *place,
                                       const void *object, int32_t bytes, int32_t number,
                                       int32_t seen, int32_t round, int64_t *start, int32_t site) {
  if (round % kLookAtClock != 0)
    return 0;
  const uint64_t index = ((uint64_t)place - (uint64_t)object) / (uint64_t)bytes;
  return lookWhetherLate(launch, index, number, seen, round, start, site);
}

// ---- Meetings of ranks ----

// Together, in one program of each rank. Only that program reads and moves the count of meetings.
DTILE_INLINE void meet(const dtile_device_launch *launch, int32_t space, int32_t site,
                       int32_t barrier, int32_t threads) {
  dtile_device_team *team = launch->team;
  const uint64_t meetings = loadRank64(&team->meetings);
  uint64_t *cells = (uint64_t *)loadConstant64((const uint64_t *)&team->meeting);
#pragma unroll 1
  for (int32_t rank = threadIndex(); rank < launch->num_ranks; rank += threads)
    dtile_provider_notify(launch, cells + launch->rank, rank, 0);
  int32_t failed = 0;
#pragma unroll 1
  for (int32_t rank = threadIndex(); rank < launch->num_ranks; rank += threads)
    failed |=
        spin(launch, cells + rank, (uint64_t)rank, meetings, 1, DTILE_DISTANCE_TEAM, space, site);
  dtile_dev_sync(failed, barrier, threads);
  if (threadIndex() == 0)
    storeRank64(&team->meetings, meetings + 1);
}

DTILE_API void dtile_dev_barrier(const dtile_device_launch *launch, int32_t site, int32_t barrier,
                                 int32_t threads) {
  dtile_dev_quiet(launch);
  dtile_dev_sync(0, barrier, threads);
  meet(launch, spaceOf(launch, programIndex()), site, barrier, threads);
  dtile_dev_sync(0, barrier, threads);
}

// ---- The course of a launch ----

DTILE_API void dtile_dev_start(void) { programStart(); }

DTILE_API void dtile_dev_enter(const dtile_device_launch *launch) {
  if (!(launch->flags & DTILE_KERNEL_ENTRY_BARRIER))
    return;
  dtile_device_kernel *kernel = launch->kernel;
  const uint64_t ended = loadRank64(&kernel->ended) >> DTILE_DEVICE_PART_BITS;
  int32_t failed = 0;
  if (programIndex() == 0) {
    meet(launch, 0, -1, 0, threadCount());
    // Orders what the peers published before what this rank's programs do.
    if (threadIndex() == 0)
      releaseRank64(&kernel->entered, ended + 1);
  } else if (threadIndex() == 0) {
    failed = spin(launch, &kernel->entered, 0, ended, 1, DTILE_DISTANCE_RANK,
                  spaceOf(launch, programIndex()), -1);
  }
  syncProgram(failed);
}

DTILE_INLINE dtile_device_progress *progressOf(const dtile_device_launch *launch, int64_t number) {
  return &launch->kernel->progress[number & 1];
}

DTILE_API void dtile_dev_space_done(const dtile_device_launch *launch, int64_t number,
                                    int32_t space) {
  syncProgram(0);
  if (threadIndex() == 0)
    notifyRank64(&progressOf(launch, number)->space_finished[space], 1);
}

DTILE_API void dtile_dev_space_await(const dtile_device_launch *launch, int64_t number,
                                     int32_t space, int32_t site) {
  const uint64_t programs =
      (uint64_t)(launch->first_program[space + 1] - launch->first_program[space]);
  int32_t failed = 0;
  if (threadIndex() == 0)
    failed = spin(launch, &progressOf(launch, number)->space_finished[space], (uint64_t)space, 0,
                  programs, DTILE_DISTANCE_RANK, spaceOf(launch, programIndex()), site);
  syncProgram(failed);
}

// By one program: nobody looks at these before the next launch, which begins when this has ended.
DTILE_INLINE void zeroNextProgress(const dtile_device_launch *launch, int64_t number) {
  dtile_device_progress *next = progressOf(launch, number + 1);
  for (int32_t space = threadIndex(); space < DTILE_DEVICE_MAX_SPACES; space += threadCount()) {
    storeRank64(&next->space_finished[space], 0);
    storeRank64(&next->bodies_taken[space], 0);
  }
}

DTILE_API int64_t dtile_dev_end(const dtile_device_launch *launch, int64_t number) {
  // Loads whose values were used have ended, so that what launches are counted by may be changed.
  syncProgram(0);
  const int isFirst = programIndex() == 0;
  const int64_t share = isFirst ? DTILE_DEVICE_PARTS - (launch->programs - 1) : 1;
  if (isFirst)
    zeroNextProgress(launch, number);
  // An update is on its way at once, and nobody waits for it.
  if (threadIndex() == 0)
    addRankI64(&launch->kernel->ended, (uint64_t)share);
  return share;
}

DTILE_API int32_t dtile_dev_end_as_last(const dtile_device_launch *launch, int64_t number) {
  syncProgram(0);
  dtile_device_kernel *kernel = launch->kernel;
  int32_t isLast = 1;
  if (launch->programs > 1) {
    isLast = 0;
    if (threadIndex() == 0) {
      // The last one reads what others have asked for.
      isLast = addAcqRelRank32(&kernel->finished, 1) + 1 == (uint32_t)launch->programs;
      if (isLast)
        storeRank32(&kernel->finished, 0);
    }
    isLast = programFirst(isLast);
  }
  if (!isLast)
    return 0;
  zeroNextProgress(launch, number);
  if (threadIndex() == 0)
    addRankI64(&kernel->ended, DTILE_DEVICE_PARTS);
  return 1;
}

// ---- Copies ----

#define DTILE_ROWS                                                                                 \
  {rows, cols, destination_row, source_row, destination_col, source_col, buffer, buffer_bytes}

void dtile_copy_rows(void *destination, const void *source, int32_t bytes, int64_t rows,
                     int64_t cols, int64_t destination_row, int64_t source_row,
                     int64_t destination_col, int64_t source_col, int32_t threads, void *buffer,
                     int32_t buffer_bytes) {
  copyRowsHere(destination, source, bytes, (Rows)DTILE_ROWS, threads, 0);
}

void dtile_copy_rows_by_few(void *destination, const void *source, int32_t bytes, int64_t rows,
                            int64_t cols, int64_t destination_row, int64_t source_row,
                            int64_t destination_col, int64_t source_col, int32_t threads,
                            void *buffer, int32_t buffer_bytes) {
  copyRowsHere(destination, source, bytes, (Rows)DTILE_ROWS, threads, 1);
}

DTILE_API void dtile_dev_zero(const dtile_device_launch *launch, void *data, int64_t bytes) {
  const int64_t threads = (int64_t)launch->programs * threadCount();
  const int64_t thread = (int64_t)programIndex() * threadCount() + threadIndex();
  Words4 DTILE_GLOBAL *words = (Words4 DTILE_GLOBAL *)data;
  for (int64_t i = thread; i < bytes / 16; i += threads)
    words[i] = (Words4)0;
  uint8_t DTILE_GLOBAL *rest = (uint8_t DTILE_GLOBAL *)data + bytes / 16 * 16;
  if (thread < bytes % 16)
    rest[thread] = 0;
}

DTILE_API void *dtile_dev_peer(const dtile_device_launch *launch, void *data, int64_t rank) {
  return dtile_provider_peer(launch, data, rank);
}

DTILE_API void dtile_dev_copy(void *destination, const void *source, int32_t bytes, int64_t rows,
                              int64_t cols, int64_t destination_row, int64_t source_row,
                              int64_t destination_col, int64_t source_col, int32_t threads,
                              void *buffer, int32_t buffer_bytes) {
  copyRows(destination, source, bytes, (Rows)DTILE_ROWS, threads);
}

DTILE_API int32_t dtile_dev_put(const dtile_device_launch *launch, void *destination, int64_t rank,
                                const void *source, int32_t bytes, int64_t rows, int64_t cols,
                                int64_t destination_row, int64_t source_row,
                                int64_t destination_col, int64_t source_col, int32_t threads,
                                void *buffer, int32_t buffer_bytes, int32_t in_order,
                                uint64_t *cell) {
  return dtile_provider_put(launch, destination, rank, source, bytes, (Rows)DTILE_ROWS, threads,
                            in_order, cell);
}

DTILE_API void dtile_dev_get(const dtile_device_launch *launch, void *destination,
                             const void *source, int64_t rank, int32_t bytes, int64_t rows,
                             int64_t cols, int64_t destination_row, int64_t source_row,
                             int64_t destination_col, int64_t source_col, int32_t threads,
                             void *buffer, int32_t buffer_bytes) {
  dtile_provider_get(launch, destination, source, rank, bytes, (Rows)DTILE_ROWS, threads);
}

DTILE_API void dtile_dev_store_far(const dtile_device_launch *launch, void *place, int64_t rank,
                                   int64_t low, int64_t high, int32_t bytes) {
  dtile_provider_store(place, rank, (uint64_t)low, (uint64_t)high, bytes);
}

DTILE_API void dtile_dev_add_far(const dtile_device_launch *launch, void *place, int64_t rank,
                                 int64_t value, int32_t bytes) {
  dtile_provider_add(place, rank, (uint64_t)value, bytes);
}

DTILE_API int64_t dtile_dev_fetch_add_far(const dtile_device_launch *launch, void *place,
                                          int64_t rank, int64_t value, int32_t bytes) {
  return (int64_t)dtile_provider_fetch_add(place, rank, (uint64_t)value, bytes);
}

DTILE_API int64_t dtile_dev_swap_far(const dtile_device_launch *launch, void *place, int64_t rank,
                                     int64_t expected, int64_t desired, int32_t bytes) {
  return (int64_t)dtile_provider_swap(place, rank, (uint64_t)expected, (uint64_t)desired, bytes);
}

DTILE_API void dtile_dev_fence(const dtile_device_launch *launch) { dtile_provider_fence(); }

DTILE_API void dtile_dev_quiet(const dtile_device_launch *launch) { dtile_provider_quiet(); }

// ---- Atomic updates ----

#define DTILE_BY_DISTANCE(NAME, ...)                                                               \
  do {                                                                                             \
    if (distance == DTILE_DISTANCE_RANK)                                                           \
      NAME##Rank##__VA_ARGS__;                                                                     \
    else                                                                                           \
      NAME##Team##__VA_ARGS__;                                                                     \
  } while (0)

typedef _Float16 Halves __attribute__((ext_vector_type(2)));

DTILE_INLINE float asFloat(int32_t bits) { return __builtin_bit_cast(float, bits); }

DTILE_INLINE uint32_t addBf16(uint32_t x, uint32_t y) {
  const float sum = asFloat((int32_t)(x << 16)) + asFloat((int32_t)(y << 16));
  const uint32_t bits = __builtin_bit_cast(uint32_t, sum);
  if (sum != sum)
    return bits >> 16 | 0x40;
  return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

DTILE_INLINE uint32_t addBf16Pairs(uint32_t x, uint32_t y) {
  return addBf16(x & 0xffff, y & 0xffff) | addBf16(x >> 16, y >> 16) << 16;
}

DTILE_INLINE uint32_t addF16Pairs(uint32_t x, uint32_t y) {
  return __builtin_bit_cast(uint32_t,
                            __builtin_bit_cast(Halves, x) + __builtin_bit_cast(Halves, y));
}

// Where the machine has no addition of pairs: both halves change at once.
#define DTILE_EXCHANGE_LOOP(SUM)                                                                   \
  uint32_t seen = *(const volatile uint32_t DTILE_GLOBAL *)elements;                               \
  for (;;) {                                                                                       \
    const uint32_t before = seen;                                                                  \
    const int32_t desired = (int32_t)SUM(before, (uint32_t)bits);                                  \
    seen = (uint32_t)dtile_dev_swap_i32(elements, (int32_t)before, desired, distance);             \
    if (seen == before)                                                                            \
      return;                                                                                      \
  }

DTILE_API int32_t dtile_dev_swap_i32(void *word, int32_t expected, int32_t desired,
                                     int32_t distance) {
  return (int32_t)(distance == DTILE_DISTANCE_RANK
                       ? swapRank32(word, (uint32_t)expected, (uint32_t)desired)
                       : swapTeam32(word, (uint32_t)expected, (uint32_t)desired));
}

DTILE_API int64_t dtile_dev_swap_i64(void *word, int64_t expected, int64_t desired,
                                     int32_t distance) {
  return (int64_t)(distance == DTILE_DISTANCE_RANK
                       ? swapRank64(word, (uint64_t)expected, (uint64_t)desired)
                       : swapTeam64(word, (uint64_t)expected, (uint64_t)desired));
}

DTILE_API int32_t dtile_dev_fetch_add_i32(void *element, int32_t value, int32_t distance) {
  return (int32_t)(distance == DTILE_DISTANCE_RANK ? fetchAddRank32(element, (uint32_t)value)
                                                   : fetchAddTeam32(element, (uint32_t)value));
}

DTILE_API int64_t dtile_dev_fetch_add_i64(void *element, int64_t value, int32_t distance) {
  return (int64_t)(distance == DTILE_DISTANCE_RANK ? fetchAddRank64(element, (uint64_t)value)
                                                   : fetchAddTeam64(element, (uint64_t)value));
}

DTILE_API void dtile_dev_add_i32(void *element, int32_t bits, int32_t distance) {
  DTILE_BY_DISTANCE(add, I32(element, (uint32_t)bits));
}

DTILE_API void dtile_dev_add_i64(void *element, int64_t bits, int32_t distance) {
  DTILE_BY_DISTANCE(add, I64(element, (uint64_t)bits));
}

DTILE_API void dtile_dev_add_f32(void *element, int32_t bits, int32_t distance) {
  DTILE_BY_DISTANCE(add, F32(element, asFloat(bits)));
}

DTILE_API void dtile_dev_add_f64(void *element, int64_t bits, int32_t distance) {
  DTILE_BY_DISTANCE(add, F64(element, __builtin_bit_cast(double, bits)));
}

DTILE_API void dtile_dev_add_f32x4(void *elements, int32_t x, int32_t y, int32_t z, int32_t w,
                                   int32_t distance) {
  if (hasVectorAdd()) {
    DTILE_BY_DISTANCE(add, F32x4(elements, asFloat(x), asFloat(y), asFloat(z), asFloat(w)));
    return;
  }
  int32_t *word = (int32_t *)elements;
  dtile_dev_add_f32(word, x, distance);
  dtile_dev_add_f32(word + 1, y, distance);
  dtile_dev_add_f32(word + 2, z, distance);
  dtile_dev_add_f32(word + 3, w, distance);
}

DTILE_API void dtile_dev_add_f16x2(void *elements, int32_t bits, int32_t distance) {
  if (hasF16Add()) {
    DTILE_BY_DISTANCE(add, F16x2(elements, (uint32_t)bits));
    return;
  }
  DTILE_EXCHANGE_LOOP(addF16Pairs)
}

DTILE_API void dtile_dev_add_bf16x2(void *elements, int32_t bits, int32_t distance) {
  if (hasBf16Add()) {
    DTILE_BY_DISTANCE(add, Bf16x2(elements, (uint32_t)bits));
    return;
  }
  DTILE_EXCHANGE_LOOP(addBf16Pairs)
}

#define DTILE_ADD_8(NAME, VECTOR)                                                                  \
  DTILE_API void dtile_dev_add_##NAME##x8(void *elements, int32_t x, int32_t y, int32_t z,         \
                                          int32_t w, int32_t distance) {                           \
    if (hasVectorAdd()) {                                                                          \
      DTILE_BY_DISTANCE(add,                                                                       \
                        VECTOR##x8(elements, (uint32_t)x, (uint32_t)y, (uint32_t)z, (uint32_t)w)); \
      return;                                                                                      \
    }                                                                                              \
    int32_t *word = (int32_t *)elements;                                                           \
    dtile_dev_add_##NAME##x2(word, x, distance);                                                   \
    dtile_dev_add_##NAME##x2(word + 1, y, distance);                                               \
    dtile_dev_add_##NAME##x2(word + 2, z, distance);                                               \
    dtile_dev_add_##NAME##x2(word + 3, w, distance);                                               \
  }
DTILE_ADD_8(f16, F16)
DTILE_ADD_8(bf16, Bf16)
#undef DTILE_ADD_8
