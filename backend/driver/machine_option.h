// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What `--machine` names: a row of the table of machines, or a file of measured numbers.
#pragma once

#include "backend/driver/options.h"

#include "llvm/ADT/StringRef.h"

namespace dtile::driver {

/// Whether a name of `--machine` is that of a file.
[[nodiscard]] inline bool isMachineFile(llvm::StringRef name) { return name.ends_with(".json"); }

/// Sets Options::machine. False after printing why there is none.
[[nodiscard]] bool findMachineOfOptions(Options &options);

} // namespace dtile::driver
