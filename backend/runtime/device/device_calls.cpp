// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The calls of prologues for devices: places of scratch objects and signals, and tensor maps. Where
// the launch is not on a device they refuse it. And the calls of lists of transfers.
#include "backend/runtime/arguments/launch_query.h"
#include "backend/runtime/device/device_team.h"
#include "backend/runtime/device_abi.h"
#include "backend/runtime/host/launch.h"
#include "backend/runtime/kernel_abi.h"

using namespace dtile::runtime;

namespace {

int32_t refuse(dtile_launch *launch) {
  if (launch->error.ok())
    launch->error = {DTILE_INVALID, "this kernel was compiled for a device, and none is there"};
  return 1;
}

/// Of a launch that is not to be. Where something is asked of it, its objects count.
int32_t standIn(dtile_launch &launch, int32_t param, int32_t ndim, const int64_t *size) {
  Status status = launch.query ? launch.query->addObject(launch.rank, param, ndim, size) : Status();
  if (status.ok())
    return 0;
  if (launch.error.ok())
    launch.error = std::move(status);
  return 1;
}

/// Whether transfers of the copy engine are being listed.
bool lists(const dtile_launch *launch) { return launch->device && launch->device->engine; }

template <typename T> T *pointer(DeviceAddress address) { return reinterpret_cast<T *>(address); }

} // namespace

int32_t dtile_rt_device_scratch(dtile_launch *launch, int32_t param, int32_t ndim,
                                const int64_t *size, dtile_device_object *out) {
  if (!launch->device)
    return refuse(launch);
  DeviceTeam &team = *launch->device->team;
  if (launch->device->isEstimate) {
    out->data = pointer<void>(team.local(launch->local).heap);
    return standIn(*launch, param, ndim, size);
  }
  const DeviceObject *object = team.object(*launch, param, ndim, size);
  if (!object)
    return 1;
  DeviceAddress heap = team.local(launch->local).heap;
  out->data = pointer<void>(heap + DeviceAddress(object->offset));
  out->copy_bytes = object->copyBytes;
  out->turn = pointer<uint64_t>(object->turn[size_t(launch->local)]);
  return 0;
}

int32_t dtile_rt_device_signal(dtile_launch *launch, int32_t param, int32_t ndim,
                               const int64_t *size, dtile_device_cells *out) {
  if (!launch->device)
    return refuse(launch);
  DeviceTeam &team = *launch->device->team;
  if (launch->device->isEstimate) {
    out->cells = pointer<uint64_t>(team.local(launch->local).heap);
    return standIn(*launch, param, ndim, size);
  }
  const DeviceObject *object = team.object(*launch, param, ndim, size);
  if (!object)
    return 1;
  auto local = size_t(launch->local);
  out->cells = pointer<uint64_t>(team.local(launch->local).heap + DeviceAddress(object->offset));
  out->bases = pointer<uint64_t>(object->bases[local] + DeviceObject::kSinceBytes);
  out->since = pointer<uint64_t>(object->bases[local]);
  out->asked = pointer<uint64_t>(object->asked[local]);
  return 0;
}

int32_t dtile_rt_tensor_map(dtile_launch *launch, void *map, void *data, int32_t dtype,
                            int32_t ndim, const int64_t *size, const int64_t *stride,
                            const int32_t *box, int32_t swizzle, int64_t *usable) {
  if (!launch->device)
    return refuse(launch);
  Device &device = *launch->device->team->local(launch->local).device;
  *usable = device.tensorMap({data, dtype, ndim, size, stride, box, swizzle}, map);
  return 0;
}

void dtile_rt_engine_put(dtile_launch *launch, const dtile_region *source,
                         const dtile_region *destination, const dtile_site *site) {
  if (lists(launch))
    launch->device->team->listPut(*launch, *source, *destination, *site);
}

void dtile_rt_engine_notify(dtile_launch *launch, const dtile_region *cells) {
  if (lists(launch))
    launch->device->team->listNotify(*launch, *cells);
}

void dtile_rt_engine_leave(dtile_launch *launch) {
  if (lists(launch))
    launch->device->engine->refuse("a check of its bodies fails");
}
