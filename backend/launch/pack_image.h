// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Images in object files are compressed. The runtime's device/packed_image.h expands them.
#pragma once

#include "llvm/ADT/StringRef.h"

#include <string>

namespace dtile::backend::launch {

/// Bytes as a block of LZ4 (its "block format", which has no header and no checksum).
[[nodiscard]] std::string packImage(llvm::StringRef bytes);

} // namespace dtile::backend::launch
