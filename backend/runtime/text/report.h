// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Words for bodies, places and cells.
#pragma once

#include "backend/runtime/host/launch.h"

#include <string>

namespace dtile::runtime {

/// "rank 1, kernel `k`, role `r` (m = 3, n = 0)".
std::string bodyText(const dtile_task &task);
/// "file:line:column".
std::string siteText(const dtile_site &site);
/// A message with the numbers that `{0}`, `{1}` … stand for.
std::string fillHoles(const char *message, int32_t nargs, const int64_t *args);
/// "ready[1, 2]".
std::string cellText(const LaunchObject &use, const char *name, const void *cell);

} // namespace dtile::runtime
