// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reports a bug of ours: message, place, and the phases that were running.
#include "frontend/base/check.h"

#include "frontend/base/process.h"

#include "llvm/Support/raw_ostream.h"

#include <cstdlib>

namespace dtile {

namespace {
// Which phases run on this thread, innermost first. Only PhaseScope and reportBug touch it.
thread_local PhaseScope *innermostPhase = nullptr;
thread_local llvm::StringRef innermostWhat;
} // namespace

PhaseScope::PhaseScope(llvm::StringRef what) : what_(what), outer_(innermostPhase) {
  innermostPhase = this;
  innermostWhat = what_;
}

PhaseScope::~PhaseScope() {
  innermostPhase = outer_;
  innermostWhat = outer_ ? outer_->what_ : "";
}

llvm::StringRef currentPhase() { return innermostWhat; }

void reportBug(const char *file, int line, llvm::StringRef message) {
  llvm::raw_ostream &os = llvm::errs();
  os << file << ':' << line << ": internal error: " << message << '\n';
  for (const PhaseScope *phase = innermostPhase; phase != nullptr; phase = phase->outer_)
    os << "  while " << phase->what_ << '\n';
  os << "this is a bug in dtile, not in your program; please report it with the input\n";
  os.flush();
  std::abort();
}

} // namespace dtile
