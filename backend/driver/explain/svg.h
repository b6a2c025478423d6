// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What pictures in SVG have in common.
#pragma once

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <string>

namespace dtile::driver {

/// `text` as it stands between tags and in attributes.
[[nodiscard]] inline std::string svgText(llvm::StringRef text) {
  std::string escaped;
  llvm::raw_string_ostream os(escaped);
  llvm::printHTMLEscaped(text, os);
  return escaped;
}

} // namespace dtile::driver
