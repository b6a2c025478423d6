/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 * What generated host code and the runtime know of each other. C, so that both sides and the object
 * files of `dtilec build` agree. Bump DTILE_ABI_VERSION with any change; the runtime refuses other
 * versions.
 *
 * One launch on one rank: the runtime allocates a frame of `frame_bytes`, calls `prologue` (which
 * reads arguments, checks declared sizes, obtains scratch and signals through the dtile_rt_* calls
 * below and fills the frame), asks each signal's `expected` for the count of every cell, and runs
 * every body of every space: fibers, any order that the schedule numbers suggest, any number at
 * once. `frame` is read-only once the prologue has returned. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Kernels outside the library call what is declared here. */
#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

#define DTILE_ABI_VERSION 20
#define DTILE_MAX_RANK 6

/* Element types, in the order of frontend/base/dtypes.def. */
typedef enum dtile_dtype {
  DTILE_BOOL,
  DTILE_I8,
  DTILE_I16,
  DTILE_I32,
  DTILE_I64,
  DTILE_U8,
  DTILE_U16,
  DTILE_U32,
  DTILE_U64,
  DTILE_F8E4M3,
  DTILE_F8E5M2,
  DTILE_F16,
  DTILE_BF16,
  DTILE_F32,
  DTILE_F64
} dtile_dtype;

typedef enum dtile_param_kind {
  DTILE_PARAM_TENSOR,
  DTILE_PARAM_SCALAR,
  DTILE_PARAM_SIGNAL
} dtile_param_kind;
typedef enum dtile_param_mode {
  DTILE_MODE_VALUE,
  DTILE_MODE_IN,
  DTILE_MODE_OUT,
  DTILE_MODE_INOUT,
  DTILE_MODE_SYMM,
  DTILE_MODE_SCRATCH
} dtile_param_mode;

typedef struct dtile_task dtile_task;     /* one body being run (a fiber) */
typedef struct dtile_launch dtile_launch; /* one launch on one rank */

/* A place in the source, for reports. Strings live as long as the code. */
typedef struct dtile_site {
  const char *file;
  const char *what; /* the signal's or object's name */
  int32_t line, column;
} dtile_site;

/* A strided region. `data` is the address in this rank's memory; where `rank` is not negative, the
 * region is the same place of the symmetric object on that rank. Sizes and strides count elements.
 */
typedef struct dtile_region {
  void *data;
  int32_t rank;
  int32_t ndim;
  int32_t dtype;
  int32_t reserved;
  int64_t size[DTILE_MAX_RANK];
  int64_t stride[DTILE_MAX_RANK];
} dtile_region;

typedef struct dtile_param_desc {
  const char *name;
  int32_t kind, mode, dtype, rank;
  uint32_t flags; /* DTILE_PARAM_* below */
  int32_t copies; /* scratch: objects taken in turn by launch, at least 1 */
  /* a bit a dimension whose size as passed is the same on all ranks, as the sizes of symmetric
   * objects and signals follow from it */
  uint32_t agreed;
  uint32_t reserved;
  /* with DTILE_PARAM_DEFAULT: as dtile_arg.scalar_bits */
  uint64_t default_bits;
} dtile_param_desc;

/* scratch: zeroed at each launch */
#define DTILE_PARAM_ZERO 1u
/* symm: the kernel writes it, here or at peers */
#define DTILE_PARAM_WRITTEN 2u
/* symm: launches write parts of it in turn, by the number of the launch, at peers that may not have
 * begun the launch; so the memory holds nothing else that peers may still use (epoch_buffers.h) */
#define DTILE_PARAM_IN_TURN 4u
/* a scalar that callers from other languages may leave out; launches get all arguments */
#define DTILE_PARAM_DEFAULT 8u
/* a scalar that is the size of an axis of the kernel's mesh: launches with other values have other
 * scratch objects and signals */
#define DTILE_PARAM_AXIS 16u

/* What the cell of a notify tells the rank that waits for it of who notifies: nothing; a position
 * of the cell is that rank; it is so many ranks before the one that waits. */
typedef enum dtile_notify_from {
  DTILE_FROM_ANYBODY,
  DTILE_FROM_POSITION,
  DTILE_FROM_BEFORE
} dtile_notify_from;

/* A place where bodies of a space notify a signal; for reports and telemetry. */
typedef struct dtile_notify_desc {
  int32_t param; /* index in params */
  int32_t from;  /* dtile_notify_from */
  /* the dimension of the cell's position, or the number of ranks */
  int64_t value;
  dtile_site site;
} dtile_notify_desc;

typedef struct dtile_space_desc {
  const char *name; /* "" for a kernel without roles */
  int32_t ndims;
  int32_t after_all; /* the space whose bodies must all have ended before, or -1 */
  int32_t ordered;   /* bodies start in order, one at a time */
  int32_t programs;  /* pinned number of concurrent bodies, or 0 */
  const char *const *vars;
  /* number of bodies on this rank; may be 0 */
  int64_t (*count)(const void *frame);
  /* position of each dimension for body number `linear` (schedule order) */
  void (*position)(const void *frame, int64_t linear, int64_t *position);
  /* bytes of scratch memory (64-byte aligned) that one running body needs */
  int64_t workspace_bytes;
  void (*body)(dtile_task *task, const void *frame, void *workspace, int64_t linear);
  int32_t nnotifies, reserved;
  const dtile_notify_desc *notifies;
} dtile_space_desc;

typedef struct dtile_signal_desc {
  int32_t param; /* index in params */
  /* how many notifies one launch sends to cell `cell` (row-major number) of this rank; null: not
   * derived, then the counts that waits ask for by `count:` are used */
  int64_t (*expected)(const void *frame, int64_t cell);
} dtile_signal_desc;

/* What the number of programs of a space depends on (device_programs.h). */
typedef struct dtile_device_space {
  /* the author's number, or 0 */
  int32_t pinned;
  int32_t ordered;
  /* more programs than this bring nothing where others compute, if bodies do not wait: bodies that
   * only move data; 0: no limit */
  int32_t most;
  /* of those, as many move data as fast as all: they fill the way to other devices; 1 at least
   * where `most` is not 0 */
  int32_t fill;
  /* 1: programs of the spaces before it run its bodies when they are done with their own */
  int32_t shares;
  /* 1: so it does, and it needs none of its own where one of those has bodies; 2: the same, but it
   * is better with some of its own where those that compute have more bodies than run at once:
   * what it sends then leaves beside the rest */
  int32_t follows;
  /* 1: its bodies wait for what others send or compute */
  int32_t waits;
  /* more than 0: the programs of a cluster may share the loop of a body, and add up their sums,
   * which takes so many nanoseconds (pass split-sums) */
  int32_t exchange;
  /* more than 0: bodies of the last round may be divided between programs, which takes so many
   * nanoseconds each time, and what of a body is not shared (pass split-sums) */
  int32_t divide;
  /* 1: while one of its programs waits, others of the processor use what it leaves idle: spaces of
   * kernels without products */
  int32_t covers;
} dtile_device_space;

/* How the code of an image uses a scratch object. */
typedef struct dtile_device_scratch {
  int32_t param; /* index in params */
  /* that its launches take in turn; the object may have more, for others */
  int32_t copies;
  /* 1: elements have flags between them (pass ll-messages) */
  int32_t flagged;
  int32_t reserved;
} dtile_device_scratch;

/* How tiles are moved in a launch. */
typedef enum dtile_loading {
  DTILE_UNSTAGED = -1,  /* TMA cannot load all tiles: all threads do, and clusters share no loops */
  DTILE_IN_PARTS = 0,   /* copy warps load those that TMA cannot; without TMA: some tiles are moved
                           in parts of words */
  DTILE_WHOLE_WORDS = 1 /* TMA loads all tiles; without TMA: all are moved in words of 16 bytes */
} dtile_loading;

/* Launches for which an image may have functions of their own. */
typedef enum dtile_launch_kind {
  DTILE_LAUNCH_PLAIN,  /* all tiles in whole words, and programs share nothing */
  DTILE_LAUNCH_SPLIT,  /* the same, but the programs of a cluster share loops */
  DTILE_LAUNCH_SHARED, /* the same, but programs share loads, or bodies of the last round */
  DTILE_LAUNCH_COPIED, /* not all tiles in whole words; all others */
  DTILE_LAUNCH_KINDS
} dtile_launch_kind;

/* Code for one kind of device. The host side of a launch is here too: it may differ from the
 * host target's, as frames hold what device_abi.h says.
 *
 * A kernel that leaves constants to the compiler has several images for a device, its variants:
 * the same kernel with other constants. At the first launch with certain arguments the runtime
 * takes the one that it estimates to be the fastest (device_variants.cpp). */
typedef enum dtile_image_format {
  DTILE_IMAGE_PTX, /* zero-terminated text */
  DTILE_IMAGE_CUBIN,
  DTILE_IMAGE_HSACO
} dtile_image_format;

typedef struct dtile_device_image {
  uint32_t device_abi_version; /* DTILE_DEVICE_ABI_VERSION */
  int32_t format;
  const char *target; /* "nvptx", "amdgpu" */
  const char *arch;   /* "sm_90a", "gfx942" */
  const char *shmem;  /* provider: a name of backend/device_library/providers.def */
  const void *data;   /* compressed where `packed_bytes` is not 0 */
  int64_t bytes;      /* of the image itself */
  /* names of the kernel's functions in it, by dtile_launch_kind; several may be one. Null for
   * DTILE_LAUNCH_COPIED where such launches are those of other variants */
  const char *entries[DTILE_LAUNCH_KINDS];
  int32_t threads;      /* of a program */
  int32_t shared_bytes; /* dynamic shared memory of a program */
  int64_t frame_bytes;
  int32_t (*prologue)(dtile_launch *launch, void *frame);
  /* one a space: number of bodies on this rank */
  int64_t (*const *counts)(const void *frame);
  /* one a space: how long body number `body` is estimated to move data and to compute, in
   * nanoseconds, at least 1, where `together` programs share a processor and `running` run on the
   * device */
  int64_t (*const *weights)(const void *frame, int64_t body, int64_t together, int64_t running);
  /* one a space: how long it waits beside that, however little it does: for memory, for what it has
   * sent to land, for a signal that is there; nanoseconds */
  int64_t (*const *latencies)(const void *frame, int64_t body, int64_t together, int64_t running);
  /* one a space: of its weight, what programs may share; 0 where `exchange` and `divide` are */
  int64_t (*const *shared)(const void *frame, int64_t body, int64_t together, int64_t running);
  /* one a space: bytes that it moves between this device and others */
  int64_t (*const *remote_bytes)(const void *frame, int64_t body, int64_t together,
                                 int64_t running);
  const dtile_device_space *spaces;
  /* the dtile_loading of this launch; null: always DTILE_WHOLE_WORDS */
  int64_t (*loading)(const void *frame);
  /* null, or: how many bodies a launch by TMA has whose clusters of two programs share the loads of
   * an operand (pass multicast-operands), those that fill up pairs among them; 0 where no two
   * bodies have a tile in common */
  int64_t (*paired)(const void *frame);
  /* the weight of a body of the first space in such a launch; null where `paired` is */
  int64_t (*paired_weight)(const void *frame, int64_t body, int64_t together, int64_t running);
  /* places and messages that reports name by number */
  int32_t nsites;
  /* of the provider's own device code, as 30405 for NVSHMEM 3.4.5; 0: it has none */
  int32_t shmem_version;
  const dtile_site *sites;
  /* number among the variants for its device, from 0 */
  int32_t variant;
  /* variants with the same number look alike to other ranks */
  int32_t protocol;
  /* nanoseconds that a launch is estimated to take besides its bodies */
  int32_t launch_time;
  /* bytes a nanosecond between devices, one way, as the model of the machine has it */
  int32_t link_rate;
  /* the constants that were chosen: "BM=128 BN=256", or "" */
  const char *constants;
  /* index in `sites` of the first access that needs the memory of other ranks to be mapped here, of
   * "p2p" all that goes from rank to rank; -1: there is none */
  int32_t mapped_site;
  /* of `data`, where that is a block of LZ4; else 0 */
  int32_t packed_bytes;
  /* of the sums that a program leaves for another one of a body that is divided (device_abi.h) */
  int64_t partial_bytes;
  int32_t nscratch;
  /* nanoseconds that a launch is estimated to take more whose programs share loads (`paired`) */
  int32_t pair_time;
  const dtile_device_scratch *scratch;
  /* null where no space leaves its transfers to the copy engine; else one a space, or null: lists
   * what body number `body` puts and notifies at other ranks, by dtile_rt_engine_* */
  void (*const *engine)(dtile_launch *launch, const void *frame, int64_t body);
} dtile_device_image;

/* A size that measured choices depend on: where launches have it. */
typedef struct dtile_tuned_size {
  int32_t param, dim;
} dtile_tuned_size;

/* What was measured to be the fastest for some launch (`dtilec tune`); tuned_rows.h says which
 * launches take it. */
typedef struct dtile_tuned_row {
  /* the kind of device that it was measured on; a device of another name does not take it */
  const char *machine;
  /* architecture of that device; "" for processors */
  const char *arch;
  int32_t ranks;
  /* number among the variants for that architecture, or for processors; where the kernel is a name
   * for several, number among its alternatives */
  int32_t variant;
  /* of that variant, as in dtile_device_image */
  int32_t protocol, reserved;
  /* one a dtile_tuned_size */
  const int64_t *sizes;
  /* processors: the kernel's other code, or null for the code of the kernel itself. Parameters,
   * the number of spaces and of signals are the same, and it has no images */
  const struct dtile_kernel_desc *code;
} dtile_tuned_row;

typedef struct dtile_kernel_desc {
  uint32_t abi_version;
  uint32_t flags; /* DTILE_KERNEL_* */
  const char *name;
  const char *file;
  int32_t nparams, nspaces, nsignals;
  /* more than 0: a name for several kernels. It has the parameters that callers pass and no code;
   * the runtime launches the alternative that it estimates to be the fastest */
  int32_t nalternatives;
  const dtile_param_desc *params;
  const dtile_space_desc *spaces;
  const dtile_signal_desc *signals;
  int64_t frame_bytes;
  /* 0, or non-zero after a failed dtile_rt_check_dim */
  /* null in objects without host code */
  int32_t (*prologue)(dtile_launch *launch, void *frame);
  int32_t nimages, ntuned;
  const dtile_device_image *images;
  /* what the code for processors uses beyond the least of its architecture: a bit a row of
   * processor_features.def */
  uint64_t processor_features;
  /* of the variants and their constants: the same on all ranks of a team */
  uint64_t configuration;
  const struct dtile_kernel_desc *const *alternatives;
  int32_t ntuned_sizes, reserved2;
  const dtile_tuned_size *tuned_sizes;
  const dtile_tuned_row *tuned;
} dtile_kernel_desc;

/* Ranks meet before the bodies of a launch start (where nothing else keeps ranks from running two
 * launches ahead). */
#define DTILE_KERNEL_ENTRY_BARRIER 1u
/* Bodies print on devices: ranks need a dtile_device_prints. */
#define DTILE_KERNEL_PRINTS 2u
/* Bodies record on devices what they do, where a team is traced. */
#define DTILE_KERNEL_TRACED 4u

/* ---- Called by prologues ---- */
int32_t dtile_rt_rank(dtile_launch *);
int32_t dtile_rt_num_ranks(dtile_launch *);
int64_t dtile_rt_epoch(dtile_launch *);
int64_t dtile_rt_arg_dim(dtile_launch *, int32_t param, int32_t dim);
int64_t dtile_rt_arg_stride(dtile_launch *, int32_t param, int32_t dim);
void *dtile_rt_arg_data(dtile_launch *, int32_t param);
/* copies the scalar's bytes */
void dtile_rt_arg_scalar(dtile_launch *, int32_t param, void *out);
/* 0 when equal; otherwise records the error of the launch */
int32_t dtile_rt_check_dim(dtile_launch *, int32_t param, int32_t dim, int64_t declared,
                           int64_t passed);
/* A launch for which a clause is not true is refused. `message` has holes {0} … for the values;
 * `kinds` has a letter each: i, u, b, or f for the bits of a double. Gives 0 where it is true. */
int32_t dtile_rt_require(dtile_launch *, int32_t is_true, const char *message, const char *kinds,
                         const int64_t *values);
/* The same of an input's elements; kind and predicate are those of
 * frontend/base/element_clauses.h, and `text` is the clause. */
int32_t dtile_rt_check_elements(dtile_launch *, int32_t param, int32_t kind, int32_t predicate,
                                const int64_t *position, int64_t bound, const char *text);
/* this launch's copy of a scratch object (row-major, contiguous); null records an error */
void *dtile_rt_scratch(dtile_launch *, int32_t param, int32_t ndim, const int64_t *size);
/* the cells of a signal parameter on this rank (uint64_t, row-major); null records an error */
void *dtile_rt_signal(dtile_launch *, int32_t param, int32_t ndim, const int64_t *size);
/* The same for launches on devices. 0, or non-zero after an error was recorded */
struct dtile_device_object;
struct dtile_device_cells;
int32_t dtile_rt_device_scratch(dtile_launch *, int32_t param, int32_t ndim, const int64_t *size,
                                struct dtile_device_object *out);
int32_t dtile_rt_device_signal(dtile_launch *, int32_t param, int32_t ndim, const int64_t *size,
                               struct dtile_device_cells *out);
/* A dtype of tensor maps only: f32, rounded to tf32 on the way. */
enum { DTILE_MAP_TF32 = 256 };
/* Writes a tensor map (128 bytes, 64-aligned) of the object at `data`, innermost dimension last.
 * Sizes, strides and the box count elements; `swizzle` is 0, 32, 64 or 128 bytes. Where the device
 * cannot describe it (misaligned, too large) gives 0 in *usable and no error. */
int32_t dtile_rt_tensor_map(dtile_launch *, void *map, void *data, int32_t dtype, int32_t ndim,
                            const int64_t *size, const int64_t *stride, const int32_t *box,
                            int32_t swizzle, int64_t *usable);

/* ---- Called by lists of transfers (dtile_device_image.engine) ---- */
/* in the order in which the copy engine is to do it; what stays on this rank is ignored */
void dtile_rt_engine_put(dtile_launch *, const dtile_region *src, const dtile_region *dst,
                         const dtile_site *site);
void dtile_rt_engine_notify(dtile_launch *, const dtile_region *cells);
/* a check of the body fails: programs run it, and report that */
void dtile_rt_engine_leave(dtile_launch *);

/* ---- Called by bodies ---- */
/* asynchronous; complete at dtile_rt_await. `src` may be any local region, equally shaped */
void dtile_rt_put(dtile_task *, const dtile_region *src, const dtile_region *dst);
void dtile_rt_get(dtile_task *, const dtile_region *src, const dtile_region *dst);
void dtile_rt_reduce_add(dtile_task *, const dtile_region *src, const dtile_region *dst);
/* blocking copy of a (remote) region to a local one and back; sizes must agree */
void dtile_rt_load(dtile_task *, const dtile_region *src, const dtile_region *dst);
void dtile_rt_store(dtile_task *, const dtile_region *src, const dtile_region *dst);
/* kind: 0 add 1 min 2 max 3 and 4 or 5 exch 6 cas; operand bits in the low bytes; gives the old
 * bits */
uint64_t dtile_rt_atomic(dtile_task *, int32_t kind, const dtile_region *cell, uint64_t operand,
                         uint64_t expected);
/* signal cells are regions of u64 whose data is inside what dtile_rt_signal gave */
void dtile_rt_notify(dtile_task *, const dtile_region *cells, const dtile_site *site);
/* count < 0: the derived count of each cell */
void dtile_rt_wait(dtile_task *, const dtile_region *cells, int64_t count, const dtile_site *site);
/* the sources of what this body has sent may be written again; it lands before what the body
 * notifies next of the same rank */
void dtile_rt_issue(dtile_task *);
/* all that this body has sent is complete */
void dtile_rt_await(dtile_task *);
void dtile_rt_quiet(dtile_task *);
void dtile_rt_fence(dtile_task *);
void dtile_rt_barrier(dtile_task *, const dtile_site *site);
/* shows a local region in dense row-major order, or only the message where `value` is null */
void dtile_rt_print(dtile_task *, const dtile_site *site, const dtile_region *value,
                    const char *message);
/* stops the launch with the message, holes {0} … filled; does not return */
__attribute__((noreturn)) void dtile_rt_fail(dtile_task *, const dtile_site *site,
                                             const char *message, int32_t nargs,
                                             const int64_t *args);
/* stops the launch when `rank` is not in [0, num_ranks) */
void dtile_rt_check_rank(dtile_task *, int64_t rank, const dtile_site *site);
/* stops the launch when a signal position is outside */
void dtile_rt_check_cell(dtile_task *, int64_t index, int64_t size, const dtile_site *site);
float dtile_rt_f8e4m3_to_f32(uint8_t);
uint8_t dtile_rt_f32_to_f8e4m3(float);
float dtile_rt_f8e5m2_to_f32(uint8_t);
uint8_t dtile_rt_f32_to_f8e5m2(float);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#ifdef __cplusplus
}
#endif
