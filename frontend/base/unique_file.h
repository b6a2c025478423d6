// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A new file beside a place where it may later appear. Used instead of LLVM's TempFile and
// createUniqueFile, for which a `%` in the name of a folder or file is a hole to fill.
#pragma once

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <string>

namespace dtile {

/// A file that nobody else has, open for writing. It is gone when this is, and when a signal that
/// can be caught ends the process, unless it was kept. Where the file system can, it has no name
/// until it is kept, so that nothing at all is left behind.
class UniqueFile {
public:
  /// In a folder ("" is the current one). Errors are the system's words.
  static llvm::Expected<UniqueFile> create(llvm::StringRef folder, unsigned mode);
  UniqueFile(UniqueFile &&other) noexcept;
  UniqueFile &operator=(UniqueFile &&other) = delete;
  ~UniqueFile();

  /// Writes at the end of what was written.
  llvm::Error write(llvm::StringRef bytes);
  /// Gives it that name, in its own folder, in place of what is there.
  llvm::Error keep(const std::string &path);

private:
  UniqueFile(std::string folder, int descriptor) : folder_(std::move(folder)), fd_(descriptor) {}
  /// Makes a name that is free: `use` tries one, and gives false with errno.
  template <typename Use> llvm::Error findName(Use use);
  void removeName();

  std::string folder_;
  /// Empty where it has none.
  std::string name_;
  int fd_;
};

} // namespace dtile
