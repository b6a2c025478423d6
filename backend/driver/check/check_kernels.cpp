// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Instances of kernels whose callers are not known, and the check of lowered ones.
#include "backend/driver/check/check_kernels.h"

#include "backend/driver/check/differing_values.h"
#include "backend/driver/check/order_fix.h"
#include "backend/driver/check/promises.h"
#include "backend/driver/check/signal_fix.h"
#include "backend/driver/optimize.h"
#include "ir/core/builder.h"

#include "llvm/ADT/STLExtras.h"

namespace dtile::driver {

namespace {

/// What is spent on one more check of a kernel that the first has left undecided.
constexpr uint64_t kWorkOfUndecided = 2'000'000;
/// More ranks than this are run with other values only where these are not proved.
constexpr int kMostRanksOfOthers = 3;

/// Whether ranks meet before a launch is for the runtime: checks neither need it nor count on it,
/// and to find out takes as long as a proof.
const passes::DriftAnswer kDriftIsNotAsked{};

/// A kernel with other values, lowered under the name that it has with the first ones.
struct Other {
  const sema::KernelInstance *instance = nullptr;
  sema::KernelInstance named;
  LoweredModule lowered;
};

/// The first of `values` that the kernel and the passes take; nothing where that is none, or one
/// of `known`.
std::optional<Other> lowerWith(sema::Program &program, const CheckedKernel &checked,
                               llvm::ArrayRef<Constants> values,
                               llvm::ArrayRef<const sema::KernelInstance *> known,
                               const SourceManager &sources, std::mutex &programIsInUse) {
  for (const Constants &constants : values) {
    std::unique_lock lock(programIsInUse);
    const sema::KernelInstance *instance =
        program.tryInstantiate(checked.instance->decl, withConstants(checked.args, constants));
    if (!instance)
      continue;
    if (llvm::is_contained(known, instance))
      return std::nullopt;
    Other other{instance, *instance, {}};
    other.named.name = checked.instance->name;
    other.lowered = lowerInstances(sources, program, {&other.named});
    lock.unlock();
    Diagnostics silent(sources);
    passes::PassContext context(silent);
    context.assumedDrift = &kDriftIsNotAsked;
    const std::unique_ptr<ir::Module> scheduled = ir::cloneModule(*other.lowered.module);
    if (!runPipeline(*scheduled, OptLevel::O2, context))
      continue;
    const bool hasLaunch = llvm::none_of(scheduled->body().ops(), [](ir::Op &op) {
      return op.is(ir::OpKind::Kernel) && protocol::leavesNoLaunch(op);
    });
    if (hasLaunch)
      return other;
  }
  return std::nullopt;
}

/// How kernels are checked again: by a proof, and by few runs. A proof needs no ranks; with the
/// first values that differ a few show whether the kernel keeps what it ensures.
protocol::CheckOptions optionsOfOthers(protocol::CheckOptions checks, ValueOrder order) {
  checks.isQuick = true;
  checks.areRanksGiven = true;
  llvm::erase_if(checks.ranks, [&](int ranks) {
    return ranks > (order == ValueOrder::Ascending ? kMostRanksOfOthers : 0);
  });
  return checks;
}

} // namespace

CheckedKernel instantiateAlone(sema::Program &program, const ast::KernelDecl &kernel,
                               const sema::GenericArgs &given, const SourceManager &sources) {
  constexpr int64_t kSizes[] = {16, 128, 1024, 1};
  for (const int64_t size : kSizes) {
    sema::GenericArgs args = given;
    std::set<llvm::StringRef> standIns;
    for (const ast::GenericParam &generic : kernel.generics) {
      const llvm::StringRef name = generic.name.name;
      const bool isGiven =
          llvm::any_of(args.named, [&](const auto &named) { return named.first == name; });
      if (generic.defaultValue || isGiven)
        continue;
      sema::GenericValue value;
      const llvm::StringRef type = generic.type ? generic.type->name.name : "";
      value.kind = type == "dtype"  ? sema::GenericValue::Kind::DType
                   : type == "bool" ? sema::GenericValue::Kind::Bool
                                    : sema::GenericValue::Kind::Int;
      value.intValue = type == "bool" ? 1 : size;
      args.named.emplace_back(name.str(), value);
      standIns.insert(name);
    }
    Diagnostics attempt(sources);
    if (const sema::KernelInstance *instance =
            program.instantiate(&kernel, args, kernel.name.range, attempt))
      return {instance, std::move(args), std::move(standIns)};
  }
  return {};
}

std::optional<protocol::Verdict> checkInstance(LoweredModule &lowered,
                                               const sema::KernelInstance &instance,
                                               const SourceManager &sources,
                                               protocol::CheckOptions checks,
                                               Diagnostics &diagnostics) {
  ir::Module &module = *lowered.module;
  // Room is asked for as a build without further options schedules it; the rest as it is written.
  const std::unique_ptr<ir::Module> scheduled = ir::cloneModule(module);
  passes::PassContext context(diagnostics);
  context.assumedDrift = &kDriftIsNotAsked;
  if (!runPipeline(*scheduled, OptLevel::O2, context) ||
      !runPipeline(module, OptLevel::O1, context))
    return std::nullopt;
  checks.scheduled = scheduled.get();
  checks.promises = lowered.promises;
  checks.signalFix = [&](llvm::StringRef kernel, llvm::StringRef object, llvm::StringRef signal,
                         SourceLoc place) -> std::vector<FixIt> {
    if (instance.name != kernel)
      return {};
    return signalFix(sources, *instance.decl, {object.str(), signal.str(), place});
  };
  checks.orderFix = [&](llvm::StringRef kernel,
                        const protocol::MissingOrder &missing) -> std::vector<FixIt> {
    if (instance.name != kernel)
      return {};
    return orderFix(sources, *instance.decl, missing);
  };
  return std::move(protocol::checkProtocol(module, checks, diagnostics).front());
}

std::string choicesText(const sema::Program &program, const CheckedKernel &checked,
                        const sema::KernelInstance &instance) {
  const ChoiceValues left = choiceValues(program, *instance.decl, checked.args);
  std::string text;
  for (const auto &[name, value] : constantsOf(instance, left.choices))
    text += (text.empty() ? "" : ", ") + name + " = " + std::to_string(value);
  return text;
}

OtherValues checkOtherValues(sema::Program &program, const CheckedKernel &checked,
                             const protocol::Verdict &verdict, const SourceManager &sources,
                             const protocol::CheckOptions &checks, std::mutex &programIsInUse,
                             Diagnostics &diagnostics) {
  OtherValues found;
  const bool hasNothing = verdict.runs == 0 && !verdict.isProved && verdict.undecided.empty();
  if (!verdict.isFine || hasNothing)
    return found;
  const auto withProgram = [&](auto &&ask) {
    const std::lock_guard lock(programIsInUse);
    return ask();
  };
  const ChoiceValues choices =
      withProgram([&] { return choiceValues(program, *checked.instance->decl, checked.args); });
  if (choices.choices.empty())
    return found;
  std::vector<const sema::KernelInstance *> known = {checked.instance};
  for (const ValueOrder order : {ValueOrder::Ascending, ValueOrder::Descending}) {
    std::optional<Other> other = lowerWith(program, checked, differingValues(choices, order), known,
                                           sources, programIsInUse);
    if (!other)
      continue;
    known.push_back(other->instance);
    protocol::CheckOptions quick = optionsOfOthers(checks, order);
    quick.constants = withProgram([&] { return choicesText(program, checked, *other->instance); });
    Diagnostics own(sources);
    auto again = checkInstance(other->lowered, other->named, sources, quick, own);
    const auto isFine = [&] { return again && again->isFine; };
    // Now runs have to tell whether something is wrong.
    if (isFine() && !again->isProved) {
      quick.ranks = checks.ranks;
      quick.areRanksGiven = checks.areRanksGiven;
      if (!verdict.isProved)
        quick.work = std::min(quick.work, kWorkOfUndecided);
      own.clear();
      other->lowered =
          withProgram([&] { return lowerInstances(sources, program, {&other->named}); });
      again = checkInstance(other->lowered, other->named, sources, quick, own);
    }
    if (isFine() && (again->isProved || !verdict.isProved)) {
      found.alsoWith.push_back(quick.constants);
      // More of it is not more.
      if (!verdict.isProved)
        break;
      continue;
    }
    diagnostics.append(own);
    found.instance = other->instance;
    found.lowered = std::move(other->lowered);
    found.verdict.isFine = false;
    if (again)
      found.verdict = std::move(*again);
    break;
  }
  return found;
}

} // namespace dtile::driver
