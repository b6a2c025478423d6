// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A text file that became part of the program when it was built.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

namespace dtile::driver {

struct EmbeddedFile {
  llvm::StringLiteral name;
  llvm::StringLiteral text;
};

} // namespace dtile::driver
