// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Joins what the processes of one job have traced to one timeline.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <string>
#include <vector>

namespace dtile::driver {

/// The text of a file of `--trace`, and its name for errors.
struct TracePart {
  std::string path;
  llvm::StringRef text;
};

struct MergedTrace {
  /// As one process would have written it.
  std::string text;
  /// What is missing, a line each.
  std::vector<std::string> notes;
};

/// Clocks of one host are one. Those of others are set so that no wait ends before the notify that
/// let it go on begins, in the middle of what that leaves. Fails where the files are no parts of
/// one job.
llvm::Expected<MergedTrace> mergeTraces(llvm::ArrayRef<TracePart> parts);

} // namespace dtile::driver
