// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Private to backend/gpu: what a launch must be so that the threads of a kernel move its tiles in
// whole words of 16 bytes.
//
// Whether the runs of a tile begin at multiples of a word, and lie either inside or outside of the
// tensor, follows from few words of the frame: addresses, strides, and sizes. So a kernel collects
// what these words must be. The host looks at them at each launch, and code for launches that are
// so has no other ways to move tiles (docs/decisions/launch_kinds.md).
#pragma once

#include "backend/launch/frame.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/IR/ValueHandle.h"

namespace dtile::backend::gpu {

class WholeWords {
public:
  /// What a word of the frame must be.
  struct Rule {
    /// Low bits that are 0.
    unsigned zeros = 0;
    bool isOne = false;
  };
  /// By offset in the frame.
  using Rules = llvm::MapVector<int64_t, Rule>;

  /// A value of the kernel's function that must be a multiple of 2^zeros.
  struct Multiple {
    llvm::WeakTrackingVH value;
    unsigned zeros;
  };
  /// An access to a tile, which moves whole words where `inWords` (i1). It is true if all of
  /// `multiples` are, and if `stride` is 1.
  struct Access {
    llvm::WeakTrackingVH inWords;
    llvm::SmallVector<Multiple, 6> multiples;
    llvm::WeakTrackingVH stride;
  };

  /// Finds rules from which follows that an access moves whole words, and adds them. False, and
  /// none are added, where no rules are enough. The function must be complete. `loaded`: words of
  /// the frame by offset; `peer`: the function that returns its second argument's address on
  /// another rank, or null.
  bool require(const llvm::DenseMap<int64_t, llvm::Value *> &loaded, const llvm::Value *peer,
               const Access &access);

  [[nodiscard]] const Rules &rules() const { return rules_; }

private:
  Rules rules_;
};

/// Emits `i64 loading(frame)` of a kernel without tensor maps: a dtile_loading (kernel_abi.h).
[[nodiscard]] llvm::Function *lowerInWholeWords(launch::LaunchModule &module,
                                                const launch::Frame &frame, const WholeWords &words,
                                                llvm::StringRef name);

} // namespace dtile::backend::gpu
