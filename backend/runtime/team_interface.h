// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What dtile.h asks of a team, whether processors (team.h) or devices (device/device_team.h) run
// its ranks.
#pragma once

#include "backend/runtime/dtile.h"
#include "backend/runtime/errors.h"
#include "backend/runtime/fork_check.h"

#include <cstdint>
#include <mutex>

namespace dtile::runtime {
class DeviceTeam;
} // namespace dtile::runtime

/// The set of ranks. One call at a time, which `calls` sees to.
struct dtile_team {
  using Status = dtile::runtime::Status;

  dtile_team() = default;
  virtual ~dtile_team() = default;
  dtile_team(const dtile_team &) = delete;
  dtile_team &operator=(const dtile_team &) = delete;

  virtual int32_t ranks() const = 0;
  virtual int32_t firstLocal() const = 0;
  virtual int32_t localCount() const = 0;

  virtual Status symmAlloc(int64_t bytes, void **out) = 0;
  virtual Status symmFree(void *address) = 0;
  /// Memory of others, at `pointers[rank]` of this process for each rank.
  virtual Status symmRegister(void *const *pointers, int64_t bytes) = 0;
  virtual Status symmUnregister(void *address) = 0;
  virtual void *symmAddress(const void *address, int32_t local) const = 0;

  virtual Status launch(const dtile_kernel_desc *desc, const dtile_arg *const *arguments,
                        int32_t nargs, int32_t count) = 0;
  /// What a launch on a local rank with such sizes would be refused for, in `refusal`. An error:
  /// the question itself is wrong.
  virtual Status supports(int32_t local, const dtile_kernel_desc &desc, const dtile_arg *arguments,
                          int32_t nargs, Status *refusal) = 0;
  /// The sizes of argument number `argument`; null tensors are not known.
  virtual Status sizes(int32_t local, const dtile_kernel_desc &desc, const dtile_arg *arguments,
                       int32_t nargs, int32_t argument, int64_t *size) = 0;
  /// Where the last launch on a local rank has left a scratch object.
  virtual Status scratch(int32_t local, const dtile_kernel_desc &desc, const char *name,
                         dtile_tensor *out) = 0;
  virtual Status barrier() = 0;
  virtual Status allGather(const void *const *in, int64_t bytes, void *out) = 0;

  /// After a failure, all processes together.
  virtual Status recover() = 0;
  /// Gives back what kernels have made in the heap; `flags` as dtile_team_trim has them.
  virtual Status trim(uint32_t flags) = 0;

  /// The same team where devices run its ranks, or null.
  virtual dtile::runtime::DeviceTeam *devices() { return nullptr; }

  std::mutex &calls() { return calls_; }
  /// An error where this process is a child of the one that made the team. Asked before `calls` is
  /// locked: whoever held it in the parent will not let go of it here.
  [[nodiscard]] Status checkProcess() const {
    if (!fork_.isChild())
      return {};
    return {DTILE_INVALID, "this process was forked from the one that made the team, which it "
                           "cannot use: make teams in the process that uses them"};
  }

private:
  dtile::runtime::ForkCheck fork_;
  std::mutex calls_;
};

namespace dtile::runtime {

inline constexpr char kNoTeam[] = "the team is null: it was not made, or has been closed";

/// Runs `call` with the team to itself, and keeps its error for dtile_last_error.
template <typename Call> dtile_status withTeam(dtile_team *team, Call call) {
  if (!team)
    return report({DTILE_INVALID, kNoTeam});
  if (Status status = team->checkProcess(); !status.ok())
    return report(status);
  std::lock_guard lock(team->calls());
  return report(call());
}

} // namespace dtile::runtime
