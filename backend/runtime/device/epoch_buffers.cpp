// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "backend/runtime/device/epoch_buffers.h"

#include "backend/runtime/arguments/regions.h"

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
    for (const Captured &captured : state_.captured)
      if (captured.relies && captured.use.overlaps(use) && captured.use != use)
        return refusal(kernel, i, rank, captured);
    uses.push_back(std::move(use));
  }
  before_ = state_;
  bool isSettled = true;
  for (const Use &use : uses)
    isSettled &= admit(use, kernel.name, isCaptured, &entry->meets);
  if (isSettled)
    entry->version = state_.version;
  return {};
}

void TurnedMemory::leave() { state_ = before_; }

bool TurnedMemory::admit(const Use &use, const std::string &kernel, bool isCaptured, bool *meets) {
  const auto isOther = [&](const Use &other) { return other.overlaps(use) && other != use; };
  if (std::erase_if(state_.claims, isOther) != 0)
    ++state_.version;
  bool relies = false, isSettled = true;
  if (use.isInTurn) {
    // Replays of what else writes it are not seen.
    const bool isShared =
        std::any_of(state_.captured.begin(), state_.captured.end(),
                    [&](const Captured &captured) { return isOther(captured.use); });
    relies = !isShared &&
             std::find(state_.claims.begin(), state_.claims.end(), use) != state_.claims.end();
    *meets |= !relies;
    isSettled = relies || (!isShared && !isCaptured);
    if (isSettled && !relies) {
      state_.claims.push_back(use);
      ++state_.version;
    }
  }
  const auto isThis = [&](const Captured &captured) {
    return captured.use == use && captured.relies == relies;
  };
  if (isCaptured && std::none_of(state_.captured.begin(), state_.captured.end(), isThis)) {
    state_.captured.push_back({use, relies, kernel});
    ++state_.version;
  }
  return isSettled;
}

void TurnedMemory::release(int64_t begin, int64_t end) {
  const auto isIn = [&](const Use &use) { return use.begin < end && begin < use.end; };
  const size_t gone =
      std::erase_if(state_.claims, isIn) +
      std::erase_if(state_.captured, [&](const Captured &captured) { return isIn(captured.use); });
  if (gone != 0)
    ++state_.version;
}

void TurnedMemory::restart() {
  state_.claims.clear();
  ++state_.version;
}

void TurnedMemory::forgetGraphs() {
  state_.captured.clear();
  ++state_.version;
}

void TurnedMemory::forget(const KernelState &kernel) {
  if (std::erase_if(state_.claims, [&](const Use &use) { return use.owner == &kernel; }) != 0)
    ++state_.version;
  // Another kernel may be at its address one day.
  for (Captured &captured : state_.captured)
    if (captured.use.owner == &kernel)
      captured.use.owner = nullptr;
}

} // namespace dtile::runtime
