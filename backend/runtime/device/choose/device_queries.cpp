// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Questions about launches on devices: whether one would be taken, and which sizes a tensor has
// that was not passed. They choose the alternative and the variant as a launch does, and run its
// prologue. Other processes take no part. So a kernel that was not launched yet is loaded for the
// question alone; its first launch loads it as if nobody had asked, and finds the modules there.
// And where the last launch has left its scratch objects.
#include "backend/runtime/arguments/launch_query.h"
#include "backend/runtime/arguments/scratch_lookup.h"
#include "backend/runtime/device/device_team.h"

#include <algorithm>

namespace dtile::runtime {

namespace {

bool isFamily(const dtile_kernel_desc &desc) { return desc.nalternatives > 0; }

/// An image for the device, whichever of its variants.
const dtile_device_image *anyImage(const Device &device, const dtile_kernel_desc &desc) {
  const auto *found =
      std::find_if(desc.images, desc.images + desc.nimages,
                   [&](const dtile_device_image &image) { return device.fitness(image) > 0; });
  return found == desc.images + desc.nimages ? nullptr : found;
}

} // namespace

Status DeviceTeam::kernelToAsk(const dtile_kernel_desc &desc, DeviceKernel **out) {
  *out = findKernel(desc);
  if (*out)
    return {};
  std::unique_ptr<DeviceKernel> &asked = asked_[&desc];
  // Where a module was unloaded another kernel may be now.
  if (!asked || desc.nimages == 0 || desc.images[0].data != asked->imageData ||
      desc.images[0].bytes != asked->imageBytes || asked->state.name != desc.name) {
    asked.reset();
    if (Status status = openKernel(desc, &asked); !status.ok())
      return status;
  }
  *out = asked.get();
  return {};
}

Status DeviceTeam::alternativeToAsk(const dtile_kernel_desc &family, int32_t local,
                                    const dtile_arg *arguments, DeviceKernel **out) {
  std::vector<DeviceKernel *> usable;
  Status failure;
  for (int32_t i = 0; i < family.nalternatives; ++i) {
    DeviceKernel *kernel = nullptr;
    Status status = kernelToAsk(*family.alternatives[i], &kernel);
    if (status.ok())
      usable.push_back(kernel);
    else if (failure.ok())
      failure = std::move(status);
  }
  if (usable.empty())
    return failure;
  *out = usable[fastestOf(usable, local, arguments, family)];
  return {};
}

Status DeviceTeam::supports(int32_t local, const dtile_kernel_desc &desc,
                            const dtile_arg *arguments, int32_t nargs, Status *refusal) {
  if (!broken_.ok())
    return broken_;
  const KernelState called(desc);
  if (Status status = checkCount(called, arguments, nargs); !status.ok())
    return status;
  DeviceRank &rank = *locals_[size_t(local)];
  auto *heap = reinterpret_cast<void *>(rank.heap);
  // Types are looked at before sizes are: estimates run prologues on them.
  LaunchQuery passed(called, heap, heapBytes_);
  if (*refusal = passed.take(arguments); !refusal->ok())
    return {};
  DeviceKernel *kernel = nullptr;
  *refusal = isFamily(desc) ? alternativeToAsk(desc, local, passed.arguments(), &kernel)
                            : kernelToAsk(desc, &kernel);
  if (!refusal->ok())
    return {};
  LaunchQuery query(kernel->state, heap, heapBytes_ - callers_.bytes(heapBytes_));
  if (*refusal = query.take(passed.arguments()); !refusal->ok())
    return {};
  const size_t variant = chooseVariant(*kernel, local, query.arguments());
  rank.launch.query = &query;
  *refusal = tryVariant(*kernel, local, kernel->loaded[size_t(local)].variants[variant],
                        query.arguments());
  rank.launch.query = nullptr;
  return {};
}

Status DeviceTeam::sizes(int32_t local, const dtile_kernel_desc &desc, const dtile_arg *arguments,
                         int32_t nargs, int32_t argument, int64_t *size) {
  if (!broken_.ok())
    return broken_;
  DeviceRank &rank = *locals_[size_t(local)];
  const dtile_kernel_desc *one = &desc;
  // Alternatives have the parameters of their name.
  for (int32_t i = 0; i < desc.nalternatives && !anyImage(*rank.device, *one); ++i)
    one = desc.alternatives[i];
  const dtile_device_image *image = anyImage(*rank.device, *one);
  if (!image)
    return {DTILE_INVALID,
            format("kernel `%s` has no code for GPU %d (%s): compile it for %s", desc.name,
                   rank.device->facts().ordinal, rank.device->facts().arch.c_str(),
                   rank.device->facts().arch.c_str())};
  DeviceKernel kernel(*one);
  if (Status status = checkCount(kernel.state, arguments, nargs); !status.ok())
    return status;
  LaunchQuery query(kernel.state, reinterpret_cast<void *>(rank.heap), heapBytes_);
  LoadedImage variant;
  variant.image = image;
  const auto frame = makeFrame(image->frame_bytes);
  if (!frame)
    return {DTILE_OUT_OF_MEMORY, "no memory for a launch's frame"};
  DeviceLaunch device = {this, &kernel, /*capturing=*/false, /*isEstimate=*/true, 0, {}};
  rank.launch.query = &query;
  Status status = query.findSizes(
      arguments, argument,
      [&] { return runPrologue(kernel, local, variant, query.arguments(), device, frame.get()); },
      size);
  rank.launch.query = nullptr;
  return status;
}

Status DeviceTeam::scratch(int32_t local, const dtile_kernel_desc &desc, const char *name,
                           dtile_tensor *out) {
  DeviceRank &rank = *locals_[size_t(local)];
  bool isCaptured = false;
  if (Status status = rank.device->isCapturing(rank.stream, &isCaptured); !status.ok())
    return status;
  if (isCaptured)
    return {DTILE_INVALID, format("kernel `%s`: `%s` cannot be looked at while a graph is captured",
                                  desc.name, name)};
  if (Status status = synchronize(); !status.ok())
    return status;
  const DeviceObject *last = nullptr;
  int32_t dtype = 0;
  for (const dtile_kernel_desc *one : kernelsOf(desc)) {
    const DeviceKernel *kernel = findKernel(*one);
    const int32_t param = findScratch(*one, name);
    if (!kernel || param < 0)
      continue;
    for (const auto &[key, object] : kernel->objects)
      if (key.param == param && (!last || object->lastUse > last->lastUse)) {
        last = object.get();
        dtype = one->params[param].dtype;
      }
  }
  uint64_t parts = 0;
  if (last) {
    Status status =
        rank.device->copyOut(&parts, last->turn[size_t(local)], sizeof parts, rank.stream);
    if (status.ok())
      status = rank.device->synchronize(rank.stream);
    if (!status.ok())
      return status;
  }
  const auto launches = int64_t(parts >> DTILE_DEVICE_PART_BITS);
  if (launches == 0)
    return noScratch(desc, name, rank.rank);
  // Variants that look alike to other ranks use it alike.
  const dtile_device_scratch *use = nullptr;
  for (const LoadedImage &variant : last->kernel->loaded[size_t(local)].variants)
    for (int32_t i = 0;
         variant.image->protocol == last->key.protocol && i < variant.image->nscratch; ++i)
      if (variant.image->scratch[i].param == last->key.param)
        use = &variant.image->scratch[i];
  if (!use || use->flagged)
    return {
        DTILE_UNAVAILABLE,
        format("kernel `%s`: `%s` holds words that have flags between them (LL messages), which "
               "are no tensor",
               desc.name, name)};
  const int64_t copy = (launches - 1) % use->copies;
  *out = scratchTensor(
      last->key, dtype,
      reinterpret_cast<void *>(rank.heap + DeviceAddress(last->offset + copy * last->copyBytes)));
  return {};
}

} // namespace dtile::runtime
