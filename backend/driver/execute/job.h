// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The job of several processes that dtilec may have been started in (`oshrun -n 4 dtilec test …`).
#pragma once

#include "backend/driver/session.h"

#include "llvm/Support/Error.h"

#include <memory>
#include <vector>

struct dtile_team;

namespace dtile::driver {

struct HostCode;

/// Every process of the job runs the same command on all ranks' arrays; each launches its own rank,
/// and only that of rank 0 prints. Joined once a process.
class Job {
public:
  /// Null where no launcher started this process.
  static llvm::Expected<std::unique_ptr<Job>> join(const Options &options);
  ~Job();
  Job(const Job &) = delete;
  Job &operator=(const Job &) = delete;

  [[nodiscard]] dtile_team *team() const { return team_; }
  [[nodiscard]] int ranks() const;
  [[nodiscard]] int rank() const;
  /// Whether any process has failed. Collective; a process that cannot ask the others answers for
  /// itself.
  [[nodiscard]] bool anyFailed(bool failed);
  /// Waits for the others: launchers stop the whole job when a process ends with an error, and the
  /// first process may still be printing.
  void leave();
  /// Code that the team has run must live as long as it.
  void keep(std::shared_ptr<HostCode> code) { code_.push_back(std::move(code)); }

private:
  explicit Job(dtile_team *team) : team_(team) {}
  dtile_team *team_;
  std::vector<std::shared_ptr<HostCode>> code_;
};

/// The job of this process, where its ranks are processes: on the host, not in the interpreter.
/// `job` stays null where there is none; false after reporting.
[[nodiscard]] bool joinJob(Session &session, std::unique_ptr<Job> &job);

} // namespace dtile::driver
