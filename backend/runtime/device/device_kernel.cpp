// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The arguments of a launch on a device: their identity, and whether the device can use them.
#include "backend/runtime/device/device_kernel.h"
#include "backend/runtime/arguments/regions.h"

#include <algorithm>
#include <cstdlib>

namespace dtile::runtime {

uint64_t hashBytes(const void *data, int64_t bytes, uint64_t hash) {
  for (int64_t i = 0; i < bytes; ++i)
    hash = (hash ^ static_cast<const uint8_t *>(data)[i]) * 0x100000001b3u;
  return hash;
}

void signArguments(const KernelState &kernel, const dtile_arg *arguments,
                   std::vector<uint64_t> &out) {
  out.clear();
  for (size_t i = 0; i < kernel.argumentOf.size(); ++i) {
    int32_t position = kernel.argumentOf[i];
    if (position < 0)
      continue;
    if (kernel.params[i].kind != DTILE_PARAM_TENSOR) {
      out.push_back(arguments[position].scalar_bits);
      continue;
    }
    const dtile_tensor *tensor = arguments[position].tensor;
    if (!tensor) {
      out.push_back(0);
      continue;
    }
    out.push_back(reinterpret_cast<uint64_t>(tensor->data));
    out.push_back(uint64_t(uint32_t(tensor->dtype)) << 32 | uint32_t(tensor->ndim));
    for (int32_t d = 0; d < std::clamp(tensor->ndim, 0, DTILE_MAX_RANK); ++d) {
      out.push_back(uint64_t(tensor->size[d]));
      out.push_back(uint64_t(tensor->stride[d]));
    }
  }
}

namespace {

/// A tensor argument and its memory.
struct Extent : TensorSpan {
  const dtile_tensor *tensor = nullptr;
  const dtile_param_desc *param = nullptr;
};

class ArgumentChecker {
public:
  ArgumentChecker(Device &device, const KernelState &kernel, int32_t rank, const CallersHeap &heap)
      : device_(device), kernel_(kernel), rank_(rank), heap_(heap) {}

  Status check(const dtile_arg *arguments);

private:
  Status invalid(const dtile_param_desc &param, const std::string &text) const {
    return {DTILE_INVALID, format("kernel `%s`, argument `%s`, rank %d: %s", kernel_.name.c_str(),
                                  param.name, rank_, text.c_str())};
  }
  Status measure(Extent &extent) const;
  Status checkPlace(const Extent &extent) const;
  Status checkSymmetric(const Extent &extent) const;
  Status checkOverlap() const;
  [[nodiscard]] bool isInHeap(const Extent &extent) const {
    return extent.begin >= heap_.begin && extent.begin < heap_.begin + DeviceAddress(heap_.bytes);
  }
  /// Of one that is in the heap.
  Status checkObject(const Extent &extent) const;

  Device &device_;
  const KernelState &kernel_;
  int32_t rank_;
  const CallersHeap &heap_;
  std::vector<Extent> extents_;
};

Status ArgumentChecker::check(const dtile_arg *arguments) {
  for (size_t i = 0; i < kernel_.argumentOf.size(); ++i) {
    int32_t position = kernel_.argumentOf[i];
    const dtile_param_desc &param = kernel_.desc->params[i];
    if (position < 0 || param.kind != DTILE_PARAM_TENSOR)
      continue;
    Extent extent;
    extent.tensor = arguments[position].tensor;
    extent.param = &param;
    if (Status status = measure(extent); !status.ok())
      return status;
    if (extent.elements == 0)
      continue;
    Status status = param.mode == DTILE_MODE_SYMM ? checkSymmetric(extent) : checkPlace(extent);
    if (!status.ok())
      return status;
    extents_.push_back(extent);
  }
  return checkOverlap();
}

Status ArgumentChecker::measure(Extent &extent) const {
  const dtile_param_desc &param = *extent.param;
  if (Status status = measureTensor(param, extent.tensor, &extent); !status.ok())
    return invalid(param, status.message);
  const auto bytes = uint64_t(elementBytes(param.dtype));
  const auto data = reinterpret_cast<uint64_t>(extent.tensor->data);
  if (extent.elements != 0 && data % bytes != 0)
    return invalid(param, format("the data is misaligned: its address 0x%llx is not a multiple of "
                                 "the %llu bytes of an element",
                                 static_cast<unsigned long long>(data),
                                 static_cast<unsigned long long>(bytes)));
  return {};
}

Status ArgumentChecker::checkObject(const Extent &extent) const {
  std::string wrong =
      heap_.objects.check(int64_t(extent.begin - heap_.begin), int64_t(extent.end - extent.begin));
  return wrong.empty() ? Status() : invalid(*extent.param, wrong);
}

Status ArgumentChecker::checkPlace(const Extent &extent) const {
  if (isInHeap(extent))
    return checkObject(extent);
  PointerPlace place;
  if (Status status = device_.place(extent.tensor->data, &place); !status.ok())
    return status;
  const int32_t own = device_.facts().ordinal;
  switch (place.kind) {
  case PointerPlace::Kind::Host:
    return invalid(*extent.param, format("the data is in host memory, but the rank runs on GPU %d: "
                                         "copy it there",
                                         own));
  case PointerPlace::Kind::Managed:
    return {};
  case PointerPlace::Kind::Device:
    if (place.ordinal == own)
      return {};
    return invalid(*extent.param, format("the data is on GPU %d, but the rank runs on GPU %d",
                                         place.ordinal, own));
  }
  return {};
}

Status ArgumentChecker::checkSymmetric(const Extent &extent) const {
  if (!extent.isContiguous)
    return invalid(*extent.param,
                   "a symmetric object must be row-major and contiguous, but has strides " +
                       shapeText(extent.tensor->ndim, extent.tensor->stride));
  if (!isInHeap(extent))
    return invalid(*extent.param, "the data is not in this rank's symmetric heap: allocate it by "
                                  "dtile_symm_alloc, and pass dtile_symm_address of the rank; or "
                                  "register it by dtile_symm_register");
  return checkObject(extent);
}

/// Whether two tensors certainly share an element; strided views that interleave do not.
bool overlaps(const Extent &a, const Extent &b) {
  if (a.end <= b.begin || b.end <= a.begin)
    return false;
  if (a.isContiguous && b.isContiguous)
    return true;
  // Views of one array: the offset between them, dimension by dimension.
  const dtile_tensor &s = *a.tensor, &t = *b.tensor;
  if (s.ndim != t.ndim || s.dtype != t.dtype)
    return false;
  int64_t bytes = elementBytes(s.dtype);
  auto apart = int64_t(reinterpret_cast<uint64_t>(t.data) - reinterpret_cast<uint64_t>(s.data));
  if (apart % bytes != 0)
    return false;
  apart /= bytes;
  for (int32_t d = 0; d < s.ndim; ++d) {
    if (s.stride[d] != t.stride[d] || s.stride[d] <= 0)
      return false;
    int64_t steps = apart / s.stride[d];
    apart -= steps * s.stride[d];
    if (steps >= s.size[d] || -steps >= t.size[d])
      return false;
  }
  return apart == 0;
}

Status ArgumentChecker::checkOverlap() const {
  for (const Extent &written : extents_) {
    if (written.param->mode != DTILE_MODE_OUT && written.param->mode != DTILE_MODE_INOUT)
      continue;
    for (const Extent &other : extents_)
      if (&other != &written && overlaps(written, other))
        return invalid(*written.param, format("its memory overlaps that of `%s`; what a kernel "
                                              "writes must be no other argument",
                                              other.param->name));
  }
  return {};
}

} // namespace

Status checkDeviceArguments(Device &device, const KernelState &kernel, int32_t rank,
                            const dtile_arg *arguments, const CallersHeap &heap) {
  return ArgumentChecker(device, kernel, rank, heap).check(arguments);
}

} // namespace dtile::runtime
