// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a program sets up before it does anything else, and what it looks at before it ends:
// standard streams that are closed or full, memory that runs out, exceptions of libraries.
#pragma once

#include "frontend/base/diagnostics.h"

namespace dtile {

/// Opens the standard streams that are closed, so that no file takes their numbers; what is written
/// to them is lost, and closeStreams() says so. Lets write errors of pipes, and of files that reach
/// a limit of size, be errors. From here on memory that runs out, and an exception that nobody
/// catches, are a message and exit code 1.
void setUpProcess();

/// How running out of memory is told; text until then.
void setLastWords(DiagnosticForm form);

/// What the innermost PhaseScope of this thread does (check.h); empty where there is none.
/// Allocates nothing.
[[nodiscard]] llvm::StringRef currentPhase();

/// Flushes standard output and standard error. False where something that was printed did not
/// arrive; that is told where there is somebody left to be told.
[[nodiscard]] bool closeStreams();

} // namespace dtile
