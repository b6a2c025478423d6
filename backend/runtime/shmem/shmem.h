/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 * What the runtime asks of whatever carries bytes between ranks. One source a provider: threads.cpp
 * (ranks of one process; built in) and openshmem.c (one process a rank; a shared object of its own,
 * opened when a job's environment asks for it, so that the runtime never links MPI).
 *
 * Every rank has one heap of `heap_bytes` zero bytes, and a place in it is named by its offset,
 * equal on all ranks. Where `peer` gives an address, the runtime loads, stores and computes there
 * with plain and atomic CPU operations; the other entries serve ranks out of reach. Offsets and
 * sizes are the caller's to keep inside the heap. Calls of one instance never overlap: the runtime
 * serializes them. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DTILE_SHMEM_VERSION 3

/* Read-modify-write operations on 4- or 8-byte integers; others are made of the last. */
typedef enum dtile_shmem_amo {
  DTILE_SHMEM_ADD,
  DTILE_SHMEM_EXCHANGE,
  DTILE_SHMEM_COMPARE_EXCHANGE
} dtile_shmem_amo;

/* What the caller asks for; a provider may give less heap (and says how much). */
typedef struct dtile_shmem_config {
  int32_t ranks;      /* threads: how many ranks; processes: 0, the job says */
  int64_t heap_bytes; /* a rank; 0: the provider's default */
  int32_t indirect; /* not 0: give no peer addresses, so that tests on one machine send messages */
  /* processes: budget of a wait in milliseconds, 0: a minute. An operation that waits for another
   * process for well over that ends this one, with a message */
  int32_t timeout_ms;
} dtile_shmem_config;

typedef struct dtile_shmem dtile_shmem;

/* Who knows more of the job than the provider. `goes_on` says whether an operation that has waited
 * for so long should wait on: 1; or 0, and why not, in `words`. Then the process ends with them. A
 * thread of the provider's asks, several times a second. */
typedef struct dtile_shmem_monitor {
  void *context;
  int32_t (*goes_on)(void *context, const char *operation, int64_t milliseconds, char *words,
                     size_t words_bytes);
} dtile_shmem_monitor;

/* The operations of a provider. None fails: a job whose network is gone ends. */
typedef struct dtile_shmem_ops {
  const char *name;
  /* where rank's heap begins in this process, or null; never null for this process's own ranks */
  void *(*peer)(dtile_shmem *, int32_t rank);
  /* the source may be reused on return; the bytes have landed after quiet */
  void (*put)(dtile_shmem *, int32_t rank, int64_t offset, const void *source, size_t bytes);
  /* blocking */
  void (*get)(dtile_shmem *, int32_t rank, int64_t offset, void *destination, size_t bytes);
  /* gives the old value; `bytes` is 4 or 8; `expected` is for COMPARE_EXCHANGE */
  uint64_t (*atomic)(dtile_shmem *, dtile_shmem_amo, int32_t rank, int64_t offset, int32_t bytes,
                     uint64_t operand, uint64_t expected);
  /* adds 1 to an 8-byte cell; complete after quiet */
  void (*notify)(dtile_shmem *, int32_t rank, int64_t cell);
  /* reads an 8-byte cell of this process's rank (acquire) and lets the network move */
  uint64_t (*cell_read)(dtile_shmem *, int64_t cell);
  /* puts and notifies to one rank after the fence land after those before it */
  void (*fence)(dtile_shmem *);
  /* everything sent has landed */
  void (*quiet)(dtile_shmem *);
  /* all processes meet; includes quiet */
  void (*barrier)(dtile_shmem *);
  /* `out` gets npes blocks of `bytes`, in rank order; collective. `in` has one block a local rank
   */
  void (*all_gather)(dtile_shmem *, const void *const *in, size_t bytes, void *out);
  /* leaves the job in order; collective */
  void (*close)(dtile_shmem *);
  /* The job has failed, for the reason in `words`: from now on the exit of this process waits for
   * no other one, and its code is not 0. Null: it has recovered, and is left in order again. */
  void (*leave_alone)(dtile_shmem *, const char *words);
  /* Asks this monitor while operations wait for other processes, until `close`. Null: asks nobody,
   * and no call of the one before is under way any more. */
  void (*set_monitor)(dtile_shmem *, const dtile_shmem_monitor *);
} dtile_shmem_ops;

/* An open provider: this process's place in the job. */
struct dtile_shmem {
  const dtile_shmem_ops *ops;
  int32_t first; /* the first rank that this process drives … */
  int32_t local; /* … and how many */
  int32_t npes;
  int32_t threads_allowed; /* whether calls may come from more than one thread, one at a time */
  int64_t heap_bytes;
};

/* Opens the provider; null on failure, with the reason in `error`. */
typedef dtile_shmem *(*dtile_shmem_open_fn)(uint32_t version, const dtile_shmem_config *,
                                            char *error, size_t error_bytes);

/* The built-in provider: all ranks in this process. */
dtile_shmem *dtile_shmem_open_threads(uint32_t version, const dtile_shmem_config *, char *error,
                                      size_t error_bytes);

/* The name under which a provider's shared object exports its open function. */
#define DTILE_SHMEM_OPEN_SYMBOL "dtile_shmem_open"

#ifdef __cplusplus
}
#endif
