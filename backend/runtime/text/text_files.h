// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Text that the library writes for other programs.
#pragma once

#include "backend/runtime/errors.h"

#include <string>

namespace dtile::runtime {

/// In quotes, as JSON and DOT have text.
[[nodiscard]] std::string quoted(const std::string &text);

/// A whole file or none: half a file would be taken for one. `what` names it in the error.
Status writeTextFile(const std::string &path, const std::string &text, const char *what);

} // namespace dtile::runtime
