// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The provider for OpenSHMEM jobs: one process a rank. Compiled by oshcc into a shared object of
// its own; OpenSHMEM 1.4 is enough. One allocation holds the heap, so that a place is an offset and
// peers are found once.
//
// Nothing here waits for ever for a process that has died or was stopped. OpenSHMEM's own
// operations have no limits of time, and its end is collective, also the one at exit; so a thread
// watches them, and asks the runtime who does not answer; and a process whose job has failed leaves
// without. Launchers end what is left of a job when a process ends with an error.
#define _GNU_SOURCE
#include "backend/runtime/shmem/shmem.h"

#include <dlfcn.h>
#include <pthread.h>
#include <shmem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { kAlignment = 4096, kGatherBytes = 16 * 1024, kDefaultTimeoutMs = 60 * 1000 };
enum { kWordsBytes = 4096 };
// However short a wait may be, machines are busy and jobs start and end slowly.
enum { kLeastOperationMs = 10 * 1000, kLeastStartMs = 60 * 1000, kLeastEndMs = 20 * 1000 };
static const int64_t kWatchNs = INT64_C(100) * 1000 * 1000;
static const int64_t kDefaultHeapBytes = INT64_C(256) << 20;
// What the library itself takes of its symmetric heap.
static const int64_t kOverheadBytes = INT64_C(4) << 20;

// What the exit of this process has to know, and the thread that watches it; never freed.
typedef struct Membership {
  pid_t process;
  int rank;
  int32_t timeout_ms;
  // When the operation that waits for others is to have ended, and what it is; 0: there is none.
  int64_t deadline, milliseconds;
  const char *operation;
  // The job was left in order.
  int closed;
  // It has failed, and why.
  int alone;
  char words[kWordsBytes];
  // Who is asked while an operation waits; locked meanwhile.
  pthread_mutex_t asking;
  dtile_shmem_monitor monitor;
} Membership;

typedef struct Openshmem {
  dtile_shmem shmem;
  Membership *membership;
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

static int64_t nowNs(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

// Begins an operation that waits for other processes; done ends it. It gets twice the budget, so
// that a wait of the runtime's own comes to its end first, and has words.
static void waitsFor(Membership *member, const char *operation, int64_t least_ms) {
  int64_t ms = 2 * (int64_t)member->timeout_ms;
  ms = ms > least_ms ? ms : least_ms;
  __atomic_store_n(&member->operation, operation, __ATOMIC_RELEASE);
  __atomic_store_n(&member->milliseconds, ms, __ATOMIC_RELEASE);
  __atomic_store_n(&member->deadline, nowNs() + ms * 1000000, __ATOMIC_RELEASE);
}
static void waits(Membership *member, const char *operation) {
  waitsFor(member, operation, kLeastOperationMs);
}
static void done(Membership *member) { __atomic_store_n(&member->deadline, 0, __ATOMIC_RELEASE); }

// Whoever is in the middle of a line keeps the stream.
static void flush(FILE *stream) {
  if (ftrylockfile(stream) != 0)
    return;
  fflush_unlocked(stream);
  funlockfile(stream);
}

// Whether the operation of that deadline still waits.
static int isOf(const Membership *member, int64_t deadline) {
  return __atomic_load_n(&member->deadline, __ATOMIC_ACQUIRE) == deadline;
}

// Whether the operation of that deadline has ended, or is to wait on; or why not.
static int goesOn(Membership *member, int64_t deadline, char *words) {
  const int64_t ms = __atomic_load_n(&member->milliseconds, __ATOMIC_ACQUIRE);
  const char *operation = __atomic_load_n(&member->operation, __ATOMIC_ACQUIRE);
  // Else they may be of the next one.
  if (!isOf(member, deadline))
    return 1;
  const int64_t waited = ms - (deadline - nowNs()) / 1000000;
  pthread_mutex_lock(&member->asking);
  const dtile_shmem_monitor *monitor = &member->monitor;
  const int may = !monitor->goes_on ||
                  monitor->goes_on(monitor->context, operation, waited, words, kWordsBytes);
  pthread_mutex_unlock(&member->asking);
  return may || !isOf(member, deadline);
}

static void *watch(void *argument) {
  Membership *member = argument;
  const struct timespec pause = {0, (long)kWatchNs};
  static char words[kWordsBytes];
  for (;;) {
    nanosleep(&pause, NULL);
    int64_t deadline = __atomic_load_n(&member->deadline, __ATOMIC_ACQUIRE);
    if (deadline == 0)
      continue;
    const int isKnown = !goesOn(member, deadline, words);
    if (!isKnown && (nowNs() < deadline || !isOf(member, deadline)))
      continue;
    flush(stdout);
    flush(stderr);
    if (isKnown) {
      dprintf(STDERR_FILENO, "dtile: rank %d: %s\n", member->rank, words);
      _exit(1);
    }
    if (__atomic_load_n(&member->alone, __ATOMIC_ACQUIRE))
      dprintf(STDERR_FILENO, "dtile: rank %d: %s\n", member->rank, member->words);
    dprintf(STDERR_FILENO,
            "dtile: rank %d waited %lld ms in %s for processes of its job that do not come; it "
            "ends without them\n",
            member->rank, (long long)__atomic_load_n(&member->milliseconds, __ATOMIC_RELAXED),
            __atomic_load_n(&member->operation, __ATOMIC_RELAXED));
    _exit(1);
  }
  return NULL;
}

// Registered after OpenSHMEM's handler, so that it comes before that one.
static void atExit(int code, void *argument) {
  Membership *member = argument;
  if (member->closed)
    return;
  if (getpid() != member->process) {
    // A child would end its parent's part in the job.
    fflush(NULL);
    _exit(code);
  }
  if (member->alone) {
    fflush(NULL);
    _exit(code != 0 ? code : 1);
  }
  waitsFor(member, "shmem_finalize", kLeastEndMs);
}

static void leaveAlone(dtile_shmem *shmem, const char *words) {
  Membership *member = self(shmem)->membership;
  if (words)
    snprintf(member->words, sizeof member->words, "%s", words);
  __atomic_store_n(&member->alone, words != NULL, __ATOMIC_RELEASE);
}

static void setMonitor(dtile_shmem *shmem, const dtile_shmem_monitor *monitor) {
  Membership *member = self(shmem)->membership;
  pthread_mutex_lock(&member->asking);
  if (monitor)
    member->monitor = *monitor;
  else
    memset(&member->monitor, 0, sizeof member->monitor);
  pthread_mutex_unlock(&member->asking);
}

static void *peer(dtile_shmem *shmem, int32_t rank) { return self(shmem)->peers[rank]; }

static void put(dtile_shmem *shmem, int32_t rank, int64_t offset, const void *source,
                size_t bytes) {
  waits(self(shmem)->membership, "shmem_putmem");
  shmem_putmem(at(shmem, offset), source, bytes, rank);
  done(self(shmem)->membership);
}

static void get(dtile_shmem *shmem, int32_t rank, int64_t offset, void *destination, size_t bytes) {
  waits(self(shmem)->membership, "shmem_getmem");
  shmem_getmem(destination, at(shmem, offset), bytes, rank);
  done(self(shmem)->membership);
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
  waits(self(shmem)->membership, "an atomic operation");
  uint64_t old = bytes == 4 ? atomic32(cell, kind, rank, (uint32_t)operand, (uint32_t)expected)
                            : atomic64(cell, kind, rank, operand, expected);
  done(self(shmem)->membership);
  return old;
}

static void notify(dtile_shmem *shmem, int32_t rank, int64_t cell) {
  waits(self(shmem)->membership, "an atomic operation");
  shmem_ulong_atomic_inc((unsigned long *)at(shmem, cell), rank);
  done(self(shmem)->membership);
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
  waits(self(shmem)->membership, "shmem_fence");
  shmem_fence();
  done(self(shmem)->membership);
}

static void quiet(dtile_shmem *shmem) {
  waits(self(shmem)->membership, "shmem_quiet");
  shmem_quiet();
  done(self(shmem)->membership);
}

static void barrier(dtile_shmem *shmem) {
  waitsFor(self(shmem)->membership, "shmem_barrier_all", kLeastStartMs);
  shmem_barrier_all();
  done(self(shmem)->membership);
}

static void meetForGather(dtile_shmem *shmem) {
  waits(self(shmem)->membership, "shmem_barrier_all");
  shmem_barrier_all();
  done(self(shmem)->membership);
}

static void allGather(dtile_shmem *shmem, const void *const *in, size_t bytes, void *out) {
  char *gather = self(shmem)->gather;
  for (size_t from = 0; from < bytes; from += kGatherBytes) {
    size_t part = bytes - from < kGatherBytes ? bytes - from : kGatherBytes;
    for (int rank = 0; rank < shmem->npes; ++rank)
      shmem_putmem(gather + (size_t)shmem->first * kGatherBytes, (const char *)in[0] + from, part,
                   rank);
    meetForGather(shmem);
    for (int rank = 0; rank < shmem->npes; ++rank)
      memcpy((char *)out + (size_t)rank * bytes + from, gather + (size_t)rank * kGatherBytes, part);
    meetForGather(shmem);
  }
}

static void closeJob(dtile_shmem *shmem) {
  Membership *member = self(shmem)->membership;
  waitsFor(member, "shmem_finalize", kLeastEndMs);
  shmem_barrier_all();
  shmem_finalize();
  done(member);
  setMonitor(shmem, NULL);
  member->closed = 1;
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
    .leave_alone = leaveAlone,
    .set_monitor = setMonitor,
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
  // The caller sees to it that this is far from where sums overflow.
  int64_t bytes = config->heap_bytes > 0 ? config->heap_bytes : kDefaultHeapBytes;
  bytes = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  if (!given) {
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)(bytes + kOverheadBytes));
    setenv("SHMEM_SYMMETRIC_SIZE", text, 1);
  }
  return bytes;
}

// From here on the process has to leave the job, in order or alone. Null: it cannot.
static Membership *becomeMember(const dtile_shmem_config *config) {
  Membership *member = calloc(1, sizeof *member);
  if (!member)
    return NULL;
  member->process = getpid();
  member->rank = shmem_my_pe();
  member->timeout_ms = config->timeout_ms > 0 ? config->timeout_ms : kDefaultTimeoutMs;
  pthread_mutex_init(&member->asking, NULL);
  pthread_t thread;
  if (on_exit(atExit, member) != 0 || pthread_create(&thread, NULL, watch, member) != 0) {
    // If it is registered, so that the exit does not wait for the others.
    member->alone = 1;
    return NULL;
  }
  pthread_detach(thread);
  return member;
}

// The others may have what this one has not got: it leaves without them.
static dtile_shmem *refuse(Membership *member, const char *words) {
  done(member);
  snprintf(member->words, sizeof member->words, "%s", words);
  member->alone = 1;
  return NULL;
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
  Membership *member = becomeMember(config);
  if (!member) {
    snprintf(error, errorBytes, "no memory or no thread for the process's part in its job");
    return NULL;
  }
  waitsFor(member, "making the symmetric heap", kLeastStartMs);
  char *heap = shmem_align(kAlignment, (size_t)bytes);
  char *gather = heap ? shmem_malloc((size_t)npes * kGatherBytes) : NULL;
  if (!heap || !gather) {
    const char *size = getenv("SHMEM_SYMMETRIC_SIZE");
    snprintf(error, errorBytes,
             "OpenSHMEM gives no symmetric heap of %lld bytes; raise SHMEM_SYMMETRIC_SIZE (now %s)",
             (long long)bytes, size ? size : "not set");
    return refuse(member, error);
  }
  done(member);
  Openshmem *state = calloc(1, sizeof *state);
  void **peers = calloc((size_t)npes, sizeof *peers);
  if (!state || !peers) {
    snprintf(error, errorBytes, "out of memory");
    free(state);
    free(peers);
    return refuse(member, error);
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
  state->membership = member;
  state->heap = heap;
  state->gather = gather;
  state->peers = peers;
  void *progress = dlsym(RTLD_DEFAULT, "opal_progress");
  memcpy(&state->progress, &progress, sizeof progress);
  return &state->shmem;
}
