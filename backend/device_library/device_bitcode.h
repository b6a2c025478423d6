// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The device library as dtilec carries it: LLVM bitcode, one module a vendor and source.
#pragma once

#include <cstddef>

namespace dtile {

/// One module.
struct DeviceBitcode {
  /// `nvptx.device`, `amdgpu.p2p`; null where there is none.
  const char *name = nullptr;
  const unsigned char *data = nullptr;
  std::size_t bytes = 0;
};

/// The module of that name.
[[nodiscard]] DeviceBitcode findDeviceBitcode(const char *name);

} // namespace dtile
