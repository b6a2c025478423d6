// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Rules that say what was read, as make and ninja want them.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <string>

namespace dtile::driver {

/// `target: a.dtile b.dtile`, without files that are built in. An error names what make or ninja
/// would read as something else, however it is written.
llvm::Expected<std::string> depfileText(llvm::ArrayRef<std::string> read, llvm::StringRef target);

} // namespace dtile::driver
