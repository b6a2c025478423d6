/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 * The part of a provider that is the same for OpenSHMEM's kin on GPUs: the file of a provider says
 * what the functions are called. Together-functions of a provider are called by all threads of a
 * program, which is why a part of them sends thread by thread. Private to the device library. */
#pragma once

DTILE_API void *dtile_provider_peer(const dtile_device_launch *launch, const void *data,
                                    int64_t rank) {
  (void)launch;
  return DTILE_REMOTE_PTR(data, (int)rank);
}

/* Rows without gaps in both places, and how many bytes they have; 0: elements, one by one. */
DTILE_INLINE uint64_t rowBytes(int32_t bytes, Rows r) {
  return r.destination_col == 1 && r.source_col == 1 ? (uint64_t)(r.cols * bytes) : 0;
}

/* Each thread does every `threads`th element or row. `SEND` has (destination, source, bytes). */
#define DTILE_EACH_PIECE(SEND)                                                                     \
  do {                                                                                             \
    const uint64_t whole = rowBytes(bytes, r);                                                     \
    const int64_t pieces = whole ? r.rows : r.rows * r.cols;                                       \
    for (int64_t i = threadIndex(); i < pieces; i += threads) {                                    \
      const int64_t row = whole ? i : i / r.cols;                                                  \
      const int64_t col = whole ? 0 : i % r.cols;                                                  \
      char *to =                                                                                   \
          (char *)destination + (row * r.destination_row + col * r.destination_col) * bytes;       \
      const char *from = (const char *)source + (row * r.source_row + col * r.source_col) * bytes; \
      SEND(to, from, whole ? whole : (uint64_t)bytes);                                             \
    }                                                                                              \
  } while (0)

/* Rows long enough to be cut among the threads. */
#define DTILE_EACH_ROW(SEND)                                                                       \
  do {                                                                                             \
    for (int64_t row = 0; row < r.rows; ++row)                                                     \
      SEND((char *)destination + row * r.destination_row * bytes,                                  \
           (const char *)source + row * r.source_row * bytes, rowBytes(bytes, r));                 \
  } while (0)

/* A thread posts so many rows in less time than a trip takes. */
enum { kMostRowsInOrder = 32 };

#define SEND_ONE(TO, FROM, BYTES) DTILE_REMOTE_PUT(TO, FROM, BYTES, pe)
/* By thread 0 alone: its fence covers what it has sent itself, whatever the provider says about
 * those of other threads. A provider that sends a notify with the data needs no fence for it. */
static __attribute__((noinline)) int32_t putFarInOrder(void *destination, int pe,
                                                       const void *source, int32_t bytes, Rows r,
                                                       uint64_t *cell) {
  if (threadIndex() != 0)
    return 0;
  // What other threads have written is read by the network, and published by the cell.
  fenceTeam();
#ifdef DTILE_REMOTE_PUT_NOTIFY
  if (cell && r.rows == 1) {
    DTILE_REMOTE_PUT_NOTIFY(destination, source, rowBytes(bytes, r), cell, pe);
    return DTILE_SENDS_UNREAD | DTILE_SENDS_NOTIFIED;
  }
#endif
  DTILE_EACH_ROW(SEND_ONE);
  return DTILE_SENDS_UNREAD | DTILE_SENDS_UNFENCED;
}

static __attribute__((noinline)) int32_t putFar(void *destination, int pe, const void *source,
                                                int32_t bytes, Rows r, int32_t threads) {
#define SEND_ALL(TO, FROM, BYTES) DTILE_REMOTE_PUT_TOGETHER(TO, FROM, BYTES, pe)
  if (threads == threadCount() && rowBytes(bytes, r) != 0)
    DTILE_EACH_ROW(SEND_ALL);
  else
    DTILE_EACH_PIECE(SEND_ONE);
  return DTILE_SENDS_UNORDERED;
}
#undef SEND_ONE
#undef SEND_ALL

static __attribute__((noinline)) void getFar(void *destination, const void *source, int pe,
                                             int32_t bytes, Rows r, int32_t threads) {
#define SEND_ONE(TO, FROM, BYTES) DTILE_REMOTE_GET(TO, FROM, BYTES, pe)
#define SEND_ALL(TO, FROM, BYTES) DTILE_REMOTE_GET_TOGETHER(TO, FROM, BYTES, pe)
  if (threads == threadCount() && rowBytes(bytes, r) != 0)
    DTILE_EACH_ROW(SEND_ALL);
  else
    DTILE_EACH_PIECE(SEND_ONE);
#undef SEND_ONE
#undef SEND_ALL
}

DTILE_API int32_t dtile_provider_put(const dtile_device_launch *launch, void *destination,
                                     int64_t rank, const void *source, int32_t bytes, Rows rows,
                                     int32_t threads, int32_t in_order, uint64_t *cell) {
  void *mapped = dtile_provider_peer(launch, destination, rank);
  if (mapped) {
    copyRows(mapped, source, bytes, rows, threads);
    return 0;
  }
  if (rows.rows <= 0 || rows.cols <= 0)
    return 0;
  if (in_order && rows.rows <= kMostRowsInOrder && rowBytes(bytes, rows) != 0)
    return putFarInOrder(destination, (int)rank, source, bytes, rows, cell);
  return putFar(destination, (int)rank, source, bytes, rows, threads);
}

DTILE_API void dtile_provider_get(const dtile_device_launch *launch, void *destination,
                                  const void *source, int64_t rank, int32_t bytes, Rows rows,
                                  int32_t threads) {
  void *mapped = dtile_provider_peer(launch, source, rank);
  if (mapped)
    copyRows(destination, mapped, bytes, rows, threads);
  else
    getFar(destination, source, (int)rank, bytes, rows, threads);
}

/* A function of its own, as a tile has many words. */
static __attribute__((noinline)) void storeFar(void *place, int pe, uint64_t low, uint64_t high,
                                               int32_t bytes) {
  if (bytes == 1)
    DTILE_REMOTE(uint8_p)(place, (uint8_t)low, pe);
  else if (bytes == 2)
    DTILE_REMOTE(uint16_p)(place, (uint16_t)low, pe);
  else if (bytes == 4)
    DTILE_REMOTE(uint32_p)(place, (uint32_t)low, pe);
  else
    DTILE_REMOTE(uint64_p)(place, low, pe);
  if (bytes == 16)
    DTILE_REMOTE(uint64_p)((uint64_t *)place + 1, high, pe);
}

DTILE_API void dtile_provider_store(void *place, int64_t rank, uint64_t low, uint64_t high,
                                    int32_t bytes) {
  storeFar(place, (int)rank, low, high, bytes);
}

DTILE_API void dtile_provider_add(void *place, int64_t rank, uint64_t value, int32_t bytes) {
  if (bytes == 4)
    DTILE_REMOTE(uint32_atomic_add)(place, (uint32_t)value, (int)rank);
  else
    DTILE_REMOTE(uint64_atomic_add)(place, value, (int)rank);
}

DTILE_API uint64_t dtile_provider_fetch_add(void *place, int64_t rank, uint64_t value,
                                            int32_t bytes) {
  return bytes == 4 ? DTILE_REMOTE(uint32_atomic_fetch_add)(place, (uint32_t)value, (int)rank)
                    : DTILE_REMOTE(uint64_atomic_fetch_add)(place, value, (int)rank);
}

DTILE_API uint64_t dtile_provider_swap(void *place, int64_t rank, uint64_t expected,
                                       uint64_t desired, int32_t bytes) {
  return bytes == 4 ? DTILE_REMOTE(uint32_atomic_compare_swap)(place, (uint32_t)expected,
                                                               (uint32_t)desired, (int)rank)
                    : DTILE_REMOTE(uint64_atomic_compare_swap)(place, expected, desired, (int)rank);
}

DTILE_API int32_t dtile_provider_reached(const uint64_t *cell, uint64_t wanted, uint64_t *seen) {
  return (*seen = loadTeam64(cell)) >= wanted;
}

DTILE_API void dtile_provider_quiet(void) {
  fenceTeam();
  DTILE_REMOTE_QUIET();
}
