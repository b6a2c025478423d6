// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "backend/runtime/turned_memory.h"

#include "backend/runtime/regions.h"

#include <algorithm>

namespace dtile::runtime {

namespace {

bool isWritten(const dtile_param_desc &param) {
  return param.kind == DTILE_PARAM_TENSOR && param.mode == DTILE_MODE_SYMM &&
         (param.flags & DTILE_PARAM_WRITTEN) != 0;
}

} // namespace

bool TurnedMemory::concerns(const dtile_kernel_desc &kernel) {
  return std::any_of(kernel.params, kernel.params + kernel.nparams, isWritten);
}

TurnedMemory::Use TurnedMemory::useOf(const KernelState &kernel, size_t param,
                                      const dtile_arg *arguments, const void *heap) {
  const dtile_param_desc &declared = kernel.desc->params[param];
  if (!isWritten(declared))
    return {};
  const dtile_tensor &tensor = *arguments[kernel.argumentOf[param]].tensor;
  Use use;
  use.owner = &kernel;
  use.isInTurn = (declared.flags & DTILE_PARAM_IN_TURN) != 0;
  use.sizes.assign(tensor.size, tensor.size + tensor.ndim);
  use.begin = static_cast<const char *>(tensor.data) - static_cast<const char *>(heap);
  // Row-major and contiguous.
  int64_t bytes = elementBytes(tensor.dtype);
  for (const int64_t size : use.sizes)
    bytes *= size;
  use.end = use.begin + bytes;
  return use;
}

Status TurnedMemory::refusal(const KernelState &kernel, size_t param, int32_t rank,
                             const Captured &captured) {
  std::string text = format("kernel `%s`, argument `%s`, rank %d: ", kernel.name.c_str(),
                            kernel.desc->params[param].name, rank);
  if (captured.use.owner == &kernel)
    text += "a captured launch writes parts of this memory in turn, by the number of the launch, "
            "and cuts it into other parts, which peers may still use when its graph is replayed: "
            "pass the same object each time, or memory of its own";
  else
    text += format("a captured launch of %s`%s` writes parts of this memory in turn, by the number "
                   "of the launch; its peers may still use what this one writes when its graph is "
                   "replayed: pass memory of its own",
                   captured.kernel == kernel.name ? "another build of " : "kernel ",
                   captured.kernel.c_str());
  return {DTILE_INVALID, std::move(text)};
}

Status TurnedMemory::enter(const KernelState &kernel, const dtile_arg *arguments, const void *heap,
                           int32_t rank, bool isCaptured, Entry *entry) {
  *entry = {};
  std::vector<Use> uses;
  for (size_t i = 0; i < size_t(kernel.desc->nparams); ++i) {
    Use use = useOf(kernel, i, arguments, heap);
    if (use.begin == use.end)
      continue;
    for (const Captured &captured : captured_)
      if (captured.relies && captured.use.overlaps(use) && captured.use != use)
        return refusal(kernel, i, rank, captured);
    uses.push_back(std::move(use));
  }
  bool isSettled = true;
  for (const Use &use : uses)
    isSettled &= admit(use, kernel.name, isCaptured, &entry->meets);
  if (isSettled)
    entry->version = version_;
  return {};
}

bool TurnedMemory::admit(const Use &use, const std::string &kernel, bool isCaptured, bool *meets) {
  const auto isOther = [&](const Use &other) { return other.overlaps(use) && other != use; };
  if (std::erase_if(claims_, isOther) != 0)
    ++version_;
  bool relies = false, isSettled = true;
  if (use.isInTurn) {
    // Replays of what else writes it are not seen.
    const bool isShared =
        std::any_of(captured_.begin(), captured_.end(),
                    [&](const Captured &captured) { return isOther(captured.use); });
    relies = !isShared && std::find(claims_.begin(), claims_.end(), use) != claims_.end();
    *meets |= !relies;
    isSettled = relies || (!isShared && !isCaptured);
    if (isSettled && !relies) {
      claims_.push_back(use);
      ++version_;
    }
  }
  const auto isThis = [&](const Captured &captured) {
    return captured.use == use && captured.relies == relies;
  };
  if (isCaptured && std::none_of(captured_.begin(), captured_.end(), isThis)) {
    captured_.push_back({use, relies, kernel});
    ++version_;
  }
  return isSettled;
}

void TurnedMemory::release(int64_t begin, int64_t end) {
  const auto isIn = [&](const Use &use) { return use.begin < end && begin < use.end; };
  const size_t gone =
      std::erase_if(claims_, isIn) +
      std::erase_if(captured_, [&](const Captured &captured) { return isIn(captured.use); });
  if (gone != 0)
    ++version_;
}

void TurnedMemory::restart() {
  claims_.clear();
  ++version_;
}

void TurnedMemory::forget(const KernelState &kernel) {
  if (std::erase_if(claims_, [&](const Use &use) { return use.owner == &kernel; }) != 0)
    ++version_;
  // Another kernel may be at its address one day.
  for (Captured &captured : captured_)
    if (captured.use.owner == &kernel)
      captured.use.owner = nullptr;
}

} // namespace dtile::runtime
