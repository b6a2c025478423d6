// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The calling thread's last error is the library's one piece of per-thread state; fibers never
// touch it.
#include "backend/runtime/errors.h"

#include <cstdarg>
#include <cstdio>

namespace dtile::runtime {

namespace {
std::string &lastError() {
  thread_local std::string words;
  return words;
}
} // namespace

std::string format(const char *pattern, ...) {
  va_list arguments, again;
  va_start(arguments, pattern);
  va_copy(again, arguments);
  int length = std::vsnprintf(nullptr, 0, pattern, arguments);
  va_end(arguments);
  std::string text(size_t(length > 0 ? length : 0), '\0');
  std::vsnprintf(text.data(), text.size() + 1, pattern, again);
  va_end(again);
  return text;
}

dtile_status report(const Status &status) {
  lastError() = status.message;
  return status.code;
}

std::string shapeText(int32_t ndim, const int64_t *size) {
  std::string text = "[";
  for (int32_t d = 0; d < ndim; ++d) {
    if (d != 0)
      text += ", ";
    text += std::to_string(size[d]);
  }
  return text + "]";
}

std::string launchText(const std::string &kernel, const char *part) {
  return format("the kernel that they launch or in %s (this rank launches `%s`)", part,
                kernel.c_str());
}

} // namespace dtile::runtime

extern "C" const char *dtile_last_error(void) { return dtile::runtime::lastError().c_str(); }
