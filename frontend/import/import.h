// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Collective algorithms of other systems, as programs: behind `dtilec import`.
#pragma once

#include "frontend/base/diagnostics.h"

#include <optional>
#include <string>

namespace dtile::imported {

/// The program that a loaded file says: XML of MSCCL, or a JSON plan of MSCCL++, told apart by
/// their first character. Nothing after reporting what is malformed, or not understood.
[[nodiscard]] std::optional<std::string> importProgram(FileId file, const SourceManager &sources,
                                                       Diagnostics &diagnostics);

} // namespace dtile::imported
