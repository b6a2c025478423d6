/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 * The shmem device library: what generated GPU code calls. Freestanding C, compiled by clang to
 * bitcode for each vendor, linked into every module of GPU code and inlined there.
 *
 * device.c has what every provider shares, and asks the provider (a row of providers.def) for the
 * functions of provider.h. Rows of backend/gpu/device_calls.def are the functions below.
 *
 * A program is a block of threads. "Together" marks functions that all its threads call, with equal
 * arguments; the others belong to the thread that calls them. Bodies may run on some of the threads
 * only, the first ones: functions that bodies call together say how many call.
 *
 * Order. Nothing here leaves scope or order to the caller but `distance`: how far away those are
 * who notify a cell. README.md says which instructions come out and why they are enough. */
#pragma once

#include "backend/runtime/device_abi.h"
#include "backend/runtime/kernel_abi.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Who notifies a cell, or updates an element, at the same time as this program. */
typedef enum dtile_distance {
  /* programs of this rank, and nobody else ever */
  DTILE_DISTANCE_RANK,
  /* other ranks too */
  DTILE_DISTANCE_TEAM
} dtile_distance;

/* ---- A launch ---- */

/* Together, first in every kernel. */
void dtile_dev_start(void);
/* Together, then in kernels that may have the flag: ranks meet when the launch's flags ask for it.
 */
void dtile_dev_enter(const dtile_device_launch *launch);
/* Together, last in a kernel: this program's share of the launch, for the turns that the caller
 * moves on; the kernel's counters are moved on here. `number` is the launch's: as many as have
 * ended before it. */
int64_t dtile_dev_end(const dtile_device_launch *launch, int64_t number);
/* The same in kernels whose waits ask for counts that nothing derived: 1 in all threads of the last
 * program to come here, which sees what all have asked for, and whose caller moves turns on by
 * whole launches; else 0. */
int32_t dtile_dev_end_as_last(const dtile_device_launch *launch, int64_t number);
/* Together: this program has ended its bodies of a space. */
void dtile_dev_space_done(const dtile_device_launch *launch, int64_t number, int32_t space);
/* Together: all programs of a space have ended their bodies of it. */
void dtile_dev_space_await(const dtile_device_launch *launch, int64_t number, int32_t space,
                           int32_t site);
/* All programs, each its part: zeroes memory that is aligned to 16 bytes. */
void dtile_dev_zero(const dtile_device_launch *launch, void *data, int64_t bytes);
/* Together, `threads` of them: they meet, and what each did to memory before is done for all of
 * them after. When one of them says that it has failed, all end. `barrier` is the number of one of
 * the program's barriers: 0 where all threads meet, 1 where only some do. */
void dtile_dev_sync(int32_t failed, int32_t barrier, int32_t threads);
/* The same, but nobody ends: 1 to all when one of them says that it has failed. */
int32_t dtile_dev_any(int32_t failed, int32_t barrier, int32_t threads);
/* What the program's threads have written is there for the program that awaits the flag: by one of
 * them, when they have met. `launch` is the number of this launch, from 1. */
void dtile_dev_tell_partial(uint64_t *flag, int64_t launch);
/* By one thread: waits until another program has told so. 1 where it never does. Without a call,
 * as ptxas serializes products where another warp of theirs might call a function. */
int32_t dtile_dev_await_partial(const dtile_device_launch *launch, uint64_t *flag, int64_t number);
/* 1 when the launch has been given up: for loops that wait for something else than a cell. */
int32_t dtile_dev_aborted(const dtile_device_launch *launch);
/* Reports that a check failed and gives the launch up; the program ends in the dtile_dev_sync that
 * must follow. */
void dtile_dev_fail(const dtile_device_launch *launch, int32_t site, int32_t nargs,
                    const int64_t *args);
/* The same without a call, for warps that have given registers away. */
void dtile_dev_fail_alone(const dtile_device_launch *launch, int32_t site, int32_t nargs,
                          const int64_t *args);

/* ---- Prints ---- */

/* By one thread: room for a record of so many bytes, in host memory, with all that the library
 * knows of it; the caller fills in the rest. Null where there is none, which is counted. Without a
 * call, as programs may stand here whose warps have given registers away. */
dtile_device_print *dtile_dev_print_begin(const dtile_device_launch *launch, int32_t bytes,
                                          int32_t site, int32_t space);
/* By that thread, when those that fill the record have met: the host may read it. Where the launch
 * has been given up it shows nothing: what is computed then is worth nothing. */
void dtile_dev_print_end(const dtile_device_launch *launch, dtile_device_print *print);

/* ---- Traces ---- */

/* Of code that is compiled to be traced. All without a call, as prints are. */
/* Nanoseconds of the device's clock, read between what comes before and after the call. */
int64_t dtile_dev_trace_now(void);
/* Where a recorder of this program records; null where nothing is traced. */
dtile_device_region *dtile_dev_trace_region(const dtile_device_launch *launch, int32_t recorder);
/* By the recorder, of something that has ended. Gives the event's words, which the caller fills in;
 * null where there is no room, which is counted, or no region. `number` is the launch's. */
int64_t *dtile_dev_trace_event(const dtile_device_launch *launch, dtile_device_region *region,
                               int32_t op, int32_t space, int32_t site, int64_t number,
                               int64_t begin, int64_t end, int32_t peer);

/* ---- Memory of other ranks ---- */

/* What a thread has sent to ranks whose memory is not mapped, and what is missing. dtile_dev_quiet
 * does all of it. */
enum dtile_sends {
  /* It may land at any time: only a quiet puts it before what follows. */
  DTILE_SENDS_UNORDERED = 1,
  /* It is before the next notify of the same rank by this thread if that begins with a fence. */
  DTILE_SENDS_UNFENCED = 2,
  /* Its source may still be read. */
  DTILE_SENDS_UNREAD = 4,
  /* Nothing is missing: the notify has been sent with it. */
  DTILE_SENDS_NOTIFIED = 8
};
/* Where a place of this rank's symmetric heap is on another rank, as this device addresses it. */
void *dtile_dev_peer(const dtile_device_launch *launch, void *data, int64_t rank);
/* Together, `threads` of them: copy rows of elements of `bytes` bytes; strides count elements. The
 * destination of a put and the source of a get are places of this rank's heap that stand for the
 * same of `rank`. Sources may change, and what was written may be read by this program, after
 * dtile_dev_sync; those of a put, if it gives anything but 0, after dtile_dev_quiet by each thread
 * and then dtile_dev_sync. A put gives what this thread has under way (dtile_sends). With
 * `in_order`, thread 0 sends alone what is not too much for it, so that its next notify of that
 * rank may follow at once. A put of all that a notify is about may be given the notify's `cell`,
 * when the program's threads have met: then it may notify as well. `buffer` is shared memory of the
 * program, aligned to 128 bytes, that nothing else uses from the barrier before to the barrier
 * after, or null: large copies go through it where the machine has an engine for them. */
void dtile_dev_copy(void *destination, const void *source, int32_t bytes, int64_t rows,
                    int64_t cols, int64_t destination_row, int64_t source_row,
                    int64_t destination_col, int64_t source_col, int32_t threads, void *buffer,
                    int32_t buffer_bytes);
int32_t dtile_dev_put(const dtile_device_launch *launch, void *destination, int64_t rank,
                      const void *source, int32_t bytes, int64_t rows, int64_t cols,
                      int64_t destination_row, int64_t source_row, int64_t destination_col,
                      int64_t source_col, int32_t threads, void *buffer, int32_t buffer_bytes,
                      int32_t in_order, uint64_t *cell);
void dtile_dev_get(const dtile_device_launch *launch, void *destination, const void *source,
                   int64_t rank, int32_t bytes, int64_t rows, int64_t cols, int64_t destination_row,
                   int64_t source_row, int64_t destination_col, int64_t source_col, int32_t threads,
                   void *buffer, int32_t buffer_bytes);
/* For a rank whose memory is not mapped (dtile_dev_peer gives null). `place` is this rank's and
 * stands for the same of `rank`; bytes are those of an element or of several neighbours: 1, 2, 4, 8
 * or 16 of a store, whose lowest are in `low`, and 4 or 8 of the others. Stores have landed after
 * dtile_dev_quiet by the same thread. */
void dtile_dev_store_far(const dtile_device_launch *launch, void *place, int64_t rank, int64_t low,
                         int64_t high, int32_t bytes);
void dtile_dev_add_far(const dtile_device_launch *launch, void *place, int64_t rank, int64_t value,
                       int32_t bytes);
int64_t dtile_dev_fetch_add_far(const dtile_device_launch *launch, void *place, int64_t rank,
                                int64_t value, int32_t bytes);
int64_t dtile_dev_swap_far(const dtile_device_launch *launch, void *place, int64_t rank,
                           int64_t expected, int64_t desired, int32_t bytes);
/* What this thread has sent to a rank lands before what is sent there later, by it or by those that
 * it meets. */
void dtile_dev_fence(const dtile_device_launch *launch);
/* What this thread has sent has landed. */
void dtile_dev_quiet(const dtile_device_launch *launch);

/* ---- Signals ---- */

/* Adds 1 to a cell: after all that the program did before its last dtile_dev_sync, but for sends
 * that are under way. `rank` is whose cell it is, -1: this rank's. `sends` is what this thread has
 * under way: it comes after what is unfenced of that, to its rank. */
void dtile_dev_notify(const dtile_device_launch *launch, uint64_t *cell, int64_t rank,
                      int32_t distance, int32_t sends);
/* Blocks until cell `index` has `count` notifies of this launch. `ended` is what the kernel's
 * counter of launches held at some time of this launch, in parts. 1 when it never will: give it to
 * the dtile_dev_sync that must follow before the other threads see what the notifies published. */
int32_t dtile_dev_wait(const dtile_device_launch *launch, const dtile_device_cells *cells,
                       int64_t index, int64_t ended, int64_t count, int32_t distance, int32_t site);
/* The same without calls: for a thread with few registers, beside others that multiply. (ptxas
 * serializes a warpgroup's products where another of the program's warps may call a function.) */
int32_t dtile_dev_wait_alone(const dtile_device_launch *launch, const dtile_device_cells *cells,
                             int64_t index, int64_t ended, int64_t count, int32_t distance,
                             int32_t site);
/* 1 when the cell has them by now, else 0. Orders nothing: a wait after it does. */
int32_t dtile_dev_poll(const dtile_device_cells *cells, int64_t index, int64_t ended, int64_t count,
                       int32_t distance);
/* Remembers the largest count that waits of this launch have asked for. */
void dtile_dev_ask(const dtile_device_cells *cells, int64_t index, int64_t count);
/* The next launch counts cell `index` from `added` notifies more than this one does, whose waits do
 * not see it. In each launch for all cells of a signal, in any order and by any thread. */
void dtile_dev_move_base(const dtile_device_cells *cells, int64_t index, int64_t ended,
                         int64_t added);
/* Together, `threads` of them, as dtile_dev_sync: every rank's one program has come here; what it
 * sent before has landed. */
void dtile_dev_barrier(const dtile_device_launch *launch, int32_t site, int32_t barrier,
                       int32_t threads);

/* ---- Words that carry flags ---- */

/* A word is 8 bytes, stored and loaded at once: 4 bytes of data, and above them the number of the
 * launch that they belong to. So who finds the number has the data, and neither a notify nor an
 * order between words is needed (the LL protocol of NCCL). Memory that has never been written
 * holds the number 0. */

/* Stores a word, or two that are neighbours and aligned to 16 bytes, here or at a peer. */
void dtile_dev_put_word(void *place, int32_t data, int32_t number);
void dtile_dev_put_words(void *place, int32_t data0, int32_t data1, int32_t number);
/* Loads one or two such words of this rank's. */
void dtile_dev_get_word(const void *place, int64_t *word);
void dtile_dev_get_words(const void *place, int64_t *words);
/* For a thread that has looked `round` times (from 1 on) for words of launch `number`, of which
 * `place` had the number `seen`: 1 when they will never come, which has been reported then, and the
 * launch given up. `start` is memory of the thread's, for all of its rounds. The report numbers
 * elements, of `bytes` bytes with their flags, from `object` on. */
int32_t dtile_dev_words_late(const dtile_device_launch *launch, const void *place,
                             const void *object, int32_t bytes, int32_t number, int32_t seen,
                             int32_t round, int64_t *start, int32_t site);

/* ---- Atomic updates, relaxed ---- */

/* Adds to an element in global memory; bits of its type, in the low part. */
void dtile_dev_add_i32(void *element, int32_t bits, int32_t distance);
void dtile_dev_add_i64(void *element, int64_t bits, int32_t distance);
void dtile_dev_add_f32(void *element, int32_t bits, int32_t distance);
void dtile_dev_add_f64(void *element, int64_t bits, int32_t distance);
/* Adds to 4 neighbours, aligned to 16 bytes; each is an update of its own. */
void dtile_dev_add_f32x4(void *elements, int32_t x, int32_t y, int32_t z, int32_t w,
                         int32_t distance);
/* Adds to 2 or 8 neighbours, aligned to their size, two a word, the first in the low half. */
void dtile_dev_add_f16x2(void *elements, int32_t bits, int32_t distance);
void dtile_dev_add_f16x8(void *elements, int32_t x, int32_t y, int32_t z, int32_t w,
                         int32_t distance);
void dtile_dev_add_bf16x2(void *elements, int32_t bits, int32_t distance);
void dtile_dev_add_bf16x8(void *elements, int32_t x, int32_t y, int32_t z, int32_t w,
                          int32_t distance);
/* Exchanges a word that holds `expected`; gives what it held. */
int32_t dtile_dev_swap_i32(void *word, int32_t expected, int32_t desired, int32_t distance);
int64_t dtile_dev_swap_i64(void *word, int64_t expected, int64_t desired, int32_t distance);
/* Adds to an element and gives what it held. */
int32_t dtile_dev_fetch_add_i32(void *element, int32_t value, int32_t distance);
int64_t dtile_dev_fetch_add_i64(void *element, int64_t value, int32_t distance);

#ifdef __cplusplus
}
#endif
