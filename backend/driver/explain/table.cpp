// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Aligns columns.
#include "backend/driver/explain/table.h"

#include "llvm/ADT/StringRef.h"

#include <algorithm>

namespace dtile::driver {

void printTable(const std::vector<Row> &rows, llvm::raw_ostream &os) {
  std::vector<size_t> widths;
  for (const Row &row : rows)
    for (size_t i = 0; i < row.size(); ++i) {
      widths.resize(std::max(widths.size(), i + 1));
      widths[i] = std::max(widths[i], row[i].size());
    }
  for (const Row &row : rows) {
    std::string line = " ";
    for (size_t i = 0; i < row.size(); ++i)
      line += " " + row[i] + std::string(widths[i] - row[i].size() + 1, ' ');
    os << llvm::StringRef(line).rtrim() << '\n';
  }
}

} // namespace dtile::driver
