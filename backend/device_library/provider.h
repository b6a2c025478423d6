/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 * What device.c asks of a provider, and what both use of the vendor's machine. Private to the
 * device library. */
#pragma once

#include "backend/device_library/device.h"

/* Pointers into global memory: plain pointers would make every access find out where it goes. */
#if defined(DTILE_DEVICE_MACHINE)
#define DTILE_GLOBAL
#define DTILE_SHARED
#else
#define DTILE_GLOBAL __attribute__((address_space(1)))
#define DTILE_SHARED __attribute__((address_space(3)))
#endif
#define DTILE_INLINE static inline __attribute__((always_inline))
/* The number in the architecture's name (90 of sm_90a, 942 of gfx942, hexadecimal digits as in the
 * name); whoever links the library into a module sets it, so that the branches on it fold. */
extern const int32_t dtile_dev_arch;

/* Functions that generated code calls and that disappear in it. */
#define DTILE_API __attribute__((always_inline))

/* Tests name a machine of their own. */
#if defined(DTILE_DEVICE_MACHINE)
#include DTILE_DEVICE_MACHINE
#elif defined(__NVPTX__)
#include "backend/device_library/device_nvptx.h"
#else
#include "backend/device_library/device_amdgpu.h"
#endif

/* Strided rows of elements, and the program's memory that copies may go through, as dtile_dev_put
 * has them. */
typedef struct Rows {
  int64_t rows, cols;
  int64_t destination_row, source_row, destination_col, source_col;
  void *buffer;
  int32_t buffer_bytes;
} Rows;

/* device.c: `threads` threads copy, by accesses of this device. Few threads want more loads in
 * flight each, and have the registers. */
void dtile_copy_rows(void *destination, const void *source, int32_t bytes, int64_t rows,
                     int64_t cols, int64_t destination_row, int64_t source_row,
                     int64_t destination_col, int64_t source_col, int32_t threads, void *buffer,
                     int32_t buffer_bytes);
void dtile_copy_rows_by_few(void *destination, const void *source, int32_t bytes, int64_t rows,
                            int64_t cols, int64_t destination_row, int64_t source_row,
                            int64_t destination_col, int64_t source_col, int32_t threads,
                            void *buffer, int32_t buffer_bytes);
DTILE_INLINE void copyRows(void *destination, const void *source, int32_t bytes, Rows r,
                           int32_t threads) {
  if (threads <= 128)
    dtile_copy_rows_by_few(destination, source, bytes, r.rows, r.cols, r.destination_row,
                           r.source_row, r.destination_col, r.source_col, threads, r.buffer,
                           r.buffer_bytes);
  else
    dtile_copy_rows(destination, source, bytes, r.rows, r.cols, r.destination_row, r.source_row,
                    r.destination_col, r.source_col, threads, r.buffer, r.buffer_bytes);
}

/* Where a rank's memory is, or null when plain accesses do not reach it. */
void *dtile_provider_peer(const dtile_device_launch *launch, const void *data, int64_t rank);
/* Together: copies to or from another rank; the program's own rank too. The rest of a put is as
 * dtile_dev_put has it. */
int32_t dtile_provider_put(const dtile_device_launch *launch, void *destination, int64_t rank,
                           const void *source, int32_t bytes, Rows rows, int32_t threads,
                           int32_t in_order, uint64_t *cell);
void dtile_provider_get(const dtile_device_launch *launch, void *destination, const void *source,
                        int64_t rank, int32_t bytes, Rows rows, int32_t threads);
/* As dtile_dev_store_far and so on. */
void dtile_provider_store(void *place, int64_t rank, uint64_t low, uint64_t high, int32_t bytes);
void dtile_provider_add(void *place, int64_t rank, uint64_t value, int32_t bytes);
uint64_t dtile_provider_fetch_add(void *place, int64_t rank, uint64_t value, int32_t bytes);
uint64_t dtile_provider_swap(void *place, int64_t rank, uint64_t expected, uint64_t desired,
                             int32_t bytes);
/* Release: adds 1 to a cell of `rank`, which may be this one; `fenced`: after what this thread has
 * sent there. */
void dtile_provider_notify(const dtile_device_launch *launch, uint64_t *cell, int64_t rank,
                           int32_t fenced);
/* Whether an own cell has come to `wanted`, and what it holds; no order. */
int32_t dtile_provider_reached(const uint64_t *cell, uint64_t wanted, uint64_t *seen);
/* Acquire: what was published by the notifies that an own cell has counted. */
void dtile_provider_acquire(const uint64_t *cell);
/* This thread's sends land in order; have landed. */
void dtile_provider_fence(void);
void dtile_provider_quiet(void);
