// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What `--trace` of run and test collects, team after team, and where it goes.
#pragma once

#include "backend/driver/session.h"

#include "llvm/Support/Error.h"

#include <cstdint>
#include <string>

struct dtile_team;

namespace dtile::driver {

/// The trace of one command. All teams in it share a clock.
class TraceLog {
public:
  explicit TraceLog(const Options &options);

  [[nodiscard]] bool isOn() const { return !options_.trace.empty(); }
  /// Teams from now on belong to this test; "" where there is one only.
  void name(std::string what) { name_ = std::move(what); }
  /// A team has been made, or is about to be ended, with its kernels still there.
  llvm::Error begin(dtile_team *team);
  llvm::Error end(dtile_team *team);
  /// Writes the file, or the summary for `-`. Reports what goes wrong; what was run stays as it is.
  void finish(Session &session);

private:
  const Options &options_;
  std::string name_;
  std::string events_;
  int64_t originNs_;
  int64_t room_;
  int64_t kept_ = 0;
  int64_t dropped_ = 0;
  int nextProcess_ = 1;
};

/// A job of several processes cannot be traced.
void reportTracedJob(Session &session);

} // namespace dtile::driver
