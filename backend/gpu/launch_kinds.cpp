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
/// By dtile_launch_kind. The last function of a kernel has no suffix.
constexpr KindRow kKinds[DTILE_LAUNCH_KINDS] = {{"$plain", &InKinds::plain},
                                                {"$split", &InKinds::split},
                                                {"$shared", &InKinds::shared},
                                                {"", &InKinds::copied}};

/// A function, and the kinds of launches that are its: [first, end).
struct KindsOfFunction {
  unsigned first = 0, end = 0;
};

using Functions = llvm::SmallVector<KindsOfFunction, DTILE_LAUNCH_KINDS>;

/// In the order of the kinds; the last is the kernel's own function, the others are copies of it.
Functions functionsOf(llvm::ArrayRef<LaunchFact> facts, KernelFunctions functions) {
  if (facts.empty())
    return {{0, DTILE_LAUNCH_KINDS}};
  const unsigned end = DTILE_LAUNCH_KINDS - unsigned(functions.wholeWords);
  static_assert(DTILE_LAUNCH_COPIED == DTILE_LAUNCH_KINDS - 1 && DTILE_LAUNCH_PLAIN == 0);
  if (functions.own == OwnFunctions::Plain)
    return {{0, 1}, {1, end}};
  if (functions.own == OwnFunctions::WholeWords)
    return functions.wholeWords
               ? Functions{{0, DTILE_LAUNCH_COPIED}}
               : Functions{{0, DTILE_LAUNCH_COPIED}, {DTILE_LAUNCH_COPIED, DTILE_LAUNCH_KINDS}};
  Functions made;
  for (unsigned kind = 0; kind < end; ++kind)
    made.push_back({kind, kind + 1});
  return made;
}

/// What a fact is in all launches of a function.
std::optional<int64_t> knownIn(KindsOfFunction of, const LaunchFact &fact) {
  const std::optional<int64_t> first = fact.in.*kKinds[of.first].fact;
  for (unsigned kind = of.first + 1; kind < of.end; ++kind)
    if (fact.in.*kKinds[kind].fact != first)
      return std::nullopt;
  return first;
}

} // namespace

std::array<std::string, DTILE_LAUNCH_KINDS>
entriesOf(llvm::StringRef entry, llvm::ArrayRef<LaunchFact> facts, KernelFunctions functions) {
  std::array<std::string, DTILE_LAUNCH_KINDS> entries;
  const auto all = functionsOf(facts, functions);
  for (const auto &[i, one] : llvm::enumerate(all))
    for (unsigned kind = one.first; kind < one.end; ++kind)
      entries[kind] = (entry + (i + 1 < all.size() ? kKinds[one.first].suffix : "")).str();
  return entries;
}

bool isEntryOf(llvm::StringRef function, llvm::StringRef entry) {
  return function.consume_front(entry) && llvm::any_of(kKinds, [&](const KindRow &row) {
           return !row.suffix.empty() && function == row.suffix;
         });
}

void splitByLaunchKind(llvm::Function &kernel, llvm::ArrayRef<LaunchFact> facts,
                       KernelFunctions functions) {
  const auto all = functionsOf(facts, functions);
  for (const auto &[i, one] : llvm::enumerate(all)) {
    const bool isCopy = i + 1 < all.size();
    llvm::ValueToValueMapTy copies;
    if (isCopy)
      llvm::CloneFunction(&kernel, copies)->setName(kernel.getName() + kKinds[one.first].suffix);
    for (const LaunchFact &fact : facts) {
      const std::optional<int64_t> known = knownIn(one, fact);
      llvm::Value *value = fact.value;
      if (isCopy)
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
