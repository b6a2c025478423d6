// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The order of passes, as text. Why each stands where it does:
//   inline first: every later pass looks at one kernel at a time;
//   canonicalize before cse: equal values must have one form to be found equal;
//   cse before licm: licm then moves one op where there were several;
//   dce after both: they leave what nobody uses;
//   canonicalize once more: a hoisted or merged value can make an `if` or a bound constant;
//   derive-counts after it: it reads bounds and indices, in their simplest form, and before the schedule, which
//   changes when a notify is sent but never whether;
//   issue-early last but for cleaning: what was dead or foldable would only stand in its way.
#include "ir/transform/pipelines.h"

#include "frontend/base/check.h"

namespace dtile::passes {

llvm::ArrayRef<PassInfo> allPasses() {
  static constexpr PassInfo kPasses[] = {
#define PASS(FUNCTION, NAME, KIND, DOC) {NAME, FUNCTION, PassKind::KIND, DOC},
#include "ir/transform/passes.def"
  };
  return kPasses;
}

llvm::StringRef pipelineText(OptLevel level) {
  switch (level) {
  case OptLevel::O0:
    return "inline,derive-counts,bound-drift";
  case OptLevel::O1:
    return "inline,canonicalize,cse,dce,derive-counts,bound-drift,order-tiles,canonicalize,"
           "dce";
  case OptLevel::O2:
    return "inline,canonicalize,cse,licm,dce,canonicalize,cse,dce,derive-counts,bound-drift,"
           "order-tiles,issue-early,canonicalize,cse,dce";
  }
  DTILE_UNREACHABLE("unknown level");
}

} // namespace dtile::passes
