// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which notify satisfied which wait.
#pragma once

#include "backend/runtime/trace/trace_record.h"

#include <vector>

namespace dtile::runtime {

/// For each record, the record of the notify that let a wait go on, or null: it is no wait, or that
/// notify was not recorded. Of a wait for several cells, the notify that came last. `records` as
/// Trace::records gives them.
[[nodiscard]] std::vector<const TraceRecord *>
findWriters(const std::vector<const TraceRecord *> &records);

/// For each record of a notify or wait, the index of the record of which it is a further cell; else
/// its own index.
[[nodiscard]] std::vector<size_t> findOwners(const std::vector<const TraceRecord *> &records);

} // namespace dtile::runtime
