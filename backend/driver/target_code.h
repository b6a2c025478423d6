// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which targets and architectures the command line names, and modules prepared for them.
#pragma once

#include "backend/driver/optimize.h"
#include "backend/target.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace dtile::driver {

/// A target, and for which of its architectures; none for those that have none.
struct TargetArch {
  const backend::Target *target = nullptr;
  std::string arch;
  /// Kernels run only where each rank addresses the memory of all others (p2p).
  bool areMapped = true;
  /// The programs of a cluster may share a sum; where there are many tiles they do not, so that its
  /// order depends on the number of rows.
  bool splitsSums = true;
  /// What `--machine` gives in place of the architecture's times; null where it gives nothing.
  const TargetFacts *machine = nullptr;

  /// The machine that passes, model and code generation see, or null.
  [[nodiscard]] const TargetFacts *facts() const { return machine ? machine : target->facts(arch); }
};

/// The machine of `--machine` where it is of a kind with an architecture; null where it is not, or
/// none is given.
[[nodiscard]] const TargetFacts *machineFor(const Options &options, const backend::Target &target,
                                            llvm::StringRef arch);

/// Whether what `--machine` gives is used by one of the targets; false after reporting.
[[nodiscard]] bool checkMachine(Session &session, llvm::ArrayRef<TargetArch> targets);

/// What `names` (as `--target` takes them) and `--arch` ask for, in the order of the targets: each
/// named architecture, and the default of targets none of whose are named. Empty after reporting.
std::vector<TargetArch> selectTargets(Session &session, llvm::StringRef names);

/// The instructions of a machine, by its name (`--machine`), that an `extern fn` may give.
[[nodiscard]] std::optional<Assembly> assemblyOfMachine(llvm::StringRef machine);

/// What every target takes of the options.
[[nodiscard]] backend::TargetOptions targetOptions(const Options &options,
                                                   const TargetArch &target);

/// A copy of an optimized module with the passes that are a target's own. Null after reporting.
/// `remarks`, if given, gets what these decided, and `losses` what makes the code slow that its
/// author could mend.
std::unique_ptr<ir::Module> prepareFor(Diagnostics &diagnostics, ir::Module &module,
                                       const TargetArch &target,
                                       std::vector<passes::Remark> *remarks = nullptr,
                                       std::vector<passes::Remark> *losses = nullptr);

} // namespace dtile::driver
