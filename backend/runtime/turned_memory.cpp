// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "backend/runtime/turned_memory.h"

#include "backend/runtime/regions.h"

#include <algorithm>

namespace dtile::runtime {

Status TurnedMemory::claim(const KernelState &kernel, const dtile_arg *arguments, const void *heap,
                           int32_t rank) {
  for (int32_t i = 0; i < kernel.desc->nparams; ++i) {
    const dtile_param_desc &param = kernel.desc->params[i];
    if (param.kind != DTILE_PARAM_TENSOR || param.mode != DTILE_MODE_SYMM || param.copies < 2)
      continue;
    const dtile_tensor &tensor = *arguments[kernel.argumentOf[size_t(i)]].tensor;
    // Row-major and contiguous.
    int64_t bytes = elementBytes(tensor.dtype);
    for (int32_t d = 0; d < tensor.ndim; ++d)
      bytes *= tensor.size[d];
    if (bytes == 0)
      continue;
    const int64_t begin = static_cast<const char *>(tensor.data) - static_cast<const char *>(heap);
    Claim own = {begin, begin + bytes, &kernel};
    bool isKnown = false;
    for (const Claim &other : claims_) {
      if (other.begin >= own.end || own.begin >= other.end)
        continue;
      if (other.owner != &kernel)
        return {DTILE_INVALID,
                format("kernel `%s`, argument `%s`, rank %d: parts of it are written in turn, by "
                       "the number of the launch, and kernel `%s` does so with the same memory; "
                       "each kernel counts its own launches, so one would write what the other's "
                       "peers still use: pass memory of its own",
                       kernel.name.c_str(), param.name, rank, other.owner->name.c_str())};
      isKnown |= other.begin <= own.begin && own.end <= other.end;
    }
    if (!isKnown)
      claims_.push_back(own);
  }
  return {};
}

void TurnedMemory::release(int64_t begin, int64_t end) {
  std::erase_if(claims_,
                [&](const Claim &claim) { return claim.begin < end && begin < claim.end; });
}

void TurnedMemory::forget(const KernelState &kernel) {
  std::erase_if(claims_, [&](const Claim &claim) { return claim.owner == &kernel; });
}

} // namespace dtile::runtime
