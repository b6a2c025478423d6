// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Other programs that are run and waited for. They never outlive this process, however it ends.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <string>

namespace dtile {

/// How a program ended.
struct ChildResult {
  /// Its exit code, or -1.
  int code = -1;
  /// The signal that ended it, or 0.
  int signal = 0;
  /// It was ended as its time was over.
  bool isTimedOut = false;
  /// What it wrote to standard output and standard error.
  std::string output;
};

/// How many times the limit of its own time a program may take where others have the processors.
inline constexpr unsigned kMostWaiting = 10;

/// Runs a program, by its path, with nothing on standard input. After `seconds` of processor time,
/// or kMostWaiting times as long in all, it and what it has started are killed. An error says that
/// it could not be started.
llvm::Expected<ChildResult> runChild(const std::string &program,
                                     llvm::ArrayRef<std::string> arguments, unsigned seconds);

} // namespace dtile
