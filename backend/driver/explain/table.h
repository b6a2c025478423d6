// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tables for people to read.
#pragma once

#include "llvm/Support/raw_ostream.h"

#include <string>
#include <vector>

namespace dtile::driver {

using Row = std::vector<std::string>;

/// Columns as wide as their widest cell, two blanks between.
void printTable(const std::vector<Row> &rows, llvm::raw_ostream &os);

} // namespace dtile::driver
