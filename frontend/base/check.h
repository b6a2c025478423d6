// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Checks for our own mistakes. A user's mistake is a diagnostic, never one of these.
#pragma once

#include "llvm/ADT/StringRef.h"

namespace dtile {

/// Prints the phases that were running, the message and the place, then aborts.
[[noreturn]] void reportBug(const char *file, int line, llvm::StringRef message);

/// Names the phase that runs while it lives, for reportBug. Cheap; nests.
class PhaseScope {
public:
  /// `what` must outlive the scope.
  explicit PhaseScope(llvm::StringRef what);
  ~PhaseScope();
  PhaseScope(const PhaseScope &) = delete;
  PhaseScope &operator=(const PhaseScope &) = delete;

private:
  friend void reportBug(const char *, int, llvm::StringRef);
  llvm::StringRef what_;
  PhaseScope *outer_;
};

} // namespace dtile

#define DTILE_CHECK(condition, message)                                                            \
  ((condition) ? (void)0 : ::dtile::reportBug(__FILE__, __LINE__, message))
#define DTILE_UNREACHABLE(message) ::dtile::reportBug(__FILE__, __LINE__, message)
