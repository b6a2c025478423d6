// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Times of a space's bodies on a GPU, for any launch: the model walks the IR once, and records the
// arithmetic that gives them. The compiler compares configurations by hundreds of launches each.
#pragma once

#include "ir/machine/target_facts.h"
#include "ir/model/arithmetic.h"
#include "ir/model/body_facts.h"

#include <optional>

namespace dtile::backend::gpu {

/// Means over bodies of a space.
struct BodyMeans {
  /// Nanoseconds.
  int64_t weight = 1;
  int64_t latency = 0;
  /// Of the weight, what programs of a cluster share.
  int64_t shared = 0;
  /// Between this device and others.
  double remoteBytes = 0;
};

/// One space of a kernel, whose sizes are `sizes`. The kernel stays as it is meanwhile.
class RecordedBodies {
public:
  RecordedBodies(ir::Op &space, llvm::ArrayRef<ir::Value *> sizes, const TargetFacts &machine,
                 model::BodyFacts &facts);

  /// Of the launch that is asked for from now on.
  void setLaunch(llvm::ArrayRef<int64_t> sizes, int64_t ranks, int64_t rank);

  /// In each dimension of the space; nothing where sizes do not say it.
  [[nodiscard]] std::optional<llvm::SmallVector<int64_t, 4>> counts() const;
  /// Whether TMA cannot describe a tensor that it is to load.
  [[nodiscard]] bool isUnaligned() const;
  /// Whether threads load or store tiles whose rows begin anywhere.
  [[nodiscard]] bool movesParts() const;
  /// With `together` programs on a processor and `running` on all. `isPaired`: two programs share
  /// loads. Of a space with `counts` of at least one in each dimension, or no means.
  [[nodiscard]] BodyMeans means(llvm::ArrayRef<int64_t> counts, double together, double running,
                                bool isPaired = false);

private:
  /// What depends on the positions of a body, and on how many programs run.
  static constexpr int32_t kPositionLevel = model::kFirstDimension;
  static constexpr int32_t kLoadLevel = kPositionLevel + 1;

  struct Dimension {
    std::optional<model::Slot> first, end, step;
    model::Slot position = model::kNoSlot;
  };

  [[nodiscard]] double real(model::Slot slot) const { return words_[size_t(slot)].real; }
  [[nodiscard]] int64_t integer(model::Slot slot) const { return words_[size_t(slot)].integer; }

  model::Arithmetic arithmetic_;
  std::vector<model::Slot> sizes_;
  llvm::SmallVector<Dimension, 4> dimensions_;
  model::Slot together_ = model::kNoSlot, running_ = model::kNoSlot;
  model::Slot time_, pairedTime_, latency_, shared_, remoteBytes_, unaligned_, movesParts_;
  std::vector<model::Word> words_;
};

} // namespace dtile::backend::gpu
