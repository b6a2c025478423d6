/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 * AMD GPUs: threads of a program, and memory operations with scope and order, which LLVM's AMDGPU
 * back end turns into the write-backs, invalidations and waits of each processor. Private to the
 * device library. */
#pragma once

#include <stdint.h>

/* A launch's size in threads is in the packet that started it; a program is its group. */
DTILE_INLINE int32_t threadIndex(void) { return (int32_t)__builtin_amdgcn_workitem_id_x(); }
DTILE_INLINE int32_t threadCount(void) { return (int32_t)__builtin_amdgcn_workgroup_size_x(); }
DTILE_INLINE int32_t programIndex(void) { return (int32_t)__builtin_amdgcn_workgroup_id_x(); }
/* The clock that does not depend on the processor's runs at 100 MHz. */
DTILE_INLINE uint64_t nanoseconds(void) { return __builtin_amdgcn_s_memrealtime() * 10; }

/* Whether a thread of this program has failed; stays so. */
static DTILE_SHARED uint32_t programFailed __attribute__((loader_uninitialized));
static DTILE_SHARED uint32_t programAnswer __attribute__((loader_uninitialized));

/* Waves that have ended are not waited for at barriers. */
DTILE_INLINE void leaveProgram(void) { __builtin_amdgcn_endpgm(); }

/* The wait makes what every wave has sent arrive before one of them publishes it. */
DTILE_INLINE void programBarrier(void) {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_waitcnt(0);
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}

DTILE_INLINE void programStart(void) {
  if (threadIndex() == 0)
    programFailed = 0;
  programBarrier();
}

/* Together: whether any thread has ever said yes. A barrier. There is only one: all threads meet.
 */
DTILE_INLINE int32_t threadsAny(int32_t x, int32_t barrier, int32_t threads) {
  (void)barrier, (void)threads;
  if (x)
    programFailed = 1;
  programBarrier();
  return (int32_t)programFailed;
}

/* Together, at most once: whether thread 0 says yes. A barrier. */
DTILE_INLINE int32_t programFirst(int32_t x) {
  if (threadIndex() == 0)
    programAnswer = (uint32_t)x;
  programBarrier();
  return (int32_t)programAnswer;
}

#define DTILE_RANK __MEMORY_SCOPE_DEVICE
#define DTILE_TEAM __MEMORY_SCOPE_SYSTEM

/* What nothing writes while a launch runs. */
DTILE_INLINE uint64_t loadConstant64(const uint64_t *address) {
  return *(const uint64_t __attribute__((address_space(4))) *)address;
}

DTILE_INLINE uint32_t loadConstant32(const uint32_t *address) {
  return *(const uint32_t __attribute__((address_space(4))) *)address;
}

#define DTILE_LOAD(NAME, TYPE, ORDER, SCOPE)                                                       \
  DTILE_INLINE TYPE NAME(const void *address) {                                                    \
    return __scoped_atomic_load_n((const TYPE DTILE_GLOBAL *)address, ORDER, SCOPE);               \
  }
#define DTILE_STORE(NAME, TYPE, ORDER, SCOPE)                                                      \
  DTILE_INLINE void NAME(void *address, TYPE value) {                                              \
    __scoped_atomic_store_n((TYPE DTILE_GLOBAL *)address, value, ORDER, SCOPE);                    \
  }
DTILE_LOAD(loadRank64, uint64_t, __ATOMIC_RELAXED, DTILE_RANK)
DTILE_LOAD(loadTeam64, uint64_t, __ATOMIC_RELAXED, DTILE_TEAM)
DTILE_LOAD(acquireRank64, uint64_t, __ATOMIC_ACQUIRE, DTILE_RANK)
DTILE_LOAD(acquireTeam64, uint64_t, __ATOMIC_ACQUIRE, DTILE_TEAM)
DTILE_LOAD(loadHost32, uint32_t, __ATOMIC_RELAXED, DTILE_TEAM)
DTILE_STORE(storeRank64, uint64_t, __ATOMIC_RELAXED, DTILE_RANK)
DTILE_STORE(storeTeam64, uint64_t, __ATOMIC_RELAXED, DTILE_TEAM)
DTILE_STORE(storeRank32, uint32_t, __ATOMIC_RELAXED, DTILE_RANK)
#undef DTILE_LOAD
#undef DTILE_STORE

/* Two neighbours, each stored and loaded at once. */
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

/* A release whose write-back has ended before the update begins: LLVM 22 leaves the wait between
 * the two out when no access of this thread is in flight. */
#define DTILE_RELEASE(NAME, TYPE, SCOPE)                                                           \
  DTILE_INLINE void NAME(void *address, TYPE value) {                                              \
    __scoped_atomic_thread_fence(__ATOMIC_RELEASE, SCOPE);                                         \
    __builtin_amdgcn_s_waitcnt(0);                                                                 \
    __scoped_atomic_store_n((TYPE DTILE_GLOBAL *)address, value, __ATOMIC_RELAXED, SCOPE);         \
  }
DTILE_RELEASE(releaseRank64, uint64_t, DTILE_RANK)
DTILE_RELEASE(releaseHost32, uint32_t, DTILE_TEAM)
#undef DTILE_RELEASE
#define DTILE_NOTIFY(NAME, TYPE, SCOPE)                                                            \
  DTILE_INLINE void NAME(void *address, TYPE value) {                                              \
    __scoped_atomic_thread_fence(__ATOMIC_RELEASE, SCOPE);                                         \
    __builtin_amdgcn_s_waitcnt(0);                                                                 \
    (void)__scoped_atomic_fetch_add((TYPE DTILE_GLOBAL *)address, value, __ATOMIC_RELAXED, SCOPE); \
  }
DTILE_NOTIFY(notifyRank64, uint64_t, DTILE_RANK)
DTILE_NOTIFY(notifyTeam64, uint64_t, DTILE_TEAM)
#undef DTILE_NOTIFY

/* Floats: LLVM makes a loop of exchanges where the memory may be one that float atomics skip. */
#define DTILE_ADD(NAME, TYPE, SCOPE)                                                               \
  DTILE_INLINE void NAME(void *address, TYPE value) {                                              \
    (void)__scoped_atomic_fetch_add((TYPE DTILE_GLOBAL *)address, value, __ATOMIC_RELAXED, SCOPE); \
  }
DTILE_ADD(addRankI32, uint32_t, DTILE_RANK)
DTILE_ADD(addTeamI32, uint32_t, DTILE_TEAM)
DTILE_ADD(addRankI64, uint64_t, DTILE_RANK)
DTILE_ADD(addTeamI64, uint64_t, DTILE_TEAM)
DTILE_ADD(addRankF32, float, DTILE_RANK)
DTILE_ADD(addTeamF32, float, DTILE_TEAM)
DTILE_ADD(addRankF64, double, DTILE_RANK)
DTILE_ADD(addTeamF64, double, DTILE_TEAM)
#undef DTILE_ADD

DTILE_INLINE void maxRank64(void *address, uint64_t value) {
  (void)__scoped_atomic_fetch_max((uint64_t DTILE_GLOBAL *)address, value, __ATOMIC_RELAXED,
                                  DTILE_RANK);
}

/* Polls order nothing, as acquiring empties caches; who has seen enough looks once more. */
DTILE_INLINE uint64_t pollRank64(const void *address) { return loadRank64(address); }
DTILE_INLINE uint64_t pollTeam64(const void *address) { return loadTeam64(address); }
DTILE_INLINE void acquirePolledRank64(const void *address) { (void)acquireRank64(address); }
DTILE_INLINE void acquirePolledTeam64(const void *address) { (void)acquireTeam64(address); }

DTILE_INLINE uint32_t addAcqRelRank32(void *address, uint32_t value) {
  __scoped_atomic_thread_fence(__ATOMIC_RELEASE, DTILE_RANK);
  __builtin_amdgcn_s_waitcnt(0);
  uint32_t old = __scoped_atomic_fetch_add((uint32_t DTILE_GLOBAL *)address, value,
                                           __ATOMIC_RELAXED, DTILE_RANK);
  __scoped_atomic_thread_fence(__ATOMIC_ACQUIRE, DTILE_RANK);
  return old;
}

#define DTILE_SWAP(NAME, TYPE, SCOPE)                                                              \
  DTILE_INLINE TYPE NAME(void *address, TYPE expected, TYPE desired) {                             \
    (void)__scoped_atomic_compare_exchange_n((TYPE DTILE_GLOBAL *)address, &expected, desired, 0,  \
                                             __ATOMIC_RELAXED, __ATOMIC_RELAXED, SCOPE);           \
    return expected;                                                                               \
  }
DTILE_SWAP(swapRank32, uint32_t, DTILE_RANK)
DTILE_SWAP(swapTeam32, uint32_t, DTILE_TEAM)
DTILE_SWAP(swapRank64, uint64_t, DTILE_RANK)
DTILE_SWAP(swapTeam64, uint64_t, DTILE_TEAM)
#undef DTILE_SWAP

#define DTILE_FETCH_ADD(NAME, TYPE, SCOPE)                                                         \
  DTILE_INLINE TYPE NAME(void *address, TYPE value) {                                              \
    return __scoped_atomic_fetch_add((TYPE DTILE_GLOBAL *)address, value, __ATOMIC_RELAXED,        \
                                     SCOPE);                                                       \
  }
DTILE_FETCH_ADD(fetchAddRank32, uint32_t, DTILE_RANK)
DTILE_FETCH_ADD(fetchAddTeam32, uint32_t, DTILE_TEAM)
DTILE_FETCH_ADD(fetchAddRank64, uint64_t, DTILE_RANK)
DTILE_FETCH_ADD(fetchAddTeam64, uint64_t, DTILE_TEAM)
#undef DTILE_FETCH_ADD

DTILE_INLINE void fenceTeam(void) {
  __scoped_atomic_thread_fence(__ATOMIC_ACQ_REL, DTILE_TEAM);
  __builtin_amdgcn_s_waitcnt(0);
}

#undef DTILE_RANK
#undef DTILE_TEAM

/* Pairs and vectors of floats are added by exchanges, one by one. */
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

/* No engine copies in bulk. */
DTILE_INLINE int32_t hasBulkCopies(void) { return 0; }
DTILE_INLINE void bulkBarrierBegin(void *barrier) { __builtin_unreachable(); }
DTILE_INLINE void bulkBarrierEnd(void *barrier) { __builtin_unreachable(); }
DTILE_INLINE void bulkBegin(void) { __builtin_unreachable(); }
DTILE_INLINE void bulkFence(void) { __builtin_unreachable(); }
DTILE_INLINE void warpSync(void) { __builtin_unreachable(); }
DTILE_INLINE void bulkExpect(void *barrier, uint32_t bytes) { __builtin_unreachable(); }
DTILE_INLINE void bulkLoad(void *to, const void *from, uint32_t bytes, void *barrier) {
  __builtin_unreachable();
}
DTILE_INLINE void bulkAwaitLoad(void *barrier, uint32_t phase) { __builtin_unreachable(); }
DTILE_INLINE void bulkStore(void *to, const void *from, uint32_t bytes) { __builtin_unreachable(); }
DTILE_INLINE void bulkCommit(void) { __builtin_unreachable(); }
DTILE_INLINE void bulkAwaitRead(int32_t groups) { __builtin_unreachable(); }
DTILE_INLINE void bulkAwaitAll(void) { __builtin_unreachable(); }
