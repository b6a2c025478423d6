// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What was chosen for kernels that leave constants to the compiler, and why.
#pragma once

#include "backend/driver/tune/tuned_choices.h"

namespace dtile::driver {

/// Prints for each kernel with choices the variants for a target; with `--sizes` also the
/// configurations that are estimated to be the fastest for these, and which variant runs. Of one
/// kernel without choices, what its only configuration is estimated to take for `--sizes`. False
/// after reporting. What was measured for such sizes goes before the model; `tuning` may be null.
bool explainChoices(Session &session, sema::Program &program,
                    llvm::ArrayRef<const ast::KernelDecl *> kernels, const TargetArch &target,
                    const TuningFile *tuning, llvm::raw_ostream &os);

/// The same for `--sizes` and `--json`: a list of {"constants": {…}, "ns": time, "variant": number
/// or null}, the fastest first.
bool explainChoicesAsJson(Session &session, sema::Program &program, const ast::KernelDecl &kernel,
                          const TargetArch &target, llvm::raw_ostream &os);

/// When a launch would end if the processors, or the way to other devices, were always busy and
/// nothing else took time.
struct Bound {
  double nanoseconds = 0;
  /// "link" or "processors".
  std::string by;
};
[[nodiscard]] Bound boundOf(const backend::LaunchTimeline &launch);

/// The fastest configuration of a kernel for `--sizes`, as a launch in its parts.
struct PredictedLaunch {
  /// "ag_gemm BM=128, W=8 M=4096 …".
  std::string title;
  backend::LaunchTimeline timeline;
};
/// Nothing after reporting.
[[nodiscard]] std::optional<PredictedLaunch> predictLaunch(Session &session, sema::Program &program,
                                                           const ast::KernelDecl &kernel,
                                                           const TargetArch &target);

} // namespace dtile::driver
