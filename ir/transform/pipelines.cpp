// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The order of passes, as text. Why each stands where it does:
//   inline first: every later pass looks at one kernel at a time;
//   settle-externs after it: counts and sizes follow from references;
//   canonicalize before cse: equal values must have one form to be found equal;
//   cse before licm: licm then moves one op where there were several;
//   dce after both: they leave what nobody uses;
//   derive-counts after these: it solves equations over index arithmetic, and a program is wrong
//     without it, so every level has it, and bound-drift, which counts on the notifies it found;
//   send-by-engine between the two: it asks for the counts, and decides that ranks meet;
//   canonicalize, cse and dce once more: for the code that computes the counts, and for what became
//     constant by hoisting; and canonicalize after that cse: sizes that have become one value
//     decide whether a cell is inside;
//   order-tiles and issue-early last: nothing may reorder what they have decided;
//   read-in-place after these: what it leaves out has been ordered, and stands under conditions
//     that would keep others from being moved;
//   share-sizes after that: what it decides by asks for sizes again, which would pass for others
//     when variants are chosen. Not cse, which makes values of bodies live longer.
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
    return "inline,settle-externs,derive-counts,bound-drift";
  case OptLevel::O1:
    return "inline,settle-externs,canonicalize,cse,dce,derive-counts,bound-drift,canonicalize,cse,"
           "canonicalize,dce";
  case OptLevel::O2:
    return "inline,settle-externs,canonicalize,cse,licm,dce,derive-counts,send-by-engine,"
           "bound-drift,canonicalize,cse,dce,order-tiles,issue-early,carry-awaits,read-in-place,"
           "share-sizes";
  }
  DTILE_UNREACHABLE("unknown level");
}

namespace {

/// Which machines with devices run a pass.
enum class On : uint8_t { All, AsyncCopies, WarpgroupMma, MappedPeers, FarPeers };

struct DevicePass {
  llvm::StringLiteral name;
  On on;
};

// Each with why it stands where it does.
constexpr DevicePass kDevicePasses[] = {
    // First: references that are not computed cost no registers.
    {"select-instructions", On::All},
    // Before split-copies and take-arrivals: what flags carry is not divided, and not waited for.
    {"load-messages", On::MappedPeers},
    // Before layouts are chosen for what the loops carry.
    {"take-arrivals", On::All},
    // Before the others: it makes more bodies, and the others look at bodies.
    {"split-copies", On::AsyncCopies},
    // Before all that asks where loads are: gathers of rows become windows.
    {"gather-rows", On::All},
    // Before stage-loads, which stages products whose first operand is computed.
    {"swap-operands", On::WarpgroupMma},
    // Chooses the loops of warp-specialized spaces; those that follow refine them.
    {"stage-loads", On::WarpgroupMma},
    // Before products are skewed: an accumulator that begins at zero needs no registers before.
    {"sink-accumulator-init", On::WarpgroupMma},
    {"skew-products", On::WarpgroupMma},
    // The epilogue warp: its stores, what it loads beside them, how much room they take.
    {"specialize-stores", On::WarpgroupMma},
    {"prefetch-epilogue", On::WarpgroupMma},
    {"split-epilogue", On::WarpgroupMma},
    // When the depth of the rings is final.
    {"split-sums", On::WarpgroupMma},
    {"multicast-operands", On::WarpgroupMma},
    // Before slice-bodies: in a slice, nothing waits.
    {"hoist-waits", On::WarpgroupMma},
    // The number of threads is known, and tiles have no layouts yet.
    {"slice-bodies", On::WarpgroupMma},
    // Before layouts are chosen for what the loops carry instead.
    {"defer-reductions", On::All},
    // From here on it is known which thread has which element.
    {"infer-layouts", On::All},
    {"peel-masks", On::All},
    {"multistage-copies", On::AsyncCopies},
    {"prefetch-loads", On::All},
    // Sees the loads that were put ahead of their loops.
    {"keep-rows", On::All},
    // Leaves alone what comes through shared memory, so after what decides that.
    {"ll-messages", On::MappedPeers},
    // Messages that carry flags are not notified.
    {"merge-notifies", On::All},
    // What is left of them is told of where it is put.
    {"sink-notifies", On::FarPeers},
    {"batch-loads", On::All},
    // The last that asks where loads are.
    {"load-first", On::All},
    {"dce", On::All},
};

bool runsOn(On on, const TargetFacts &machine, bool areMapped) {
  switch (on) {
  case On::All:
    return true;
  case On::MappedPeers:
    return areMapped;
  case On::FarPeers:
    return !areMapped;
  case On::AsyncCopies:
    return machine.asyncCopyBytes > 0;
  case On::WarpgroupMma:
    return machine.groupRows > 0;
  }
  DTILE_UNREACHABLE("unknown condition");
}

} // namespace

std::string devicePipelineText(const TargetFacts &machine, bool areMapped) {
  std::string text;
  if (machine.lanes == 0)
    return text;
  for (const DevicePass &pass : kDevicePasses)
    if (runsOn(pass.on, machine, areMapped))
      text += (text.empty() ? "" : ",") + pass.name.str();
  return text;
}

} // namespace dtile::passes
