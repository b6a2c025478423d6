// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "backend/runtime/options.h"

#include <algorithm>
#include <cstring>

namespace dtile::runtime {

namespace {
// More than any version will have: what is larger was never set.
constexpr uint32_t kMostBytes = 64 * 1024;
} // namespace

Status copyOptions(const void *given, uint32_t least, uint32_t known, const char *initializer,
                   void *out) {
  uint32_t bytes = 0;
  std::memcpy(&bytes, given, sizeof bytes);
  // `= {}` in C++ and `= {0}` in C: the fields of the first version that had a size.
  if (bytes == 0)
    bytes = least;
  // Later versions have added whole words.
  const bool isCut = bytes < known && bytes % sizeof(void *) != 0;
  if (bytes < least || isCut || bytes > kMostBytes)
    return {DTILE_INVALID,
            format("struct_bytes of the options is %u: let them begin as %s", bytes, initializer)};
  const auto *from = static_cast<const unsigned char *>(given);
  if (std::any_of(from + std::min(bytes, known), from + bytes,
                  [](unsigned char byte) { return byte != 0; }))
    return {DTILE_INVALID, format("the options have %u bytes, and this library knows the first %u "
                                  "of them: options that are not zero are of a newer version",
                                  bytes, known)};
  std::memset(out, 0, known);
  std::memcpy(out, given, std::min(bytes, known));
  std::memcpy(out, &known, sizeof known);
  return {};
}

} // namespace dtile::runtime
