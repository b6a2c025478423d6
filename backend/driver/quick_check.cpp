// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "backend/driver/quick_check.h"

#include "ir/core/builder.h"

#include "llvm/ADT/STLExtras.h"

namespace dtile::driver {

QuickCheck::QuickCheck(const SourceManager &sources, ir::Module &module,
                       llvm::ArrayRef<TargetArch> targets)
    : module_(ir::cloneModule(module)), diagnostics_(sources) {
  for (const TargetArch &target : targets) {
    const TargetFacts *facts = target.target->facts(target.arch);
    const int64_t programs = facts ? facts->residentPrograms() : 0;
    const int64_t fewest = options_.machine->residentPrograms();
    if (programs != 0 && (fewest == 0 || programs < fewest))
      options_.machine = facts;
  }
  options_.ranks = {1, 2, 3, 4};
  options_.isQuick = true;
  options_.seconds = 0.05;
  isFine_ = std::async([this] {
    return llvm::all_of(protocol::checkProtocol(*module_, options_, diagnostics_),
                        [](const protocol::Verdict &verdict) { return verdict.isFine; });
  });
}

bool QuickCheck::finish(Diagnostics &diagnostics) {
  const bool isFine = isFine_.get();
  diagnostics.append(diagnostics_);
  return isFine;
}

} // namespace dtile::driver
