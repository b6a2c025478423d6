// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What `print` shows: the same text from processors and from devices.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace dtile::runtime {

/// "true", "-3", "0.25".
std::string elementText(int32_t dtype, const char *element);

/// A body, as messages name it.
struct BodyPlace {
  int32_t rank = 0;
  std::string kernel;
  /// Empty for a kernel without roles.
  std::string role;
  /// One a dimension of the space; names of dimensions whose name is not known are left out.
  std::vector<std::string> vars;
  std::vector<int64_t> position;

  /// "rank 1, kernel `k`, role `r` (m = 3, n = 0)".
  [[nodiscard]] std::string text() const;
};

} // namespace dtile::runtime
