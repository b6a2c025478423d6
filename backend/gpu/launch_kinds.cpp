// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copies a kernel's function for each kind of launch.
#include "backend/gpu/launch_kinds.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/Module.h"
#include "llvm/Transforms/Utils/Cloning.h"

namespace dtile::backend::gpu {

namespace {

struct KindRow {
  llvm::StringLiteral suffix;
  std::optional<int64_t> InKinds::*fact;
};
/// By dtile_launch_kind.
constexpr KindRow kKinds[DTILE_LAUNCH_KINDS] = {{"$plain", &InKinds::plain},
                                                {"$split", &InKinds::split},
                                                {"$shared", &InKinds::shared},
                                                {"", &InKinds::copied}};

bool hasOwn(unsigned kind, llvm::ArrayRef<LaunchFact> facts, OwnFunctions own) {
  return !facts.empty() && (own == OwnFunctions::All || kind == DTILE_LAUNCH_PLAIN);
}

} // namespace

std::array<std::string, DTILE_LAUNCH_KINDS>
entriesOf(llvm::StringRef entry, llvm::ArrayRef<LaunchFact> facts, OwnFunctions own) {
  std::array<std::string, DTILE_LAUNCH_KINDS> entries;
  for (auto [kind, row] : llvm::enumerate(kKinds))
    entries[kind] = (entry + (hasOwn(unsigned(kind), facts, own) ? row.suffix : "")).str();
  return entries;
}

bool isEntryOf(llvm::StringRef function, llvm::StringRef entry) {
  return function.consume_front(entry) && llvm::any_of(kKinds, [&](const KindRow &row) {
           return !row.suffix.empty() && function == row.suffix;
         });
}

void splitByLaunchKind(llvm::Function &kernel, llvm::ArrayRef<LaunchFact> facts, OwnFunctions own) {
  // The kernel itself is the last.
  for (auto [kind, row] : llvm::enumerate(kKinds)) {
    if (!hasOwn(unsigned(kind), facts, own))
      continue;
    llvm::ValueToValueMapTy copies;
    if (!row.suffix.empty())
      llvm::CloneFunction(&kernel, copies)->setName(kernel.getName() + row.suffix);
    for (const LaunchFact &fact : facts) {
      const std::optional<int64_t> known = fact.in.*row.fact;
      llvm::Value *value = fact.value;
      if (!row.suffix.empty())
        value = copies.lookup(value);
      // A fact that was said twice is a constant by now.
      auto *read = llvm::dyn_cast_or_null<llvm::Instruction>(value);
      if (!known || !read)
        continue;
      read->replaceAllUsesWith(llvm::ConstantInt::get(read->getType(), uint64_t(*known)));
      // Some are inline assembly, which LLVM would keep.
      read->eraseFromParent();
    }
  }
}

} // namespace dtile::backend::gpu
