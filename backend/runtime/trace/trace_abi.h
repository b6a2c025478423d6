/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 * Calls of bodies that were compiled to be traced. Other code has none of them, and they do nothing
 * where the team is not being traced. Each call that opens a slice is followed by
 * dtile_rt_trace_end in the same body; slices are at most two deep: an operation in its body. */
#pragma once

#include "backend/runtime/kernel_abi.h"

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

/* What an operation does; the numbers are in generated code. */
typedef enum dtile_trace_op {
  DTILE_TRACE_PUT,
  DTILE_TRACE_GET,
  DTILE_TRACE_REDUCE_ADD,
  DTILE_TRACE_LOAD,
  DTILE_TRACE_STORE,
  DTILE_TRACE_ATOMIC,
  DTILE_TRACE_NOTIFY,
  DTILE_TRACE_WAIT,
  DTILE_TRACE_BARRIER,
  /* Of devices, in dtile_device_event. A wait for words that carry flags; a body; a further cell of
   * the wait or notify that is recorded before it. */
  DTILE_TRACE_POLL,
  DTILE_TRACE_BODY,
  DTILE_TRACE_CELL
} dtile_trace_op;

/* The body begins. */
void dtile_rt_trace_body(dtile_task *);
/* A transfer begins; one of the regions may be on another rank. What is moved is as large as
 * `local`. */
void dtile_rt_trace_copy(dtile_task *, int32_t op, const dtile_region *remote,
                         const dtile_region *local, const dtile_site *site);
/* A notify, a wait or a barrier (whose cells are null) begins. The region must be unchanged until
 * its end. `count` as for dtile_rt_wait. */
void dtile_rt_trace_cells(dtile_task *, int32_t op, const dtile_region *cells, int64_t count,
                          const dtile_site *site);
/* What was begun last has ended. */
void dtile_rt_trace_end(dtile_task *);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#ifdef __cplusplus
}
#endif
