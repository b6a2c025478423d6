// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "backend/runtime/arguments/tensor_span.h"

#include "backend/runtime/arguments/regions.h"

#include <numeric>

namespace dtile::runtime {

namespace {

uint64_t magnitude(int64_t value) { return value < 0 ? 0 - uint64_t(value) : uint64_t(value); }

/// low <= 0 <= high: the elements before and after the first one. False: they overflow.
bool reachOf(const dtile_tensor &tensor, int64_t *low, int64_t *high) {
  *low = *high = 0;
  for (int32_t d = 0; d < tensor.ndim; ++d) {
    int64_t reach = 0;
    if (__builtin_mul_overflow(tensor.size[d] - 1, tensor.stride[d], &reach))
      return false;
    int64_t &side = reach < 0 ? *low : *high;
    if (__builtin_add_overflow(side, reach, &side))
      return false;
  }
  return true;
}

/// `data` and so many elements after it, as an address. False: there is none.
bool addressOf(uint64_t data, int64_t elements, int64_t bytes, uint64_t *out) {
  int64_t offset = 0;
  return !__builtin_mul_overflow(elements, bytes, &offset) &&
         !__builtin_add_overflow(data, offset, out);
}

/// Two dimensions along which steps meet: of a stride of 0 any two. -1: there are none.
struct Meeting {
  int32_t one = -1, other = -1;
};
Meeting findMeeting(const dtile_tensor &tensor) {
  for (int32_t d = 0; d < tensor.ndim; ++d) {
    if (tensor.size[d] > 1 && tensor.stride[d] == 0)
      return {d, d};
    for (int32_t e = 0; e < d; ++e) {
      if (tensor.size[d] <= 1 || tensor.size[e] <= 1)
        continue;
      // The fewest steps along each that lead to one place; whether the tensor has so many.
      const auto a = magnitude(tensor.stride[d]), b = magnitude(tensor.stride[e]);
      const uint64_t common = std::gcd(a, b);
      if (b / common < uint64_t(tensor.size[d]) && a / common < uint64_t(tensor.size[e]))
        return {e, d};
    }
  }
  return {};
}

} // namespace

Status measureTensor(const dtile_param_desc &param, const dtile_tensor *tensor, TensorSpan *out) {
  auto invalid = [](std::string text) { return Status{DTILE_INVALID, std::move(text)}; };
  *out = {};
  if (!tensor)
    return invalid("the tensor is null");
  if (tensor->dtype != param.dtype)
    return invalid(format("elements are %s, but the kernel wants %s", dtypeName(tensor->dtype),
                          dtypeName(param.dtype)));
  if (tensor->ndim != param.rank)
    return invalid(format("%d dimensions, but the kernel wants %d", tensor->ndim, param.rank));
  const int64_t bytes = elementBytes(tensor->dtype);
  const auto overflow = [&] {
    return invalid("the sizes " + shapeText(tensor->ndim, tensor->size) + " and strides " +
                   shapeText(tensor->ndim, tensor->stride) + " overflow");
  };
  bool isEmpty = false;
  for (int32_t d = 0; d < tensor->ndim; ++d) {
    if (tensor->size[d] < 0)
      return invalid(
          format("dimension %d has the size %lld", d, static_cast<long long>(tensor->size[d])));
    isEmpty |= tensor->size[d] == 0;
  }
  // Of the sizes beside a zero, too: kernels multiply them.
  int64_t all = bytes;
  for (int32_t d = tensor->ndim - 1; d >= 0; --d) {
    const int64_t size = tensor->size[d];
    out->isContiguous &= size == 1 || tensor->stride[d] == out->elements;
    if (__builtin_mul_overflow(out->elements, size, &out->elements) ||
        (size != 0 && __builtin_mul_overflow(all, size, &all)))
      return overflow();
  }
  if (isEmpty) {
    out->elements = 0;
    return {};
  }
  if (!tensor->data)
    return invalid("the data is null");
  const auto data = reinterpret_cast<uint64_t>(tensor->data);
  int64_t low = 0, high = 0;
  if (!reachOf(*tensor, &low, &high) || high == INT64_MAX ||
      !addressOf(data, low, bytes, &out->begin) || !addressOf(data, high + 1, bytes, &out->end))
    return overflow();
  if (out->isContiguous || (param.mode != DTILE_MODE_OUT && param.mode != DTILE_MODE_INOUT))
    return {};
  const Meeting meeting = findMeeting(*tensor);
  if (meeting.one < 0)
    return {};
  const std::string strides = "strides " + shapeText(tensor->ndim, tensor->stride) + ", sizes " +
                              shapeText(tensor->ndim, tensor->size);
  return invalid(meeting.one == meeting.other
                     ? format("all elements along dimension %d are one place in memory (%s), but "
                              "the kernel writes them: pass a copy",
                              meeting.one, strides.c_str())
                     : format("elements along dimensions %d and %d are one place in memory (%s), "
                              "but the kernel writes them: pass a copy",
                              meeting.one, meeting.other, strides.c_str()));
}

} // namespace dtile::runtime
