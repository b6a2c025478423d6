// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Lowers and optimizes kernel instances when they are first asked for.
#include "backend/driver/execute/kernel_library.h"

#include <numeric>

namespace dtile::driver {

std::optional<KernelCode> KernelLibrary::get(const sema::KernelInstance *instance) {
  Entry &entry = entries_[instance];
  if (!entry.lowered.module) {
    LoweredModule lowered = lowerKernels(session_, program_, {instance});
    if (!optimize(session_, lowered, session_.options.optLevel))
      return std::nullopt;
    entry.lowered = std::move(lowered);
  }
  return KernelCode{instance, entry.lowered.module.get(), &entry.hostCode, &entry.deviceCode};
}

std::optional<KernelCode> KernelLibrary::getCall(const ast::CallExpr &place, const ast::FnDecl &fn,
                                                 const sema::FunctionCall &call) {
  std::string generics;
  for (const sema::FunctionCall::Generic &one : call.generics)
    generics += std::to_string(one.value.intValue) + dtypeName(one.value.dtype).str() + " ";
  const auto [known, isNew] = calls_.try_emplace({&place, std::move(generics), call.args}, nullptr);
  if (isNew)
    known->second = program_.instantiateCall(fn, call, session_.diagnostics);
  return known->second ? get(known->second) : std::nullopt;
}

const ast::KernelDecl *KernelLibrary::alternativeOf(const ast::KernelDecl &kernel,
                                                    llvm::StringRef pinned) {
  if (kernel.alternatives.empty())
    return &kernel;
  const auto alternatives = program_.alternatives(&kernel);
  if (pinned.empty())
    return alternatives[nextAlternative_[&kernel]++ % alternatives.size()];
  const auto *found =
      llvm::find_if(alternatives, [&](const auto *one) { return one->name.name == pinned; });
  return found == alternatives.end() ? nullptr : *found;
}

namespace {

/// Leaves variants that eight ranks of one GPU can run, as they do where tests have more ranks than
/// there are GPUs; if no variant is one, the configuration of these that takes the least time.
void keepSharable(Choosing &choosing, llvm::ArrayRef<sema::Choice> choices) {
  // All of a space's programs run at once, beside those of other spaces: of 132 processors a rank
  // has 16.
  constexpr int64_t kMostPrograms = 8;
  const auto isSharable = [&](size_t number) {
    return llvm::all_of(choosing.possible[number].constants, [&](const auto &constant) {
      const auto *choice = llvm::find_if(
          choices, [&](const sema::Choice &one) { return one.name == constant.first; });
      return choice == choices.end() || choice->use != sema::Choice::Use::Programs ||
             constant.second <= kMostPrograms;
    });
  };
  if (llvm::any_of(choosing.kept, isSharable)) {
    llvm::erase_if(choosing.kept, [&](size_t number) { return !isSharable(number); });
    return;
  }
  const auto timeOf = [&](size_t number) {
    const std::vector<double> &times = choosing.times[number];
    return std::accumulate(times.begin(), times.end(), 0.0);
  };
  std::optional<size_t> best;
  for (size_t number = 0; number < choosing.possible.size(); ++number)
    if (isSharable(number) && (!best || timeOf(number) < timeOf(*best)))
      best = number;
  if (best)
    choosing.kept = {*best};
}

} // namespace

Constants KernelLibrary::chooseFor(const ast::KernelDecl &kernel, const sema::GenericArgs &pins) {
  /// The first variants are the most different; each has to be compiled.
  constexpr size_t kInTurn = 3;
  const Options &options = session_.options;
  if (options.target == "host" || program_.choices(&kernel).empty())
    return {};
  const std::vector<TargetArch> targets = selectTargets(session_, options.target);
  if (targets.empty() || !targets.front().facts())
    return {};
  std::string known;
  for (const auto &[name, value] : pins.named)
    known += name + "=" + std::to_string(value.intValue) + dtypeName(value.dtype).str() + " ";
  Turn &turn = turns_[{&kernel, known}];
  if (turn.choosing.kept.empty()) {
    turn.choosing = choose(session_, program_, kernel, pins, targets.front());
    keepSharable(turn.choosing, program_.choices(&kernel));
  }
  const std::vector<size_t> &kept = turn.choosing.kept;
  if (kept.empty())
    return {};
  return turn.choosing.possible[kept[turn.next++ % std::min(kept.size(), kInTurn)]].constants;
}

} // namespace dtile::driver
