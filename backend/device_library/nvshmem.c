// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// NVSHMEM as a provider, by the device functions that its manual names. Their code is the user's
// (libnvshmem_device.bc, linked when a kernel is compiled); nothing of it is here.
//
// Where NVSHMEM maps a rank's heap, puts and gets are plain accesses, as in p2p.c. Where not, a
// program's sends have landed before its threads meet next: which thread's quiet covers another
// thread's sends is left open by NVSHMEM, so each waits for its own.
#include "backend/device_library/provider.h"

enum { NVSHMEM_CMP_GE = 5, NVSHMEM_SIGNAL_ADD = 10 };

void *nvshmem_ptr(const void *destination, int pe);
void nvshmem_putmem_nbi(void *destination, const void *source, uint64_t bytes, int pe);
void nvshmem_getmem(void *destination, const void *source, uint64_t bytes, int pe);
void nvshmemx_putmem_nbi_block(void *destination, const void *source, uint64_t bytes, int pe);
void nvshmemx_getmem_block(void *destination, const void *source, uint64_t bytes, int pe);
void nvshmemx_signal_op(uint64_t *signal, uint64_t value, int operation, int pe);
uint64_t nvshmem_signal_wait_until(uint64_t *signal, int comparison, uint64_t value);
void nvshmem_fence(void);
void nvshmem_quiet(void);

#define DTILE_REMOTE_PTR nvshmem_ptr
#define DTILE_REMOTE_PUT nvshmem_putmem_nbi
#define DTILE_REMOTE_GET nvshmem_getmem
#define DTILE_REMOTE_PUT_TOGETHER nvshmemx_putmem_nbi_block
#define DTILE_REMOTE_GET_TOGETHER nvshmemx_getmem_block
#define DTILE_REMOTE_QUIET nvshmem_quiet
#include "backend/device_library/remote.h"

DTILE_API void dtile_provider_notify(const dtile_device_launch *launch, uint64_t *cell,
                                     int64_t rank) {
  (void)launch;
  // The stores that other threads made, then what this one has sent.
  fenceTeam();
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
