// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Parses JSON that is not nested too deeply.
#include "backend/driver/trace/trace_json.h"

namespace dtile::driver {

llvm::Expected<llvm::json::Value> parseTrace(llvm::StringRef text) {
  constexpr int kMostDepth = 64;
  int depth = 0;
  bool isString = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\\' && isString)
      ++i;
    else if (c == '"')
      isString = !isString;
    else if (!isString && (c == '[' || c == '{') && ++depth > kMostDepth)
      return llvm::createStringError("values are nested too deeply");
    else if (!isString && (c == ']' || c == '}'))
      --depth;
  }
  return llvm::json::parse(text);
}

} // namespace dtile::driver
