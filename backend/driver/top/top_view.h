// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Running jobs in three forms: for people, for programs, and for Prometheus.
#pragma once

#include "backend/runtime/telemetry/stragglers.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/raw_ostream.h"

namespace dtile::driver {

/// `stragglers`: who is slow, in place of who waits for whom. `earlier`: looks before this one.
void printTop(llvm::ArrayRef<runtime::telemetry::JobView> jobs,
              const runtime::telemetry::Looks &earlier, bool stragglers, llvm::raw_ostream &out);
void printTopJson(llvm::ArrayRef<runtime::telemetry::JobView> jobs,
                  const runtime::telemetry::Looks &earlier, llvm::raw_ostream &out);
/// The text format of Prometheus, version 0.0.4.
void printTopPrometheus(llvm::ArrayRef<runtime::telemetry::JobView> jobs, llvm::raw_ostream &out);

/// What a rank does, in a word.
[[nodiscard]] llvm::StringRef stateName(runtime::telemetry::RankState state);

} // namespace dtile::driver
