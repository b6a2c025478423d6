// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What `dtilec test --bench` has measured, as a table and as a picture.
#pragma once

#include "llvm/Support/raw_ostream.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace dtile::driver {

/// One launch of a bench block, measured several times.
struct BenchRow {
  std::string kernel;
  int ranks = 1;
  /// The kernel's size symbols on rank 0, with their values.
  std::vector<std::pair<std::string, int64_t>> sizes;
  /// Of all arguments of a rank.
  int64_t bytes = 0;
  double median = 0, least = 0, most = 0;
};

/// "M=4096 N=512".
[[nodiscard]] std::string sizesText(const BenchRow &row);

/// A line a row.
void printBench(const std::vector<BenchRow> &rows, llvm::raw_ostream &os);

/// Time against size, as SVG: a line for each kernel and number of ranks. The size is the symbol
/// that changes from row to row, or the bytes of the arguments where that is none or several.
[[nodiscard]] std::string plotBench(const std::vector<BenchRow> &rows);

} // namespace dtile::driver
