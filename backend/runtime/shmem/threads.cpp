// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The built-in provider: every rank lives in this process. One reservation holds all heaps side by
// side, so that memory is taken from the machine only where a rank touches it.
#include "backend/runtime/shmem/shmem.h"

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <new>
#include <sys/mman.h>
#include <unistd.h>

namespace {

constexpr int64_t kDefaultHeapBytes = int64_t(1) << 30;

struct Threads : dtile_shmem {
  char *base = nullptr;
  int64_t stride = 0;

  char *at(int32_t rank, int64_t offset) const { return base + rank * stride + offset; }
};

Threads &threads(dtile_shmem *shmem) { return *static_cast<Threads *>(shmem); }

void *peer(dtile_shmem *shmem, int32_t rank) { return threads(shmem).at(rank, 0); }

void put(dtile_shmem *shmem, int32_t rank, int64_t offset, const void *source, size_t bytes) {
  std::memmove(threads(shmem).at(rank, offset), source, bytes);
}

void notify(dtile_shmem *shmem, int32_t rank, int64_t cell) {
  auto *word = reinterpret_cast<uint64_t *>(threads(shmem).at(rank, cell));
  std::atomic_ref<uint64_t>(*word).fetch_add(1);
}

void get(dtile_shmem *shmem, int32_t rank, int64_t offset, void *destination, size_t bytes) {
  std::memmove(destination, threads(shmem).at(rank, offset), bytes);
}

template <typename Word>
uint64_t atomicOf(void *address, dtile_shmem_amo kind, uint64_t operand, uint64_t expected) {
  std::atomic_ref<Word> word(*static_cast<Word *>(address));
  switch (kind) {
  case DTILE_SHMEM_ADD:
    return word.fetch_add(Word(operand));
  case DTILE_SHMEM_EXCHANGE:
    return word.exchange(Word(operand));
  case DTILE_SHMEM_COMPARE_EXCHANGE: {
    Word seen = Word(expected);
    word.compare_exchange_strong(seen, Word(operand));
    return seen;
  }
  }
  return 0;
}

uint64_t atomic(dtile_shmem *shmem, dtile_shmem_amo kind, int32_t rank, int64_t offset,
                int32_t bytes, uint64_t operand, uint64_t expected) {
  void *address = threads(shmem).at(rank, offset);
  return bytes == 4 ? atomicOf<uint32_t>(address, kind, operand, expected)
                    : atomicOf<uint64_t>(address, kind, operand, expected);
}

uint64_t cellRead(dtile_shmem *shmem, int64_t cell) {
  auto *word = reinterpret_cast<uint64_t *>(threads(shmem).at(shmem->first, cell));
  return std::atomic_ref<uint64_t>(*word).load(std::memory_order_acquire);
}

// One process drives all ranks: what it has stored, it has stored, and nobody is elsewhere.
void fence(dtile_shmem *) { std::atomic_thread_fence(std::memory_order_seq_cst); }
void quiet(dtile_shmem *) { std::atomic_thread_fence(std::memory_order_seq_cst); }
void barrier(dtile_shmem *) {}

void allGather(dtile_shmem *shmem, const void *const *in, size_t bytes, void *out) {
  for (int32_t rank = 0; rank < shmem->npes && bytes != 0; ++rank)
    std::memcpy(static_cast<char *>(out) + size_t(rank) * bytes, in[rank], bytes);
}

void leaveAlone(dtile_shmem *, const char *) {}
void setMonitor(dtile_shmem *, const dtile_shmem_monitor *) {}

void close(dtile_shmem *shmem) {
  munmap(threads(shmem).base, size_t(threads(shmem).stride) * size_t(shmem->npes));
  delete &threads(shmem);
}

constexpr dtile_shmem_ops kOps = {
    .name = "threads",
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
    .close = close,
    .leave_alone = leaveAlone,
    .set_monitor = setMonitor,
};

} // namespace

dtile_shmem *dtile_shmem_open_threads(uint32_t version, const dtile_shmem_config *config,
                                      char *error, size_t errorBytes) {
  if (version != DTILE_SHMEM_VERSION) {
    std::snprintf(error, errorBytes, "shmem interface %u, expected %d", version,
                  DTILE_SHMEM_VERSION);
    return nullptr;
  }
  int64_t page = sysconf(_SC_PAGESIZE);
  int64_t wanted = config->heap_bytes > 0 ? config->heap_bytes : kDefaultHeapBytes;
  int64_t stride = 0;
  int64_t total = 0;
  void *base = MAP_FAILED;
  errno = ENOMEM;
  if (!__builtin_add_overflow(wanted, page - 1, &stride)) {
    stride -= stride % page;
    if (!__builtin_mul_overflow(stride, int64_t(config->ranks), &total))
      base = mmap(nullptr, size_t(total), PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  }
  if (base == MAP_FAILED) {
    std::snprintf(error, errorBytes,
                  "cannot reserve %d symmetric heaps of %lld bytes: %s; ask for a smaller "
                  "symmetric heap or fewer ranks",
                  config->ranks, static_cast<long long>(wanted), std::strerror(errno));
    return nullptr;
  }
  auto *shmem = new (std::nothrow) Threads;
  if (!shmem) {
    munmap(base, size_t(total));
    std::snprintf(error, errorBytes, "out of memory");
    return nullptr;
  }
  shmem->ops = &kOps;
  shmem->first = 0;
  shmem->local = config->ranks;
  shmem->npes = config->ranks;
  shmem->threads_allowed = 1;
  shmem->heap_bytes = stride;
  shmem->base = static_cast<char *>(base);
  shmem->stride = stride;
  return shmem;
}
