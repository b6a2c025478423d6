// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "backend/runtime/turned_memory.h"

#include "backend/runtime/regions.h"

#include <algorithm>

namespace dtile::runtime {

TurnedMemory::Claim TurnedMemory::claimOf(const KernelState &kernel, size_t param,
                                          const dtile_arg *arguments, const void *heap) {
  const dtile_param_desc &declared = kernel.desc->params[param];
  if (declared.kind != DTILE_PARAM_TENSOR || declared.mode != DTILE_MODE_SYMM ||
      declared.copies < 2)
    return {};
  const dtile_tensor &tensor = *arguments[kernel.argumentOf[param]].tensor;
  Claim claim;
  claim.owner = &kernel;
  claim.sizes.assign(tensor.size, tensor.size + tensor.ndim);
  claim.begin = static_cast<const char *>(tensor.data) - static_cast<const char *>(heap);
  // Row-major and contiguous.
  int64_t bytes = elementBytes(tensor.dtype);
  for (const int64_t size : claim.sizes)
    bytes *= size;
  claim.end = claim.begin + bytes;
  return claim;
}

Status TurnedMemory::check(const KernelState &kernel, const dtile_arg *arguments, const void *heap,
                           int32_t rank) const {
  for (size_t i = 0; i < size_t(kernel.desc->nparams); ++i) {
    const Claim own = claimOf(kernel, i, arguments, heap);
    if (own.begin == own.end)
      continue;
    for (const Claim &other : claims_) {
      if (!own.overlaps(other) || own == other)
        continue;
      std::string text =
          format("kernel `%s`, argument `%s`, rank %d: parts of it are written in turn, by the "
                 "number of the launch, and ",
                 kernel.name.c_str(), kernel.desc->params[i].name, rank);
      if (other.owner == &kernel)
        text += "an earlier launch has cut this memory into other parts, which peers may still "
                "use: pass the same object each time, or memory of its own";
      else
        text += format("%skernel `%s` does so with the same memory; each kernel counts its own "
                       "launches, so one would write what the other's peers still use: pass "
                       "memory of its own",
                       other.owner->name == kernel.name ? "another build of " : "",
                       other.owner->name.c_str());
      return {DTILE_INVALID, std::move(text)};
    }
  }
  return {};
}

void TurnedMemory::claim(const KernelState &kernel, const dtile_arg *arguments, const void *heap) {
  for (size_t i = 0; i < size_t(kernel.desc->nparams); ++i) {
    Claim own = claimOf(kernel, i, arguments, heap);
    if (own.begin != own.end && std::find(claims_.begin(), claims_.end(), own) == claims_.end())
      claims_.push_back(std::move(own));
  }
}

bool TurnedMemory::release(int64_t begin, int64_t end) {
  return std::erase_if(claims_, [&](const Claim &claim) {
           return claim.begin < end && begin < claim.end;
         }) != 0;
}

void TurnedMemory::forget(const KernelState &kernel) {
  std::erase_if(claims_, [&](const Claim &claim) { return claim.owner == &kernel; });
}

} // namespace dtile::runtime
