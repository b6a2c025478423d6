// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The launch that `--sizes` describes, and the times of configurations for it.
#pragma once

#include "backend/driver/choose/choose.h"

#include <optional>
#include <string>
#include <vector>

namespace dtile::driver {

struct GivenLaunch {
  /// Sizes, and scalars that are no floating-point numbers, by name.
  llvm::StringMap<int64_t> numbers;
  /// `W`, where it is given.
  std::optional<int64_t> ranks;
};

/// Of `kernel`, whose model asks for `sizes`; nothing after reporting a value that is none, or a
/// name that the kernel does not have. Sizes that nobody asks for may be given, too.
[[nodiscard]] std::optional<GivenLaunch> givenLaunch(Session &session,
                                                     const sema::KernelInstance &kernel,
                                                     llvm::ArrayRef<std::string> sizes = {});

/// Its sizes in the order of `names`; nothing after reporting one that is not given.
[[nodiscard]] std::optional<std::vector<int64_t>>
sizesIn(Session &session, const GivenLaunch &given, llvm::ArrayRef<std::string> names);

/// A configuration with its estimated time.
struct Timed {
  const Variant *variant = nullptr;
  /// Its number among the variants; nothing where it is none, or cannot run the launch.
  std::optional<size_t> number;
  double nanoseconds = 0;
};

/// The configurations of which the model knows the time, the fastest first.
[[nodiscard]] std::vector<Timed> timeAll(Session &session, sema::Program &program,
                                         const Choosing &choosing, const TargetArch &target,
                                         llvm::ArrayRef<int64_t> sizes, int64_t ranks,
                                         const Scalars &scalars);
/// The same of the variants that are kept.
[[nodiscard]] std::vector<Timed> timeKept(Session &session, sema::Program &program,
                                          const Choosing &choosing, const TargetArch &target,
                                          llvm::ArrayRef<int64_t> sizes, int64_t ranks,
                                          const Scalars &scalars);

} // namespace dtile::driver
