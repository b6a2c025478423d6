// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Images as `dtilec build` writes them, compressed.
#pragma once

#include "backend/runtime/kernel_abi.h"

namespace dtile::runtime {

/// Bytes that are at the image's `data`.
[[nodiscard]] inline int64_t storedBytes(const dtile_device_image &image) {
  return image.packed_bytes > 0 ? image.packed_bytes : image.bytes;
}

/// Expands a compressed image into memory for its `bytes`. False where it is damaged, and never
/// reads or writes beyond either end.
[[nodiscard]] bool unpackImage(const dtile_device_image &image, char *out);

} // namespace dtile::runtime
