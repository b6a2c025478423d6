/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 * dtile.h: run kernels that `dtilec build` compiled. C ABI.
 *
 * A team is the set of ranks. In one process its ranks are driven by this process
 * (`dtile_team_create_threads`, or on GPUs `dtile_team_create_devices`); in a job started by
 * oshrun, torchrun or mpirun each process is one rank (`dtile_team_create_env`, or on GPUs
 * `dtile_team_create_device_env`). Every call gives DTILE_OK or an error code; dtile_last_error()
 * tells the calling thread in words what happened and what to do. */
#pragma once

#include "kernel_abi.h"

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define DTILE_API __attribute__((visibility("default")))
#else
#define DTILE_API
#endif

typedef enum dtile_status {
  DTILE_OK = 0,
  DTILE_INVALID = 1,       /* an argument is wrong: shape, type, rank, null */
  DTILE_OUT_OF_MEMORY = 2, /* the symmetric heap or the machine is full */
  DTILE_DEADLOCK = 3,      /* every body that is left waits */
  DTILE_TRAP = 4,          /* a run-time check of a kernel failed */
  DTILE_TIMEOUT = 5,       /* a wait exceeded its budget */
  DTILE_UNAVAILABLE = 6    /* a provider, a device or an instruction is missing */
} dtile_status;

typedef struct dtile_team dtile_team;

/* A tensor argument. Strides count elements; `symm` and scratch objects are row-major and
 * contiguous. */
typedef struct dtile_tensor {
  void *data;
  int32_t dtype;
  int32_t ndim;
  int64_t size[DTILE_MAX_RANK];
  int64_t stride[DTILE_MAX_RANK];
} dtile_tensor;

/* One argument of a launch, in the order of the kernel's parameters without scratch objects and
 * signals. */
typedef union dtile_arg {
  const dtile_tensor *tensor;
  uint64_t scalar_bits; /* low bytes hold the value */
} dtile_arg;

/* Options begin with their size, and have fields added at their end: a library that is newer than
 * the program takes what is not there for zero, and one that is older refuses what it does not know
 * and is not zero. So a variable of them begins as the _INIT beside them says. A size of 0, as in
 * `= {0}`, stands for the fields of version 5 of this interface; later ones are not looked at. */

/* What a team is made of; zero is the default of each field but `ranks`. */
typedef struct dtile_team_options {
  uint32_t struct_bytes;   /* sizeof(dtile_team_options) */
  int32_t ranks;           /* threads provider: number of ranks, 1 to 1024 */
  int32_t workers;         /* OS threads that run bodies, at most 1024; default: the processors */
  int32_t wait_timeout_ms; /* processes: a wait's budget; default 60000 */
  int64_t symmetric_bytes; /* symmetric heap a rank, reserved (touched on use); default 1 GiB */
  int64_t stack_bytes;     /* a fiber's stack, 16 KiB to 1 GiB; default 64 KiB */
  uint64_t schedule_seed;  /* 0: schedule order; else bodies start in a random order of this seed */
  /* Where to write who waits for whom when a launch cannot go on: FILE.dot or FILE.json. Null:
   * DTILE_WAIT_GRAPH of the environment, else nowhere. */
  const char *wait_graph;
} dtile_team_options;
#define DTILE_TEAM_OPTIONS_INIT {sizeof(dtile_team_options), 0, 0, 0, 0, 0, 0, 0}

/* A team whose ranks are GPUs; zero is the default of each field. */
typedef struct dtile_device_options {
  uint32_t struct_bytes; /* sizeof(dtile_device_options) */
  /* One process, many GPUs: the number of ranks, and the GPU of each; by default 0, 1 … One GPU may
   * stand there more than once: then its ranks share it, and each gets a part of its programs. */
  int32_t ndevices;
  const int32_t *devices;
  const char *target;      /* "nvptx" (default), "amdgpu" */
  int64_t symmetric_bytes; /* symmetric heap a rank; default 256 MiB */
  int32_t wait_timeout_ms; /* budget of a wait on the device; default 60000 */
  /* One process a GPU, where the caller knows its place (dtile_team_create_job). */
  int32_t rank, ranks;
  int32_t device;  /* the GPU of this process */
  const char *job; /* equal in all processes of the job, and in no other job's */
  /* 1: launches start their programs as there is room, not all at once, which is a little faster.
   * Only where nothing else that waits runs on the GPU at the same time. */
  int32_t plain_launches;
  /* Who makes the symmetric heaps: "p2p", or "nvshmem" (one process a GPU), which kernels need that
   * were compiled with --shmem=nvshmem; null: DTILE_SHMEM of the environment, else p2p. */
  const char *shmem;
  /* The NVSHMEM installation, whose lib/ has libnvshmem_host.so.3; null: DTILE_NVSHMEM_HOME of the
   * environment, else as the system's loader finds it. */
  const char *nvshmem_home;
} dtile_device_options;
#define DTILE_DEVICE_OPTIONS_INIT {sizeof(dtile_device_options), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}

/* DTILE_ABI_VERSION of the library. */
DTILE_API uint32_t dtile_abi_version(void);
/* Words for the calling thread's last error; "" when there was none. */
DTILE_API const char *dtile_last_error(void);

DTILE_API dtile_status dtile_team_create_threads(const dtile_team_options *, dtile_team **);
/* The team of the job that this process belongs to (OpenSHMEM: oshrun). */
DTILE_API dtile_status dtile_team_create_env(const dtile_team_options *, dtile_team **);
/* Ends the team; collective in a job, where it waits for the others as long as a wait may take. Of
 * a job that has failed, or whose other processes do not come, nothing can be ended in order: such
 * a process ends at its exit without waiting for anybody, with its output flushed and a code that
 * is not 0. In a process that was forked from the one that made the team (where every call with it
 * is DTILE_INVALID) it does nothing. */
DTILE_API void dtile_team_destroy(dtile_team *);
/* After a failure, in a job of processes on processors: all of them call it, whether the failing
 * call was theirs or gave DTILE_OK, and the team can be used again, with its kernels' signals at
 * zero. What the failed launch has written is undefined. Gives DTILE_TIMEOUT, and the team stays
 * unusable, where a process does not come; DTILE_INVALID where processes were left with different
 * symmetric objects. Teams of one process recover by themselves. Jobs on GPUs do not, and give
 * their failure again. */
DTILE_API dtile_status dtile_team_recover(dtile_team *);
/* Gives back what kernels have made in the symmetric heap, scratch objects and signals, which their
 * next launches make again, and which are given back without this where room is needed. Collective;
 * waits for what runs. What captured graphs use stays, unless `flags` has DTILE_TRIM_CAPTURED: then
 * no graph that was captured before is replayed any more. */
#define DTILE_TRIM_CAPTURED 1u
DTILE_API dtile_status dtile_team_trim(dtile_team *, uint32_t flags);
/* -1: the team is null. */
DTILE_API int32_t dtile_team_size(const dtile_team *);
/* First rank driven by this process and how many are: (0, size) for threads, (me, 1) for processes.
 */
DTILE_API int32_t dtile_team_first_local(const dtile_team *);
DTILE_API int32_t dtile_team_local_count(const dtile_team *);

/* Symmetric memory: the same offset on every rank. Collective: all ranks allocate in the same order
 * and size. Gives the address on the first local rank; dtile_symm_address translates to another
 * local rank. 256-byte aligned. Where a kernel writes parts of it at peers in turn, by the number
 * of its launch, ranks meet before the first such launch, and before the next one after a launch of
 * another kernel that writes it, or of this one that cuts it otherwise. Such others are
 * DTILE_INVALID where a captured launch relies on there being none, until the memory is freed: so
 * all ranks capture the same, in the same order. What is no `symm` parameter (tensors that are
 * written by other means) is not seen. A tensor of a launch that begins in the heap must lie within
 * what one call has given. */
DTILE_API dtile_status dtile_symm_alloc(dtile_team *, int64_t bytes, void **out);
DTILE_API dtile_status dtile_symm_free(dtile_team *, void *address);
DTILE_API void *dtile_symm_address(dtile_team *, void *address, int32_t local_rank);
/* Makes memory that others have allocated on all ranks symmetric as it stands, without a copy:
 * PyTorch's symmetric memory (the handle's buffer_ptrs) or windows of NCCL. `pointers[r]` is where
 * this process has rank r's, `bytes` long. Collective, in the same order on all ranks. From then on
 * tensors of launches may lie in this rank's part: to every check it is an object of
 * dtile_symm_alloc. Scratch objects and signals stay in the heap.
 *
 * On GPUs it must be memory of cuMemCreate, of one process a GPU and the provider p2p: it is mapped
 * a second time beside the heaps, and stays there until it is unregistered, even where its owner
 * frees it before. On processors, that of one process. */
DTILE_API dtile_status dtile_symm_register(dtile_team *, void *const *pointers, int64_t bytes);
/* `address`: of this process's first rank, as it was registered. Collective; waits for what runs.
 * DTILE_INVALID, and it stays registered, where a captured launch uses it that dtile_team_trim with
 * DTILE_TRIM_CAPTURED was not told of. */
DTILE_API dtile_status dtile_symm_unregister(dtile_team *, void *address);

/* Runs one launch on every local rank and returns when all their bodies have ended. `args[r]` are
 * the arguments of the r-th local rank. Repeated calls may overlap on other processes' ranks;
 * signals need no reset. */
DTILE_API dtile_status dtile_launch_all(dtile_team *, const dtile_kernel_desc *,
                                        const dtile_arg *const *args, int32_t nargs);
/* Starts `count` launches back to back on every local rank without a meeting point between them:
 * ranks drift. A `count` of 0 starts none, but makes what such launches need. */
DTILE_API dtile_status dtile_launch_repeat(dtile_team *, const dtile_kernel_desc *,
                                           const dtile_arg *const *args, int32_t nargs,
                                           int32_t count);

/* Writes where the last launch of a kernel on a local rank has left a scratch object, by its name
 * in the kernel: the copy that this launch had, with its sizes, contiguous in the rank's symmetric
 * heap. To look at: later launches write there in their turn, and calls that need room may give it
 * to other objects. On GPUs it waits for what runs, as dtile_team_synchronize does, and is for
 * times when no graph is captured. DTILE_INVALID: the kernel has no such object, or has not been
 * launched since the team was made, had a failure or was trimmed. DTILE_UNAVAILABLE: the launch's
 * code keeps flags between the elements. */
DTILE_API dtile_status dtile_kernel_scratch(dtile_team *, int32_t local_rank,
                                            const dtile_kernel_desc *, const char *name,
                                            dtile_tensor *out);

/* ---- Questions about a launch ----
 *
 * `args` are those of one local rank. Types, sizes, strides and numbers count; the tensors' data
 * may be null and is not read. Nothing runs, nothing is made in the symmetric heap, and no other
 * process takes part. On GPUs the first question loads the kernel's code, so ask before a graph is
 * captured. */

/* Whether a launch would be taken: 1 in `supported`, or 0 with the reason in dtile_last_error. That
 * is what the kernel requires of its sizes and numbers, code for the GPU, as many programs at once
 * as it needs, and room for its scratch objects and signals beside what callers have in the heap.
 * What addresses and elements must be is checked by launches alone. Of ranks that pass different
 * sizes each may get another answer. */
DTILE_API dtile_status dtile_kernel_supports(dtile_team *, int32_t local_rank,
                                             const dtile_kernel_desc *, const dtile_arg *args,
                                             int32_t nargs, int32_t *supported);
/* Writes the sizes that argument number `argument` must have, as many as it has dimensions. Tensors
 * that are not known are null in `args`. DTILE_INVALID where the others do not say them. */
DTILE_API dtile_status dtile_kernel_sizes(dtile_team *, int32_t local_rank,
                                          const dtile_kernel_desc *, const dtile_arg *args,
                                          int32_t nargs, int32_t argument, int64_t *size);

/* ---- GPUs ----
 *
 * The driver's library is opened when a team is created, never linked. Tensors are in the memory of
 * the rank's GPU, `symm` ones in the symmetric heap; strides are free otherwise. What a kernel
 * writes must not overlap another argument. After an error the process and the GPU stay usable,
 * except after a fault of the GPU itself (an invalid address), which ends a CUDA context; a team of
 * one process can go on, with its signals at zero, a job of several processes cannot.
 *
 * Peers of one host must reach each other's memory (NVLink, or PCIe that allows it). A job may have
 * several hosts where NVSHMEM makes its heaps (docs/hosts.md). */

/* GPUs that this process sees; `target` as in dtile_device_options. */
DTILE_API dtile_status dtile_device_count(const char *target, int32_t *out);
/* Writes the architecture of one of them, as `sm_90` or `gfx942`, with its final 0. */
DTILE_API dtile_status dtile_device_arch(const char *target, int32_t device, char *out,
                                         int32_t bytes);
/* What choices that `dtilec tune` measured are kept by: a GPU's name; of `host`, this machine's
 * processor. Written with its final 0. */
DTILE_API dtile_status dtile_machine_name(const char *target, int32_t device, char *out,
                                          int32_t bytes);
/* All ranks in this process, one a GPU. */
DTILE_API dtile_status dtile_team_create_devices(const dtile_device_options *, dtile_team **);
/* This process is one rank, on the GPU of its local rank, of the job that torchrun (RANK,
 * WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT), mpirun (OMPI_COMM_WORLD_*),
 * srun (SLURM_*) or mpiexec (PMI_*) has started. Collective. */
DTILE_API dtile_status dtile_team_create_device_env(const dtile_device_options *, dtile_team **);
/* The same, with rank, ranks, device and job from the options. The job of several hosts is
 * tcp://ADDRESS:PORT/NAME, where rank 0 listens. */
DTILE_API dtile_status dtile_team_create_job(const dtile_device_options *, dtile_team **);

/* Queues one launch of a local rank on a stream of its GPU (CUstream or hipStream_t, null is the
 * default stream) and returns. The launch runs when all ranks have queued theirs; ranks launch the
 * same kernels in the same order, each on streams that run them in that order.
 *
 * The first launch of a kernel, and the first with other sizes, makes objects and may wait for
 * peers and for what runs on the GPUs (so, in one process, start a kernel on all ranks before
 * another kernel's first launch); later ones only look up and launch, and may be captured in a
 * graph. What a graph captures must have been launched once before, or made ready by
 * dtile_launch_repeat with a count of 0. A launch that fails on the device is reported by the next
 * call, or by dtile_team_synchronize. */
DTILE_API dtile_status dtile_launch_on(dtile_team *, int32_t local_rank, const dtile_kernel_desc *,
                                       const dtile_arg *args, int32_t nargs, void *stream);
/* Waits for all that was queued on this process's GPUs; gives DTILE_TIMEOUT or DTILE_TRAP, with
 * rank, kernel, place, signal, wanted and seen in dtile_last_error, when a launch was given up. */
DTILE_API dtile_status dtile_team_synchronize(dtile_team *);
/* The stream on which dtile_launch_all launches a local rank, and its GPU's number. */
DTILE_API dtile_status dtile_team_stream(dtile_team *, int32_t local_rank, void **stream);
DTILE_API dtile_status dtile_team_device(dtile_team *, int32_t local_rank, int32_t *device);

/* For programs that have no CUDA or HIP of their own: memory of a local rank's GPU, and copies,
 * which are complete when they return and come after what was queued on the rank's stream. */
DTILE_API dtile_status dtile_device_alloc(dtile_team *, int32_t local_rank, int64_t bytes,
                                          void **out);
DTILE_API dtile_status dtile_device_free(dtile_team *, int32_t local_rank, void *address);
DTILE_API dtile_status dtile_copy_to_device(dtile_team *, int32_t local_rank, void *to,
                                            const void *from, int64_t bytes);
DTILE_API dtile_status dtile_copy_from_device(dtile_team *, int32_t local_rank, void *to,
                                              const void *from, int64_t bytes);
/* Captures what is queued on the rank's stream between the two calls; the graph is replayed on that
 * stream. */
DTILE_API dtile_status dtile_capture_begin(dtile_team *, int32_t local_rank);
DTILE_API dtile_status dtile_capture_end(dtile_team *, int32_t local_rank, void **graph);
DTILE_API dtile_status dtile_graph_replay(dtile_team *, int32_t local_rank, void *graph);
DTILE_API void dtile_graph_destroy(dtile_team *, int32_t local_rank, void *graph);

/* ---- TVM FFI ----
 *
 * Objects made by `dtilec build --emit=tvm-ffi` export each kernel also by TVM FFI's stable calling
 * convention, as __tvm_ffi_NAME: arguments are tensors (DLPack's, by address or as TVM FFI's
 * object) and numbers, in the order of the kernel's parameters without scratch objects and signals.
 * Outputs are arguments; nothing is returned. A call launches on the team in use: on GPUs the rank
 * on the first tensor's GPU, on the stream that TVM FFI has set for it; on processors the rank of
 * the process, to its end. */

/* The team that such calls use from now on; null: none. dtile_team_destroy ends that, too. */
DTILE_API dtile_status dtile_team_use(dtile_team *);
/* What they call. `args` and `result` are TVMFFIAny. Gives 0, or -1 with the error in
 * dtile_last_error and, where the process has TVM FFI's library, raised there. */
DTILE_API int32_t dtile_tvm_ffi_call(const dtile_kernel_desc *, const void *args, int32_t nargs,
                                     void *result);

/* ---- Traces ----
 *
 * When bodies of kernels run, what they wait for, send and notify, and which notify let which wait
 * go on: as JSON in the trace-event format, which Perfetto (ui.perfetto.dev) opens. Only kernels
 * that were compiled to be traced (`dtilec build --trace`) record anything; of others, teams on
 * processors record launches. Of a job of several processes each has its own trace, in a file of
 * its own; `dtilec trace` joins them. On GPUs launches of one rank must follow each other: what
 * runs at the same time in other streams may be recorded wrongly. */

/* What launches do from now on is recorded, at most `most_events` slices of it (0: 250000); what
 * does not fit is counted, and named by dtile_trace_end. What was recorded before is forgotten. */
DTILE_API dtile_status dtile_trace_begin(dtile_team *, int64_t most_events);
/* Stops recording and writes the file; null: writes none. On GPUs it waits for what was queued; on
 * processors kernels that were launched meanwhile must not have been unloaded. Where `dropped` is
 * not null, it gets the number of slices that did not fit. DTILE_INVALID where the file cannot be
 * written, or nothing was begun. */
DTILE_API dtile_status dtile_trace_end(dtile_team *, const char *path, int64_t *dropped);

/* ---- Meetings ---- */

/* All ranks of the team meet. */
DTILE_API dtile_status dtile_team_barrier(dtile_team *);
/* Gathers `bytes` of each rank, in rank order, to every rank. `in[r]` belongs to the r-th local
 * rank. */
DTILE_API dtile_status dtile_team_all_gather(dtile_team *, const void *const *in, int64_t bytes,
                                             void *out);

#ifdef __cplusplus
}
#endif
