// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Work on strided regions: copies, element-wise atomic addition, single atomics. Addresses, not
// ranks: who is where is the caller's affair.
#pragma once

#include "backend/runtime/kernel_abi.h"

#include <cstddef>
#include <cstdint>

namespace dtile::runtime {

/// Bytes of an element.
int64_t elementBytes(int32_t dtype);
/// "bf16" and so on; "?" for a number that is none.
const char *dtypeName(int32_t dtype);
int64_t elementCount(const dtile_region &region);
/// Whether both have the same shape and element type.
bool sameShape(const dtile_region &a, const dtile_region &b);

/// Two equally shaped regions as runs of bytes that are contiguous in both. Dimensions of one
/// element are gone and neighbours that are contiguous in both are one.
struct RunPlan {
  /// Bytes of a run; 0 when the regions are empty.
  int64_t runBytes = 0;
  int32_t ndim = 0;
  /// Number of runs and distance between them in bytes, for each dimension that is left.
  int64_t count[DTILE_MAX_RANK];
  int64_t strideA[DTILE_MAX_RANK];
  int64_t strideB[DTILE_MAX_RANK];
};
RunPlan planRuns(const dtile_region &a, const dtile_region &b);

/// Calls `run(offsetA, offsetB)`, in bytes, for each run.
template <typename Run> void forEachRun(const RunPlan &plan, Run run) {
  if (plan.runBytes == 0)
    return;
  int64_t at[DTILE_MAX_RANK] = {};
  int64_t a = 0;
  int64_t b = 0;
  for (;;) {
    run(a, b);
    int32_t d = plan.ndim - 1;
    for (; d >= 0; --d) {
      a += plan.strideA[d];
      b += plan.strideB[d];
      if (++at[d] < plan.count[d])
        break;
      a -= plan.strideA[d] * plan.count[d];
      b -= plan.strideB[d] * plan.count[d];
      at[d] = 0;
    }
    if (d < 0)
      return;
  }
}

/// Calls `cell(address)` for each element of a region, in row-major order, until it returns false.
template <typename Cell> void forEachElement(const dtile_region &region, void *data, Cell cell) {
  int64_t at[DTILE_MAX_RANK] = {};
  if (elementCount(region) == 0)
    return;
  int64_t bytes = elementBytes(region.dtype);
  char *address = static_cast<char *>(data);
  for (;;) {
    if (!cell(address))
      return;
    int32_t d = region.ndim - 1;
    for (; d >= 0; --d) {
      address += region.stride[d] * bytes;
      if (++at[d] < region.size[d])
        break;
      address -= region.stride[d] * bytes * region.size[d];
      at[d] = 0;
    }
    if (d < 0)
      return;
  }
}

/// Copies equally shaped regions between two addresses.
void copyRegion(const dtile_region &source, const void *from, const dtile_region &destination,
                void *to);
/// Adds each element of the source to the destination's, each atomically; relaxed.
void reduceAddRegion(const dtile_region &source, const void *from, const dtile_region &destination,
                     void *to);
/// Adds `count` contiguous elements, not atomically.
void addElements(int32_t dtype, void *to, const void *from, int64_t count);
/// dtile_rt_atomic on an address; gives the old bits.
uint64_t atomicElement(int32_t kind, int32_t dtype, void *cell, uint64_t operand,
                       uint64_t expected);
/// The new bits of an element whose bits were `old`, for the kinds of dtile_rt_atomic.
uint64_t combineElement(int32_t kind, int32_t dtype, uint64_t old, uint64_t operand,
                        uint64_t expected);

} // namespace dtile::runtime
