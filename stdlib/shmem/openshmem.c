// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The provider for OpenSHMEM jobs: one process a rank. Compiled by oshcc into a shared object of
// its own; OpenSHMEM 1.4 is enough. One allocation holds the heap, so that a place is an offset and
// peers are found once.
#define _GNU_SOURCE
#include "stdlib/shmem/shmem.h"

#include <dlfcn.h>
#include <shmem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kAlignment = 4096, kGatherBytes = 16 * 1024 };
static const int64_t kDefaultHeapBytes = INT64_C(256) << 20;
// What the library itself takes of its symmetric heap.
static const int64_t kOverheadBytes = INT64_C(4) << 20;

typedef struct Openshmem {
  dtile_shmem shmem;
  char *heap;
  char *gather;
  void **peers;
  // Open MPI's tests of a cell do not let messages move; what its waits call does.
  void (*progress)(void);
} Openshmem;

// A process joins a job once: OpenSHMEM cannot be initialized again.
static int joined = 0;

static Openshmem *self(dtile_shmem *shmem) { return (Openshmem *)shmem; }
static char *at(dtile_shmem *shmem, int64_t offset) { return self(shmem)->heap + offset; }

static void *peer(dtile_shmem *shmem, int32_t rank) { return self(shmem)->peers[rank]; }

static void put(dtile_shmem *shmem, int32_t rank, int64_t offset, const void *source,
                size_t bytes) {
  shmem_putmem(at(shmem, offset), source, bytes, rank);
}

static void get(dtile_shmem *shmem, int32_t rank, int64_t offset, void *destination, size_t bytes) {
  shmem_getmem(destination, at(shmem, offset), bytes, rank);
}

// Open MPI 4.1's 4-byte compare_swap overruns its result: exchange the 8-byte word around the cell.
static uint32_t compareExchange32(char *cell, int rank, uint32_t operand, uint32_t expected) {
  size_t place = (uintptr_t)cell % sizeof(uint64_t);
  unsigned long *word = (unsigned long *)(cell - place);
  unsigned long seen = shmem_ulong_atomic_fetch_add(word, 0, rank);
  for (;;) {
    uint32_t old;
    memcpy(&old, (char *)&seen + place, sizeof old);
    if (old != expected)
      return old;
    unsigned long wanted = seen;
    memcpy((char *)&wanted + place, &operand, sizeof operand);
    unsigned long before = shmem_ulong_atomic_compare_swap(word, seen, wanted, rank);
    if (before == seen)
      return old;
    seen = before;
  }
}

static uint64_t atomic32(char *cell, dtile_shmem_amo kind, int rank, uint32_t operand,
                         uint32_t expected) {
  switch (kind) {
  case DTILE_SHMEM_ADD:
    return shmem_uint_atomic_fetch_add((unsigned *)cell, operand, rank);
  case DTILE_SHMEM_EXCHANGE:
    return shmem_uint_atomic_swap((unsigned *)cell, operand, rank);
  case DTILE_SHMEM_COMPARE_EXCHANGE:
    return compareExchange32(cell, rank, operand, expected);
  }
  return 0;
}

static uint64_t atomic64(char *cell, dtile_shmem_amo kind, int rank, uint64_t operand,
                         uint64_t expected) {
  unsigned long *word = (unsigned long *)cell;
  switch (kind) {
  case DTILE_SHMEM_ADD:
    return shmem_ulong_atomic_fetch_add(word, operand, rank);
  case DTILE_SHMEM_EXCHANGE:
    return shmem_ulong_atomic_swap(word, operand, rank);
  case DTILE_SHMEM_COMPARE_EXCHANGE:
    return shmem_ulong_atomic_compare_swap(word, expected, operand, rank);
  }
  return 0;
}

static uint64_t atomic(dtile_shmem *shmem, dtile_shmem_amo kind, int32_t rank, int64_t offset,
                       int32_t bytes, uint64_t operand, uint64_t expected) {
  char *cell = at(shmem, offset);
  return bytes == 4 ? atomic32(cell, kind, rank, (uint32_t)operand, (uint32_t)expected)
                    : atomic64(cell, kind, rank, operand, expected);
}

static void notify(dtile_shmem *shmem, int32_t rank, int64_t cell) {
  shmem_ulong_atomic_inc((unsigned long *)at(shmem, cell), rank);
}

static uint64_t cellRead(dtile_shmem *shmem, int64_t cell) {
  uint64_t *word = (uint64_t *)at(shmem, cell);
  if (self(shmem)->progress)
    self(shmem)->progress();
  else
    (void)shmem_uint64_test(word, SHMEM_CMP_EQ, UINT64_MAX);
  return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static void fence(dtile_shmem *shmem) {
  (void)shmem;
  shmem_fence();
}

static void quiet(dtile_shmem *shmem) {
  (void)shmem;
  shmem_quiet();
}

static void barrier(dtile_shmem *shmem) {
  (void)shmem;
  shmem_barrier_all();
}

static void allGather(dtile_shmem *shmem, const void *const *in, size_t bytes, void *out) {
  char *gather = self(shmem)->gather;
  for (size_t done = 0; done < bytes; done += kGatherBytes) {
    size_t part = bytes - done < kGatherBytes ? bytes - done : kGatherBytes;
    for (int rank = 0; rank < shmem->npes; ++rank)
      shmem_putmem(gather + (size_t)shmem->first * kGatherBytes, (const char *)in[0] + done, part,
                   rank);
    shmem_barrier_all();
    for (int rank = 0; rank < shmem->npes; ++rank)
      memcpy((char *)out + (size_t)rank * bytes + done, gather + (size_t)rank * kGatherBytes, part);
    shmem_barrier_all();
  }
}

static void closeJob(dtile_shmem *shmem) {
  shmem_barrier_all();
  shmem_finalize();
  free(self(shmem)->peers);
  free(shmem);
}

static const dtile_shmem_ops kOps = {
    .name = "openshmem",
    .peer = peer,
    .put = put,
    .get = get,
    .atomic = atomic,
    .notify = notify,
    .cell_read = cellRead,
    .fence = fence,
    .quiet = quiet,
    .barrier = barrier,
    .all_gather = allGather,
    .close = closeJob,
};

// Bytes of "64M", "1g", "4096"; 0 when it is none.
static int64_t parseSize(const char *text) {
  char *end;
  double number = strtod(text, &end);
  int shift = *end == 'k' || *end == 'K'   ? 10
              : *end == 'm' || *end == 'M' ? 20
              : *end == 'g' || *end == 'G' ? 30
              : *end == 't' || *end == 'T' ? 40
                                           : 0;
  return number > 0 && number < 1e15 ? (int64_t)(number * (double)(INT64_C(1) << shift)) : 0;
}

// Bytes of the heap to ask for; tells the library, where the user has not, how much that needs.
static int64_t chooseHeap(const dtile_shmem_config *config) {
  const char *given = getenv("SHMEM_SYMMETRIC_SIZE");
  if (given && config->heap_bytes == 0) {
    int64_t bytes = parseSize(given) - kOverheadBytes;
    return bytes > kOverheadBytes ? bytes : kOverheadBytes;
  }
  int64_t bytes = config->heap_bytes > 0 ? config->heap_bytes : kDefaultHeapBytes;
  bytes = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  if (!given) {
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)(bytes + kOverheadBytes));
    setenv("SHMEM_SYMMETRIC_SIZE", text, 1);
  }
  return bytes;
}

__attribute__((visibility("default"))) dtile_shmem *
dtile_shmem_open(uint32_t version, const dtile_shmem_config *config, char *error,
                 size_t errorBytes);

dtile_shmem *dtile_shmem_open(uint32_t version, const dtile_shmem_config *config, char *error,
                              size_t errorBytes) {
  if (version != DTILE_SHMEM_VERSION) {
    snprintf(error, errorBytes, "shmem interface %u of the runtime, %d of the OpenSHMEM provider",
             version, DTILE_SHMEM_VERSION);
    return NULL;
  }
  if (joined) {
    snprintf(error, errorBytes, "a process can join its OpenSHMEM job only once");
    return NULL;
  }
  joined = 1;
  int64_t bytes = chooseHeap(config);
  // Open MPI 4.1's default one-sided component crashes in shmem_finalize.
  setenv("OMPI_MCA_osc", "^rdma", 0);
  int provided = SHMEM_THREAD_SINGLE;
  shmem_init_thread(SHMEM_THREAD_SERIALIZED, &provided);
  int npes = shmem_n_pes();
  char *heap = shmem_align(kAlignment, (size_t)bytes);
  char *gather = heap ? shmem_malloc((size_t)npes * kGatherBytes) : NULL;
  if (!heap || !gather) {
    const char *size = getenv("SHMEM_SYMMETRIC_SIZE");
    snprintf(error, errorBytes,
             "OpenSHMEM gives no symmetric heap of %lld bytes; raise SHMEM_SYMMETRIC_SIZE (now %s)",
             (long long)bytes, size ? size : "not set");
    return NULL;
  }
  Openshmem *state = calloc(1, sizeof *state);
  void **peers = calloc((size_t)npes, sizeof *peers);
  if (!state || !peers) {
    snprintf(error, errorBytes, "out of memory");
    free(state);
    free(peers);
    return NULL;
  }
  int me = shmem_my_pe();
  for (int rank = 0; rank < npes; ++rank)
    peers[rank] = rank == me ? heap : config->indirect ? NULL : shmem_ptr(heap, rank);
  state->shmem.ops = &kOps;
  state->shmem.first = me;
  state->shmem.local = 1;
  state->shmem.npes = npes;
  state->shmem.threads_allowed = provided >= SHMEM_THREAD_SERIALIZED;
  state->shmem.heap_bytes = bytes;
  state->heap = heap;
  state->gather = gather;
  state->peers = peers;
  void *progress = dlsym(RTLD_DEFAULT, "opal_progress");
  memcpy(&state->progress, &progress, sizeof progress);
  return &state->shmem;
}
