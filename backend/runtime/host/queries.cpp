// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Questions about launches on processors, which the kernel's prologue answers, and what the last
// one has left.
#include "backend/runtime/arguments/launch_query.h"
#include "backend/runtime/arguments/scratch_lookup.h"
#include "backend/runtime/host/team.h"
#include "backend/runtime/launch_frame.h"

#include <algorithm>

namespace dtile::runtime {

namespace {

/// A frame for whichever code of a kernel a launch takes.
LaunchFrame makeFrameFor(const dtile_kernel_desc &desc) {
  int64_t most = desc.frame_bytes;
  for (int32_t i = 0; i < desc.ntuned; ++i)
    if (desc.tuned[i].code)
      most = std::max(most, desc.tuned[i].code->frame_bytes);
  return makeFrame(most);
}

} // namespace

Status HostTeam::ask(KernelState &kernel, int32_t local, LaunchQuery &query, void *frame) const {
  dtile_launch launch;
  launch.rank = firstLocal() + local;
  launch.ranks = ranks();
  launch.local = local;
  launch.kernel = &kernel;
  launch.arguments = query.arguments();
  launch.query = &query;
  takeCode(launch);
  if (launch.code->prologue(&launch, frame) == 0 || !launch.error.ok())
    return std::move(launch.error);
  return {DTILE_INVALID,
          format("kernel `%s` refuses its arguments on rank %d", kernel.name.c_str(), launch.rank)};
}

Status HostTeam::supports(int32_t local, const dtile_kernel_desc &desc, const dtile_arg *arguments,
                          int32_t nargs, Status *refusal) {
  if (!broken_.ok())
    return brokenStatus();
  KernelState kernel(desc.nalternatives > 0 ? alternativeOf(desc, arguments, nargs) : desc);
  if (Status status = checkCount(kernel, arguments, nargs); !status.ok())
    return status;
  if (*refusal = checkDescriptor(kernel.desc); !refusal->ok())
    return {};
  const LaunchFrame frame = makeFrameFor(*kernel.desc);
  if (!frame)
    return {DTILE_OUT_OF_MEMORY, "no memory for a launch's frame"};
  LaunchQuery query(kernel, heapOf(firstLocal() + local),
                    heapBytes() - callers_.bytes(heapBytes()));
  if (*refusal = query.take(arguments); refusal->ok())
    *refusal = ask(kernel, local, query, frame.get());
  return {};
}

Status HostTeam::sizes(int32_t local, const dtile_kernel_desc &desc, const dtile_arg *arguments,
                       int32_t nargs, int32_t argument, int64_t *size) {
  if (!broken_.ok())
    return brokenStatus();
  KernelState kernel(desc.nalternatives > 0 ? alternativeOf(desc, arguments, nargs) : desc);
  if (Status status = checkCount(kernel, arguments, nargs); !status.ok())
    return status;
  if (Status status = checkDescriptor(kernel.desc); !status.ok())
    return status;
  const LaunchFrame frame = makeFrameFor(*kernel.desc);
  if (!frame)
    return {DTILE_OUT_OF_MEMORY, "no memory for a launch's frame"};
  LaunchQuery query(kernel, heapOf(firstLocal() + local), heapBytes());
  return query.findSizes(
      arguments, argument, [&] { return ask(kernel, local, query, frame.get()); }, size);
}

Status HostTeam::scratch(int32_t local, const dtile_kernel_desc &desc, const char *name,
                         dtile_tensor *out) {
  if (!broken_.ok())
    return brokenStatus();
  const KernelObject *last = nullptr;
  int32_t dtype = 0;
  for (const dtile_kernel_desc *one : kernelsOf(desc)) {
    const auto kernel = kernels_.find({one, one->name});
    const int32_t param = findScratch(*one, name);
    if (kernel == kernels_.end() || param < 0)
      continue;
    for (const auto &[key, object] : kernel->second->objects)
      if (key.param == param && object->turn[size_t(local)] > 0 &&
          (!last || object->lastUse > last->lastUse)) {
        last = object.get();
        dtype = one->params[param].dtype;
      }
  }
  const int32_t rank = firstLocal() + local;
  if (!last)
    return noScratch(desc, name, rank);
  const int64_t copy = (last->turn[size_t(local)] - 1) % last->copies;
  *out = scratchTensor(last->key, dtype, heapOf(rank) + last->offset + copy * last->copyBytes);
  return {};
}

} // namespace dtile::runtime
