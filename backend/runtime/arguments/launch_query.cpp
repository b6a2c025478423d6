// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Sizes that are to be found out stand for themselves at first: each is a number of its own that no
// tensor has. Where the prologue compares such a number with what the kernel declares, either side
// may be known, and says what the other is. The prologue then runs again, until nothing new comes.
// All of it is done twice, with other numbers: what differs was computed from them, and is unknown.
#include "backend/runtime/arguments/launch_query.h"

#include "backend/runtime/arguments/regions.h"
#include "backend/runtime/arguments/tensor_span.h"
#include "backend/runtime/symmetric_heap.h"

#include <algorithm>

namespace dtile::runtime {

namespace {

void makeContiguous(dtile_tensor &tensor) {
  int64_t stride = 1;
  for (int32_t d = tensor.ndim - 1; d >= 0; --d) {
    tensor.stride[d] = stride;
    if (__builtin_mul_overflow(stride, tensor.size[d], &stride))
      stride = 1;
  }
}

} // namespace

Status checkCount(const KernelState &kernel, const void *arguments, int32_t nargs) {
  if (nargs != kernel.argumentCount)
    return {DTILE_INVALID, format("kernel `%s` takes %d arguments, %d given", kernel.name.c_str(),
                                  kernel.argumentCount, nargs)};
  if (nargs > 0 && !arguments)
    return {DTILE_INVALID, "the arguments are null"};
  return {};
}

Status LaunchQuery::checkTensor(int32_t param, const dtile_tensor &tensor) const {
  const dtile_param_desc &declared = kernel_.desc->params[param];
  const auto invalid = [&](const std::string &text) {
    return Status{DTILE_INVALID, format("kernel `%s`, argument `%s`: %s", kernel_.name.c_str(),
                                        declared.name, text.c_str())};
  };
  TensorSpan span;
  if (Status status = measureTensor(declared, &tensor, &span); !status.ok())
    return invalid(status.message);
  if (declared.mode == DTILE_MODE_SYMM && span.elements != 0 && !span.isContiguous)
    return invalid("a symmetric object must be row-major and contiguous, but has strides " +
                   shapeText(tensor.ndim, tensor.stride));
  return {};
}

Status LaunchQuery::take(const dtile_arg *arguments, int64_t firstUnknown) {
  firstUnknown_ = firstUnknown;
  arguments_.assign(size_t(std::max(kernel_.argumentCount, 1)), dtile_arg{});
  tensors_.assign(size_t(kernel_.argumentCount), dtile_tensor{});
  isLacking_.assign(size_t(kernel_.argumentCount), false);
  for (int32_t i = 0; i < kernel_.desc->nparams; ++i) {
    const int32_t at = kernel_.argumentOf[size_t(i)];
    const dtile_param_desc &param = kernel_.desc->params[i];
    if (at < 0)
      continue;
    if (param.kind != DTILE_PARAM_TENSOR) {
      arguments_[size_t(at)] = arguments[at];
      continue;
    }
    dtile_tensor &tensor = tensors_[size_t(at)];
    arguments_[size_t(at)].tensor = &tensor;
    isLacking_[size_t(at)] = isOpen() && !arguments[at].tensor;
    if (isLacking_[size_t(at)]) {
      tensor.dtype = param.dtype;
      tensor.ndim = param.rank;
      for (int32_t d = 0; d < param.rank; ++d)
        tensor.size[d] = unknownOf(at, d);
      makeContiguous(tensor);
    } else if (arguments[at].tensor) {
      tensor = *arguments[at].tensor;
    }
    tensor.data = anywhere_;
    if (isLacking_[size_t(at)])
      continue;
    if (!arguments[at].tensor)
      return {DTILE_INVALID, format("kernel `%s`, argument `%s`: the tensor is null",
                                    kernel_.name.c_str(), param.name)};
    if (Status status = checkTensor(i, tensor); !status.ok())
      return status;
  }
  return {};
}

int64_t LaunchQuery::unknownOf(int32_t argument, int32_t dim) const {
  return firstUnknown_ + 2 * (int64_t(argument) * DTILE_MAX_RANK + dim);
}

void LaunchQuery::learn(int32_t argument, int32_t dim, int64_t size) {
  dtile_tensor &tensor = tensors_[size_t(argument)];
  tensor.size[dim] = size;
  makeContiguous(tensor);
  hasLearnt_ = true;
}

void LaunchQuery::compare(int32_t param, int32_t dim, int64_t declared, int64_t passed) {
  if (declared == passed)
    return;
  // The kernel says what a size is that was not passed,
  const int32_t at = kernel_.argumentOf[size_t(param)];
  if (isLacking_[size_t(at)])
    return learn(at, dim, declared);
  // or what was passed says what a size is that others are declared by.
  for (int32_t other = 0; other < kernel_.argumentCount; ++other)
    for (int32_t d = 0; isLacking_[size_t(other)] && d < tensors_[size_t(other)].ndim; ++d)
      if (declared == unknownOf(other, d))
        return learn(other, d, passed);
}

const char *LaunchQuery::nameOf(int32_t argument) const {
  const auto at = std::find(kernel_.argumentOf.begin(), kernel_.argumentOf.end(), argument);
  return kernel_.desc->params[at - kernel_.argumentOf.begin()].name;
}

Status LaunchQuery::compareFound(int32_t argument, const Sizes (&found)[2]) const {
  for (int32_t d = 0; d < tensors_[size_t(argument)].ndim; ++d)
    if (found[0][size_t(d)] != found[1][size_t(d)])
      return {DTILE_INVALID,
              format("kernel `%s`: nothing that was passed says the size of dimension %d of `%s`: "
                     "pass a tensor for it",
                     kernel_.name.c_str(), d, nameOf(argument))};
  return {};
}

Status LaunchQuery::addObject(int32_t rank, int32_t param, int32_t ndim, const int64_t *size) {
  const dtile_param_desc &declared = kernel_.desc->params[param];
  const bool isSignal = declared.kind == DTILE_PARAM_SIGNAL;
  if (isOpen())
    return {};
  int64_t bytes = isSignal ? 8 : elementBytes(declared.dtype);
  bool fits = true;
  for (int32_t d = 0; d < ndim; ++d) {
    if (size[d] < 0)
      return {DTILE_INVALID,
              format("kernel `%s`, rank %d: `%s` would have the sizes %s", kernel_.name.c_str(),
                     rank, declared.name, shapeText(ndim, size).c_str())};
    fits = fits && !__builtin_mul_overflow(bytes, size[d], &bytes);
  }
  // Zeroed objects have a second copy.
  const int32_t copies =
      isSignal ? 1 : std::max(declared.copies, (declared.flags & DTILE_PARAM_ZERO) != 0 ? 2 : 1);
  constexpr int64_t kAlign = SymmetricHeap::kAlignment;
  fits = fits && bytes <= room_ && (bytes + kAlign - 1) / kAlign * kAlign <= room_ / copies;
  if (!fits)
    return {DTILE_OUT_OF_MEMORY,
            format("kernel `%s`, rank %d: no room for %d %s of `%s`, %s %s, in the symmetric heap, "
                   "where this launch has %lld bytes left; raise symmetric_bytes of the team's "
                   "options",
                   kernel_.name.c_str(), rank, copies, copies == 1 ? "copy" : "copies",
                   declared.name, isSignal ? "signal" : dtypeName(declared.dtype),
                   shapeText(ndim, size).c_str(), static_cast<long long>(room_))};
  room_ -= (bytes + kAlign - 1) / kAlign * kAlign * copies;
  return {};
}

} // namespace dtile::runtime
