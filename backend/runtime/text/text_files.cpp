// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "backend/runtime/text/text_files.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <sys/stat.h>

namespace dtile::runtime {

std::string quoted(const std::string &text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\')
      out += '\\';
    if (static_cast<unsigned char>(c) < 0x20)
      out += format("\\u%04x", unsigned(c));
    else
      out += c;
  }
  return out + "\"";
}

Status writeTextFile(const std::string &path, const std::string &text, const char *what) {
  std::FILE *file = std::fopen(path.c_str(), "wb");
  const bool isOpen = file != nullptr;
  bool isWritten = isOpen && std::fwrite(text.data(), 1, text.size(), file) == text.size();
  int error = errno;
  if (isOpen && std::fclose(file) != 0 && isWritten) {
    isWritten = false;
    error = errno;
  }
  if (isWritten)
    return {};
  // What is no file of ours stays.
  struct stat is;
  if (isOpen && lstat(path.c_str(), &is) == 0 && S_ISREG(is.st_mode))
    std::remove(path.c_str());
  return {DTILE_INVALID,
          format("cannot write the %s `%s`: %s", what, path.c_str(), std::strerror(error))};
}

} // namespace dtile::runtime
