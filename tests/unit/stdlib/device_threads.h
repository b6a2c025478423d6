/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 * A machine for the shmem device library whose threads are threads of this process, so that the
 * library itself can be tested (device_library_test.cpp has the functions that are not inline). */
#pragma once

#include <stdint.h>
#include <time.h>

int32_t dtile_test_thread(void);
int32_t dtile_test_threads(void);
int32_t dtile_test_program(void);
int32_t dtile_test_any(int32_t x, int32_t barrier, int32_t threads);
void dtile_test_meet_warp(void);
void dtile_test_leave(void);
/* Somebody else's turn: called now and then by threads that wait. */
void dtile_test_yield(void);

DTILE_INLINE int32_t threadIndex(void) { return dtile_test_thread(); }
DTILE_INLINE int32_t threadCount(void) { return dtile_test_threads(); }
DTILE_INLINE int32_t programIndex(void) { return dtile_test_program(); }
DTILE_INLINE uint64_t nanoseconds(void) {
  struct timespec now;
  dtile_test_yield();
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}
DTILE_INLINE void leaveProgram(void) { dtile_test_leave(); }
DTILE_INLINE void programStart(void) {}
DTILE_INLINE int32_t threadsAny(int32_t x, int32_t barrier, int32_t threads) {
  return dtile_test_any(x, barrier, threads);
}
DTILE_INLINE int32_t programFirst(int32_t x) {
  return dtile_test_any(dtile_test_thread() == 0 && x, 0, dtile_test_threads());
}

DTILE_INLINE uint32_t loadConstant32(const uint32_t *address) { return *address; }
DTILE_INLINE uint64_t loadConstant64(const uint64_t *address) { return *address; }

#define DTILE_LOAD(NAME, TYPE, ORDER)                                                              \
  DTILE_INLINE TYPE NAME(const void *address) {                                                    \
    return __atomic_load_n((const TYPE *)address, ORDER);                                          \
  }
#define DTILE_STORE(NAME, TYPE, ORDER)                                                             \
  DTILE_INLINE void NAME(void *address, TYPE value) {                                              \
    __atomic_store_n((TYPE *)address, value, ORDER);                                               \
  }
#define DTILE_ADD(NAME, TYPE, ORDER)                                                               \
  DTILE_INLINE void NAME(void *address, TYPE value) {                                              \
    (void)__atomic_fetch_add((TYPE *)address, value, ORDER);                                       \
  }
#define DTILE_ADD_FLOAT(NAME, TYPE)                                                                \
  DTILE_INLINE void NAME(void *address, TYPE value) {                                              \
    TYPE seen, sum;                                                                                \
    __atomic_load((TYPE *)address, &seen, __ATOMIC_RELAXED);                                       \
    do                                                                                             \
      sum = seen + value;                                                                          \
    while (!__atomic_compare_exchange((TYPE *)address, &seen, &sum, 0, __ATOMIC_RELAXED,           \
                                      __ATOMIC_RELAXED));                                          \
  }
#define DTILE_SWAP(NAME, TYPE)                                                                     \
  DTILE_INLINE TYPE NAME(void *address, TYPE expected, TYPE desired) {                             \
    (void)__atomic_compare_exchange_n((TYPE *)address, &expected, desired, 0, __ATOMIC_RELAXED,    \
                                      __ATOMIC_RELAXED);                                           \
    return expected;                                                                               \
  }
DTILE_LOAD(loadRank64, uint64_t, __ATOMIC_RELAXED)
DTILE_LOAD(loadTeam64, uint64_t, __ATOMIC_RELAXED)
DTILE_LOAD(acquireRank64, uint64_t, __ATOMIC_ACQUIRE)
DTILE_LOAD(acquireTeam64, uint64_t, __ATOMIC_ACQUIRE)
DTILE_LOAD(loadHost32, uint32_t, __ATOMIC_RELAXED)
DTILE_STORE(storeRank64, uint64_t, __ATOMIC_RELAXED)
DTILE_STORE(storeTeam64, uint64_t, __ATOMIC_RELAXED)
DTILE_STORE(storeRank32, uint32_t, __ATOMIC_RELAXED)
DTILE_STORE(releaseRank64, uint64_t, __ATOMIC_RELEASE)
DTILE_STORE(releaseHost32, uint32_t, __ATOMIC_RELEASE)
DTILE_ADD(notifyRank64, uint64_t, __ATOMIC_RELEASE)
DTILE_ADD(notifyTeam64, uint64_t, __ATOMIC_RELEASE)
DTILE_ADD(addRankI32, uint32_t, __ATOMIC_RELAXED)
DTILE_ADD(addTeamI32, uint32_t, __ATOMIC_RELAXED)
DTILE_ADD(addRankI64, uint64_t, __ATOMIC_RELAXED)
DTILE_ADD(addTeamI64, uint64_t, __ATOMIC_RELAXED)
DTILE_ADD_FLOAT(addRankF32, float)
DTILE_ADD_FLOAT(addTeamF32, float)
DTILE_ADD_FLOAT(addRankF64, double)
DTILE_ADD_FLOAT(addTeamF64, double)
#define DTILE_FETCH_ADD(NAME, TYPE)                                                                \
  DTILE_INLINE TYPE NAME(void *address, TYPE value) {                                              \
    return __atomic_fetch_add((TYPE *)address, value, __ATOMIC_RELAXED);                           \
  }
DTILE_SWAP(swapRank32, uint32_t)
DTILE_SWAP(swapTeam32, uint32_t)
DTILE_SWAP(swapRank64, uint64_t)
DTILE_SWAP(swapTeam64, uint64_t)
DTILE_FETCH_ADD(fetchAddRank32, uint32_t)
DTILE_FETCH_ADD(fetchAddTeam32, uint32_t)
DTILE_FETCH_ADD(fetchAddRank64, uint64_t)
DTILE_FETCH_ADD(fetchAddTeam64, uint64_t)
#undef DTILE_LOAD
#undef DTILE_STORE
#undef DTILE_ADD
#undef DTILE_ADD_FLOAT
#undef DTILE_SWAP
#undef DTILE_FETCH_ADD

DTILE_INLINE void storeTeam64x2(void *address, uint64_t x, uint64_t y) {
  storeTeam64(address, x);
  storeTeam64((char *)address + sizeof(uint64_t), y);
}
DTILE_INLINE void loadRank64x2(const void *address, uint64_t words[2]) {
  words[0] = loadRank64(address);
  words[1] = loadRank64((const char *)address + sizeof(uint64_t));
}
DTILE_INLINE void loadTeam64x2(const void *address, uint64_t words[2]) {
  words[0] = loadTeam64(address);
  words[1] = loadTeam64((const char *)address + sizeof(uint64_t));
}

DTILE_INLINE uint64_t pollRank64(const void *address) { return loadRank64(address); }
DTILE_INLINE uint64_t pollTeam64(const void *address) { return loadTeam64(address); }
DTILE_INLINE void acquirePolledRank64(const void *address) { (void)acquireRank64(address); }
DTILE_INLINE void acquirePolledTeam64(const void *address) { (void)acquireTeam64(address); }

DTILE_INLINE void maxRank64(void *address, uint64_t value) {
  uint64_t seen = loadRank64(address);
  while (seen < value && !__atomic_compare_exchange_n((uint64_t *)address, &seen, value, 0,
                                                      __ATOMIC_RELAXED, __ATOMIC_RELAXED))
    ;
}
DTILE_INLINE uint32_t addAcqRelRank32(void *address, uint32_t value) {
  return __atomic_fetch_add((uint32_t *)address, value, __ATOMIC_ACQ_REL);
}
DTILE_INLINE void fenceTeam(void) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }

/* Everything is added by exchanges. */
#define addRankF32x4(...) __builtin_unreachable()
#define addTeamF32x4(...) __builtin_unreachable()
#define addRankF16x2(...) __builtin_unreachable()
#define addTeamF16x2(...) __builtin_unreachable()
#define addRankF16x8(...) __builtin_unreachable()
#define addTeamF16x8(...) __builtin_unreachable()
#define addRankBf16x2(...) __builtin_unreachable()
#define addTeamBf16x2(...) __builtin_unreachable()
#define addRankBf16x8(...) __builtin_unreachable()
#define addTeamBf16x8(...) __builtin_unreachable()
DTILE_INLINE int32_t hasVectorAdd(void) { return 0; }
DTILE_INLINE int32_t hasBf16Add(void) { return 0; }
DTILE_INLINE int32_t hasF16Add(void) { return 0; }

/* Copies in bulk happen as late as they may: loads when their barrier is awaited, stores when their
 * group is. Whoever does not wait finds other bytes. */
typedef struct TestPiece {
  char *to;
  const char *from;
  uint32_t bytes;
  void *barrier;
  int32_t group;
} TestPiece;
/* A barrier's memory: bytes that are expected, phases that are over. */
typedef struct TestBarrier {
  uint32_t expected, phases;
} TestBarrier;
enum { kTestPieces = 256 };
static __thread struct {
  TestPiece loads[kTestPieces], stores[kTestPieces];
  int32_t numLoads, numStores, group;
} testBulk;

DTILE_INLINE void testCheck(int32_t isFine) {
  if (!isFine)
    __builtin_trap();
}
DTILE_INLINE void testQueue(TestPiece *pieces, int32_t *count, TestPiece piece) {
  const uintptr_t all = (uintptr_t)piece.to | (uintptr_t)piece.from | piece.bytes;
  testCheck(*count < kTestPieces && piece.bytes != 0 && all % 16 == 0);
  pieces[(*count)++] = piece;
}
DTILE_INLINE int32_t hasBulkCopies(void) { return 1; }
DTILE_INLINE void bulkBarrierBegin(void *barrier) { *(TestBarrier *)barrier = (TestBarrier){0, 0}; }
DTILE_INLINE void bulkBarrierEnd(void *barrier) {
  testCheck(((TestBarrier *)barrier)->expected == 0);
}
DTILE_INLINE void bulkBegin(void) {
  testCheck(testBulk.numLoads == 0 && testBulk.numStores == 0);
  testBulk.group = 0;
}
DTILE_INLINE void bulkFence(void) {}
DTILE_INLINE void warpSync(void) { dtile_test_meet_warp(); }
DTILE_INLINE void bulkExpect(void *barrier, uint32_t bytes) {
  testCheck(((TestBarrier *)barrier)->expected == 0);
  ((TestBarrier *)barrier)->expected = bytes;
}
DTILE_INLINE void bulkLoad(void *to, const void *from, uint32_t bytes, void *barrier) {
  testQueue(testBulk.loads, &testBulk.numLoads,
            (TestPiece){(char *)to, (const char *)from, bytes, barrier, 0});
}
DTILE_INLINE void bulkAwaitLoad(void *barrier, uint32_t phase) {
  TestBarrier *state = (TestBarrier *)barrier;
  int32_t left = 0;
  for (int32_t i = 0; i < testBulk.numLoads; ++i) {
    const TestPiece piece = testBulk.loads[i];
    if (piece.barrier != barrier) {
      testBulk.loads[left++] = piece;
      continue;
    }
    __builtin_memcpy(piece.to, piece.from, piece.bytes);
    state->expected -= piece.bytes;
  }
  testBulk.numLoads = left;
  /* Nobody else would ever end the phase. */
  testCheck(state->expected == 0 && state->phases++ % 2 == phase);
}
DTILE_INLINE void bulkStore(void *to, const void *from, uint32_t bytes) {
  testQueue(testBulk.stores, &testBulk.numStores,
            (TestPiece){(char *)to, (const char *)from, bytes, 0, testBulk.group});
}
DTILE_INLINE void bulkCommit(void) { ++testBulk.group; }
DTILE_INLINE void bulkAwaitRead(int32_t groups) {
  int32_t left = 0;
  for (int32_t i = 0; i < testBulk.numStores; ++i) {
    const TestPiece piece = testBulk.stores[i];
    if (piece.group < testBulk.group - groups)
      __builtin_memcpy(piece.to, piece.from, piece.bytes);
    else
      testBulk.stores[left++] = piece;
  }
  testBulk.numStores = left;
}
DTILE_INLINE void bulkAwaitAll(void) { bulkAwaitRead(0); }
