// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The built-in provider: every rank's heap is mapped into this device's addresses, so that sending
// is storing. A store is asynchronous by itself; what orders it is the release of whatever tells
// the other side.
#include "backend/device_library/provider.h"

DTILE_API void *dtile_provider_peer(const dtile_device_launch *launch, const void *data,
                                    int64_t rank) {
  // Parameters are at hand, a table in memory is not.
  if (launch->num_ranks <= DTILE_DEVICE_NEAR_RANKS)
    return (void *)((uint64_t)data + (uint64_t)launch->shift[rank]);
  // A place that is used again and again is worked out once: nothing here changes in a launch.
  const uint64_t *peers = (const uint64_t *)loadConstant64((const uint64_t *)&launch->team->peers);
  const uint64_t own = loadConstant64(peers + launch->rank);
  return (void *)(loadConstant64(peers + rank) + ((uint64_t)data - own));
}

DTILE_API int32_t dtile_provider_put(const dtile_device_launch *launch, void *destination,
                                     int64_t rank, const void *source, int32_t bytes, Rows rows,
                                     int32_t threads, int32_t in_order, uint64_t *cell) {
  copyRows(dtile_provider_peer(launch, destination, rank), source, bytes, rows, threads);
  return 0;
}

DTILE_API void dtile_provider_get(const dtile_device_launch *launch, void *destination,
                                  const void *source, int64_t rank, int32_t bytes, Rows rows,
                                  int32_t threads) {
  copyRows(destination, dtile_provider_peer(launch, source, rank), bytes, rows, threads);
}

// No rank is out of reach of plain accesses, so nothing calls these.
DTILE_API void dtile_provider_store(void *place, int64_t rank, uint64_t low, uint64_t high,
                                    int32_t bytes) {}

DTILE_API void dtile_provider_add(void *place, int64_t rank, uint64_t value, int32_t bytes) {}

DTILE_API uint64_t dtile_provider_fetch_add(void *place, int64_t rank, uint64_t value,
                                            int32_t bytes) {
  return 0;
}

DTILE_API uint64_t dtile_provider_swap(void *place, int64_t rank, uint64_t expected,
                                       uint64_t desired, int32_t bytes) {
  return 0;
}

DTILE_API void dtile_provider_notify(const dtile_device_launch *launch, uint64_t *cell,
                                     int64_t rank, int32_t fenced) {
  notifyTeam64(dtile_provider_peer(launch, cell, rank), 1);
}

DTILE_API int32_t dtile_provider_reached(const uint64_t *cell, uint64_t wanted, uint64_t *seen) {
  return (*seen = pollTeam64(cell)) >= wanted;
}

DTILE_API void dtile_provider_acquire(const uint64_t *cell) { acquirePolledTeam64(cell); }

DTILE_API void dtile_provider_fence(void) { fenceTeam(); }

DTILE_API void dtile_provider_quiet(void) { fenceTeam(); }
