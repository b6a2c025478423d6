// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The order of passes, as text. Why each stands where it does:
//   inline first: every later pass looks at one kernel at a time;
//   canonicalize before cse: equal values must have one form to be found equal;
//   cse before licm: licm then moves one op where there were several;
//   dce after both: they leave what nobody uses;
//   derive-counts behind these: it solves equations over index arithmetic, and a program is wrong
//     without it, so every level has it, and bound-drift, which counts on the notifies it found;
//   canonicalize, cse and dce once more: for the code that computes the counts, and for what became
//     constant by hoisting; and canonicalize behind that cse: sizes that have become one value
//     decide whether a cell is inside;
//   order-tiles and issue-early last: nothing may reorder what they have decided;
//   read-in-place behind these: what it leaves out has been ordered, and stands under conditions
//     that would keep others from being moved.
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
    return "inline,canonicalize,cse,dce,derive-counts,bound-drift,canonicalize,cse,canonicalize,"
           "dce";
  case OptLevel::O2:
    return "inline,canonicalize,cse,licm,dce,derive-counts,bound-drift,canonicalize,cse,dce,"
           "order-tiles,issue-early,carry-awaits,read-in-place";
  }
  DTILE_UNREACHABLE("unknown level");
}

} // namespace dtile::passes
