// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How long launches of a kernel take on a GPU, before any code is generated.
#pragma once

#include "backend/runtime/kernel_abi.h"
#include "backend/target.h"
#include "ir/machine/target_facts.h"
#include "ir/model/body_facts.h"

namespace dtile::backend::gpu {

/// A kernel with the passes of a machine run on it. It and the machine must outlive the estimate.
class GpuLaunchEstimate final : public LaunchEstimate {
public:
  GpuLaunchEstimate(ir::Op &kernel, const TargetFacts &machine);

  std::optional<double> nanoseconds(llvm::ArrayRef<int64_t> sizes, int64_t ranks) override;
  std::optional<LaunchTimeline> timeline(llvm::ArrayRef<int64_t> sizes, int64_t ranks) override;
  bool isPossible() const override { return isPossible_; }
  std::optional<model::ProgramShares> share(const model::KnownSizes &sizes, int64_t ranks) override;

private:
  struct Work;
  /// False where sizes do not say how many bodies there are.
  bool countBodies(Work &work);
  /// Whether all threads load tiles that are staged where TMA can describe all.
  bool isUnstaged(Work &work);
  /// The spaces for which the copy engine is expected to send, a bit each.
  [[nodiscard]] uint32_t engineOf(const Work &work) const;
  /// Whether TMA can describe all tensors that it is to load.
  bool isByTma(Work &work);
  /// Programs that run at once in clusters of so many.
  [[nodiscard]] int32_t residentInClusters(int32_t parts) const;
  /// What a launch is estimated by, a number a space.
  struct Estimated {
    const dtile_device_space *facts;
    int64_t *bodies, *weights, *latencies;
    int32_t *first;
  };
  /// Lets programs of the first space share loads in pairs where the launch ends earlier so. Gives
  /// the number of programs.
  int32_t pair(Work &work, int32_t programs, Estimated of);
  /// With clusters of so many programs; nothing where these cannot be.
  std::optional<LaunchTimeline> timeline(Work &work, int32_t parts);

  ir::Op &kernel_;
  const TargetFacts &machine_;
  llvm::SmallVector<ir::Value *, 8> sizes_;
  llvm::SmallVector<ir::Op *, 4> spaces_;
  /// Programs that one processor holds at once, by shared memory, threads and registers.
  int64_t each_ = 1;
  model::BodyFacts facts_;
  bool isPossible_ = true;
};

} // namespace dtile::backend::gpu
