// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Builds every configuration as far as the machine's passes go, asks the model, and keeps a few.
#include "backend/driver/choose/choose.h"

#include "backend/driver/choose/configurations.h"
#include "backend/driver/choose/size_ranges.h"
#include "frontend/base/check.h"
#include "frontend/base/parallel.h"
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
/// Configurations that are tried in the other order, too.
constexpr size_t kOrdersTried = 16;
/// Variants of a kernel that is an overlap with one of several plans.
constexpr size_t kLeastOfPlan = 2;
/// What a function for launches that move parts of words has to gain on average over these. They
/// are few.
constexpr double kLeastOfUnaligned = 0.01;
/// A size of which rows are no words.
constexpr int64_t kOddSize = 4097;
/// Samples that take longer are no sizes that anybody launches.
constexpr double kLongestLaunch = 2e7;
/// The same by a configuration that nobody has chosen.
constexpr double kLongestAtFirst = 4 * kLongestLaunch;
constexpr double kNone = std::numeric_limits<double>::infinity();

/// A configuration with the passes of a machine run on it.
struct PreparedVariant {
  LoweredModule lowered;
  std::optional<passes::DriftAnswer> drift;
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

/// Constants in place of scalars. The passes have not seen them, as a launch's code has not.
void setScalars(ir::Module &module, ir::Op &kernel, const Scalars &scalars) {
  ir::Builder builder(module);
  for (ir::Op &op : kernel.body().ops()) {
    if (!op.is(ir::OpKind::ScalarParam))
      continue;
    const auto it = scalars.find(op.get(ir::attr::name));
    const DType dtype = op.result()->type().elementOrIndex();
    if (it == scalars.end() || isFloat(dtype))
      continue;
    builder.setInsertionPoint(&op);
    op.result()->replaceAllUsesWith(op.result()->type().isIndex() ? builder.constIndex(it->second)
                                    : dtype == DType::Bool ? builder.constBool(it->second != 0)
                                                           : builder.constInt(dtype, it->second));
  }
}

/// Nothing where the configuration is impossible; what is wrong with it is nobody's mistake.
std::optional<PreparedVariant> prepare(Session &session, sema::Program &program,
                                       const sema::KernelInstance &instance,
                                       const TargetArch &target, const Scalars &scalars = {},
                                       const passes::DriftAnswer *assumedDrift = nullptr) {
  Diagnostics silent(session.sources);
  PreparedVariant made;
  made.lowered = lowerKernels(session, program, &instance);
  passes::PassContext context(silent);
  context.assumedDrift = assumedDrift;
  context.driftMemory = &session.driftMemory;
  if (!runPipeline(*made.lowered.module, session.options.optLevel, context))
    return std::nullopt;
  made.drift = std::move(context.drift);
  made.module = prepareFor(silent, *made.lowered.module, target);
  if (!made.module)
    return std::nullopt;
  made.kernel = firstKernel(*made.module);
  setScalars(*made.module, *made.kernel, scalars);
  made.estimate = target.target->estimate(*made.kernel, target.facts());
  return made;
}

bool isPossible(const PreparedVariant &made) {
  return !made.estimate || made.estimate->isPossible();
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

/// In which order a variant adds up the numbers of a row. Tiles may be of any size where only
/// products over the loop add up; where elements of one tile are added, its shape decides.
std::string sumsOf(ir::Op &kernel, llvm::ArrayRef<sema::Choice> choices,
                   const Constants &constants) {
  bool addsInTiles = false;
  std::string products;
  ir::walk(kernel, [&](ir::Op &op) {
    addsInTiles |= op.is(ir::OpKind::Reduce) || op.is(ir::OpKind::Scan);
    if (!op.is(ir::OpKind::Dot))
      return;
    // Instructions add the products of one step in an order of their own.
    const std::string one =
        (op.has(ir::attr::matrix) ? op.get(ir::attr::matrix).str() : std::string()) +
        (op.has(ir::attr::warpgroups) ? " warpgroups" : "");
    if (!llvm::StringRef(products).contains("[" + one + "]"))
      products += "[" + one + "]";
  });
  std::string sums = products;
  for (auto [choice, constant] : llvm::zip_equal(choices, constants)) {
    using Use = sema::Choice::Use;
    if (choice.use != Use::Order &&
        (addsInTiles || (choice.use != Use::Block && choice.use != Use::Programs)))
      sums += " " + constant.first + "=" + std::to_string(constant.second);
  }
  return sums;
}

/// The configurations of one kernel on one target, as they are tried.
class Search {
public:
  Search(Session &session, sema::Program &program, const ast::KernelDecl &kernel,
         const sema::GenericArgs &pins, const TargetArch &target)
      : session_(session), program_(program), kernel_(kernel), pins_(pins), target_(target) {
    auto [choices, values] = choiceValues(program, kernel, pins);
    choices_ = std::move(choices);
    values_ = std::move(values);
    // The other orders are tried with what is best in the first.
    for (auto [choice, list] : llvm::zip_equal(choices_, values_))
      if (choice.use == sema::Choice::Use::Order && list.size() > 1) {
        orders_.assign(list.begin() + 1, list.end());
        choice.allowed.resize(1);
        list.resize(1);
      }
  }

  [[nodiscard]] bool hasChoices() const { return !choices_.empty(); }
  [[nodiscard]] llvm::ArrayRef<sema::Choice> choices() const { return choices_; }
  Choosing run(size_t most, llvm::ArrayRef<Constants> wanted);
  /// Without a model: what the text suggests, and what is wanted.
  Choosing runWithoutModel(const Constants &usual, llvm::ArrayRef<Constants> wanted);

private:
  /// What a configuration that can run has shown.
  struct Tried {
    std::vector<double> times;
    std::string seen, sums;
  };

  void tryAll(llvm::ArrayRef<Constants> all);
  void tryOne(const Constants &constants) { tryAll(constants); }
  /// Changes nothing, so that several threads can; nothing where it cannot run.
  [[nodiscard]] std::optional<Tried> look(const sema::KernelInstance &instance,
                                          const Constants &constants) const;
  [[nodiscard]] std::optional<Tried> look(const PreparedVariant &made,
                                          const Constants &constants) const;
  void add(const sema::KernelInstance &instance, const Constants &constants, Tried tried);
  void tryTogether();
  void tryNeighbours(llvm::ArrayRef<std::vector<int64_t>> values, size_t kept);
  void tryOrders();
  void sample(const PreparedVariant &made);
  [[nodiscard]] std::vector<KnownSizes> knownSizes() const;
  void tryWanted(llvm::ArrayRef<Constants> wanted);
  void settleSums(size_t most);
  /// Leaves the configurations that add up so.
  void keepSums(const std::string &sums);
  void leaveOutFunctions();
  [[nodiscard]] const passes::DriftAnswer *drift() const { return drift_ ? &*drift_ : nullptr; }
  [[nodiscard]] bool isAsAssumed() const;

  Session &session_;
  sema::Program &program_;
  const ast::KernelDecl &kernel_;
  const sema::GenericArgs &pins_;
  const TargetArch &target_;
  std::vector<sema::Choice> choices_;
  std::vector<std::vector<int64_t>> values_;
  Choosing found_;
  std::vector<SampleSizes> samples_;
  /// They are those of `--sizes`.
  bool areSizesKnown_ = false;
  std::vector<int64_t> orders_;
  std::vector<std::vector<double>> times_;
  std::set<Constants> tried_;
  std::map<std::string, int32_t> protocols_;
  /// What bound-drift has found of the first configuration. It takes half of the time that one
  /// takes, and constants hardly ever matter to it: the others are looked at as if it were so of
  /// them, and of those that are built it is proved (isAsAssumed).
  std::optional<passes::DriftAnswer> drift_;
  bool assumesDrift_ = true;
};

/// What `--sizes` says of the kernel's sizes. A launch that names none of them is of another kernel
/// of the file.
std::vector<KnownSizes> Search::knownSizes() const {
  std::vector<KnownSizes> known;
  for (const std::string &launch : session_.options.expectedSizes) {
    std::string why;
    const auto ranges = readSizeRanges(launch, why);
    DTILE_CHECK(ranges, "sizes are checked when they are given");
    const auto find = [&](llvm::StringRef name) -> std::optional<SizeRange> {
      const auto it =
          llvm::find_if(*ranges, [&](const SizeRange &range) { return range.name == name; });
      return it == ranges->end() ? std::nullopt : std::optional(*it);
    };
    KnownSizes one{{}, find(kRanks)};
    for (const std::string &name : found_.sizes)
      one.sizes.push_back(find(name));
    if (one.ranks || llvm::any_of(one.sizes, [](const auto &size) { return size.has_value(); }))
      known.push_back(std::move(one));
  }
  return known;
}

/// Launches to compare configurations by. A kernel of many sizes has few that end in time, so more
/// are drawn than are kept; one configuration says which.
void Search::sample(const PreparedVariant &made) {
  for (const ir::Value *size : model::freeSizes(*made.kernel))
    found_.sizes.push_back(size->nameHint().str());
  const std::vector<KnownSizes> known = knownSizes();
  samples_ = sampleSizes(usesOfSizes(*made.kernel), communicates(*made.kernel), kDrawn, known);
  areSizesKnown_ = !known.empty();
  const auto endsInTime = [&](const SampleSizes &sample) {
    const auto time = made.estimate->nanoseconds(sample.sizes, sample.ranks);
    return time && *time <= kLongestAtFirst;
  };
  if (made.estimate)
    std::stable_partition(samples_.begin(), samples_.end(), endsInTime);
  samples_.resize(kSamples);
}

std::optional<Search::Tried> Search::look(const PreparedVariant &made,
                                          const Constants &constants) const {
  Tried tried;
  for (const SampleSizes &sample : samples_)
    tried.times.push_back(
        made.estimate ? made.estimate->nanoseconds(sample.sizes, sample.ranks).value_or(kNone)
                      : kNone);
  tried.seen = protocolOf(*made.kernel, choices_, constants);
  tried.sums = sumsOf(*made.kernel, choices_, constants);
  return tried;
}

std::optional<Search::Tried> Search::look(const sema::KernelInstance &instance,
                                          const Constants &constants) const {
  const auto made = prepare(session_, program_, instance, target_, {}, drift());
  return made && isPossible(*made) ? look(*made, constants) : std::nullopt;
}

void Search::add(const sema::KernelInstance &instance, const Constants &constants, Tried tried) {
  times_.push_back(std::move(tried.times));
  const auto number = int32_t(protocols_.size());
  found_.possible.push_back({constants, &instance,
                             protocols_.try_emplace(tried.seen, number).first->second,
                             std::move(tried.sums)});
}

/// Instances are made one after the other, as the program keeps them. What they become is looked at
/// side by side, and added in the given order.
void Search::tryAll(llvm::ArrayRef<Constants> all) {
  std::vector<std::pair<Constants, const sema::KernelInstance *>> fresh;
  for (const Constants &constants : all)
    if (tried_.insert(constants).second)
      if (const sema::KernelInstance *instance =
              program_.tryInstantiate(&kernel_, withConstants(pins_, constants)))
        fresh.emplace_back(constants, instance);
  size_t first = 0;
  // The first that can run says which launches all are compared by.
  for (; first < fresh.size() && found_.possible.empty(); ++first) {
    const auto &[constants, instance] = fresh[first];
    const auto made = prepare(session_, program_, *instance, target_);
    if (!made || !isPossible(*made))
      continue;
    sample(*made);
    if (assumesDrift_)
      drift_ = made->drift;
    add(*instance, constants, *look(*made, constants));
  }
  std::vector<std::optional<Tried>> tried(fresh.size());
  inParallel(fresh.size() - first, [&](size_t i) {
    const auto &[constants, instance] = fresh[first + i];
    tried[first + i] = look(*instance, constants);
  });
  for (size_t i = first; i < fresh.size(); ++i)
    if (tried[i])
      add(*fresh[i].second, fresh[i].first, std::move(*tried[i]));
}

void Search::tryWanted(llvm::ArrayRef<Constants> wanted) {
  for (const Constants &constants : wanted) {
    if (llvm::equal(constants, choices_, [&](const auto &constant, const sema::Choice &choice) {
          const auto &[name, value] = constant;
          const bool isAllowed =
              choice.allowed.empty() || llvm::is_contained(choice.allowed, value) ||
              (choice.use == sema::Choice::Use::Order && llvm::is_contained(orders_, value));
          return name == choice.name && isAllowed;
        }))
      tryOne(constants);
    const auto it = llvm::find_if(
        found_.possible, [&](const Variant &variant) { return variant.constants == constants; });
    found_.wanted.push_back(it == found_.possible.end()
                                ? std::nullopt
                                : std::optional<size_t>(it - found_.possible.begin()));
  }
}

/// Leaves the configurations that add up in one order: that with which launches take the least
/// time.
void Search::settleSums(size_t most) {
  std::map<std::string, std::vector<std::vector<double>>> groups;
  for (auto [variant, row] : llvm::zip_equal(found_.possible, times_))
    groups[variant.sums].push_back(row);
  const std::string *best = nullptr;
  double least = kNone;
  for (const auto &[sums, rows] : groups)
    if (const double loss = lossOf(rows, cover(rows, most), times_); !best || loss < least) {
      best = &sums;
      least = loss;
    }
  keepSums(std::string(*best));
}

void Search::keepSums(const std::string &sums) {
  std::vector<std::optional<size_t>> moved(found_.possible.size());
  size_t count = 0;
  for (size_t i = 0; i < moved.size(); ++i)
    if (found_.possible[i].sums == sums) {
      moved[i] = count;
      found_.possible[count] = found_.possible[i];
      times_[count++] = times_[i];
    }
  found_.ruledOut = found_.possible.size() - count;
  found_.possible.resize(count);
  times_.resize(count);
  for (std::optional<size_t> &wanted : found_.wanted)
    if (wanted)
      wanted = moved[*wanted];
}

Choosing Search::runWithoutModel(const Constants &usual, llvm::ArrayRef<Constants> wanted) {
  assumesDrift_ = false;
  tryOne(usual);
  if (found_.possible.empty())
    return {};
  tryWanted(wanted);
  if (session_.options.batchInvariant)
    keepSums(std::string(found_.possible.front().sums));
  found_.kept = {0};
  found_.times = std::move(times_);
  return std::move(found_);
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

/// The next values of each choice, from the `kept` configurations that are the best so far.
void Search::tryNeighbours(llvm::ArrayRef<std::vector<int64_t>> values, size_t kept) {
  const size_t end = tried_.size() + kMostNeighbours;
  // Of one round; they are looked at side by side.
  std::vector<Constants> fresh;
  do {
    fresh.clear();
    for (const size_t i : cover(times_, kept)) {
      const Constants best = found_.possible[i].constants;
      for (size_t c = 0; c < best.size(); ++c) {
        const auto at = size_t(llvm::find(values[c], best[c].second) - values[c].begin());
        for (const size_t next : {at + 1, at - 1}) {
          Constants other = best;
          if (next >= values[c].size() || tried_.size() + fresh.size() >= end)
            continue;
          other[c].second = values[c][next];
          if (!tried_.contains(other) && !llvm::is_contained(fresh, other))
            fresh.push_back(other);
        }
      }
    }
    tryAll(fresh);
  } while (!fresh.empty());
}

/// What is best where movement and computation overlap, in the other order.
void Search::tryOrders() {
  std::vector<Constants> best;
  for (const size_t i : cover(times_, kOrdersTried))
    best.push_back(found_.possible[i].constants);
  std::vector<Constants> reordered;
  for (Constants &constants : best)
    for (auto [choice, constant] : llvm::zip_equal(choices_, constants))
      for (const int64_t order :
           choice.use == sema::Choice::Use::Order ? orders_ : std::vector<int64_t>()) {
        constant.second = order;
        reordered.push_back(constants);
      }
  tryAll(reordered);
}

Choosing Search::run(size_t most, llvm::ArrayRef<Constants> wanted) {
  double all = 1;
  for (const std::vector<int64_t> &list : values_)
    all *= double(list.size());
  const bool hasShared =
      llvm::any_of(choices_, [](const sema::Choice &choice) { return choice.isShared; });
  if (all > double(kMostConfigurations) && hasShared)
    tryTogether();
  if (found_.possible.empty())
    tryAll(combinations(choices_, values_, kMostConfigurations));
  // Not all combinations were tried.
  if (all > double(kMostConfigurations))
    tryNeighbours(values_, kLocalKept);
  // Instructions of warpgroups have any number of columns.
  if (target_.facts()->groupRows > 0)
    if (const auto finer = finerValuesOf(choices_, values_); finer != values_)
      tryNeighbours(finer, most);
  tryOrders();
  if (!found_.possible.empty())
    tryWanted(wanted);
  // Samples that no configuration ends in time are no sizes that anybody launches.
  for (size_t s = 0; s < samples_.size() && !areSizesKnown_; ++s) {
    double best = kNone;
    for (const std::vector<double> &row : times_)
      best = std::min(best, row[s]);
    if (best > kLongestLaunch)
      for (std::vector<double> &row : times_)
        row[s] = kNone;
  }
  if (session_.options.batchInvariant && !times_.empty())
    settleSums(most);
  found_.kept = cover(times_, most);
  leaveOutFunctions();
  if (!isAsAssumed()) {
    Search exact(session_, program_, kernel_, pins_, target_);
    exact.assumesDrift_ = false;
    return exact.run(most, wanted);
  }
  found_.times = std::move(times_);
  found_.drift = std::move(drift_);
  return std::move(found_);
}

/// Functions for tiles that are moved in parts of words are large, and few launches take them: they
/// are those of the variants that are best for such launches. A variant of each protocol has one,
/// as ranks choose a protocol without knowing each other's tensors.
void Search::leaveOutFunctions() {
  std::vector<std::vector<double>> times(found_.kept.size());
  std::vector<char> mayMoveParts(times.size());
  inParallel(times.size(), [&](size_t i) {
    const Variant &variant = found_.possible[found_.kept[i]];
    const auto made = prepare(session_, program_, *variant.instance, target_, {}, drift());
    if (!made || !made->estimate)
      return;
    backend::LaunchEstimate &estimate = *made->estimate;
    for (const SampleSizes &sample : samples_) {
      const bool isAsked = estimate.movesParts(sample.odd, sample.ranks);
      times[i].push_back(isAsked ? estimate.nanoseconds(sample.odd, sample.ranks).value_or(kNone)
                                 : kNone);
    }
    const SampleSizes &any = samples_.front();
    const std::vector<int64_t> odd(any.sizes.size(), kOddSize);
    mayMoveParts[i] = estimate.movesParts(odd, any.ranks) ? 1 : 0;
  });
  if (!llvm::all_of(mayMoveParts, [](char one) { return one != 0; }))
    return;
  const std::vector<size_t> best = cover(times, times.size(), kLeastOfUnaligned);
  std::set<int32_t> protocols;
  for (const size_t i : best)
    protocols.insert(found_.possible[found_.kept[i]].protocol);
  for (const auto &[i, kept] : llvm::enumerate(found_.kept)) {
    Variant &variant = found_.possible[kept];
    variant.wholeWords = !llvm::is_contained(best, i) && !protocols.insert(variant.protocol).second;
  }
  // What was measured runs as it was measured.
  for (const std::optional<size_t> &wanted : found_.wanted)
    if (wanted)
      found_.possible[*wanted].wholeWords = false;
}

/// Whether what was assumed of the configurations that may be built is so.
bool Search::isAsAssumed() const {
  if (!drift_)
    return true;
  std::vector<size_t> built = found_.kept;
  for (const std::optional<size_t> &wanted : found_.wanted)
    if (wanted && !llvm::is_contained(built, *wanted))
      built.push_back(*wanted);
  std::vector<char> isSo(built.size());
  inParallel(built.size(), [&](size_t i) {
    Diagnostics silent(session_.sources);
    passes::PassContext context(silent);
    context.driftMemory = &session_.driftMemory;
    LoweredModule lowered = lowerKernels(session_, program_, found_.possible[built[i]].instance);
    // Nothing is assumed of kernels whose ranks meet anyway.
    isSo[i] = runPipeline(*lowered.module, session_.options.optLevel, context) &&
              (!context.drift || context.drift == drift_);
  });
  return llvm::all_of(isSo, [](char one) { return one != 0; });
}

/// Variants a kernel may have. Those that an overlap is with one plan and another share them, so
/// that a build does not take longer for each plan; pinned, one has all.
size_t mostVariants(const Session &session, const sema::Program &program,
                    const ast::KernelDecl &kernel) {
  const auto most = size_t(session.options.variants);
  const ast::KernelDecl *family = program.familyOfJoined(&kernel);
  if (family == nullptr || alternativesOf(session, program, *family).size() == 1 ||
      session.options.kernel == kernel.name.name)
    return most;
  return std::max(std::min(most, kLeastOfPlan), most / family->alternatives.size());
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
    made.possible.push_back({{}, instance, 0, ""});
    made.kept.push_back(0);
  }
  return made;
}

} // namespace

bool communicates(const ir::Op &kernel) {
  return llvm::any_of(kernel.body().ops(), [](const ir::Op &op) {
    return op.is(ir::OpKind::SignalParam) ||
           (op.is(ir::OpKind::Param) && (op.get(ir::attr::mode) == ir::ParamMode::Symm ||
                                         op.get(ir::attr::mode) == ir::ParamMode::Scratch));
  });
}

std::string text(const Constants &constants) {
  std::string text;
  for (const auto &[name, value] : constants)
    text += (text.empty() ? "" : " ") + name + "=" + std::to_string(value);
  return text;
}

ChoiceValues choiceValues(const sema::Program &program, const ast::KernelDecl &kernel,
                          const sema::GenericArgs &pins) {
  ChoiceValues found;
  for (sema::Choice &choice : program.choices(&kernel))
    if (llvm::none_of(pins.named, [&](const auto &pin) { return pin.first == choice.name; }))
      found.choices.push_back(std::move(choice));
  found.values = valuesOf(found.choices);
  return found;
}

sema::GenericArgs withConstants(const sema::GenericArgs &pins, const Constants &constants) {
  sema::GenericArgs args = pins;
  for (const auto &[name, value] : constants)
    args.chosen.emplace_back(
        name, sema::GenericValue{.kind = sema::GenericValue::Kind::Int, .intValue = value});
  return args;
}

Constants constantsOf(const sema::KernelInstance &instance, llvm::ArrayRef<sema::Choice> choices) {
  Constants constants;
  for (const sema::Choice &choice : choices)
    for (auto [generic, value] : llvm::zip(instance.decl->generics, instance.generics))
      if (generic.name.name == choice.name)
        constants.emplace_back(choice.name, value.intValue);
  return constants;
}

Choosing choose(Session &session, sema::Program &program, const ast::KernelDecl &kernel,
                const sema::GenericArgs &pins, const TargetArch &target,
                llvm::ArrayRef<Constants> wanted) {
  Search search(session, program, kernel, pins, target);
  // Mistakes of the kernel itself are told once, by the values that its text suggests.
  Choosing made = onlyOne(session, program, kernel, pins);
  if (made.kept.empty())
    return made;
  if (!search.hasChoices()) {
    for (const Constants &constants : wanted)
      made.wanted.push_back(constants.empty() ? std::optional<size_t>(0) : std::nullopt);
    return made;
  }
  PhaseScope phase("choosing constants");
  const bool hasModel = target.facts() != nullptr;
  Choosing searched =
      hasModel ? search.run(mostVariants(session, program, kernel), wanted) : Choosing();
  // Where sizes alone do not say how many bodies there are, one configuration is as good as another
  // to the model.
  if (!hasModel || (!searched.possible.empty() && !hasTimes(searched))) {
    if (wanted.empty())
      return made;
    const Constants usual = constantsOf(*made.possible.front().instance, search.choices());
    Choosing chosen = Search(session, program, kernel, pins, target).runWithoutModel(usual, wanted);
    return chosen.kept.empty() ? made : chosen;
  }
  if (!searched.kept.empty())
    return searched;
  std::vector<std::string> names;
  for (const sema::Choice &choice : program.choices(&kernel))
    names.push_back("`" + choice.name + "`");
  session.diagnostics.report(kernel.name.range, diag::no_configuration, kernel.name.name,
                             llvm::join(names, ", "), target.arch, "");
  return {};
}

struct VariantModel::Prepared : PreparedVariant {};

VariantModel::VariantModel(Session &session, sema::Program &program, const Choosing &choosing,
                           const Variant &variant, const TargetArch &target, const Scalars &scalars)
    : wholeWords_(variant.wholeWords) {
  if (auto made = prepare(session, program, *variant.instance, target, scalars,
                          choosing.drift ? &*choosing.drift : nullptr))
    made_ = std::make_unique<Prepared>(Prepared{std::move(*made)});
}
VariantModel::~VariantModel() = default;
VariantModel::VariantModel(VariantModel &&) noexcept = default;
VariantModel &VariantModel::operator=(VariantModel &&) noexcept = default;

std::optional<double> VariantModel::nanoseconds(llvm::ArrayRef<int64_t> sizes, int64_t ranks) {
  if (wholeWords_ && made_ && made_->estimate && made_->estimate->movesParts(sizes, ranks))
    return std::nullopt;
  return nanosecondsPinned(sizes, ranks);
}

std::optional<double> VariantModel::nanosecondsPinned(llvm::ArrayRef<int64_t> sizes,
                                                      int64_t ranks) {
  return made_ && made_->estimate ? made_->estimate->nanoseconds(sizes, ranks) : std::nullopt;
}

std::optional<backend::LaunchTimeline> VariantModel::timeline(llvm::ArrayRef<int64_t> sizes,
                                                              int64_t ranks) {
  return made_ && made_->estimate ? made_->estimate->timeline(sizes, ranks) : std::nullopt;
}

bool VariantModel::isPossible() const { return !made_ || driver::isPossible(*made_); }

std::vector<std::string> VariantModel::sizes() const {
  std::vector<std::string> names;
  if (made_)
    for (const ir::Value *size : model::freeSizes(*made_->kernel))
      names.push_back(size->nameHint().str());
  return names;
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

} // namespace dtile::driver
