// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What went wrong, in words and as a code; and the words that dtile_last_error gives.
#pragma once

#include "backend/runtime/dtile.h"

#include <string>

namespace dtile::runtime {

/// DTILE_OK, or an error with its message.
struct Status {
  dtile_status code = DTILE_OK;
  std::string message;

  bool ok() const { return code == DTILE_OK; }
};

/// printf into a string.
[[nodiscard]] std::string format(const char *pattern, ...) __attribute__((format(printf, 1, 2)));

/// Keeps the words for dtile_last_error of this thread and gives the code.
dtile_status report(const Status &status);

/// "[2, 3]".
std::string shapeText(int32_t ndim, const int64_t *size);

/// What ranks differ in where they do not launch the same kernel, or launch it with another `part`.
std::string launchText(const std::string &kernel, const char *part);

} // namespace dtile::runtime
