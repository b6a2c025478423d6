// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Files that appear whole or not at all.
#pragma once

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/FileSystem.h"

#include <string>
#include <vector>

namespace dtile::driver {

/// Several files that appear together: all are written to temporaries beside their places, then
/// renamed. Without commit() nothing is left behind. The message of an error says what to do.
class OutputFiles {
public:
  OutputFiles() = default;
  ~OutputFiles();
  OutputFiles(const OutputFiles &) = delete;
  OutputFiles &operator=(const OutputFiles &) = delete;

  /// `-` is standard output, which is written at once.
  llvm::Error add(llvm::StringRef path, llvm::StringRef bytes);
  llvm::Error commit();

private:
  struct Pending {
    llvm::sys::fs::TempFile temporary;
    std::string path;
    std::string target;
  };
  std::vector<Pending> pending_;
};

/// One file.
llvm::Error writeFile(llvm::StringRef path, llvm::StringRef bytes);

} // namespace dtile::driver
