// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// rocSHMEM as a provider, by the device functions that its manual names. Their code is the user's
// bitcode, linked when a kernel is compiled; nothing of it is here. rocSHMEM declares them in C++,
// in its namespace: whoever links them gives them these names.
//
// Where rocSHMEM maps a rank's heap, puts and gets are plain accesses, as in p2p.c. Where not, they
// are sent, as in nvshmem.c. Its put with signal is not used: the manual does not say that its
// signals and the atomics of a plain notify are atomic with each other.
#include "backend/device_library/provider.h"

void *rocshmem_ptr(const void *destination, int pe);
void rocshmem_putmem_nbi(void *destination, const void *source, uint64_t bytes, int pe);
void rocshmem_getmem(void *destination, const void *source, uint64_t bytes, int pe);
void rocshmem_putmem_nbi_wg(void *destination, const void *source, uint64_t bytes, int pe);
void rocshmem_getmem_wg(void *destination, const void *source, uint64_t bytes, int pe);
void rocshmem_uint8_p(uint8_t *destination, uint8_t value, int pe);
void rocshmem_uint16_p(uint16_t *destination, uint16_t value, int pe);
void rocshmem_uint32_p(uint32_t *destination, uint32_t value, int pe);
void rocshmem_uint64_p(uint64_t *destination, uint64_t value, int pe);
void rocshmem_uint32_atomic_add(uint32_t *word, uint32_t value, int pe);
uint32_t rocshmem_uint32_atomic_fetch_add(uint32_t *word, uint32_t value, int pe);
uint64_t rocshmem_uint64_atomic_fetch_add(uint64_t *word, uint64_t value, int pe);
uint32_t rocshmem_uint32_atomic_compare_swap(uint32_t *word, uint32_t expected, uint32_t desired,
                                             int pe);
uint64_t rocshmem_uint64_atomic_compare_swap(uint64_t *word, uint64_t expected, uint64_t desired,
                                             int pe);
void rocshmem_uint64_atomic_add(uint64_t *cell, uint64_t value, int pe);
void rocshmem_fence(void);
void rocshmem_quiet(void);

#define DTILE_REMOTE_PTR rocshmem_ptr
#define DTILE_REMOTE_PUT rocshmem_putmem_nbi
#define DTILE_REMOTE_GET rocshmem_getmem
#define DTILE_REMOTE_PUT_TOGETHER rocshmem_putmem_nbi_wg
#define DTILE_REMOTE_GET_TOGETHER rocshmem_getmem_wg
#define DTILE_REMOTE_QUIET rocshmem_quiet
#define DTILE_REMOTE(NAME) rocshmem_##NAME
#include "backend/device_library/remote.h"

DTILE_API void dtile_provider_notify(const dtile_device_launch *launch, uint64_t *cell,
                                     int64_t rank, int32_t fenced) {
  (void)launch;
  // The stores that other threads made, then what this one has sent.
  fenceTeam();
  if (fenced)
    rocshmem_fence();
  rocshmem_uint64_atomic_add(cell, 1, (int)rank);
}

DTILE_API void dtile_provider_acquire(const uint64_t *cell) { (void)acquireTeam64(cell); }

DTILE_API void dtile_provider_fence(void) {
  fenceTeam();
  rocshmem_fence();
}
