// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Builds every configuration as far as the machine's passes go, asks the model, and keeps a few.
#include "backend/driver/choose/choose.h"

#include "backend/driver/choose/configurations.h"
#include "frontend/base/check.h"
#include "ir/core/builder.h"
#include "ir/model/launch_sizes.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"

#include <limits>
#include <map>
#include <set>

namespace dtile::driver {

namespace {

constexpr size_t kMostConfigurations = 240;
constexpr size_t kSamples = 100;
constexpr size_t kDrawn = 10 * kSamples;
/// Configurations that are tried beside the best.
constexpr size_t kMostNeighbours = 80;
/// Local configurations that are tried with each configuration of what other ranks see.
constexpr size_t kLocalKept = 4;
/// Samples that take longer are no sizes that anybody launches.
constexpr double kLongestLaunch = 2e7;
/// The same by a configuration that nobody has chosen.
constexpr double kLongestAtFirst = 4 * kLongestLaunch;
constexpr double kNone = std::numeric_limits<double>::infinity();

/// A configuration with the passes of a machine run on it.
struct Prepared {
  LoweredModule lowered;
  std::unique_ptr<ir::Module> module;
  ir::Op *kernel = nullptr;
  std::unique_ptr<backend::LaunchEstimate> estimate;
};

ir::Op *firstKernel(ir::Module &module) {
  for (ir::Op &op : module.body().ops())
    if (op.is(ir::OpKind::Kernel))
      return &op;
  return nullptr;
}

/// Nothing where the configuration is impossible; what is wrong with it is nobody's mistake.
std::optional<Prepared> prepare(Session &session, sema::Program &program,
                                const sema::KernelInstance &instance, const TargetArch &target) {
  Diagnostics silent(session.sources);
  Prepared made;
  made.lowered = lowerKernels(session, program, &instance);
  passes::PassContext context(silent);
  if (!runPipeline(*made.lowered.module, session.options.optLevel, context))
    return std::nullopt;
  made.module = prepareFor(silent, *made.lowered.module, target);
  if (!made.module)
    return std::nullopt;
  made.kernel = firstKernel(*made.module);
  made.estimate = target.target->estimate(*made.kernel, target.arch);
  return made;
}

sema::GenericArgs withConstants(const sema::GenericArgs &pins, const Constants &constants) {
  sema::GenericArgs args = pins;
  for (const auto &[name, value] : constants)
    args.chosen.emplace_back(
        name, sema::GenericValue{.kind = sema::GenericValue::Kind::Int, .intValue = value});
  return args;
}

/// What other ranks see of a variant: the values of shared choices, and how the passes have laid
/// out what it shares.
std::string protocolOf(ir::Op &kernel, llvm::ArrayRef<sema::Choice> choices,
                       const Constants &constants) {
  std::string seen;
  for (auto [choice, constant] : llvm::zip_equal(choices, constants))
    if (choice.isShared)
      seen += std::to_string(constant.second) + " ";
  seen += kernel.get(ir::attr::entry_barrier) ? "meets" : "";
  for (ir::Op &op : kernel.body().ops())
    if (op.is(ir::OpKind::Param))
      seen += " " + std::to_string(op.getOr(ir::attr::copies, 1)) +
              (op.get(ir::attr::ll) ? "ll" : "") + (op.get(ir::attr::by_epoch) ? "e" : "");
  return seen;
}

bool communicates(ir::Op &kernel) {
  return llvm::any_of(kernel.body().ops(), [](const ir::Op &op) {
    return op.is(ir::OpKind::SignalParam) ||
           (op.is(ir::OpKind::Param) && (op.get(ir::attr::mode) == ir::ParamMode::Symm ||
                                         op.get(ir::attr::mode) == ir::ParamMode::Scratch));
  });
}

/// Of the kernel's free sizes.
std::vector<SizeUse> usesOfSizes(ir::Op &kernel) {
  const auto sizes = model::freeSizes(kernel);
  if (sizes.size() == 1)
    return {SizeUse::List};
  const auto counted = [&](ir::Value *size) { return model::isCounted(kernel, *size); };
  // Where there are heads there are sequences.
  const bool hasCounts = llvm::any_of(sizes, counted);
  std::vector<SizeUse> uses;
  for (ir::Value *size : sizes)
    uses.push_back(hasCounts ? (counted(size) ? SizeUse::Count : SizeUse::Length)
                             : (uses.empty() ? SizeUse::Rows : SizeUse::Model));
  return uses;
}

/// A copy without the other kernels; null where none communicates.
std::unique_ptr<ir::Module> communicatingKernels(ir::Module &module) {
  std::unique_ptr<ir::Module> copy = ir::cloneModule(module);
  std::vector<ir::Op *> others;
  bool isAny = false;
  for (ir::Op &op : copy->body().ops()) {
    if (!op.is(ir::OpKind::Kernel))
      continue;
    if (communicates(op))
      isAny = true;
    else
      others.push_back(&op);
  }
  for (ir::Op *op : others)
    op->erase();
  return isAny ? std::move(copy) : nullptr;
}

/// The configurations of one kernel on one target, as they are tried.
class Search {
public:
  Search(Session &session, sema::Program &program, const ast::KernelDecl &kernel,
         const sema::GenericArgs &pins, const TargetArch &target)
      : session_(session), program_(program), kernel_(kernel), pins_(pins), target_(target) {
    for (sema::Choice &choice : program.choices(&kernel))
      if (llvm::none_of(pins.named, [&](const auto &pin) { return pin.first == choice.name; }))
        choices_.push_back(std::move(choice));
  }

  [[nodiscard]] bool hasChoices() const { return !choices_.empty(); }
  Choosing run(size_t most);

private:
  void tryAll(llvm::ArrayRef<Constants> all) {
    for (const Constants &constants : all)
      tryOne(constants);
  }
  void tryOne(const Constants &constants);
  void tryTogether();
  void tryNeighbours(llvm::ArrayRef<std::vector<int64_t>> values);
  void sample(const Prepared &made);

  Session &session_;
  sema::Program &program_;
  const ast::KernelDecl &kernel_;
  const sema::GenericArgs &pins_;
  const TargetArch &target_;
  std::vector<sema::Choice> choices_;
  Choosing found_;
  std::vector<SampleSizes> samples_;
  std::vector<std::vector<double>> times_;
  std::set<Constants> tried_;
  std::map<std::string, int32_t> protocols_;
};

/// Launches to compare configurations by. A kernel of many sizes has few that end in time, so more
/// are drawn than are kept; one configuration says which.
void Search::sample(const Prepared &made) {
  for (const ir::Value *size : model::freeSizes(*made.kernel))
    found_.sizes.push_back(size->nameHint().str());
  samples_ = sampleSizes(usesOfSizes(*made.kernel), communicates(*made.kernel), kDrawn);
  const auto endsInTime = [&](const SampleSizes &sample) {
    const auto time = made.estimate->nanoseconds(sample.sizes, sample.ranks);
    return time && *time <= kLongestAtFirst;
  };
  if (made.estimate)
    std::stable_partition(samples_.begin(), samples_.end(), endsInTime);
  samples_.resize(kSamples);
}

void Search::tryOne(const Constants &constants) {
  if (!tried_.insert(constants).second)
    return;
  const sema::KernelInstance *instance =
      program_.tryInstantiate(&kernel_, withConstants(pins_, constants));
  auto made = instance ? prepare(session_, program_, *instance, target_) : std::nullopt;
  if (!made || (made->estimate && !made->estimate->isPossible()))
    return;
  if (found_.possible.empty())
    sample(*made);
  std::vector<double> row;
  for (const SampleSizes &sample : samples_)
    row.push_back(made->estimate
                      ? made->estimate->nanoseconds(sample.sizes, sample.ranks).value_or(kNone)
                      : kNone);
  times_.push_back(std::move(row));
  const std::string seen = protocolOf(*made->kernel, choices_, constants);
  const auto number = int32_t(protocols_.size());
  found_.possible.push_back(
      {constants, instance, protocols_.try_emplace(seen, number).first->second});
}

/// Where there are too many combinations: first those of what only this rank sees, then all that
/// other ranks see with the best of these.
void Search::tryTogether() {
  std::vector<sema::Choice> fixed = choices_;
  for (sema::Choice &choice : fixed)
    if (choice.isShared && choice.allowed.empty())
      choice.allowed = {64};
    else if (choice.isShared)
      choice.allowed.resize(1);
  tryAll(combinations(fixed, valuesOf(fixed), kMostConfigurations));
  std::vector<Constants> kept;
  for (const size_t i : cover(times_, kLocalKept))
    kept.push_back(found_.possible[i].constants);
  for (const Constants &local : kept) {
    std::vector<sema::Choice> shared = choices_;
    for (auto [choice, constant] : llvm::zip_equal(shared, local))
      if (!choice.isShared)
        choice.allowed = {constant.second};
    tryAll(combinations(shared, valuesOf(shared), kMostConfigurations / kLocalKept));
  }
}

/// Where not all combinations are tried: the next values of each choice, from those that are the
/// best so far.
void Search::tryNeighbours(llvm::ArrayRef<std::vector<int64_t>> values) {
  const size_t end = tried_.size() + kMostNeighbours;
  bool isNew = true;
  while (isNew) {
    isNew = false;
    for (const size_t i : cover(times_, kLocalKept)) {
      const Constants best = found_.possible[i].constants;
      for (size_t c = 0; c < best.size(); ++c) {
        const auto at = size_t(llvm::find(values[c], best[c].second) - values[c].begin());
        for (const size_t next : {at + 1, at - 1}) {
          Constants other = best;
          if (next >= values[c].size() || tried_.size() >= end)
            continue;
          other[c].second = values[c][next];
          isNew |= !tried_.contains(other);
          tryOne(other);
        }
      }
    }
  }
}

Choosing Search::run(size_t most) {
  const std::vector<std::vector<int64_t>> values = valuesOf(choices_);
  double all = 1;
  for (const std::vector<int64_t> &list : values)
    all *= double(list.size());
  const bool hasShared =
      llvm::any_of(choices_, [](const sema::Choice &choice) { return choice.isShared; });
  if (all > double(kMostConfigurations) && hasShared)
    tryTogether();
  if (found_.possible.empty())
    tryAll(combinations(choices_, values, kMostConfigurations));
  if (all > double(kMostConfigurations))
    tryNeighbours(values);
  // Samples that no configuration ends in time are no sizes that anybody launches.
  for (size_t s = 0; s < samples_.size(); ++s) {
    double best = kNone;
    for (const std::vector<double> &row : times_)
      best = std::min(best, row[s]);
    if (best > kLongestLaunch)
      for (std::vector<double> &row : times_)
        row[s] = kNone;
  }
  found_.kept = cover(times_, most);
  found_.times = std::move(times_);
  return std::move(found_);
}

/// Whether the model could say something of some launch.
bool hasTimes(const Choosing &choosing) {
  return llvm::any_of(choosing.times, [](const std::vector<double> &row) {
    return llvm::any_of(row, [](double time) { return time < kNone; });
  });
}

/// Where a target has no model its executors take what the kernel's text suggests.
Choosing onlyOne(Session &session, sema::Program &program, const ast::KernelDecl &kernel,
                 const sema::GenericArgs &pins) {
  Choosing made;
  if (const sema::KernelInstance *instance =
          program.instantiate(&kernel, pins, kernel.name.range, session.diagnostics)) {
    made.possible.push_back({{}, instance, 0});
    made.kept.push_back(0);
  }
  return made;
}

} // namespace

std::string text(const Constants &constants) {
  std::string text;
  for (const auto &[name, value] : constants)
    text += (text.empty() ? "" : " ") + name + "=" + std::to_string(value);
  return text;
}

Choosing choose(Session &session, sema::Program &program, const ast::KernelDecl &kernel,
                const sema::GenericArgs &pins, const TargetArch &target) {
  Search search(session, program, kernel, pins, target);
  // Mistakes of the kernel itself are told once, by the values that its text suggests.
  Choosing made = onlyOne(session, program, kernel, pins);
  if (made.kept.empty() || !search.hasChoices() || !target.target->facts(target.arch))
    return made;
  PhaseScope phase("choosing constants");
  Choosing searched = search.run(session.options.variants);
  // Where sizes alone do not say how many bodies there are, one configuration is as good as another
  // to the model.
  if (!searched.possible.empty() && !hasTimes(searched))
    return made;
  if (!searched.kept.empty())
    return searched;
  std::vector<std::string> names;
  for (const sema::Choice &choice : program.choices(&kernel))
    names.push_back("`" + choice.name + "`");
  session.diagnostics.report(kernel.name.range, diag::no_configuration, kernel.name.name,
                             llvm::join(names, ", "), target.arch, "");
  return {};
}

std::optional<double> estimateTime(Session &session, sema::Program &program, const Variant &variant,
                                   const TargetArch &target, llvm::ArrayRef<int64_t> sizes,
                                   int64_t ranks) {
  const auto made = prepare(session, program, *variant.instance, target);
  return made && made->estimate ? made->estimate->nanoseconds(sizes, ranks) : std::nullopt;
}

std::optional<backend::LaunchTimeline> timelineOf(Session &session, sema::Program &program,
                                                  const Variant &variant, const TargetArch &target,
                                                  llvm::ArrayRef<int64_t> sizes, int64_t ranks) {
  const auto made = prepare(session, program, *variant.instance, target);
  return made && made->estimate ? made->estimate->timeline(sizes, ranks) : std::nullopt;
}

bool haveChoices(Session &session, const sema::Program &program,
                 llvm::ArrayRef<const ast::KernelDecl *> kernels) {
  return llvm::any_of(kernels, [&](const ast::KernelDecl *kernel) {
    const sema::GenericArgs given = constantsFor(session, *kernel);
    return llvm::any_of(program.choices(kernel), [&](const sema::Choice &choice) {
      return llvm::none_of(given.named,
                           [&](const auto &named) { return named.first == choice.name; });
    });
  });
}

namespace {

/// Keeps as few variants of the alternatives of one name as of one kernel: those with which, by
/// whichever alternative, hardly any launch is far from the best. One at least of each remains.
void coverTogether(llvm::ArrayRef<Choosing *> alternatives, size_t most) {
  std::vector<std::vector<double>> times;
  std::vector<std::pair<Choosing *, size_t>> origin;
  for (Choosing *one : alternatives) {
    if (one->times.empty() || one->sizes != alternatives.front()->sizes)
      return;
    for (const size_t kept : one->kept) {
      times.push_back(one->times[kept]);
      origin.emplace_back(one, kept);
    }
  }
  llvm::DenseMap<Choosing *, std::vector<size_t>> chosen;
  for (const size_t i : cover(times, most))
    chosen[origin[i].first].push_back(origin[i].second);
  for (Choosing *one : alternatives) {
    std::vector<size_t> &kept = chosen[one];
    if (kept.empty())
      kept.push_back(one->kept.front());
    one->kept = std::move(kept);
  }
}

} // namespace

LoweredModule lowerVariants(Session &session, sema::Program &program,
                            llvm::ArrayRef<const ast::KernelDecl *> kernels,
                            const TargetArch &target, std::unique_ptr<ir::Module> *written) {
  std::vector<const sema::KernelInstance *> instances;
  struct Row {
    int64_t number;
    Variant variant;
  };
  llvm::StringMap<Row> rows;
  std::map<const ast::KernelDecl *, Choosing> choosings;
  for (const ast::KernelDecl *kernel : kernels) {
    Choosing made = choose(session, program, *kernel, constantsFor(session, *kernel), target);
    if (made.kept.empty())
      return {};
    choosings.emplace(kernel, std::move(made));
  }
  for (const ast::KernelDecl *family : program.families()) {
    std::vector<Choosing *> alternatives;
    for (const ast::KernelDecl *one : program.alternatives(family))
      if (const auto it = choosings.find(one); it != choosings.end())
        alternatives.push_back(&it->second);
    if (alternatives.size() == family->alternatives.size())
      coverTogether(alternatives, session.options.variants);
  }
  for (const ast::KernelDecl *kernel : kernels) {
    const Choosing &made = choosings.find(kernel)->second;
    for (const auto [i, kept] : llvm::enumerate(made.kept)) {
      const Variant &variant = made.possible[kept];
      instances.push_back(variant.instance);
      rows[variant.instance->name] = {int64_t(i), variant};
    }
  }
  LoweredModule lowered = lowerKernels(session, program, instances);
  for (ir::Op &op : lowered.module->body().ops()) {
    if (!op.is(ir::OpKind::Kernel))
      continue;
    const Row &row = rows.find(op.get(ir::attr::name))->second;
    const std::string &entry = row.variant.instance->entry;
    op.set(ir::attr::entry, entry);
    op.set(ir::attr::variant, row.number);
    op.set(ir::attr::protocol, row.variant.protocol);
    op.set(ir::attr::constants, text(row.variant.constants));
    op.set(ir::attr::name, row.number == 0 ? entry : entry + "$" + std::to_string(row.number));
  }
  if (written)
    *written = communicatingKernels(*lowered.module);
  if (!optimize(session, lowered, session.options.optLevel))
    return {};
  return lowered;
}

} // namespace dtile::driver
