// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranges of sizes, as `--sizes` gives them.
#pragma once

#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dtile::driver {

/// The largest size of one dimension, or scalar, that `--sizes` gives.
inline constexpr int64_t kLargestSize = int64_t(1) << 40;
/// What the number of ranks is called there.
inline constexpr llvm::StringLiteral kRanks = "W";

/// The values of a size: `least`, `least + step`, and so on to `most`.
struct SizeRange {
  std::string name;
  int64_t least = 1, most = 1, step = 1;

  [[nodiscard]] bool isFixed() const { return least == most; }
  /// The nearest of its values.
  [[nodiscard]] int64_t nearest(int64_t size) const;
  bool operator==(const SizeRange &) const = default;
};

/// Reads `M=1..4096,N=64..8192:64,K=512`. Nothing where it makes no sense: `why` says what does
/// not.
[[nodiscard]] std::optional<std::vector<SizeRange>> readSizeRanges(const std::string &text,
                                                                   std::string &why);

/// The same for `names`, the sizes that there are, in order; those that the text leaves out get
/// `usual`.
[[nodiscard]] std::optional<std::vector<SizeRange>>
readSizeRanges(const std::vector<std::string> &names, const std::string &text,
               const SizeRange &usual, std::string &why);

} // namespace dtile::driver
