// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Names for several kernels: which alternative a launch runs.
//
// Alternatives are kernels of their own, each with its own epoch, signals and scratch memory. All
// ranks have to run the same one, so it is chosen from what all ranks know alike: the number of
// ranks, and the sizes that agree on all ranks whichever alternative runs
// (dtile_param_desc.agreed). What was measured on such a device (dtile_tuned_row) goes before what
// is estimated. The fastest is that whose best variant has the smallest estimated time; where the
// model sees little difference, the one that the author names first.
#include "backend/runtime/alternatives.h"
#include "backend/runtime/device/device_team.h"
#include "backend/runtime/tuned_rows.h"

#include <algorithm>
#include <limits>

namespace dtile::runtime {

namespace {

/// Choices kept a name.
constexpr size_t kMostChoices = 256;

bool isFamily(const dtile_kernel_desc &desc) {
  return desc.abi_version == DTILE_ABI_VERSION && desc.nalternatives > 0;
}

/// The sizes of all arguments.
void collectSizes(const dtile_kernel_desc &family, const dtile_arg *arguments,
                  std::vector<int64_t> &sizes) {
  sizes.clear();
  for (int32_t i = 0; i < family.nparams; ++i) {
    const dtile_param_desc &param = family.params[i];
    const dtile_tensor *tensor = arguments[i].tensor;
    if (param.kind == DTILE_PARAM_TENSOR && tensor && tensor->ndim == param.rank)
      sizes.insert(sizes.end(), tensor->size, tensor->size + tensor->ndim);
  }
}

int64_t symmetricParams(const dtile_kernel_desc &desc) {
  return std::count_if(desc.params, desc.params + desc.nparams,
                       [](const dtile_param_desc &param) { return param.mode == DTILE_MODE_SYMM; });
}

} // namespace

Status DeviceTeam::resolveFamily(int32_t local, const dtile_arg *arguments, int32_t nargs,
                                 const StreamHandle *stream, const dtile_kernel_desc **desc) {
  const dtile_kernel_desc &family = **desc;
  if (!isFamily(family))
    return {};
  if (nargs != family.nparams)
    return {DTILE_INVALID,
            format("kernel `%s` takes %d arguments, %d given", family.name, family.nparams, nargs)};
  if (nargs > 0 && !arguments)
    return {DTILE_INVALID, "the arguments are null"};
  DeviceFamily &known = families_[&family];
  // Where a module was unloaded another one may be now.
  if (known.name != family.name || known.alternatives != family.alternatives)
    known = {family.name, family.alternatives, {}, {}};
  if (known.usable.empty())
    if (Status status = loadAlternatives(family, local, stream, known); !status.ok())
      return status;
  collectSizes(family, arguments, sizes_);
  auto found = known.choices.find(sizes_);
  if (found == known.choices.end()) {
    size_t fastest = 0;
    if (Status status = chooseAlternative(family, local, arguments, known, &fastest); !status.ok())
      return status;
    if (known.choices.size() >= kMostChoices)
      known.choices.clear();
    found = known.choices.emplace(sizes_, fastest).first;
  } else if (Status status =
                 checkDeclared(family, *family.alternatives[found->second], local, arguments);
             !status.ok()) {
    return status;
  }
  *desc = family.alternatives[found->second];
  return {};
}

Status DeviceTeam::checkDeclared(const dtile_kernel_desc &family, const dtile_kernel_desc &chosen,
                                 int32_t local, const dtile_arg *arguments) {
  const dtile_kernel_desc &first = *family.alternatives[0];
  DeviceKernel *kernel =
      symmetricParams(chosen) < symmetricParams(first) ? findKernel(first) : nullptr;
  if (!kernel)
    return {};
  DeviceRank &rank = *locals_[size_t(local)];
  return checkDeviceArguments(*rank.device, kernel->state, rank.rank, arguments,
                              {rank.heap, heapBytes_ + windowBytes_, callers_});
}

Status DeviceTeam::loadAlternatives(const dtile_kernel_desc &family, int32_t local,
                                    const StreamHandle *stream, DeviceFamily &known) {
  bool capturing = false;
  if (stream)
    if (Status status = locals_[size_t(local)]->device->isCapturing(*stream, &capturing);
        !status.ok())
      return status;
  Status failure;
  uint64_t usable = 0;
  for (int32_t i = 0; i < family.nalternatives; ++i) {
    DeviceKernel *kernel = findKernel(*family.alternatives[i]);
    if (!kernel && capturing)
      return {DTILE_INVALID,
              format("kernel `%s` cannot be loaded while a graph is captured; launch "
                     "it once before",
                     family.name)};
    Status status = kernel ? Status() : loadKernel(*family.alternatives[i], &kernel);
    if (status.ok()) {
      known.usable.push_back(size_t(i));
      usable |= uint64_t(1) << (i % 64);
    } else if (failure.ok()) {
      failure = std::move(status);
    }
  }
  if (known.usable.empty())
    return failure;
  if (ranks_ == 1)
    return {};
  return agree(usable ^ family.configuration,
               launchText(family.name, "its alternatives, which are those of one object on GPUs "
                                       "of one kind")
                   .c_str());
}

Status DeviceTeam::chooseAlternative(const dtile_kernel_desc &family, int32_t local,
                                     const dtile_arg *arguments, const DeviceFamily &known,
                                     size_t *fastest) {
  DeviceRank &rank = *locals_[size_t(local)];
  std::vector<DeviceKernel *> kernels;
  for (const size_t i : known.usable) {
    DeviceKernel *kernel = findKernel(*family.alternatives[i]);
    if (!kernel)
      if (Status status = loadKernel(*family.alternatives[i], &kernel); !status.ok())
        return status;
    if (Status status = checkDeviceArguments(*rank.device, kernel->state, rank.rank, arguments,
                                             {rank.heap, heapBytes_ + windowBytes_, callers_});
        !status.ok())
      return status;
    kernels.push_back(kernel);
  }
  *fastest = known.usable[fastestOf(kernels, local, arguments, family)];
  return {};
}

size_t DeviceTeam::fastestOf(const std::vector<DeviceKernel *> &kernels, int32_t local,
                             const dtile_arg *arguments, const dtile_kernel_desc &family) {
  if (const dtile_kernel_desc *measured =
          measuredAlternative(*kernels.front(), local, arguments, family))
    for (size_t i = 0; i < kernels.size(); ++i)
      if (kernels[i]->state.desc == measured)
        return i;
  std::vector<double> times;
  for (DeviceKernel *kernel : kernels) {
    double &time = times.emplace_back(std::numeric_limits<double>::infinity());
    for (const LoadedImage &variant : kernel->loaded[size_t(local)].variants)
      time = std::min(time, estimate(*kernel, local, variant, arguments,
                                     ranks_ > 1 ? kUnknownSizes[0] : -1, &family));
  }
  return fastestAlternative(times);
}

const dtile_kernel_desc *DeviceTeam::measuredAlternative(const DeviceKernel &any, int32_t local,
                                                         const dtile_arg *arguments,
                                                         const dtile_kernel_desc &family) const {
  const auto size = [](const void *of, int32_t param, int32_t dim) {
    return static_cast<const dtile_arg *>(of)[param].tensor->size[dim];
  };
  const std::vector<LoadedImage> &variants = any.loaded[size_t(local)].variants;
  if (family.ntuned == 0 || variants.empty())
    return nullptr;
  const dtile_tuned_row *row =
      findTuned({family, locals_[size_t(local)]->device->facts().name.c_str(),
                 variants.front().image->arch, ranks_, size, arguments},
                /*agreedOnly=*/ranks_ > 1);
  return row && row->variant < family.nalternatives ? family.alternatives[row->variant] : nullptr;
}

} // namespace dtile::runtime
