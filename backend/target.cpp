// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The list of targets. Each is made by the function of its row, which its own directory defines.
#include "backend/target.h"

namespace dtile::backend {

#define TARGET(FACTORY, NAME, SUMMARY) const Target &FACTORY##Target();
#include "backend/targets.def"

llvm::ArrayRef<const Target *> allTargets() {
  static const Target *const kTargets[] = {
#define TARGET(FACTORY, NAME, SUMMARY) &FACTORY##Target(),
#include "backend/targets.def"
  };
  return kTargets;
}

const Target *findTarget(llvm::StringRef name) {
  for (const Target *target : allTargets())
    if (target->name() == name)
      return target;
  return nullptr;
}

} // namespace dtile::backend
