// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Files that other programs and libraries read and write by name, and that nobody sees: they are in
// memory, so that neither $TMPDIR nor the way in which this process ends matters.
#pragma once

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <string>

namespace dtile {

/// A file in memory. Its name, in /proc, holds for this process and for what it starts. Where the
/// system has none, an ordinary file in $TMPDIR, which is gone when this is.
class ScratchFile {
public:
  static llvm::Expected<ScratchFile> create(llvm::StringRef bytes = "");
  ScratchFile(ScratchFile &&other) noexcept;
  ScratchFile &operator=(ScratchFile &&other) = delete;
  ~ScratchFile();

  [[nodiscard]] const std::string &path() const { return path_; }
  /// What is in it now.
  [[nodiscard]] llvm::Expected<std::string> contents() const;

private:
  ScratchFile() = default;
  std::string path_;
  bool hasName_ = false;
  int fd_ = -1;
};

} // namespace dtile
