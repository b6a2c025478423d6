// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// JSON of traces, from anywhere.
#pragma once

#include "llvm/Support/JSON.h"

namespace dtile::driver {

/// The value of a document. LLVM's parser calls itself for each value within another, so that
/// documents of deep ones are refused before.
[[nodiscard]] llvm::Expected<llvm::json::Value> parseTrace(llvm::StringRef text);

} // namespace dtile::driver
