// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "backend/driver/check/quick_check.h"

#include "ir/core/builder.h"
#include "ir/protocol/limits/report_counted_zeros.h"

namespace dtile::driver {

QuickCheck::QuickCheck(Session &session, std::unique_ptr<ir::Module> written, ir::Module &scheduled,
                       llvm::ArrayRef<TargetArch> targets, std::vector<protocol::Promise> promises)
    : driftMemory_(session.driftMemory), written_(std::move(written)),
      scheduled_(ir::cloneModule(scheduled)), diagnostics_(session.sources) {
  for (const TargetArch &target : targets) {
    const TargetFacts *facts = target.facts();
    const int64_t programs = facts ? facts->residentPrograms() : 0;
    const int64_t fewest = options_.machine->residentPrograms();
    if (programs != 0 && (fewest == 0 || programs < fewest))
      options_.machine = facts;
  }
  options_.isQuick = true;
  options_.scheduled = scheduled_.get();
  options_.promises = std::move(promises);
  isFine_ = std::async([this] { return run(); });
}

bool QuickCheck::run() {
  // Proofs are of kernels as they are written.
  passes::PassContext context(diagnostics_);
  context.driftMemory = &driftMemory_;
  if (!runPipeline(*written_, OptLevel::O1, context))
    return false;
  protocol::reportCountedZeros(*written_, diagnostics_);
  bool isFine = true;
  for (const protocol::Verdict &verdict :
       protocol::checkProtocol(*written_, options_, diagnostics_)) {
    isFine &= verdict.isFine;
    reportVerdict(diagnostics_, verdict);
  }
  return isFine;
}

bool QuickCheck::finishVariants(Diagnostics &diagnostics) {
  const bool isFine = isFine_.get();
  if (!isFine)
    diagnostics.append(diagnostics_);
  return isFine;
}

bool QuickCheck::finish(Diagnostics &diagnostics) {
  const bool isFine = isFine_.get();
  diagnostics.append(diagnostics_);
  return isFine;
}

} // namespace dtile::driver
