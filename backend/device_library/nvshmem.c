// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// NVSHMEM as a provider, by the device functions that its manual names. Their code is the user's
// (libnvshmem_device.bc, linked when a kernel is compiled); nothing of it is here.
//
// Where NVSHMEM maps a rank's heap, puts and gets are plain accesses, as in p2p.c. Where not, they
// are sent. Which thread's fence or quiet covers another thread's sends is left open by NVSHMEM: so
// one thread sends what a notify follows, and of other sends each thread waits for its own.
#include "backend/device_library/provider.h"

enum { NVSHMEM_CMP_GE = 5, NVSHMEM_SIGNAL_ADD = 10 };

void *nvshmem_ptr(const void *destination, int pe);
void nvshmem_putmem_nbi(void *destination, const void *source, uint64_t bytes, int pe);
void nvshmem_getmem(void *destination, const void *source, uint64_t bytes, int pe);
void nvshmem_putmem_signal_nbi(void *destination, const void *source, uint64_t bytes,
                               uint64_t *signal, uint64_t value, int operation, int pe);
void nvshmemx_putmem_nbi_block(void *destination, const void *source, uint64_t bytes, int pe);
void nvshmemx_getmem_block(void *destination, const void *source, uint64_t bytes, int pe);
void nvshmem_uint8_p(uint8_t *destination, uint8_t value, int pe);
void nvshmem_uint16_p(uint16_t *destination, uint16_t value, int pe);
void nvshmem_uint32_p(uint32_t *destination, uint32_t value, int pe);
void nvshmem_uint64_p(uint64_t *destination, uint64_t value, int pe);
void nvshmem_uint32_atomic_add(uint32_t *word, uint32_t value, int pe);
void nvshmem_uint64_atomic_add(uint64_t *word, uint64_t value, int pe);
uint32_t nvshmem_uint32_atomic_fetch_add(uint32_t *word, uint32_t value, int pe);
uint64_t nvshmem_uint64_atomic_fetch_add(uint64_t *word, uint64_t value, int pe);
uint32_t nvshmem_uint32_atomic_compare_swap(uint32_t *word, uint32_t expected, uint32_t desired,
                                            int pe);
uint64_t nvshmem_uint64_atomic_compare_swap(uint64_t *word, uint64_t expected, uint64_t desired,
                                            int pe);
void nvshmemx_signal_op(uint64_t *signal, uint64_t value, int operation, int pe);
uint64_t nvshmem_signal_wait_until(uint64_t *signal, int comparison, uint64_t value);
void nvshmem_fence(void);
void nvshmem_quiet(void);

#define DTILE_REMOTE_PTR nvshmem_ptr
#define DTILE_REMOTE_PUT nvshmem_putmem_nbi
#define DTILE_REMOTE_PUT_NOTIFY(TO, FROM, BYTES, CELL, PE)                                         \
  nvshmem_putmem_signal_nbi(TO, FROM, BYTES, CELL, 1, NVSHMEM_SIGNAL_ADD, PE)
#define DTILE_REMOTE_GET nvshmem_getmem
#define DTILE_REMOTE_PUT_TOGETHER nvshmemx_putmem_nbi_block
#define DTILE_REMOTE_GET_TOGETHER nvshmemx_getmem_block
#define DTILE_REMOTE_QUIET nvshmem_quiet
#define DTILE_REMOTE(NAME) nvshmem_##NAME
#include "backend/device_library/remote.h"

DTILE_API void dtile_provider_notify(const dtile_device_launch *launch, uint64_t *cell,
                                     int64_t rank, int32_t fenced) {
  (void)launch;
  // The stores that other threads made, then what this one has sent. NVSHMEM's fence may take a
  // whole trip to every rank.
  fenceTeam();
  if (fenced)
    nvshmem_fence();
  nvshmemx_signal_op(cell, 1, NVSHMEM_SIGNAL_ADD, (int)rank);
}

DTILE_API void dtile_provider_acquire(const uint64_t *cell) {
  // True already; what the network wrote before the signal is consistent after it.
  (void)nvshmem_signal_wait_until((uint64_t *)cell, NVSHMEM_CMP_GE, acquireTeam64(cell));
}

DTILE_API void dtile_provider_fence(void) {
  fenceTeam();
  nvshmem_fence();
}
