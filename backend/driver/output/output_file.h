// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Files that appear whole or not at all.
#pragma once

#include "frontend/base/unique_file.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <string>
#include <vector>

namespace dtile::driver {

/// Several files that appear together: all are written to temporaries beside their places, then
/// renamed. Without commit() nothing is left behind. The message of an error says what to do.
class OutputFiles {
public:
  /// `-` is standard output, which is written at once, and by one output.
  llvm::Error add(llvm::StringRef path, llvm::StringRef bytes);
  llvm::Error commit();

private:
  struct Pending {
    UniqueFile temporary;
    /// As it was given.
    std::string path;
    /// The file itself, without links on the way.
    std::string target;
  };
  std::vector<Pending> pending_;
  bool usesStandardOutput_ = false;
};

/// The file that a path names, or would make: the real path of its folder, and links to the end.
/// The same for two spellings of one file.
[[nodiscard]] std::string realPath(llvm::StringRef path);

/// One file.
llvm::Error writeFile(llvm::StringRef path, llvm::StringRef bytes);

} // namespace dtile::driver
