// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How long launches of a kernel take on a GPU, before any code is generated.
#pragma once

#include "backend/gpu/recorded_bodies.h"
#include "backend/runtime/device_abi.h"
#include "backend/target.h"

namespace dtile::backend::gpu {

/// What an estimate takes as given.
struct Assumed {
  /// Programs that run at once, where bodies do not say it.
  int64_t running = 0;
  bool mayDivide = true;
};

/// A kernel with the passes of a machine run on it. It and the machine must outlive the estimate.
class GpuLaunchEstimate final : public LaunchEstimate {
public:
  GpuLaunchEstimate(ir::Op &kernel, const TargetFacts &machine);

  std::optional<double> nanoseconds(llvm::ArrayRef<int64_t> sizes, int64_t ranks) override;
  std::optional<LaunchTimeline> timeline(llvm::ArrayRef<int64_t> sizes, int64_t ranks) override;
  bool isPossible() const override { return isPossible_; }
  bool movesParts(llvm::ArrayRef<int64_t> sizes, int64_t ranks) override;
  std::optional<model::ProgramShares> share(const model::KnownSizes &sizes, int64_t ranks) override;

private:
  struct Work;
  struct Launch;
  /// Reads the bodies' times from the kernel, whose sizes and scalars these are.
  void record(llvm::ArrayRef<ir::Value *> sizes);
  /// False where sizes do not say how many bodies there are.
  bool setLaunch(llvm::ArrayRef<int64_t> sizes, int64_t ranks, int64_t rank, Work &work);
  /// Whether all threads load tiles that are staged where TMA can describe all.
  bool isUnstaged();
  /// The spaces for which the copy engine is expected to send, a bit each.
  [[nodiscard]] uint32_t engineOf(const Work &work) const;
  /// Whether TMA can describe all tensors that it is to load.
  [[nodiscard]] bool isByTma() const;
  /// Programs that run at once in clusters of so many.
  [[nodiscard]] int32_t residentInClusters(int32_t parts) const;
  /// As the runtime plans (LaunchPlanner::alone): without clusters of programs that share sums.
  std::optional<Launch> alone(const Work &work);
  /// With clusters of so many programs; nothing where these cannot be.
  std::optional<Launch> launchOf(const Work &work, int32_t parts, Assumed assumed = {});
  /// Lets programs of the first space share loads in pairs where the launch ends earlier so.
  void pair(const Work &work, Launch &launch);
  /// When spaces end, from how the programs are shared.
  void addTimes(Launch &launch) const;
  /// Of the ways to launch that a machine has; the launch of the rank that ends last, where some do
  /// what others do not.
  std::optional<Launch> fastest(llvm::ArrayRef<int64_t> sizes, int64_t ranks);
  std::optional<Launch> fastestOn(int64_t rank, llvm::ArrayRef<int64_t> sizes, int64_t ranks);

  const TargetFacts &machine_;
  llvm::SmallVector<ir::Value *, 8> sizes_;
  /// Nanoseconds of a launch beside its bodies.
  double overhead_;
  llvm::SmallVector<ir::Op *, 4> spaces_;
  std::vector<dtile_device_space> facts_;
  /// Of the first space, the dimension along which bodies may share loads.
  std::optional<unsigned> pairedDimension_;
  /// Programs that one processor holds at once, by shared memory, threads and registers.
  int64_t each_ = 1;
  model::BodyFacts bodyFacts_;
  /// For each space.
  std::vector<RecordedBodies> recorded_;
  std::vector<ir::Value *> recordedFor_;
  bool isPossible_ = true;
  bool usesTma_ = false;
  /// Whether bodies do something only on some ranks.
  bool doRanksDiffer_ = false;
};

} // namespace dtile::backend::gpu
