// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A trace as one page of HTML that needs nothing else.
#pragma once

#include "backend/driver/embedded_file.h"
#include "backend/driver/trace/trace_model.h"

#include <string>

namespace dtile::driver {

/// page.html, embedded when dtilec is built (trace_pages.cpp is generated).
[[nodiscard]] llvm::ArrayRef<EmbeddedFile> tracePages();

/// The page: a timeline of all ranks, and the summary.
[[nodiscard]] std::string tracePage(const TraceModel &trace);

} // namespace dtile::driver
