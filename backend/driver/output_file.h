// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Files that appear whole or not at all.
#pragma once

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

namespace dtile::driver {

/// Writes `bytes` to a temporary beside `path`, then renames it. `-` is standard output. The message
/// of an error says what to do.
llvm::Error writeFile(llvm::StringRef path, llvm::StringRef bytes);

} // namespace dtile::driver
