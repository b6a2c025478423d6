// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads argv.
#pragma once

#include "backend/driver/options.h"

#include "llvm/Support/raw_ostream.h"

#include <optional>

namespace dtile::driver {

/// Reads the command line into `options`. Gives an exit code when there is nothing more to do: help
/// and version were printed to `out`, or a mistake was explained on `err`.
std::optional<ExitCode> readCommandLine(int argc, const char *const *argv, Options &options,
                                        llvm::raw_ostream &out, llvm::raw_ostream &err);

/// Whether messages to standard error are coloured.
[[nodiscard]] ColorMode colorMode(ColorChoice choice);

} // namespace dtile::driver
