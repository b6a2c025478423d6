// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The calls of prologues for devices, where there is no device: they refuse the launch.
#include "backend/runtime/kernel_abi.h"
#include "backend/runtime/launch.h"

using namespace dtile::runtime;

namespace {

int32_t refuse(dtile_launch *launch) {
  if (launch->error.ok())
    launch->error = {DTILE_INVALID, "this kernel was compiled for a device, and none is there"};
  return 1;
}

} // namespace

int32_t dtile_rt_device_scratch(dtile_launch *launch, int32_t, int32_t, const int64_t *,
                                dtile_device_object *) {
  return refuse(launch);
}

int32_t dtile_rt_device_signal(dtile_launch *launch, int32_t, int32_t, const int64_t *,
                               dtile_device_cells *) {
  return refuse(launch);
}

int32_t dtile_rt_tensor_map(dtile_launch *launch, void *, void *, int32_t, int32_t, const int64_t *,
                            const int64_t *, const int32_t *, int32_t, int64_t *) {
  return refuse(launch);
}
