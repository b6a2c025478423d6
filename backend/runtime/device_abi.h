/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 * What generated GPU code, the shmem device library and the runtime know of each other. C without
 * the C library, so that clang compiles it for the devices too.
 *
 * A GPU kernel has two parameters, both by value: a dtile_device_launch, and the frame that the
 * host's prologue has filled (multiples of DTILE_DEVICE_FRAME_ALIGN bytes, aligned to them: it can
 * hold tensor maps). A program is a block of threads; all programs of a launch are resident at
 * once. Program p belongs to the space s with first_program[s] <= p < first_program[s + 1], and
 * runs that space's bodies p - first_program[s], + number of programs, …, in the order of the
 * schedule. Where a space shares its bodies, its programs, and those of earlier spaces that are
 * done with their own, take the next body that nobody has.
 *
 * Nothing in the parameters changes from launch to launch as long as the arguments do not, so that
 * a captured graph can replay a launch: epochs, turns and counts live in device memory, and
 * programs move them on. */
#pragma once

#include "backend/runtime/kernel_abi.h"

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DTILE_DEVICE_ABI_VERSION 13
#define DTILE_DEVICE_FRAME_ALIGN 64
/* Sets of spaces are words of 32 bits. */
#define DTILE_DEVICE_MAX_SPACES 32
/* Bytes of parameters that a launch can have: on NVIDIA's GPUs with drivers before CUDA 12.1 or PTX
 * before 8.1, and since (PTX ISA, "Kernel Function Parameters"). On AMD's GPUs they are memory,
 * and the limit is a choice. */
#define DTILE_CUDA_FEW_PARAMETER_BYTES 4352
#define DTILE_CUDA_PARAMETER_BYTES 32764
#define DTILE_HIP_PARAMETER_BYTES 32768
/* dtile_device_launch.flags, beside DTILE_KERNEL_*: one program begins a launch whose copies the
 * copy engine makes, and ends: ranks meet, and launch words move on (dtile_device_cells). The
 * launch itself follows on the same stream, without DTILE_KERNEL_ENTRY_BARRIER. */
#define DTILE_DEVICE_BEGINS 0x10000u
#define DTILE_DEVICE_REPORT_ARGS 8
#define DTILE_DEVICE_NEAR_RANKS 8
/* Programs of a launch that may leave sums in memory for each other. */
#define DTILE_DEVICE_PARTIAL_PROGRAMS 1024
/* Places of each: of a part of a body of two, and of one of four. */
#define DTILE_DEVICE_PARTIAL_PLACES 2

/* Why a launch was given up. */
typedef enum dtile_device_failure {
  DTILE_DEVICE_NONE,
  /* a wait used up its budget: `cell`, and the notifies of this launch `wanted` and `seen` there */
  DTILE_DEVICE_TIMEOUT,
  /* a check failed: the message is the site's, its holes are `args` */
  DTILE_DEVICE_TRAP
} dtile_device_failure;

/* In host memory that the device can write. The first failure of a rank is kept. */
typedef struct dtile_device_report {
  /* 0 empty, 1 being written, 2 complete */
  uint32_t state;
  /* dtile_device_failure */
  uint32_t failure;
  int32_t rank;
  int32_t space;
  uint32_t program;
  /* index in the image's sites */
  int32_t site;
  uint64_t cell, wanted, seen;
  /* of the launch that failed */
  uint64_t kernel_id;
  int32_t nargs, reserved;
  int64_t args[DTILE_DEVICE_REPORT_ARGS];
} dtile_device_report;

/* What bodies of a rank print, on its way to the host: this, and a ring of `room` bytes (a power of
 * two) after it, in host memory that the device can write. Records stand there one after the
 * other, each in one piece; a program takes room for one where there is some, and never waits.
 * Bytes that nothing stands in are zero. */
typedef struct dtile_device_prints {
  uint64_t room;
  /* bytes that the host has read since it made the ring */
  uint64_t read;
  uint64_t reserved[6];
  /* bytes that devices have taken since then, in lines of their own */
  uint64_t taken;
  /* records for which there was no room, and their bytes */
  uint64_t lost, lost_bytes;
  uint64_t reserved2[5];
} dtile_device_prints;

typedef enum dtile_device_print_state {
  DTILE_PRINT_NONE,
  DTILE_PRINT_BEGUN,
  DTILE_PRINT_COMPLETE,
  /* nothing is shown: the rest of the ring, of which only state and bytes are there, or a record of
   * a launch that has been given up */
  DTILE_PRINT_GAP
} dtile_device_print_state;

/* A record: one value that a body prints. After this come the body's position (int64_t each), the
 * value's sizes (int64_t each), and those of its elements that are shown, in row-major order as
 * they stand in memory. Of a dimension with more than DTILE_PRINT_IN_FULL elements these are the
 * first and the last DTILE_PRINT_AT_ENDS. */
typedef struct dtile_device_print {
  /* dtile_device_print_state */
  uint32_t state;
  /* to the next record, a multiple of 8 */
  uint32_t bytes;
  uint64_t kernel_id;
  /* index in the image's sites: what the value is called */
  int32_t site;
  int32_t space;
  /* numbers of the position, and of the sizes */
  int32_t positions, ndim;
  /* of an element; -1: there is no value */
  int32_t dtype;
  int32_t reserved;
} dtile_device_print;

#define DTILE_PRINT_IN_FULL 8
#define DTILE_PRINT_AT_ENDS 3

/* Who records what a program of a traced kernel does: one thread each, so that records need no
 * atomics. */
typedef enum dtile_device_recorder {
  /* the first of the threads that run bodies */
  DTILE_RECORD_BODIES,
  /* of warps that load or store for them, which have waits of their own */
  DTILE_RECORD_LOADS,
  DTILE_RECORD_STORES,
  DTILE_DEVICE_RECORDERS
} dtile_device_recorder;

/* Something that has ended: a slice of a trace. Times are nanoseconds of the device's clock. */
typedef struct dtile_device_event {
  uint64_t begin, end;
  uint64_t kernel_id;
  /* number of the kernel's launch */
  int64_t launch;
  /* dtile_trace_op (trace_abi.h) */
  int32_t op;
  int32_t space;
  /* index in the image's sites; -1: a body */
  int32_t site;
  /* whose cell or memory it is */
  int32_t peer;
  /* a body: its position. A transfer: how many bytes. A cell: where this rank has it; of a wait
   * also the notifies of this launch that it wanted there */
  int64_t words[DTILE_MAX_RANK];
} dtile_device_event;

/* What one recorder of one program has recorded since the host has read it. */
typedef struct dtile_device_region {
  dtile_device_event *events;
  uint32_t most, count;
  /* for which there was no room */
  uint32_t dropped, reserved;
} dtile_device_region;

/* What the programs of a rank record: after this, DTILE_DEVICE_RECORDERS regions for each of
 * `programs` programs, then their events. In device memory. */
typedef struct dtile_device_trace {
  /* those with higher numbers record nothing */
  int32_t programs;
  int32_t reserved[3];
} dtile_device_trace;

/* A rank's view of its team; in device memory, the same for all kernels. */
typedef struct dtile_device_team {
  int32_t rank, num_ranks;
  /* where each rank's heap begins in this device's addresses; 0: out of reach of plain accesses */
  const uint64_t *peers;
  uint64_t heap_bytes;
  /* this rank's cells of the meeting of ranks, num_ranks of them, in its symmetric heap */
  uint64_t *meeting;
  /* meetings so far; moved on by the program that meets */
  uint64_t meetings;
  /* in host memory: not 0 tells every program to leave */
  uint32_t *abort;
  dtile_device_report *report;
  /* of one wait; 0: no limit */
  int64_t wait_budget_ns;
  /* null until a kernel was loaded that prints */
  dtile_device_prints *prints;
  /* null where the team is not being traced */
  dtile_device_trace *trace;
} dtile_device_team;

/* Words that count launches count so many parts of each: a program that ends adds its share, and
 * waits for nobody. The shares of a launch's programs, of which there are at most as many, make a
 * whole; so (word >> DTILE_DEVICE_PART_BITS) is what it was when the launch began until the last
 * of them has ended. */
#define DTILE_DEVICE_PART_BITS 16
#define DTILE_DEVICE_PARTS (1 << DTILE_DEVICE_PART_BITS)

/* What the programs of one launch count together. */
typedef struct dtile_device_progress {
  /* programs that have ended their bodies of each space */
  uint64_t space_finished[DTILE_DEVICE_MAX_SPACES];
  /* bodies that programs have taken, of spaces that share theirs */
  uint64_t bodies_taken[DTILE_DEVICE_MAX_SPACES];
} dtile_device_progress;

/* A kernel's counters on a rank; in device memory, zero at first. */
typedef struct dtile_device_kernel {
  /* launches that have ended, in parts */
  uint64_t ended;
  /* launches whose entry is open: one more than have ended once ranks have met for the current one
   */
  uint64_t entered;
  /* programs of the current launch that have ended, of kernels whose last one ends the launch */
  uint32_t finished;
  uint32_t reserved;
  /* of launches with even and with odd numbers: each zeroes that of the next */
  dtile_device_progress progress[2];
} dtile_device_kernel;

/* First parameter of every kernel. */
typedef struct dtile_device_launch {
  dtile_device_team *team;
  dtile_device_kernel *kernel;
  int32_t rank, num_ranks;
  int32_t programs;
  /* DTILE_KERNEL_* */
  uint32_t flags;
  int32_t first_program[DTILE_DEVICE_MAX_SPACES + 1];
  /* 1: clusters of two programs share loads (dtile_device_image.paired) */
  int32_t paired;
  /* a bit a space: bodies of its last round are divided (backend/gpu/divided_bodies.h) */
  uint32_t divided;
  /* a bit a space: the copy engine sends what its bodies put and notify at other ranks */
  uint32_t engine;
  /* what programs leave for each other there: each has DTILE_DEVICE_PARTIAL_PLACES places for sums.
   * First come flags of 64 bits, one for each place of DTILE_DEVICE_PARTIAL_PROGRAMS programs: the
   * number of the last launch (from 1) for which the sums are there. Then come the sums,
   * dtile_device_image.partial_bytes a place. Launches of a kernel have the same */
  uint64_t *partials;
  /* the same on all ranks and in all processes; graphs replay it, too */
  uint64_t kernel_id;
  /* In teams of at most DTILE_DEVICE_NEAR_RANKS: how far after this rank's heap each rank's
   * begins, as team->peers says it, which takes several ways to memory. */
  int64_t shift[DTILE_DEVICE_NEAR_RANKS];
} dtile_device_launch;

/* Bytes of a kernel's parameters, by those of its frame. */
static inline int64_t dtile_device_parameter_bytes(int64_t frame_bytes) {
  const int64_t align = DTILE_DEVICE_FRAME_ALIGN;
  const int64_t before = ((int64_t)sizeof(dtile_device_launch) + align - 1) / align * align;
  return before + (frame_bytes + align - 1) / align * align;
}

/* In the frame for each scratch object: this launch's copy begins at
 * data + launches % copies * copy_bytes, where `copies` is the parameter's (dtile_param_desc) and
 * *turn counts launches, in parts. `data` and copy_bytes are multiples of 256: whole copies are
 * zeroed in words of 16 bytes, and tensor maps begin there. */
typedef struct dtile_device_object {
  void *data;
  int64_t copy_bytes;
  uint64_t *turn;
} dtile_device_object;

/* In the frame for each signal: a wait asks for the cell's base and what this launch adds. Each
 * cell has two bases, neighbours and aligned to 16 bytes: bases[2 * cell + i] holds for launches
 * from number since[i] (in parts) on, until the other one does. A launch writes the one that it
 * does not read: its own base and the derived count (or, without one, the largest count asked for,
 * which is made zero again); so the next launch must not begin before all of it has ended. `cells`
 * is symmetric, the others are not.
 *
 * since[DTILE_DEVICE_LAUNCH_WORD] counts the launches that have begun with the signal, of kernels
 * that use the copy engine. It writes this word to cells at peers. */
#define DTILE_DEVICE_LAUNCH_WORD 2
#define DTILE_DEVICE_SINCE_WORDS 4
typedef struct dtile_device_cells {
  uint64_t *cells, *bases, *since, *asked;
} dtile_device_cells;

#ifdef __cplusplus
}
#endif
