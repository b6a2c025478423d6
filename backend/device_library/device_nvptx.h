/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 * NVIDIA GPUs: threads of a program, and memory operations with the scope and order that PTX gives
 * them. Atomic operations are assembly: LLVM's NVPTX back end drops order and scope of a
 * read-modify-write (`atomicrmw add … release` becomes `atom.global.add`, of device scope and
 * relaxed). Private to the device library. */
#pragma once

#include <stdint.h>

DTILE_INLINE int32_t threadIndex(void) { return __nvvm_read_ptx_sreg_tid_x(); }
DTILE_INLINE int32_t threadCount(void) { return __nvvm_read_ptx_sreg_ntid_x(); }
DTILE_INLINE int32_t programIndex(void) { return __nvvm_read_ptx_sreg_ctaid_x(); }
DTILE_INLINE uint64_t nanoseconds(void) { return __nvvm_read_ptx_sreg_globaltimer(); }

/* Threads that have exited are not waited for at barriers. */
DTILE_INLINE void leaveProgram(void) { __nvvm_exit(); }
DTILE_INLINE void programStart(void) {}
/* Barrier numbers are part of the instruction: a number in a register would reserve all of them. */
#define DTILE_ANY(NAME, BARRIER)                                                                   \
  DTILE_INLINE int32_t NAME(int32_t x, int32_t threads) {                                          \
    int32_t any;                                                                                   \
    __asm__ volatile("{\n\t.reg .pred p, q;\n\tsetp.ne.u32 p, %1, 0;\n\t"                          \
                     "bar.red.or.pred q, " BARRIER ", %2, p;\n\tselp.u32 %0, 1, 0, q;\n\t}"        \
                     : "=r"(any)                                                                   \
                     : "r"(x), "r"(threads)                                                        \
                     : "memory");                                                                  \
    return any;                                                                                    \
  }
DTILE_ANY(threadsAny0, "0")
DTILE_ANY(threadsAny1, "1")
#undef DTILE_ANY

/* Together, `threads` of them: whether any of them says yes. A barrier. */
DTILE_INLINE int32_t threadsAny(int32_t x, int32_t barrier, int32_t threads) {
  return barrier == 0 ? threadsAny0(x, threads) : threadsAny1(x, threads);
}
/* Together: whether thread 0 says yes. A barrier. */
DTILE_INLINE int32_t programFirst(int32_t x) { return __nvvm_bar0_or(x); }

/* What nothing writes while a launch runs. */
DTILE_INLINE uint64_t loadConstant64(const uint64_t *address) {
  return (uint64_t)__nvvm_ldg_ull((const unsigned long long *)address);
}

DTILE_INLINE uint32_t loadConstant32(const uint32_t *address) {
  return (uint32_t)__nvvm_ldg_ui(address);
}

#define DTILE_LOAD(NAME, INSTRUCTION, TYPE, LETTER)                                                \
  DTILE_INLINE TYPE NAME(const void *address) {                                                    \
    TYPE value;                                                                                    \
    __asm__ volatile(INSTRUCTION " %0, [%1];"                                                      \
                     : "=" LETTER(value)                                                           \
                     : "l"((const TYPE DTILE_GLOBAL *)address)                                     \
                     : "memory");                                                                  \
    return value;                                                                                  \
  }
#define DTILE_STORE(NAME, INSTRUCTION, TYPE, LETTER)                                               \
  DTILE_INLINE void NAME(void *address, TYPE value) {                                              \
    __asm__ volatile(INSTRUCTION " [%0], %1;" ::"l"((TYPE DTILE_GLOBAL *)address), LETTER(value)   \
                     : "memory");                                                                  \
  }
DTILE_LOAD(loadRank64, "ld.relaxed.gpu.global.u64", uint64_t, "l")
DTILE_LOAD(loadTeam64, "ld.relaxed.sys.global.u64", uint64_t, "l")
DTILE_LOAD(acquireRank64, "ld.acquire.gpu.global.u64", uint64_t, "l")
DTILE_LOAD(acquireTeam64, "ld.acquire.sys.global.u64", uint64_t, "l")
DTILE_LOAD(loadHost32, "ld.relaxed.sys.global.u32", uint32_t, "r")
DTILE_STORE(storeRank64, "st.relaxed.gpu.global.u64", uint64_t, "l")
DTILE_STORE(storeTeam64, "st.relaxed.sys.global.u64", uint64_t, "l")
DTILE_STORE(storeRank32, "st.relaxed.gpu.global.u32", uint32_t, "r")
DTILE_STORE(releaseRank64, "st.release.gpu.global.u64", uint64_t, "l")
DTILE_STORE(releaseHost32, "st.release.sys.global.u32", uint32_t, "r")
DTILE_STORE(notifyRank64, "red.release.gpu.global.add.u64", uint64_t, "l")
DTILE_STORE(notifyTeam64, "red.release.sys.global.add.u64", uint64_t, "l")
DTILE_STORE(maxRank64, "red.relaxed.gpu.global.max.u64", uint64_t, "l")
DTILE_STORE(addRankI32, "red.relaxed.gpu.global.add.u32", uint32_t, "r")
DTILE_STORE(addTeamI32, "red.relaxed.sys.global.add.u32", uint32_t, "r")
DTILE_STORE(addRankI64, "red.relaxed.gpu.global.add.u64", uint64_t, "l")
DTILE_STORE(addTeamI64, "red.relaxed.sys.global.add.u64", uint64_t, "l")
DTILE_STORE(addRankF32, "red.relaxed.gpu.global.add.f32", float, "f")
DTILE_STORE(addTeamF32, "red.relaxed.sys.global.add.f32", float, "f")
DTILE_STORE(addRankF64, "red.relaxed.gpu.global.add.f64", double, "d")
DTILE_STORE(addTeamF64, "red.relaxed.sys.global.add.f64", double, "d")
DTILE_STORE(addRankF16x2, "red.relaxed.gpu.global.add.noftz.f16x2", uint32_t, "r")
DTILE_STORE(addTeamF16x2, "red.relaxed.sys.global.add.noftz.f16x2", uint32_t, "r")
/* sm_90 */
DTILE_STORE(addRankBf16x2, "red.relaxed.gpu.global.add.noftz.bf16x2", uint32_t, "r")
DTILE_STORE(addTeamBf16x2, "red.relaxed.sys.global.add.noftz.bf16x2", uint32_t, "r")
#undef DTILE_LOAD
#undef DTILE_STORE

/* Two neighbours, aligned to 16 bytes, each stored and loaded at once. */
DTILE_INLINE void storeTeam64x2(void *address, uint64_t x, uint64_t y) {
  __asm__ volatile(
      "st.relaxed.sys.global.v2.u64 [%0], {%1, %2};" ::"l"((uint64_t DTILE_GLOBAL *)address),
      "l"(x), "l"(y)
      : "memory");
}
#define DTILE_LOAD_TWO(NAME, SCOPE)                                                                \
  DTILE_INLINE void NAME(const void *address, uint64_t words[2]) {                                 \
    __asm__ volatile("ld.relaxed." SCOPE ".global.v2.u64 {%0, %1}, [%2];"                          \
                     : "=l"(words[0]), "=l"(words[1])                                              \
                     : "l"((const uint64_t DTILE_GLOBAL *)address)                                 \
                     : "memory");                                                                  \
  }
DTILE_LOAD_TWO(loadRank64x2, "gpu")
DTILE_LOAD_TWO(loadTeam64x2, "sys")
#undef DTILE_LOAD_TWO

/* sm_90: four words in one operation, each element an update of its own. */
#define DTILE_ADD_VECTOR(NAME, SCOPE, TYPE, LETTER)                                                \
  DTILE_INLINE void NAME(void *address, TYPE x, TYPE y, TYPE z, TYPE w) {                          \
    __asm__ volatile("red.relaxed." SCOPE                                                          \
                     " [%0], {%1, %2, %3, %4};" ::"l"((TYPE DTILE_GLOBAL *)address),               \
                     LETTER(x), LETTER(y), LETTER(z), LETTER(w)                                    \
                     : "memory");                                                                  \
  }
DTILE_ADD_VECTOR(addRankF32x4, "gpu.global.add.v4.f32", float, "f")
DTILE_ADD_VECTOR(addTeamF32x4, "sys.global.add.v4.f32", float, "f")
DTILE_ADD_VECTOR(addRankF16x8, "gpu.global.add.noftz.v4.f16x2", uint32_t, "r")
DTILE_ADD_VECTOR(addTeamF16x8, "sys.global.add.noftz.v4.f16x2", uint32_t, "r")
DTILE_ADD_VECTOR(addRankBf16x8, "gpu.global.add.noftz.v4.bf16x2", uint32_t, "r")
DTILE_ADD_VECTOR(addTeamBf16x8, "sys.global.add.noftz.v4.bf16x2", uint32_t, "r")
#undef DTILE_ADD_VECTOR

/* Polls acquire at once: looking again to do so would be one more way to memory. */
DTILE_INLINE uint64_t pollRank64(const void *address) { return acquireRank64(address); }
DTILE_INLINE uint64_t pollTeam64(const void *address) { return acquireTeam64(address); }
DTILE_INLINE void acquirePolledRank64(const void *address) { (void)address; }
DTILE_INLINE void acquirePolledTeam64(const void *address) { (void)address; }

DTILE_INLINE uint32_t addAcqRelRank32(void *address, uint32_t value) {
  uint32_t old;
  __asm__ volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], %2;"
                   : "=r"(old)
                   : "l"((uint32_t DTILE_GLOBAL *)address), "r"(value)
                   : "memory");
  return old;
}

#define DTILE_SWAP(NAME, INSTRUCTION, TYPE, LETTER)                                                \
  DTILE_INLINE TYPE NAME(void *address, TYPE expected, TYPE desired) {                             \
    TYPE old;                                                                                      \
    __asm__ volatile(INSTRUCTION " %0, [%1], %2, %3;"                                              \
                     : "=" LETTER(old)                                                             \
                     : "l"((TYPE DTILE_GLOBAL *)address), LETTER(expected), LETTER(desired)        \
                     : "memory");                                                                  \
    return old;                                                                                    \
  }
DTILE_SWAP(swapRank32, "atom.relaxed.gpu.global.cas.b32", uint32_t, "r")
DTILE_SWAP(swapTeam32, "atom.relaxed.sys.global.cas.b32", uint32_t, "r")
DTILE_SWAP(swapRank64, "atom.relaxed.gpu.global.cas.b64", uint64_t, "l")
DTILE_SWAP(swapTeam64, "atom.relaxed.sys.global.cas.b64", uint64_t, "l")
#undef DTILE_SWAP

#define DTILE_FETCH_ADD(NAME, INSTRUCTION, TYPE, LETTER)                                           \
  DTILE_INLINE TYPE NAME(void *address, TYPE value) {                                              \
    TYPE old;                                                                                      \
    __asm__ volatile(INSTRUCTION " %0, [%1], %2;"                                                  \
                     : "=" LETTER(old)                                                             \
                     : "l"((TYPE DTILE_GLOBAL *)address), LETTER(value)                            \
                     : "memory");                                                                  \
    return old;                                                                                    \
  }
DTILE_FETCH_ADD(fetchAddRank32, "atom.relaxed.gpu.global.add.u32", uint32_t, "r")
DTILE_FETCH_ADD(fetchAddTeam32, "atom.relaxed.sys.global.add.u32", uint32_t, "r")
DTILE_FETCH_ADD(fetchAddRank64, "atom.relaxed.gpu.global.add.u64", uint64_t, "l")
DTILE_FETCH_ADD(fetchAddTeam64, "atom.relaxed.sys.global.add.u64", uint64_t, "l")
#undef DTILE_FETCH_ADD

DTILE_INLINE void fenceTeam(void) { __asm__ volatile("fence.acq_rel.sys;" ::: "memory"); }

DTILE_INLINE int32_t hasVectorAdd(void) { return dtile_dev_arch >= 90; }
DTILE_INLINE int32_t hasBf16Add(void) { return dtile_dev_arch >= 90; }
DTILE_INLINE int32_t hasF16Add(void) { return 1; }

/* Copies in bulk, of multiples of 16 bytes, by one thread. Its waits make what was written visible
 * to it. */
DTILE_INLINE int32_t hasBulkCopies(void) { return dtile_dev_arch >= 90; }
DTILE_INLINE uint32_t inShared(const void *address) {
  return (uint32_t)(uintptr_t)(const char DTILE_SHARED *)address;
}
/* A barrier of loads, and its end: the memory may be used for something else. */
DTILE_INLINE void bulkBarrierBegin(void *barrier) {
  __asm__ volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(inShared(barrier)) : "memory");
}
DTILE_INLINE void bulkBarrierEnd(void *barrier) {
  __asm__ volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(inShared(barrier)) : "memory");
}
/* What threads of this program have done to memory comes before what the copies do. */
DTILE_INLINE void bulkBegin(void) { __asm__ volatile("fence.proxy.async;" ::: "memory"); }
/* What this thread has written to shared memory comes before what copies read there that start
 * once its warp has met. */
DTILE_INLINE void bulkFence(void) {
  __asm__ volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
/* The lanes of a warp meet, and see what the others wrote to shared memory. */
DTILE_INLINE void warpSync(void) { __asm__ volatile("bar.warp.sync 0xffffffff;" ::: "memory"); }
DTILE_INLINE void bulkExpect(void *barrier, uint32_t bytes) {
  __asm__ volatile(
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(inShared(barrier)), "r"(bytes)
      : "memory");
}
DTILE_INLINE void bulkLoad(void *to, const void *from, uint32_t bytes, void *barrier) {
  __asm__ volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                   "[%0], [%1], %2, [%3];" ::"r"(inShared(to)),
                   "l"((const char DTILE_GLOBAL *)from), "r"(bytes), "r"(inShared(barrier))
                   : "memory");
}
DTILE_INLINE void bulkAwaitLoad(void *barrier, uint32_t phase) {
  uint32_t done;
  do
    __asm__ volatile("{\n\t.reg .pred p;\n\t"
                     "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n\t"
                     "selp.u32 %0, 1, 0, p;\n\t}"
                     : "=r"(done)
                     : "r"(inShared(barrier)), "r"(phase)
                     : "memory");
  while (!done);
}
DTILE_INLINE void bulkStore(void *to, const void *from, uint32_t bytes) {
  __asm__ volatile(
      "cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"((char DTILE_GLOBAL *)to),
      "r"(inShared(from)), "r"(bytes)
      : "memory");
}
/* The stores since the last one are a group. */
DTILE_INLINE void bulkCommit(void) { __asm__ volatile("cp.async.bulk.commit_group;" ::: "memory"); }
/* All groups but the last few have read what they store. */
#define bulkAwaitRead(GROUPS)                                                                      \
  __asm__ volatile("cp.async.bulk.wait_group.read %0;" ::"n"(GROUPS) : "memory")
DTILE_INLINE void bulkAwaitAll(void) {
  __asm__ volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}
