// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Private to backend/gpu and the vendors' folders: the functions of a kernel, one for each kind of
// launch.
//
// A kernel of warp-specialized spaces is prepared for operands that TMA cannot describe, for
// clusters that share loops or loads, and for bodies that programs share. What of this a launch
// has, its prologue and its plan know. Code for the rest would only cost it time: instructions are
// fetched, and what they decide by is read and tested. So the function of such a kernel is emitted
// once, and copied for each kind of launch, with what is known of the kind as constants
// (docs/decisions/launch_kinds.md).
#pragma once

#include "backend/runtime/kernel_abi.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/IR/Function.h"
#include "llvm/IR/ValueHandle.h"

#include <array>
#include <optional>
#include <string>

namespace dtile::backend::gpu {

/// What a value that is the same in all threads of a launch is in each kind of launch; nothing:
/// one of several.
struct InKinds {
  std::optional<int64_t> plain, split, shared, copied;
};

/// Such a value of a kernel's function.
struct LaunchFact {
  llvm::WeakTrackingVH value;
  InKinds in;
};

/// Which launches have functions of their own: those of each kind, only plain ones, or those that
/// move all tiles in whole words. Without tensor maps, programs share nothing. Kernels with signals
/// or several spaces are large and take long to compile, and most of their launches are plain.
enum class OwnFunctions { All, Plain, WholeWords };

/// The functions that a kernel has.
struct KernelFunctions {
  OwnFunctions own = OwnFunctions::All;
  /// None for DTILE_LAUNCH_COPIED: such launches are those of other variants.
  bool wholeWords = false;
};

/// Names of a kernel's functions, by dtile_launch_kind. Kinds that share a function have one name;
/// `entry` is that of the last kind. Empty: there is no function for such launches.
[[nodiscard]] std::array<std::string, DTILE_LAUNCH_KINDS>
entriesOf(llvm::StringRef entry, llvm::ArrayRef<LaunchFact> facts, KernelFunctions functions);

/// Whether a function is one of entriesOf, but for `entry` itself.
[[nodiscard]] bool isEntryOf(llvm::StringRef function, llvm::StringRef entry);

/// Makes the functions of entriesOf from `kernel`, which is complete and not yet optimized;
/// `facts` are of it.
void splitByLaunchKind(llvm::Function &kernel, llvm::ArrayRef<LaunchFact> facts,
                       KernelFunctions functions);

} // namespace dtile::backend::gpu
