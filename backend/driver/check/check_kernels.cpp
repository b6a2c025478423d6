// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Instances of kernels whose callers are not known, and the check of lowered ones.
#include "backend/driver/check/check_kernels.h"

#include "backend/driver/check/differing_values.h"
#include "backend/driver/check/fixes.h"
#include "backend/driver/check/promises.h"
#include "backend/driver/optimize.h"
#include "ir/core/builder.h"
#include "ir/protocol/limits/report_counted_zeros.h"

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

namespace {

/// Runs the passes that a check wants; false after reporting what they refuse. Room is asked for as
/// a build without further options schedules it (`scheduled`); the rest as it is written.
bool prepare(LoweredModule &lowered, std::unique_ptr<ir::Module> &scheduled,
             Diagnostics &diagnostics) {
  scheduled = ir::cloneModule(*lowered.module);
  passes::PassContext context(diagnostics);
  context.assumedDrift = &kDriftIsNotAsked;
  return runPipeline(*scheduled, OptLevel::O2, context) &&
         runPipeline(*lowered.module, OptLevel::O1, context);
}

protocol::Verdict checkPrepared(const LoweredModule &lowered, ir::Module &scheduled,
                                const sema::KernelInstance &instance, const SourceManager &sources,
                                protocol::CheckOptions checks, Diagnostics &diagnostics) {
  checks.scheduled = &scheduled;
  checks.promises = lowered.promises;
  checks.fix = [&](llvm::StringRef kernel, const protocol::Remedy &remedy) {
    const auto make = [&](const auto &one) { return fixesFor(sources, *instance.decl, one); };
    return instance.name == kernel ? std::visit(make, remedy) : std::vector<FixIt>();
  };
  return std::move(protocol::checkProtocol(*lowered.module, checks, diagnostics).front());
}

} // namespace

std::optional<protocol::Verdict> checkInstance(LoweredModule &lowered,
                                               const sema::KernelInstance &instance,
                                               const SourceManager &sources,
                                               const protocol::CheckOptions &checks,
                                               Diagnostics &diagnostics) {
  std::unique_ptr<ir::Module> scheduled;
  if (!prepare(lowered, scheduled, diagnostics))
    return std::nullopt;
  protocol::reportCountedZeros(*lowered.module, diagnostics);
  return checkPrepared(lowered, *scheduled, instance, sources, checks, diagnostics);
}

std::string choicesText(const sema::Program &program, const CheckedKernel &checked,
                        const sema::KernelInstance &instance) {
  const ChoiceValues left = choiceValues(program, *instance.decl, checked.args);
  std::string text;
  for (const auto &[name, value] : constantsOf(instance, left.choices))
    text += (text.empty() ? "" : ", ") + name + " = " + std::to_string(value);
  return text;
}

/// One check with other values.
struct OtherValuesCheck::Attempt {
  explicit Attempt(const SourceManager &sources) : own(sources) {}

  /// Nothing where there are no such values.
  std::optional<Other> other;
  std::unique_ptr<ir::Module> scheduled;
  protocol::CheckOptions quick;
  Diagnostics own;
  /// Nothing where passes have refused it.
  std::optional<protocol::Verdict> verdict;
};

OtherValuesCheck::OtherValuesCheck(sema::Program &program, const CheckedKernel &checked,
                                   const SourceManager &sources,
                                   const protocol::CheckOptions &checks, std::mutex &programIsInUse)
    : program_(program), checked_(checked), sources_(sources), checks_(checks),
      programIsInUse_(programIsInUse), known_{checked.instance} {}

OtherValuesCheck::~OtherValuesCheck() = default;

std::unique_ptr<OtherValuesCheck::Attempt> OtherValuesCheck::attempt(ValueOrder order) {
  auto attempt = std::make_unique<Attempt>(sources_);
  std::unique_lock lock(programIsInUse_);
  const ChoiceValues choices = choiceValues(program_, *checked_.instance->decl, checked_.args);
  lock.unlock();
  if (choices.choices.empty())
    return attempt;
  std::optional<Other> &other = attempt->other;
  other = lowerWith(program_, checked_, differingValues(choices, order), known_, sources_,
                    programIsInUse_);
  if (!other)
    return attempt;
  known_.push_back(other->instance);
  attempt->quick = optionsOfOthers(checks_, order);
  lock.lock();
  attempt->quick.constants = choicesText(program_, checked_, *other->instance);
  lock.unlock();
  if (prepare(other->lowered, attempt->scheduled, attempt->own))
    attempt->verdict = checkPrepared(other->lowered, *attempt->scheduled, other->named, sources_,
                                     attempt->quick, attempt->own);
  return attempt;
}

void OtherValuesCheck::begin() { first_ = attempt(ValueOrder::Ascending); }

OtherValues OtherValuesCheck::finish(const protocol::Verdict &verdict, Diagnostics &diagnostics) {
  OtherValues found;
  const bool hasNothing = verdict.runs == 0 && !verdict.isProved && verdict.undecided.empty();
  if (!verdict.isFine || hasNothing)
    return found;
  for (const ValueOrder order : {ValueOrder::Ascending, ValueOrder::Descending}) {
    const bool isBegun = order == ValueOrder::Ascending && first_;
    const std::unique_ptr<Attempt> attempt = isBegun ? std::move(first_) : this->attempt(order);
    std::optional<Other> &other = attempt->other;
    if (!other)
      continue;
    std::optional<protocol::Verdict> &again = attempt->verdict;
    const auto isFine = [&] { return again && again->isFine; };
    // Now runs have to tell whether something is wrong.
    if (isFine() && !again->isProved) {
      protocol::CheckOptions &quick = attempt->quick;
      quick.ranks = checks_.ranks;
      quick.areRanksGiven = checks_.areRanksGiven;
      if (!verdict.isProved)
        quick.work = std::min(quick.work, kWorkOfUndecided);
      const protocol::Proof proof = again->proof;
      quick.proof = &proof;
      attempt->own.clear();
      again = checkPrepared(other->lowered, *attempt->scheduled, other->named, sources_, quick,
                            attempt->own);
    }
    if (isFine() && (again->isProved || !verdict.isProved)) {
      found.alsoWith.push_back(attempt->quick.constants);
      // More of it is not more.
      if (!verdict.isProved)
        break;
      continue;
    }
    diagnostics.append(attempt->own);
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
