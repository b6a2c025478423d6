// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Lowers and optimizes kernel instances when they are first asked for.
#include "backend/driver/execute/kernel_library.h"

namespace dtile::driver {

std::optional<KernelCode> KernelLibrary::get(const sema::KernelInstance *instance) {
  Entry &entry = entries_[instance];
  if (!entry.lowered.module) {
    LoweredModule lowered = lowerKernels(session_, program_, {instance});
    if (!optimize(session_, lowered, session_.options.optLevel))
      return std::nullopt;
    entry.lowered = std::move(lowered);
  }
  return KernelCode{instance, entry.lowered.module.get(), &entry.hostCode, &entry.deviceCode};
}

} // namespace dtile::driver
