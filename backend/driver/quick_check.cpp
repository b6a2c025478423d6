// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "backend/driver/quick_check.h"

#include "ir/core/builder.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

namespace dtile::driver {

namespace {

/// Numbers of ranks for which a kernel that is not proved was not run on all sizes: `3, 4`.
std::string leftOut(const protocol::Verdict &verdict) {
  llvm::SmallVector<std::string> ranks;
  for (const std::vector<int> *some : {&verdict.cutShort, &verdict.tooLarge, &verdict.stopped})
    for (const int count : *some)
      ranks.push_back(std::to_string(count));
  return llvm::join(ranks, ", ");
}

} // namespace

QuickCheck::QuickCheck(const SourceManager &sources, std::unique_ptr<ir::Module> written,
                       ir::Module &scheduled, llvm::ArrayRef<TargetArch> targets)
    : written_(std::move(written)), scheduled_(ir::cloneModule(scheduled)), diagnostics_(sources) {
  for (const TargetArch &target : targets) {
    const TargetFacts *facts = target.target->facts(target.arch);
    const int64_t programs = facts ? facts->residentPrograms() : 0;
    const int64_t fewest = options_.machine->residentPrograms();
    if (programs != 0 && (fewest == 0 || programs < fewest))
      options_.machine = facts;
  }
  options_.ranks = {1, 2, 3, 4};
  options_.isQuick = true;
  options_.seconds = 1;
  options_.scheduled = scheduled_.get();
  isFine_ = std::async([this] { return run(); });
}

bool QuickCheck::run() {
  // Proofs are of kernels as they are written.
  passes::PassContext context(diagnostics_);
  if (!runPipeline(*written_, OptLevel::O1, context))
    return false;
  bool isFine = true;
  for (const protocol::Verdict &verdict :
       protocol::checkProtocol(*written_, options_, diagnostics_)) {
    isFine &= verdict.isFine;
    if (!verdict.isFine || verdict.isProved)
      continue;
    if (const std::string ranks = leftOut(verdict); !ranks.empty())
      diagnostics_.report(verdict.place, diag::not_checked, verdict.kernel, ranks);
    else if (verdict.runs == 0 && !verdict.notTaken.empty())
      diagnostics_.report(verdict.place, diag::not_run, verdict.kernel);
  }
  return isFine;
}

bool QuickCheck::finish(Diagnostics &diagnostics) {
  const bool isFine = isFine_.get();
  diagnostics.append(diagnostics_);
  return isFine;
}

} // namespace dtile::driver
