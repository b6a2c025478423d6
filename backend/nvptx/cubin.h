// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What ptxas writes, made smaller.
#pragma once

#include "llvm/ADT/StringRef.h"

#include <string>

namespace dtile::backend::nvptx {

/// A cubin without the text of its PTX, and without the table that leads from machine code to that
/// text's lines: with lines of the program in the PTX, ptxas writes both, and they are more than
/// half of the file. The table of the program's own lines stays, and so do the numbers of sections
/// and symbols, which other tables speak of. What is no such file is returned as it is.
[[nodiscard]] std::string withoutPtxText(llvm::StringRef cubin);

} // namespace dtile::backend::nvptx
