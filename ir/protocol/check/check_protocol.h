// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Checks kernels before anything runs: deadlocks, races, and what is left undone when a kernel
// ends.
#pragma once

#include "frontend/base/diagnostics.h"
#include "ir/core/ir.h"
#include "ir/machine/target_facts.h"
#include "ir/protocol/check/promise.h"
#include "ir/protocol/check/remedies.h"
#include "ir/protocol/prove/prove_protocol.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace dtile::protocol {

/// How much to check.
struct CheckOptions {
  /// Numbers of ranks; where these are somebody's choice, no others are run.
  std::vector<int> ranks = {1, 2, 3, 4, 5, 6, 7, 8};
  bool areRanksGiven = false;
  /// Beside a proof only the sizes that find most, and little work.
  bool isQuick = false;
  /// Steps of the interpreter and of the detector for one kernel, and bytes that a run's order may
  /// take; what does not fit is left out, and the verdict says so. Not seconds: a verdict does not
  /// depend on the machine.
  uint64_t work = 60'000'000;
  size_t bytes = size_t(160) << 20;
  /// Where bodies that wait must leave room for those that they wait for.
  const TargetFacts *machine = &allMachines()[0];
  /// The same kernels as they will run: which order tiles are taken in decides how much room is
  /// needed. Null where that is the module that is checked.
  ir::Module *scheduled = nullptr;
  /// Edits of `kernel` that do what would mend a finding; null for none.
  std::function<std::vector<FixIt>(llvm::StringRef kernel, const Remedy &remedy)> fix;
  /// What kernels ensure.
  std::vector<Promise> promises;
  /// What an earlier check of the module, which has one kernel, has shown; may be null.
  const Proof *proof = nullptr;
  /// Where findings are only of some values of compile-time parameters: "BM = 16, BN = 32".
  std::string constants;
};

/// Something that a check cannot know.
struct Undecided {
  const ir::Op *op = nullptr;
  std::string text;
};

/// What a kernel asks of the machine that runs it.
struct Progress {
  /// Some body waits at all.
  bool hasWaits = false;
  /// One program for each tile space is not enough; where it is, any number is.
  bool needsRoom = false;
  /// An error was reported: the machine has too little.
  bool isRefused = false;
};

/// What was found for one kernel. Errors are reported as diagnostics.
struct Verdict {
  std::string kernel;
  SourceLoc place;
  bool isFine = true;
  /// Numbers of ranks that were run.
  std::vector<int> ranks;
  struct Size {
    std::string name;
    std::vector<int64_t> values;
  };
  std::vector<Size> sizes;
  /// Launches watched.
  int64_t runs = 0;
  /// Numbers of ranks of which some sizes were run, and others left out.
  std::vector<int> inPart;
  /// Numbers of ranks for which not all sizes fit into the budget, and for which no memory.
  std::vector<int> cutShort;
  std::vector<int> tooLarge;
  /// Numbers of ranks of which the kernel's assertions leave out all that was tried.
  std::vector<int> notTaken;
  /// Numbers of ranks with which an assertion about data, which was taken to be zeros, ended a run.
  std::vector<int> stopped;
  std::vector<Undecided> undecided;
  Progress progress;
  const TargetFacts *machine = nullptr;
  /// What was proved for all numbers of ranks and all sizes. Without a proof only what was run is
  /// known.
  bool isProved = false;
  std::vector<Unproved> unproved;
  Proof proof;
  /// A run has refuted the proof: a mistake of ours.
  bool isContradicted = false;
  /// Larger numbers of ranks that were asked for, and are left to the proof.
  std::vector<int> notRun;
  /// It gives its callers something, and nothing says what that should be.
  bool areValuesUnsaid = false;
  /// Promises that hold, and those that could not be followed, with why.
  int64_t promisesKept = 0;
  std::vector<int> promiseRanks;
  /// The budget ended before all sizes were run for them.
  bool arePromisesCutShort = false;
  std::vector<std::pair<SourceLoc, std::string>> undecidedPromises;

  /// Nothing is proved where false, and not all that a check runs was run, or data decides.
  [[nodiscard]] bool isDecided() const;
  /// What the verdict rests on: what callers owe, and what is assumed.
  std::vector<std::string> required;
  std::vector<std::string> assumed;
  /// Inputs for which no elements were found of which that is true, so that nothing ran.
  std::vector<std::string> unfilled;
};

/// Proves each kernel of a module that has derived counts, where that can be done, and runs its
/// control and communication, with tile data left out, on the given numbers of ranks and on sizes
/// around its tile sizes, and watches two launches back to back.
std::vector<Verdict> checkProtocol(ir::Module &module, const CheckOptions &options,
                                   Diagnostics &diagnostics);

/// "`ag_gemm`: proved for all W and all sizes; checked for W in {1..8}, S in {0, 1, 64, 129} …".
[[nodiscard]] std::string verdictText(const Verdict &verdict);
/// A warning for each obligation that is not proved and for each thing that is undecided.
void reportVerdict(Diagnostics &diagnostics, const Verdict &verdict);

} // namespace dtile::protocol
